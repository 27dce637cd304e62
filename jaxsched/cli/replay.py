"""``jaxsched replay``: a page that shows schedules of one episode, moment by moment."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jaxsched.cli.compare import PlayedPreset
from jaxsched.cli.options import (
    LARGEST,
    Columns,
    Cut,
    EnvironmentSettings,
    Format,
    HeuristicOption,
    Load,
    MeanGap,
    NumJobs,
    NumTraces,
    Part,
    ServersOption,
    Timezone,
    Trace,
    TraceSeed,
    environment_changes,
    heuristic_options,
    old_assignments,
    present_name,
)
from jaxsched.cli.output import check_writable, console
from jaxsched.errors import JaxschedError, counted
from jaxsched.experiment.options import LOAD, TraceOptions, read_part
from jaxsched.files import read_json

if TYPE_CHECKING:
    from jaxsched.jobs.schedule import Schedule
    from jaxsched.runs.heartbeat import Heartbeat
    from jaxsched.runs.policies import Named
    from jaxsched.systems.base import System

MOST_PANELS = 4
CHANGED = "changed in the traces"
"""Name of the fact that lists what was dropped, raised, capped or drawn."""


class Shown(NamedTuple):
    """What the page is to show."""

    schedules: list["Schedule"]
    title: str
    facts: dict[str, str]
    notes: Sequence[str] = ()


class Wanted(NamedTuple):
    """What was asked for beside the subject.

    Attributes:
      policies: as ``jaxsched.runs.policies`` spells them.
      system: name of the system; None: that of the subject.
      preset: whose cluster and test traces are used.
      trace: where the episode is taken from; None: the subject, or the system's test set.
      options: how a trace becomes episodes.
      episode: which of them.
      settings: options of the environment, ``env.NAME=VALUE`` each.
      servers: size of the cluster as it was typed; None: the environment's own.
      chosen: options of heuristics.
      beat: what says how far it is.
    """

    policies: tuple[str, ...]
    system: str | None
    preset: str | None
    trace: str | None
    options: TraceOptions
    episode: int
    settings: list[str]
    servers: str | None
    chosen: dict[str, Any]
    beat: "Heartbeat | None" = None

    def tell(self, player: str) -> Callable[[int], None]:
        """What is called with the steps that a player has played."""

        def say(steps: int) -> None:
            if self.beat is not None:
                self.beat.update(f"playing {player}", steps, 0, "steps")

        say(0)
        return say

    def changed(self, system: "System[Any, Any, Any]", env: Any) -> Any:
        """An environment of the system as ``--set`` and ``--servers`` want it."""
        from jaxsched.runs.overrides import change_environment

        return change_environment(env, environment_changes(system, self.settings, self.servers))


def replay(
    subject: Annotated[
        str,
        typer.Argument(
            help="A policy (SYSTEM/POLICY, or the folder of a trained one), a golden case, or a "
            "trace: its name or file."
        ),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A rule, SYSTEM/POLICY, or the folder of a trained one (repeat to compare them).",
            show_default="the system's first baseline",
        ),
    ] = None,
    html: Annotated[Path, typer.Option("--html", help="Write the page here.")] = Path(
        "replay.html"
    ),
    system: Annotated[
        str | None,
        typer.Option(
            help="System that plays the trace.", show_default="the one that the trace belongs to"
        ),
    ] = None,
    preset: PlayedPreset = None,
    trace: Trace = None,
    episode: Annotated[
        int, typer.Option(min=0, max=LARGEST, help="Which of the traces or cases, from 0.")
    ] = 0,
    settings: EnvironmentSettings = None,
    servers: ServersOption = None,
    env: Annotated[list[str] | None, typer.Option("--env", hidden=True)] = None,
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
) -> None:
    """A page that shows who held which GPUs and when, under one or several policies."""
    from jaxsched.report.replay import write_replay
    from jaxsched.runs.heartbeat import Heartbeat

    check_writable(html)
    wanted = Wanted(
        _names(policy or ()),
        system,
        preset,
        trace,
        TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                     read_part(part), columns, timezone),
        episode,
        [*(settings or ()), *old_assignments("--env", env)],
        servers,
        heuristic_options(option),
    )  # fmt: skip
    out = console()
    with Heartbeat(out, "preparing the episode") as beat:
        shown = _shown(subject, wanted._replace(beat=beat))
    write_replay(shown.schedules, html, title=shown.title, facts=shown.facts)
    _tell(out, shown, html)


def _names(policies: Sequence[str]) -> tuple[str, ...]:
    """Names as they are spelt today, each once."""
    names = tuple(present_name("policy", name) for name in policies)
    if len(set(names)) < len(names) or len(names) > MOST_PANELS:
        raise JaxschedError(f"--policy: accepted: up to {MOST_PANELS} different policies")
    return names


def _tell(out: Any, shown: Shown, html: Path) -> None:
    if "cluster" in shown.facts:
        load = shown.facts.get(LOAD)
        out.print(f"cluster: {shown.facts['cluster']}" + (f"; load {load}" if load else ""),
                  highlight=False)  # fmt: skip
    for note in shown.notes:
        out.print(f"  {note}", highlight=False)
    for schedule in shown.schedules:
        held = len(schedule.pieces.job)
        jobs, rows = counted(len(schedule.submit), "job"), counted(schedule.num_rows, "row")
        out.print(f"{schedule.policy}: {jobs}, {counted(held, 'piece')} on {rows}", highlight=False)
    out.print(f"page written to {html}", highlight=False)


def _shown(subject: str, wanted: Wanted) -> Shown:
    """What the subject is decides how it is played."""
    from jaxsched.runs.policies import names_policy

    path = Path(subject)
    if names_policy(subject):
        return _of_policy(subject, wanted)
    if path.is_file() and path.suffix == ".json":
        found = read_json(path)
        if isinstance(found, dict) and "system" in found:
            return _of_case(path, found, wanted)
    return _of_trace(subject, wanted)


def _of_case(path: Path, case: dict[str, Any], wanted: Wanted) -> Shown:
    """A golden case as it is, or under the policies that were asked for."""
    from jaxsched.results.recorded import record_case
    from jaxsched.systems import registry
    from jaxsched.systems.cases import under_policy, with_table

    if not isinstance(case["system"], str):
        raise JaxschedError(f'{path}: is not a case: expected an object with "system"')
    unused = {"--trace": wanted.trace, "--preset": wanted.preset, "--set": wanted.settings,
              "--servers": wanted.servers}  # fmt: skip
    for name, value in unused.items():
        if value:
            raise JaxschedError(f"{path}: is a case; {name} goes with a trace or a trained policy")
    system = registry.get(case["system"])
    if wanted.system not in (None, system.name):
        raise JaxschedError(f"{path}: is a case of {system.name!r}, not of {wanted.system!r}")
    try:
        chosen = with_table(_one_case(case, wanted.episode), path.parent)
        policies = wanted.policies or (None,)
        played = [under_policy(chosen, system.name, policy) for policy in policies]
        schedules = [record_case(system, one, path.stem) for one in played]
    except JaxschedError as error:
        raise JaxschedError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    facts = {"system": system.name, "case": path.stem, "about": str(case.get("description", ""))}
    return Shown(schedules, f"{system.name}: case {path.stem}", facts)


def _one_case(case: dict[str, Any], index: int) -> dict[str, Any]:
    """The case itself, or one of those that it lists."""
    if "reject" in case:
        raise JaxschedError("lists tables that are refused; accepted: a case that plays")
    if "cases" not in case:
        return case
    entries = case["cases"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise JaxschedError("'cases' must be a list of objects")
    if index >= len(entries):
        raise JaxschedError(f"--episode is {index}; accepted: below {len(entries)}, its cases")
    entry: dict[str, Any] = entries[index]
    return entry if "policy" in entry else {"actions": [], **entry}


def _of_policy(subject: str, wanted: Wanted) -> Shown:
    """A policy, on the system's test set unless told otherwise."""
    from jaxsched.runs.policies import find
    from jaxsched.systems import registry

    found = find(subject, None if wanted.system is None else registry.get(wanted.system))
    return _played(found.system, [found], wanted, wanted.trace)


