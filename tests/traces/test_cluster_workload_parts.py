"""The engine of the cluster workloads: curves, coupling, drawing, fitting, refusals."""

import json
import re
import time

import numpy as np
import pytest

from benchmarks.once.coupling import couple, rake
from benchmarks.once.fitting import cascade, curve_of, fit, phases, with_mean
from jaxsched.errors import JaxschedError
from jaxsched.traces import clusters
from jaxsched.traces.clusters.durations import DurationCurve
from jaxsched.traces.clusters.measure import dispersion
from jaxsched.traces.trace import Trace

CURVE = DurationCurve((1.0, 4.0, 100.0), (0.0, 25.0, 100.0))


def test_curve_meets_its_percentages():
    np.testing.assert_allclose(CURVE.quantiles(np.array([0.0, 0.125, 0.25, 0.625])), [1, 2, 4, 20])
    u = (np.arange(200_000) + 0.5) / 200_000
    for curve in (CURVE, DurationCurve((1.0, 4.0, 100.0), (0.0, 25.0, 100.0), 2.5, 4.0)):
        times = curve.quantiles(u)
        assert np.mean(times <= 4) == pytest.approx(0.25, abs=1e-5)
        assert times.mean() == pytest.approx(curve.mean_s(), rel=1e-4)
    assert curve.quantiles(np.array([0.125]))[0] == pytest.approx(2)  # no skew below 4 s


def test_skew_sets_the_mean():
    curve = with_mean((1.0, 4.0, 100.0), (0.0, 25.0, 100.0), 20.0)
    assert curve.mean_s() == pytest.approx(20, rel=1e-3)
    assert curve.skew > 1
    measured = curve_of(np.array([1.0, 2.0, 3.0, 50.0]), (0.5, 2.0, 8.0, 60.0))
    assert measured.percent == (0, 50, 75, 100)
    assert measured.mean_s() == pytest.approx(14, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1.0,), (0.0,)), "knots_s is"),
        (((2.0, 1.0), (0.0, 100.0)), "knots_s is"),
        (((1.0, 2.0), (0.0, 99.0)), "percent is"),
        (((1.0, 2.0, 3.0), (0.0, 60.0, 50.0)), "percent is"),
        (((1.0, 2.0), (0.0, 100.0), 0.0), "skew is 0.0; accepted: a number above 0"),
    ],
)
def test_bad_curves(arguments, message):
    with pytest.raises(JaxschedError, match=re.escape(message)):
        DurationCurve(*arguments)


def test_raking_keeps_odds_ratios():
    table = np.array([[6.0, 2.0], [3.0, 5.0]])
    raked = rake(table, [0.7, 0.3], [0.5, 0.5])
    np.testing.assert_allclose(raked.sum(axis=1), [0.7, 0.3], atol=1e-9)
    np.testing.assert_allclose(raked.sum(axis=0), [0.5, 0.5], atol=1e-9)
    odds = raked[0, 0] * raked[1, 1] / (raked[0, 1] * raked[1, 0])
    assert odds == pytest.approx(6 * 5 / (2 * 3))


def test_coupling_meets_all_margins():
    joint = np.array([[0.4, 0.2], [0.1, 0.3]])
    bins, times = np.array([0.5, 0.3, 0.2]), np.array([10.0, 100.0, 1000.0])
    gpus, means = np.array([1.0, 8.0]), np.array([100.0, 437.5])
    work = np.array([0.3, 0.7])
    found = couple(joint, bins, times, gpus_c=gpus, mean_c=means, work_k=work)
    np.testing.assert_allclose(found.sum(axis=(0, 1)), bins, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=2), joint, atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1) @ times / [0.6, 0.4], means, rtol=1e-3)
    by_outcome = np.einsum("ckb,c,b->k", found, gpus, times)
    np.testing.assert_allclose(by_outcome / by_outcome.sum(), work, rtol=1e-3)
    with pytest.raises(JaxschedError, match="no joint distribution was found"):
        couple(joint, bins, times, gpus_c=gpus, mean_c=[1.0, 586.0], work_k=work, iterations=200)


def test_cascade_undoes_the_variances_it_is_made_of():
    day, hour, ten = 0.2, 0.5, 1.5
    within_hour = (1 + hour) * (1 + ten / 6) - 1
    relative = (
        (1 + ten) * (1 + hour) * (1 + day) - 1,
        (1 + within_hour) * (1 + day) - 1,
        (1 + day) * (1 + within_hour / 24) - 1,
    )
    found = dict(cascade(relative, (600, 3600, 86400)))
    assert found == pytest.approx({86400: day, 3600: hour, 600: ten}, abs=1e-3)


