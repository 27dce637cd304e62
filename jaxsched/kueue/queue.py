"""Pending, admitted and finished workloads as ``kubectl get -o json`` has them.

Kueue admits pending workloads of a ``ClusterQueue`` by priority, then by creation.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.queues.jobs import QueuedJob
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
