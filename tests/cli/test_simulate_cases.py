"""Files of several cases, and which entries of a result are kept."""

import json

import pytest

from jaxsched.cli import main
from jaxsched.ops.programs import MOST_PROGRAMS
from jaxsched.systems.case_files import in_layout

JOB = {"submit_time": 0, "num_gpus": 1, "duration": 5, "model": 0}
GOOD = {"jobs": [JOB], "policy": "fifo", "config": {}, "expect": {"metrics": {}}}
BAD = {"jobs": [{**JOB, "duration": 0}], "config": {}, "expect": {"reject": True}}


def run(tmp_path, case):
    path, out = tmp_path / "case.json", tmp_path / "result.json"
    path.write_text(json.dumps({"system": "sched2", **case}))
    status = main(["simulate", str(path), "--json", str(out)])
    return status, json.loads(out.read_text()) if out.exists() else None


def test_every_case_of_a_file_runs(tmp_path, capsys):
    status, result = run(tmp_path, {"cases": [BAD, GOOD, BAD]})
    assert status == 2
    first, good, last = result["cases"]
    assert first == last and first["reject"] is True and "duration is 0" in first["error"]
    assert good["metrics"]["finished"] == 1 and "reject" not in good
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line.split(": ")[2] for line in lines] == ["cases[0]", "cases[2]"]


def test_cases_that_run_are_no_error(tmp_path, capsys):
    status, result = run(tmp_path, {"cases": [GOOD]})
    assert status == 0 and len(result["cases"]) == 1
    assert capsys.readouterr().err == ""


def test_tables_to_be_refused_keep_their_layout(tmp_path):
    status, result = run(tmp_path, {"reject": [BAD, {"jobs": [JOB]}]})
    assert status == 2
    refused, accepted = result["reject"]
    assert refused["refused"] is True and "duration is 0" in refused["error"]
    assert accepted == {"refused": False}


@pytest.mark.parametrize("key", ["cases", "reject"])
@pytest.mark.parametrize("value", [{}, [3], "all"], ids=str)
def test_anything_but_a_list_of_objects_is_refused(key, value, tmp_path, capsys):
    status, result = run(tmp_path, {key: value})
    assert status == 2 and result is None
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and f"{key!r} must be a list of objects" in lines[0]


def test_entries_without_a_step_are_chosen_by_slot():
    found = [{"slot": slot, "migrants": [slot]} for slot in range(6)]
    result = {"snapshots": found, "trajectory": [{"step": 0, "slot": 3}, {"step": 1, "slot": 3}]}
    expect = {"snapshots": [{"slot": 2}, {"slot": 5}], "trajectory": [{"step": 1, "slot": 3}]}
    cut = in_layout(result, expect)
    assert cut["snapshots"] == [found[2], found[5]]
    assert cut["trajectory"] == [{"step": 1, "slot": 3}]
    unnamed = in_layout({"snapshots": found}, {"snapshots": [{"migrants": []}]})
    assert unnamed["snapshots"] == found[:1]


def test_results_do_not_depend_on_what_is_kept(tmp_path):
    entries = [{**GOOD, "config": {"window": k}} for k in range(1, MOST_PROGRAMS + 2)]
    status, together = run(tmp_path, {"cases": [*entries, entries[0]]})
    assert status == 0 and together["cases"][0] == together["cases"][-1]
