"""What the pages read: comparisons, rows of papers, head-room tables.

Axes: ``S`` seeds (one for rules), ``E`` episodes.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import read_json
from jaxsched.errors import JaxschedError
from jaxsched.jobs.metrics import METRICS
from jaxsched.report.schema import Metric
from jaxsched.results.statistics import Floats
from jaxsched.systems import registry

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, eq=False)
class Plays:
    """Policies on the same episodes; one object for each part of a file.

    Attributes:
      values: policy -> metric -> float64 ``[S, E]``.
      metrics: metric -> label, unit, better, digits.
      primary: what policies are judged by.
      facts: of the run, as words.
      command: that printed it.
      episodes: how many and of what, in words; empty where the file does not say.
      curve: the learning curve, if a training wrote the file.
    """

    values: dict[str, dict[str, Floats]]
    metrics: dict[str, Metric]
    primary: str
    facts: dict[str, str]
    command: str
    curve: dict[str, Any] | None = None
    episodes: str = ""

    def of(self, policy: str, metric: str) -> Floats:
        """A metric of a policy, ``[S, E]``.

        Raises:
          JaxschedError: there is none.
        """
        if policy not in self.values:
            raise JaxschedError(f"no policy {policy!r}; there are {', '.join(self.values)}")
        if metric not in self.values[policy]:
            raise JaxschedError(f"{policy} has no metric {metric!r}")
        return self.values[policy][metric]

    def sign(self, metric: str) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.metrics[metric]["better"] == "higher" else -1


def read(name: str) -> Any:
    """A file of ``benchmarks/results``.

    Raises:
      JaxschedError: it is not there, or holds no JSON.
    """
    return read_json(RESULTS / name)


def picture_of(name: str) -> Path:
    """Where a file's picture is, if it has one."""
    return (RESULTS / name).with_suffix(".png")


def plays(name: str, part: str = "") -> Plays:
    """The plays of a comparison, or of a part of another file.

    Args:
      name: of the file.
      part: of a paper's row, a key of ``values``; of ``benchmarks.mlfs_pairs``, a load.
    """
    return _plays(RESULTS / name, part)


@cache
def _plays(path: Path, part: str) -> Plays:
    document = read(path.name)
    if not part:
        values = {
            entry["name"]: {metric: two(v) for metric, v in entry["metrics"].items()}
            for entry in document["policies"]
        }
        metrics, primary = document["metrics"], document["primary"]
        command, curve = document["command"], document.get("learning_curve")
        drawn = document.get("episodes")
        episodes = f"{drawn['count']} of {drawn['source']}" if drawn else ""
        return Plays(values, metrics, primary, document["facts"], command, curve, episodes)
    chosen = (
        document["values"][part] if "values" in document else document["loads"][part]["metrics"]
    )
    values = {
        policy: {metric: two(v) for metric, v in entry.items() if v}
        for policy, entry in chosen.items()
    }
    own = registry.get(document["system"]).metrics.own
    metrics = {
        name: {part: getattr(metric, part) for part in ("label", "unit", "better", "digits")}
        for name in next(iter(values.values()))
        if (metric := own.get(name, METRICS.get(name))) is not None
    }
    command = document.get("command")
    if command is None:
        command = " ".join(["python -m benchmarks.papers", *document["facts"]["command"][1:]])
    return Plays(values, metrics, "avg_jct", {}, command)


def two(values: Any) -> Floats:
    """``[S, E]``."""
    return np.atleast_2d(np.asarray(values, np.float64))
