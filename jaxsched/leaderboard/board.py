"""Replays of a workload under every policy, and distances to the lower bounds.

Figures are of the jobs in the window (``window``), and so are bounds on the average JCT: a schedule
of all jobs contains a schedule of the window's jobs alone, so that no schedule beats the bound
of these, not even one that delays all other jobs.

A trace is one long series of jobs that wait for each other: neighbouring blocks of it correlate by
0.8 to 0.9, and bootstraps over blocks covered the true mean in only half of the cases. So a mean
has an interval where a workload can be drawn with other seeds, and none where it is one trace.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from jaxsched.jobs.shares import slots_of
from jaxsched.leaderboard.entries import Entry
from jaxsched.leaderboard.recorded import players_of
from jaxsched.leaderboard.window import (
    Window,
    figures,
    is_stationary,
    offered_load,
    waiting_by_quarter,
    window_of,
)
from jaxsched.leaderboard.workloads import Prepared
from jaxsched.results.statistics import Interval
from jaxsched.trace_replay import Records, replay
from jaxsched.trace_replay.bounds import LowerBounds, lower_bounds, pooled, relaxed_widths
from jaxsched.trace_replay.gpu_types import shortest_run_times
from jaxsched.trace_replay.policies import Locality

REFERENCE = "fifo-skip"
"""The policy that others are compared with, if present; else the first one."""

ITERATIONS = 20
"""Iterations of the bounds from prices. Half as many more change them by less than 0.3 %."""

Floats = NDArray[np.float64]

_INTERVALS = ("avg_jct", "over_reference")


class Standing(NamedTuple):
    """One policy on one workload.

    Attributes:
      policy: its name.
      knows: what it knows of run times, one of ``entries.KNOWLEDGE``.
      suspends: whether it suspends running jobs.
      learned: whether it was trained.
      figures: of ``window.figures``, means over the draws; seconds.
      avg_jct: mean JCT (s) with a 95 % interval over the draws; NaN ends for a single draw.
      over_reference: mean JCT over that of the reference policy on the same draws, with interval.
      jct_ratio: mean JCT over the lower bound for any schedule, which may suspend jobs; the same
        for all policies (those with locality ``any`` have another cluster, and so a bound of their
        own).
      own_ratio: mean JCT over the lower bound for schedules of its kind.
      seconds: wall time of a replay without compilation; None: not timed.
      recorded: whether the row is no policy, but the log's own schedule.
    """

    policy: str
    knows: str
    suspends: bool
    learned: bool
    figures: dict[str, float]
    avg_jct: Interval
    over_reference: Interval
    jct_ratio: float
    own_ratio: float
    seconds: float | None
    recorded: bool = False

    @property
    def clairvoyant(self) -> bool:
        """Whether it uses true run times."""
        return self.knows == "run times"


@dataclass(frozen=True)
class Standings:
    """All policies on one workload at one load.

    Attributes:
      workload: its name.
      asked_load: the requested load; None: that of its jobs on a given cluster.
      load: the measured load of its window, mean over the draws.
      busy: share of the GPUs' time in the window that jobs hold under the reference policy,
        mean over the draws.
      num_jobs: jobs of each draw, those outside the window included.
      num_measured: jobs in the window.
      num_draws: number of draws.
      num_servers: servers of the cluster.
      gpus_per_server: GPUs of each; where they differ, of the largest.
      digest: of the trace, of the first draw.
      notes: changes to the jobs (of the first draw), and policies that cannot run on it.
      waiting: mean number of jobs that wait, by quarter of the window, under the reference policy,
        mean over the draws.
      stationary: whether the window can be in a steady state (``window.is_stationary``).
      bounds: lower bounds on the average JCT in seconds, by kind of schedules, means over the
        draws.
      reference: the policy that others are compared with.
      seconds: CPU time of the board.
      standings: the policies, in the order given.
      servers: the cluster as typed, where servers differ; else None.
      failures: how servers fail or are reserved, with a digest of the first draw's outages; None:
        they never are.
    """

    workload: str
    asked_load: float | None
    load: float
    busy: float
    num_jobs: int
    num_measured: int
    num_draws: int
    num_servers: int
    gpus_per_server: int
    digest: str
    notes: tuple[str, ...]
    waiting: tuple[float, ...]
    stationary: bool
    bounds: dict[str, float]
    reference: str
    seconds: float
    standings: tuple[Standing, ...]
    servers: str | None = None
    failures: str | None = None

    @property
    def size(self) -> str:
        """The servers in words, ``40 x 8`` where they are alike."""
        return self.servers or f"{self.num_servers} x {self.gpus_per_server}"

    def to_json(self) -> dict[str, Any]:
        """Plain values; ``from_json`` reads them back."""
        rows = [
            {**row._asdict(), **{name: interval_to_json(getattr(row, name)) for name in _INTERVALS}}
            for row in self.standings
        ]
        lists = {"notes": list(self.notes), "waiting": list(self.waiting)}
        found = {**vars(self), **lists, "standings": rows}
        optional = ("servers", "failures")
        return {k: v for k, v in found.items() if k not in optional or v is not None}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Standings":
        """Read the values of ``to_json``."""
        rows = tuple(
            Standing(**{**row, **{name: _interval(row[name]) for name in _INTERVALS}})
            for row in values["standings"]
        )
        tuples = {name: tuple(values[name]) for name in ("notes", "waiting")}
        return Standings(**{**values, **tuples, "standings": rows})


def interval_to_json(found: Interval) -> dict[str, float | None]:
    """An interval as plain values; None where it has no number."""
    return {name: None if math.isnan(end) else end for name, end in asdict(found).items()}


def _interval(values: Mapping[str, float | None]) -> Interval:
    ends = {name: math.nan if end is None else end for name, end in values.items()}
    return Interval(**ends)


class _Draw(NamedTuple):
    """A draw, its window and its bounds."""

    ready: Prepared
    window: Window
    bounds: dict[Locality, LowerBounds]


class _Played(NamedTuple):
    """Results of one policy on one draw."""

    figures: dict[str, float]
    waiting: Floats
    any_bound_s: float
    own_bound_s: float
    seconds: float | None


OnRecords = Callable[[str, int, Prepared, Window, Records], None]


def play(
    draws: Sequence[Prepared],
    entries: Sequence[Entry],
    *,
    asked_load: float | None,
    iterations: int = ITERATIONS,
    timed: bool = False,
    on_records: OnRecords | None = None,
) -> Standings:
    """Replay a workload under every policy that can run on it.

    Args:
      draws: draws of the workload with different seeds.
      entries: the policies.
      asked_load: the requested load; None: that of its jobs on a given cluster.
      iterations: of the bounds from prices; see ``lower_bounds``.
      timed: time a second replay.
      on_records: is called with every policy's name, the number of the draw, the draw, its
        window and the records of all jobs.

    Raises:
      JaxschedError: none of the policies can run.
    """
    began = time.process_time()
    first = draws[0]
    entries, notes = players_of(first, entries)
    kinds: set[Locality] = {"strict", *(entry.locality for entry in entries)}
    measured = [_Draw(draw, *_measures(draw, kinds, iterations)) for draw in draws]
    reference = next((e for e in entries if e.name == REFERENCE), entries[0])
    told = on_records or (lambda *_: None)
    level = _play(measured, reference, timed, told)
    rows = [
        _standing(
            entry,
            level if entry is reference else _play(measured, entry, timed, told),
            level,
            reserved=first.has_reservations,
        )
        for entry in entries
    ]
    loads = [offered_load(draw.table, draw.cluster, window) for draw, window, _ in measured]
    load = float(np.mean(loads))
    busy = float(np.mean([each.figures["utilization"] for each in level]))
    waiting = tuple(np.mean([each.waiting for each in level], axis=0).tolist())
    strict = [draw.bounds["strict"] for draw in measured]
    return Standings(
        workload=first.name,
        asked_load=asked_load,
        load=load,
        busy=busy,
        num_jobs=len(first.table),
        num_measured=measured[0].window.stop - measured[0].window.first,
        num_draws=len(draws),
        num_servers=first.cluster.num_servers,
        gpus_per_server=first.cluster.gpus_per_server,
        digest=first.digest,
        notes=(*first.notes, *notes),
        waiting=waiting,
        stationary=is_stationary(waiting, load, busy),
        bounds={
            "any_s": float(np.mean([each.preemptive.avg_jct_s for each in strict])),
            "non_preemptive_s": float(np.mean([each.non_preemptive.avg_jct_s for each in strict])),
        },
        reference=reference.name,
        seconds=time.process_time() - began,
        standings=tuple(rows),
        servers=None if first.cluster.is_plain else str(first.cluster.servers),
        failures=failures_of(first),
    )


def failures_of(ready: Prepared) -> str | None:
    """Options of failures and reservations, and their digest; None where there are none."""
    if ready.outages is None:
        return None
    options = [each for each in (ready.failures, ready.reservations) if each is not None]
    return " ".join([*options, ready.outages.digest()[:12]])


def _measures(
    prepared: Prepared, kinds: set[Locality], iterations: int
) -> tuple[Window, dict[Locality, LowerBounds]]:
    """The window of a draw and the bounds of the jobs in it; equal bounds are computed once.

    Where servers differ, bounds are those of one pool of all GPUs (or slots), which any schedule
    keeps; where GPUs have types, of GPUs on which every job runs as fast as on its fastest.
    """
    window = window_of(prepared.table)
    jobs = prepared.table.window(window.first, window.stop - window.first)
    shortest = shortest_run_times(jobs, prepared.cluster)
    cluster, held = pooled(prepared.cluster), slots_of(jobs, prepared.cluster.slots)
    found: dict[Locality, LowerBounds] = {}
    choices: dict[Locality, list[Any]] = {}
    for kind in sorted(kinds, key=["strict", "any"].index):
        choices[kind] = relaxed_widths(held, cluster.gpus_per_server, kind)
        if kind == "any" and _equal(choices["any"], choices["strict"]):
            found["any"] = found["strict"]
            continue
        found[kind] = lower_bounds(
            jobs["submit_time"],
            held,
            shortest,
            num_servers=cluster.num_servers,
            gpus_per_server=cluster.gpus_per_server,
            locality=kind,
            iterations=iterations,
        )
    return window, found


def _equal(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(np.array_equal, some, others))


def _play(
    draws: Sequence[_Draw], entry: Entry, timed: bool, on_records: OnRecords
) -> list[_Played]:
    """One policy on every draw."""
    found = []
    for number, draw in enumerate(draws):
        ready, allowed = draw.ready, draw.bounds[entry.locality]
        records, seconds = _replayed(ready, entry, timed)
        on_records(entry.name, number, ready, draw.window, records)
        in_pieces = entry.suspends or ready.outages is not None
        own = allowed.preemptive if in_pieces else allowed.non_preemptive
        measured = figures(records, ready.table, ready.cluster, draw.window)
        if entry.recorded and measured["utilization"] > 1:  # the log's cluster is a larger one
            del measured["utilization"]
        found.append(
            _Played(
                measured,
                waiting_by_quarter(records, draw.window),
                allowed.preemptive.avg_jct_s,
                own.avg_jct_s,
                seconds,
            )
        )
    return found


def _replayed(ready: Prepared, entry: Entry, timed: bool) -> tuple[Records, float | None]:
    """A replay, and the wall time (s) of a second one without compilation."""
    outages = ready.outages

    def play() -> Records:
        if outages is None or entry.policy is None:
            return entry.play(ready.table, ready.cluster)
        return replay(ready.table, ready.cluster, entry.policy, outages=outages)

    records = play()
    if not timed:
        return records, None
    began = time.perf_counter()
    play()
    return records, time.perf_counter() - began


def _standing(
    entry: Entry, played: Sequence[_Played], level: Sequence[_Played], *, reserved: bool
) -> Standing:
    means = _means([each.figures for each in played])
    times = [each.figures["avg_jct"] for each in played]
    clock = [each.seconds for each in played if each.seconds is not None]
    return Standing(
        policy=entry.name,
        **entry.marks(reserved=reserved),
        figures=means,
        avg_jct=interval(times, np.ones(len(times))),
        over_reference=interval(times, [each.figures["avg_jct"] for each in level]),
        jct_ratio=means["avg_jct"] / float(np.mean([each.any_bound_s for each in played])),
        own_ratio=means["avg_jct"] / float(np.mean([each.own_bound_s for each in played])),
        seconds=float(np.mean(clock)) if clock else None,
    )


def interval(above: ArrayLike, below: ArrayLike) -> Interval:
    """Ratio of means over independent draws with a 95 % interval; NaN ends for one draw.

    Student's interval of the ratio's logarithm (delta method), since such means are skewed and
    never below 0, with one degree of freedom less for each of the two means. ``python -m
    benchmarks.leaderboard.coverage`` measures how often it covers the true mean.
    """
    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    estimate = float(top.sum() / bottom.sum())
    if len(top) < 2:
        return Interval(estimate, math.nan, math.nan)
    error = (top - estimate * bottom).std(ddof=1) / math.sqrt(len(top)) / top.mean()
    factor = math.exp(float(stats.t.ppf(0.975, max(len(top) - 2, 1)) * error))
    return Interval(estimate, estimate / factor, estimate * factor)


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over draws of the figures that all draws have."""
    common = [name for name in found[0] if all(name in each for each in found)]
    return {name: float(np.mean([each[name] for each in found])) for name in common}
