"""Options that several commands share, and what they mean together."""

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxsched.arguments import LARGEST, LARGEST_SEED
from jaxsched.cli.completion import (
    complete_preset,
    complete_rule,
    complete_system,
    complete_trace,
)
from jaxsched.cli.output import claim_stdout
from jaxsched.experiment import spellings

TRACES, ENVIRONMENT, HEURISTICS, OUTPUT = "Traces", "Environment", "Heuristics", "Output"
"""Groups of options in the help."""

System = Annotated[str, typer.Argument(help="Name of the system.", autocompletion=complete_system)]
Trace = Annotated[
    str | None,
    typer.Option(
        help="Named trace, job table file, or published trace.",
        show_default="the test set",
        rich_help_panel=TRACES,
        autocompletion=complete_trace,
    ),
]
TraceSeed = Annotated[
    int,
    typer.Option(
        "--trace-seed",
        min=0,
        max=LARGEST_SEED,
        help="Seed of drawn traces.",
        rich_help_panel=TRACES,
    ),
]
NumTraces = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=LARGEST,
        help="Traces to draw, or the first of job tables.",
        show_default="the preset's number",
        rich_help_panel=TRACES,
    ),
]
NumJobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=LARGEST,
        help="Jobs per trace, of job tables the first.",
        show_default="the trace's number",
        rich_help_panel=TRACES,
    ),
]
Cut = Annotated[
    bool,
    typer.Option(
        "--cut",
        help="Cut a real trace into pieces, do not resample.",
        rich_help_panel=TRACES,
    ),
]
MeanGap = Annotated[
    float | None,
    typer.Option(
        help="Rescale times to this mean gap (s); job tables all by one factor.",
        rich_help_panel=TRACES,
    ),
]
Load = Annotated[
    float | None,
    typer.Option(
        help="Rescale times to this offered load of the cluster in use; job tables all by one "
        "factor, to this mean.",
        rich_help_panel=TRACES,
    ),
]
FirstJobs = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=LARGEST,
        help="Play the first so many jobs.",
        show_default="all",
        rich_help_panel=TRACES,
    ),
]
RigidRules = Annotated[
    str | None,
    typer.Option(
        help="Names with commas between.",
        show_default="all",
        rich_help_panel=HEURISTICS,
        autocompletion=complete_rule,
    ),
]
OwnRigidRules = Annotated[
    list[str] | None,
    typer.Option(help="One of your own, module:function (repeat).", rich_help_panel=HEURISTICS),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of trace files.",
        show_default="told by their content",
        rich_help_panel=TRACES,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns of your own table: NAME IN THE FILE=submit_time,OTHER=num_gpus,...; usual "
        "names are told.",
        rich_help_panel=TRACES,
    ),
]
Timezone = Annotated[
    str | None,
    typer.Option(
        help="Zone of times in a trace file that say none, such as Europe/Berlin.",
        rich_help_panel=TRACES,
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        help="Part of a real trace in order of submission, such as 0.8:1.",
        show_default="all of it",
        rich_help_panel=TRACES,
    ),
]
HeuristicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="Option of heuristics, name=value (repeat).",
        rich_help_panel=HEURISTICS,
    ),
]
EnvironmentSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Option of the environment, env.NAME=VALUE (repeat).",
        rich_help_panel=ENVIRONMENT,
    ),
]
ServersOption = Annotated[
    str | None,
    typer.Option(
        "--servers",
        metavar="NxM",
        help="Cluster: N servers of M GPUs each, such as 40x8, or 16x2,20x8 where they differ.",
        show_default="the system's own",
        rich_help_panel=ENVIRONMENT,
    ),
]
JobsFile = Annotated[
    Path | None,
    typer.Option(
        "--jobs",
        help="Write the times of every job under every policy here (.csv or .parquet).",
        rich_help_panel=OUTPUT,
    ),
]
Preset = Annotated[
    str,
    typer.Option(help="Recipe; 'jaxsched list' names them.", autocompletion=complete_preset),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change the recipe: PATH=VALUE, such as env.NAME=VALUE (repeat)."),
]
TrainingTrace = Annotated[
    str | None,
    typer.Option(
        help="Training traces: name or file.",
        show_default="the preset's",
        rich_help_panel=TRACES,
        autocompletion=complete_trace,
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        help="Write all values here; - for standard output, and all else to standard error.",
        rich_help_panel=OUTPUT,
        callback=claim_stdout,
    ),
]

