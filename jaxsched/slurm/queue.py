"""Jobs as ``squeue --json`` has them, of Slurm 21.08 to 24.11."""

import re
from collections.abc import Mapping
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.queues.jobs import QueuedJob

_GPUS = re.compile(r"gres[:/]gpu(?:[:/][^=,:]+)?[=:](\d+)")
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED"}
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "TIMEOUT",
}  # fmt: skip


def read_jobs(document: Any) -> list[QueuedJob]:
    """The jobs of a reply; those that wait for other jobs or a time are not among the waiting.

    Raises:
      JaxschedError: not such a reply.
    """
    rows = document.get("jobs") if isinstance(document, Mapping) else None
    if not isinstance(rows, list):
        raise JaxschedError(
            f"squeue: the reply is {describe_value(document)}; accepted: an object with a list of "
            "jobs"
        )
    return [_job(row) for row in rows]


def _job(row: Any) -> QueuedJob:
    if not isinstance(row, Mapping) or "job_id" not in row:
        raise JaxschedError(f"squeue: a job is {describe_value(row)}; accepted: one with a job_id")
    states = row.get("job_state", "")
    state = str(states[0] if isinstance(states, list) and states else states)
    priority = 0 if row.get("dependency") or row.get("hold") else _number(row, "priority")
    start, end = _number(row, "start_time"), _number(row, "end_time")
    return QueuedJob(
        job_id=str(_number(row, "job_id")),
        waits=state == "PENDING" and priority > 0,
        runs=state in _RUNNING,
        has_ended=state in _ENDED and 0 < start < end,
        priority=priority,
        submit=_number(row, "submit_time"),
        start=start,
        end=end,
        num_gpus=_gpus(row),
        limit_s=60 * _number(row, "time_limit"),
        owner=f"{row.get('user_name', '')}/{row.get('account', '')}",
        queue=str(row.get("partition", "")),
    )


def _number(row: Mapping[str, Any], name: str) -> int:
    """A whole number from 0 on; newer versions say ``{"set": true, "number": 5}``."""
    value = row.get(name, 0)
    if isinstance(value, Mapping):
        value = value.get("number", 0) if value.get("set") and not value.get("infinite") else 0
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise JaxschedError(
            f"squeue: job {row.get('job_id')}: {name} is {describe_value(value)}; accepted: a "
            "whole number"
        )
    return value


def _gpus(row: Mapping[str, Any]) -> int:
    """GPUs of a job, from the strings in which requests are told; 0: none."""
    nodes = max(_number(row, "node_count"), 1)
    parts = (
        ("tres_alloc_str", 1), ("tres_req_str", 1), ("tres_per_job", 1), ("tres_per_node", nodes),
        ("tres_per_task", max(_number(row, "tasks"), 1)),
    )  # fmt: skip
    for name, times in parts:
        found = [int(number) for number in _GPUS.findall(str(row.get(name) or ""))]
        if found:
            return times * max(found)
    return 0
