"""``jaxsched export``: the hand-over of policies and environments."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jaxsched.arguments import LARGEST_SEED
from jaxsched.cli.options import (
    Columns,
    EnvironmentSettings,
    NumJobs,
    NumTraces,
    ServersOption,
    Timezone,
    Trace,
    TraceSeed,
    environment_changes,
    old_assignments,
    tell_old,
)
from jaxsched.cli.output import console
from jaxsched.errors import JaxschedError
from jaxsched.experiment.options import TraceOptions

if TYPE_CHECKING:
    from jaxsched.runs.policies import Named


def export(
    source: Annotated[
        str,
        typer.Argument(
            help="SYSTEM/POLICY (pretrained, or a rule with weights), or the folder of a trained "
            "policy; with --environment a system, or the policy whose environment is meant."
        ),
    ],
    format: Annotated[
        list[str] | None,
        typer.Option(
            help="safetensors (always), onnx, stablehlo; with commas, or repeat.",
            show_default="safetensors",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write.", show_default="of the folder of a run: SOURCE/export"),
    ] = None,
    policy: Annotated[str | None, typer.Option(hidden=True)] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=LARGEST_SEED, help="Which seed's policy.", show_default="the best one"
        ),
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment", help="Write the environment, not a policy.")
    ] = False,
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    option: Annotated[list[str] | None, typer.Option("--option", hidden=True)] = None,
    trace: Trace = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    columns: Columns = None,
    timezone: Timezone = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an export that is there.")] = False,
) -> None:
    """Write a trained policy, or an environment, for programs without this library."""
    from jaxsched.experiment.exporting import FORMATS, check_together, export_tables
    from jaxsched.exports.forms import formats_of
    from jaxsched.runs.handing_over import export_found

    tables = {"traces": trace, "num_traces": num_traces, "num_jobs": num_jobs,
              "trace_seed": trace_seed or None, "columns": columns,
              "timezone": timezone}  # fmt: skip
    check_together(environment, policy={"seed": seed, "formats": format}, tables=tables)
    formats = format or list(FORMATS)
    formats_of(formats)
    found = _subject(source, policy, environment)
    changes = [*(settings or ()), *old_assignments("--option", option)]
    if environment:
        folder = export_tables(
            found.system,
            None if isinstance(found, Subject) or found.rule else found,
            _needed(out),
            changes=environment_changes(found.system, changes, servers),
            trace=trace,
            options=TraceOptions(
                trace_seed, num_traces, num_jobs, columns=columns, timezone=timezone
            ),
            overwrite=overwrite,
        )
    else:
        folder = export_found(
            found,  # type: ignore[arg-type]
            out or _beside(found),  # type: ignore[arg-type]
            changes=environment_changes(found.system, changes, servers),
            seed=seed,
            format=formats,
            overwrite=overwrite,
        )
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    what = "environment" if environment else "policy"
    console().print(f"{what} written to {folder} ({names})")


class Subject(NamedTuple):
    """A system, without any policy of it."""

    system: Any


def _subject(source: str, policy: str | None, environment: bool) -> "Named | Subject":
    """What is to be written, also where its policy was told apart from its system."""
    from jaxsched.runs.policies import find, names_policy
    from jaxsched.systems import registry

    if policy is not None:
        system = registry.get(source)
        found = find(policy, system)
        present = policy if Path(policy).exists() else f"{source}/{policy.rpartition('/')[2]}"
        tell_old(f"{source} --policy {policy}", present)
        return found
    if environment and not names_policy(source):
        return Subject(registry.get(source))
    return find(source)


def _needed(out: Path | None) -> Path:
    """The folder to write.

    Raises:
      JaxschedError: there is none.
    """
    if out is None:
        raise JaxschedError("a folder to write is needed: --out DIR")
    return out


def _beside(found: "Named") -> Path:
    """Where a policy goes by itself: into its run."""
    from jaxsched.runs.saved_policies import is_run

    return _needed(None) if found.rule or not is_run(found.place) else Path(found.place) / "export"
