import json

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import json_records, sacct

NAN = float("nan")
T = 1709283600  # 2024-03-01 09:00:00 in universal time
NONE = {"set": False, "infinite": False, "number": 0}


def number(value):
    return {"set": True, "infinite": False, "number": value}


def tres(gpus=2, *kinds, cpus=8):
    entries = [
        {"type": "cpu", "name": "", "id": 1, "count": cpus},
        {"type": "mem", "name": "", "id": 2, "count": 65536},
        {"type": "node", "name": "", "id": 4, "count": 1},
    ]
    if gpus:
        entries.append({"type": "gres", "name": "gpu", "id": 1001, "count": gpus})
    return entries + [
        {"type": "gres", "name": f"gpu:{kind}", "id": 1002, "count": gpus} for kind in kinds
    ]


def job(job_id=1, current="COMPLETED", start=T + 10, end=T + 3610, run=3600, **others):
    time = {
        "submission": T, "eligible": T, "start": start, "end": end, "elapsed": run, "suspended": 0,
        "limit": number(90), **others.pop("time", {}),
    }  # fmt: skip
    return {
        "job_id": job_id,
        "array": {"job_id": 0, "task": "", "task_id": NONE},
        "het": {"job_id": 0, "job_offset": NONE},
        "state": {"current": [current], "reason": "None"},
        "tres": {"allocated": tres(), "requested": tres()},
        "time": time,
        "user": "ann",
        "account": "vis",
        "partition": "gpu",
        "qos": "normal",
        "cluster": "c",
        "allocation_nodes": 1,
        "restart_cnt": 0,
        "steps": [{"step": {"id": f"{job_id}.batch"}, "state": [current]}],
        **others,
    }


def write(tmp_path, *jobs, **members):
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"jobs": list(jobs), **members}))
    return path


def refusal(path):
    with pytest.raises(JaxschedError) as caught:
        sacct.read(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path)) and len(message) < 400
    return message.removeprefix(str(path))


def test_jobs_as_version_24_writes_them(tmp_path):
    path = write(
        tmp_path,
        job(11, tres={"allocated": tres(4, "a100"), "requested": tres(8)}),
        job(12, "CANCELLED", 0, T + 60, 0, array={"job_id": 12, "task": "", "task_id": number(1)},
            tres={"allocated": [], "requested": tres(4)}),
        job(13, "PENDING", 0, 0, 0, array={"job_id": 12, "task": "2-4%2", "task_id": NONE},
            tres={"allocated": [], "requested": tres(4)}),
        job(14, het={"job_id": 14, "job_offset": number(0)}),
        job(15, het={"job_id": 14, "job_offset": number(1)},
            tres={"allocated": tres(0, cpus=64), "requested": []}),
        job(16, "NODE_FAIL", end=T + 100, run=90),
        job(16, "TIMEOUT", T + 200, T + 500, 300, time={"submission": T + 100}),
        job(17, "RUNNING", end=0, run=50, partition="", restart_cnt=2),
        meta={"plugins": {"data_parser": "data_parser/v0.0.42"}, "slurm": {"release": "24.11.7"}},
        errors=[], warnings=[],
    )  # fmt: skip
    assert recognise(path).name == "sacct"
    trace = load_trace(path)
    assert (trace.source, trace.clock) == ("sacct", "utc")
    assert trace["job_id"].tolist() == ["11", "12_1", "12_2", "12_3", "12_4", "14", "16", "17"]
    np.testing.assert_array_equal(trace["num_gpus"], [4, 4, 4, 4, 4, 2, 2, 2])
    np.testing.assert_array_equal(trace["duration"], [3600, NAN, NAN, NAN, NAN, 3600, 490, NAN])
    np.testing.assert_array_equal(trace["attempts"], [1, 0, 0, 0, 0, 1, 2, 3])
    np.testing.assert_array_equal(trace["start_time"] - T, [10, NAN, NAN, NAN, NAN, 10, 10, 10])
    assert trace["requested_time"].tolist() == [5400] * 8
    assert trace["memory_gb"][0] == 64 and trace["cpus"].tolist()[5] == 72
    assert trace["gpu_type"][0] == "a100"
    assert trace["status"].tolist() == [
        "completed", "killed", "pending", "pending", "pending", "completed", "failed", "running",
    ]  # fmt: skip
    assert trace["group"].tolist() == ["gpu"] * 7 + ["normal"]