def test_phases_of_a_mixture():
    rng = np.random.default_rng(0)
    gaps = np.where(
        rng.random(20_000) < 0.7, rng.exponential(5, 20_000), rng.exponential(300, 20_000)
    )
    (first, short), (second, long) = phases(gaps, 2, iterations=200)
    assert (first, second) == pytest.approx((0.7, 0.3), abs=0.03)
    assert (short, long) == pytest.approx((5, 300), rel=0.08)


@pytest.mark.parametrize("name", ["philly-pass-like", "helios-venus-like", "pai-like", "itp-like"])
def test_jobs_do_not_depend_on_their_number(name):
    many = clusters.generate_trace(name, 4, 3000)
    few = clusters.generate_trace(name, 4, 700)
    assert few.digest() == many.take(slice(0, 700)).digest()
    assert clusters.generate_trace(name, 5, 700).digest() != few.digest()


@pytest.mark.parametrize("name", clusters.names())
def test_traces_are_well_formed(name):
    trace = clusters.generate_trace(name, 1, 2000)
    assert len(trace) == 2000 and trace.name == f"{name}[1]"
    submit, duration = trace["submit_time"], trace["duration"]
    assert np.all(np.diff(submit) >= 0) and np.all(submit % 1 == 0)
    assert np.all(duration >= 1) and np.all(duration % 1 == 0)
    assert duration.max() <= (185 if name == "spot-gpu-like" else 61) * 86400
    calendar = clusters.workload(name).arrivals.has_calendar
    assert trace.clock == ("local" if calendar else "relative")
    if calendar:  # 1970-01-05 was a Monday
        assert 345_600 <= submit[0] < 345_600 + 7 * 86400
    assert clusters.describe(name) == clusters.workload(name).description != ""


@pytest.mark.parametrize("name", clusters.names())
def test_sources_say_where_numbers_come_from(name):
    sources = clusters.workload(name).sources
    assert sources["command"].startswith("python -m benchmarks.once.fit_cluster_workloads FOLDER")
    for key, text in sources.items():
        if key != "command":
            assert re.match("measured|read out|digitised|recalled|assumed|fitted|GPU jobs", text)


def test_load():
    asked = clusters.generate_trace("philly-pass-like", 0, 60_000, num_gpus=200, load=0.5)
    span = asked["submit_time"][-1] - asked["submit_time"][0]
    offered = np.sum(asked["num_gpus"] * asked["duration"]) / (200 * span)
    # 60,000 jobs come in 250 days of which each varies by 80 %, and GPU times have a cv of 15.
    assert offered == pytest.approx(0.5, rel=0.35)
    source = clusters.workload("helios-venus-like")
    published = clusters.generate_trace("helios-venus-like", 0, 2000)
    same = source.gpu_seconds_per_job() / (source.arrivals.mean_gap_s * source.num_gpus)
    assert same == pytest.approx(0.764, abs=0.02)  # GPU time over capacity, as published
    again = clusters.generate_trace("helios-venus-like", 0, 2000, load=same)
    np.testing.assert_allclose(again["submit_time"], published["submit_time"], atol=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("philly", 0, 10), "unknown workload 'philly'; known are acme-kalos-like"),
        (("pai-like", -1, 10), "seed is -1"),
        (("pai-like", 0, 0), "num_jobs is 0; accepted: a whole number from 1 on"),
        (("pai-like", 0, 1.5), "num_jobs is 1.5; accepted"),
    ],
)
def test_bad_requests(arguments, message):
    with pytest.raises(JaxschedError, match=re.escape(message)):
        clusters.generate_trace(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_gpus": 8}, "num_gpus is 8 and no load is given"),
        ({"load": 0.5}, "num_gpus is not stated for this cluster"),
        ({"num_gpus": 0, "load": 0.5}, "num_gpus is 0; accepted: a whole number from 1 on"),
        ({"num_gpus": 8.5, "load": 0.5}, "num_gpus is 8.5; accepted: a whole number from 1 on"),
        ({"num_gpus": 8, "load": "0.5"}, "load is '0.5'; accepted: a number above 0"),
        ({"num_gpus": 8, "load": 0.0}, "load is 0.0; accepted: a number above 0"),
        ({"num_gpus": 8, "load": float("nan")}, "load is nan; accepted: a number above 0"),
    ],
)
def test_bad_loads(options, message):
    with pytest.raises(JaxschedError, match=message):
        clusters.generate_trace("itp-like", 0, 10, **options)


