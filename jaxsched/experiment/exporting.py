"""Exports of policies for programs without JAX: ``jaxsched.export``."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.experiment.names import changes_of, system_of
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.run import Run
from jaxsched.experiment.sources import Source, resolve
from jaxsched.experiment.trained import TrainedPolicy
from jaxsched.exports.environments import export_environment
from jaxsched.files import PathLike as AnyPath
from jaxsched.runs.handing_over import export_found
from jaxsched.runs.overrides import change_environment
from jaxsched.runs.policies import Named, find, names_policy
from jaxsched.systems import functions
from jaxsched.systems.system import System

FORMATS = ("safetensors",)
"""Formats of a policy by default."""
DEFAULT_TABLES = 4
"""Job tables of an environment where neither a trace nor the system says how many."""


def export(
    policy: Any,
    folder: AnyPath,
    *,
    formats: Sequence[str] | None = None,
    seed: int | None = None,
    servers: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  (the command's word)
    environment: bool = False,
    traces: Source | None = None,
    trace_seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    overwrite: bool = False,
    **changes: Any,
) -> Path:
    """Write a hand-over folder: weights, programs, a manifest and rows to check readers with.

    With ``environment=True`` the folder holds ``reset``, ``step`` and job tables instead.

    Args:
      policy: a run, a loaded policy, or what ``jaxsched export`` takes: "SYSTEM/pretrained",
        "SYSTEM/RULE", the folder of a run; with ``environment`` a system, too.
      folder: to write.
      formats: of a policy: "safetensors", which is written in any case, "onnx", "stablehlo".
      seed: which seed's policy of a run; the best one's if absent.
      servers: the cluster of a rule or an environment, such as "40x8".
      set: changes of the environment as the command takes them, ``{"env.NAME": value}``.
      environment: write the environment, not the policy; with job tables of
      traces: a named trace, a file, a loaded log or job tables; the test traces if absent.
      trace_seed: of what is drawn.
      num_traces: job tables.
      num_jobs: jobs of each.
      columns: of a table of one's own, names in the file to names in a trace.
      timezone: of times in a trace file that say none.
      overwrite: replace a hand-over that is there.
      changes: options of the environment of a rule, or of the environment that is written.

    Returns:
      The folder.

    Raises:
      JaxschedError: no such policy or format, an argument that goes with an environment or with a
        policy alone, or the folder cannot be written.
    """
    check_together(
        environment,
        policy={"seed": seed, "formats": formats},
        tables={
            "traces": traces,
            "trace_seed": trace_seed or None,
            "num_traces": num_traces,
            "num_jobs": num_jobs,
            "columns": columns,
            "timezone": timezone,
        },
    )
    if environment:
        system, trained = _environment_of(policy)
        return export_tables(
            system,
            trained,
            Path(folder),
            changes=changes_of(system, servers, changes, set),
            trace=traces,
            options=TraceOptions(
                trace_seed, num_traces, num_jobs, columns=columns, timezone=timezone
            ),
            overwrite=overwrite,
        )
    files: dict[str, Any] = {"format": list(formats or FORMATS), "overwrite": overwrite}
    if isinstance(policy, Run | TrainedPolicy):
        return export_found(find(policy.place), Path(folder), seed=seed, **files)
    if not isinstance(policy, str | PathLike):
        raise JaxschedError(f"a policy is {policy!r}; accepted: a run, a loaded policy or a name")
    found = find(str(policy))
    words = changes_of(found.system, servers, changes, set)
    return export_found(found, Path(folder), changes=words, seed=seed, **files)


def check_together(
    environment: bool, *, policy: Mapping[str, Any], tables: Mapping[str, Any]
) -> None:
    """Refuse arguments that do not fit what is exported.

    Args:
      environment: whether an environment is.
      policy: arguments of a policy alone, None where they are not given.
      tables: arguments of an environment alone, likewise.

    Raises:
      JaxschedError: one was given.
    """
    does = "does not go" if environment else "goes"
    for name, value in (policy if environment else tables).items():
        if value is not None:
            raise JaxschedError(f"{argument(name)} {does} with {argument('environment')}")


def _environment_of(what: Any) -> tuple[System, Named | None]:
    """The system of an environment to be exported, and the trained policy whose cluster it has."""
    if isinstance(what, Run | TrainedPolicy):
        what = what.place
    if isinstance(what, System) or not names_policy(str(what)):
        return system_of(what), None
    found = find(str(what))
    return found.system, None if found.rule else found


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
    env = functions.environment(system) if policy is None else policy.trained()[0].env
    env = change_environment(env, changes)
    options = options or TraceOptions()
    if trace is None and options.num_traces is None:
        options = options._replace(num_traces=functions.traces(system).num_test or DEFAULT_TABLES)
    episodes = resolve(trace or functions.traces(system).test, system, options, env)
    episodes = episodes.made_with(options, system, env)
    return export_environment(system, env, env.params(episodes.tables), folder, overwrite)
