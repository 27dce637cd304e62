"""``jaxsched evaluate`` and ``jaxsched compare``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jaxsched.cli.completion import complete_policy, complete_preset
from jaxsched.cli.devices import (
    Coordinator,
    Devices,
    NumProcesses,
    ProcessId,
    devices_of,
)
from jaxsched.cli.options import (
    Columns,
    Cut,
    EnvironmentSettings,
    Format,
    HeuristicOption,
    JobsFile,
    JsonFile,
    Load,
    MeanGap,
    NumJobs,
    NumTraces,
    Part,
    ServersOption,
    System,
    Timezone,
    Trace,
    TraceSeed,
    as_typed,
    environment_changes,
    heuristic_options,
    present_name,
)
from jaxsched.cli.output import check_writable, console, deliver_json
from jaxsched.errors import JaxschedError
from jaxsched.experiment.asked import Asked, Players
from jaxsched.experiment.options import LOAD, TraceOptions, read_part
from jaxsched.files import make_folder
from jaxsched.runtime import is_first

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from jaxsched.experiment.contests import Prepared


PlayedPreset = Annotated[
    str | None,
    typer.Option(
        help="Take cluster and test traces of this preset.",
        show_default="the system's own",
        autocompletion=complete_preset,
    ),
]


NOT_RESULTS = ("json_file", "html", "plot", "jobs")
"""Options that say where results go, not what they are."""


class Files(NamedTuple):
    """Where the results go."""

    json: Path | None = None
    html: Path | None = None
    plot: Path | None = None
    jobs: Path | None = None


def evaluate(
    context: typer.Context,
    system: System,
    policy: Annotated[
        str,
        typer.Option(
            help="A rule, SYSTEM/POLICY, the folder of a trained one, or 'all'.",
            autocompletion=complete_policy,
        ),
    ],
    preset: PlayedPreset = None,
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    trace: Trace = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    format: Format = None,
    part: Part = None,
    columns: Columns = None,
    timezone: Timezone = None,
    option: HeuristicOption = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    json_file: JsonFile = None,
    jobs: JobsFile = None,
) -> None:
    """Metrics of one policy (or of all heuristics)."""
    from jaxsched.systems import registry

    chosen = registry.get(system)
    players = Players(None, [])
    if policy != "all":
        players = players_named([policy], chosen, also=("all",))
    asked = Asked(
        preset,
        environment_changes(chosen, settings, servers),
        trace,
        TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                     read_part(part), columns, timezone),
        heuristic_options(option),
    )  # fmt: skip
    mesh = devices_of(devices, "envs", coordinator, num_processes, process_id)
    _run(context, chosen, players, asked, Files(json_file, jobs=jobs), mesh)


def compare(
    context: typer.Context,
    system: System,
    policies: Annotated[
        str | None,
        typer.Option(
            help="With commas: rules, SYSTEM/POLICY, folders, or 'none'.",
            show_default="all heuristics",
        ),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(help="A trained policy beside them: folder or SYSTEM/pretrained (repeat)."),
    ] = None,
    as_seeds: Annotated[
        bool, typer.Option("--as-seeds", help="The folders are training seeds of one policy.")
    ] = False,
    preset: PlayedPreset = None,
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    trace: Trace = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    format: Format = None,
    part: Part = None,
    columns: Columns = None,
    timezone: Timezone = None,
    option: HeuristicOption = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    json_file: JsonFile = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report here.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write bars here (.png, .svg, .pdf; their data beside as CSV)."),
    ] = None,
    jobs: JobsFile = None,
) -> None:
    """Table and figures of all baselines and of trained policies, intervals included."""
    from jaxsched.runs.policies import find_trained
    from jaxsched.systems import registry

    if as_seeds and not checkpoint:
        raise JaxschedError("--as-seeds needs --checkpoint")
    chosen = registry.get(system)
    players = Players(None, [])
    if policies is not None:
        words = [] if policies == "none" else [word.strip() for word in policies.split(",")]
        players = players_named(words, chosen)
    shown = [find_trained(word, chosen) for word in checkpoint or []]
    players = players._replace(trained=[*players.trained, *shown], as_seeds=as_seeds)
    asked = Asked(
        preset,
        environment_changes(chosen, settings, servers),
        trace,
        TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                     read_part(part), columns, timezone),
        heuristic_options(option),
    )  # fmt: skip
    files = Files(json_file, html, plot, jobs)
    mesh = devices_of(devices, "envs", coordinator, num_processes, process_id)
    _run(context, chosen, players, asked, files, mesh)


def players_named(words: list[str], system: Any, *, also: tuple[str, ...] = ()) -> Players:
    """The policies that words name.

    Args:
      words: as they were typed.
      system: whose policies they must be.
      also: other words that the command knows, for the message.

    Raises:
      JaxschedError: a word names none.
    """
    from jaxsched.runs.policies import find

    found = [find(present_name("policy", word), system, also=also) for word in words]
    rules = list(dict.fromkeys(policy.rule for policy in found if policy.rule))
    return Players(rules, [policy for policy in found if not policy.rule])


def _run(
    context: typer.Context,
    system: Any,
    players: Players,
    asked: Asked,
    files: Files,
    mesh: "Mesh | None",
) -> None:
    from jaxsched.core import processes, sharding
    from jaxsched.experiment.contests import prepare
    from jaxsched.pictures import check_picture
    from jaxsched.report import check, write_html
    from jaxsched.report.plot import plot_comparison
    from jaxsched.results import comparison, curves, job_times
    from jaxsched.results.played_times import PlayedTimes

    for path in files:
        if path is not None:
            check_writable(path)
    if files.plot is not None:
        check_picture(files.plot)
    if files.jobs is not None:
        job_times.check_ending(files.jobs)
    prepared = prepare(system, players, asked, as_typed(context, without=NOT_RESULTS))
    out = console()
    tell(prepared, out)
    times = None if files.jobs is None else PlayedTimes(prepared.contest)
    with processes.together(), sharding.on(mesh), out.status("playing") as status:
        result = comparison.compare(
            prepared.contest,
            prepared.names,
            prepared.learned,
            environment=prepared.environment,
            on_policy=lambda name: status.update(f"playing {name}"),
            on_played=times,
        )
    print_comparison(result, out)
    if not is_first():
        return
    folders = [Path(policy.place) for policy in players.trained]
    if len(prepared.learned) == 1 and (curve := curves.of_runs(folders)):
        result["learning_curve"] = curve
    if files.json is not None:
        deliver_json(out, files.json, result)
    if files.html is not None:
        out.print(f"report written to {write_html(check(result), files.html)}", highlight=False)
    if files.plot is not None:
        make_folder(files.plot)
        plot_comparison(check(result), files.plot)
        out.print(f"plot written to {files.plot}", highlight=False)
    if files.jobs is not None and times is not None:
        make_folder(files.jobs)
        job_times.write_job_times(files.jobs, times.parts)
        out.print(f"times of all jobs written to {files.jobs}", highlight=False)


def tell(prepared: "Prepared", out: Any) -> None:
    """What was changed in the traces, and the cluster with the load that it is offered."""
    contest = prepared.contest
    lines = [prepared.summary] if prepared.summary else []
    lines += [f"  {note}" for note in contest.notes if f"  {note}\n" not in prepared.summary]
    load = contest.facts.get(LOAD)
    lines.append(f"cluster: {contest.facts['cluster']}" + (f"; load {load}" if load else ""))
    for line in lines:
        out.print(line, highlight=False)


def print_comparison(result: dict[str, Any], out: Any) -> None:
    """The verdict and the table."""
    from jaxsched.report import Summary, check, fitting_table, in_readable_units, words_table

    summary = Summary(in_readable_units(check(result)))
    table, left_out = fitting_table(summary, out)
    out.print(table)
    if left_out:
        out.print(
            f"no room for {', '.join(left_out)}: widen the terminal, or see --json or --html",
            highlight=False,
        )
    if "published" in result:
        out.print(words_table(**result["published"]))
    if any(policy["kind"] == "learned" for policy in result["policies"]):
        out.print(summary.verdict.headline, highlight=False)
        out.print(summary.verdict.detail, highlight=False)
