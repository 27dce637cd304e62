"""Replies of ``squeue --json`` of several versions, and replies that are none."""

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.queues.slurm import read_jobs

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
