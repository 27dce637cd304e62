"""Slurm's controller, by its own commands; jobs as ``squeue --json`` has them (21.08 to 24.11)."""

import re
from collections.abc import Mapping
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.queues.commands import Runner, reply, run
from jaxsched.queues.jobs import Priorities, QueuedJob

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


class Slurm:
    """A cluster's queue; see ``queues.jobs.Adapter``.

    Args:
      runner: runs a command; ``run`` by default.
    """

    name = "slurm"
    priorities = Priorities(1, 2**32 - 2**16 - 1)  # larger ones have other meanings; 0: held

    def __init__(self, runner: Runner = run) -> None:
        self._run = runner

    def jobs(self) -> list[QueuedJob]:
        """What ``squeue --json --states=all`` prints.

        Raises:
          JaxschedError: no answer, or none that can be read.
        """
        return read_jobs(reply(self._run, ("squeue", "--json", "--states=all")))

    def harm(self) -> str:
        """Nothing: whom Slurm preempts, partitions and QOS say."""
        return ""

    def set_priorities(self, changes: Mapping[str, int]) -> list[str]:
        """Set priorities of waiting jobs, all in one call of ``scontrol``.

        Args:
          changes: numbers of jobs and their priorities.

        Returns:
          The jobs whose priority was refused, such as those that are gone.

        Raises:
          JaxschedError: no answer, or nothing was accepted.
        """
        if not changes:
            return []
        lines = [f"update JobId={job} Priority={value}" for job, value in changes.items()]
        status, _, said = self._run(("scontrol",), "\n".join([*lines, "quit"]) + "\n")
        if status == 0:
            return []
        after = {job.job_id: job.priority for job in self.jobs() if job.waits}
        refused = [job for job, value in changes.items() if after.get(job) != value]
        if len(refused) == len(changes) and any(job in after for job in refused):
            raise JaxschedError(f"scontrol: {(said.strip() or 'refused').splitlines()[-1]}")
        return refused
