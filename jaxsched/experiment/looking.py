"""What could be gained, and who held which GPUs when: ``jaxsched.headroom`` and ``replay``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError, counted
from jaxsched.experiment import frames
from jaxsched.experiment.contests import prepare
from jaxsched.experiment.names import asked_of, system_of
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.players import players_of
from jaxsched.experiment.sources import Source
from jaxsched.files import PathLike
from jaxsched.jobs.schedule import Schedule
from jaxsched.report.summary import number
from jaxsched.results import recorded
from jaxsched.results.headroom import Settings, measure


@dataclass(frozen=True, eq=False)
class Headroom:
    """What look-ahead over a policy reaches.

    Attributes:
      document: all values, as ``jaxsched headroom --json`` writes them.
    """

    document: Mapping[str, Any]

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The base and the look-aheads: means and paired differences to the base."""
        return list(self.document["headroom"]["rows"])

    def to_pandas(self) -> Any:
        """A data frame: a row a policy, a column a metric's mean.

        Raises:
          JaxschedError: pandas is not installed.
        """
        rows = [
            {"policy": row["row"]} | {name: cell["mean"] for name, cell in row["metrics"].items()}
            for row in self.rows
        ]
        return frames.frame_of_rows(rows)

    def __str__(self) -> str:
        """A row a policy: the primary metric, and its difference to the base with an interval."""
        primary = self.document["primary"]
        digits = self.document["metrics"][primary]["digits"]
        lines = []
        for row in self.rows:
            cell = row["metrics"][primary]
            line = f"{row['row']:<24}{number(cell['mean'], digits):>12}"
            if cell.get("difference"):
                gain = cell["difference"]
                line += f"  {gain['estimate']:+.4g} [{gain['low']:+.4g}, {gain['high']:+.4g}]"
            lines.append(line)
        episodes = self.document["episodes"]
        lines.append(f"{primary}, means over {counted(episodes['count'], 'episode')}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """One line."""
        return f"Headroom({self.document['system']}: {len(self.rows)} rows)"


def headroom(
    system: Any,
    policy: Any = None,
    *,
    traces: Source | None = None,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    trace_seed: int = 0,
    load: float | None = None,
    preset: str | None = None,
    servers: str | None = None,
    options: Mapping[str, Any] | None = None,
    horizon: float | None = None,
    futures: int = 8,
    alternatives: int | None = None,
    margin: float = 2.0,
    discount: float = float("inf"),
    **environment: Any,
) -> Headroom:
    """Measure what look-ahead over a policy gains: on redrawn futures, and knowing the future.

    Args:
      system: name of a system, or a ``System``.
      policy: the base, a name or a trained policy; the best rule on these episodes if absent.
      traces: a named trace, a file, a loaded log or job tables; the test traces if absent.
      num_traces: episodes.
      num_jobs: jobs of each.
      trace_seed: of what is drawn.
      load: rescale times to this offered load of the cluster.
      preset: whose cluster and test traces are used.
      servers: the cluster as "40x8".
      options: of the heuristics.
      horizon: simulated seconds that plays go on; the system's own if absent.
      futures: redrawn futures; 0: clairvoyant only.
      alternatives: actions tried; all if absent.
      margin: standard errors that a gain must exceed.
      discount: seconds after which a reward counts 1/e.
      environment: options of the environment.

    Raises:
      JaxschedError: a name, value or trace is refused, or nothing can be tried beside the policy.
    """
    chosen = system_of(system)
    how = TraceOptions(trace_seed, num_traces, num_jobs, load=load)
    asked = asked_of(chosen, traces, how, preset=preset, servers=servers, environment=environment,
                     options=options)  # fmt: skip
    players = players_of("all" if policy is None else policy, chosen)
    base: Any = None
    if policy is not None:
        base = players.heuristics[0] if players.heuristics else None
        players = players._replace(heuristics=None)
    prepared = prepare(chosen, players, asked)
    if policy is not None and base is None:
        base = prepared.learned[0]
    settings = Settings(futures, alternatives, horizon, margin, discount)
    document = measure(
        prepared.contest,
        prepared.names,
        prepared.learned,
        base,
        settings,
        environment=prepared.environment,
    )
    return Headroom(document)


@dataclass(frozen=True, eq=False)
class Replay:
    """Schedules of one episode, moment by moment.

    Attributes:
      schedules: one for each policy.
      title: of the page.
      facts: of the set-up.
    """

    schedules: Sequence[Schedule]
    title: str
    facts: Mapping[str, str]

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
    num_jobs: int | None = None,
    trace_seed: int = 0,
    load: float | None = None,
    preset: str | None = None,
    servers: str | None = None,
    options: Mapping[str, Any] | None = None,
    **environment: Any,
) -> Replay:
    """Play one episode under several policies and keep who held which GPUs when.

    Args:
      system: name of a system, or a ``System``.
      policies: names of rules, runs or trained policies; the system's first rule if absent.
      traces: where the episode is taken from; the test traces if absent.
      episode: which of them, from 0.
      num_jobs: jobs of the episode.
      trace_seed: of what is drawn.
      load: rescale times to this offered load of the cluster.
      preset: whose cluster and test traces are used.
      servers: the cluster as "40x8".
      options: of the heuristics.
      environment: options of the environment.

    Raises:
      JaxschedError: a name, value or trace is refused, or there is no such episode.
    """
    chosen = system_of(system)
    how = TraceOptions(trace_seed, episode + 1, num_jobs, load=load)
    asked = asked_of(chosen, traces, how, preset=preset, servers=servers, environment=environment,
                     options=options)  # fmt: skip
    wanted = [chosen.usual_policies()[0]] if policies is None else policies
    prepared = prepare(chosen, players_of(wanted, chosen), asked)
    contest, cluster = prepared.contest, prepared.environment
    if prepared.own:
        raise JaxschedError("replays show rules and trained policies of the system, no functions")
    if episode >= len(contest.tables):
        raise JaxschedError(
            f"episode is {episode}; accepted: below {len(contest.tables)}, the traces of "
            f"{contest.source}"
        )
    table = contest.tables[episode]
    players = recorded.players(
        chosen, prepared.names, prepared.learned, cluster, len(table), contest.options
    )
    schedules = [recorded.record(chosen, player, table) for player in players]
    facts = {"system": chosen.name, "episode": f"{episode} ({table.name})"}
    facts |= {name: str(fact) for name, fact in contest.facts.items()}
    return Replay(schedules, f"{chosen.title or chosen.name}: {contest.source}", facts)
