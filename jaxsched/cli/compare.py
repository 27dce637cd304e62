"""``jaxsched evaluate`` and ``jaxsched compare``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jaxsched.cli.episodes import Episodes, TraceOptions, resolve
from jaxsched.cli.main import app
from jaxsched.cli.output import check_writable, console, write_json
from jaxsched.errors import JaxschedError

System = Annotated[str, typer.Argument(help="Name of the system.")]
Trace = Annotated[
    str | None,
    typer.Option(help="Named trace, job table file, or published trace; the test set by default."),
]
Seed = Annotated[int, typer.Option("--trace-seed", help="Seed of drawn traces.")]
NumTraces = Annotated[int, typer.Option(min=1, help="Traces to draw.")]
NumJobs = Annotated[int, typer.Option(min=1, help="Jobs per trace.")]
Cut = Annotated[bool, typer.Option("--cut", help="Cut a real trace into pieces, do not resample.")]
MeanGap = Annotated[float | None, typer.Option(help="Rescale a real trace to this mean gap (s).")]
Load = Annotated[float | None, typer.Option(help="Rescale a real trace to this offered load.")]
Window = Annotated[
    int | None,
    typer.Option(min=0, help="Slots that rules see (0: whole queue); the agent's if absent."),
]
Mode = Annotated[str, typer.Option(help="A job that does not fit: skip it, or block on it.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write all per-episode values here.")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write the report here.")]


@app.command()
def evaluate(
    system: System,
    policy: Annotated[str, typer.Option(help="Policy, 'all', or folder of a trained one.")],
    trace: Trace = None,
    trace_seed: Seed = 0,
    num_traces: NumTraces = 30,
    num_jobs: NumJobs = 1000,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    window: Window = None,
    mode: Mode = "skip",
    json_file: JsonFile = None,
) -> None:
    """Metrics of one policy (or of all rule-based ones)."""
    options = TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load)
    names, checkpoints = [policy], []
    if policy == "all":
        names = []
    elif _is_path(policy, system):
        names, checkpoints = [], [Path(policy)]
    _run(system, names, checkpoints, policy == "all", trace, options, window, mode, json_file, None)


@app.command()
def compare(
    system: System,
    policies: Annotated[
        str | None, typer.Option(help="Comma-separated rules; all by default, 'none' for none.")
    ] = None,
    checkpoint: Annotated[
        list[Path] | None, typer.Option(help="Folder of a trained policy (repeat for several).")
    ] = None,
    trace: Trace = None,
    trace_seed: Seed = 0,
    num_traces: NumTraces = 30,
    num_jobs: NumJobs = 1000,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    window: Window = None,
    mode: Mode = "skip",
    json_file: JsonFile = None,
    html: HtmlFile = None,
) -> None:
    """Table and figures of all baselines and of trained policies, intervals included."""
    options = TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load)
    names = [] if policies in (None, "none") else [name.strip() for name in policies.split(",")]
    _run(
        system,
        names,
        checkpoint or [],
        policies is None,
        trace,
        options,
        window,
        mode,
        json_file,
        html,
    )


def _is_path(policy: str, system: str) -> bool:
    from jaxsched import registry

    rules = registry.get(system).policies
    if policy in rules:
        return False
    if not Path(policy).exists():
        raise JaxschedError(
            f"{system}: unknown policy {policy!r}; known are {', '.join(rules)}, all, or the "
            "folder of a trained policy"
        )
    return True


def _run(
    system_name: str,
    names: list[str],
    checkpoints: list[Path],
    every_rule: bool,
    trace: str | None,
    options: TraceOptions,
    window: int | None,
    mode: str,
    json_file: Path | None,
    html: Path | None,
) -> None:
    from jaxsched import comparison, registry, saved_policies
    from jaxsched.report import check, write_html

    for path in (json_file, html):
        if path is not None:
            check_writable(path)
    system = registry.get(system_name)
    if every_rule:
        names = list(system.policies)
    for name in names:
        system.policy(name, mode)  # refuse unknown names and modes before any work
    episodes = resolve(trace or system.test_trace, system, options)
    learned, saved = [], []
    for path in checkpoints:
        policy, facts = saved_policies.load(path, system)
        learned.append(policy)
        saved.extend(facts)
    clusters = {_cluster(system.environment_options(policy.env)) for policy in learned}
    if len(clusters) > 1:
        raise JaxschedError("the trained policies are for clusters of different sizes")
    environment = learned[0].env if learned else system.environment()
    own = system.environment_options(environment)["window"]
    contest = comparison.Contest(
        system,
        episodes.tables,
        episodes.source,
        window=own if window is None else window,
        mode=mode,
        facts=facts_of(system, environment, episodes, mode, own if window is None else window),
        command=_command(system_name, checkpoints, trace),
    )
    out = console()
    if episodes.summary:
        out.print(episodes.summary, highlight=False)
    with out.status("playing") as status:
        result = comparison.compare(
            contest,
            names,
            learned,
            environment=environment,
            on_policy=lambda name: status.update(f"playing {name}"),
        )
    print_comparison(result, out)
    if json_file is not None:
        out.print(f"values written to {write_json(json_file, result)}", highlight=False)
    if html is not None:
        out.print(f"report written to {write_html(check(result), html)}", highlight=False)


def facts_of(
    system: Any, environment: Any, episodes: Episodes, mode: str, window: int
) -> dict[str, Any]:
    """What the table and the report say about the set-up."""
    from jaxsched.jobs import digest_tables
    from jaxsched.runs import facts

    options = system.environment_options(environment)
    here = facts()
    return {
        "cluster": f"{options['num_servers']} servers x {options['gpus_per_server']} GPUs",
        "test traces": episodes.source,
        "their digest": digest_tables(episodes.tables)[:12],
        "rules choose from": f"{window} oldest jobs" if window else "the whole queue",
        "a job that does not fit": "is skipped" if mode == "skip" else "blocks the queue",
        "versions": f"jaxsched {here['code']['jaxsched']}, jax {here['versions']['jax']}",
        "device": f"{here['device']['kind']}, {here['cpu_cores']} CPU cores",
    }


def print_comparison(result: dict[str, Any], out: Any) -> None:
    """The verdict and the table."""
    from jaxsched.report import Summary, check, comparison_table

    summary = Summary(check(result))
    out.print(comparison_table(summary))
    if any(policy["kind"] == "learned" for policy in result["policies"]):
        out.print(summary.verdict.headline, highlight=False)
        out.print(summary.verdict.detail, highlight=False)


def _cluster(options: dict[str, Any]) -> tuple[Any, Any]:
    return options["num_servers"], options["gpus_per_server"]


def _command(system: str, checkpoints: list[Path], trace: str | None) -> str:
    words = ["jaxsched", "compare", system]
    words += [word for path in checkpoints for word in ("--checkpoint", str(path))]
    return " ".join(words + (["--trace", trace] if trace else []))
