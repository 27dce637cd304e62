"""Lower bounds: never above an optimum, tight where they must be, and better with more search."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay.bounds import (
    JCT_BOUNDS,
    MAKESPAN_BOUNDS,
    LowerBounds,
    large_job_widths,
    last_end_bound,
    lower_bounds,
    mean_busy_bound,
    relaxed_widths,
    run_time_bound,
    srpt_bound,
    work_bound,
)
from jaxsched.trace_replay.lagrangian import (
    PlanningProblem,
    best_bound,
    busy_time_dual,
    start_time_dual,
)
from jaxsched.traces import registry
from tests.trace_replay.brute_force import Case, Optimum, non_preemptive, preemptive, shortest_first

ROUNDING = 1e-9


def random_case(rng: np.random.Generator) -> Case:
    num_servers, gpus_per_server = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    jobs = int(rng.integers(1, 6))
    submit = np.sort(rng.integers(0, int(rng.integers(1, 7)), jobs))
    gpus = rng.integers(1, num_servers * gpus_per_server + 1, jobs)
    duration = rng.integers(1, 5, jobs)
    locality = str(rng.choice(["strict", "any"]))
    columns = (tuple((submit - submit[0]).tolist()), tuple(gpus.tolist()), tuple(duration.tolist()))
    return Case(*columns, num_servers, gpus_per_server, locality)


def bounds_of(case: Case, iterations: int = 12) -> LowerBounds:
    cluster = {"num_servers": case.num_servers, "gpus_per_server": case.gpus_per_server}
    columns = (case.submit, case.gpus, case.duration)
    return lower_bounds(*columns, **cluster, locality=case.locality, iterations=iterations)


def problems_of(case: Case, *, large: bool = True) -> list[PlanningProblem]:
    """What the bounds work on; without ``large``, only the choices that servers give."""
    submit, gpus, duration = (np.array(column) for column in case[:3])
    capacity = case.num_servers * case.gpus_per_server
    choices = relaxed_widths(gpus, case.gpus_per_server, case.locality)
    choices += large_job_widths(choices, capacity) if large else []
    return [PlanningProblem(submit, widths, duration, capacity) for widths in choices]


@pytest.fixture(scope="module")
def cases() -> list[tuple[Case, Optimum, Optimum]]:
    rng = np.random.default_rng(0)
    drawn = [random_case(rng) for _ in range(240)]
    return [(case, non_preemptive(case), preemptive(case)) for case in drawn]


@pytest.fixture(scope="module")
def found(cases: list[tuple[Case, Optimum, Optimum]]) -> list[LowerBounds]:
    return [bounds_of(case) for case, _, _ in cases]


def assert_below(bounds: LowerBounds, one_piece: Optimum, suspended: Optimum) -> None:
    """Every single bound is at most the optimum of each kind of schedules that it holds for."""
    for name, value in bounds.avg_jct_s.items():
        optimum = one_piece if name == "start_prices" else suspended
        assert value <= optimum.avg_jct * (1 + ROUNDING), name
    for name, value in bounds.makespan_s.items():
        assert value <= suspended.makespan * (1 + ROUNDING), name
    assert bounds.non_preemptive.avg_jct_s <= one_piece.avg_jct * (1 + ROUNDING)
    assert bounds.preemptive.avg_jct_s <= suspended.avg_jct * (1 + ROUNDING)


def test_no_bound_is_above_the_optimum(cases: Any, found: Any) -> None:
    for (_, one_piece, suspended), bounds in zip(cases, found, strict=True):
        assert suspended.avg_jct <= one_piece.avg_jct
        assert suspended.makespan <= one_piece.makespan
        assert_below(bounds, one_piece, suspended)


def test_bounds_come_close(cases: Any, found: Any) -> None:
    """Bounds that are far too low would pass the tests above."""
    waits = [
        (one_piece.avg_jct, bounds.non_preemptive.avg_jct_s, bounds.avg_jct_s["run_time"])
        for (_, one_piece, _), bounds in zip(cases, found, strict=True)
        if one_piece.avg_jct > bounds.avg_jct_s["run_time"]
    ]
    optimum, bound, run_time = np.array(waits).T
    assert len(waits) > 100
    assert np.mean((bound - run_time) / (optimum - run_time)) > 0.6
    makespans = [
        one_piece.makespan - bounds.non_preemptive.makespan_s
        for (_, one_piece, _), bounds in zip(cases, found, strict=True)
    ]
    assert np.mean(np.array(makespans) < 1) > 0.6


def test_every_bound_is_the_best_somewhere(found: Any) -> None:
    best = {
        name
        for bounds in found
        for name, value in bounds.avg_jct_s.items()
        if value >= bounds.non_preemptive.avg_jct_s
    }
    assert best >= {"run_time", "srpt", "start_prices"}
    assert any(
        bounds.avg_jct_s["mean_busy"] > max(bounds.avg_jct_s[n] for n in ("run_time", "srpt"))
        for bounds in found
    )
    assert any(
        bounds.avg_jct_s["busy_prices"]
        > max(bounds.avg_jct_s[n] for n in ("run_time", "srpt", "mean_busy"))
        for bounds in found
    )


def test_the_result_is_the_largest_of_its_parts(found: Any) -> None:
    for bounds in found:
        assert list(bounds.avg_jct_s) == list(JCT_BOUNDS)
        assert list(bounds.makespan_s) == list(MAKESPAN_BOUNDS)
        parts = dict(bounds.avg_jct_s)
        assert bounds.non_preemptive.avg_jct_s == max(parts.values())
        del parts["start_prices"]
        assert bounds.preemptive.avg_jct_s == max(parts.values())
        assert bounds.non_preemptive.makespan_s == max(bounds.makespan_s.values())
        assert bounds.preemptive.makespan_s == bounds.non_preemptive.makespan_s


@st.composite
def small_cases(draw: Callable[..., Any]) -> Case:
    num_servers, gpus_per_server = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    total = num_servers * gpus_per_server
    job = st.tuples(st.integers(0, 5), st.integers(1, total), st.integers(1, 3))
    jobs = sorted(draw(st.lists(job, min_size=1, max_size=4)))
    submit, gpus, duration = zip(*jobs, strict=True)
    submit = tuple(time - submit[0] for time in submit)
    locality = draw(st.sampled_from(["strict", "any"]))
    return Case(submit, gpus, duration, num_servers, gpus_per_server, locality)


@settings(max_examples=60)
@given(small_cases(), st.integers(1, 2), st.integers(0, 2**31))
def test_any_prices_give_a_bound(case: Case, per_second: int, seed: int) -> None:
    one_piece, suspended = non_preemptive(case), preemptive(case, per_second)
    assert_below(bounds_of(case, iterations=4), one_piece, suspended)
    rng = np.random.default_rng(seed)
    for problem in problems_of(case):
        for bin_s in (1, 2, 3):
            prices = rng.exponential(0.5, 8) * (rng.random(8) < 0.7)
            start = start_time_dual(problem, prices, bin_s).avg_jct_s
            busy = busy_time_dual(problem, prices, bin_s).avg_jct_s
            assert start <= one_piece.avg_jct + ROUNDING
            assert busy <= suspended.avg_jct + ROUNDING
            assert busy <= start + ROUNDING


def large_problem(seed: int, span_s: int = 300, jobs: int = 60) -> PlanningProblem:
    """A congested cluster of 8 GPUs; some jobs of width 0, the longest a fifth of the span."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, span_s, jobs))
    width = rng.choice([0, 1, 1, 2, 4, 8], jobs)
    return PlanningProblem(submit - submit[0], width, rng.integers(1, span_s // 5, jobs), 8)


@pytest.mark.parametrize("bin_s", [2, 7, 40])
def test_start_times_are_the_cheapest(bin_s: int) -> None:
    for seed in range(5):
        problem = large_problem(seed, 12 * bin_s)
        rng = np.random.default_rng(seed)
        prices = rng.exponential(3 / bin_s, 12) * (rng.random(12) < 0.7)
        second = np.append(np.repeat(prices, bin_s), np.zeros(20 * bin_s))
        paid = np.append(0, np.cumsum(second))
        total = 0.0
        for submit, width, duration in zip(*problem[:3], strict=True):
            starts = np.arange(submit, 20 * bin_s)
            extra = width * (paid[starts + duration] - paid[starts])
            total += np.min(starts + duration - submit + extra)
        expected = (total - 8 * bin_s * prices.sum()) / 60
        found = start_time_dual(problem, prices, bin_s).avg_jct_s
        assert found == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("bin_s", [2, 7, 40])
def test_busy_seconds_are_the_cheapest(bin_s: int) -> None:
    """Compared with seconds cut into parts, of which each costs what its middle costs."""
    problem, parts, total = large_problem(1, 12 * bin_s), 20, 0.0
    rng = np.random.default_rng(3)
    prices = rng.exponential(0.2 / bin_s, 12) * (rng.random(12) < 0.7)
    second = np.append(np.repeat(prices, bin_s), np.zeros(20 * bin_s))
    for submit, width, duration in zip(*problem[:3], strict=True):
        cost = (np.arange(len(second) * parts) + 0.5) / parts
        cost = (cost - submit) / duration + width * np.repeat(second, parts)
        cheapest = np.sort(cost[submit * parts :])[: duration * parts]
        total += np.sum(cheapest) / parts + duration / 2
    expected = (total - 8 * bin_s * prices.sum()) / 60
    assert busy_time_dual(problem, prices, bin_s).avg_jct_s == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(("dual", "slack"), [(start_time_dual, 1e-9), (busy_time_dual, 1e-3)])
def test_gradients_bound_the_dual_from_above(dual: Any, slack: float) -> None:
    """A concave function lies below its tangents."""
    problem, rng = large_problem(4), np.random.default_rng(5)
    drawn = [rng.exponential(0.05, 30) * (rng.random(30) < 0.8) for _ in range(8)]
    for here in drawn:
        at = dual(problem, here, 20)
        for there in drawn:
            tangent = at.avg_jct_s + at.gradient @ (there - here)
            value = dual(problem, there, 20).avg_jct_s
            assert value <= tangent + slack * abs(tangent)


def test_split_bins_keep_the_value() -> None:
    problem, prices = large_problem(6), np.random.default_rng(6).exponential(0.1, 20)
    for dual, rel in ((start_time_dual, 1e-12), (busy_time_dual, 1e-3)):
        coarse = dual(problem, prices, 16).avg_jct_s
        assert dual(problem, np.repeat(prices, 4), 4).avg_jct_s == pytest.approx(coarse, rel=rel)


@pytest.mark.parametrize("dual", [start_time_dual, busy_time_dual])
def test_search_raises_the_bound(dual: Any) -> None:
    problem = large_problem(7)
    run_time = run_time_bound(problem)
    none, few, many = (best_bound(problem, dual, horizon_s=900, iterations=i) for i in (0, 3, 30))
    assert none == run_time < few < many
    assert many > max(srpt_bound(problem), mean_busy_bound(problem), 1.5 * run_time)


@pytest.mark.parametrize("locality", ["strict", "any"])
def test_large_jobs_run_one_after_the_other(locality: str) -> None:
    cluster = {"num_servers": 2, "gpus_per_server": 4, "locality": locality}
    bounds = lower_bounds([0, 0], [5, 5], [10, 10], **cluster)
    assert bounds.preemptive.makespan_s == 20
    assert bounds.non_preemptive.avg_jct_s == pytest.approx(15, rel=0.01)
    found = large_job_widths([np.array([5, 6, 3, 2, 8])], 8)
    assert np.array(found).tolist() == [[8, 8, 0, 0, 8], [5, 8, 3, 0, 8]]
    assert large_job_widths([np.array([4, 4, 8])], 8) == []


def test_large_jobs_make_bounds_better(cases: Any) -> None:
    better = 0
    for case, one_piece, _ in cases:
        before, after = (max(map(work_bound, problems_of(case, large=k))) for k in (False, True))
        assert after <= one_piece.makespan * (1 + ROUNDING)
        better += after > before
    assert better > 15


def test_one_job_has_all_it_wants() -> None:
    bounds = lower_bounds([5], [3], [7], num_servers=2, gpus_per_server=4)
    assert bounds.non_preemptive == bounds.preemptive == (7, 7)


def test_unlimited_cluster_is_tight(cases: Any) -> None:
    for case, _, _ in cases[:50]:
        bounds = bounds_of(case._replace(num_servers=30), iterations=3)
        ends = [submit + run for submit, run in zip(case.submit, case.duration, strict=True)]
        assert bounds.preemptive == bounds.non_preemptive == (np.mean(case.duration), max(ends))


def test_srpt_and_work_are_tight_on_one_gpu(cases: Any) -> None:
    for case, _, _ in cases[:100]:
        single = Case(case.submit, (1,) * len(case.submit), case.duration, 1, 1, "strict")
        bounds, optimum = bounds_of(single, iterations=0), preemptive(single)
        assert bounds.avg_jct_s["srpt"] == pytest.approx(optimum.avg_jct)
        assert bounds.makespan_s["work"] == pytest.approx(optimum.makespan)


def test_hand_computed_bounds() -> None:
    """Two GPUs; p = 4, 2, 1 seconds of both, submitted at 0, 1, 2."""
    submit, width, duration = np.array([0, 1, 2]), np.array([2, 1, 2]), np.array([4, 4, 1])
    problem = PlanningProblem(submit, width, duration, 2)
    assert run_time_bound(problem) == pytest.approx(3)
    # Runs job 0 in [0, 1], 1 in [1, 2] and [3, 4] (2 in between, on a tie), 0 in [4, 7].
    assert srpt_bound(problem) == pytest.approx((7 + (4 - 1) + (3 - 2)) / 3)
    busy = (0.5 + 4.5 + 5.5 + 6.5) / 4, (1.5 + 3.5) / 2, 2.5
    expected = (busy[0] + 2 + busy[1] - 1 + 2 + busy[2] - 2 + 0.5) / 3
    assert mean_busy_bound(problem) == pytest.approx(expected)
    assert work_bound(problem) == pytest.approx(7)
    assert last_end_bound(problem) == 5


def test_widths_of_servers() -> None:
    gpus = np.array([1, 3, 4, 5, 7, 8, 9, 14])
    plain, half, *others = relaxed_widths(gpus, 8, "strict")
    assert plain.tolist() == gpus.tolist()
    assert half.tolist() == [0, 0, 4, 8, 8, 8, 8, 16]
    # Thresholds of 3 and 2 GPUs keep more of the small jobs.
    assert [widths.tolist() for widths in others] == [
        [0, 3, 4, 5, 8, 8, 8, 16],
    ]
    assert len(relaxed_widths(gpus, 8, "any")) == 1
    assert len(relaxed_widths(np.array([1, 2, 4, 8, 12, 16, 24]), 8, "strict")) == 1


def test_widths_fit_whatever_is_placed() -> None:
    rng = np.random.default_rng(8)
    for _ in range(300):
        gpus_per_server, num_servers = int(rng.integers(1, 10)), int(rng.integers(1, 5))
        free = np.full(num_servers, gpus_per_server)
        placed = []
        for gpus in rng.integers(1, num_servers * gpus_per_server + 1, 12):
            whole, rest = divmod(int(gpus), gpus_per_server)
            empty = np.flatnonzero(free == gpus_per_server)[:whole]
            fits = np.setdiff1d(np.flatnonzero(free >= rest), empty)
            if len(empty) < whole or (rest and len(fits) == 0):
                continue
            free[empty] = 0
            if rest:
                free[rng.choice(fits)] -= rest
            placed.append(gpus)
        for widths in relaxed_widths(np.array(placed), gpus_per_server, "strict"):
            assert widths.sum() <= num_servers * gpus_per_server


def test_locality_raises_bounds() -> None:
    """Four jobs of 3 GPUs: one at a time on each of two servers of 4, but not for GPUs alone."""
    cluster = {"num_servers": 2, "gpus_per_server": 4, "iterations": 20}
    jobs = ([0] * 4, [3] * 4, [10] * 4)
    strict = lower_bounds(*jobs, **cluster, locality="strict")
    anywhere = lower_bounds(*jobs, **cluster, locality="any")
    assert strict.makespan_s["work"] == 20
    assert anywhere.makespan_s["work"] == 15
    for kind in ("non_preemptive", "preemptive"):
        assert getattr(strict, kind).avg_jct_s > getattr(anywhere, kind).avg_jct_s


def test_more_servers_never_raise_a_bound(cases: Any) -> None:
    """Widths of large jobs are others on another cluster, and no such thing holds for them."""
    rng = np.random.default_rng(9)
    for case, _, _ in cases[:100]:
        prices = rng.exponential(0.3, 6)
        values = []
        for num_servers in (case.num_servers, case.num_servers + 1, case.num_servers + 4):
            problems = problems_of(case._replace(num_servers=num_servers), large=False)
            exact = (run_time_bound, srpt_bound, mean_busy_bound, last_end_bound, work_bound)
            values.append([max(map(bound, problems)) for bound in exact])
            for dual in (start_time_dual, busy_time_dual):
                values[-1].append(max(dual(p, prices, 2).avg_jct_s for p in problems))
        assert np.all(np.diff(values, axis=0) <= ROUNDING)


@pytest.mark.parametrize("name", ["philly-sample", "itp-sample"])
def test_a_real_schedule_is_above(name: str) -> None:
    table = registry.get(name, num_traces=1, num_jobs=300)[0]
    columns = [table[column] for column in ("submit_time", "num_gpus", "duration")]
    cluster = {"num_servers": 15, "gpus_per_server": 8, "locality": "any"}
    bounds = lower_bounds(*columns, **cluster, iterations=10, max_bins=512)
    schedule = shortest_first(*(column.tolist() for column in columns), 15 * 8)
    assert bounds.non_preemptive.avg_jct_s <= schedule.avg_jct
    assert bounds.non_preemptive.makespan_s <= schedule.makespan
    assert bounds.non_preemptive.avg_jct_s > bounds.avg_jct_s["run_time"]


def test_the_first_submission_does_not_matter() -> None:
    problem = large_problem(10)
    columns = (np.maximum(problem.width, 1), problem.duration)
    cluster = {"num_servers": 1, "gpus_per_server": 8, "iterations": 5}
    at_zero = lower_bounds(problem.submit_time, *columns, **cluster)
    assert lower_bounds(problem.submit_time + 1000, *columns, **cluster) == at_zero


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"submit_time": []}, "submit_time"),
        ({"submit_time": [3, 1]}, "submit_time"),
        ({"num_gpus": [1, 9]}, "9"),
        ({"num_gpus": [0, 1]}, "num_gpus"),
        ({"duration": [0, 1]}, "duration"),
        ({"duration": [1.5, 1]}, "1.5"),
        ({"num_servers": 0}, "num_servers"),
        ({"gpus_per_server": 2.0}, "gpus_per_server"),
        ({"locality": "rack"}, "locality is 'rack'; accepted: strict, any"),
        ({"iterations": -1}, "iterations is -1; accepted: a whole number from 0 on"),
        ({"max_bins": True}, "max_bins is True; accepted: a whole number from 1 on"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    columns = {"submit_time": [0, 1], "num_gpus": [1, 2], "duration": [3, 4]}
    given = {**columns, "num_servers": 2, "gpus_per_server": 4, **change}
    with pytest.raises(JaxschedError, match=message) as error:
        lower_bounds(**given)
    assert "\n" not in str(error.value)


def test_no_jobs_are_refused() -> None:
    with pytest.raises(JaxschedError, match="accepted"):
        lower_bounds([], [], [], num_servers=1, gpus_per_server=1)
