"""``jaxsched replay``: a page that shows schedules of one episode, moment by moment."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jaxsched.arguments import LARGEST
from jaxsched.cli.compare import PlayedPreset
from jaxsched.cli.options import (
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
from jaxsched.experiment.asked import Asked
from jaxsched.experiment.options import LOAD, TraceOptions, read_part
from jaxsched.files import read_json

if TYPE_CHECKING:
    from jaxsched.experiment.replaying import Replay
    from jaxsched.runs.heartbeat import Heartbeat
    from jaxsched.runs.policies import Named
    from jaxsched.systems.system import System

MOST_PANELS = 4


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


def _tell(out: Any, shown: "Replay", html: Path) -> None:
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


def _shown(subject: str, wanted: Wanted) -> "Replay":
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


def _of_case(path: Path, case: dict[str, Any], wanted: Wanted) -> "Replay":
    """A golden case as it is, or under the policies that were asked for."""
    from jaxsched.experiment.replaying import show_case

    unused = {"--trace": wanted.trace, "--preset": wanted.preset, "--set": wanted.settings,
              "--servers": wanted.servers}  # fmt: skip
    for name, value in unused.items():
        if value:
            raise JaxschedError(f"{path}: is a case; {name} goes with a trace or a trained policy")
    if wanted.system not in (None, case["system"]):
        raise JaxschedError(f"{path}: is a case of {case['system']!r}, not of {wanted.system!r}")
    return show_case(path, case, wanted.episode, wanted.policies)


def _of_policy(subject: str, wanted: Wanted) -> "Replay":
    """A policy, on the system's test set unless told otherwise."""
    from jaxsched.runs.policies import find
    from jaxsched.systems import registry

    found = find(subject, None if wanted.system is None else registry.get(wanted.system))
    return _played(found.system, [found], wanted, wanted.trace)


def _of_trace(subject: str, wanted: Wanted) -> "Replay":
    """A trace under the policies that were asked for."""
    from jaxsched.experiment.sources import system_of_trace
    from jaxsched.systems import registry

    if wanted.trace is not None:
        raise JaxschedError(f"{subject}: --trace goes with a policy")
    name = wanted.system or system_of_trace(subject)
    return _played(registry.get(name), [], wanted, subject)


def _played(
    system: "System", subjects: list["Named"], wanted: Wanted, trace: str | None
) -> "Replay":
    """Policies of one system on one episode."""
    from jaxsched.experiment.replaying import show
    from jaxsched.runs.policies import find

    found = [*subjects, *(find(word, system) for word in wanted.policies)]
    changes = environment_changes(system, wanted.settings, wanted.servers)
    asked = Asked(wanted.preset, changes, trace, wanted.options, wanted.chosen)
    rules = [policy.rule for policy in found if policy.rule]
    trained = [policy.best_trained() for policy in found if not policy.rule]
    return show(system, rules, trained, asked, wanted.episode, on_player=wanted.tell)
