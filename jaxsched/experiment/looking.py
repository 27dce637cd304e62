"""Gains by look-ahead: ``jaxsched.headroom``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxsched.errors import JaxschedError, counted
from jaxsched.experiment import frames
from jaxsched.experiment.asked import Asked, Players
from jaxsched.experiment.contests import Prepared, prepare
from jaxsched.experiment.names import asked_of, system_of
from jaxsched.experiment.options import TraceOptions, read_part
from jaxsched.experiment.players import each_of, learned_of, owner_of, players_of
from jaxsched.experiment.sources import Source
from jaxsched.report.summary import number
from jaxsched.results.comparison import Learned
from jaxsched.results.headroom import Settings, measure
from jaxsched.systems.system import System


@dataclass(frozen=True, eq=False)
class Headroom:
    """Results of look-ahead over a policy.

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
    checkpoint: Any = (),
    traces: Source | None = None,
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
    horizon: float | None = None,
    futures: int = 8,
    alternatives: int | None = None,
    margin: float = 2.0,
    discount: float = float("inf"),
    **environment: Any,
) -> Headroom:
    """Measure the gain of look-ahead over a policy, on resampled futures and on the true one.

    Args:
      system: name of a system, or a ``System``.
      policy: the base, a name or a trained policy; the best rule on these episodes if absent.
      checkpoint: trained policies to show beside it: runs, folders, "SYSTEM/pretrained".
      traces: a named trace, a file, a loaded log or job tables; the test traces if absent.
      num_traces: episodes.
      num_jobs: jobs of each.
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
      horizon: simulated seconds of rollouts; the system's own if absent.
      futures: resampled futures; 0: only the true one (clairvoyant).
      alternatives: actions tried; all if absent.
      margin: standard errors that a gain must exceed.
      discount: seconds after which a reward counts 1/e.
      environment: options of the environment.

    Raises:
      JaxschedError: a name, value or trace is refused, or nothing can be tried beside the policy.
    """
    chosen = system_of(system)
    how = TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load, format,
                       read_part(part), columns, timezone)  # fmt: skip
    asked = asked_of(chosen, traces, how, preset=preset, servers=servers, environment=environment,
                     options=options, settings=set)  # fmt: skip
    settings = Settings(futures, alternatives, horizon, margin, discount)
    base = None if policy is None else players_of(policy, chosen)
    shown = [learned_of(one, chosen) for one in each_of(checkpoint)]
    return Headroom(look_ahead(owner_of(policy, chosen), base, shown, asked, settings))


def look_ahead(
    system: System,
    base: Players | None,
    shown: Sequence[Learned],
    asked: Asked,
    settings: Settings,
    *,
    command: str = "",
    on_prepared: Callable[[Prepared], object] = lambda prepared: None,
    on_progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> dict[str, Any]:
    """Measure the gain of look-ahead over a base policy.

    Args:
      system: whose policies play.
      base: the one policy of rollouts; None: the best rule on these episodes.
      shown: trained policies to show beside it.
      asked: on what.
      settings: of the look-ahead.
      command: that gives the same results.
      on_prepared: called when the episodes are ready, before any is played.
      on_progress: called with a policy, the episodes it has played, and how many there are.

    Returns:
      All values, as ``jaxsched headroom --json`` writes them.

    Raises:
      JaxschedError: a name, value or trace is refused, or nothing can be tried beside the policy.
    """
    first = base or Players(None, [])
    if first.own:
        raise JaxschedError(
            "head-room is of rules and trained policies of the system, no functions"
        )
    own = (*first.loaded, *(named.trained()[0] for named in first.trained))
    players = Players(None, [], loaded=(*own, *shown))
    prepared = prepare(system, players, asked, command)
    on_prepared(prepared)
    played_on: Any = None
    if base is not None:
        played_on = base.heuristics[0] if base.heuristics else prepared.learned[0]
    return measure(
        prepared.contest,
        prepared.names,
        prepared.learned,
        played_on,
        settings,
        environment=prepared.environment,
        on_progress=on_progress,
    )
