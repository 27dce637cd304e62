"""Linear rules of DAS on validation episodes: every order with every placement.

    python -m benchmarks.das_rules [RUN ...] [--servers 16] [--episodes 60] [--json FILE]

Orders and placements are the plain ones (first come first served, fewest GPUs first; most free
GPUs), those of the shipped rules, and those of each RUN of ``jaxsched train das --preset search``.
Ratios to first come first served, most free GPUs are geometric means over the episodes, with 95 %
bootstrap intervals; ``faster`` and ``slower`` are the shares of the jobs that end earlier and later
than there. The best by log JCT + 3 log fee comes first. This is how the rules of 16 and 32 machines
in ``linear_rules.json`` were put together.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status

FEE_WEIGHT = 3.0
TRACE, SEED = "das-mixed", 2


def main() -> None:
    """Print the table, write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--servers", type=int, default=16, help="machines of the cluster")
    parser.add_argument("--episodes", type=int, default=60, help="validation episodes, 2 or more")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.servers < 1 or arguments.episodes < 2:
        parser.error("--servers must be at least 1, --episodes at least 2")
    rows = compare(arguments.runs, arguments.servers, arguments.episodes)
    columns = f"{'JCT':>9}{'fee':>9}{'faster':>8}{'slower':>8}"
    print(f"{'order':20}{'placement':20}{columns}   ratios: JCT, fee")
    for row in rows:
        ratios = "   ".join(f"{m:.4f} [{a:.4f}, {b:.4f}]" for m, a, b in (row["jct"], row["fee"]))
        means = (
            f"{row['mean_jct']:9.2f}{row['mean_fee']:9.3f}{row['faster']:8.3f}{row['slower']:8.3f}"
        )
        print(f"{row['order']:20}{row['placement']:20}{means}   {ratios}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def compare(runs: list[Path], num_servers: int, num_episodes: int) -> list[dict[str, Any]]:
    """Every pair, the best one first."""
    import jax

    from benchmarks.papers.das.common import FEE, JCT, geometric_ratio
    from jaxsched import traces
    from jaxsched.core.evaluation import run_episodes
    from jaxsched.envs.das.environment import DAS
    from jaxsched.envs.das.heuristics.weighted import (
        LinearParams,
        init_linear,
        known_rules,
        linear_policy,
    )
    from jaxsched.envs.das.show import log
    from jaxsched.runs import saved_policies
    from jaxsched.systems import registry

    system, key = registry.get("das"), jax.random.key(0)
    env = DAS(num_servers=num_servers)
    plain = {name: init_linear(key, None, name) for name in ("fifo", "fewest_gpus")}
    rules = {f"rule of {size}": rule for size, rule in known_rules().items()}
    for run in runs:
        learned, _ = saved_policies.load(run, system)
        rules[run.name] = LinearParams(*map(np.asarray, learned.weights[0]))
    orders = {name: rule.order for name, rule in (plain | rules).items()}
    places = {"most free GPUs": plain["fifo"].place} | {n: rule.place for n, rule in rules.items()}
    tables = traces.get(TRACE, seed=SEED, num_traces=num_episodes)
    params, policy = env.params(tables), linear_policy(env)
    episodes, recorder = np.arange(len(tables)), log.recorder(env)
    found: dict[tuple[str, str], Any] = {}
    finish: dict[tuple[str, str], Any] = {}
    for order, order_weights in orders.items():
        for place, place_weights in places.items():
            weights = jax.tree.map(jax.numpy.asarray, LinearParams(order_weights, place_weights))
            played = run_episodes(env, policy, recorder, params, episodes, key, weights).records
            metrics = log.summarise(env, params, episodes, played)
            found[order, place] = {name: metrics[name][None] for name in (JCT, FEE)}
            finish[order, place] = log.per_job(env, params, episodes, played).finish
            print(f"{len(found)} of {len(orders) * len(places)} played", file=sys.stderr)
    base, end = (results["fifo", "most free GPUs"] for results in (found, finish))
    rows = []
    for (order, place), sample in found.items():
        ratios = [geometric_ratio(sample, base, metric) for metric in (JCT, FEE)]
        jct, fee = ([ratio.estimate, ratio.low, ratio.high] for ratio in ratios)
        means = {"mean_jct": float(sample[JCT].mean()), "mean_fee": float(sample[FEE].mean())}
        means |= {
            "faster": float(np.mean(finish[order, place] < end)),
            "slower": float(np.mean(finish[order, place] > end)),
        }
        rows.append({"order": order, "placement": place, **means, "jct": jct, "fee": fee})
    return sorted(rows, key=lambda r: np.log(r["jct"][0]) + FEE_WEIGHT * np.log(r["fee"][0]))


if __name__ == "__main__":
    sys.exit(exit_status(main))
