"""Replies of ``squeue --json`` of several versions, and replies that are none."""

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.queues.jobs import EndedJob
from jaxsched.queues.past import Past, of_log
from jaxsched.slurm.queue import read_jobs
from jaxsched.traces.trace import Trace
from tests.slurm.fake import Fake

OLD = {
    "job_id": 7, "job_state": "PENDING", "priority": 4294901757, "submit_time": 100,
    "start_time": 0, "end_time": 0, "time_limit": 30, "user_name": "anna", "account": "lab",
    "node_count": 2, "tres_req_str": "cpu=2,mem=2M,node=2,billing=2", "tres_per_node": "gres:gpu:8",
    "partition": "main", "state_reason": "Resources", "dependency": "",
}  # fmt: skip
NEW = OLD | {
    "job_state": ["PENDING"], "priority": {"set": True, "infinite": False, "number": 4294901757},
    "submit_time": {"set": True, "infinite": False, "number": 100},
    "time_limit": {"set": True, "infinite": False, "number": 30},
    "node_count": {"set": True, "infinite": False, "number": 2},
    "tres_req_str": "cpu=2,mem=2M,node=2,billing=2,gres/gpu=16,gres/gpu:a100=16",
    "tres_per_node": "gres/gpu:a100:8",
}  # fmt: skip


@pytest.mark.parametrize("row", [OLD, NEW], ids=["22.05", "23.11"])
def test_a_waiting_job(row):
    (job,) = read_jobs({"jobs": [row]})
    assert (job.job_id, job.num_gpus, job.limit_s, job.submit) == ("7", 16, 1800, 100)
    assert (job.priority, job.owner, job.queue) == (4294901757, "anna/lab", "main")
    assert job.waits and not job.runs and not job.has_ended


@pytest.mark.parametrize(
    ("change", "gpus"),
    [
        ({"tres_per_node": "gres:gpu:a100:4", "node_count": 3}, 12),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:5"}, 5),
        ({"tres_alloc_str": "cpu=8,gres/gpu=6"}, 6),
        ({"tres_per_node": ""}, 0),
    ],
)
def test_gpus_of_a_job(change, gpus):
    assert read_jobs({"jobs": [OLD | change]})[0].num_gpus == gpus


@pytest.mark.parametrize(
    "change",
    [{"priority": 0}, {"dependency": "afterok:5"}, {"hold": True}, {"job_state": "CONFIGURING"}],
)
def test_held_jobs_are_not_in_line(change):
    assert not read_jobs({"jobs": [OLD | change]})[0].waits


def test_no_limit_is_none():
    row = NEW | {"time_limit": {"set": False, "infinite": True, "number": 0}}
    assert read_jobs({"jobs": [row]})[0].limit_s == 0


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "an object with a list of jobs"),
        ({"jobs": None}, "an object with a list of jobs"),
        ({"jobs": [3]}, "one with a job_id"),
        ({"jobs": [{"job_state": "PENDING"}]}, "one with a job_id"),
        ({"jobs": [OLD | {"priority": "high"}]}, "priority is 'high'; accepted: a whole number"),
        ({"jobs": [OLD | {"submit_time": -4}]}, "submit_time is -4"),
        ({"jobs": [OLD | {"submit_time": True}]}, "submit_time is True"),
    ],
)
def test_replies_that_are_none(document, words):
    with pytest.raises(JaxschedError, match=words):
        read_jobs(document)


def test_ended_jobs_are_kept_once(tmp_path):
    fake, path = Fake(), tmp_path / "ended.jsonl"
    for number in (1, 2, 3):
        fake.submit(number, gpus=number)
    fake.start(1)
    fake.start(2)
    fake.now += 50
    fake.end(1)
    queue = read_jobs({"jobs": list(fake.jobs.values())})
    past = Past(path)
    assert past.add(queue) == 1
    assert past.add(queue) == 0
    assert past.jobs() == [EndedJob("1", 10_000, 10_000, 10_050, 1, "anna/lab")]
    assert Past(path).jobs() == past.jobs()
    with path.open("a") as file:
        file.write("[2, 3")  # the process was killed while it wrote
    assert Past(path).jobs() == past.jobs()
    path.write_text("{}\n[2, 3]\n")
    with pytest.raises(JaxschedError, match="line 1: is no ended job"):
        Past(path)


def test_a_log_of_this_slurm():
    columns = {
        "submit_time": [1e9, 1e9], "num_gpus": [2.0, 1], "duration": [60.0, 5],
        "start_time": [1e9 + 5, float("nan")], "user": ["anna", "bob"], "group": ["lab", ""],
    }  # fmt: skip
    assert of_log(Trace(columns, clock="utc")) == [
        EndedJob("log-0", 10**9, 10**9 + 5, 10**9 + 65, 2, "anna/lab")
    ]
    named = Trace(columns | {"job_id": ["7", "8"]}, clock="utc")
    past = Past(earlier=of_log(named))
    row = OLD | {
        "job_state": "COMPLETED", "submit_time": 10**9, "start_time": 10**9 + 5,
        "end_time": 10**9 + 65,
    }  # fmt: skip
    assert past.add(read_jobs({"jobs": [row]})) == 0  # the same job
    assert past.add(read_jobs({"jobs": [row | {"job_id": 9}]})) == 1
    with pytest.raises(JaxschedError, match="on a clock of dates"):
        of_log(Trace(columns))
