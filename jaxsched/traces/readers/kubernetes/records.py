"""Objects that are jobs, as one record: Kueue's ``Workload``.

Fields that are read are those of ``kueue.x-k8s.io`` v1beta1, v1beta2 and v1 alike. Sources: the
API reference and the pages about workloads of Kueue's documentation.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxsched.jobs.columns import describe_value
from jaxsched.traces.readers.json_records import Fail, text_of
from jaxsched.traces.readers.kubernetes.fields import mapping, moment, objects, whole
from jaxsched.traces.readers.kubernetes.pods import Demand, demand_of, total

WORKLOAD = "Workload"
_ENDS = {"Succeeded": "completed", "Failed": "failed"}


class JobObject(NamedTuple):
    """A job; times are seconds of Unix time, NaN: not known.

    Attributes:
      uid: Kubernetes' own name of the object.
      namespace: its namespace.
      name: its name there.
      queue: the queue it was submitted to; empty: none.
      submit: its creation.
      start: its last admission.
      end: its end.
      status: as a trace has it.
      demand: of all its pods.
      priority: higher ones go first.
      limit_s: s that it may run at most; NaN: no limit.
      active: whether it may start at all.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    submit: float
    start: float
    end: float
    status: str
    demand: Demand
    priority: int
    limit_s: float
    active: bool


def workload(item: Mapping[str, Any], fail: Fail) -> JobObject:
    """A job of Kueue's.

    Its start is the time at which it was admitted. Some versions (0.15) take the admission back
    when it ends: then it is the time at which its pods were ready, if Kueue waits for that.

    Args:
      item: the object.
      fail: called with what is wrong.
    """
    metadata, spec, status = (mapping(item, name, fail) for name in ("metadata", "spec", "status"))
    held = {
        str(each.get("type")): each
        for each in objects(status, "conditions", fail)
        if each.get("status") == "True"
    }
    ended, begun = held.get("Finished"), held.get("Admitted") or held.get("PodsReady")
    runs = "QuotaReserved" in held or "Admitted" in held
    called = "running" if runs else "pending"
    if ended is not None:
        called = _ENDS.get(str(ended.get("reason")), "")
    elif not runs:
        begun = None
    limit = whole(spec, "maximumExecutionTimeSeconds", fail, default=0)
    active = spec.get("active", True)
    if active not in (True, False, None):
        fail(f"active is {describe_value(active)}; accepted: true or false")
    return JobObject(
        *_names(metadata, fail),
        queue=text_of(spec, "queueName", fail),
        submit=moment(metadata, "creationTimestamp", fail),
        start=moment(begun or {}, "lastTransitionTime", fail),
        end=moment(ended or {}, "lastTransitionTime", fail),
        status=called,
        demand=_demand(spec, status, fail),
        priority=whole(spec, "priority", fail, default=0, lowest=-(2**31)),
        limit_s=limit or math.nan,
        active=active is not False,
    )


def _names(metadata: dict[str, Any], fail: Fail) -> tuple[str, str, str]:
    uid, namespace, name = (text_of(metadata, each, fail) for each in ("uid", "namespace", "name"))
    if not uid or not name:
        fail("metadata has no uid or no name; accepted: objects as Kubernetes' API gives them")
    return uid, namespace, name


def _demand(spec: Mapping[str, Any], status: Mapping[str, Any], fail: Fail) -> Demand:
    """Of all pods; of those that were admitted, where these are fewer."""
    admission = mapping(status, "admission", fail)
    counts = {
        each.get("name"): whole(each, "count", fail, default=-1)
        for each in objects(admission, "podSetAssignments", fail)
    }
    demands = []
    for pods in objects(spec, "podSets", fail):
        count = whole(pods, "count", fail, default=1)
        admitted = counts.get(pods.get("name", "main"), -1)
        each = demand_of(mapping(pods, "template", fail), fail)
        demands.append(each.times(count if admitted < 0 else admitted))
    return total(demands)
