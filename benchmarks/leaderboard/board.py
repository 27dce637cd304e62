"""Replays of a workload under every policy, and distances to the lower bounds.

A trace is one long series of jobs that wait for each other: neighbouring blocks of it correlate by
0.8 to 0.9, and bootstraps over blocks held the true mean in half of the cases only. So a mean has
an interval where a workload can be drawn again with other seeds, and none where it is one trace.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from benchmarks.leaderboard.workloads import Prepared
from jaxsched.results.statistics import Interval
from jaxsched.trace_replay import Policy, Records, replay, summary
from jaxsched.trace_replay.bounds import Goals, LowerBounds, lower_bounds
from jaxsched.trace_replay.policies import Locality
from jaxsched.trace_replay.tables import groups_of, lacking

REFERENCE = "fifo-skip"
"""What policies are compared with where it plays; else the first one."""

_INTERVALS = ("avg_jct", "over_reference")

Report = Callable[[str], None]


class Standing(NamedTuple):
    """One policy on one workload.

    Attributes:
      policy: its name.
      clairvoyant: whether it uses true run times.
      figures: of ``jaxsched.trace_replay.summary``, means over the draws; seconds.
      avg_jct: mean JCT (s) with a 95 % interval over the draws; NaN where there is one.
      over_reference: mean JCT over that of the reference policy on the same draws, likewise.
      jct_ratio: mean JCT over the lower bound for any schedule, which may suspend jobs; the same
        for all policies (those with locality ``any`` have another cluster, and so a bound of their
        own).
      own_ratio: mean JCT over the lower bound for schedules of its kind.
      makespan_ratio: makespan over the lower bound for schedules of its kind.
      seconds: wall time of a replay, compilation left out.
    """

    policy: str
    clairvoyant: bool
    figures: dict[str, float]
    avg_jct: Interval
    over_reference: Interval
    jct_ratio: float
    own_ratio: float
    makespan_ratio: float
    seconds: float


@dataclass(frozen=True)
class Standings:
    """All policies on one workload.

    Attributes:
      workload: its name.
      num_jobs: jobs of each draw.
      num_draws: how often it was drawn.
      num_servers: servers of the cluster.
      gpus_per_server: GPUs of each.
      load: offered load, mean over the draws.
      digest: of the trace, of the first draw.
      notes: what was changed in it.
      bounds: lower bounds in seconds, by kind of schedules and metric, and every single one; means
        over the draws.
      reference: the policy that others are compared with.
      standings: the policies, in the order given.
    """

    workload: str
    num_jobs: int
    num_draws: int
    num_servers: int
    gpus_per_server: int
    load: float
    digest: str
    notes: tuple[str, ...]
    bounds: dict[str, Any]
    reference: str
    standings: tuple[Standing, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values; ``from_json`` reads them back."""
        rows = [
            {**row._asdict(), **{name: _plain(getattr(row, name)) for name in _INTERVALS}}
            for row in self.standings
        ]
        return {**vars(self), "notes": list(self.notes), "standings": rows}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Standings":
        """What ``to_json`` wrote."""
        rows = tuple(
            Standing(**{**row, **{name: _interval(row[name]) for name in _INTERVALS}})
            for row in values["standings"]
        )
        return Standings(**{**values, "notes": tuple(values["notes"]), "standings": rows})


def _plain(found: Interval) -> dict[str, float | None]:
    return {name: None if math.isnan(end) else end for name, end in asdict(found).items()}


def _interval(values: Mapping[str, float | None]) -> Interval:
    ends = {name: math.nan if end is None else end for name, end in values.items()}
    return Interval(**ends)


class _Draw(NamedTuple):
    """One policy on one draw."""

    figures: dict[str, float]
    goals: Goals
    any_goal_s: float
    seconds: float


