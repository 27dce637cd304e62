"""What shares of a GPU save, on a table that can be counted by hand."""

import numpy as np
import pytest

from benchmarks.gpu_shares import ASKED, BEST_FIT, WHOLE, filled, jobs_of, shown, waits, ways
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.traces import Trace, write_trace

COUNT = 200
HALVES = JobTable(
    {
        "submit_time": np.arange(COUNT) * 10,
        "num_gpus": np.ones(COUNT, int),
        "duration": np.full(COUNT, 400),
        "gpu_milli": np.full(COUNT, 500),
        "cpus": np.full(COUNT, 4),
    }
)


def test_halves_fill_all_gpus_by_slots_and_half_of_each_without():
    found = filled(HALVES, 2, "2x4/64", draws=2, seed=0)["rows"]
    assert list(found) == [name for name, *_ in ways(2)]
    for name, row in found.items():
        most = 50 if name == WHOLE else 100
        assert row["mean"] == pytest.approx([min(each, most) for each in ASKED], abs=6.25)


def test_jobs_hold_half_as_much_and_wait_less():
    found = waits(HALVES, 2, draws=2, seed=0)
    whole, shared = found["rows"][WHOLE], found["rows"][BEST_FIT]
    assert found["num_servers"] == 6 and found["shared_percent"] == 100
    assert whole[0]["gpu_hours"] == pytest.approx(2 * shared[0]["gpu_hours"])
    assert sum(shared[-1]["avg_wait_h"]) < sum(whole[-1]["avg_wait_h"])
    document = {"slots": 2, "waits": found, "filled": filled(HALVES, 2, "2x4/64", 2, 0)}
    assert "100.0 % of parts of a GPU" in shown(document)


def test_logs_without_shares_are_refused(tmp_path):
    columns = {name: np.arange(1.0, 5) for name in ("submit_time", "num_gpus", "duration")}
    write_trace(tmp_path / "log.csv", Trace(columns, "log"))
    with pytest.raises(JaxschedError, match="no job asks for a part of a GPU"):
        jobs_of(tmp_path / "log.csv", 0)