def test_jobs_as_version_21_writes_them(tmp_path):
    """Plain numbers, null where there is none, states as texts, meta first, eligible as start."""
    old = {
        "array": {"job_id": 0, "task": None, "task_id": None},
        "het": {"job_id": 0, "job_offset": None},
        "state": {"current": "COMPLETED", "reason": "None"},
    }
    started_late = job(1, start=T, end=T + 4000, run=3000, time={"limit": 60}, **old)
    cancelled = job(
        2, "x", 0, T + 5, 0, time={"limit": None}, **old | {"state": {"current": "CANCELLED"}}
    )
    infinite = job(3, time={"limit": 4294967295}, **old)
    path = tmp_path / "a.json"
    jobs = json.dumps([started_late, cancelled, infinite], indent=2)
    path.write_text(f'\n{{"meta": {{"Slurm": {{}}, "n": 1.5}}, "errors": [], "jobs": {jobs}}}\n')
    trace = load_trace(path)
    np.testing.assert_array_equal(trace["start_time"], [T + 1000, NAN, T + 10])
    np.testing.assert_array_equal(trace["duration"], [3000, NAN, 3600])
    np.testing.assert_array_equal(trace["requested_time"], [3600, NAN, NAN])
    assert trace["status"].tolist() == ["completed", "killed", "completed"]
    assert (
        "1 starts that are the time from which a job might run, taken from run times" in trace.notes
    )


@pytest.mark.parametrize(
    ("current", "status"),
    [
        ("COMPLETED", "completed"),
        (["COMPLETED"], "completed"),
        (["CANCELLED"], "killed"),
        (["PENDING", "REQUEUED"], "pending"),
        (["OUT_OF_MEMORY"], "failed"),
        (["STRANGE", "FAILED"], "failed"),
    ],
)
def test_states(tmp_path, current, status):
    trace = sacct.read(write(tmp_path, job(state={"current": current})))
    assert trace["status"].tolist() == [status]


def job_with(**others):
    return {**job(), **others}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"job_id": 1}, "has no time of submission; accepted: an object with a list 'jobs'"),
        (job_with(job_id=None), "has no job_id; accepted"),
        (job_with(job_id={"a": 1}), "has no job_id; accepted"),
        (job_with(job_id="x"), "job_id is 'x'; accepted: a number"),
        (job_with(job_id=-7), "job_id is -7.0; accepted: a number from 0"),
        (job_with(user=3), "user is 3.0; accepted: a text"),
        (job_with(user="\ud800"), "user is '\\ud800', with half of a character; accepted: a text"),
        (job_with(time=[1]), "time is [1.0]; accepted: an object"),
        (job_with(time={"submission": True}), "time.submission is True; accepted: a number"),
        (job_with(tres={"allocated": 3}), "tres.allocated is 3.0; accepted: a list of type, name"),
        (job_with(tres={"allocated": [3]}), "tres.allocated is [3.0]; accepted: a list of type"),
        (job_with(state={"current": 3}), "state.current is 3.0; accepted: a state or a list"),
        (job_with(array={"job_id": 1, "task": [2]}), "array.task is [2.0]; accepted: tasks"),
        (3, "begins with '3'; accepted: an object with a list 'jobs'"),
    ],
)
def test_bad_records(tmp_path, record, expected):
    path = write(tmp_path, job(), record)
    assert refusal(path).startswith(f", record 2, line 1: {expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"jobs": []}', ", line 1: has no jobs; accepted"),
        ('{"job_id": 1}', ", line 1: has no jobs; accepted"),
        ('{"jobs": [', ", record 1, line 1: begins with ''; accepted"),
        ('{"jobs": {}}', ", line 1: begins with '{'; accepted"),
        ('{"jobs" 3}', ", line 1: begins with '3'; accepted"),
        ('{"meta": tru', ", line 1: is not JSON"),
        ("{3: 4}", ", line 1: begins with '3'; accepted"),
        ("{" + '"a": ' + "[" * 100_000, ", line 1: is nested too deeply"),
    ],
)
def test_bad_documents(tmp_path, text, expected):
    path = tmp_path / "a.json"
    path.write_text(text)
    assert refusal(path).startswith(expected)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_documents_across_pieces(tmp_path, monkeypatch, size):
    path = write(tmp_path, *(job(k) for k in range(3)), meta={"n": 123456, "t": True}, errors=None)
    whole = sacct.read(path).digest()
    monkeypatch.setattr(json_records, "_PIECE", size)
    assert sacct.read(path).digest() == whole
    path.write_text(path.read_text()[:-1] + " x")
    assert "begins with 'x'; accepted" in refusal(path)