def play(
    draws: Sequence[Prepared],
    policies: Mapping[str, Policy],
    *,
    iterations: int = 30,
    report: Report = lambda line: None,
) -> Standings:
    """Replay a workload under every policy.

    Policies that share GPUs among owners are left out where the jobs have none, and so are those
    that go by estimates or deadlines.

    Args:
      draws: the workload, drawn with other seeds if there are several.
      policies: name -> policy.
      iterations: of the bounds from prices; see ``lower_bounds``.
      report: called with a line when the bounds and when each policy are done.
    """
    began = time.perf_counter()
    first = draws[0]
    no_owners = groups_of(first.table).max() == 0
    policies = {
        name: policy
        for name, policy in policies.items()
        if not (no_owners and policy.shares_groups) and not lacking(first.table, policy)
    }
    bounds: dict[Locality, list[LowerBounds]] = {
        "strict": [_bounds(draw, "strict", iterations) for draw in draws]
    }
    strict = bounds["strict"]
    best = float(np.mean([each.preemptive.avg_jct_s for each in strict]))
    report(f"bounds: {best / 3600:.2f} h, {time.perf_counter() - began:.0f} s")
    reference = REFERENCE if REFERENCE in policies else next(iter(policies))
    found: dict[str, Standing] = {}
    compared: list[float] = []
    for name in (reference, *(name for name in policies if name != reference)):
        policy = policies[name]
        if policy.locality not in bounds:
            bounds[policy.locality] = [_bounds(draw, policy.locality, iterations) for draw in draws]
        played = [
            _play(draw, policy, allowed)
            for draw, allowed in zip(draws, bounds[policy.locality], strict=True)
        ]
        compared = compared or [each.figures["avg_jct"] for each in played]
        found[name] = standing = _standing(name, policy, played, compared)
        report(
            f"{name}: {standing.avg_jct.estimate / 3600:.2f} h, {standing.jct_ratio:.2f} x bound, "
            f"{standing.seconds:.1f} s"
        )
    return Standings(
        workload=first.name,
        num_jobs=len(first.table),
        num_draws=len(draws),
        num_servers=first.cluster.num_servers,
        gpus_per_server=first.cluster.gpus_per_server,
        load=float(np.mean([draw.load for draw in draws])),
        digest=first.digest,
        notes=first.notes,
        bounds={
            "non_preemptive": _means([each.non_preemptive._asdict() for each in strict]),
            "preemptive": _means([each.preemptive._asdict() for each in strict]),
            "avg_jct_s": _means([each.avg_jct_s for each in strict]),
            "makespan_s": _means([each.makespan_s for each in strict]),
        },
        reference=reference,
        standings=tuple(found[name] for name in policies),
    )


def _play(prepared: Prepared, policy: Policy, allowed: LowerBounds) -> _Draw:
    records, seconds = _timed(prepared, policy)
    goals = allowed.preemptive if policy.preemptive else allowed.non_preemptive
    figures = summary(records, prepared.cluster)
    return _Draw(figures, goals, allowed.preemptive.avg_jct_s, seconds)


def _standing(
    name: str, policy: Policy, played: Sequence[_Draw], compared: Sequence[float]
) -> Standing:
    figures = _means([each.figures for each in played])
    times = [each.figures["avg_jct"] for each in played]
    return Standing(
        policy=name,
        clairvoyant=policy.clairvoyant,
        figures=figures,
        avg_jct=interval(times, np.ones(len(times))),
        over_reference=interval(times, compared),
        jct_ratio=figures["avg_jct"] / float(np.mean([each.any_goal_s for each in played])),
        own_ratio=figures["avg_jct"] / float(np.mean([each.goals.avg_jct_s for each in played])),
        makespan_ratio=figures["makespan"]
        / float(np.mean([each.goals.makespan_s for each in played])),
        seconds=float(np.mean([each.seconds for each in played])),
    )


def interval(above: ArrayLike, below: ArrayLike) -> Interval:
    """Ratio of means over independent draws with Student's 95 % interval; NaN ends for one draw.

    ``python -m benchmarks.leaderboard.coverage`` tells how often it holds the true mean.
    """
    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    estimate = float(top.sum() / bottom.sum())
    if len(top) < 2:
        return Interval(estimate, math.nan, math.nan)
    error = (top - estimate * bottom).std(ddof=1) / math.sqrt(len(top)) / bottom.mean()
    half = float(stats.t.ppf(0.975, len(top) - 1) * error)
    return Interval(estimate, estimate - half, estimate + half)


def _means(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in figures])) for name in figures[0]}


def _bounds(prepared: Prepared, locality: Locality, iterations: int) -> LowerBounds:
    table, cluster = prepared.table, prepared.cluster
    return lower_bounds(
        table["submit_time"],
        table["num_gpus"],
        table["duration"],
        num_servers=cluster.num_servers,
        gpus_per_server=cluster.gpus_per_server,
        locality=locality,
        iterations=iterations,
    )


def _timed(prepared: Prepared, policy: Policy) -> tuple[Records, float]:
    """A replay and its wall time (s); the first one compiles and is not counted."""
    records = replay(prepared.table, prepared.cluster, policy)
    began = time.perf_counter()
    replay(prepared.table, prepared.cluster, policy)
    return records, time.perf_counter() - began
