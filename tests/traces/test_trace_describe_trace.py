import json

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import Trace
from jaxsched.traces.describe_trace import (
    SIZES,
    busy_gpus,
    describe_trace,
    dispersion,
    hour_weights,
    size_classes,
    weekday_weights,
)
from jaxsched.traces.trace_plots import plot_trace

NAN = float("nan")
HAND = Trace(
    {
        "submit_time": np.array([40.0, 0, 10, 10, 30]),
        "num_gpus": np.array([1, 0.5, 4, 0, NAN]),
        "duration": np.array([60, 100, 20, 5, 7]),
        "status": np.array(["killed", "completed", "completed", "failed", ""]),
        "group": np.array(["a", "a", "b", "b", ""]),
    },
    "hand",
    notes=("a note",),
    rows_read=6,
)


def trace(times, clock="local", gpus=1.0, duration=60.0):
    times = np.asarray(times, np.float64)
    columns = {
        "submit_time": times,
        "num_gpus": np.full(len(times), gpus),
        "duration": np.full(len(times), duration),
    }
    return Trace(columns, "made", clock=clock)


def test_statistics_by_hand():
    found = describe_trace(HAND, 2, 4)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["digest"] == HAND.digest() and found["notes"] == ["a note"]
    assert (found["rows_read"], found["jobs"], found["gpu_jobs"]) == (6, 5, 4)
    assert found["playable"] == 3, "one more has no known number of GPUs"
    assert found["unknown"] == {"num_gpus": 1, "duration": 0}
    shares = {name: share for name, share in found["demand"].items() if share}
    assert shares == {"cpu_only": 0.2, "<1": 0.2, "1": 0.2, "3-4": 0.2, "unknown": 0.2}
    assert sum(found["demand"].values()) == pytest.approx(1)
    assert found["mean_gpus"] == pytest.approx(5.5 / 3)
    assert found["gpu_seconds"] == 50 + 80 + 60
    assert found["gpu_seconds_per_job"] == pytest.approx(190 / 3)
    assert found["gpu_time"]["3-4"] == pytest.approx(80 / 190)
    assert sum(found["gpu_time"].values()) == pytest.approx(1)
    assert found["status"] == {"completed": 0.5, "killed": 0.25, "unknown": 0.25}
    assert found["duration_s"]["mean"] == pytest.approx(187 / 4)
    assert found["duration_s"]["p50"] == 40
    assert found["gap_s"]["mean"] == pytest.approx(40 / 3)
    assert found["gap_s"]["cv"] == pytest.approx(np.std([10, 20, 10]) / (40 / 3))
    assert found["span_s"] == 40
    assert found["cluster_gpus"] == 8
    assert found["load"] == pytest.approx(190 / (8 * 40))
    # 0.5 GPUs from 0 to 40, four more from 10 to 30; then one more from 40 to 100
    assert found["busy_gpus"] == {"mean": pytest.approx((20 + 80) / 40), "peak": 4.5}
    assert found["groups"] == {
        "count": 2,
        "busiest": [
            {"name": "a", "jobs": 2, "gpu_time": pytest.approx(110 / 190)},
            {"name": "b", "jobs": 1, "gpu_time": pytest.approx(80 / 190)},
        ],
    }
    assert found["users"] is None
    assert found["hour_weights"] is None and found["weekday_weights"] is None


def test_traces_of_which_little_is_known():
    unknown = describe_trace(trace([0.0, 5.0], gpus=NAN, duration=NAN), 1)
    assert unknown["demand"]["unknown"] == 1 and unknown["gpu_time"] == {}
    assert unknown["mean_gpus"] is None and unknown["duration_s"]["p99"] is None
    assert unknown["load"] is None and unknown["busy_gpus"] == {"mean": None, "peak": None}
    assert unknown["gpu_seconds"] is None and unknown["gpu_seconds_per_job"] is None
    cpu = describe_trace(trace([0.0, 5.0], gpus=0.0), 1)
    assert cpu["demand"]["cpu_only"] == 1 and cpu["gpu_jobs"] == 0 and cpu["load"] is None
    alone = describe_trace(trace([7.0]), 1)
    assert alone["span_s"] == 0 and alone["load"] is None and alone["gap_s"]["mean"] is None
    assert alone["busy_gpus"] == {"mean": None, "peak": 1}
    with pytest.raises(JaxschedError, match="has no jobs"):
        describe_trace(trace([]))
    for column in ("submit_time", "num_gpus", "duration"):
        columns = {name: np.ones(2) for name in ("submit_time", "num_gpus", "duration")}
        columns[column] = np.array([1.0, 1e16])
        for call in (describe_trace, lambda trace: plot_trace(trace, "never.png")):
            with pytest.raises(JaxschedError, match=f"{column} reaches 1e[+]16; accepted"):
                call(Trace(columns))
    with pytest.raises(JaxschedError, match="gpus_per_server is 0; accepted"):
        describe_trace(HAND, 1, 0)


