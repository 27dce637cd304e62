"""Optimal schedules of a few small rigid jobs, by trying everything, from the rules alone."""

import heapq
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import NamedTuple

Allocation = tuple[int, ...]  # GPUs of each server


class Case(NamedTuple):
    """Jobs in order of submission (the first at 0) and a cluster."""

    submit: tuple[int, ...]
    gpus: tuple[int, ...]
    duration: tuple[int, ...]
    num_servers: int
    gpus_per_server: int
    locality: str


class Optimum(NamedTuple):
    """The least average JCT and the least makespan, of two schedules as a rule."""

    avg_jct: float
    makespan: float


def allocations(case: Case, free: Allocation, gpus: int) -> Iterator[Allocation]:
    """All ways to give a job GPUs."""
    servers = range(case.num_servers)
    if case.locality == "any":
        yield from _splits(free, gpus)
        return
    whole, rest = divmod(gpus, case.gpus_per_server)
    empty = [server for server in servers if free[server] == case.gpus_per_server]
    for chosen in combinations(empty, whole):
        full = [case.gpus_per_server if server in chosen else 0 for server in servers]
        if rest == 0:
            yield tuple(full)
        for server in servers:
            if rest and server not in chosen and free[server] >= rest:
                yield tuple(full[:server] + [rest] + full[server + 1 :])


def _splits(free: Allocation, gpus: int) -> Iterator[Allocation]:
    if not free:
        if gpus == 0:
            yield ()
        return
    for here in range(min(free[0], gpus) + 1):
        for others in _splits(free[1:], gpus - here):
            yield (here, *others)


def non_preemptive(case: Case) -> Optimum:
    """The optimum over schedules in which every job runs in one piece.

    Jobs start at submissions and completions only: of any schedule, a job that starts between them
    can start at the last of them before, on the same GPUs, and completes no later.
    """
    jobs = range(len(case.submit))

    @cache
    def best(now: int, waiting: frozenset[int], running: frozenset) -> tuple[int, int]:
        """Least sum of later completions, least last completion."""
        running = frozenset(item for item in running if item[0] > now)
        if not waiting:
            ends = [end for end, _, _ in running]
            return 0, max(ends, default=now)
        total, last = float("inf"), float("inf")
        free = tuple(
            case.gpus_per_server - sum(held[server] for _, _, held in running)
            for server in range(case.num_servers)
        )
        for job in waiting:
            if case.submit[job] > now:
                continue
            end = now + case.duration[job]
            for held in allocations(case, free, case.gpus[job]):
                rest, latest = best(now, waiting - {job}, running | {(end, job, held)})
                total, last = min(total, end + rest), min(last, latest)
        moments = [end for end, _, _ in running] + [case.submit[job] for job in waiting]
        later = [moment for moment in moments if moment > now]
        if later:
            rest, latest = best(min(later), waiting, running)
            total, last = min(total, rest), min(last, latest)
        return total, last

    total, last = best(0, frozenset(jobs), frozenset())
    return Optimum((total - sum(case.submit)) / len(jobs), last)


def preemptive(case: Case, per_second: int = 1) -> Optimum:
    """The optimum over schedules that suspend and resume jobs at multiples of a second's part."""
    jobs = range(len(case.submit))
    submit = [time * per_second for time in case.submit]

    @cache
    def together(running: frozenset[int]) -> bool:
        """Whether the jobs can run at once, on any GPUs."""
        return place(sorted(running, key=lambda job: -case.gpus[job]), all_free)

    all_free = (case.gpus_per_server,) * case.num_servers

    def place(left: list[int], free: Allocation) -> bool:
        return not left or any(
            place(left[1:], tuple(f - h for f, h in zip(free, held, strict=True)))
            for held in allocations(case, free, case.gpus[left[0]])
        )

    @cache
    def best(now: int, remaining: tuple[int, ...]) -> tuple[int, int]:
        """Least sum of completions and least last completion of unfinished jobs."""
        left = [job for job in jobs if remaining[job]]
        if not left:
            return 0, 0
        available = [job for job in left if submit[job] <= now]
        if not available:
            return best(min(submit[job] for job in left), remaining)
        total, last = float("inf"), float("inf")
        for size in range(len(available), 0, -1):
            for running in combinations(available, size):
                if not together(frozenset(running)):
                    continue
                after = tuple(remaining[job] - (job in running) for job in jobs)
                done = sum(after[job] == 0 for job in running)
                rest, latest = best(now + 1, after)
                total = min(total, done * (now + 1) + rest)
                last = min(last, max(latest, now + 1 if done else 0))
        return total, last

    total, last = best(0, tuple(duration * per_second for duration in case.duration))
    jct = (total / per_second - sum(case.submit)) / len(jobs)
    return Optimum(jct, last / per_second)


def shortest_first(submit: list[int], gpus: list[int], duration: list[int], total: int) -> Optimum:
    """A feasible schedule of many jobs: the shortest that fits starts, GPUs anywhere."""
    free, running, waiting, ends = total, [], [], []
    moments = sorted(set(submit))
    arrivals = sorted(range(len(submit)), key=lambda job: submit[job])
    while moments:
        now = heapq.heappop(moments)
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[1]
        while arrivals and submit[arrivals[0]] <= now:
            waiting.append(arrivals.pop(0))
        for job in sorted(waiting, key=lambda job: duration[job]):
            if gpus[job] <= free:
                free -= gpus[job]
                ends.append(now + duration[job])
                heapq.heappush(running, (ends[-1], gpus[job]))
                heapq.heappush(moments, ends[-1])
                waiting.remove(job)
    return Optimum((sum(ends) - sum(submit)) / len(submit), max(ends) - min(submit))
