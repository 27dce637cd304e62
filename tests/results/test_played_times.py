"""Notes of a comparison, and the times of all its jobs."""

from dataclasses import replace

import numpy as np
import pyarrow.csv
import pytest

from jaxsched import traces
from jaxsched.report import check, write_html
from jaxsched.results import comparison
from jaxsched.results.job_times import write_job_times
from jaxsched.results.played_times import PlayedTimes
from jaxsched.systems import functions, registry
from jaxsched.systems.parts import Played
from jaxsched.systems.recording import schedule_of_columns

SYSTEM = registry.get("sched2")
NOTES = ("150 rows without GPUs or run time dropped", "20 run times raised to 60 s")


@pytest.fixture(scope="module")
def contest():
    """Two tables of five jobs each."""
    tables = traces.get("sched2-68", num_traces=2, num_jobs=5)
    return comparison.Contest(SYSTEM, [replace(table, notes=NOTES) for table in tables], "tables")


@pytest.fixture
def played(monkeypatch):
    """Nothing is compiled: every job starts 7 s after its submission, the last one never."""

    def play(of, env, policy, params, weights=(), *, schedule=(), key=None):
        submit = np.asarray(params.jobs.submit_time)[:, :5]
        start = np.where(np.arange(5) < 4, submit + 7.0, -1.0)
        finish = np.where(start >= 0, start + 100.0, -1.0)
        columns = [{"submit": submit[i], "start": start[i], "finish": finish[i]} for i in schedule]
        drawn = [schedule_of_columns("sched2", one) for one in columns]
        values = {name: np.ones(2) for name in SYSTEM.metrics.shown}
        return Played(values, {}, drawn)

    monkeypatch.setattr(functions, "play", play)


def test_a_result_carries_what_was_changed(contest, played, tmp_path):
    result = comparison.compare(replace(contest, further_notes=("more",)), ["fifo"])
    assert result["notes"] == [*NOTES, "more"]
    page = write_html(check(result), tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(note in page for note in NOTES)
    assert len(result["schedules"]) == 1


def test_the_times_of_all_jobs(contest, played, tmp_path):
    times = PlayedTimes(contest)
    result = comparison.compare(contest, ["fifo", "sif"], on_played=times)
    assert len(result["schedules"]) == 2  # one episode of two policies, as without the times
    path = write_job_times(tmp_path / "times.csv", times.parts)
    rows = pyarrow.csv.read_csv(path).to_pylist()
    assert len(rows) == 2 * 2 * 5
    assert [row["trace"] for row in rows[:10]] == [0] * 5 + [1] * 5
    assert {row["policy"] for row in rows[10:]} == {"sif"}
    table = contest.tables[1]
    for job, row in enumerate(rows[5:10]):
        assert row["submit_time"] == table["submit_time"][job]
        assert (row["num_gpus"], row["duration"]) == (
            table["num_gpus"][job],
            table["duration"][job],
        )
        done = job < 4
        assert row["wait"] == (7 if done else None) and row["jct"] == (107 if done else None)


def test_jobs_of_any_number_of_gpus_have_none_in_the_file(tmp_path):
    system = registry.get("chic")
    tables = traces.get("chic-1.80", num_traces=1, num_jobs=3)
    times = PlayedTimes(comparison.Contest(system, tables, "tables"))
    at = np.array([0.0, 1.0, -1.0])
    schedule = schedule_of_columns("chic", {"submit": np.zeros(3), "start": at, "finish": at})
    times("optimus", [Played({}, {}, [schedule]), Played({}, {}, [schedule])])
    rows = pyarrow.csv.read_csv(write_job_times(tmp_path / "t.csv", times.parts)).to_pylist()
    assert [row["seed"] for row in rows] == [0, 0, 0, 1, 1, 1]
    assert {row["num_gpus"] for row in rows} == {None}
    assert [row["start_time"] for row in rows[:3]] == [0, 1, None]
