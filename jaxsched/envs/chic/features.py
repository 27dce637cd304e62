"""The observation's entries in words, for the hand-over to other programs (section 4)."""

from jaxsched.elastic.models import IDENTIFIERS, NAMES
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.tables import NUM_MODELS, SCALARS
from jaxsched.types import Feature


def features_of(env: Chic) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    iterations, units, waiting = (
        float(SCALARS[name]) for name in ("iter_scale", "alloc_scale", "backlog_scale")
    )
    features = {
        f"row*.{entry}": Feature(f"1 if the workload is a {name}", "1")
        for entry, name in zip(IDENTIFIERS[:NUM_MODELS], NAMES[:NUM_MODELS], strict=True)
    }
    features |= {
        "row*.remaining": Feature("iterations left", "iterations", iterations),
        "row*.workers": Feature("workers in this phase", "tasks", units),
        "backlog": Feature("workloads that wait behind the window", "workloads", waiting),
    }
    if not env.pair:
        features["row*.servers"] = Feature("parameter servers in this phase", "tasks", units)
    return features
