"""What no schedule of rigid jobs can beat: lower bounds on average JCT and makespan.

A job ``j`` is submitted at ``r_j`` and holds ``g_j`` GPUs for ``d_j`` seconds wherever it runs; the
cluster has ``S`` servers of ``M`` GPUs, ``G = S M`` in all. A **non-preemptive** schedule runs
every job in one piece, a **preemptive** one may suspend it and resume it anywhere, always with all
its GPUs. A bound for preemptive schedules holds for non-preemptive ones too, since these are a
special case.

All bounds keep of the cluster only that the widths of the jobs that run at any instant add up to at
most ``G``, for one or more choices of widths (`relaxed_widths`, `large_job_widths`); each docstring
has its proof.
Axes: ``n`` jobs. Whole seconds and exact integers inside, float64 results.
"""

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable, validate
from jaxsched.jobs.columns import describe_value
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.lagrangian import (
    MAX_BINS,
    Integers,
    PlanningProblem,
    best_bound,
    busy_time_dual,
    start_time_dual,
)
from jaxsched.trace_replay.policies import LOCALITIES, Locality

JCT_BOUNDS = {
    "run_time": "every job takes its run time",
    "srpt": "one machine as fast as all GPUs, shortest remaining work first",
    "mean_busy": "the same machine, mean busy times",
    "busy_prices": "prices of GPU time, mean busy times",
    "start_prices": "prices of GPU time, jobs run in one piece (non-preemptive only)",
}
MAKESPAN_BOUNDS = {
    "last_end": "no job ends before submission plus run time",
    "work": "what is submitted from some time on needs all GPUs for so long",
}

MOST_LARGE = 2
"""Of the choices of `large_job_widths`, those of most work, so many are searched for prices."""


class Goals(NamedTuple):
    """Lower bounds for one kind of schedules.

    Attributes:
      avg_jct_s: on the mean of completion minus submission, seconds.
      makespan_s: on the last completion, seconds after the first submission.
    """

    avg_jct_s: float
    makespan_s: float


class LowerBounds(NamedTuple):
    """The best bound of each kind, and every single one.

    Attributes:
      non_preemptive: for schedules that run every job in one piece.
      preemptive: for schedules that may suspend jobs; they hold for all schedules.
      avg_jct_s: name in `JCT_BOUNDS` -> bound in seconds.
      makespan_s: name in `MAKESPAN_BOUNDS` -> bound in seconds; both hold for all schedules.
    """

    non_preemptive: Goals
    preemptive: Goals
    avg_jct_s: dict[str, float]
    makespan_s: dict[str, float]


def pooled(cluster: Cluster) -> Cluster:
    """A cluster of identical servers on which every schedule of a cluster is one, too.

    Where servers differ that is one pool of all GPUs, or of all slots; else it is the cluster
    itself.
    """
    return cluster if cluster.is_plain else Cluster(cluster.in_slots.num_gpus, 1)


