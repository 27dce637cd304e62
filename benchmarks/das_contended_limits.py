"""What limits a scheduler on DAS' contended workload: contention, and what is known of run times.

    python -m benchmarks.das_contended_limits [--draws 64] [--seed 6000] [--json FILE]

Plays ``shortest`` with each part of the contention model switched off in turn, and measures how
far estimates of run times are off, in octaves (log2), job by job in order of submission: the
environment's, those of one who knows the workload's spreads between users, groups and jobs, and
the jobs' own spread, below which no estimate can go.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.systems import functions

OFF: dict[str, dict[str, int]] = {
    "contention as it is": {},
    "no network contention": {"net_pct": 0},
    "no contention for CPUs": {"cpu_pct": 0},
    "no loss by spread": {"spread_pct": 0},
    "no contention": {"net_pct": 0, "cpu_pct": 0, "spread_pct": 0},
}


def main() -> None:
    """Play, measure, print a table, write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=64, help="tables of 1,000 jobs")
    parser.add_argument("--seed", type=int, default=6000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from jaxsched import traces
    from jaxsched.provenance import surroundings

    tables = traces.get("das-contended", seed=options.seed, num_traces=options.draws)
    result: dict[str, Any] = {
        "system": "das",
        "draws": options.draws,
        "seed": options.seed,
        **surroundings(),
        "contention": played(tables),
        "estimates": errors(tables),
    }
    for name, row in result["contention"].items():
        print(f"{name:24} JCT {row['avg_jct_min']:6.1f} min  inflation {row['avg_inflation']:.3f}")
    for name, octaves in result["estimates"].items():
        print(f"{name:36} off by {octaves:.2f} octaves")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def played(tables: Any) -> dict[str, dict[str, float]]:
    """Means under ``shortest`` by what is switched off."""
    from jaxsched.systems import registry

    system = registry.get("das")
    rows = {}
    for name, changes in OFF.items():
        print(name, file=sys.stderr, flush=True)
        env = functions.environment(system, estimates=True, **changes)
        rule = functions.heuristic(system, "shortest", env, len(tables[0]), {})
        params = rule.env.params(tables)
        found = functions.play(system, rule.env, rule.policy, params, rule.weights)
        rows[name] = {
            metric: float(np.mean(found.metrics[metric]))
            for metric in ("avg_jct_min", "avg_inflation")
        }
    return rows


def errors(tables: Any) -> dict[str, float]:
    """Root mean square errors of estimates of log2 run times, every earlier job having ended."""
    from jaxsched.envs.das.jobs import GROUP_SIGMA, JOB_SIGMA, USER_SIGMA
    from jaxsched.envs.das.rules.observation import PRIOR_LOG2

    seen: list[float] = []
    informed: list[float] = []
    for table in tables:
        plain, known = Plain(PRIOR_LOG2), Informed(PRIOR_LOG2, USER_SIGMA, GROUP_SIGMA, JOB_SIGMA)
        for run, group, user in zip(
            np.log2(table["duration"]), table["group"], table["user"], strict=True
        ):
            for estimator, off in ((plain, seen), (known, informed)):
                off.append(estimator.estimate(group, user) - run)
                estimator.learn(group, user, run)
    return {
        "shown by the environment": float(np.sqrt(np.mean(np.square(seen)))),
        "knowing the workload's spreads": float(np.sqrt(np.mean(np.square(informed)))),
        "the jobs' own spread": JOB_SIGMA / math.log(2),
    }


class Plain:
    """The environment's estimate (``rules/observation.py``): each mean drawn to the wider one."""

    def __init__(self, prior: float) -> None:
        self.everyone = (0, prior)
        self.of: dict[tuple[str, int], tuple[int, float]] = {}

    def estimate(self, group: int, user: int) -> float:
        """Of a job that is submitted now."""
        count, total = self.everyone
        found = total / (count + 1)
        for owner in (("user", user), ("group", group)):
            count, total = self.of.get(owner, (0, 0.0))
            found = (total + found) / (count + 1)
        return found

    def learn(self, group: int, user: int, run: float) -> None:
        """A job has ended."""
        count, total = self.everyone
        self.everyone = (count + 1, total + run)
        for owner in (("user", user), ("group", group)):
            count, total = self.of.get(owner, (0, 0.0))
            self.of[owner] = (count + 1, total + run)


class Informed:
    """The same with each mean weighted as the spreads of the workload ask for (normal laws)."""

    def __init__(self, prior: float, user: float, group: float, job: float) -> None:
        self.everyone = (0, prior)
        self.of_group: dict[int, tuple[int, float]] = {}
        self.groups: dict[int, set[int]] = {}
        self.user, self.group, self.job = user**2, group**2, job**2

    def estimate(self, group: int, user: int) -> float:
        """Of a job that is submitted now."""
        count, total = self.everyone
        weight, found = 1 / self.user, total / (count + 1) / self.user
        for other in self.groups.get(user, ()):
            number, sum_ = self.of_group[other]
            precision = 1 / (self.group + self.job / number)
            weight, found = weight + precision, found + precision * sum_ / number
        number, sum_ = self.of_group.get(group, (0, 0.0))
        own = number / self.job
        mean = sum_ / number if number else 0.0
        return (found / weight / self.group + own * mean) / (1 / self.group + own)

    def learn(self, group: int, user: int, run: float) -> None:
        """A job has ended."""
        count, total = self.everyone
        self.everyone = (count + 1, total + run)
        number, sum_ = self.of_group.get(group, (0, 0.0))
        self.of_group[group] = (number + 1, sum_ + run)
        self.groups.setdefault(user, set()).add(group)


if __name__ == "__main__":
    sys.exit(exit_status(main))
