"""Kueue's workloads, by kubectl, or from what it printed."""

import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jaxsched.errors import JaxschedError, first_line
from jaxsched.kueue.queue import Queues, read_queues
from jaxsched.queues.commands import Runner, reply, run
from jaxsched.queues.jobs import Priorities, QueuedJob

GROUP = "kueue.x-k8s.io"
READ = (
    "kubectl", "get", ",".join(f"{kind}.{GROUP}" for kind in
                               ("workloads", "localqueues", "clusterqueues")),
    "--all-namespaces", "--output=json",
)  # fmt: skip
SIDE_BY_SIDE = 8
"""Patches under way together."""


class Kueue:
    """A cluster's queues; see ``queues.jobs.Adapter``.

    Args:
      runner: runs a command; ``run`` by default.
    """

    name = "kueue"
    priorities = Priorities(-(2**31), 2**31 - 1, rank=True)

    def __init__(self, runner: Runner = run) -> None:
        self._run = runner
        self._queues = Queues({}, {}, "")
        self._starts: dict[str, float] = {}

    def jobs(self) -> list[QueuedJob]:
        """What kubectl says of workloads, and of the queues that they are in.

        Raises:
          JaxschedError: no answer, or none that can be read.
        """
        self._queues = read_queues(reply(self._run, READ))
        objects = self._queues.objects
        self._starts = {uid: start for uid, start in self._starts.items() if uid in objects}
        self._starts |= {
            uid: each.start for uid, each in objects.items() if not math.isnan(each.start)
        }
        return self._queues.jobs(self._starts)

    def harm(self) -> str:
        """Whether a queue preempts by priority, as of the last ``jobs``."""
        return self._queues.harm

    def set_priorities(self, changes: Mapping[str, int]) -> list[str]:
        """Set ``spec.priority`` of pending workloads, a patch each.

        Args:
          changes: uids of workloads of the last ``jobs``, and their priorities.

        Returns:
          The workloads whose priority was refused, such as those that are gone.

        Raises:
          JaxschedError: no answer, or nothing was accepted.
        """
        pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        try:
            done = dict(zip(changes, pool.map(self._set, changes.items()), strict=True))
        finally:
            pool.shutdown(cancel_futures=True)
        refused = {uid: said for uid, said in done.items() if said}
        others = [said for said in refused.values() if "NotFound" not in said]
        if others and len(refused) == len(changes):
            raise JaxschedError(f"kubectl: {others[0]}")
        return list(refused)

    def _set(self, change: tuple[str, int]) -> str:
        """What kubectl says against a change; empty: nothing."""
        uid, value = change
        each = self._queues.objects[uid]
        status, _, said = self._run(patch_words(each.namespace, each.name, uid, value), None)
        return "" if status == 0 else said.strip()[:200] or f"exit status {status}"


def patch_words(namespace: str, name: str, uid: str, priority: int) -> tuple[str, ...]:
    """The command that sets the priority of a workload, and of no other of the same name."""
    patch = {"metadata": {"uid": uid}, "spec": {"priority": priority}}
    return (
        "kubectl", "patch", f"workloads.{GROUP}", name, f"--namespace={namespace}",
        "--type=merge", f"--patch={json.dumps(patch)}",
    )  # fmt: skip


def from_file(path: Path, say: Callable[[str], object]) -> Runner:
    """What runs no kubectl: replies are read from a file, and patches are said as commands.

    Args:
      path: what kubectl printed, or Kubernetes' API; ``-``: standard input.
      say: called with each command.

    Raises:
      JaxschedError: from the runner: the file cannot be read.
    """

    def runner(words: Sequence[str], text: str | None) -> tuple[int, str, str]:
        if words != READ:
            say(shlex.join(words))
            return 0, "", ""
        try:
            read = sys.stdin.read() if path == Path("-") else path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise JaxschedError(
                f"{path}: {first_line(error)}; accepted: what '{shlex.join(READ)}' prints"
            ) from error
        return 0, read, ""

    return runner