def _of_trace(subject: str, wanted: Wanted) -> Shown:
    """A trace under the policies that were asked for."""
    from jaxsched.systems import registry

    if wanted.trace is not None:
        raise JaxschedError(f"{subject}: --trace goes with a policy")
    name = wanted.system or _owner(subject)
    return _played(registry.get(name), [], wanted, subject)


def _owner(subject: str) -> str:
    """The system that a named trace belongs to."""
    from jaxsched.systems import registry
    from jaxsched.traces import clusters
    from jaxsched.traces import registry as traces

    for name, workload in zip(registry.names(), registry.workloads(), strict=True):
        if subject in (trace.name for trace in workload.traces):
            return name
    known = subject in clusters.names() or Path(subject).exists()
    if not known:
        raise JaxschedError(
            f"{subject!r} is no folder, file or known trace; accepted: the folder of a trained "
            f"policy, a case, a trace file, or {traces.nearest(subject, clusters.names())}"
        )
    raise JaxschedError(
        f"{subject}: name the system that plays it with --system; known are "
        f"{', '.join(registry.names())}"
    )


def _played(
    system: "System[Any, Any, Any]", subjects: list["Named"], wanted: Wanted, trace: str | None
) -> Shown:
    """Policies of one system on one episode, each in its own form of the environment."""
    from jaxsched.experiment.contests import facts_of
    from jaxsched.experiment.sources import resolve
    from jaxsched.results import recorded
    from jaxsched.runs.policies import find, on_cluster

    cluster, traces = system.environment(), None
    if wanted.preset is not None:
        recipe = system.preset(wanted.preset)
        cluster, traces = recipe.env, system.recipe_traces(recipe)
    cluster = wanted.changed(system, cluster)
    found = [*subjects, *(find(word, system) for word in wanted.policies)]
    names = [policy.rule for policy in found if policy.rule]
    learned = [policy.best_trained() for policy in found if not policy.rule]
    learned = [on_cluster(one, system, wanted.changed(system, one.env)) for one in learned]
    if not names and not learned:
        names = [system.usual_policies()[0]]
    if learned:
        cluster = learned[0].env
    for name in names:
        system.heuristic(name, cluster, 1, wanted.chosen)  # refuse bad names before any work
    options = wanted.options
    if options.num_traces is None:
        options = options._replace(num_traces=wanted.episode + 1)
    name = trace or (traces or system.traces).test
    episodes = resolve(name, system, options, cluster)
    there = _as_there(options, wanted, len(episodes.tables))
    episodes = episodes.made_with(there, system, cluster)
    if wanted.episode >= len(episodes.tables):
        raise JaxschedError(
            f"--episode is {wanted.episode}; accepted: below {len(episodes.tables)}, the traces of "
            f"{episodes.source}"
        )
    table = episodes.tables[wanted.episode]
    players = recorded.players(system, names, learned, cluster, len(table), wanted.chosen)
    players.sort(key=lambda player: player.network is None)  # trained ones first
    schedules = [
        recorded.record(system, player, table, on_steps=wanted.tell(player.name))
        for player in players
    ]
    facts = {name: str(fact) for name, fact in facts_of(system, cluster, episodes,
                                                        wanted.chosen).items()}  # fmt: skip
    facts = {"system": system.name, "episode": f"{wanted.episode} ({table.name})", **facts,
             CHANGED: "; ".join(episodes.notes)}  # fmt: skip
    return Shown(schedules, f"{system.title}: {episodes.source}", facts, episodes.notes)


def _as_there(options: TraceOptions, wanted: Wanted, count: int) -> TraceOptions:
    """Fixed tables are there as they are: of fewer than the episode asks for all are taken."""
    return options if wanted.options.num_traces else options._replace(
        num_traces=min(options.num_traces or count, count)
    )  # fmt: skip
