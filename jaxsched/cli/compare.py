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
    Format,
    HeuristicOption,
    JsonFile,
    Load,
    MeanGap,
    Mode,
    NumJobs,
    NumTraces,
    Part,
    System,
    Timezone,
    Trace,
    TraceOptions,
    TraceSeed,
    Window,
    as_typed,
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

PlayedPreset = Annotated[
    str | None,
    typer.Option(
        help="Take cluster and test traces of this preset; the system's own.",
        autocompletion=complete_preset,
    ),
]


class Files(NamedTuple):
    """Where the results go."""

    json: Path | None = None
    html: Path | None = None
    plot: Path | None = None


class Players(NamedTuple):
    """Who plays.

    Attributes:
      heuristics: by name; None: all of them.
      checkpoints: folders of trained policies.
      as_seeds: whether these are training seeds of one policy.
    """

    heuristics: list[str] | None
    checkpoints: list[Path]
    as_seeds: bool = False


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
            help="Policy, 'all', or folder of a trained one.", autocompletion=complete_policy
        ),
    ],
    preset: PlayedPreset = None,
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
) -> None:
    """Metrics of one policy (or of all heuristics)."""
    options = TraceOptions(
        trace_seed, num_traces, num_jobs, cut, mean_gap, load, format, read_part(part), columns,
        timezone,
    )  # fmt: skip
    policy = present_name("policy", policy)
    players = Players([policy], [])
    if policy == "all":
        players = Players(None, [])
    elif is_path(policy, system, also=("all",)):
        players = Players([], [Path(policy)])
    _run(
        context,
        system,
        preset,
        players,
        trace,
        options,
        heuristic_options(window, mode, option),
        Files(json_file),
        devices_of(devices, "envs", coordinator, num_processes, process_id),
    )


def compare(
    context: typer.Context,
    system: System,
    policies: Annotated[
        str | None,
        typer.Option(help="Comma-separated heuristics; all by default, or 'none'."),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None, typer.Option(help="Folder of a trained policy (repeat for several).")
    ] = None,
    as_seeds: Annotated[
        bool, typer.Option("--as-seeds", help="The folders are training seeds of one policy.")
    ] = False,
    preset: PlayedPreset = None,
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
) -> None:
    """Table and figures of all baselines and of trained policies, intervals included."""
    options = TraceOptions(
        trace_seed, num_traces, num_jobs, cut, mean_gap, load, format, read_part(part), columns,
        timezone,
    )  # fmt: skip
    names = (
        None
        if policies is None
        else [present_name("policy", name.strip()) for name in policies.split(",")]
    )
    if as_seeds and not checkpoint:
        raise JaxschedError("--as-seeds needs --checkpoint")
    players = Players([] if policies == "none" else names, checkpoint or [], as_seeds)
    chosen, files = heuristic_options(window, mode, option), Files(json_file, html, plot)
    mesh = devices_of(devices, "envs", coordinator, num_processes, process_id)
    _run(context, system, preset, players, trace, options, chosen, files, mesh)


def is_path(policy: str, system: str, *, also: tuple[str, ...] = ()) -> bool:
    """Whether a policy is given by its folder, not by its name.

    Args:
      policy: as it was typed.
      system: whose policies are known.
      also: other words that the command knows, for the message.

    Raises:
      JaxschedError: it is neither.
    """
    from jaxsched.runs import saved_policies
    from jaxsched.systems import registry

    known = registry.get(system).policies
    if policy in known:
        return False
    if not Path(policy).exists() and not saved_policies.is_pretrained(policy):
        names = ", ".join((*known, *also, *saved_policies.shipped(registry.get(system))))
        raise JaxschedError(
            f"{system}: unknown policy {policy!r}; known are {names}, or the folder of a trained "
            "policy"
        )
    return True