def lower_bounds(
    submit_time: Any,
    num_gpus: Any,
    duration: Any,
    *,
    num_servers: int,
    gpus_per_server: int,
    locality: Locality = "strict",
    iterations: int = 30,
    max_bins: int = MAX_BINS,
) -> LowerBounds:
    """All bounds for a job table on a cluster of identical servers.

    Args:
      submit_time: whole seconds, ``[n]``, in order, at least 0.
      num_gpus: GPUs held, ``[n]``, at least 1.
      duration: run time in whole seconds, ``[n]``, at least 1.
      num_servers: servers of the cluster.
      gpus_per_server: GPUs of each.
      locality: ``strict``: a job runs on ``floor(g / M)`` whole servers and has what is left, if
        anything, on one further server; ``any``: on any free GPUs.
      iterations: prices tried on each grid of the two bounds from prices; 0 leaves these at the
        mean run time, which costs next to nothing.
      max_bins: bins of the finest of those grids.

    Raises:
      JaxschedError: columns that ``jaxsched.jobs.validate`` refuses, a job larger than the
        cluster, or options out of range.
    """
    cluster = Cluster(num_servers, gpus_per_server)
    _check_counts(iterations=(iterations, 0), max_bins=(max_bins, 1))
    if locality not in LOCALITIES:
        raise JaxschedError(
            f"bounds: locality is {describe_value(locality)}; accepted: {', '.join(LOCALITIES)}"
        )
    columns = {"submit_time": submit_time, "num_gpus": num_gpus, "duration": duration}
    schema = tuple(column for column in RIGID_JOBS if column.name in columns)
    table = JobTable(columns, schema=schema)
    validate(table, max_gpus=cluster.num_gpus, from_zero=False)
    problems, priced = _problems(table, cluster, locality)
    makespan = {
        "last_end": last_end_bound(problems[0]),
        "work": max(map(work_bound, problems)),
    }
    search = {
        "horizon_s": int(np.ceil(max(makespan.values()))),
        "iterations": iterations,
        "max_bins": max_bins,
    }
    jct = {
        "run_time": run_time_bound(problems[0]),
        "srpt": max(map(srpt_bound, problems)),
        "mean_busy": max(map(mean_busy_bound, problems)),
        "busy_prices": max(best_bound(problem, busy_time_dual, **search) for problem in priced),
        "start_prices": max(best_bound(problem, start_time_dual, **search) for problem in priced),
    }
    longest = max(makespan.values())
    for_all = max(value for name, value in jct.items() if name != "start_prices")
    return LowerBounds(Goals(max(jct.values()), longest), Goals(for_all, longest), jct, makespan)


def _problems(
    table: JobTable, cluster: Cluster, locality: Locality
) -> tuple[list[PlanningProblem], list[PlanningProblem]]:
    """One problem for each choice of widths, and those to search for prices."""
    run_time, submit = table["duration"], table["submit_time"] - table["submit_time"][0]
    relaxed, large = width_choices(table["num_gpus"], run_time, cluster, locality)
    found = [
        PlanningProblem(submit, widths, run_time, cluster.num_gpus) for widths in relaxed + large
    ]
    return found, found[: len(relaxed) + MOST_LARGE]


def width_choices(
    num_gpus: Integers, run_time: Integers, cluster: Cluster, locality: Locality
) -> tuple[list[Integers], list[Integers]]:
    """All of `relaxed_widths`, and of `large_job_widths`, these by the work that they count."""
    relaxed = relaxed_widths(num_gpus, cluster.gpus_per_server, locality)
    large = large_job_widths(relaxed, cluster.num_gpus)
    return relaxed, sorted(large, key=lambda widths: -float(widths @ run_time))


def relaxed_widths(num_gpus: Integers, gpus_per_server: int, locality: Locality) -> list[Integers]:
    """Widths whose sum over the running jobs never exceeds the number of GPUs, some ``[n]``.

    The first are the GPUs themselves. With ``strict`` locality, jobs that leave no room for others
    of their kind on a server count as the whole of it: for a threshold ``e <= M / 2`` what a job
    holds of one server, ``g`` GPUs, has the width ``M`` if ``g > M - e``, ``0`` if ``g < e``, and
    ``g`` otherwise.

    Proof. The widths on one server add up to at most ``M``: if one job holds more than ``M - e``
    there, the others hold fewer than ``e`` together and count nothing; if none does, no width is
    above its GPUs. A job's width is the sum over its servers: ``M`` for each whole one and that of
    the remainder. So the widths of all running jobs add up to at most ``S M``. For ``e = M / 2``
    this counts the servers of which a job holds more than half. Where jobs hold powers of two and
    so does a server, nothing but the first choice is of use.

    Widths that are nowhere above those of another choice are left out.

    Args:
      num_gpus: int64 ``[n]``.
      gpus_per_server: ``M``.
      locality: ``any`` has the first choice only.

    Source: dual feasible functions (Fekete and Schepers 2001, u^(epsilon)).
    """
    choices = [num_gpus]
    if locality == "any":
        return choices
    sizes, index = np.unique(num_gpus, return_inverse=True)
    whole, rest = sizes // gpus_per_server * gpus_per_server, sizes % gpus_per_server
    found = [sizes]
    for doubled in range(gpus_per_server, 1, -1):  # 2 e
        full = 2 * rest > 2 * gpus_per_server - doubled
        kept = np.where(2 * rest < doubled, 0, rest)
        widths = whole + np.where(full, gpus_per_server, kept)
        if not any(np.all(widths <= other) for other in found):
            found.append(widths)
    return choices + [widths[index] for widths in found[1:]]


