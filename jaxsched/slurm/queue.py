"""Jobs as ``squeue --json`` has them, of Slurm 21.08 to 24.11."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value

_GPUS = re.compile(r"gres[:/]gpu(?:[:/][^=,:]+)?[=:](\d+)")
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "TIMEOUT",
}  # fmt: skip


class QueuedJob(NamedTuple):
    """A job of the queue; times are seconds of Unix time, 0: not known.

    Attributes:
      number: Slurm's.
      state: such as ``PENDING``.
      reason: why it waits.
      priority: 0: it is held.
      submit: its submission.
      start: its start, or what Slurm expects.
      end: its end, or what its limit allows.
      num_gpus: of the whole job.
      limit_s: its time limit, s; 0: none.
      owner: its user and account.
      partition: its partition.
    """

    number: int
    state: str
    reason: str
    priority: int
    submit: int
    start: int
    end: int
    num_gpus: int
    limit_s: int
    owner: str
    partition: str

    @property
    def waits(self) -> bool:
        """Whether it is in the queue and may start one day; held jobs may not."""
        return self.state == "PENDING" and self.priority > 0

    @property
    def runs(self) -> bool:
        """Whether it holds its GPUs."""
        return self.state in ("RUNNING", "COMPLETING", "SUSPENDED")

    @property
    def has_ended(self) -> bool:
        """Whether it ran and ended."""
        return self.state in _ENDED and 0 < self.start < self.end


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
    state = row.get("job_state", "")
    return QueuedJob(
        number=_number(row, "job_id"),
        state=str(state[0] if isinstance(state, list) and state else state),
        reason=str(row.get("state_reason", "")),
        priority=0 if row.get("dependency") or row.get("hold") else _number(row, "priority"),
        submit=_number(row, "submit_time"),
        start=_number(row, "start_time"),
        end=_number(row, "end_time"),
        num_gpus=_gpus(row),
        limit_s=60 * _number(row, "time_limit"),
        owner=f"{row.get('user_name', '')}/{row.get('account', '')}",
        partition=str(row.get("partition", "")),
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