def test_classes_of_demand():
    gpus = np.array([0.01, 0.99, 1, 1.5, 2, 2.5, 4, 5, 8, 8.5, 16, 17, 32, 33, 5000])
    names = [SIZES[k][0] for k in size_classes(gpus)]
    expected = "<1 <1 1 2 2 3-4 3-4 5-8 5-8 9-16 9-16 17-32 17-32 >32 >32"
    assert names == expected.split()


def test_busy_gpus_frees_before_it_takes():
    jobs = Trace(
        {
            "submit_time": np.array([0.0, 10.0, 10.0]),
            "num_gpus": np.array([8.0, 8.0, 1.0]),
            "duration": np.array([10.0, 5.0, 0.0]),
        }
    )
    busy = busy_gpus(jobs)
    np.testing.assert_array_equal(busy.times_s, [0, 10, 15])
    np.testing.assert_array_equal(busy.gpus, [8, 8, 0])
    assert busy.mean(0, 30) == pytest.approx(120 / 30)
    assert busy.mean(5, 10) == 8


def test_dispersion_against_counts():
    rng = np.random.default_rng(0)
    submit = np.sort(rng.uniform(0, 1e5, 500))
    edges = submit[0] + 600.0 * np.arange(int((submit[-1] - submit[0]) // 600) + 1)
    counts = np.histogram(submit[submit < edges[-1]], edges)[0]
    assert dispersion(submit, 600) == pytest.approx(np.var(counts) / np.mean(counts))
    every_minute = 60.0 * np.arange(1000)
    assert dispersion(every_minute, 600) == pytest.approx(0, abs=1e-9)
    assert dispersion(np.array([0.0, 500.0]), 600) is None
    # a thousand at once in one of 100 windows
    burst = np.sort(np.concatenate([np.full(1000, 50.0), [0.0, 1000.0]]))
    counts = np.zeros(100)
    counts[[0, 5]] = 1, 1000
    assert dispersion(burst, 10.0) == pytest.approx(np.var(counts) / np.mean(counts))


def test_calendar_counts_how_often_an_hour_and_a_weekday_occur():
    monday = 4 * 86400.0  # 1970-01-05
    hourly = monday + 3600.0 * np.arange(8 * 24)  # eight days: Monday comes twice
    np.testing.assert_allclose(hour_weights(trace(hourly)), 1)
    np.testing.assert_allclose(weekday_weights(trace(hourly)), 1)
    busy_monday = np.concatenate([hourly, monday + 60.0 * np.arange(48)])
    weights = weekday_weights(trace(busy_monday))
    np.testing.assert_allclose(weights / weights[1], [2, 1, 1, 1, 1, 1, 1])
    noon = np.concatenate([hourly, monday + 12 * 3600 + 86400.0 * np.arange(8)])
    weights = hour_weights(trace(noon))
    assert weights[12] == pytest.approx(2 * weights[0]) and np.mean(weights) == pytest.approx(1)
    before_1970 = trace(hourly - 52 * 7 * 86400)
    np.testing.assert_allclose(weekday_weights(before_1970), 1)
    assert weekday_weights(trace(hourly[: 6 * 24])) is None


def test_hours_of_a_trace_without_a_clock_only_on_request():
    times = 3600.0 * np.arange(10 * 24)
    assert describe_trace(trace(times, "relative"))["hour_weights"] is None
    assert len(describe_trace(trace(times, "relative"), daily=True)["hour_weights"]) == 24
    assert len(describe_trace(trace(times, "utc"))["weekday_weights"]) == 7


def test_times_far_apart_need_no_memory():
    found = describe_trace(trace([-1e15, 0.0, 1e15]), 1)
    assert found["dispersion"]["86400"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    "made",
    [
        HAND,
        trace([7.0]),
        trace([0.0, 5.0], gpus=NAN, duration=NAN),
        trace([-1e15, 0.0, 1e15]),
        trace(3600.0 * np.arange(24 * 8), "utc"),
    ],
)
def test_figure(tmp_path, made):
    for daily in (False, True):
        plot_trace(made, tmp_path / "figure.png", num_servers=3, daily=daily)
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_figures_that_cannot_be_drawn_or_written(tmp_path):
    with pytest.raises(JaxschedError, match="cannot be written"):
        plot_trace(HAND, tmp_path / "missing" / "figure.png")
    with pytest.raises(JaxschedError, match="has no jobs with GPUs to draw"):
        plot_trace(trace([0.0], gpus=0.0), tmp_path / "figure.png")
