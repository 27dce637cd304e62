"""The bound for policies that do not know run times: below the best of them, and not by much."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import POLICIES, Cluster, replay
from jaxsched.trace_replay.bounds import lower_bounds, mean_busy_bound, width_choices
from jaxsched.trace_replay.lagrangian import PlanningProblem
from jaxsched.trace_replay.nonclairvoyant import (
    SHARES,
    nonclairvoyant_bound,
    redraw,
    steps,
    value_of,
    weights_of,
)

ROUNDING = 1e-9


class Case(NamedTuple):
    """Jobs in order of submission, each with its own equally likely run times, on one server."""

    submit: tuple[int, ...]
    gpus: tuple[int, ...]
    run_times: tuple[tuple[int, ...], ...]
    capacity: int


def random_case(rng: np.random.Generator) -> Case:
    jobs, capacity = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    submit = np.sort(rng.integers(0, 4, jobs))
    return Case(
        tuple((submit - submit[0]).tolist()),
        tuple(rng.integers(1, capacity + 1, jobs).tolist()),
        tuple(tuple(rng.choice([1, 2, 3, 6], 3).tolist()) for _ in range(jobs)),
        capacity,
    )


def best_expected(case: Case) -> float:
    """The least expected average JCT of policies that decide at whole seconds, by trying all."""
    jobs = range(len(case.submit))
    never = -1

    @cache
    def from_here(time: int, attained: tuple[int, ...]) -> float:
        """The expected sum of JCTs from here on; of an ended job ``attained`` is ``never``."""
        here = [job for job in jobs if attained[job] != never and case.submit[job] <= time]
        if all(each == never for each in attained):
            return 0.0
        choices = [
            chosen
            for count in range(len(here) + 1)
            for chosen in combinations(here, count)
            if sum(case.gpus[job] for job in chosen) <= case.capacity
            and (chosen or len(here) < sum(each != never for each in attained))
        ]
        return len(here) + min(after(time, attained, chosen) for chosen in choices)

    def after(time: int, attained: tuple[int, ...], chosen: Sequence[int]) -> float:
        expected = 0.0
        for ended in product((False, True), repeat=len(chosen)):
            now, chance = list(attained), 1.0
            for job, ends in zip(chosen, ended, strict=True):
                left = [each for each in case.run_times[job] if each > attained[job]]
                ending = sum(each == attained[job] + 1 for each in left) / len(left)
                chance *= ending if ends else 1 - ending
                now[job] = never if ends else attained[job] + 1
            if chance:
                expected += chance * from_here(time + 1, tuple(now))
        return expected

    return from_here(0, (0,) * len(case.submit)) / len(case.submit)


def worlds(case: Case) -> list[PlanningProblem]:
    """All draws of the run times, equally likely."""
    submit, gpus = np.array(case.submit), np.array(case.gpus)
    return [
        PlanningProblem(submit, gpus, np.array(drawn), case.capacity)
        for drawn in product(*case.run_times)
    ]


def expected_bound(case: Case, share: float) -> float:
    samples = [np.array(each) for each in case.run_times]
    weights = weights_of(samples, steps(max(map(max, case.run_times))), share)
    group = np.arange(len(samples))
    return float(np.mean([value_of(world, group, weights) for world in worlds(case)]))


@pytest.fixture(scope="module")
def cases() -> list[tuple[Case, float]]:
    rng = np.random.default_rng(5)
    return [(case, best_expected(case)) for case in (random_case(rng) for _ in range(60))]


@pytest.mark.parametrize("share", SHARES)
def test_no_policy_that_does_not_know_run_times_is_below(
    share: float, cases: list[tuple[Case, float]]
) -> None:
    for case, best in cases:
        assert expected_bound(case, share) <= best * (1 + ROUNDING), case


def test_it_is_near_the_best_policy(cases: list[tuple[Case, float]]) -> None:
    ratios = [max(expected_bound(case, share) for share in SHARES) / best for case, best in cases]
    assert np.mean(ratios) > 0.9


def test_not_knowing_costs() -> None:
    """Four jobs of one or of ten seconds: above shortest first, and near the best there is."""
    case = Case((0, 0, 0, 0), (1, 1, 1, 1), ((1, 10),) * 4, 1)
    knowing = np.mean([np.mean(np.cumsum(np.sort(world.duration))) for world in worlds(case)])
    bound = max(expected_bound(case, share) for share in SHARES)
    assert knowing < bound <= best_expected(case) * (1 + ROUNDING)
    assert bound > 0.95 * best_expected(case)


def test_rates_that_fall_are_served_by_what_was_attained() -> None:
    """Of jobs that are there at once and end ever less likely, least attained service is best."""
    rng = np.random.default_rng(1)
    sample = np.array([2**k for k in range(8) for _ in range(2 ** (8 - k))])
    group, edges = np.zeros(60, int), steps(int(sample.max()))
    weights = weights_of([sample], edges, 0.01)
    served, bound = [], []
    for _ in range(200):
        run_times = rng.choice(sample, 60)
        levels = [np.minimum(run_times, 2**k) for k in range(8)]
        ended = 0.0
        for k, level in enumerate(levels):  # in the order of levels, within one in order of jobs
            before = levels[k - 1] if k else np.zeros_like(level)
            done = np.sum(before) + np.cumsum(level - before)
            ended += float(np.sum(done[run_times == 2**k]))
        served.append(ended / 60)
        jobs = PlanningProblem(np.zeros(60, int), np.ones(60, int), run_times, 1)
        bound.append(value_of(jobs, group, weights))
    assert np.mean(bound) <= np.mean(served) * 1.005
    assert np.mean(bound) > 0.93 * np.mean(served)


def test_known_run_times_leave_at_least_mean_busy_times() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        submit = np.sort(rng.integers(0, 50, 12))
        run_times = steps(40)[rng.integers(1, 20, 12)]
        problem = PlanningProblem(submit - submit[0], rng.integers(1, 5, 12), run_times, 4)
        weights = weights_of([np.array([each]) for each in run_times], steps(40), 1.0)
        found = value_of(problem, np.arange(12), weights)
        assert found >= mean_busy_bound(problem) * (1 - ROUNDING)


def test_rules_that_do_not_know_run_times_stay_above() -> None:
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 3_000, 120))
    gpus = rng.choice([1, 2, 4], 120)
    duration = (10 ** rng.uniform(0.5, 3, 120)).astype(np.int64)
    cluster, group = Cluster(2, 4), gpus // 2
    draws = [redraw(duration, group, rng) for _ in range(12)]
    found = nonclairvoyant_bound(submit, gpus, duration, group, draws, cluster=cluster)
    bound = found.avg_jct_s.mean()
    assert len(found.avg_jct_s) == 10
    assert found.share in SHARES
    assert 0 <= found.widths < sum(map(len, width_choices(gpus, duration, cluster, "strict")))
    for rule in ("las-decades", "2d-gittins", "fifo-skip"):
        played = [
            replay(
                {"submit_time": submit, "num_gpus": gpus, "duration": each}, cluster, POLICIES[rule]
            )
            for each in draws[2:]
        ]
        assert bound < np.mean([records.jct.mean() for records in played])
    knowing = [
        lower_bounds(submit, gpus, each, num_servers=2, gpus_per_server=4) for each in draws[2:]
    ]
    assert bound > np.mean([each.preemptive.avg_jct_s for each in knowing])


def test_redrawn_run_times_are_of_the_group() -> None:
    group = np.array([0, 1, 0, 1, 0])
    duration = np.array([5, 70, 6, 80, 7])
    drawn = redraw(duration, group, np.random.default_rng(0))
    assert set(drawn[group == 0]) <= {5, 6, 7}
    assert set(drawn[group == 1]) <= {70, 80}


def test_too_few_draws_are_refused() -> None:
    one = np.array([1])
    with pytest.raises(JaxschedError, match="1 draws, 2 trials; accepted: more draws than trials"):
        nonclairvoyant_bound(one, one, one, one - 1, [one], cluster=Cluster(1, 1))
