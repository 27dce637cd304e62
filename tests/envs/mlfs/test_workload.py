"""MLFS' workload has the distributions it is drawn from."""

from fractions import Fraction

import numpy as np
import pytest

from jaxsched.envs.mlfs.jobs import (
    BURST_GAP_S,
    MAX_PARTITIONS,
    SIZES,
    SPAN_S,
    SVM,
    as_rigid,
    busy_gpu_seconds,
    critical_path,
    graph_shape,
    optimal_iteration,
    problem_with,
    submissions,
    task_table,
    task_tables,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import digest_tables, validate
from jaxsched.jobs.draws import generator
from jaxsched.traces import describe_tables, get, load_tables, plot_tables, write_tables

NUM_JOBS = 20_000


@pytest.fixture(scope="module")
def jobs():
    return task_table(0, 0, num_jobs=NUM_JOBS)


@pytest.fixture(scope="module")
def graphs(jobs):
    return graph_shape(jobs["model"], jobs["num_gpus"])


def assert_uniform(values, choices):
    """Each choice has its share, within about four standard deviations."""
    found, counts = np.unique(values, return_counts=True)
    assert found.tolist() == list(choices)
    share = 1 / len(choices)
    tolerance = 4 * np.sqrt(share * (1 - share) / len(values))
    np.testing.assert_allclose(counts / len(values), share, atol=tolerance)


def test_tables_can_be_run(jobs):
    for table in [jobs, *task_tables(1, 5, num_jobs=50)]:
        assert problem_with(validate(table, from_zero=False)) is None
        assert np.all(table["gpu_demand"] * 1200 // 1000 <= 900)
        assert np.all(1200 * table["cpus"] // 32 <= 900)
        assert np.all(1000 * table["mem"] // 244 <= 900)


def test_uniform_columns(jobs):
    assert_uniform(jobs["model"], range(5))
    assert_uniform(jobs["num_gpus"], SIZES)
    assert_uniform(jobs["gpu_demand"], range(200, 451, 50))
    assert_uniform(jobs["cpus"], range(1, 4))
    assert_uniform(jobs["mem"], range(2, 17))
    assert_uniform(jobs["vol_worker"], range(50, 101))
    assert_uniform(jobs["vol_ps"], range(50, 101))
    assert_uniform(jobs["urgency"], range(1, 11))
    assert set(jobs["option"]) == {1} and set(jobs["allow"]) == {2}
    assert jobs["acc_max"].min() >= 0.7 and jobs["acc_max"].max() <= 0.99
    assert jobs["acc_max"].mean() == pytest.approx(0.845, abs=0.003)


def test_run_times_and_iterations(jobs, graphs):
    """Where iterations are not cut, run times are lognormal: median 35 min, sigma 1.2."""
    _, partitions, width = graphs
    path = critical_path(jobs["work"], partitions, width) / 1000
    assert jobs["iterations"].min() == 3 and jobs["iterations"].max() == 200
    short = path < 5  # 35 min are then well above three iterations and below 200
    minutes = (jobs["iterations"] * path)[short]
    assert np.median(minutes) == pytest.approx(35, rel=0.03)
    spread = np.log(np.percentile(minutes, 84) / np.percentile(minutes, 50))
    assert spread == pytest.approx(1.2 * 0.9945, rel=0.05)
    assert np.all(jobs["iterations"] * path <= 1440 + path)
    assert np.all((jobs["iterations"] * path >= 5 - path / 2) | (jobs["iterations"] == 200))


def test_work_and_sizes_of_partitions(jobs, graphs):
    _, partitions, width = graphs
    here = np.arange(MAX_PARTITIONS) < partitions[:, None]
    work, size = jobs["work"], jobs["size"]
    assert np.all(work[here] >= 300) and not work[~here].any()
    assert not size[~here].any()
    sums = size.sum(axis=1)
    assert np.all((sums <= 1000) & (sums > 1000 - partitions))
    deep = partitions // width > 4
    assert deep.mean() == pytest.approx(2 / 15, abs=0.01), "chains on 16 and 32 GPUs"
    assert work[deep].max() <= 5000 * 1.25 / 2
    assert 5500 < work[~deep].max() <= 5000 * 1.25
    single = jobs["model"] == SVM
    assert work[single, 0].mean() == pytest.approx(3000, rel=0.02)
    many = partitions == MAX_PARTITIONS
    shares = size[many] / sums[many, None]
    assert shares.max() / shares.min() > 2
    correlation = np.corrcoef(work[many][0], size[many][0])[0, 1]
    assert correlation > 0.99, "work and size of a partition have one weight"


def test_accuracy_curves(jobs):
    reach = jobs["curve_a"] * jobs["iterations"] / 1000
    assert 7.8 < reach.min() < 8.5 and 59.5 < reach.max() < 60.2
    assert reach.mean() == pytest.approx(34, rel=0.02)
    share = jobs["req_iter"] / jobs["iterations"]
    long = jobs["iterations"] > 100
    assert share.min() >= 0.7
    assert share[long].mean() == pytest.approx(0.853, abs=0.01)
    for row in range(300):
        iterations, a = int(jobs["iterations"][row]), int(jobs["curve_a"][row])

        def accuracy(n, a=a):
            return Fraction(a * n, 1000 + a * n)

        wanted = Fraction(99, 100) * accuracy(iterations)
        first = next(n for n in range(1, iterations + 1) if accuracy(n) >= wanted)
        assert jobs["opt_iter"][row] == first
    assert optimal_iteration(np.array([3]), np.array([20000])).tolist() == [2]


def test_deadlines(jobs):
    shortest = as_rigid(jobs)["duration"]
    allowed = jobs["deadline"] - jobs["submit_time"]
    assert np.all(allowed >= 1.1 * (shortest - 1))
    free = shortest < 1500  # the drawn time decides: at least half an hour
    hours = allowed[free] / 3600
    assert hours.min() >= 0.5 and hours.max() <= 24.001
    assert hours.mean() == pytest.approx(12.25, rel=0.03)


def test_bursts_and_hours():
    times = submissions(generator(3), NUM_JOBS, 86400.0 * 4000)
    gaps = np.diff(times)
    bursts = np.split(times, np.flatnonzero(gaps != BURST_GAP_S) + 1)
    sizes = np.array([len(burst) for burst in bursts])
    assert sizes.mean() == pytest.approx(1 / 0.6, rel=0.02)
    assert np.mean(sizes == 1) == pytest.approx(0.6, abs=0.02)
    starts = np.array([burst[0] for burst in bursts]) % 86400
    angle = 2 * np.pi * starts / 86400 - 1
    peak = np.mean(np.sin(angle) > 0)
    assert peak == pytest.approx(0.5 + 0.35 / 0.65 / np.pi, abs=0.015)


def test_span_and_load():
    """Three times the jobs come in the same 36 hours."""
    loads = []
    for factor in (1, 2, 3):
        tables = get(f"mlfs-small-x{factor}", num_traces=60)
        assert {len(table) for table in tables} == {155 * factor}
        for table in tables:
            assert 0 < table["submit_time"][-1] - table["submit_time"][0] <= SPAN_S
        loads.append(np.mean([busy_gpu_seconds(t).sum() for t in tables]) / SPAN_S / 20)
        instances = np.mean([t["iterations"] * t["num_gpus"] for t in tables])
        assert instances == pytest.approx(132, rel=0.07)
    assert loads == pytest.approx([0.363, 0.726, 1.089], rel=0.06)


def test_presets_have_the_load_of_their_names():
    mixed = get("mlfs-small-mixed", num_traces=4)
    assert [len(table) for table in mixed] == [155, 310, 465, 155]
    asked = get("mlfs-small-mixed", num_traces=3, num_jobs=93)
    assert [len(table) for table in asked] == [93] * 3
    spans = [SPAN_S * 93 / (155 * factor) for factor in (1, 2, 3)]
    for table, span in zip(asked, spans, strict=True):
        assert 0.7 * span < table["submit_time"][-1] <= span
    (large,) = get("mlfs-large-x1", num_traces=1)
    (usual,), (calibrated,) = (
        get(f"mlfs-small-{name}x2", num_traces=1) for name in ("", "calibrated-")
    )
    assert len(usual) == len(calibrated) == 310
    spans = [float(table["submit_time"][-1]) for table in (usual, calibrated)]
    assert spans[1] / spans[0] == pytest.approx(2.5, rel=0.02)
    (real,) = get("mlfs-real-x1", num_traces=1, num_jobs=20_000)
    each = [len(t) / gpus / t["submit_time"][-1] for t, gpus in ((large, 2474), (real, 80))]
    assert each[0] == pytest.approx(each[1], rel=1e-3)
    assert len(get("mlfs-real-x0.25", num_traces=1)[0]) == 155


def test_tables_of_a_seed_do_not_depend_on_their_number():
    three = task_tables(4, 3, num_jobs=40)
    assert digest_tables(three[:1]) == digest_tables(task_tables(4, 1, num_jobs=40))
    assert three[2].digest() == task_table(4, 2, num_jobs=40).digest()
    assert len({table.digest() for table in [*three, task_table(5, 0, num_jobs=40)]}) == 4


def test_given_models_and_sizes():
    (table,) = task_tables(0, 1, num_jobs=200, models=[SVM], sizes=[4, 8], span_s=600)
    assert set(table["model"]) == {SVM} and set(table["num_gpus"]) == {4, 8}
    assert table["work"].shape[1] == 1
    assert table["submit_time"][-1] <= 600


def test_files_and_figures(tmp_path):
    tables = task_tables(2, 2, num_jobs=30)
    write_tables(tmp_path / "tasks.csv.gz", tables)
    assert digest_tables(load_tables(tmp_path / "tasks.csv.gz")) == digest_tables(tables)
    found = describe_tables(tables, num_servers=5, gpus_per_server=4)
    spans = [int(t["submit_time"][-1] - t["submit_time"][0]) for t in tables]
    busy = [busy_gpu_seconds(t).sum() for t in tables]
    assert found["span_s"] == np.mean(spans)
    expected = np.mean([b / s / 20 for b, s in zip(busy, spans, strict=True)])
    assert found["load"] == pytest.approx(expected)
    assert set(found["model_shares"]) == set("01234")
    plot_tables(tables, tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "wrong",
    [
        *({"num_tables": 0}, {"num_jobs": True}, {"num_jobs": 1.5}, {"span_s": 0}),
        *({"span_s": float("nan")}, {"models": [5]}, {"models": []}, {"sizes": [3]}),
        {"seed": -1},
    ],
)
def test_refuses(wrong):
    with pytest.raises(JaxschedError, match=next(iter(wrong))):
        task_tables(**{"seed": 0, "num_tables": 1, "num_jobs": 5, **wrong})
