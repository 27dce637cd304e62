"""Budgets of a sweep, with made-up times: what is announced, cut, and stopped."""

import math

import pytest

from jaxsched.bench import throughput as bench
from jaxsched.bench.budget import NETWORK_FACTOR, Budget, Pace
from jaxsched.bench.timing import WARM_UPS, measure, row
from jaxsched.bench.timing import Timing as Timed
from jaxsched.systems import registry


def made_up(seconds_to_compile, step_s):
    """Rows of a machine with such figures, without running anything."""

    def time(subject, figure, batch, num_steps, repeats, least_s):
        del subject, least_s
        rate = {name: 1 / step_s for name in ("median", "min", "max")}
        return {"batch": batch, "steps_per_repeat": num_steps, "repeats": repeats,
                "steps_per_s": rate, "compile_s": seconds_to_compile}  # fmt: skip

    return time


def sweep(monkeypatch, budget, *, compile_s=1.0, step_s=1e-4, steps=None, repeats=8):
    monkeypatch.setattr(bench, "_row", made_up(compile_s, step_s))
    subject = bench.Subject(registry.get("sched2"), None, None, {})
    said = []
    return bench.Sweep(subject, repeats, steps, 0.0, budget, {}, said.append), said


def test_expectations_come_from_the_last_row():
    budget = Budget(30.0, 1e6)
    assert budget.expected_s("environment", 100, 8) is None
    assert budget.fitting_steps("environment", 8) == math.inf
    budget.learn("environment", Pace(2.0, 0.01))
    assert budget.expected_s("environment", 100, 8) == pytest.approx(2 + (WARM_UPS + 8) * 1.0)
    assert budget.fitting_steps("environment", 8) == pytest.approx(280)
    guess = budget.pace("policy")
    assert guess == Pace(2.0 * NETWORK_FACTOR, 0.01 * NETWORK_FACTOR)
    budget.learn("policy", Pace(1.0, 0.5))
    assert budget.pace("policy") == Pace(1.0, 0.5)
    assert Budget(30.0, 0.0).left_s() <= 0.0 < budget.left_s() <= 30.0


def test_a_pilot_tells_how_many_steps_fit(monkeypatch):
    swept, said = sweep(monkeypatch, Budget(21.0))
    swept.measure("environment", 100)
    assert said[0].endswith(f"{bench.FEWEST_STEPS} steps first, to know what to expect")
    assert "expected: about 21 s" in said[1] and "10 times 200 steps" in said[1]
    (measured,) = swept.rows["environment"]
    assert measured["steps_per_repeat"] == 200  # 20 s for 10 calls of 100 environments


def test_a_sweep_stops_where_a_row_would_take_too_long(monkeypatch):
    swept, said = sweep(monkeypatch, Budget(11.0))
    for batch in (1000, 10_000, 100_000):
        swept.measure("environment", batch)
    assert [r["batch"] for r in swept.rows["environment"]] == [1000]
    (stop,) = swept.stopped
    assert (stop["figure"], stop["batch"]) == ("environment", 10_000)
    assert stop["expected_s"] == pytest.approx(1 + 10 * 4 * 1.0) and stop["budget_s"] <= 11
    assert said[-1].endswith("would take about 41 s, 11 s are left for it; the sweep of "
                             "environment stops here")  # fmt: skip


def test_a_quick_sweep_runs_no_pilot_and_keeps_its_total(monkeypatch):
    swept, said = sweep(monkeypatch, Budget(120.0, 0.0), steps=2048, compile_s=30.0)
    swept.measure("environment", 256)  # nothing is known of it: it runs
    swept.measure("policy", 256)
    assert [r["steps_per_repeat"] for r in swept.rows["environment"]] == [8]
    assert swept.rows["policy"] == [] and swept.stopped[0]["figure"] == "policy"
    assert not any("first" in line for line in said)


def test_without_a_budget_nothing_is_cut(monkeypatch):
    swept, _ = sweep(monkeypatch, None, compile_s=1e6, step_s=1e3)
    for batch in (64, 128):
        swept.measure("environment", batch)
    expected = [bench.MOST_STEPS, bench.MOST_STEPS]
    assert [r["steps_per_repeat"] for r in swept.rows["environment"]] == expected


def test_short_programs_are_called_often_enough():
    def loop(key, carry):
        return carry + 1, carry

    timed = measure(loop, 0, 2, least_s=0.01)
    assert timed.calls > 1 and int(timed.output) == WARM_UPS + 2 * timed.calls - 1
    assert row(Timed(timed.laps, 0.0, None, 7), batch=2, num_steps=3)["steps_per_repeat"] == 21
    assert measure(loop, 0, 2).calls == 1
