"""The observation's entries in words, for the hand-over to other programs (section 4)."""

from jaxsched.elastic.models import IDENTIFIERS, NAMES
from jaxsched.envs.dl2.environment import DL2
from jaxsched.types import Feature

D_SCALE, E_SCALE = 50.0, 100.0  # of ``DL2.params``


def features_of(env: DL2) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    if env.observation == "artefact":
        return {
            "row*.type": Feature("number of the job's type from 1 on", "1"),
            "row*.slots": Feature("slots since the job arrived", "slots"),
            "row*.fraction": Feature("share of the epochs that remains", "1"),
            "row*.share": Feature("dominant share allocated in this slot", "1"),
            "row*.workers": Feature("workers in this slot", "tasks"),
            "row*.ps": Feature("parameter servers in this slot", "tasks"),
        }
    features = {
        f"row*.{entry}": Feature(f"1 if the job is a {name}", "1")
        for entry, name in zip(IDENTIFIERS, NAMES, strict=True)
    }
    return features | {
        "row*.slots": Feature("slots since the job arrived", "slots", D_SCALE),
        "row*.remaining": Feature("remaining epochs by the estimate", "epochs", E_SCALE),
        "row*.share": Feature("dominant share allocated in this slot", "1"),
        "row*.workers": Feature("workers in this slot", "tasks", float(env.max_workers)),
        "row*.ps": Feature("parameter servers in this slot", "tasks", float(env.max_ps)),
    }
