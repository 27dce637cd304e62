"""Jobs of a scheduler's queue, and what its adapter does."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class QueuedJob(NamedTuple):
    """A job of the queue; times are seconds of Unix time, 0: not known.

    Attributes:
      job_id: what the scheduler tells it by.
      waits: whether it is in line and may start one day; held jobs may not.
      runs: whether it holds its GPUs.
      has_ended: whether it ran and ended.
      priority: larger ones go first.
      submit: its submission.
      start: its start, or what the scheduler expects.
      end: its end, or what its limit allows.
      num_gpus: of the whole job.
      limit_s: its time limit, s; 0: none.
      owner: whose it is: user and account, or what stands for them.
      queue: its partition or queue.
    """

    job_id: str
    waits: bool
    runs: bool
    has_ended: bool
    priority: int
    submit: int
    start: int
    end: int
    num_gpus: int
    limit_s: int
    owner: str
    queue: str


class EndedJob(NamedTuple):
    """A job that ran; times in seconds of one clock."""

    job_id: str
    submit: int
    start: int
    end: int
    num_gpus: int
    owner: str


class Priorities(NamedTuple):
    """What priorities a scheduler has.

    Attributes:
      lowest: the lowest that lets a job start.
      largest: the largest without another meaning.
      rank: whether those that are found rank jobs, so that a policy orders equal ones only.
    """

    lowest: int
    largest: int
    rank: bool = False


class Adapter(Protocol):
    """A scheduler whose queue is ordered.

    Attributes:
      name: of the command that orders it.
      priorities: which it has.
    """

    name: str
    priorities: Priorities

    def jobs(self) -> list[QueuedJob]:
        """Jobs that wait, run, or ended lately.

        Raises:
          JaxschedError: no answer, or none that can be read.
        """

    def harm(self) -> str:
        """Why priorities would do more than order those who wait; empty: they would not."""

    def set_priorities(self, changes: Mapping[str, int]) -> list[str]:
        """Set priorities of waiting jobs.

        Args:
          changes: jobs and their priorities.

        Returns:
          The jobs whose priority was refused, such as those that are gone.

        Raises:
          JaxschedError: no answer, or nothing was accepted.
        """


def by_submission(job: QueuedJob | EndedJob) -> tuple[int, int, str]:
    """What sorts jobs by their submissions, equal ones by their numbers."""
    return job.submit, len(job.job_id), job.job_id
