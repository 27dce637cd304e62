"""Trainings that scripts compare, each done once, and what came out of them."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxsched.results.finishing import FINISHED, shares
from jaxsched.results.statistics import Floats, Interval, ratio_interval

COMPARISON = "comparison.json"
Settings = Mapping[str, Any]
"""Changes of a recipe, values by dotted path, as ``jaxsched.train(set=...)`` takes them."""


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


def outcome_of(path: Path, system: str, **arguments: Any) -> Outcome:
    """The outcome of a training, which is trained if it is not there.

    Args:
      path: run directory.
      system: name of the system.
      arguments: of ``jaxsched.train``.

    Raises:
      JaxschedError: an argument is refused, or the training failed.
    """
    if not (path / COMPARISON).is_file():
        import jax

        import jaxsched

        command = command_of(system, **arguments, out=path)
        print(command, file=sys.stderr, flush=True)
        training = jaxsched.training(system, out=path, overwrite=True, **arguments)
        for at in training:
            words = f"{at.stage}: update {at.update:,} of {at.num_updates:,}"
            print(words if at.score is None else f"{words}, {at.score:.6g}", file=sys.stderr)
        training.report(command)
        jax.clear_caches()  # a process may have so many compiled programs only
    return read_outcome(path)


def command_of(system: str, **arguments: Any) -> str:
    """The command that gives the same results as ``jaxsched.train`` with these arguments."""
    from jaxsched.arguments import argument, options_typed
    from jaxsched.experiment.names import assignments

    words = ["jaxsched", "train", system]
    with options_typed():
        for name, value in arguments.items():
            for one in assignments(value) if isinstance(value, Mapping) else [value]:
                words += [argument(name), str(one)]
    return shlex.join(words)


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
