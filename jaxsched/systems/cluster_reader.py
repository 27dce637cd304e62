"""From a cluster as a front end describes it to a state, and from a decision to an answer.

A front end holds servers, jobs and times; an environment holds arrays. A reader of each system
turns the one into the other, so that nobody has to rebuild observations. What it makes is an
ordinary state of the environment, which any policy can act in.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any, Generic, TypeVar

from jaxsched.errors import JaxschedError
from jaxsched.systems.cluster_estimates import ROUNDING, Estimates, assumed, filled, is_number
from jaxsched.types import PyTree, TimeStep

E = TypeVar("E")
Cluster = Mapping[str, Any]
MOST_JOBS = 2**15
LATEST_CLOCK = 2**63


class ClusterReader(ABC, Generic[E]):
    """How the clusters of one system are read.

    Attributes:
      schema: JSON Schema of a cluster.
      answer_schema: JSON Schema of what is decided.
      example: a cluster.
      jobs: where its jobs are.
      job_word: what an answer calls one of them.
      estimates: fields of a job that may be unknown.
    """

    schema: Mapping[str, Any]
    answer_schema: Mapping[str, Any]
    example: Mapping[str, Any]
    jobs: str
    job_word: str = "job"
    estimates: Estimates = {}

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

    def num_jobs(self, cluster: Cluster) -> int:
        """Room that a cluster's jobs need; here as many as there are."""
        return len(field(cluster, self.jobs, list, "a list of jobs"))

    @abstractmethod
    def nothing(self, env: E, params: PyTree) -> PyTree:
        """What is decided before the first step."""

    @abstractmethod
    def decided(self, so_far: PyTree, state: PyTree, timestep: TimeStep) -> tuple[PyTree, Any]:
        """With one more step from ``state``, and whether the decision is complete (bool)."""

    @abstractmethod
    def answer(self, env: E, cluster: Cluster, decision: PyTree) -> dict[str, Any]:
        """The decision in the front end's words."""

    def estimated(self, cluster: Cluster) -> list[dict[str, Any]]:
        """What was assumed of jobs with unknown fields: their ids and the values."""
        _, told = jobs_of(cluster, self.jobs, self.estimates)
        return [
            {self.job_word: name_of(job, place), **guessed}
            for place, (job, guessed) in enumerate(zip(cluster[self.jobs], told, strict=True))
            if guessed
        ]


def field(
    cluster: Any, name: str, kind: type | tuple[type, ...], what: str, before: str = ""
) -> Any:
    """An entry of a cluster.

    Raises:
      JaxschedError: it is missing or of another kind.
    """
    if not isinstance(cluster, Mapping):
        raise JaxschedError(f"a cluster is {type(cluster).__name__}; accepted: an object")
    if name not in cluster:
        raise JaxschedError(f"{before}{name} is missing; accepted: {what}")
    value = cluster[name]
    if isinstance(value, bool) or not isinstance(value, kind):
        raise JaxschedError(f"{before}{name} is {shown(value)}; accepted: {what}")
    return value


def whole(cluster: Any, name: str, least: int, most: int, before: str = "") -> int:
    """A whole number of a cluster, within bounds; ``before`` is put before its name."""
    accepted = f"a whole number from {least} to {most}"
    value: int = field(cluster, name, int, accepted, before)
    if not least <= value <= most:
        raise JaxschedError(f"{before}{name} is {shown(value)}; accepted: {accepted}")
    return value


def jobs_of(
    cluster: Any, name: str, estimates: Estimates
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The jobs of a cluster as tables hold them, and what was assumed of each.

    Raises:
      JaxschedError: not a list of objects, too many, or a value that cannot be read.
    """
    jobs = field(cluster, name, list, "a list of jobs")
    if len(jobs) > MOST_JOBS:
        raise JaxschedError(f"{name} has {len(jobs)} jobs; accepted: at most {MOST_JOBS}")
    stand_in = assumed(cluster, estimates)
    found, told = [], []
    for index, job in enumerate(jobs):
        where = f"{name}[{index}]"
        if not isinstance(job, Mapping):
            raise JaxschedError(f"{where} is {shown(job)}; accepted: an object")
        read, guessed = filled(job, where, estimates, stand_in)
        found.append(read)
        told.append(guessed)
    return found, told


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
    times: list[Any] = [
        clock(job, "submit_time", f"{where}[{index}].") for index, job in enumerate(jobs)
    ]
    return sorted(range(len(jobs)), key=times.__getitem__)


def clock(cluster: Any, name: str, before: str = "") -> Any:
    """A reading of the front end's clock: any finite number of seconds, since any origin.

    Args:
      cluster: what has it.
      name: the entry.
      before: what messages put before the name.

    Raises:
      JaxschedError: it is missing or no number.
    """
    value = cluster.get(name)
    if not is_number(value) or abs(value) >= LATEST_CLOCK:
        raise JaxschedError(f"{before}{name} is {shown(value)}; accepted: a number of seconds")
    return value


def whole_seconds(difference: float, *, up: bool) -> int:
    """The time between two readings of a clock in whole seconds, rounded up or down."""
    return ceil(difference - ROUNDING) if up else floor(difference + ROUNDING)


def waited(submitted: float, now: float, place: int, longest_s: int) -> int:
    """How long a job of ``waiting`` has waited, s; clocks within a second of each other are one.

    Args:
      submitted: its submission.
      now: the time, by the same clock.
      place: of the job in the list.
      longest_s: that is accepted.

    Raises:
      JaxschedError: it waits longer, or has not been submitted yet.
    """
    wait = whole_seconds(now - submitted, up=False)
    if now - submitted <= -1 or wait > longest_s:
        raise JaxschedError(
            f"waiting[{place}].submit_time is {shown(submitted)} at time {shown(now)}; accepted: "
            f"up to {longest_s} s before, by the same clock"
        )
    return max(wait, 0)
