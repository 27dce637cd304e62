"""DAS' workload has the published statistics; real tables map to gang jobs as specified."""

import numpy as np
import pytest

from jaxsched.envs.das.jobs import GANG_JOBS, SHAPES, gang_jobs, gang_tables
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, digest_tables, validate
from jaxsched.traces import (
    Trace,
    describe_tables,
    get,
    import_trace,
    load_tables,
    plot_tables,
    write_tables,
)


@pytest.fixture(scope="module")
def stream():
    return gang_tables(0, 1, num_jobs=20_000)[0]


@pytest.fixture(scope="module")
def shipped():
    return get("das-train")[0]


def demand(table):
    return table["num_instances"] * table["gpus_per_instance"]


def test_offered_load_is_as_asked():
    for rate in (0.5, 1.0, 2.0):
        for table in gang_tables(3, 2, num_jobs=500, rate=rate):
            work = np.sum(demand(table) * table["duration"])
            assert work / table["submit_time"][-1] == pytest.approx(45 * rate, rel=1e-4)


def test_rates_share_their_jobs():
    slow, fast = (gang_tables(5, 1, num_jobs=200, rate=rate)[0] for rate in (0.5, 2.0))
    for column in ("num_instances", "gpus_per_instance", "duration", "cpus_per_instance"):
        np.testing.assert_array_equal(slow[column], fast[column])
    np.testing.assert_allclose(slow["submit_time"], 4 * fast["submit_time"], atol=3)


def test_published_statistics(stream, shipped):
    """Of a long stream, and of the shipped one, which another generator drew."""
    weights = np.array([weight for _, _, weight in SHAPES])
    small = sum(w for c, g, w in SHAPES if c * g <= 4) / weights.sum()
    for table in (stream, shipped):
        gpus, minutes = demand(table), table["duration"] / 60
        assert 28 < np.median(minutes) < 35
        assert np.mean(gpus <= 4) == pytest.approx(small, abs=0.03)
        assert 0.03 < np.mean(gpus > 32) < 0.07
        cpus = table["cpus_per_instance"] / table["gpus_per_instance"]
        assert np.mean(cpus == 6) == pytest.approx(0.45, abs=0.02)
        memory = table["mem_per_instance"] / table["gpus_per_instance"]
        assert np.mean(memory == 29) == pytest.approx(0.5, abs=0.02)
        gaps = np.diff(table["submit_time"])
        assert 3 < gaps.std() / gaps.mean() < 5
        assert np.mean(np.diff(gpus) == 0) == pytest.approx(0.83, abs=0.03)


def test_jobs_arrive_by_day(stream):
    """On the clock before scaling, the hours around 15 h have most submissions."""
    from jaxsched.envs.das.jobs import BRANCH, _sessions_by_day
    from jaxsched.jobs.draws import generator

    times, session = _sessions_by_day(generator(0, BRANCH, 0, 0), 20_000)
    starts = times[np.flatnonzero(np.diff(session, prepend=-1))]
    hours = (starts / 3600) % 24
    day, night = np.mean(np.abs(hours - 15) < 6), np.mean(np.abs(hours - 15) >= 6)
    assert day > 4 * night
    sizes = np.bincount(session)
    assert sizes.mean() == pytest.approx(5, rel=0.05)
    assert len(stream) == 20_000


def test_shipped_workload():
    train, tests = get("das-train"), get("das-test")
    assert [len(t) for t in train] == [16_000]
    assert [len(t) for t in tests] == [1000] * 4
    for table in tests:
        assert validate(table).schema == GANG_JOBS
    assert digest_tables(train)[:16] == "27d651a0d9c946dd"
    assert digest_tables(tests)[:16] == "3929c3f3cc3a9d71"


def test_described_by_numbers_of_gpus(tmp_path):
    tables = get("das-test")
    found = describe_tables(tables, num_servers=8)
    gpus = np.concatenate([demand(table) for table in tables])
    assert found["demand"] == {str(g): int(np.sum(gpus == g)) for g in np.unique(gpus)}
    plot_tables(tables, tmp_path / "das.png", num_servers=8)
    assert (tmp_path / "das.png").stat().st_size > 10_000


def test_file_round_trip(tmp_path):
    tables = gang_tables(2, 2, num_jobs=30)
    write_tables(tmp_path / "gang.csv.gz", tables)
    assert digest_tables(load_tables(tmp_path / "gang.csv.gz")) == digest_tables(tables)


def test_rigid_jobs_become_gangs():
    table = JobTable(
        {
            "submit_time": [0, 5, 9, 9],
            "num_gpus": [12, 12, 100, 3],
            "duration": [60, 400_000, 70, 80],
            "model": [0, 0, 0, 0],
        }
    )
    gang = gang_jobs(table)
    assert gang["num_instances"].tolist() == [12, 2, 64, 1]
    assert gang["gpus_per_instance"].tolist() == [1, 8, 1, 3]
    assert gang["cpus_per_instance"].tolist() == [6, 48, 6, 18]
    assert gang["mem_per_instance"].tolist() == [29, 232, 29, 87]
    assert gang["duration"].tolist() == [60, 259_200, 70, 80]
    assert any("1 jobs capped at 64 GPUs" in note for note in gang.notes)
    assert any("1 run times lowered" in note for note in gang.notes)


def test_instances_of_the_trace_are_kept():
    columns = {
        "submit_time": [0.0, 5, 9, 11],
        "num_gpus": [1.0, 6, 0.5, 150],  # two half GPUs, 4 x 1.5, one half, 10 x 15
        "duration": [600.0] * 4,
        "num_instances": [2.0, 4, 1, 10],
        "cpus": [12.0, 24, 3, 40],
        "memory_gb": [20.5, 116, 30, 10],
    }
    trace = Trace({name: np.array(values) for name, values in columns.items()})
    gang = gang_jobs(import_trace(trace, mode="cut", num_jobs=4).tables[0])
    assert gang["num_instances"].tolist() == [2, 4, 1, 8]
    assert gang["gpus_per_instance"].tolist() == [1, 2, 1, 8]
    assert gang["cpus_per_instance"].tolist() == [6, 6, 3, 4]
    assert gang["mem_per_instance"].tolist() == [11, 29, 30, 1]
    assert any("1 jobs capped" in note for note in gang.notes)
    assert not any("derived" in note for note in gang.notes)
    assert validate(gang).schema == GANG_JOBS


@pytest.mark.parametrize(
    "wrong", [{"num_tables": 0}, {"num_jobs": True}, {"rate": 0.0}, {"rate": float("inf")}]
)
def test_refuses(wrong):
    with pytest.raises(JaxschedError, match=next(iter(wrong))):
        gang_tables(0, **{"num_tables": 1, **wrong})
