"""``jaxsched export``: the hand-over of policies and environments."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from jaxsched.cli.options import (
    LARGEST_SEED,
    NumJobs,
    NumTraces,
    Trace,
    TraceOptions,
    TraceSeed,
    present_assignments,
)
from jaxsched.cli.output import console
from jaxsched.errors import JaxschedError


def export(
    source: Annotated[
        str,
        typer.Argument(
            help="Run directory or policies/seedN folder; with --policy or --environment a system."
        ),
    ],
    format: Annotated[
        list[str] | None,
        typer.Option(help="safetensors (always), onnx, stablehlo; with commas, or repeat."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; SOURCE/export.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Of the system SOURCE: pretrained, a rule with weights, or a folder; with "
            "--environment that policy's."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Which seed's policy; the best one.")
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment", help="The environment of the system SOURCE instead.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="Option of the environment, name=value (repeat)."),
    ] = None,
    trace: Trace = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an export that is there.")] = False,
) -> None:
    """Write a trained policy, or an environment, for programs without this library."""
    from jaxsched.export import saved

    words = {"--option": None if policy else option, "--trace": trace, "--num-traces": num_traces,
             "--num-jobs": num_jobs, "--trace-seed": trace_seed or None}  # fmt: skip
    chosen = {"--seed": seed, "--format": format}
    _refuse(chosen if environment else words, environment)
    _refuse({"--seed": None if policy is None else seed}, environment)
    if (environment or policy is not None) and out is None:
        raise JaxschedError("a folder to write is needed: --out DIR")
    formats = format or ["safetensors"]
    if environment:
        traces = TraceOptions(trace_seed, num_traces, num_jobs)
        env = _environment(source, option, policy)
        folder = _with_tables(source, env, trace, traces, cast(Path, out), overwrite)
    elif policy is None:
        folder = saved.export_saved(
            source, out or Path(source) / "export", format=formats, seed=seed, overwrite=overwrite
        )
    else:
        options = _options(source, option)
        folder = saved.export_named(
            source, policy, cast(Path, out), options=options, format=formats, overwrite=overwrite
        )
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    what = "environment" if environment else "policy"
    console().print(f"{what} written to {folder} ({names})")


def _refuse(options: dict[str, Any], environment: bool) -> None:
    """Refuse options that do not go with what is exported.

    Raises:
      JaxschedError: one was given.
    """
    for name, value in options.items():
        if value is not None:
            does = "does not go with --environment" if environment else "goes with --environment"
            if name == "--seed" and not environment:
                does = "is of a run's policies"
            raise JaxschedError(f"{name} {does}")


def _environment(name: str, assignments: list[str] | None, policy: str | None) -> Any:
    """The system's environment with these options, or that of a policy."""
    from jaxsched.runs import saved_policies
    from jaxsched.systems import registry

    system = registry.get(name)
    if policy is not None:
        if assignments is not None:
            raise JaxschedError("--option does not go with --policy, whose environment is taken")
        return saved_policies.load(policy, system)[0].env
    return system.environment(**_options(name, assignments))


def _options(name: str, assignments: list[str] | None) -> dict[str, Any]:
    from jaxsched.runs.overrides import read_options
    from jaxsched.systems import registry

    renamed = registry.get(name).renamed_options
    return read_options(present_assignments("option", assignments, renamed))


def _with_tables(
    name: str, env: Any, trace: str | None, options: TraceOptions, out: Path, overwrite: bool
) -> Path:
    """Write an environment with job tables."""
    from jaxsched.cli.episodes import resolve
    from jaxsched.export.environments import export_environment
    from jaxsched.systems import registry

    system = registry.get(name)
    if trace is None and options.num_traces is None:
        options = options._replace(num_traces=system.traces.num_test or DEFAULT_TABLES)
    episodes = resolve(trace or system.traces.test, system, options).made_with(options, system)
    return export_environment(system, env, system.params(env, episodes.tables), out, overwrite)


DEFAULT_TABLES = 4