def test_measure_by_hand():
    trace = Trace(
        {
            "submit_time": np.array([0.0, 0, 100, 400, 86400 * 7]),
            "num_gpus": np.array([0.5, 1, 8, 0, 16]),
            "duration": np.array([100.0, 200, 4000, 9, 100]),
            "status": np.array(["completed", "failed", "completed", "failed", "killed"]),
        },
        clock="local",
    )
    found = clusters.measure(trace)
    assert found["cpu_share"] == 0.2
    assert found["demand"] == {
        **dict.fromkeys(("2", "3-4", "17-32", ">32"), 0),
        **dict.fromkeys(("<1", "1", "5-8", "9-16"), 0.25),
    }
    assert found["mean_gpus"] == 25.5 / 4
    assert found["over_1h"] == 0.25 and found["duration_s"]["mean"] == 1100
    work = 50 + 200 + 32000 + 1600
    assert found["gpu_seconds_per_job"] == work / 4
    assert found["clipped_at_8"]["gpu_seconds_per_job"] == (work - 800) / 4
    assert found["gpu_time"]["5-8"] == pytest.approx(32000 / work)
    assert found["status"] == {"completed": 0.5, "failed": 0.25, "killed": 0.25}
    assert found["gpu_time_by_status"]["failed"] == pytest.approx(200 / work)
    assert found["gap_s"]["p50"] == 100 and found["gap_s"]["mean"] == 86400 * 7 / 3
    assert found["hours"][0] == 24 and sum(found["weekdays"]) == pytest.approx(7)
    assert found["weekdays"][3] == 7  # all on Thursdays
    with pytest.raises(JaxschedError, match="has 1 GPU jobs; accepted: two or more"):
        clusters.measure(trace.take([0]))


def test_dispersion_by_hand():
    # Counts of four windows of 10 s: 3, 0, 1, 0; the window that begins at 40 s is not full.
    assert dispersion(np.array([0.0, 1, 2, 20, 40]), 10) == pytest.approx(1.5)
    assert np.isnan(dispersion(np.array([0.0, 5]), 10))


def test_fitting_a_drawn_trace_gives_its_likeness():
    original = clusters.generate_trace("philly-vc-like", 0, 20_000)
    content = json.loads(json.dumps(fit(original, num_phases=3)))
    likeness = clusters.draw(clusters.from_json(content, "again"), 9, 20_000)
    old, new = clusters.measure(original), clusters.measure(likeness)
    for size, share in old["demand"].items():
        assert new["demand"][size] == pytest.approx(share, abs=0.03)
    for key in ("p10", "p50", "p90", "mean"):
        assert new["duration_s"][key] == pytest.approx(old["duration_s"][key], rel=0.12)
    assert new["status"] == pytest.approx(old["status"], abs=0.03)
    assert new["gap_s"]["cv"] == pytest.approx(old["gap_s"]["cv"], rel=0.3)
    assert new["gap_s"]["mean"] == pytest.approx(old["gap_s"]["mean"], rel=0.2)
    with pytest.raises(JaxschedError, match="accepted: two or more, with demand and run time"):
        fit(original.take([0]))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sizes", [], "sizes cannot be used; accepted: GPUs from 0 on"),
        ("sizes", [[999, 1.0]], "classes cannot be used; accepted: ascending max_gpus"),
        ("gpu_types", {"T4": -1.0}, "shares cannot be used; accepted: numbers from 0 on"),
        ("runs", {"gap_s": 1.0, "reuse": 1.0}, "runs cannot be used"),
    ],
)
def test_bad_parameters(key, value, message):
    content = fit(clusters.generate_trace("pai-like", 0, 50))
    with pytest.raises(JaxschedError, match=message):
        clusters.from_json(content | {key: value}, "mine")
    del content[key]
    with pytest.raises(JaxschedError, match="workload mine has the fields .*; accepted: arrivals"):
        clusters.from_json(content, "mine")


def test_speed():
    clusters.generate_trace("philly-like", 0, 10)
    started = time.process_time()
    clusters.generate_trace("philly-like", 0, 100_000)
    assert time.process_time() - started < 2
