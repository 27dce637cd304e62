"""Kueue's workloads, by kubectl or from what it printed, and what its objects say of queues.

Kueue admits pending workloads of a ``ClusterQueue`` by priority, then by creation.
"""

import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from jaxsched.errors import JaxschedError, first_line
from jaxsched.jobs.columns import describe_value
from jaxsched.queues.commands import Runner, reply, run
from jaxsched.queues.jobs import Priorities, QueuedJob
from jaxsched.traces.readers.json_records import mapping
from jaxsched.traces.readers.kubernetes.records import WORKLOAD, JobObject, workload

_PREEMPTING = ("withinClusterQueue", "reclaimWithinCohort", "borrowWithinCohort")
_UNKNOWN = "kubectl: the list has no ClusterQueue, which tells whether it preempts by priority"


class Queues(NamedTuple):
    """What a cluster's queues hold.

    Attributes:
      objects: workloads by uid.
      cluster_queues: namespaces and names of ``LocalQueue`` -> names of ``ClusterQueue``.
      harm: why an order would do more than order, or may, where there is no ``ClusterQueue`` to
        tell; empty: it would not.
    """

    objects: dict[str, JobObject]
    cluster_queues: dict[tuple[str, str], str]
    harm: str

    def jobs(self, starts: Mapping[str, float]) -> list[QueuedJob]:
        """The workloads as jobs.

        Args:
          starts: of workloads that were seen run, for those that no longer say it.
        """
        found = []
        for uid, each in self.objects.items():
            start = _seconds(starts.get(uid, 0.0) if math.isnan(each.start) else each.start)
            end, waits = _seconds(each.end), each.status == "pending"
            found.append(
                QueuedJob(
                    job_id=uid,
                    waits=waits and each.active and bool(each.queue),
                    runs=each.status == "running",
                    has_ended=0 < start < end,
                    priority=each.priority,
                    submit=_seconds(each.submit),
                    start=start,
                    end=end,
                    num_gpus=math.ceil(each.demand.gpus),
                    limit_s=_seconds(each.limit_s),
                    owner=f"{each.namespace}/{each.queue}",
                    queue=self.cluster_queues.get((each.namespace, each.queue), ""),
                )
            )
        return found


def _seconds(value: float) -> int:
    return 0 if math.isnan(value) else int(value)


def read_queues(document: Any) -> Queues:
    """The workloads of a list, and what its queues say; objects of other kinds are passed over.

    Raises:
      JaxschedError: not such a list, or one of its objects cannot be read.
    """
    items = document.get("items") if isinstance(document, Mapping) else None
    if not isinstance(items, list):
        raise JaxschedError(
            f"kubectl: the reply is {describe_value(document)}; accepted: a list of objects, as "
            "kubectl get workloads with JSON as output gives it"
        )
    of_list = str(document.get("kind", "")).removesuffix("List")
    objects, queues = dict[str, JobObject](), dict[tuple[str, str], str]()
    harms, unknown = list[str](), _UNKNOWN
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            raise JaxschedError(
                f"kubectl: item {place} is {describe_value(item)}; accepted: an object"
            )

        def fail(reason: str, place: int = place, item: dict[str, Any] = item) -> NoReturn:
            metadata = item.get("metadata")
            named = metadata.get("name") if isinstance(metadata, dict) else None
            raise JaxschedError(f"kubectl: item {place} ({describe_value(named)}): {reason}")

        kind = item.get("kind") or of_list
        if kind == WORKLOAD:
            each = workload(item, fail)
            if math.isnan(each.submit):
                fail("metadata has no creationTimestamp; accepted: a date")
            objects[each.uid] = each
        elif kind in ("LocalQueue", "ClusterQueue"):
            metadata, spec = mapping(item, "metadata", fail), mapping(item, "spec", fail)
            if kind == "LocalQueue":
                place_of = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
                queues[place_of] = str(spec.get("clusterQueue", ""))
            else:
                harms += _preemption(metadata.get("name"), mapping(spec, "preemption", fail))
                unknown = ""
    return Queues(objects, queues, next(iter(harms), unknown if objects else ""))


def _preemption(name: Any, preemption: Mapping[str, Any]) -> list[str]:
    """How a queue lets pending workloads evict admitted ones of lower priority."""
    found = []
    for field in _PREEMPTING:
        value = preemption.get(field)
        policy = value.get("policy") if isinstance(value, Mapping) else value
        if str(policy).startswith("Lower"):
            found.append(
                f"ClusterQueue {name}: preempts by priority ({field}: {policy}), so that an order "
                "would evict workloads that run"
            )
    return found


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
        if not read.strip():
            raise JaxschedError(f"{path}: empty; accepted: what '{shlex.join(READ)}' prints")
        return 0, read, ""

    return runner
