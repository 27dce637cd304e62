"""A lower bound on average JCT for policies that know of run times only how they are spread.

Run times are drawn independently, each from the run times of the job's group (jobs of its size, for
example). A **nonclairvoyant** policy knows all submissions, sizes and groups, and the spread of
each group; of a run time it learns that the job has ended, or not yet. The bound is on its expected
average JCT. What stays between it and what rules reach that know run times is the price of not
knowing them, whatever is forecast from the group.

**Proof.** Times that a job has attained are cut into steps at ``0 = e_0 < e_1 < ...``; ``S_j`` is
the last edge that job ``j`` with the run time ``d_j`` gets to, ``t_j(b)`` the time at which it has
attained ``b`` seconds, ``C_j`` its completion.

1. *Completion by what was attained before.* Let ``k_S`` be a density on ``[0, S]``, constant in
   each step. Between attaining ``b`` and ``d_j`` pass at least ``d_j - b`` seconds, so that
   ``C_j >= integral of k_S(b) t_j(b) + d_j - integral of k_S(b) b``, ``S = S_j``.
2. *Only what the policy can know.* In two worlds that differ in ``d_j`` alone, both above ``b``,
   the policy does the same until ``j`` has attained ``b``. So where ``S_j`` is at least the edge
   after ``b``, ``t_j(b)`` does not depend on ``d_j``, and the expectation of ``k_S(b) t_j(b)`` is
   that of ``k(b) t_j(b)`` over the steps that the job gets through, with
   ``k(b) = E[k_S(b) | S > b]``: a weight that does not tell when the job ends.
3. *Weights that fall.* ``t_j`` rises, so that replacing the integral of ``k`` over ``[0, S_j]`` by
   its least concave majorant makes the integral of ``k(b) t_j(b)`` no larger (by parts).
4. *One machine.* Each step of a job is work ``w_j (e_m - e_(m-1))`` that cannot begin before
   ``r_j + e_(m-1)``. The steps, in any order, on one machine that does ``G`` units of work per
   second: their weighted mean busy times are least together if it always does the available step
   of largest weight for its work (`bounds.mean_busy_bound`, with weights).

For densities on the last bit before ``S`` the weights are the chances to end, and 4. is the Gittins
rule of each job's past (2.: what is saved by knowing ends is made up for, as in the dual bounds of
Brown, Smith and Sun 2010); for those on all of it, 1. is the mean busy time of clairvoyant bounds.
Any share between is a bound.

Axes: ``n`` jobs, ``K`` steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay.bounds import MOST_LARGE, one_machine, width_choices
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.lagrangian import Floats, Integers, PlanningProblem
from jaxsched.trace_replay.policies import Locality

SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Densities are on the last part of a run time, by their lengths over it."""

STEP = 1.08
"""An edge over the one before."""


class Drawn(NamedTuple):
    """Redrawn workloads under the bound.

    Attributes:
      avg_jct_s: float64 ``[draws - trials]``, seconds; their mean estimates the bound, which was
        chosen on other draws.
      share: of ``SHARES``.
      widths: which choice: of ``bounds.relaxed_widths``, then of ``bounds.large_job_widths``.
    """

    avg_jct_s: Floats
    share: float
    widths: int


class Weights(NamedTuple):
    """The weights of steps, for one share.

    Attributes:
      edges: int64 ``[K + 1]``, seconds, the first 0.
      of_group: for each group, last step -> weight per second of the steps up to it, falling.
      after: float64 ``[K]``, of each last step, its end less the mean of the density, seconds.
    """

    edges: Integers
    of_group: list[dict[int, Floats]]
    after: Floats


def redraw(duration: Integers, group: Integers, rng: np.random.Generator) -> Integers:
    """Run times drawn with replacement from those of each job's group, int64 ``[n]``, seconds."""
    drawn = np.empty_like(duration)
    for each in np.unique(group):
        mine = group == each
        drawn[mine] = rng.choice(duration[mine], np.count_nonzero(mine))
    return drawn


def nonclairvoyant_bound(
    submit_time: Integers,
    num_gpus: Integers,
    duration: Integers,
    group: Integers,
    draws: Sequence[Integers],
    *,
    cluster: Cluster,
    locality: Locality = "strict",
    trials: int = 2,
) -> Drawn:
    """The bound on a workload whose run times are drawn anew, by the draws.

    The choice among ``SHARES`` and of widths is made on the first draws; each choice is a
    bound.

    Args:
      submit_time: whole seconds, int64 ``[n]``, in order.
      num_gpus: int64 ``[n]``, at least 1 and at most the cluster's.
      duration: int64 ``[n]``, at least 1 s: what run times are drawn from.
      group: int64 ``[n]``, from 0 on; every policy may know the spread of each.
      draws: of ``redraw``, each int64 ``[n]``.
      cluster: its servers are alike.
      locality: as in ``bounds.lower_bounds``.
      trials: draws on which the choice is made.

    Raises:
      JaxschedError: not more draws than trials.
    """
    if not 0 < trials < len(draws):
        raise JaxschedError(
            f"nonclairvoyant: {len(draws)} draws, {trials} trials; accepted: more draws than "
            "trials, of which there is one at least"
        )
    relaxed, large = width_choices(num_gpus, duration, cluster, locality)
    choices = relaxed + large[:MOST_LARGE]
    samples = [duration[group == each] for each in range(int(group.max()) + 1)]
    edges = steps(int(duration.max()))
    weights = [weights_of(samples, edges, share) for share in SHARES]

    def value(widths: Integers, of: Weights, run_times: Integers) -> float:
        since_first = submit_time - submit_time[0]
        problem = PlanningProblem(since_first, widths, run_times, cluster.num_gpus)
        return value_of(problem, group, of)

    tried = [
        [sum(value(widths, of, drawn) for drawn in draws[:trials]) for of in weights]
        for widths in choices
    ]
    which, share = np.unravel_index(int(np.argmax(tried)), np.shape(tried))
    values = [value(choices[which], weights[share], drawn) for drawn in draws[trials:]]
    return Drawn(np.array(values), SHARES[share], int(which))


