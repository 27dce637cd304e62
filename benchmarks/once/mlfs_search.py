"""Searches on training workloads of the small preset: weights of priorities, costs of servers.

    python -m benchmarks.once.mlfs_search priorities [--trials 40] [--tables 2] [--json FILE]
    python -m benchmarks.once.mlfs_search hosts [--trials 48] [--tables 2] [--json FILE]

``priorities`` draws weights of MLF-H's priorities at random; ``presets.TUNED`` are the best in
return of those within a per mille of the best completion time. ``hosts`` improves the costs of the
linear rule (``linear.FOUND``) under these priorities by cross-entropy search. All figures are
relative to MLF-H's choice on the same workloads, at loads 1, 2 and 3.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.systems import functions

LOADS = (1, 2, 3)
SEED = 300
CHOICES = {
    "importance_share": (0, 10, 20, 30, 60, 90),
    "children_share": (0, 0, 5, 10, 80),
    "deadline_weight": (0, 1, 3, 10, 30),
    "remaining_weight": (30, 300, 1000),
    "waiting_weight": (0, 1, 3, 10, 35),
}
METRICS = ("avg_jct", "return", "deadline_ratio")
CLOSE = 0.001
START = (0.1, 0.0, 0.0, 0.0, 0.1, 0.0, -1.0, 1.0)
SPREAD = (0.4, 0.2, 0.2, 0.3, 0.4, 0.3, 0.5, 0.6)
MEMBERS, ELITE, WIDEN, FLOOR = 16, 5, 1.2, 0.02

Found = dict[str, Any]


def main() -> None:
    """Run a search and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("priorities", "hosts"))
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--tables", type=int, default=2, help="training workloads of each load")
    parser.add_argument("--json", type=Path, help="write all trials here")
    options = parser.parse_args()
    search = priorities if options.what == "priorities" else hosts
    best, trials = search(options.trials, options.tables)
    print(f"best: {best}")
    if options.json is not None:
        options.json.write_text(json.dumps({"best": best, "trials": trials}, indent=1) + "\n")


def priorities(num_trials: int, num_tables: int) -> tuple[Found, list[Found]]:
    """Random search over the weights of priorities."""
    import jax.numpy as jnp

    from jaxsched.envs.mlfs import MLFS
    from jaxsched.envs.mlfs.heuristics.baselines import heuristic
    from jaxsched.envs.mlfs.rules.tables import WEIGHTS

    env = MLFS(slot_every=1, waiting_unit="hour")
    play = player(env, num_tables)

    def with_weights(weights: dict[str, int]) -> Found:
        chosen = {name: jnp.int32(value) for name, value in weights.items()}
        return play(heuristic(env), chosen, ())

    paper = with_weights(WEIGHTS)
    draw = np.random.default_rng(SEED)
    trials = []
    for number in range(num_trials):
        weights = {name: int(draw.choice(values)) for name, values in CHOICES.items()}
        trials.append(told(number, num_trials, weights, with_weights(weights), paper))
    least = min(trial["avg_jct"] for trial in trials)
    close = [trial for trial in trials if trial["avg_jct"] <= least + CLOSE]
    return max(close, key=lambda trial: trial["return"]), trials


def hosts(num_trials: int, num_tables: int) -> tuple[Found, list[Found]]:
    """Cross-entropy search over the costs of the linear rule; the last mean is the best."""
    from jaxsched.envs.mlfs import MLFS
    from jaxsched.envs.mlfs.heuristics.baselines import heuristic, linear_host
    from jaxsched.envs.mlfs.learn import TUNED

    env = MLFS(slot_every=1, **TUNED)
    play = player(env, num_tables)
    base = play(heuristic(env), {}, ())
    draw = np.random.default_rng(SEED)
    mean, spread = np.array(START), np.array(SPREAD)
    trials: list[Found] = []
    while len(trials) < num_trials:
        members = mean + spread * draw.normal(size=(MEMBERS, len(mean)))
        for costs in members:
            found = play(linear_host(env), {}, np.asarray(costs, np.float32))
            trials.append(told(len(trials), num_trials, costs.round(3).tolist(), found, base))
        latest = trials[-MEMBERS:]
        order = np.argsort([trial["avg_jct"] - trial["return"] for trial in latest])[:ELITE]
        mean, spread = members[order].mean(0), members[order].std(0) * WIDEN + FLOOR
    found = play(linear_host(env), {}, np.asarray(mean, np.float32))
    return told(len(trials), num_trials, mean.round(3).tolist(), found, base), trials


def told(number: int, of: int, weights: Any, found: Found, base: Found) -> Found:
    """A trial relative to ``base``, which is also printed."""
    trial = {
        "weights": weights,
        "avg_jct": float(np.mean(found["avg_jct"] / base["avg_jct"])),
        "return": float(np.mean(found["return"] - base["return"])),
        "deadline_ratio": float(np.mean(found["deadline_ratio"] - base["deadline_ratio"])),
    }
    print(
        f"{number + 1:3d}/{of}  {weights}  JCT x {trial['avg_jct']:.4f}  "
        f"return {trial['return']:+.4f}  deadlines {trial['deadline_ratio']:+.4f}",
        flush=True,
    )
    return trial


def player(env: Any, num_tables: int) -> Callable[[Any, dict[str, Any], Any], Found]:
    """``play(policy, changes of the parameters, weights) -> metrics``, ``[loads, tables]`` each."""
    from jaxsched import traces
    from jaxsched.systems import registry

    system = registry.get("mlfs")
    params = []
    for load in LOADS:
        tables = traces.get(f"mlfs-small-x{load}", seed=SEED + load, num_traces=num_tables)
        params.append([env.params([table]) for table in tables])

    def play(policy: Any, changes: dict[str, Any], weights: Any) -> Found:
        rows = [
            [
                functions.play(system, env, policy, p._replace(**changes), weights).metrics
                for p in part
            ]
            for part in params
        ]
        return {
            name: np.array([[found[name][0] for found in row] for row in rows]) for name in METRICS
        }

    return play


if __name__ == "__main__":
    sys.exit(exit_status(main))
