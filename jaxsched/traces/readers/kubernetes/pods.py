"""What the pods of a job ask for."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxsched.traces.readers.json_records import Fail, mapping
from jaxsched.traces.readers.kubernetes.fields import objects, quantity

_GB = 1e9


class Demand(NamedTuple):
    """Resources of some pods together.

    Attributes:
      gpus: whole GPUs: resources called ``.../gpu``; parts of GPUs (MIG) are not among them.
      cpus: cores.
      memory_gb: GB of 10^9 bytes.
      pods: how many.
      parts: amount of resources that are parts of GPUs (``nvidia.com/mig-...``).
    """

    gpus: float = 0.0
    cpus: float = 0.0
    memory_gb: float = 0.0
    pods: float = 0.0
    parts: float = 0.0

    def times(self, count: float) -> "Demand":
        """That of ``count`` such pods."""
        return Demand(*(count * value for value in self))

    def __or__(self, other: "Demand") -> "Demand":
        """The larger of each."""
        return Demand(*(max(pair) for pair in zip(self, other, strict=True)))


def total(demands: Iterable[Demand]) -> Demand:
    """The sum."""
    return Demand(*(sum(values) for values in zip(Demand(), *demands, strict=True)))


def demand_of(template: Mapping[str, Any], fail: Fail) -> Demand:
    """What a pod of a template asks for: all its containers together, or one before them.

    What a container requests it is given; where it requests nothing, what it is limited to.
    Containers that run before the others do so one after the other, but for those that go on
    (``restartPolicy`` of ``Always``). Source: Kubernetes' documentation, "Init Containers" and
    "Sidecar Containers".

    Args:
      template: of a pod; only ``spec`` is read.
      fail: called with what is wrong.
    """
    spec = mapping(template, "spec", fail)
    besides, first = [], Demand()
    for container in objects(spec, "initContainers", fail):
        asked = _container(container, fail)
        if container.get("restartPolicy") == "Always":
            besides.append(asked)
        else:
            first |= total((asked, *besides))
    together = [_container(container, fail) for container in objects(spec, "containers", fail)]
    return (total((*together, *besides)) | first)._replace(pods=1.0)


def _container(container: Mapping[str, Any], fail: Fail) -> Demand:
    resources = mapping(container, "resources", fail)
    limits, requests = (mapping(resources, name, fail) for name in ("limits", "requests"))
    asked = {name: quantity(value, name, fail) for name, value in (limits | requests).items()}
    return Demand(
        gpus=sum(amount for name, amount in asked.items() if f"/{name}".endswith("/gpu")),
        cpus=asked.get("cpu", 0.0),
        memory_gb=asked.get("memory", 0.0) / _GB,
        parts=sum(amount for name, amount in asked.items() if "/mig-" in name),
    )
