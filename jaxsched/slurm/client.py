"""Slurm's own commands, each with a limit of time."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxsched.errors import JaxschedError, first_line
from jaxsched.slurm.queue import read_jobs

TIMEOUT_S = 20.0

Runner = Callable[[Sequence[str], str | None], tuple[int, str, str]]
"""Words of a command and its standard input -> exit status, standard output and error."""


def run(words: Sequence[str], text: str | None = None) -> tuple[int, str, str]:
    """Run a command.

    Raises:
      JaxschedError: it is not there, or has not ended after ``TIMEOUT_S``.
    """
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise JaxschedError(f"{words[0]}: there is no such command; is Slurm installed?") from error
    except subprocess.TimeoutExpired as error:
        raise JaxschedError(f"{words[0]}: no answer in {TIMEOUT_S:g} s") from error
    except (OSError, UnicodeError) as error:
        raise JaxschedError(f"{words[0]}: {first_line(error)}") from error
    return done.returncode, done.stdout, done.stderr


class Slurm:
    """A cluster's controller, by its commands.

    Args:
      runner: runs a command; ``run`` by default.
    """

    def __init__(self, runner: Runner = run) -> None:
        self._run = runner

    def jobs(self) -> Any:
        """What ``squeue --json --states=all`` prints: jobs that wait, run, or ended lately.

        Raises:
          JaxschedError: no answer, or not JSON.
        """
        return self._json(("squeue", "--json", "--states=all"))

    def set_priorities(self, changes: Mapping[int, int]) -> list[int]:
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
        after = self._priorities()
        refused = [job for job, value in changes.items() if after.get(job) != value]
        if len(refused) == len(changes) and any(job in after for job in refused):
            raise JaxschedError(f"scontrol: {(said.strip() or 'refused').splitlines()[-1]}")
        return refused

    def _priorities(self) -> dict[int, int]:
        return {job.number: job.priority for job in read_jobs(self.jobs()) if job.waits}

    def _json(self, words: Sequence[str]) -> Any:
        status, out, said = self._run(words, None)
        if status:
            raise JaxschedError(f"{words[0]}: exit status {status}: {said.strip()[:200]}")
        try:
            return json.loads(out)
        except (ValueError, RecursionError) as error:
            raise JaxschedError(f"{words[0]}: no JSON: {first_line(error)}") from error
