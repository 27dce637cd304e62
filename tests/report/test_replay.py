"""Schedules of every system as they are recorded, and the page that shows them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from jaxsched.envs.das import show as das_cases
from jaxsched.envs.das.rules import DURATION
from jaxsched.envs.das.show import log as das
from jaxsched.errors import JaxschedError
from jaxsched.jobs.schedule import by_job
from jaxsched.report import check, render_html
from jaxsched.report.replay import render_replay, write_replay
from jaxsched.report.replay.page import summary_of
from tests.report.recorded import CASES, GOLDEN, SYSTEMS, case_of, recorded, times_of
from tests.report.sample_comparison import sample_comparison

SHARED = ("mlfs",)  # several tasks on a GPU


def same_times(schedule, expected):
    """Whether starts and finishes are those of a golden case."""
    times = np.array([times_of(job) for job in expected])
    np.testing.assert_allclose(schedule.start, times[:, 0], rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(schedule.finish, times[:, 1], rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("system", SYSTEMS)
def test_recorded_schedules_are_those_of_the_golden_cases(system):
    schedule = recorded(system)
    same_times(schedule, case_of(system)["expect"]["jobs"])
    assert (schedule.system, schedule.episode) == (system, CASES[system])
    assert schedule.end >= schedule.finish.max()


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_golden_episodes_are_recorded_as_they_are(system):
    shown = 0
    for path in sorted((GOLDEN / system).glob("*.json"))[::2]:
        case = json.loads(path.read_text(encoding="utf-8"))
        jobs = case.get("expect", {}).get("jobs")
        if jobs and not {"cases", "reject"} & set(case):
            same_times(recorded(system, path.stem), jobs)
            shown += 1
    assert shown >= 5


@pytest.mark.parametrize("system", SYSTEMS)
def test_nobody_is_drawn_over_another(system):
    schedule = recorded(system)
    pieces, share = schedule.pieces, 4 if system in SHARED else 1
    assert pieces.row.min() >= 0 and (pieces.row + pieces.rows).max() <= schedule.num_rows
    assert np.all(pieces.end > pieces.start)
    for row in (np.arange(schedule.num_rows * share) + 0.5) / share:
        there = (pieces.row < row) & (row < pieces.row + pieces.rows)
        order = np.argsort(pieces.start[there])
        start, end = pieces.start[there][order], pieces.end[there][order]
        assert np.all(start[1:] >= end[:-1] - 1e-6)


@pytest.mark.parametrize("system", SYSTEMS)
def test_pieces_lie_within_their_jobs(system):
    schedule = recorded(system)
    pieces = schedule.pieces
    done = schedule.finish[pieces.job] >= 0
    assert np.all(pieces.start >= schedule.start[pieces.job] - 1e-6)
    assert np.all((pieces.end <= schedule.finish[pieces.job] + 1e-6)[done])
    started = np.flatnonzero(schedule.start >= 0)
    first = [pieces.start[pieces.job == job].min() for job in started]
    np.testing.assert_allclose(first, schedule.start[started])


def test_gangs_hold_the_gpus_that_they_asked_for():
    schedule, case = recorded("sched2"), case_of("sched2")
    held = np.bincount(schedule.pieces.job, schedule.pieces.rows)
    assert held.tolist() == [job["num_gpus"] for job in case["jobs"]]
    level = {
        int(j): int(v) for j, v in zip(schedule.pieces.job, schedule.pieces.level, strict=True)
    }
    assert [level[j] for j in range(len(held))] == [j["level"] for j in case["expect"]["jobs"]]


def test_contention_accounts_for_all_of_the_work():
    env, params = das_cases.environment_of(case_of("das"))
    schedule = recorded("das")
    table = np.asarray(params.rows, np.int64)[: len(schedule.submit)]
    expected = case_of("das")["expect"]["jobs"]
    counts = np.zeros((len(table), env.num_servers), np.int64)
    for job, entry in enumerate(expected):
        for machine, instances in entry["machines"]:
            counts[job, machine] = instances
    gangs = das.Gangs(schedule.start, schedule.finish, counts)
    spans = das.spans_of(das.contention(env, table, gangs), gangs)
    done = np.zeros(len(table))
    np.add.at(done, spans.job, np.floor(10000.5 / spans.percent) * (spans.end - spans.start))
    ran = schedule.finish >= 0
    left = 100 * table[:, DURATION] - done
    assert np.all(left[ran] <= 0) and np.all(left[ran] > -100)  # less than a second beyond
    assert spans.percent.max() > 110


def test_workers_are_as_many_as_the_golden_slots_say():
    schedule, case = recorded("dl2"), case_of("dl2")
    tasks = {line.name: line for line in schedule.lines if line.chart == "tasks"}
    for slot in case["expect"]["slots"]:
        for name, key in (("workers", "workers"), ("parameter servers", "servers")):
            at = np.searchsorted(tasks[name].times, slot["time"], side="right") - 1
            assert tasks[name].values[at] == sum(entry[key] for entry in slot["alloc"])
    same_times(schedule, case["expect"]["jobs"])


def test_tasks_run_and_move_as_often_as_the_golden_case_says():
    schedule, expected = recorded("mlfs"), case_of("mlfs")["expect"]
    pieces = schedule.pieces
    for job, entry in enumerate(expected["jobs"]):
        own = pieces.job == job
        slots = {
            minute
            for start, end in zip(pieces.start[own], pieces.end[own], strict=True)
            for minute in range(int(start) // 60, int(end) // 60)
        }
        assert len(slots) == entry["run_slots"]
    moved = sum(len(marks.times) for marks in schedule.marks)
    assert moved == expected["metrics"]["migrations"] > 0
    facts = {fact.name: fact.values for fact in schedule.facts}
    in_time = schedule.finish <= schedule.deadline
    assert [word == "met" for word in facts["deadline"]] == in_time.tolist()


# The page


@pytest.fixture(scope="module")
def page():
    schedule = recorded("das")
    return render_replay([schedule, schedule], title="Two of <das> & co", facts={"a": "<b>"})


def test_page_loads_nothing_and_escapes_all(page):
    assert not re.search(r"https?:|//[a-z]+\.|@import|<link|<iframe|<img|\bsrc=|\bhref=", page)
    assert "<das>" not in page and "Two of &lt;das&gt; &amp; co" in page
    data = page.split('id="schedules">')[1].split("</script>")[0]
    assert not set("<>&") & set(data)
    read = json.loads(data)
    assert [one["policy"] for one in read["schedules"]] == [recorded("das").policy] * 2
    assert read["schedules"][0] == recorded("das").to_json()
    assert set(read["colours"]) == {"light", "dark"}


def test_a_hostile_name_stays_in_the_data():
    schedule = replace(recorded("sched2"), policy="</script><script>alert(1)</script>")
    text = render_replay([schedule], title="x", facts={})
    assert "<script>alert" not in text
    assert text.count("</script>") == 2


def test_pages_are_written_whole_and_say_what_matters(page, tmp_path):
    path = write_replay([recorded("mlfs")], tmp_path / "new" / "page.html", title="x", facts={})
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    words = dict(summary_of(recorded("mlfs")))
    assert words["finished"] == "3 of 3" and "deadlines met" in words
    assert len(page) < 200_000


def test_schedules_of_other_jobs_are_refused():
    with pytest.raises(JaxschedError, match="no schedule"):
        render_replay([], title="x", facts={})
    with pytest.raises(JaxschedError, match="have 8, 120 jobs"):
        render_replay([recorded("sched2"), recorded("das")], title="x", facts={})


# In reports


@pytest.mark.parametrize("system", SYSTEMS)
def test_reports_show_the_schedules_of_every_system(system):
    first = recorded(system)
    second = replace(first, policy="again")
    comparison = sample_comparison(episodes=2, jobs=20, seeds=1)
    comparison |= {"gantt": None, "schedules": [first.to_json(), second.to_json()]}
    text = render_html(json.loads(json.dumps(comparison)))
    what = "Tasks" if system in ("dl2", "chic") else "GPUs"
    assert f"<h2>{what} over time, {CASES[system]}" in text
    assert "<h3>again</h3>" in text and 'class="job level' in text
    for line in first.lines:
        words = line.chart if line.chart == line.name else f"{line.chart}: {line.name}"
        assert f"<h3>{words[0].upper()}{words[1:]}" in text
    comparison["schedules"][1]["pieces"]["job"][0] = 10**6
    with pytest.raises(JaxschedError, match=r"schedules\[1\]: piece 0 is .*1000000"):
        check(comparison)


def test_jobs_have_rows_where_places_are_not_known():
    one = by_job("toy", np.zeros(2000), np.arange(2000.0), np.arange(2000.0) + 50)
    comparison = sample_comparison(episodes=2, jobs=20, seeds=1)
    comparison |= {"gantt": None, "schedules": [replace(one, policy="a").to_json()]}
    text = render_html(comparison)
    assert "<h2>Jobs over time" in text and "one of 3 jobs is drawn" in text
    wait = re.search(r'<path class="job single" d="(.*?)"/>', text)[1]
    assert wait.count("M") == 666  # the first job does not wait
