"""Training by the command line, in a process of its own, for scripts that compare recipes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.results.finishing import FINISHED, shares
from jaxsched.results.statistics import Floats, Interval, ratio_interval

COMPARISON = "comparison.json"


class Outcome(NamedTuple):
    """What a run's final comparison says of the primary metric.

    Attributes:
      metric: its name.
      better: "higher" or "lower".
      learned: of the learned policy, float64 ``[seeds, episodes]``.
      rules: of the others by name, ``[1, episodes]``.
      finished: share of the jobs that finish under the learned policy; means of times are of these.
      facts: of the run, as words.
    """

    metric: str
    better: str
    learned: Floats
    rules: dict[str, Floats]
    finished: float
    facts: dict[str, Any]

    def relative_to(self, base: Floats) -> Interval:
        """The learned policy's mean over that of ``base`` on the same episodes."""
        return ratio_interval(self.learned, base)


def outcome_of(path: Path, arguments: Sequence[str]) -> Outcome:
    """The outcome of ``jaxsched train arguments --out path``, which is trained if it is not there.

    Raises:
      JaxschedError: the training failed.
    """
    if not (path / COMPARISON).is_file():
        words = ["train", *arguments, "--out", str(path), "--overwrite"]
        print("jaxsched", *words, file=sys.stderr, flush=True)
        status = subprocess.run([sys.executable, "-m", "jaxsched", *words], check=False).returncode
        if status:
            raise JaxschedError(f"jaxsched {' '.join(words[:4])} ended with status {status}")
    return read_outcome(path)


def read_outcome(path: Path) -> Outcome:
    """The outcome of a finished run."""
    result = json.loads((path / COMPARISON).read_text(encoding="utf-8"))
    metric = result["primary"]
    learned, rules, finished = {}, {}, {}
    for entry in result["policies"]:
        values = np.atleast_2d(np.asarray(entry["metrics"][metric], np.float64))
        if entry["kind"] == "learned":
            learned[entry["name"]] = values
        else:
            rules[entry["name"]] = values
        finished[entry["name"]] = float(np.mean(entry["metrics"].get(FINISHED, 1.0)))
    better = result["metrics"][metric]["better"]
    name, values = next(iter(learned.items()))
    return Outcome(metric, better, values, rules, shares(finished)[name], result["facts"])
