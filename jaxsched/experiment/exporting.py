"""Handing policies over to programs without JAX: ``jaxsched.export``."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.experiment.names import environment_changes
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.run import Run
from jaxsched.experiment.sources import Source, resolve
from jaxsched.experiment.trained import TrainedPolicy
from jaxsched.exports.environments import export_environment
from jaxsched.files import PathLike as AnyPath
from jaxsched.runs.handing_over import export_found
from jaxsched.runs.overrides import change_environment
from jaxsched.runs.policies import Named, find
from jaxsched.systems.base import System

DEFAULT_TABLES = 4
"""Job tables of an environment where neither a trace nor the system says how many."""


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


def export_tables(
    system: System,
    policy: Named | None,
    folder: Path,
    *,
    changes: Sequence[str] = (),
    trace: Source | None = None,
    options: TraceOptions | None = None,
    overwrite: bool = False,
) -> Path:
    """Write an environment with job tables, for programs without this library.

    Args:
      system: whose environment it is.
      policy: a trained policy whose environment is meant; None: the system's own.
      folder: to write.
      changes: of the environment, ``env.NAME=VALUE`` each.
      trace: where the job tables come from; the test traces if absent.
      options: how a trace becomes job tables.
      overwrite: replace what is there.

    Raises:
      JaxschedError: an option or a trace is refused, or the folder cannot be written.
    """
    env = system.environment() if policy is None else policy.trained()[0].env
    env = change_environment(env, changes)
    options = options or TraceOptions()
    if trace is None and options.num_traces is None:
        options = options._replace(num_traces=system.traces.num_test or DEFAULT_TABLES)
    episodes = resolve(trace or system.traces.test, system, options, env)
    episodes = episodes.made_with(options, system, env)
    return export_environment(system, env, system.params(env, episodes.tables), folder, overwrite)