def large_job_widths(choices: Sequence[Integers], capacity: int) -> list[Integers]:
    """Further choices of widths, for jobs that take more than half of the cluster.

    For a width ``w`` of some job with ``G / 2 < w < G``, let jobs of at least that width count as
    the whole cluster, those that fit beside none of them (at most ``G - w``) as nothing, and others
    as they are.

    Proof. The widths of the running jobs add up to at most ``G`` before. If one of them is at least
    ``w``, the others are at most ``G - w`` together, count nothing, and the sum is ``G``; if none
    is, no width has grown.

    Choices that are nowhere above another one are left out.

    Args:
      choices: widths that keep to the capacity, int64 ``[n]`` each.
      capacity: ``G``.

    Source: dual feasible functions (Fekete and Schepers 2001, u^(epsilon)) of the whole cluster.
    """
    found: list[Integers] = []
    for widths in choices:
        sizes = np.unique(widths)
        for size in sizes[(2 * sizes > capacity) & (sizes < capacity)]:
            kept = np.where(widths <= capacity - size, 0, widths)
            raised = np.where(widths >= size, capacity, kept)
            if not any(np.all(raised <= other) for other in (*choices, *found)):
                found.append(raised)
    return found


def run_time_bound(problem: PlanningProblem) -> float:
    """Average JCT of **both** kinds of schedules, seconds: a job takes at least its run time."""
    return float(np.mean(problem.duration))


def srpt_bound(problem: PlanningProblem) -> float:
    """Average JCT of **both** kinds of schedules, seconds: one machine as fast as all GPUs.

    Proof. Let one machine do at most ``G`` units of work per second, on any jobs at once, and let
    job ``j`` need ``p_j = w_j d_j`` units. Every schedule of the cluster is one of this machine (a
    running job works at rate ``w_j``) in which no job completes later, so the machine's optimum is
    a bound. Shortest remaining work first is optimal there: let ``f_m`` be the remaining work of
    all submitted jobs but the ``m`` with most of it. At any time ``f_m`` is at most that of any
    other schedule, for all ``m``, because

    - while this rule has more than ``m`` unfinished jobs, it works on one outside of those ``m``
      and ``f_m`` falls at rate ``G``; otherwise ``f_m = 0``. In any schedule ``f_m``, a minimum
      over sets of jobs of their remaining work, falls no faster;
    - when a job of work ``p`` is submitted, ``f_m`` becomes ``min(f_(m-1), f_m + p)``, and ``f_0``
      becomes ``f_0 + p``, which grows with the old values.

    If another schedule has ``m`` unfinished jobs, its ``f_m`` is 0, hence so is this rule's, which
    has at most ``m`` unfinished jobs too. The integral of that number is the sum of the JCTs.

    Jobs of width 0 are left out and count with their run times.

    Source: Schrage 1968.
    """
    used = problem.width > 0
    finish, _ = one_machine(problem, used)
    late = sum(finish) / problem.capacity - int(np.sum(problem.submit_time[used]))
    return (late + float(np.sum(problem.duration[~used]))) / len(used)


