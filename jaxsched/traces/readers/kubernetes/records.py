"""Objects that are jobs, as one record: Kueue's ``Workload`` and Volcano's ``Job``.

Fields that are read are those of ``kueue.x-k8s.io`` v1beta1, v1beta2 and v1 alike, and those of
``batch.volcano.sh/v1alpha1``. Sources: the API references of both.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxsched.jobs.columns import describe_value
from jaxsched.traces.readers.json_records import Fail, mapping, text_of
from jaxsched.traces.readers.kubernetes.fields import moment, objects, whole
from jaxsched.traces.readers.kubernetes.pods import Demand, demand_of, total
from jaxsched.traces.trace import LARGEST

WORKLOAD, VOLCANO_JOB = "Workload", "Job"
VOLCANO_GROUP = "batch.volcano.sh/"
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_ENDS = {"Succeeded": "completed", "Failed": "failed"}
_VOLCANO_ENDS = {
    "Completed": "completed", "Failed": "failed", "Aborted": "killed", "Terminated": "killed",
}  # fmt: skip


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


def job_object(item: Mapping[str, Any], fail: Fail) -> JobObject | None:
    """A job of either kind, told by its fields where a list does not say kinds; None: another.

    Args:
      item: the object.
      fail: called with what is wrong.
    """
    kind, version = item.get("kind"), str(item.get("apiVersion", VOLCANO_GROUP))
    spec = mapping(item, "spec", fail)
    if kind == WORKLOAD or (kind is None and "podSets" in spec):
        return workload(item, fail)
    if version.startswith(VOLCANO_GROUP) and (
        kind == VOLCANO_JOB or (kind is None and "tasks" in spec)
    ):
        return _volcano_job(item, fail)
    return None


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


def _volcano_job(item: Mapping[str, Any], fail: Fail) -> JobObject:
    """A job of Volcano's, which starts when it first runs; how often it was tried is not read."""
    metadata, spec, status = (mapping(item, name, fail) for name in ("metadata", "spec", "status"))
    state = mapping(status, "state", fail)
    phase = str(state.get("phase") or "Pending")
    begun = [
        moment(each, "lastTransitionTime", fail)
        for each in objects(status, "conditions", fail)
        if each.get("status") == "Running"
    ]
    called = _VOLCANO_ENDS.get(phase)
    demands = [
        demand_of(mapping(task, "template", fail), fail).times(
            whole(task, "replicas", fail, default=0)
        )
        for task in objects(spec, "tasks", fail)
    ]
    return JobObject(
        *_names(metadata, fail),
        queue=text_of(spec, "queue", fail) or "default",
        submit=moment(metadata, "creationTimestamp", fail),
        start=min(begun, default=math.nan),
        end=moment(state, "lastTransitionTime", fail) if called else math.nan,
        status=called or ("pending" if phase == "Pending" else "running"),
        demand=_sum(demands, fail),
        priority=0,
        limit_s=math.nan,
        active=True,
    )


def _names(metadata: dict[str, Any], fail: Fail) -> tuple[str, str, str]:
    uid, namespace, name = (text_of(metadata, each, fail) for each in ("uid", "namespace", "name"))
    if not uid or not name:
        fail("metadata has no uid or no name; accepted: objects as Kubernetes' API gives them")
    for each in (name, namespace or "default"):
        if not _NAME.fullmatch(each):
            fail(f"{describe_value(each)} is no name of Kubernetes; accepted: such as job-1.a")
    return uid, namespace, name


def _demand(spec: Mapping[str, Any], status: Mapping[str, Any], fail: Fail) -> Demand:
    """Of all pods; of those that were admitted, where these are fewer."""
    admission = mapping(status, "admission", fail)
    counts = {
        text_of(each, "name", fail): whole(each, "count", fail, default=-1)
        for each in objects(admission, "podSetAssignments", fail)
    }
    demands = []
    for pods in objects(spec, "podSets", fail):
        count = whole(pods, "count", fail, default=1)
        admitted = counts.get(text_of(pods, "name", fail) or "main", -1)
        each = demand_of(mapping(pods, "template", fail), fail)
        demands.append(each.times(count if admitted < 0 else admitted))
    return _sum(demands, fail)


def _sum(demands: Sequence[Demand], fail: Fail) -> Demand:
    found = total(demands)
    if max(found) > LARGEST:
        fail(f"its pods ask for {max(found):g} in all; accepted: up to {LARGEST:g}")
    return found
