"""Objects as Kubernetes' API gives them, made after the documented schema, none from a cluster."""

from datetime import UTC, datetime

GPU = "nvidia.com/gpu"


def date(time):
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"


def uid(number):
    return f"00000000-0000-4000-8000-{number:012d}"


def condition(kind, time, status="True", reason=""):
    return {
        "type": kind, "status": status, "reason": reason or kind, "message": "said by Kueue",
        "lastTransitionTime": date(time), "observedGeneration": 1,
    }  # fmt: skip


def template(gpus=1, cpu="500m", memory="1Gi", **spec):
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {}}
    if gpus:
        resources["limits"][GPU] = str(gpus)  # requests of GPUs follow from their limits
    return {
        "metadata": {"creationTimestamp": None},
        "spec": {"containers": [{"name": "main", "image": "a", "resources": resources}], **spec},
    }


def workload(number, created, *, gpus=1, pods=1, priority=0, queue="main", admitted=None,
             ended=None, reason="Succeeded", limit=None, namespace="lab", **spec):  # fmt: skip
    """A workload of ``v1beta2`` that waits, is admitted or has finished."""
    conditions = [] if admitted is None else [
        condition("QuotaReserved", admitted), condition("Admitted", admitted)
    ]  # fmt: skip
    if ended is not None:
        conditions.append(condition("Finished", ended, reason=reason))
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{number}", "namespace": namespace, "uid": uid(number),
            "creationTimestamp": date(created), "resourceVersion": "7", "generation": 1,
        },
        "spec": {
            "active": True, "queueName": queue, "priority": priority,
            "podSets": [{"name": "main", "count": pods, "template": template(gpus)}],
            **({} if limit is None else {"maximumExecutionTimeSeconds": limit}),
            **spec,
        },
        "status": {"conditions": conditions},
    }  # fmt: skip


def local_queue(name="main", cluster_queue="gpu", namespace="lab"):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": cluster_queue},
    }  # fmt: skip


def cluster_queue(name="gpu", **preemption):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name},
        "spec": {
            "queueingStrategy": "BestEffortFIFO",
            "preemption": {
                "withinClusterQueue": "Never", "reclaimWithinCohort": "Never",
                "borrowWithinCohort": {"policy": "Never"}, **preemption,
            },
        },
    }  # fmt: skip


def reply(*items):
    """What kubectl prints of several kinds."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""},
            "items": list(items)}  # fmt: skip