def _run(
    context: typer.Context,
    system_name: str,
    preset: str | None,
    players: Players,
    trace: str | None,
    options: TraceOptions,
    chosen: dict[str, Any],
    files: Files,
    mesh: "Mesh | None",
) -> None:
    from jaxsched.core import processes, sharding
    from jaxsched.pictures import check_picture
    from jaxsched.report import check, write_html
    from jaxsched.report.plot import plot_comparison
    from jaxsched.results import comparison, curves

    for path in files:
        if path is not None:
            check_writable(path)
    if files.plot is not None:
        check_picture(files.plot)
    prepared = prepare(context, system_name, preset, players, trace, options, chosen)
    out = console()
    if prepared.summary:
        out.print(prepared.summary, highlight=False)
    with processes.together(), sharding.on(mesh), out.status("playing") as status:
        result = comparison.compare(
            prepared.contest,
            prepared.names,
            prepared.learned,
            environment=prepared.environment,
            on_policy=lambda name: status.update(f"playing {name}"),
        )
    print_comparison(result, out)
    if not is_first():
        return
    if len(prepared.learned) == 1 and (curve := curves.of_runs(players.checkpoints)):
        result["learning_curve"] = curve
    if files.json is not None:
        deliver_json(out, files.json, result)
    if files.html is not None:
        out.print(f"report written to {write_html(check(result), files.html)}", highlight=False)
    if files.plot is not None:
        make_folder(files.plot)
        plot_comparison(check(result), files.plot)
        out.print(f"plot written to {files.plot}", highlight=False)


def prepare(
    context: typer.Context,
    system_name: str,
    preset: str | None,
    players: Players,
    trace: str | None,
    options: TraceOptions,
    chosen: dict[str, Any],
) -> Prepared:
    """Find everything that a comparison needs.

    Raises:
      JaxschedError: a name, a trace or a folder is refused.
    """
    from jaxsched.cli.episodes import resolve
    from jaxsched.results import comparison
    from jaxsched.runs import saved_policies
    from jaxsched.systems import registry

    system = registry.get(system_name)
    environment, traces = system.environment(), system.traces
    if preset is not None:
        recipe = system.preset(preset)
        environment, traces = recipe.env, system.recipe_traces(recipe)
    asked = players.heuristics
    names = system.usual_policies(environment) if asked is None else asked
    for name in names:
        system.heuristic(name, environment, 1, chosen)  # refuse bad names before any work
    usual = options
    if trace is None and options.num_traces is None:
        usual = options._replace(num_traces=traces.num_test)
    episodes = resolve(trace or traces.test, system, usual).made_with(options, system)
    learned = []
    for path in players.checkpoints:
        learned.append(saved_policies.load(path, system)[0])
    if players.as_seeds:
        learned = [comparison.as_seeds(learned)]
    clusters = {system.facts(policy.env, chosen)["cluster"] for policy in learned}
    if len(clusters) > 1:
        raise JaxschedError("the trained policies are for clusters of different sizes")
    environment = learned[0].env if learned else environment
    names = system.usual_policies(environment) if asked is None else asked
    contest = comparison.Contest(
        system,
        episodes.tables,
        episodes.source,
        options=chosen,
        facts=facts_of(system, environment, episodes, chosen),
        command=as_typed(context, without=("json_file", "html", "plot")),
    )
    return Prepared(contest, names, learned, environment, episodes.summary)


def facts_of(
    system: Any, environment: Any, episodes: "Episodes", chosen: dict[str, Any]
) -> dict[str, Any]:
    """What the table and the report say about the set-up."""
    from jaxsched.jobs import digest_tables
    from jaxsched.runs.directory import facts

    here = facts()
    own = system.facts(environment, chosen)
    return {
        "cluster": own.pop("cluster"),
        "test traces": episodes.source,
        "their digest": digest_tables(episodes.tables)[:12],
        **({"published trace": episodes.digest[:12]} if episodes.digest else {}),
        **own,
        "versions": f"jaxsched {here['code']['jaxsched']}, jax {here['versions']['jax']}",
        "device": f"{here['device']['kind']}, {here['cpu_cores']} CPU cores",
    }


def print_comparison(result: dict[str, Any], out: Any) -> None:
    """The verdict and the table."""
    from jaxsched.report import Summary, check, fitting_table, words_table

    summary = Summary(check(result))
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
