"""Replays of a workload under every policy, with intervals and distances to the lower bounds."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.leaderboard.workloads import Prepared
from jaxsched.jobs import Integers
from jaxsched.results.statistics import Interval, ratio_interval
from jaxsched.trace_replay import Policy, Records, replay, summary
from jaxsched.trace_replay.bounds import Goals, LowerBounds, lower_bounds
from jaxsched.trace_replay.policies import Locality

BLOCKS = 50
"""Consecutive jobs are resampled together in as many blocks, since they share their queues."""

REFERENCE = "fifo-skip"
"""What policies are compared with where it plays; else the first one."""

_INTERVALS = ("avg_jct", "over_reference")

Report = Callable[[str], None]


class Standing(NamedTuple):
    """One policy on one workload.

    Attributes:
      policy: its name.
      clairvoyant: whether it uses true run times.
      figures: of ``jaxsched.trace_replay.summary``; seconds.
      avg_jct: mean JCT (s) with a 95 % block-bootstrap interval over the trace.
      over_reference: mean JCT over that of the reference policy, likewise; both have the same
        blocks, so what a block's jobs have in common does not widen it.
      jct_ratio: mean JCT over the lower bound for schedules of its kind.
      makespan_ratio: makespan over its lower bound.
      seconds: wall time of the replay, compilation left out.
    """

    policy: str
    clairvoyant: bool
    figures: dict[str, float]
    avg_jct: Interval
    over_reference: Interval
    jct_ratio: float
    makespan_ratio: float
    seconds: float


@dataclass(frozen=True)
class Standings:
    """All policies on one workload.

    Attributes:
      workload: its name.
      num_jobs: jobs of it.
      num_servers: servers of the cluster.
      gpus_per_server: GPUs of each.
      load: offered load.
      digest: of the trace.
      notes: what was changed in it.
      bounds: lower bounds in seconds, by kind of schedules and metric, and every single one.
      reference: the policy that others are compared with.
      standings: the policies, in the order given.
    """

    workload: str
    num_jobs: int
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
            {**row._asdict(), **{name: asdict(getattr(row, name)) for name in _INTERVALS}}
            for row in self.standings
        ]
        return {**vars(self), "notes": list(self.notes), "standings": rows}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Standings":
        """What ``to_json`` wrote."""
        rows = tuple(
            Standing(**{**row, **{name: Interval(**row[name]) for name in _INTERVALS}})
            for row in values["standings"]
        )
        return Standings(**{**values, "notes": tuple(values["notes"]), "standings": rows})


def play(
    prepared: Prepared,
    policies: Mapping[str, Policy],
    *,
    iterations: int = 30,
    report: Report = lambda line: None,
) -> Standings:
    """Replay a workload under every policy.

    Args:
      prepared: the workload.
      policies: name -> policy.
      iterations: of the bounds from prices; see ``lower_bounds``.
      report: called with a line when the bounds and when each policy are done.
    """
    began = time.perf_counter()
    by_locality: dict[Locality, LowerBounds] = {"strict": _bounds(prepared, "strict", iterations)}
    bounds = by_locality["strict"]
    best = bounds.preemptive.avg_jct_s
    report(f"bounds: {best / 3600:.2f} h, {time.perf_counter() - began:.0f} s")
    reference = REFERENCE if REFERENCE in policies else next(iter(policies))
    compared: list[float] = []
    found: dict[str, Standing] = {}
    for name in (reference, *(name for name in policies if name != reference)):
        policy = policies[name]
        if policy.locality not in by_locality:
            by_locality[policy.locality] = _bounds(prepared, policy.locality, iterations)
        allowed = by_locality[policy.locality]
        goals = allowed.preemptive if policy.preemptive else allowed.non_preemptive
        records, seconds = _timed(prepared, policy)
        compared = compared or block_sums(records.jct)
        standing = _standing(prepared, name, policy, goals, records, seconds, compared)
        found[name] = standing
        report(
            f"{name}: {standing.avg_jct.estimate / 3600:.2f} h, {standing.jct_ratio:.2f} x bound, "
            f"{standing.seconds:.1f} s"
        )
    return Standings(
        workload=prepared.name,
        num_jobs=len(prepared.table),
        num_servers=prepared.cluster.num_servers,
        gpus_per_server=prepared.cluster.gpus_per_server,
        load=prepared.load,
        digest=prepared.digest,
        notes=prepared.notes,
        bounds={
            "non_preemptive": bounds.non_preemptive._asdict(),
            "preemptive": bounds.preemptive._asdict(),
            "avg_jct_s": bounds.avg_jct_s,
            "makespan_s": bounds.makespan_s,
        },
        reference=reference,
        standings=tuple(found[name] for name in policies),
    )


def block_interval(values: Integers, *, blocks: int = BLOCKS) -> Interval:
    """Mean of a series ``[n]`` with a 95 % bootstrap interval over blocks of neighbours."""
    counts = block_sums(np.ones_like(values), blocks=blocks)
    return ratio_interval(block_sums(values, blocks=blocks), counts)


def block_sums(values: Integers, *, blocks: int = BLOCKS) -> list[float]:
    """Sums of a series ``[n]`` over as many blocks of neighbours."""
    return [float(np.sum(part)) for part in np.array_split(values, min(blocks, len(values)))]


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


def _standing(
    prepared: Prepared,
    name: str,
    policy: Policy,
    goals: Goals,
    records: Records,
    seconds: float,
    compared: list[float],
) -> Standing:
    figures = summary(records, prepared.cluster)
    avg_jct = block_interval(records.jct)
    return Standing(
        policy=name,
        clairvoyant=policy.clairvoyant,
        figures=figures,
        avg_jct=avg_jct,
        over_reference=ratio_interval(block_sums(records.jct), compared),
        jct_ratio=avg_jct.estimate / goals.avg_jct_s,
        makespan_ratio=figures["makespan"] / goals.makespan_s,
        seconds=seconds,
    )


def _timed(prepared: Prepared, policy: Policy) -> tuple[Records, float]:
    """A replay and its wall time (s); the first one compiles and is not counted."""
    records = replay(prepared.table, prepared.cluster, policy)
    began = time.perf_counter()
    replay(prepared.table, prepared.cluster, policy)
    return records, time.perf_counter() - began
