"""The jobs of a request, checked and completed: those that run, wait, or have ended (host side)."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from jaxsched.envs.cluster.environment import ClusterJobs
from jaxsched.errors import JaxschedError
from jaxsched.jobs import MAX_DURATION_S
from jaxsched.systems.cluster_estimates import Estimate, Estimates, is_number, seconds
from jaxsched.systems.cluster_reader import (
    LONGEST_WAIT_S,
    Cluster,
    clock,
    field,
    jobs_of,
    name_of,
    passed,
    shown,
    whole,
    whole_seconds,
)
from jaxsched.trace_replay.demands import UNIT
from jaxsched.trace_replay.gpu_types import MOST_SPEED
from jaxsched.trace_replay.speeds import Speeds, read_speeds, speeds_of_type

RUNNING, WAITING, FINISHED = "running", "waiting", "finished"
UNKNOWN_S = 2048
"""What the environment expects of a job before any other has ended (``trace_replay.history``)."""
MEDIAN_S = 1328  # of the training tables of `search`
LONGEST_S = 2**29
MOST_SUSPENSIONS = 2**15
FASTEST = MOST_SPEED // UNIT


def _outlived(value: Any, job: Mapping[str, Any]) -> Any:
    """A job that has outlived the estimate runs as long again."""
    attained: Any = job.get("attained")
    return max(value, min(2 * attained, MAX_DURATION_S)) if is_number(attained) else value


def _speeds(value: Any, where: str) -> Any:
    """A speed on all types of GPUs, or one for each."""
    given = value.values() if isinstance(value, Mapping) else [value]
    if not all(is_number(speed) and 0 <= speed <= FASTEST for speed in given):
        raise JaxschedError(
            f"{where} is {shown(value)}; accepted: a speed from 0 to {FASTEST} for each type of "
            "GPU, by its name, or one for all"
        )
    return value


ESTIMATES: Estimates = {
    "duration": Estimate(
        MEDIAN_S,
        partial(seconds, most=MAX_DURATION_S),
        "the median of the training tables, or twice what the job has run if that is more; only "
        "policies that know run times read it",
        "seconds above 0",
        _outlived,
    ),
    "expected": Estimate(
        UNKNOWN_S,
        partial(seconds, most=MAX_DURATION_S),
        "the mean run time of jobs of its owner and size that had ended when it was submitted "
        "(else of its size, of its owner, of all); this is for the time before any has ended",
        "seconds above 0",
    ),
}
SPEEDS = Estimate(
    1, _speeds, "as fast on every type of GPU as its run time says", "a speed, or one for each type"
)


def estimates_of(env: ClusterJobs) -> Estimates:
    """Fields of a job that may be unknown."""
    return {**ESTIMATES, "speeds": SPEEDS} if env.cluster.gpu_types else ESTIMATES


class Listed(NamedTuple):
    """The jobs of a request.

    Attributes:
      finished: those that have ended, in order of their ends, and their places in the request.
      ages: seconds since those ends.
      active: list (``running``, ``waiting``) and place of those that run or wait, in the order of
        rows.
      waits: seconds since their submissions; None where that does not matter.
      jobs: the jobs of both lists, with estimates filled in.
      guessed: the estimates that were used for each.
    """

    finished: list[tuple[Mapping[str, Any], str]]
    ages: list[int]
    active: list[tuple[str, int]]
    waits: Sequence[int | None]
    jobs: dict[str, list[dict[str, Any]]]
    guessed: dict[str, list[dict[str, Any]]]

    def job(self, row: int) -> dict[str, Any]:
        """The job of a row of ``active``."""
        name, place = self.active[row]
        return self.jobs[name][place]

    def name(self, row: int) -> Any:
        """Its name in answers."""
        return name_of(self.job(row), self.active[row][1])

    def first(self, env: ClusterJobs) -> int:
        """The first of ``active`` that the window may hold: with suspension running jobs, too."""
        return 0 if env.suspends else len(self.jobs[RUNNING])


def listed(env: ClusterJobs, cluster: Cluster) -> Listed:
    """Read the lists of a request.

    Raises:
      JaxschedError: one is missing, or a time or an estimate that cannot be read.
    """
    now = clock(cluster, "time")
    told = {**cluster, **{name: _prepared(env, cluster, name, now) for name in (RUNNING, WAITING)}}
    read = {name: jobs_of(told, name, estimates_of(env)) for name in (RUNNING, WAITING)}
    jobs = {name: found for name, (found, _) in read.items()}
    active = [(name, place) for name in read for place in range(len(jobs[name]))]
    moving = active if env.suspends else active[len(jobs[RUNNING]) :]
    times = [clock(jobs[name][at], "submit_time", f"{name}[{at}].") for name, at in moving]
    order = sorted(range(len(moving)), key=times.__getitem__)
    moving = [moving[row] for row in order]
    waits = [
        passed(times[row], now, f"{name}[{place}].submit_time")
        for row, (name, place) in zip(order, moving, strict=True)
    ]
    still = len(active) - len(moving)
    finished, ages = _finished(cluster, now)
    guessed = {name: used for name, (_, used) in read.items()}
    return Listed(finished, ages, active[:still] + moving, [*[None] * still, *waits], jobs, guessed)


def _prepared(env: ClusterJobs, cluster: Cluster, name: str, now: float) -> list[Any]:
    """The jobs of a list with their service so far, and with speeds by their type."""
    found = list(field(cluster, name, list, "a list of jobs"))
    for place, job in enumerate(found):
        if isinstance(job, Mapping):  # others are refused later
            before = f"{name}[{place}]."
            if env.suspends:
                job = _with_service(job, name, now, before)
            if env.speeds and name == WAITING:
                job = _with_speeds(job, env, before)
            found[place] = job
    return found


def _with_service(job: Mapping[str, Any], name: str, now: float, before: str) -> Mapping[str, Any]:
    """The job with ``run`` and ``attained``, which includes it (whole s), and ``suspensions``."""
    run = 0
    clock(job, "submit_time", before)
    if name == RUNNING:
        run = passed(clock(job, "start_time", before), now, f"{before}start_time")
    attained = run if job.get("attained") is None else job["attained"]
    if not is_number(attained) or not 0 <= attained <= LONGEST_WAIT_S:
        raise JaxschedError(
            f"{before}attained is {shown(attained)}; accepted: seconds from 0 to {LONGEST_WAIT_S}, "
            "null"
        )
    attained = max(whole_seconds(attained, up=False), run)
    again = int(attained > run)
    if job.get("suspensions") is not None:
        again = whole(job, "suspensions", 0, MOST_SUSPENSIONS, before)
    return {**job, "run": run, "attained": attained, "suspensions": again}


def _with_speeds(job: Mapping[str, Any], env: ClusterJobs, before: str) -> Mapping[str, Any]:
    """The job with the speeds of its ``job_type``, if they are known and it has none of its own."""
    if job.get("speeds") is not None or not isinstance(job.get("job_type"), str):
        return job
    gpus = whole(job, "num_gpus", 1, env.cluster.num_gpus, before)
    known = speeds_of_type(_speed_table(env.speeds), job["job_type"], gpus)
    if known is None:
        return job
    return {**job, "speeds": {kind: thousandths / UNIT for kind, thousandths in known.items()}}


@cache
def _speed_table(name: str) -> Speeds:
    return read_speeds(name)


def _finished(
    cluster: Cluster, now: float
) -> tuple[list[tuple[Mapping[str, Any], str]], list[int]]:
    jobs, _ = jobs_of({FINISHED: cluster.get(FINISHED, [])}, FINISHED, {})
    ends = [clock(job, "end_time", f"{FINISHED}[{place}].") for place, job in enumerate(jobs)]
    order = sorted(range(len(jobs)), key=ends.__getitem__)
    ages = [passed(ends[at], now, f"{FINISHED}[{at}].end_time", LONGEST_S) for at in order]
    return [(jobs[at], f"{FINISHED}[{at}].") for at in order], ages
