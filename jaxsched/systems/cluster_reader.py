"""Snapshots of clusters as states of an environment, and decisions as answers.

A front end describes servers, jobs and times in JSON (a snapshot). A system's reader turns it into
an ordinary state of the environment, in which any policy can act, so that a front end need not
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
"""Longest accepted wait of a job (s), by default."""
Cluster = Mapping[str, Any]
MOST_JOBS = 2**15
LATEST_CLOCK = 2**63


class ClusterReader(ABC, Generic[E]):
    """The reader of one system's snapshots.

    Attributes:
      schema: JSON Schema of a snapshot.
      answer_schema: JSON Schema of the answer.
      example: a snapshot of the system's own cluster.
      jobs: key of its list of jobs.
      job_word: the word for one of them in answers.
      estimates: fields of a job that may be unknown.
      actions_are_scores: whether an action that is no single choice scores each of them.
    """

    schema: Mapping[str, Any]
    answer_schema: Mapping[str, Any]
    example: Mapping[str, Any]
    jobs: str
    job_word: str = "job"
    estimates: Estimates = {}
    actions_are_scores: bool = False

    def environment(self, env: E) -> E:
        """The environment of snapshots for a policy of ``env``; by default ``env`` itself."""
        return env

    @abstractmethod
    def read(self, env: E, clusters: Sequence[Cluster], length: int) -> tuple[PyTree, PyTree]:
        """Parameters with one episode per snapshot, and the rest of each snapshot, stacked.

        Args:
          env: the environment.
          clusters: one or more snapshots.
          length: pad the tables to this many jobs, so that snapshots share programs.

        Raises:
          JaxschedError: a cluster is not as the schema says; one line with its place.
        """

    @abstractmethod
    def state(self, env: E, params: PyTree, told: PyTree) -> PyTree:
        """The state of one snapshot, from both results of ``read``; traced."""

    def num_jobs(self, cluster: Cluster) -> int:
        """Rows of the job table that a cluster needs; the number of its jobs."""
        return len(field(cluster, self.jobs, list, "a list of jobs"))

    @abstractmethod
    def nothing(self, env: E, params: PyTree) -> PyTree:
        """The decision before the first step."""

    def begun(self, env: E, params: PyTree, state: PyTree) -> tuple[PyTree, Any]:
        """The decision before the first step, and whether nothing is to be decided (bool)."""
        del state
        return self.nothing(env, params), False

    @abstractmethod
    def decided(
        self, so_far: PyTree, state: PyTree, after: PyTree, timestep: TimeStep
    ) -> tuple[PyTree, Any]:
        """The decision after one more step, and whether it is complete (bool).

        Args:
          so_far: the decision before the step.
          state: the state before it.
          after: the state after it.
          timestep: what the step gave.
        """

    @abstractmethod
    def answer(self, env: E, cluster: Cluster, decision: PyTree) -> dict[str, Any]:
        """The decision as an object of ``answer_schema``.

        ``estimated`` is added where it is left out, by the method of that name.
        """

    def example_for(self, env: E) -> Cluster:
        """A snapshot of the cluster of ``env``; by default ``example``, which fits any."""
        del env
        return self.example

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
      cluster: object with the entry.
      name: the entry.
      before: prefix of the name in messages.

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


def passed(since: float, now: float, where: str, longest_s: int = LONGEST_WAIT_S) -> int:
    """Whole seconds since a reading of the clock; one up to 1 s in the future counts 0.

    Args:
      since: the reading, such as a job's submission.
      now: the time, by the same clock.
      where: its place in the request.
      longest_s: longest accepted time between them.

    Raises:
      JaxschedError: it is longer ago, or to come.
    """
    past = whole_seconds(now - since, up=False)
    if now - since <= -1 or past > longest_s:
        raise JaxschedError(
            f"{where} is {shown(since)} at time {shown(now)}; accepted: up to {longest_s} s "
            "before, by the same clock"
        )
    return max(past, 0)
