"""Recorded schedules of one episode: ``jaxsched.replay``, and those of golden cases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.experiment.asked import Asked
from jaxsched.experiment.contests import cluster_of, facts_of
from jaxsched.experiment.names import asked_of, system_of
from jaxsched.experiment.options import TraceOptions, read_part
from jaxsched.experiment.players import owner_of, players_of
from jaxsched.experiment.run import Run
from jaxsched.experiment.sources import Source, resolve
from jaxsched.experiment.trained import TrainedPolicy
from jaxsched.files import PathLike
from jaxsched.jobs.schedule import Schedule
from jaxsched.results import recorded
from jaxsched.results.comparison import Learned
from jaxsched.runs.overrides import change_environment
from jaxsched.runs.policies import on_cluster
from jaxsched.systems import functions, registry
from jaxsched.systems.cases import under_policy, with_table
from jaxsched.systems.system import System

CHANGED = "changed in the traces"
"""Name of the fact that lists what was dropped, raised, capped or drawn."""


@dataclass(frozen=True, eq=False)
class Replay:
    """Recorded schedules of one episode.

    Attributes:
      schedules: one for each policy.
      title: of the page.
      facts: of the set-up.
      notes: changes of the traces: what was dropped, changed or drawn.
    """

    schedules: Sequence[Schedule]
    title: str
    facts: Mapping[str, str]
    notes: Sequence[str] = ()

    def save(self, path: PathLike) -> Path:
        """Write the page.

        Raises:
          JaxschedError: the name does not end in .html, or the file cannot be written.
        """
        from jaxsched.report.replay import write_replay

        path = Path(path)
        if path.suffix != ".html":
            raise JaxschedError(f"{path}: accepted: a name that ends in .html")
        write_replay(self.schedules, path, title=self.title, facts=self.facts)
        return path

    def _repr_html_(self) -> str:
        from html import escape

        from jaxsched.report.replay import render_replay

        page = render_replay(self.schedules, title=self.title, facts=self.facts)
        style = "width:100%;height:40em;border:0"
        return f'<iframe srcdoc="{escape(page)}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        """One line."""
        names = ", ".join(schedule.policy for schedule in self.schedules)
        return f"Replay({self.title}: {names})"


def replay(
    system: Any,
    *,
    policies: Any = None,
    traces: Source | None = None,
    episode: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    trace_seed: int = 0,
    cut: bool = False,
    mean_gap: float | None = None,
    load: float | None = None,
    part: str | Sequence[float] | None = None,
    format: str | None = None,  # noqa: A002  (the command's word)
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    preset: str | None = None,
    servers: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  (the command's word)
    options: Mapping[str, Any] | None = None,
    **environment: Any,
) -> Replay:
    """Play one episode under several policies and record which job holds which GPUs when.

    Args:
      system: name of a system, or a ``System``.
      policies: names of rules, runs or trained policies; the system's first rule if absent.
      traces: where the episode is taken from; the test traces if absent.
      episode: which of them, from 0.
      num_traces: how many are drawn or cut; as many as the episode takes if absent.
      num_jobs: jobs of the episode.
      trace_seed: of what is drawn.
      cut: cut a log into consecutive pieces, do not resample it.
      mean_gap: rescale times to this mean gap between jobs, s.
      load: rescale times to this offered load of the cluster.
      part: first and last share of a log's jobs in order of submission, "0.8:1" or (0.8, 1).
      format: of trace files; told by their content if absent.
      columns: of a table of one's own, names in the file to names in a trace.
      timezone: of times in a trace file that say none, such as "Europe/Berlin".
      preset: whose cluster and test traces are used.
      servers: the cluster as "40x8".
      set: changes of the environment as the command takes them, ``{"env.NAME": value}``.
      options: of the heuristics.
      environment: options of the environment.

    Raises:
      JaxschedError: a name, value or trace is refused, or there is no such episode.
    """
    chosen = system_of(system)
    how = TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                       read_part(part), columns, timezone)  # fmt: skip
    asked = asked_of(chosen, traces, how, preset=preset, servers=servers, environment=environment,
                     options=options, settings=set)  # fmt: skip
    players = players_of([] if policies is None else policies, chosen)
    if players.own:
        raise JaxschedError("replays show rules and trained policies of the system, no functions")
    given = policies if isinstance(policies, list | tuple) else [policies]
    loaded = [_best(one) for one in given if isinstance(one, Run | TrainedPolicy)]
    learned = [*loaded, *(named.best_trained() for named in players.trained)]
    return show(owner_of(policies, chosen), players.heuristics, learned, asked, episode)


def _best(policy: Run | TrainedPolicy) -> Learned:
    return policy.policy.learned if isinstance(policy, Run) else policy.learned


def _silent(player: str) -> Callable[[int], None]:
    del player
    return lambda steps: None


def show(
    system: System,
    names: Sequence[str] | None,
    learned: Sequence[Learned],
    asked: Asked,
    episode: int,
    *,
    on_player: Callable[[str], Callable[[int], None]] = _silent,
) -> Replay:
    """Record one episode under each policy, in the environment of that policy.

    Args:
      system: whose policies play.
      names: rules; None: all usual ones. Without any policy the system's first rule plays.
      learned: trained policies, one seed each; they come first on the page.
      asked: on what; where it tells no number of traces, as many as the episode takes are made.
      episode: which of the traces, from 0.
      on_player: called with each policy before it is played; returns a function that is called with
        the steps played.

    Raises:
      JaxschedError: a name, value or trace is refused, or there is no such episode.
    """
    cluster, traces = cluster_of(system, asked)
    learned = [
        on_cluster(one, system, change_environment(one.env, asked.changes)) for one in learned
    ]
    if learned:
        cluster = learned[0].env
    if names is None:
        names = functions.usual_policies(system, cluster)
    elif not names and not learned:
        names = [functions.usual_policies(system)[0]]
    for name in names:
        functions.heuristic(
            system, name, cluster, 1, asked.chosen
        )  # refuse bad names before any work
    options = asked.options
    if options.num_traces is None:
        options = options._replace(num_traces=episode + 1)
    source = traces.test if asked.trace is None else asked.trace
    episodes = resolve(source, system, options, cluster)
    if asked.options.num_traces is None:  # of fewer than the episode asks for all are taken
        count = len(episodes.tables)
        options = options._replace(num_traces=min(options.num_traces or count, count))
    episodes = episodes.made_with(options, system, cluster)
    if episode >= len(episodes.tables):
        raise JaxschedError(
            f"{argument('episode')} is {episode}; accepted: below {len(episodes.tables)}, the "
            f"traces of {episodes.source}"
        )
    table = episodes.tables[episode]
    players = recorded.players(system, names, learned, cluster, len(table), asked.chosen)
    players.sort(key=lambda player: player.network is None)  # trained ones first
    schedules = [
        recorded.record(system, player, table, on_steps=on_player(player.name))
        for player in players
    ]
    facts = {"system": system.name, "episode": f"{episode} ({table.name})"}
    told = facts_of(system, cluster, episodes, asked.chosen)
    facts |= {name: str(fact) for name, fact in told.items()}
    facts[CHANGED] = "; ".join(episodes.notes)
    title = f"{system.title or system.name}: {episodes.source}"
    return Replay(schedules, title, facts, episodes.notes)


def show_case(
    path: Path, case: Mapping[str, Any], episode: int = 0, policies: Sequence[str] = ()
) -> Replay:
    """Recorded schedules of a golden case, as it is or under rules of its system.

    Args:
      path: of its file, beside which its tables are.
      case: what the file holds.
      episode: which of several cases, from 0.
      policies: rules that play it; as the case says if there are none.

    Raises:
      JaxschedError: no case, or one that cannot be played.
    """
    if not isinstance(case["system"], str):
        raise JaxschedError(f'{path}: is not a case: expected an object with "system"')
    system = registry.get(case["system"])
    try:
        chosen = with_table(_one_case(case, episode), path.parent)
        played = [under_policy(chosen, system.name, policy) for policy in policies or (None,)]
        schedules = [recorded.record_case(system, one, path.stem) for one in played]
    except JaxschedError as error:
        raise JaxschedError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    facts = {"system": system.name, "case": path.stem, "about": str(case.get("description", ""))}
    return Replay(schedules, f"{system.name}: case {path.stem}", facts)


def _one_case(case: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    """The case itself, or one of those that it lists."""
    if "reject" in case:
        raise JaxschedError("lists tables that are refused; accepted: a case that plays")
    if "cases" not in case:
        return case
    entries = case["cases"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise JaxschedError("'cases' must be a list of objects")
    if index >= len(entries):
        raise JaxschedError(
            f"{argument('episode')} is {index}; accepted: below {len(entries)}, its cases"
        )
    entry: dict[str, Any] = entries[index]
    return entry if "policy" in entry else {"actions": [], **entry}
