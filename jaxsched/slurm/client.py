"""Slurm's controller, by its own commands."""

from collections.abc import Mapping

from jaxsched.errors import JaxschedError
from jaxsched.queues.commands import Runner, reply, run
from jaxsched.queues.jobs import Priorities, QueuedJob
from jaxsched.slurm.queue import read_jobs


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
