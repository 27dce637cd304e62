"""From a cluster as a front end describes it to a state, and from a decision to an answer.

A front end holds servers, jobs and times; an environment holds arrays. A reader of each system
turns the one into the other, so that nobody has to rebuild observations. What it makes is an
ordinary state of the environment, which any policy can act in.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.types import PyTree, TimeStep

E = TypeVar("E")
Cluster = Mapping[str, Any]
MOST_JOBS = 2**15


class ClusterReader(ABC, Generic[E]):
    """How the clusters of one system are read.

    Attributes:
      schema: JSON Schema of a cluster.
      answer_schema: JSON Schema of what is decided.
      example: a cluster.
    """

    schema: Mapping[str, Any]
    answer_schema: Mapping[str, Any]
    example: Mapping[str, Any]

    def environment(self, env: E) -> E:
        """Where a policy of ``env`` decides for described clusters; here there."""
        return env

    @abstractmethod
    def read(self, env: E, clusters: Sequence[Cluster], length: int) -> tuple[PyTree, PyTree]:
        """Parameters with one episode per cluster, and what else is told of each, stacked.

        Args:
          env: the environment.
          clusters: one or more.
          length: room for so many jobs, so that other clusters share what is compiled.

        Raises:
          JaxschedError: a cluster is not as the schema says; one line with its place.
        """

    @abstractmethod
    def state(self, env: E, params: PyTree, told: PyTree) -> PyTree:
        """The state of one cluster, of what ``read`` told of it; traced."""

    @abstractmethod
    def num_jobs(self, cluster: Cluster) -> int:
        """Room that a cluster's jobs need."""

    @abstractmethod
    def nothing(self, env: E, params: PyTree) -> PyTree:
        """What is decided before the first step."""

    @abstractmethod
    def decided(self, so_far: PyTree, state: PyTree, timestep: TimeStep) -> tuple[PyTree, Any]:
        """With one more step from ``state``, and whether the decision is complete (bool)."""

    @abstractmethod
    def answer(self, env: E, cluster: Cluster, decision: PyTree) -> dict[str, Any]:
        """The decision in the front end's words."""


def field(cluster: Any, name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """An entry of a cluster.

    Raises:
      JaxschedError: it is missing or of another kind.
    """
    if not isinstance(cluster, Mapping):
        raise JaxschedError(f"a cluster is {type(cluster).__name__}; accepted: an object")
    if name not in cluster:
        raise JaxschedError(f"{name} is missing; accepted: {what}")
    value = cluster[name]
    if isinstance(value, bool) or not isinstance(value, kind):
        raise JaxschedError(f"{name} is {shown(value)}; accepted: {what}")
    return value


def whole(cluster: Any, name: str, least: int, most: int) -> int:
    """A whole number of a cluster, within bounds."""
    value: int = field(cluster, name, int, f"a whole number from {least} to {most}")
    if not least <= value <= most:
        raise JaxschedError(f"{name} is {value}; accepted: a whole number from {least} to {most}")
    return value


def jobs_of(cluster: Any, name: str, models: Sequence[str]) -> list[dict[str, Any]]:
    """The jobs of a cluster, models by number.

    Raises:
      JaxschedError: not a list of objects, too many, or a model that is not known.
    """
    jobs = field(cluster, name, list, "a list of jobs")
    if len(jobs) > MOST_JOBS:
        raise JaxschedError(f"{name} has {len(jobs)} jobs; accepted: at most {MOST_JOBS}")
    found = []
    for index, job in enumerate(jobs):
        if not isinstance(job, Mapping):
            raise JaxschedError(f"{name}[{index}] is {shown(job)}; accepted: an object")
        model = job.get("model")
        if isinstance(model, str):
            if model not in models:
                raise JaxschedError(
                    f"{name}[{index}].model is {shown(model)}; accepted: {', '.join(models)}"
                )
            job = {**job, "model": models.index(model)}
        found.append(dict(job))
    return found


def name_of(job: Mapping[str, Any], index: int) -> Any:
    """What the front end calls a job: its id, or its place in the list."""
    return job.get("id", index)


def shown(value: Any) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def order_of(jobs: Sequence[Mapping[str, Any]], where: str) -> list[int]:
    """Places of jobs in order of submission, those of one instant as they stand.

    Raises:
      JaxschedError: a submission time is no number.
    """
    times = [job.get("submit_time") for job in jobs]
    for index, time in enumerate(times):
        if isinstance(time, bool) or not isinstance(time, int | float) or not np.isfinite(time):
            raise JaxschedError(
                f"{where}[{index}].submit_time is {shown(time)}; accepted: a number of seconds"
            )
    return sorted(range(len(jobs)), key=lambda index: float(times[index]))  # type: ignore[arg-type]
