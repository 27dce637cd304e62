"""Ended jobs, of a log and as a queue shows them."""

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.queues.jobs import EndedJob, QueuedJob
from jaxsched.queues.past import Past, of_log
from jaxsched.queues.slurm import read_jobs
from jaxsched.traces.trace import Trace
from tests.slurm.fake import Fake


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
    again = Past(path)
    assert again.jobs() == past.jobs()
    fake.now += 50
    fake.end(2)
    assert again.add(read_jobs({"jobs": list(fake.jobs.values())})) == 1
    assert Past(path).jobs() == again.jobs() and len(again) == 2


@pytest.mark.parametrize(
    "line",
    ["{}", "[2, 3]", '"abcdef"', '["a", "1", 2, 3, 4, "b"]', '["a", 1e400, 2, 3, 4, "b"]',
     '["a", 1, 2, 3, 4, null]', '[["a"], 1, 2, 3, 4, "b"]', "[" * 9999],
)  # fmt: skip
def test_lines_that_are_no_ended_jobs(line, tmp_path):
    path = tmp_path / "ended.jsonl"
    path.write_text(f'[7, 1, 2, 3, 4, "b"]\n{line}\n[7, 1, 2, 3, 4, "b"]\n')
    with pytest.raises(JaxschedError, match="line 2: is no ended job; accepted: what an earlier"):
        Past(path)
    path.write_bytes(b"\xff\n")
    with pytest.raises(JaxschedError, match=r"ended\.jsonl: cannot be read; accepted: what an"):
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
    seen = QueuedJob("7", False, False, True, 0, 10**9, 10**9 + 5, 10**9 + 65, 2, 0, "anna/lab", "")
    assert past.add([seen]) == 0  # the same job
    assert past.add([seen._replace(job_id="9")]) == 1
    with pytest.raises(JaxschedError, match="on a clock of dates"):
        of_log(Trace(columns))
