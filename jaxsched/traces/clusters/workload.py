"""Parameters of realistic workloads: jobs like those of the clusters that published traces.

Each workload is a JSON file (``jaxsched/traces/data/clusters``) that one engine draws from
(``jaxsched.traces.clusters.draw``); ``sources`` in the file says where each number comes from.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.traces.clusters.arrivals import Arrivals
from jaxsched.traces.clusters.durations import DurationCurve
from jaxsched.traces.trace import STATUSES


@dataclass(frozen=True)
class Outcome:
    """One way in which jobs of a size class end.

    Attributes:
      status: as in the canonical trace; empty: not known.
      share: of the jobs of the class, in [0, 1].
      duration: their run times.
      priority: of these jobs; None: not known.
    """

    status: str
    share: float
    duration: DurationCurve
    priority: float | None = None


@dataclass(frozen=True)
class SizeClass:
    """Jobs of similar demand, which end alike and run alike.

    Attributes:
      max_gpus: the class holds jobs of at most this demand and more than that of the class before.
      outcomes: how they end; shares add up to 1.
      groups: virtual cluster -> share of the class's jobs; empty: not known.
    """

    max_gpus: float
    outcomes: tuple[Outcome, ...]
    groups: Mapping[str, float]


@dataclass(frozen=True)
class Runs:
    """Runs of alike jobs: one user submits many of them at once.

    Attributes:
      gap_s: a job that comes at most this long (s) after the one before may go on with its run ...
      reuse: ... and does so, with the same user, group, demand and kind of GPU, with this
        probability.
    """

    gap_s: float
    reuse: float


@dataclass(frozen=True)
class Workload:
    """What a generated trace is drawn from.

    Attributes:
      name: of the workload.
      description: one line.
      sources: parameter -> where its numbers come from and how they were obtained.
      num_gpus: GPUs of the documented cluster; 0: not stated.
      sizes: (GPUs, share) of each demand; parts of a GPU are shares of one, 0 is a CPU job.
      classes: how jobs end and how long they run, by ascending demand.
      arrivals: how jobs come.
      runs: runs of alike jobs; None: each is drawn anew.
      gpu_types: kind of GPU -> share of the GPU jobs; empty: not known.
      num_users: users, whose shares fall as 1 / rank; 0: not known.
      published: statistics of the source, in the layout of ``measure``.
    """

    name: str
    description: str
    sources: Mapping[str, str]
    num_gpus: int
    sizes: tuple[tuple[float, float], ...]
    classes: tuple[SizeClass, ...]
    arrivals: Arrivals
    runs: Runs | None
    gpu_types: Mapping[str, float]
    num_users: int
    published: Mapping[str, Any]

    def class_of(self, num_gpus: float) -> int:
        """Index of the size class of a demand."""
        return next(k for k, c in enumerate(self.classes) if num_gpus <= c.max_gpus)

    def gpu_seconds_per_job(self) -> float:
        """Expected GPUs times run time (GPU s) of a job."""
        total = sum(share for _, share in self.sizes)
        means = [sum(o.share * o.duration.mean_s() for o in c.outcomes) for c in self.classes]
        work = sum(share * gpus * means[self.class_of(gpus)] for gpus, share in self.sizes)
        return work / total


def names() -> tuple[str, ...]:
    """Names of the workloads."""
    files = [file.name for file in _folder().iterdir() if file.name.endswith(".json")]
    return tuple(sorted(name.removesuffix(".json") for name in files))


def describe(name: str) -> str:
    """What a workload is like, in one line.

    Raises:
      JaxschedError: unknown name.
    """
    return workload(name).description


@cache
def workload(name: str) -> Workload:
    """A workload by name.

    Raises:
      JaxschedError: unknown name.
    """
    if name not in names():
        raise JaxschedError(f"unknown workload {name!r}; known are {', '.join(names())}")
    text = (_folder() / f"{name}.json").read_text(encoding="utf-8")
    return from_json(json.loads(text), name)


def from_json(content: Mapping[str, Any], name: str) -> Workload:
    """A workload from the layout of its files.

    Args:
      content: the fields of ``Workload`` but ``name``; ``classes`` hold ``max_gpus``, ``outcomes``
        of ``status``, ``share``, ``percent``, ``skew`` and, if jobs have one, ``priority``, and
        ``groups``; all share ``knots_s``
        and ``skew_from_s`` (``DurationCurve``).
      name: what to call it.

    Raises:
      JaxschedError: fields are missing or unknown, or hold what cannot be drawn from.
    """
    wanted = {field.name for field in fields(Workload)} - {"name"} | {"knots_s", "skew_from_s"}
    if set(content) != wanted:
        raise JaxschedError(
            f"workload {name} has the fields {', '.join(sorted(content))}; "
            f"accepted: {', '.join(sorted(wanted))}"
        )
    knots = tuple(float(knot) for knot in content["knots_s"])
    made = Workload(
        name=name,
        description=content["description"],
        sources=MappingProxyType(dict(content["sources"])),
        num_gpus=content["num_gpus"],
        sizes=tuple((float(gpus), float(share)) for gpus, share in content["sizes"]),
        classes=tuple(
            _size_class(entry, knots, content["skew_from_s"]) for entry in content["classes"]
        ),
        arrivals=_arrivals(content["arrivals"]),
        runs=Runs(**content["runs"]) if content["runs"] else None,
        gpu_types=MappingProxyType(dict(content["gpu_types"])),
        num_users=content["num_users"],
        published=MappingProxyType(dict(content["published"])),
    )
    _check(made)
    return made


def _size_class(
    entry: Mapping[str, Any], knots: tuple[float, ...], skew_from_s: float
) -> SizeClass:
    outcomes = []
    for outcome in entry["outcomes"]:
        curve = DurationCurve(knots, tuple(outcome["percent"]), outcome["skew"], skew_from_s)
        priority = outcome.get("priority")
        outcomes.append(Outcome(outcome["status"], outcome["share"], curve, priority))
    return SizeClass(entry["max_gpus"], tuple(outcomes), MappingProxyType(dict(entry["groups"])))


def _arrivals(entry: Mapping[str, Any]) -> Arrivals:
    return Arrivals(
        mean_gap_s=entry["mean_gap_s"],
        phases=tuple((share, mean) for share, mean in entry["phases"]),
        factors=tuple((window, variance) for window, variance in entry["factors"]),
        stay=entry["stay"],
        hours=tuple(entry["hours"]),
        weekdays=tuple(entry["weekdays"]),
    )


def _check(made: Workload) -> None:
    """Refuse sizes, classes and shares that cannot be drawn from."""
    limits = [c.max_gpus for c in made.classes]
    largest = max((gpus for gpus, _ in made.sizes), default=0.0)
    totals = [sum(o.share for o in c.outcomes) for c in made.classes]
    statuses = {o.status for c in made.classes for o in c.outcomes}
    priorities = {o.priority is None for c in made.classes for o in c.outcomes}
    weights = [share for _, share in made.sizes] + list(made.gpu_types.values())
    checks = (
        ("sizes", bool(made.sizes) and min(gpus for gpus, _ in made.sizes) >= 0, "GPUs from 0 on"),
        (
            "classes",
            limits == sorted(set(limits)) and bool(limits) and limits[-1] >= largest,
            "ascending max_gpus that cover all sizes",
        ),
        ("outcomes", all(abs(total - 1) < 1e-6 for total in totals), "shares that add up to 1"),
        ("outcomes", statuses <= set(STATUSES), f"status {', '.join(STATUSES[1:])} or empty"),
        ("outcomes", len(priorities) == 1, "a priority for all of them, or for none"),
        ("shares", all(weight >= 0 for weight in weights), "numbers from 0 on"),
        (
            "runs",
            made.runs is None or (made.runs.gap_s >= 0 and 0 <= made.runs.reuse < 1),
            "gap_s from 0 on and reuse in [0, 1)",
        ),
    )
    for what, holds, accepted in checks:
        if not holds:
            raise JaxschedError(
                f"workload {made.name}: {what} cannot be used; accepted: {accepted}"
            )


def _folder() -> Traversable:
    return resources.files("jaxsched.traces") / "data" / "clusters"
