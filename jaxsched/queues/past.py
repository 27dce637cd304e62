"""Jobs that have ended: what forecasts are made from. Kept in a file, a line a job."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.queues.jobs import EndedJob, QueuedJob
from jaxsched.traces.trace import Trace, known
from jaxsched.traces.usable import job_rows

MOST = 20_000
"""Jobs that are kept: the last ones."""

_LARGEST = 2**53
_ACCEPTED = "accepted: what an earlier run wrote, or no such file"


class Past:
    """The jobs that have ended, each once.

    Args:
      path: the file; None: they are forgotten with the process.
      earlier: of a log, before those of the file.

    Raises:
      JaxschedError: the file cannot be read.
    """

    def __init__(self, path: Path | None = None, earlier: Iterable[EndedJob] = ()) -> None:
        self._path = path
        self._jobs = {(job.job_id, job.submit): job for job in earlier}
        if path is not None and path.exists():
            end_line(path)
            for job in _read(path):
                self._jobs[job.job_id, job.submit] = job

    def __len__(self) -> int:
        """How many."""
        return len(self._jobs)

    def jobs(self) -> list[EndedJob]:
        """The last ones, in order of their ends."""
        return sorted(self._jobs.values(), key=lambda job: job.end)[-MOST:]

    def add(self, queue: Iterable[QueuedJob]) -> int:
        """Take over the jobs of a queue that have ended; returns how many are new."""
        new = []
        for job in queue:
            if not job.has_ended or not job.num_gpus or (job.job_id, job.submit) in self._jobs:
                continue
            ended = EndedJob(job.job_id, job.submit, job.start, job.end, job.num_gpus, job.owner)
            self._jobs[job.job_id, job.submit] = ended
            new.append(ended)
        if new and self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(job) + "\n" for job in new)
        return len(new)


def end_line(path: Path) -> None:
    """Cut off a last line that was not written to its end, so that lines can be added."""
    with path.open("r+b") as file:
        text = file.read()
        file.truncate(text.rfind(b"\n") + 1)


def _read(path: Path) -> list[EndedJob]:
    """The lines of a file; a last one that is none is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise JaxschedError(f"{path}: cannot be read; {_ACCEPTED}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_ended(json.loads(line)))
        except (ValueError, TypeError, RecursionError) as error:
            if number < len(lines):
                raise JaxschedError(
                    f"{path}, line {number}: is no ended job; {_ACCEPTED}"
                ) from error
    return found


def _ended(values: Any) -> EndedJob:
    """A line's job, whose name was a number once.

    Raises:
      ValueError, TypeError: it is none.
    """
    job = EndedJob(*values)
    texts, numbers = [job.owner], values[1:5]
    if type(job.job_id) is not int:
        texts.append(job.job_id)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    if not all(type(number) is int and abs(number) < _LARGEST for number in numbers):
        raise ValueError
    return job._replace(job_id=str(job.job_id))


def of_log(trace: Trace) -> list[EndedJob]:
    """The jobs of a log whose starts are known, on the log's clock, by the log's names of jobs.

    Raises:
      JaxschedError: the log's clock is not the scheduler's, or it has no starts.
    """
    rows = job_rows(trace)
    if trace.clock == "relative" or not known(trace, "start_time")[rows].any():
        raise JaxschedError(
            f"{trace.name}: has no starts on a clock of dates; accepted: a log of this cluster, "
            "such as sacct writes it"
        )
    rows = rows[known(trace, "start_time")[rows]]
    job_id, user, group = (
        trace[name][rows] if name in trace else np.full(len(rows), "")
        for name in ("job_id", "user", "group")
    )
    start = trace["start_time"][rows]
    return [
        EndedJob(str(name) or f"log-{k}", int(submit), int(begun), int(begun + ran),
                 int(np.ceil(gpus)), f"{who}/{of}")
        for k, (name, submit, begun, ran, gpus, who, of) in enumerate(
            zip(job_id, trace["submit_time"][rows], start, trace["duration"][rows],
                trace["num_gpus"][rows], user, group, strict=True)
        )
    ]  # fmt: skip
