"""Handing policies over to programs without JAX: ``jaxsched.export``."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.experiment.names import environment_changes
from jaxsched.experiment.run import Run
from jaxsched.experiment.trained import TrainedPolicy
from jaxsched.files import PathLike as AnyPath
from jaxsched.runs.handing_over import export_found
from jaxsched.runs.policies import find


def export(
    policy: Any,
    folder: AnyPath,
    *,
    formats: Sequence[str] = ("safetensors",),
    seed: int | None = None,
    servers: str | None = None,
    overwrite: bool = False,
    **environment: Any,
) -> Path:
    """Write a hand-over folder: weights, programs, a manifest and rows to check readers with.

    Args:
      policy: a run, a loaded policy, or what ``jaxsched export`` takes: "SYSTEM/pretrained",
        "SYSTEM/RULE", the folder of a run.
      folder: to write.
      formats: "safetensors", "onnx", "stablehlo" and others.
      seed: which seed's policy of a run; the best one's if absent.
      servers: the cluster of a rule, such as "40x8".
      overwrite: replace a hand-over that is there.
      environment: options of the environment of a rule.

    Returns:
      The folder.

    Raises:
      JaxschedError: no such policy or format, or the folder cannot be written.
    """
    files: dict[str, Any] = {"format": list(formats), "overwrite": overwrite}
    if isinstance(policy, Run | TrainedPolicy):
        return export_found(find(policy.place), Path(folder), seed=seed, **files)
    if not isinstance(policy, str | PathLike):
        raise JaxschedError(f"a policy is {policy!r}; accepted: a run, a loaded policy or a name")
    found = find(str(policy))
    changes = environment_changes(found.system, servers, environment)
    return export_found(found, Path(folder), changes=changes, seed=seed, **files)
