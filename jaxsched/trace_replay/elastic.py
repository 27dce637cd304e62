"""Elastic jobs on a cluster of equal nodes, in rounds, as Pollux' simulator plays them.

Jobs are trained by the measurements of ``goodput``; their number of GPUs may change while they run.
Time goes in rounds of ``round_s``: jobs train, and at its end the policy says how many GPUs each
job has in the next. A job whose GPUs change loses ``restart_s`` at the beginning of that; who keeps
their number keeps them. A job takes the GPUs of the node with most free ones, and so on. Within a
round a job goes from epoch to epoch, each of which ends at a whole second; its batch is chosen anew
for each. Nodes do not disturb each other, and speeds and noise are known to policies that use them.

With ``tiresias`` this is the published simulator: Tiresias' two queues at 16 GPU-hours, jobs with
the GPUs and the batch size that they ask for (Qiao et al., OSDI'21, section 5.3, ``simulator``).
The other policies are ours:

``fifo``
    The same jobs in order of submission; who does not fit is passed over, nobody is suspended.
``goodput``
    As Pollux would have it, by a greedy choice in place of its genetic search and with measured in
    place of fitted speeds: GPUs go one by one to the job that lowers the sum of
    1 / (speed over that on one GPU) most, which is the mean of speed-ups of power -1 of section
    4.2; each job has one before any has two. Batch sizes follow.
``remaining``
    Optimus' greedy choice (Peng et al., EuroSys'18): to the job whose remaining time falls most.
    Knows how much is left. Batch sizes follow.

These two choose anew where jobs come or end, and every ``period_s``. A running job counts as slower
on any number of GPUs but its own, by (age + restart) / (age - restarts so far), as in section 4.2.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.trace_replay.goodput import (
    Application,
    Batch,
    Floats,
    Integers,
    Placement,
    rows_of,
)

TIRESIAS_GPU_S = 3600 * 16
MOST_JOBS = 10_000
MOST_ROUNDS = 200_000
WORKLOAD = ("name", "time", "application", "num_replicas", "batch_size")


class ElasticJob(NamedTuple):
    """A job as submitted.

    Attributes:
      name: of the job.
      submit_time: whole seconds.
      application: its name.
      num_gpus: what it asks for; policies that choose do not look at it.
      batch_size: likewise, samples.
    """

    name: str
    submit_time: int
    application: str
    num_gpus: int
    batch_size: int


class ElasticRecords(NamedTuple):
    """What became of the jobs.

    Attributes:
      jct: int64 ``[n]``, seconds from submission to completion.
      wait: int64 ``[n]``, seconds to the first round in which it has GPUs.
      restarts: int64 ``[n]``, times that GPUs changed after the first.
      gpu_seconds: float64 ``[n]``, GPUs held, restarts included.
      makespan: seconds from the first submission to the last completion.
    """

    jct: Integers
    wait: Integers
    restarts: Integers
    gpu_seconds: Floats
    makespan: int


@dataclass(eq=False)
class _Job:
    asked: ElasticJob
    application: Application
    fixed: bool
    nodes: dict[int, int] = field(default_factory=dict)
    batch: Batch = Batch(0, 0)
    progress: float = 0.0
    epoch: int = 0
    stopped_s: float = 0.0  # of the restart, still to come
    first: int | None = None
    end: int | None = None
    restarts: int = -1
    gpu_seconds: float = 0.0

    @property
    def placement(self) -> Placement:
        return tuple(self.nodes.values())

    @property
    def num_gpus(self) -> int:
        return sum(self.nodes.values())

    def choose_batch(self) -> None:
        if self.fixed:
            self.batch = self.application.split(self.asked.batch_size, self.num_gpus)
        else:
            self.batch, _ = self.application.best(self.num_gpus, self.epoch)

    def train(self, now: int, seconds: int) -> None:
        """One round from ``now`` on."""
        if not self.nodes:
            return
        used = min(self.stopped_s, seconds)
        self.stopped_s -= used
        clock, left = now + used, seconds - used
        while left > 0 and self.end is None:
            rate = self.application.rate(self.placement, self.batch, self.epoch)
            target = float(self.application.done[self.epoch])
            if self.progress + rate * left < target:
                self.progress += rate * left
                clock, left = clock + left, 0
            else:
                spent = round((target - self.progress) / rate)
                self.progress = target
                self.epoch += 1
                clock, left = clock + spent, left - spent
                if self.epoch == len(self.application.done):
                    self.end = int(clock)
                else:
                    self.choose_batch()
        self.gpu_seconds += self.num_gpus * (clock - now)
        if self.end is not None:
            self.nodes = {}

    def move(self, nodes: dict[int, int], now: int, restart_s: int) -> None:
        self.nodes = nodes
        if nodes:
            self.choose_batch()
            self.stopped_s = restart_s
            self.restarts += 1
            self.first = now if self.first is None else self.first

    def remaining_s(self, num_gpus: int) -> float:
        """Seconds to the end on so many GPUs on the fewest nodes."""
        return self.application.seconds_left(num_gpus, self.epoch, self.progress)


Choice = Callable[[int, list[_Job], int], Mapping[_Job, int]]
"""Time, jobs in the system, GPUs of the cluster -> GPUs of the jobs that have some."""


class _Tiresias:
    """Two queues by attained GPU time; who was demoted stays so. Jobs that fit, in order."""

    def __init__(self) -> None:
        self.queues: tuple[list[_Job], list[_Job]] = ([], [])
        self.running: dict[_Job, int] = {}
        self.attained_s: dict[_Job, int] = {}
        self.before = 0

    def __call__(self, now: int, jobs: list[_Job], capacity: int) -> Mapping[_Job, int]:
        there = set(jobs)
        high, low = ([job for job in queue if job in there] for queue in self.queues)
        high += [job for job in jobs if job not in self.attained_s]
        for job in jobs:
            self.attained_s.setdefault(job, 0)
            if job in self.running:
                self.attained_s[job] += now - self.before
            demoted = self.attained_s[job] * job.asked.num_gpus >= TIRESIAS_GPU_S
            if demoted and job in self.running and job in high:
                high.remove(job)
                low.append(job)
        self.queues, self.before = (high, low), now
        self.running = _first_that_fit(high + low, capacity)
        return self.running


def _first_that_fit(jobs: Sequence[_Job], capacity: int) -> dict[_Job, int]:
    chosen = {}
    for job in jobs:
        if job.asked.num_gpus <= capacity:
            chosen[job] = job.asked.num_gpus
            capacity -= job.asked.num_gpus
    return chosen


def _fifo(now: int, jobs: list[_Job], capacity: int) -> Mapping[_Job, int]:
    del now
    running = [job for job in jobs if job.nodes]
    waiting = [job for job in jobs if not job.nodes]
    return _first_that_fit(running + waiting, capacity)


@dataclass(eq=False)
class _Greedy:
    """GPUs one by one to the job of which one more is worth most."""

    cost: Callable[[_Job, int], float]
    restart_s: int
    period_s: int
    last: Mapping[_Job, int] = field(default_factory=dict)
    since: int = 0

    def __call__(self, now: int, jobs: list[_Job], capacity: int) -> Mapping[_Job, int]:
        if set(self.last) != set(jobs) or now - self.since >= self.period_s:
            self.last, self.since = self._chosen(now, jobs, capacity), now
        return self.last

    def _cost(self, job: _Job, num_gpus: int, now: int) -> float:
        """What is lowered, with the restart that another number of GPUs would cost."""
        cost = self.cost(job, num_gpus)
        if not job.nodes or num_gpus == job.num_gpus:
            return cost
        age = now - job.asked.submit_time
        return cost * (age + self.restart_s) / max(age - job.restarts * self.restart_s, 1e-3)

    def _chosen(self, now: int, jobs: list[_Job], capacity: int) -> dict[_Job, int]:
        gpus = {job: int(k < capacity) for k, job in enumerate(jobs)}
        free = capacity - sum(gpus.values())
        queue: list[tuple[float, int, int]] = []  # less the gain for each GPU, place, GPUs then

        def offer(place: int) -> None:
            job = jobs[place]
            most = min(job.application.most_gpus, gpus[job] + free)
            now_at = self._cost(job, gpus[job], now)
            gains = [
                ((self._cost(job, then, now) - now_at) / (then - gpus[job]), place, then)
                for then in range(gpus[job] + 1, most + 1)
            ]
            if gains and min(gains)[0] < 0:
                heapq.heappush(queue, min(gains))

        for place in range(min(len(jobs), capacity)):
            offer(place)
        while queue and free:
            _, place, then = heapq.heappop(queue)
            job = jobs[place]
            if then - gpus[job] <= free:
                free -= then - gpus[job]
                gpus[job] = then
            offer(place)
        return gpus


def _slowness(job: _Job, num_gpus: int) -> float:
    best = job.application.best
    return best(1, job.epoch)[1] / best(num_gpus, job.epoch)[1]


FIXED: dict[str, Callable[[], Choice]] = {"tiresias": _Tiresias, "fifo": lambda: _fifo}
"""Policies of jobs that have what they ask for."""
ELASTIC: dict[str, Callable[[_Job, int], float]] = {
    "goodput": _slowness,
    "remaining": _Job.remaining_s,
}
"""What policies lower that choose GPUs and batch sizes: of a job, by its number of GPUs."""
POLICIES = (*FIXED, *ELASTIC)


def replay_elastic(
    jobs: Sequence[ElasticJob],
    applications: Mapping[str, Application],
    policy: str,
    *,
    num_nodes: int = 16,
    gpus_per_node: int = 4,
    round_s: int = 60,
    restart_s: int = 30,
    period_s: int = 600,
) -> ElasticRecords:
    """Play a workload to its end.

    Args:
      jobs: in order of submission.
      applications: from ``goodput.read_applications``.
      policy: one of ``POLICIES``.
      num_nodes: nodes of the cluster.
      gpus_per_node: GPUs of each; speeds were measured on nodes of up to 4.
      round_s: whole seconds of a round.
      restart_s: whole seconds that a change of GPUs costs a job.
      period_s: seconds after which policies that choose do so again.

    Raises:
      JaxschedError: no such policy or application, a job that the cluster cannot hold, options out
        of range, or GPUs and batch sizes that were not measured.
    """
    _check(jobs, applications, policy, num_nodes, gpus_per_node, round_s, restart_s, period_s)
    fixed = policy in FIXED
    choose = FIXED[policy]() if fixed else _Greedy(ELASTIC[policy], restart_s, period_s)
    every = [_Job(job, applications[job.application], fixed) for job in jobs]
    now, rounds = 0, 0
    while any(job.end is None for job in every):
        if rounds == MOST_ROUNDS:
            raise JaxschedError(f"elastic: not at an end after {MOST_ROUNDS} rounds of {round_s} s")
        for job in every:
            job.train(now, round_s)
        now, rounds = now + round_s, rounds + 1
        there = [job for job in every if job.asked.submit_time <= now and job.end is None]
        if there:
            chosen = choose(now, there, num_nodes * gpus_per_node)
            _place(there, chosen, now, (num_nodes, gpus_per_node), restart_s)
    submit = np.array([job.submit_time for job in jobs])
    end = np.array([job.end for job in every])
    return ElasticRecords(
        end - submit,
        np.array([job.first for job in every]) - submit,
        np.array([job.restarts for job in every]),
        np.array([job.gpu_seconds for job in every]),
        int(end.max() - submit.min()),
    )


def _place(
    jobs: list[_Job], chosen: Mapping[_Job, int], now: int, cluster: tuple[int, int], restart_s: int
) -> None:
    """Give jobs the GPUs chosen, in the order of ``chosen``; who has as many keeps them."""
    free = dict.fromkeys(range(cluster[0]), cluster[1])
    kept = {job for job in jobs if job.num_gpus == chosen.get(job, 0)}
    for job in kept:
        for node, count in job.nodes.items():
            free[node] -= count
    for job in jobs:
        if job not in kept and not chosen.get(job, 0):
            job.move({}, now, restart_s)
    for job, gpus in chosen.items():
        if job in kept or not gpus:
            continue
        nodes: dict[int, int] = {}
        while sum(nodes.values()) < gpus:
            node = max(free, key=free.__getitem__)
            nodes[node] = min(free[node], gpus - sum(nodes.values()))
            free[node] -= nodes[node]
        job.move(nodes, now, restart_s)


def _check(
    jobs: Sequence[ElasticJob],
    applications: Mapping[str, Application],
    policy: str,
    num_nodes: int,
    gpus_per_node: int,
    round_s: int,
    restart_s: int,
    period_s: int,
) -> None:
    if policy not in POLICIES:
        raise JaxschedError(
            f"elastic: policy is {describe_value(policy)}; accepted: {', '.join(POLICIES)}"
        )
    ranges: dict[str, tuple[Any, int, int]] = {
        "num_nodes": (num_nodes, 1, 1024),
        "gpus_per_node": (gpus_per_node, 1, 4),
        "round_s": (round_s, 1, 86_400),
        "restart_s": (restart_s, 0, 86_400),
        "period_s": (period_s, 1, 2**30),
    }
    for name, (value, least, most) in ranges.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            raise JaxschedError(
                f"elastic: {name} is {describe_value(value)}; accepted: a whole number from "
                f"{least} to {most}"
            )
    if not 0 < len(jobs) <= MOST_JOBS:
        raise JaxschedError(f"elastic: {len(jobs)} jobs; accepted: 1 to {MOST_JOBS}")
    for before, job in zip((jobs[0], *jobs), jobs, strict=False):
        if job.application not in applications:
            raise JaxschedError(
                f"elastic: job {describe_value(job.name)} is of {describe_value(job.application)}; "
                f"accepted: {', '.join(applications)}"
            )
        if not 1 <= job.num_gpus <= num_nodes * gpus_per_node:
            raise JaxschedError(
                f"elastic: job {describe_value(job.name)} asks for {job.num_gpus} GPUs; accepted: "
                f"1 to {num_nodes * gpus_per_node}, which the cluster has"
            )
        if not before.submit_time <= job.submit_time or job.submit_time < 0:
            raise JaxschedError(
                f"elastic: job {describe_value(job.name)} comes at {job.submit_time} s; accepted: "
                "from 0 on, jobs in order of submission"
            )


def read_workload(file: PathLike) -> list[ElasticJob]:
    """Jobs of a file ``workload-K.csv``: name, time (s), application, num_replicas, batch_size.

    Raises:
      JaxschedError: one line with the row and what is accepted.
    """
    jobs = []
    for number, row in enumerate(rows_of(file, MOST_JOBS), 1):
        texts = [row.get(name) or "" for name in WORKLOAD]
        whole = [texts[k] for k in (1, 3, 4)]
        if not all(each.isascii() and each.isdecimal() and len(each) < 10 for each in whole):
            raise JaxschedError(
                f"{file}, row {number}: is {describe_value(','.join(texts))}; accepted: "
                f"{', '.join(WORKLOAD)}, whole numbers for all but name and application"
            )
        time, gpus, batch = map(int, whole)
        jobs.append(ElasticJob(texts[0], time, texts[2], gpus, batch))
    return sorted(jobs, key=lambda job: job.submit_time)
