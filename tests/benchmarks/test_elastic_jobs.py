"""Workloads of elastic jobs, beside published times."""

import json
from pathlib import Path

import pytest

from benchmarks.elastic_jobs import FOLDERS, play, shown
from jaxsched.errors import JaxschedError
from tests.trace_replay.elastic_tables import steady


def test_published_times_are_counted_job_by_job(tmp_path: Path) -> None:
    steady(tmp_path / "traces", {"fast": 1.0}, 150.0)
    head = "name,time,application,num_replicas,batch_size"
    for folder in FOLDERS.values():
        (tmp_path / folder).mkdir()
        jobs = f"{head}\na,50,fast,1,8\nb,50,fast,2,16\n"
        (tmp_path / folder / "workload-1.csv").write_text(jobs)
    published = tmp_path / "results" / "tiresias-1.0"
    published.mkdir(parents=True)
    times = {"jcts": {"workload-1": {"a": 190, "b": 191}}, "avgs": {"workload-1": 190.5}}
    (published / "summary.json").write_text(json.dumps(times))
    found = play(tmp_path, tmp_path / "results")
    assert found["1.0"]["tiresias_equal"] == [1, 2]
    assert found["1.0"]["avg_jct"]["fifo"] == [190.0]
    assert "tiresias_equal" not in found["0.5"]
    rows = shown(found).splitlines()
    assert "| 1.0 | 1 x 2 | 190 | 190 |" in rows[3]
    assert rows[3].endswith("| 190 | - | - |")


def test_missing_workloads_are_one_line(tmp_path: Path) -> None:
    steady(tmp_path / "traces", {"fast": 1.0}, 150.0)
    with pytest.raises(JaxschedError, match=r"has no workload-K\.csv"):
        play(tmp_path, None)
