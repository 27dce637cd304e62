import json

import numpy as np
import pytest

from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.traces import describe_tables, load_over_time, plot_tables

JOBS = JobTable(
    {
        "submit_time": [0, 10, 40],
        "num_gpus": [1, 4, 1],
        "duration": [100, 20, 60],
        "model": [5, 5, 4],
    },
    "hand",
    ("a note",),
)
ALONE = JOBS.take([0])


def test_statistics_by_hand():
    found = describe_tables([JOBS], num_servers=2, gpus_per_server=4)
    assert json.loads(json.dumps(found)) == found
    assert (found["traces"], found["jobs"], found["span_s"]) == (1, 3, 40)
    assert found["one_gpu_share"] == pytest.approx(2 / 3)
    assert found["demand"] == {"1": 2, "4": 1}
    assert found["duration_s"]["mean"] == 60
    assert (found["duration_s"]["median"], found["duration_s"]["p25"]) == (60, 40)
    assert found["gap_s"] == {"mean": 20, "median": 20, "cv": 0.5}
    assert found["load"] == pytest.approx((100 + 80 + 60) / (8 * 40))
    assert found["model_shares"] == {"4": pytest.approx(1 / 3), "5": pytest.approx(2 / 3)}
    assert found["notes"] == ["a note"]


def test_tables_without_gaps_do_not_count_for_load_and_gaps():
    alone = describe_tables([ALONE], num_gpus=120)
    assert alone["load"] is None and alone["span_s"] is None
    assert alone["gap_s"] == {"mean": None, "median": None, "cv": None}
    both = describe_tables([JOBS, ALONE], num_gpus=120)
    assert both["load"] == describe_tables([JOBS], num_gpus=120)["load"] is not None
    assert describe_tables([JOBS])["load"] is None  # no cluster is told
    assert both["jobs"] == 4
    with pytest.raises(JaxschedError, match="no jobs to describe"):
        describe_tables([])


def test_jobs_without_models_have_no_shares():
    gang = JobTable(
        {
            "submit_time": [0, 10],
            "num_instances": [2, 1],
            "gpus_per_instance": [1, 4],
            "cpus_per_instance": [1, 1],
            "mem_per_instance": [1, 1],
            "duration": [5, 30],
        },
        schema=GANG_JOBS,
    )
    found = describe_tables([gang], num_servers=1, gpus_per_server=4)
    assert "model_shares" not in found
    assert found["load"] == pytest.approx((2 * 5 + 4 * 30) / (4 * 10))


def test_load_over_time_by_hand():
    times = np.array([0.0, 9.0, 10.0, 29.0, 30.0, 40.0, 99.0, 100.0])
    expected = np.array([1, 1, 5, 5, 1, 2, 2, 0]) / 8
    np.testing.assert_allclose(load_over_time(JOBS, times, 8), expected)


@pytest.mark.parametrize("tables", [[JOBS], [JOBS, ALONE], [ALONE]])
def test_figure(tmp_path, tables):
    for size in (None, 120):
        plot_tables(tables, tmp_path / "figure.png", num_gpus=size)
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(JaxschedError, match="cannot be written"):
        plot_tables(tables, tmp_path / "missing" / "figure.png")