def steps(longest: int) -> Integers:
    """Edges of the steps, int64 ``[K + 1]``: 0, 1, and each ``STEP`` times the one before."""
    edges = [0, 1]
    while edges[-1] < longest:
        edges.append(max(edges[-1] + 1, int(edges[-1] * STEP)))
    return np.array(edges)


def weights_of(samples: Sequence[Integers], edges: Integers, share: float) -> Weights:
    """Weights of the steps of each group's jobs.

    Args:
      samples: run times of each group, seconds.
      edges: int64 ``[K + 1]``.
      share: of a run time, its last part on which the density is.
    """
    density = _densities(edges, share)
    after = edges[1:] - density @ ((edges[1:] + edges[:-1]) / 2)
    of_group = []
    for sample in samples:
        last = _last_step(edges, sample)
        ends = np.bincount(last, minlength=len(after)) / max(len(sample), 1)
        reach = np.cumsum(ends[::-1])[::-1]
        known = (ends @ density) / np.where(reach > 0, reach, 1)
        total = np.concatenate([[0.0], np.cumsum(known)])
        of_group.append({int(k): _concave(total[: k + 2], edges[: k + 2]) for k in np.unique(last)})
    return Weights(edges, of_group, after)


def value_of(problem: PlanningProblem, group: Integers, weights: Weights) -> float:
    """Seconds for one draw of the run times; the bound is the mean over draws.

    Args:
      problem: jobs in order of submission, with the run times drawn.
      group: int64 ``[n]``.
      weights: of each group.
    """
    edges, length = weights.edges, np.diff(weights.edges)
    last = _last_step(edges, problem.duration)
    job = np.repeat(np.arange(len(last)), last + 1)
    step = np.arange(len(job)) - np.repeat(np.cumsum(last + 1) - (last + 1), last + 1)
    each = np.concatenate(
        [
            weights.of_group[mine][end]
            for mine, end in zip(group.tolist(), last.tolist(), strict=True)
        ]
    )
    begin = problem.submit_time[job] + edges[step]
    order = np.argsort(begin, kind="stable")
    job, step, each = job[order], step[order], each[order]
    width = problem.width[job]
    pieces = PlanningProblem(begin[order], width, length[step], problem.capacity)
    used = width > 0
    _, moment = one_machine(pieces, used, (-(each / np.maximum(width, 1))[used]).tolist())
    late = length[step] / 2  # mean busy time after it could begin
    work = (width * length[step])[used]
    late[used] = np.array(moment, float) / 2 / work / problem.capacity
    weighed = np.sum(each * length[step] * (late + edges[step]))
    rest = weights.after[last] + problem.duration - edges[1:][last]
    return float(weighed + np.sum(rest)) / len(last)


def _last_step(edges: Integers, run_times: Integers) -> Integers:
    """The last step that a job of this run time gets through."""
    return np.searchsorted(edges, run_times, side="right") - 2


def _densities(edges: Integers, share: float) -> Floats:
    """For each last step, how the density is spread over steps, float64 ``[K, K]``."""
    begin, end = edges[:-1], edges[1:]
    from_here = np.minimum((1 - share) * end, begin)[:, None]
    covered = np.minimum(end, end[:, None]) - np.maximum(begin, from_here)
    covered = np.maximum(covered, 0)
    return covered / np.sum(covered, axis=1, keepdims=True)


def _concave(total: Floats, edges: Integers) -> Floats:
    """Slopes of the least concave majorant of ``total`` over ``edges``."""
    corners = [0]
    for k in range(1, len(edges)):
        while len(corners) > 1 and _slope(total, edges, corners[-1], k) >= _slope(
            total, edges, corners[-2], corners[-1]
        ):
            corners.pop()
        corners.append(k)
    slopes = np.diff(total[corners]) / np.diff(edges[corners])
    return np.repeat(slopes, np.diff(corners))


def _slope(total: Floats, edges: Integers, begin: int, end: int) -> float:
    return float((total[end] - total[begin]) / (edges[end] - edges[begin]))
