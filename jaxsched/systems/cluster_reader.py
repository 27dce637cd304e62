"""Described clusters as states of an environment, and decisions as answers.

A front end describes servers, jobs and times in JSON. A system's reader makes an ordinary state of
the environment from such a description, in which any policy can act, so that a front end need not
build observations.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite
from typing import Any, Generic, TypeVar

from jaxsched.errors import JaxschedError
from jaxsched.systems.cluster_estimates import ROUNDING, Estimates, assumed, filled, is_number
from jaxsched.types import PyTree, TimeStep

E = TypeVar("E")
LONGEST_WAIT_S = 2**28
"""Of a job, where a system does not say."""
Cluster = Mapping[str, Any]
MOST_JOBS = 2**15
LATEST_CLOCK = 2**63


class ClusterReader(ABC, Generic[E]):
    """How the clusters of one system are read.

    Attributes:
      schema: JSON Schema of a cluster.
      answer_schema: JSON Schema of the answer.
      example: a cluster.
      jobs: key of its list of jobs.
      job_word: the word for one of them in answers.
      estimates: fields of a job that may be unknown.
    """

    schema: Mapping[str, Any]
    answer_schema: Mapping[str, Any]
    example: Mapping[str, Any]
    jobs: str
    job_word: str = "job"
    estimates: Estimates = {}

    def environment(self, env: E) -> E:
        """The environment of described clusters for a policy of ``env``; ``env`` itself."""
        return env

    @abstractmethod
    def read(self, env: E, clusters: Sequence[Cluster], length: int) -> tuple[PyTree, PyTree]:
        """Parameters with one episode per cluster, and the rest of each description, stacked.

        Args:
          env: the environment.
          clusters: one or more.
          length: room for so many jobs, so that other clusters share what is compiled.

        Raises:
          JaxschedError: a cluster is not as the schema says; one line with its place.
        """

    @abstractmethod
    def state(self, env: E, params: PyTree, told: PyTree) -> PyTree:
        """The state of one cluster, from the parameters and the rest of ``read``; traced."""

    def num_jobs(self, cluster: Cluster) -> int:
        """Rows of the job table that a cluster needs; the number of its jobs."""
        return len(field(cluster, self.jobs, list, "a list of jobs"))

    @abstractmethod
    def nothing(self, env: E, params: PyTree) -> PyTree:
        """The decision before the first step."""

    @abstractmethod
    def decided(self, so_far: PyTree, state: PyTree, timestep: TimeStep) -> tuple[PyTree, Any]:
        """The decision after one more step from ``state``, and whether it is complete (bool)."""

    @abstractmethod
    def answer(self, env: E, cluster: Cluster, decision: PyTree) -> dict[str, Any]:
        """The decision as an object of ``answer_schema``."""

    def estimated(self, cluster: Cluster) -> list[dict[str, Any]]:
        """Estimates used for jobs with unknown fields: their ids and the values."""
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
    """The jobs of a cluster as in job tables, and the estimates used for each.

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
        _check_name(job.get("id"), where)
        read, guessed = filled(job, where, estimates, stand_in)
        found.append(read)
        told.append(guessed)
    return found, told


def _check_name(name: Any, where: str) -> None:
    """Refuse a job's id that an answer could not have: no number, or half of a letter."""
    fits = not isinstance(name, float) or isfinite(name)
    if isinstance(name, str):
        fits = not any("\ud800" <= letter <= "\udfff" for letter in name)
    if not fits:
        raise JaxschedError(f"{where}.id is {ascii(name)[:40]}; accepted: text or a finite number")


def name_of(job: Mapping[str, Any], index: int) -> Any:
    """Name of a job in answers: its id, or its place in the list."""
    return job.get("id", index)


def shown(value: Any) -> str:
    """A value for an error message, cut to 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def order_of(jobs: Sequence[Mapping[str, Any]], where: str) -> list[int]:
    """Indices of jobs in order of submission; jobs of one instant keep their order.

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
    """Seconds between two readings of a clock, rounded up or down to a whole number."""
    return ceil(difference - ROUNDING) if up else floor(difference + ROUNDING)


def waited(submitted: float, now: float, place: int, longest_s: int = LONGEST_WAIT_S) -> int:
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
