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
    Mode,
    NumJobs,
    NumTraces,
    Part,
    ServersOption,
    System,
    Timezone,
    Trace,
    TraceOptions,
    TraceSeed,
    Window,
    as_typed,
    environment_changes,
    heuristic_options,
    present_name,
    read_part,
)
from jaxsched.cli.output import check_writable, console, deliver_json, make_folder
from jaxsched.errors import JaxschedError
from jaxsched.runtime import is_first

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from jaxsched.cli.episodes import Episodes
    from jaxsched.results.comparison import Contest, Learned
    from jaxsched.runs.policies import Named

PlayedPreset = Annotated[
    str | None,
    typer.Option(
        help="Take cluster and test traces of this preset.",
        show_default="the system's own",
        autocompletion=complete_preset,
    ),
]


class Files(NamedTuple):
    """Where the results go."""

    json: Path | None = None
    html: Path | None = None
    plot: Path | None = None
    jobs: Path | None = None


class Players(NamedTuple):
    """Who plays.

    Attributes:
      heuristics: by name; None: all of them.
      trained: trained policies.
      as_seeds: whether these are training seeds of one policy.
    """

    heuristics: list[str] | None
    trained: list["Named"]
    as_seeds: bool = False


class Asked(NamedTuple):
    """What is played, beside the policies.

    Attributes:
      preset: whose cluster and test traces are used; None: the system's own.
      changes: of the environment, ``env.NAME=VALUE`` each.
      trace: where the episodes come from; None: the test traces.
      options: how a trace becomes episodes.
      chosen: options of heuristics.
    """

    preset: str | None
    changes: list[str]
    trace: str | None
    options: TraceOptions
    chosen: dict[str, Any]


class Prepared(NamedTuple):
    """All that a comparison needs.

    Attributes:
      contest: what is compared on what.
      names: heuristics.
      learned: trained policies.
      environment: cluster of the heuristics.
      summary: what an import of the trace dropped or changed; empty if nothing was.
    """

    contest: "Contest"
    names: list[str]
    learned: list["Learned"]
    environment: Any
    summary: str


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
    window: Window = None,
    mode: Mode = None,
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
        players = _players([policy], chosen, also=("all",))
    asked = Asked(
        preset,
        environment_changes(chosen, settings, servers),
        trace,
        TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                     read_part(part), columns, timezone),
        heuristic_options(window, mode, option),
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
    window: Window = None,
    mode: Mode = None,
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
        players = _players(words, chosen)
    shown = [find_trained(word, chosen) for word in checkpoint or []]
    players = players._replace(trained=[*players.trained, *shown], as_seeds=as_seeds)
    asked = Asked(
        preset,
        environment_changes(chosen, settings, servers),
        trace,
        TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                     read_part(part), columns, timezone),
        heuristic_options(window, mode, option),
    )  # fmt: skip
    files = Files(json_file, html, plot, jobs)
    mesh = devices_of(devices, "envs", coordinator, num_processes, process_id)
    _run(context, chosen, players, asked, files, mesh)


def _players(words: list[str], system: Any, *, also: tuple[str, ...] = ()) -> Players:
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
    prepared = prepare(context, system, players, asked)
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


def prepare(context: typer.Context, system: Any, players: Players, asked: Asked) -> Prepared:
    """Find everything that a comparison needs.

    Raises:
      JaxschedError: a name, a trace or a folder is refused.
    """
    from jaxsched.cli.episodes import resolve
    from jaxsched.results import comparison
    from jaxsched.runs.overrides import change_environment
    from jaxsched.runs.policies import on_cluster

    environment, traces = system.environment(), system.traces
    if asked.preset is not None:
        recipe = system.preset(asked.preset)
        environment, traces = recipe.env, system.recipe_traces(recipe)
    environment = change_environment(environment, asked.changes)
    names = players.heuristics
    if names is None:
        names = system.usual_policies(environment)
    for name in names:
        system.heuristic(name, environment, 1, asked.chosen)  # refuse bad names before any work
    learned = []
    for policy in players.trained:
        found, _ = policy.trained()
        learned.append(on_cluster(found, system, change_environment(found.env, asked.changes)))
    if players.as_seeds:
        learned = [comparison.as_seeds(learned)]
    clusters = {system.facts(policy.env, asked.chosen)["cluster"] for policy in learned}
    if len(clusters) > 1:
        raise JaxschedError("the trained policies are for clusters of different sizes")
    environment = learned[0].env if learned else environment
    if players.heuristics is None:
        names = system.usual_policies(environment)
    usual = asked.options
    if asked.trace is None and usual.num_traces is None:
        usual = usual._replace(num_traces=traces.num_test)
    episodes = resolve(asked.trace or traces.test, system, usual, environment)
    episodes = episodes.made_with(asked.options, system, environment)
    contest = comparison.Contest(
        system,
        episodes.tables,
        episodes.source,
        options=asked.chosen,
        facts=facts_of(system, environment, episodes, asked.chosen),
        command=as_typed(context, without=("json_file", "html", "plot", "jobs")),
    )
    return Prepared(contest, names, learned, environment, episodes.summary)


def tell(prepared: Prepared, out: Any) -> None:
    """What was changed in the traces, and the cluster with the load that it is offered."""
    contest = prepared.contest
    lines = [prepared.summary] if prepared.summary else []
    lines += [f"  {note}" for note in contest.notes if f"  {note}\n" not in prepared.summary]
    load = contest.facts.get(LOAD)
    lines.append(f"cluster: {contest.facts['cluster']}" + (f"; load {load}" if load else ""))
    for line in lines:
        out.print(line, highlight=False)


LOAD = "offered load"
"""Name of the fact that says what the tables ask of the cluster, at best locality."""


def facts_of(
    system: Any, environment: Any, episodes: "Episodes", chosen: dict[str, Any]
) -> dict[str, Any]:
    """What the table and the report say about the set-up."""
    from jaxsched.jobs import digest_tables
    from jaxsched.runs.directory import facts
    from jaxsched.traces.describe import load_in_words

    here = facts()
    own = system.facts(environment, chosen)
    load = load_in_words(episodes.tables, sum(system.cluster_gpus(environment)))
    return {
        "cluster": own.pop("cluster"),
        **({LOAD: load} if load else {}),
        "test traces": episodes.source,
        "digest of the test traces": digest_tables(episodes.tables)[:12],
        **({"digest of the published trace": episodes.digest[:12]} if episodes.digest else {}),
        **own,
        "versions": f"jaxsched {here['code']['jaxsched']}, jax {here['versions']['jax']}",
        "device": f"{here['device']['kind']}, {here['cpu_cores']} CPU cores",
    }


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