def mean_busy_bound(problem: PlanningProblem) -> float:
    """Average JCT of **both** kinds of schedules, seconds: mean busy times on the same machine.

    Proof. A job that runs at the times of a set of measure ``d_j`` before its completion ``C_j``
    has a mean busy time ``M_j <= C_j - d_j / 2``, as the last ``d_j`` seconds before ``C_j`` have
    the largest mean; hence ``sum_j C_j >= sum_j (M_j + d_j / 2)``. In the machine of `srpt_bound`,
    with rates ``y_j(t)`` of sum at most ``G``, ``M_j`` is the integral of ``t y_j(t) / p_j``, and
    ``sum_j M_j`` is least if the machine always works on the available job of least ``p_j``: number
    the jobs such that ``p_1 <= ... <= p_n``, let ``a_k = 1 / p_k - 1 / p_(k+1) >= 0`` and
    ``a_n = 1 / p_n``, ``Y_k = y_1 + ... + y_k``. Then

    ``sum_j M_j = sum_k a_k (integral of t Y_k(t)) = sum_k a_k (integral of L_k(t))``,

    where ``L_k(t)`` is the work left at ``t`` of jobs ``1..k``, submitted or not. The rule
    works on jobs ``1..k`` whenever one of them is available, for all ``k`` at once, so that at
    every instant no schedule has less of them left.

    Jobs of width 0 are left out of the machine and count with their run times.

    Source: Goemans, Queyranne, Schulz, Skutella and Wang 2002, section 2, with widths.
    """
    used = problem.width > 0
    work = (problem.width * problem.duration)[used]
    _, moment = one_machine(problem, used, work.tolist())
    after = sum(
        twice / (2 * int(amount))
        for twice, amount in zip(moment, work * problem.capacity, strict=True)
    )
    halves = np.sum(np.where(used, problem.duration / 2, problem.duration))
    return (after + float(halves)) / len(used)


def last_end_bound(problem: PlanningProblem) -> float:
    """Makespan of **both** kinds of schedules, seconds: no job ends before ``r_j + d_j``."""
    return float(np.max(problem.submit_time + problem.duration))


def work_bound(problem: PlanningProblem) -> float:
    """Makespan of **both** kinds of schedules, seconds: the work submitted from some time on.

    Proof. For any ``r``, the jobs with ``r_j >= r`` need ``sum w_j d_j`` units of work, all done
    after ``r`` at a rate of at most ``G``: the last of them ends at or after ``r`` plus that over
    ``G``. The largest such value is at some ``r = r_j``.

    Args:
      problem: jobs in order of submission.
    """
    work = problem.width * problem.duration
    from_here = np.cumsum(work[::-1])[::-1]
    return float(np.max(problem.submit_time + from_here / problem.capacity))


def one_machine(
    problem: PlanningProblem, used: np.ndarray, ranks: Sequence[float] | None = None
) -> tuple[list[int], list[int]]:
    """A preemptive machine that does ``G`` units of work per second, least rank first.

    Args:
      problem: jobs in order of submission.
      used: bool ``[n]``, the jobs to run, of positive width.
      ranks: of each job that runs; None: its remaining work.

    Returns:
      Of each job that runs, in the time unit ``1 / G`` seconds: when it finishes, and twice the
      integral of (time since its submission) over the time units in which it is worked on.
    """
    release = [time * problem.capacity for time in problem.submit_time[used].tolist()]
    work = (problem.width * problem.duration)[used].tolist()
    finish, moment = [0] * len(work), [0] * len(work)
    ranks = work if ranks is None else ranks
    queue: list[tuple[float, int, int]] = []  # rank, job, remaining work
    time = submitted = 0
    while submitted < len(work) or queue:
        if not queue:
            time = max(time, release[submitted])
        while submitted < len(work) and release[submitted] <= time:
            heapq.heappush(queue, (ranks[submitted], submitted, work[submitted]))
            submitted += 1
        rank, job, remaining = queue[0]
        end = time + remaining
        if submitted < len(work):
            end = min(end, release[submitted])
        moment[job] += (end - time) * (end + time - 2 * release[job])
        remaining -= end - time
        time = end
        if remaining:
            heapq.heapreplace(queue, (remaining if ranks is work else rank, job, remaining))
        else:
            heapq.heappop(queue)
            finish[job] = time
    return finish, moment


def _check_counts(**counts: tuple[int, int]) -> None:
    """Raise unless every value is a whole number from its minimum on."""
    for name, (value, minimum) in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise JaxschedError(
                f"bounds: {name} is {describe_value(value)}; "
                f"accepted: a whole number from {minimum} on"
            )
