"""Gavel's policies for GPUs of different types, in rounds (Narayanan et al., OSDI'20), on the host.

A linear program says which share of its time each job should spend on each type of GPU; a mechanism
in rounds comes close to it (sections 4 and 5). It is solved anew at every round that finds other
jobs in the system than the last one, and time is counted from then on.

**Max-min fairness** (section 4.1) maximises the least of all jobs' normalised throughputs:
``(sum_k X[j, k] speed[j, k]) / (sum_k share[k] speed[j, k]) * gpus[j]`` with the kinds' shares of
the cluster, and among such solutions their sum. **Makespan** (section 4.2) maximises the least of
``(sum_k X[j, k] speed[j, k]) / work left[j]``, and then the sum. Both under ``sum_k X[j, k] <= 1``
and ``sum_j X[j, k] gpus[j] <= GPUs[k]``.

**A round** goes through all pairs of a job and a kind with a share, by the share over the part of
the time since the last solution that the job has spent there, largest first (a kind where it has
not been comes before all others; ties: the larger share, the first submitted, the first kind). A
job runs where it fits, whole servers first and the rest on the one with the fewest free GPUs that
suffice; every round fills empty servers. A job that ends leaves its GPUs idle up to the end of the
round; one that is submitted waits for the next, or starts one if nothing else is in the system.

Differences to the published simulator: no pairs of jobs share GPUs, a job keeps all its GPUs on
servers of one kind as in the replay engine, and second sums choose among the many optima.

Axes: ``n`` jobs, ``a`` of them in the system, ``K`` kinds of servers.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers, JobTable
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.servers import Kind
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.gpu_types import LONGEST_RUN, UNIT, speeds_of
from jaxsched.trace_replay.records import Records
from jaxsched.trace_replay.tables import as_table

Floats = npt.NDArray[np.float64]
Goal = Literal["max-min", "makespan"]
GOALS: tuple[Goal, ...] = ("max-min", "makespan")

ROUND_S = 360
MOST_JOBS = 5000
_SLACK = 1e-7  # of the first optimum, that the second may give up


def replay_in_rounds(
    jobs: JobTable | Mapping[str, Any], cluster: Cluster, goal: Goal, *, round_s: int = ROUND_S
) -> Records:
    """Run every job of a table as Gavel's mechanism does.

    Args:
      jobs: as ``replay`` takes them, up to ``MOST_JOBS``; a linear program is solved for most.
      cluster: the cluster, with or without types.
      goal: one of ``GOALS``; ``makespan`` knows run times.
      round_s: length of a round.

    Raises:
      JaxschedError: as ``replay``, another goal, or too many jobs.
    """
    if goal not in GOALS:
        raise JaxschedError(f"goal is {describe_value(goal)}; accepted: {', '.join(GOALS)}")
    whole = isinstance(round_s, int) and not isinstance(round_s, bool)
    if not whole or not 1 <= round_s <= LONGEST_RUN:
        raise JaxschedError(
            f"round_s is {describe_value(round_s)}; accepted: a whole number from 1 on"
        )
    if cluster.demands or cluster.slots > 1:
        given = "limits of CPUs and memory" if cluster.demands else "slots of GPUs"
        raise JaxschedError(f"gavel: servers with {given}; accepted: servers without")
    table = as_table(jobs, cluster)
    if len(table) > MOST_JOBS:
        raise JaxschedError(
            f"table '{table.name}': has {len(table)} jobs, for each of which a linear program is "
            f"solved; accepted: up to {MOST_JOBS}"
        )
    return _Rounds(table, cluster, goal, round_s).play()


def allocation(
    gpus: Integers, speeds: Integers, capacity: Integers, goal: Goal, work: Integers
) -> Floats:
    """The share of its time that each job should spend on each kind, ``[a, K]``.

    Args:
      gpus: int64 ``[a]``.
      speeds: int64 ``[a, K]``, 0 where a job cannot run.
      capacity: GPUs of each kind, int64 ``[K]``.
      goal: one of ``GOALS``.
      work: work left, int64 ``[a]``; for the makespan.
    """
    count, kinds = speeds.shape
    unit = work if goal == "makespan" else speeds @ (capacity / capacity.sum()) / gpus
    rate = speeds / np.asarray(unit, np.float64)[:, None]
    rate /= rate.max()
    row, column = np.divmod(np.arange(count * kinds), kinds)
    last = np.full(count, count * kinds)
    at = np.arange(count)
    rows = np.concatenate([row, at, count + row, 2 * count + column])
    columns = np.concatenate([np.arange(count * kinds), last, *2 * [np.arange(count * kinds)]])
    values = np.concatenate(
        [-rate.reshape(-1), np.ones(count), np.ones(count * kinds), gpus[row].astype(np.float64)]
    )
    matrix = coo_matrix((values, (rows, columns)), (2 * count + kinds, count * kinds + 1)).tocsr()
    limits = np.concatenate([np.zeros(count), np.ones(count), capacity.astype(np.float64)])
    most = np.append((speeds > 0).reshape(-1).astype(np.float64), np.inf)
    bounds = np.stack([np.zeros(len(most)), most], axis=1)
    goal_of_least = np.zeros(len(most))
    goal_of_least[-1] = -1
    first = _solved(goal_of_least, matrix, limits, bounds)
    bounds[-1, 0] = max(first[-1] * (1 - _SLACK), 0)
    bounds[-1, 1] = bounds[-1, 0]
    second = _solved(np.append(-rate.reshape(-1), 0.0), matrix, limits, bounds)
    found: Floats = np.clip(second[:-1].reshape(count, kinds), 0, 1)
    found[found < _SLACK] = 0
    return found


def _solved(costs: Floats, matrix: Any, limits: Floats, bounds: Floats) -> Floats:
    found = linprog(costs, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
    if found.x is None:
        raise JaxschedError(f"gavel: the linear program has no solution ({found.message})")
    return np.asarray(found.x, np.float64)


class _Run(NamedTuple):
    """A run of a job: on which kind, and since when."""

    kind: int
    begun: int


class _Rounds:
    """One play; plain Python numbers."""

    def __init__(self, table: JobTable, cluster: Cluster, goal: Goal, round_s: int) -> None:
        self.table, self.goal, self.round_s = table, goal, round_s
        alike = Kind(cluster.num_servers, cluster.gpus_per_server, cluster.num_gpus)
        self.kinds = cluster.kinds or (alike,)
        self.speeds = _speeds(table, cluster)
        self.gpus, self.submit = table["num_gpus"].tolist(), table["submit_time"].tolist()
        self.work = [UNIT * int(seconds) for seconds in table["duration"]]
        count = len(table)
        self.start, self.end = [-1] * count, [0] * count
        self.held, self.stops = [0] * count, [0] * count
        self.last: dict[int, _Run] = {}
        self.cuts: list[tuple[int, int, int]] = []
        self.first_server, self.num_servers = [0] * count, [0] * count

    def play(self) -> Records:
        """Round after round."""
        time, arrived, active = 0, 0, list[int]()
        shares, spent, since = np.zeros((0, 0)), np.zeros((0, 0)), 0
        solved: list[int] = []
        while arrived < len(self.submit) or active:
            if not active:
                time = max(time, self.submit[arrived])
            while arrived < len(self.submit) and self.submit[arrived] <= time:
                active.append(arrived)
                arrived += 1
            if active != solved:
                solved, since = list(active), time
                shares, spent = self._shares(active), np.zeros((len(active), len(self.kinds)))
            chosen = self._chosen(active, shares, spent / max(time - since, 1))
            self._stop_others({active[place]: kind for place, (kind, _) in chosen.items()}, time)
            for place, (kind, servers) in chosen.items():
                self._run(active[place], kind, servers, time)
                spent[place, kind] += self.round_s
            time += self.round_s
            if time >= LONGEST_RUN:
                raise JaxschedError(
                    f"table '{self.table.name}': the schedule runs past 2**31 s; accepted: fewer "
                    "or shorter jobs, or more GPUs"
                )
            active = [j for j in active if self.work[j] > 0]
        return self._records()

    def _shares(self, active: list[int]) -> Floats:
        capacity = np.array([kind.num_gpus for kind in self.kinds], np.int64)
        work = np.array([self.work[j] for j in active], np.int64)
        gpus = np.array([self.gpus[j] for j in active], np.int64)
        return allocation(gpus, self.speeds[active], capacity, self.goal, work)

    def _chosen(
        self, active: list[int], shares: Floats, part: Floats
    ) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Who runs in the round: places in ``active`` -> kind and servers."""
        with np.errstate(divide="ignore", invalid="ignore"):
            urgency = np.where(shares > 0, shares / part, -1.0)
        job, kind = np.divmod(np.arange(shares.size), shares.shape[1])
        order = np.lexsort((kind, job, -shares.reshape(-1), -urgency.reshape(-1)))
        free = [[each.gpus_per_server] * each.num_servers for each in self.kinds]
        left = [each.num_gpus for each in self.kinds]
        found: dict[int, tuple[int, tuple[int, ...]]] = {}
        for pair in order[: int(np.sum(shares > 0))].tolist():
            place, number = divmod(pair, shares.shape[1])
            gpus = self.gpus[active[place]]
            if place in found or gpus > left[number]:
                continue
            servers = _taken(free[number], self.kinds[number].gpus_per_server, gpus)
            if servers is not None:
                left[number] -= gpus
                found[place] = number, servers
        return found

    def _stop_others(self, kinds: dict[int, int], time: int) -> None:
        """Cut the runs of jobs that do not go on on the same kind."""
        for j, run in list(self.last.items()):
            if kinds.get(j) != run.kind:
                self.cuts.append((j, run.begun, time))
                self.stops[j] += 1
                del self.last[j]

    def _run(self, j: int, kind: int, servers: tuple[int, ...], time: int) -> None:
        """One round of a job, or what it needs of it."""
        speed = int(self.speeds[j, kind])
        seconds = min(self.round_s, -(-self.work[j] // speed))
        self.work[j] = max(self.work[j] - seconds * speed, 0)
        begun = self.last[j].begun if j in self.last else time
        self.last[j] = _Run(kind, begun)
        if self.start[j] < 0:
            self.start[j] = time
        self.held[j] += seconds
        if self.work[j] == 0:
            first = sum(each.num_servers for each in self.kinds[:kind])
            self.end[j] = time + seconds
            self.num_servers[j], self.first_server[j] = len(servers), first + min(servers)
            del self.last[j]

    def _records(self) -> Records:
        columns = (self.start, self.end, self.num_servers, self.first_server, self.stops, self.held)
        start, end, servers, first, stops, held = (np.array(each, np.int64) for each in columns)
        submit, gpus, duration = (
            self.table[name] for name in ("submit_time", "num_gpus", "duration")
        )
        cuts = np.array(self.cuts, np.int64).reshape(-1, 3)
        return Records(submit, gpus, duration, start, end, servers, first, stops, held, cuts)


def _speeds(table: JobTable, cluster: Cluster) -> Integers:
    if cluster.gpu_types:
        return speeds_of(table, cluster)
    if not cluster.kinds:
        return np.full((len(table), 1), UNIT, np.int64)
    largest = np.array([kind.most_for_a_job for kind in cluster.kinds])
    return np.where(table["num_gpus"][:, None] <= largest[None, :], UNIT, 0)


def _taken(free: list[int], size: int, gpus: int) -> tuple[int, ...] | None:
    """The servers that a job takes of one kind, and takes them; None where it does not fit."""
    whole, rest = divmod(gpus, size)
    empty = [server for server, left in enumerate(free) if left == size][:whole]
    if len(empty) < whole:
        return None
    part: list[int] = []
    if rest:
        able = [s for s, left in enumerate(free) if left >= rest and s not in empty]
        if not able:
            return None
        part = [min(able, key=lambda s: (free[s], s))]
        free[part[0]] -= rest
    for server in empty:
        free[server] = 0
    return (*empty, *part)