MaxTime = Annotated[
    str | None,
    typer.Option(
        help="Stop after this time (seconds, 90m, 2h) with a checkpoint, and exit status 124."
    ),
]
StopOn = Annotated[
    list[str] | None,
    typer.Option(help="Stop with a checkpoint at this signal, too, such as SIGUSR1 (repeat)."),
]


def present_name(kind: str, name: str) -> str:
    """A name as it is spelt today; an old spelling is said on standard error, in one line."""
    return spellings.present_name(kind, name, tell=_say)


def tell_old(old: str, present: str) -> None:
    """One line on standard error: an option has another name now."""
    _say(f"{old} is now spelt {present}")


def _say(line: str) -> None:
    print(f"jaxsched: {line}", file=sys.stderr)


def old_assignments(
    option: str, assignments: Iterable[str] | None, prefix: str = "env."
) -> list[str]:
    """What was given with an older option for the environment, as ``--set`` takes it.

    Args:
      option: the older one, such as ``--env``.
      assignments: ``name=value`` each.
      prefix: of the present paths.

    Raises:
      JaxschedError: one is not of that form.
    """
    from jaxsched.errors import JaxschedError

    present = []
    for assignment in assignments or ():
        name, sign, _ = assignment.partition("=")
        if not sign or not name:
            raise JaxschedError(f"{option} {assignment}: expected --set {prefix}NAME=VALUE")
        tell_old(f"{option} {name}", f"--set {prefix}{name}")
        present.append(f"{prefix}{assignment}")
    return present


def environment_changes(
    system: Any, settings: Iterable[str] | None, servers: str | None
) -> list[str]:
    """What ``--set`` and ``--servers`` change in an environment, ``env.NAME=VALUE`` each.

    Args:
      system: whose environment it is.
      settings: of ``--set``.
      servers: of ``--servers``.

    Raises:
      JaxschedError: not a size, the system cannot have it, or both options say it.
    """
    from jaxsched.errors import JaxschedError
    from jaxsched.jobs.servers import read_servers
    from jaxsched.runs.overrides import environment_settings

    former = system.environment.former_options
    present = present_settings(settings, former, system.networks.aliases)
    if servers is None:
        return present
    found = read_servers(servers, mixed=True, shared=True)
    sizes = environment_settings(system.environment.of_servers(*found))
    paths = {size.partition("=")[0] for size in sizes}
    twice = next((one for one in present if one.partition("=")[0].strip() in paths), None)
    if twice is not None:
        raise JaxschedError(f"--set {twice}: --servers says it too; accepted: one of both")
    return [*present, *sizes]


def present_settings(
    assignments: Iterable[str] | None, options: Mapping[str, str], networks: Mapping[str, str]
) -> list[str]:
    """What was given with ``--set``, as it is spelt today; an old spelling is said."""
    return spellings.present_settings(assignments, options, networks, _say)


def heuristic_options(assignments: list[str] | None) -> dict[str, Any]:
    """Those options of heuristics that were given.

    Raises:
      JaxschedError: an assignment is not ``name=value``.
    """
    from jaxsched.runs.overrides import read_options

    return read_options(spellings.present_assignments("option", assignments, tell=_say))


def as_typed(context: typer.Context, *, without: tuple[str, ...]) -> str:
    """The running command as a user would type it; options at their defaults are left out.

    Args:
      context: of the command.
      without: parameters to leave out, by the function's names.
    """
    words = ["jaxsched", str(context.info_name)]
    for parameter, value in given(context, without=without):
        if parameter.param_type_name == "argument":
            words.append(str(value))
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0]] if one is True else [parameter.opts[0], str(one)]
    return shlex.join(words)


def given(context: typer.Context, *, without: tuple[str, ...]) -> list[tuple[Any, Any]]:
    """Parameters of the running command and their values: arguments, options not at their defaults.

    Args:
      context: of the command.
      without: parameters to leave out, by the function's names.
    """
    found = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        unset = value in (None, [], ()) or value == parameter.get_default(context)
        if parameter.param_type_name == "argument" or not (unset or parameter.name in without):
            found.append((parameter, value))
    return found
