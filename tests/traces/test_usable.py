"""The one rule of which rows of a trace are jobs, and that every way to job tables keeps it."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import from_trace
from jaxsched.traces import Trace, clusters, import_trace
from jaxsched.traces.usable import dropped_note, is_job, job_rows

TRACE = Trace(
    {
        "submit_time": np.array([30.0, 10.0, 10.0, 0.0, 5.0, 6.0, 7.0]),
        "num_gpus": np.array([1.0, 2.0, 0.5, 4.0, 0.0, np.nan, 8.0]),
        "duration": np.array([100.0, 200.0, 0.01, 0.0, 50.0, 50.0, np.nan]),
    },
    "hand",
)


def test_a_job_needs_gpus_and_ran():
    assert is_job(TRACE).tolist() == [True, True, True, False, False, False, False]
    assert job_rows(TRACE).tolist() == [1, 2, 0], "in order of submission, ties as they stand"
    with pytest.raises(JaxschedError, match="trace 'hand': no row has GPUs and a run time above 0"):
        job_rows(TRACE.take(slice(3, None)))


def test_replays_and_systems_play_the_same_rows():
    played = from_trace(TRACE)
    imported = import_trace(TRACE, mode="cut", num_jobs=3)
    for table in (played, imported.stream):
        assert table["submit_time"].tolist() == [0, 0, 20] and table["num_gpus"].tolist() == [
            2,
            1,
            1,
        ]
    assert dropped_note(4) in imported.summary.notes() and "4 rows" in dropped_note(4)


def test_generated_workloads_have_so_many_jobs():
    found = clusters.usable_jobs("philly-like", 0, 50)
    assert np.sum(is_job(found)) == 50 == len(from_trace(found))
