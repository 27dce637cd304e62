"""The searched policy of MLFS against the best rules, episode by episode on fresh draws.

    python -m benchmarks.mlfs_pairs --policy pretrained --loads 1,2,3 --draws 100 [--json FILE]
    python -m benchmarks.mlfs_pairs --policy RUN [--policy RUN ...] --cluster real --loads 3

Several runs are training seeds of one recipe. The rules have the policy's weights of priorities:
``linear`` chooses servers by a linear cost, ``mlf_h`` as in the paper. ``--untrained`` plays
weights of 0, too, with which recipes begin unless they are told another start. Changes of times and
traffic are ratios of means, those of shares are differences; intervals are 95 % bootstraps over
seeds and episodes. ``--one-by-one`` plays one episode at a time, which takes less memory.

Axes: ``S`` training seeds (one for rules), ``E`` episodes.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.systems import functions

SEED = 8100
RULES = ("linear", "mlf_h")
RATIOS = ("avg_jct", "median_jct", "makespan", "bandwidth_mb")
SHARES = ("deadline_ratio", "accuracy_ratio", "avg_accuracy", "jct_under_100min", "return")


def main() -> None:
    """Play, print a table for each load, write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--policy", action="append", help="a run, a folder or pretrained (the default); repeat"
    )
    parser.add_argument("--cluster", default="small", help="small, real or large")
    parser.add_argument("--loads", default="3", help="commas between them")
    parser.add_argument("--draws", type=int, default=100, help="job tables of each load")
    parser.add_argument("--seed", type=int, default=SEED, help="of the tables of load 0")
    parser.add_argument("--jobs", type=int, help="of a table; the trace's own number if absent")
    parser.add_argument("--one-by-one", action="store_true")
    parser.add_argument("--untrained", action="store_true", help="weights of 0, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.policy = options.policy or ["pretrained"]
    from jaxsched.provenance import surroundings

    result: dict[str, Any] = {
        "system": "mlfs",
        "command": shlex.join(["python", "-m", "benchmarks.mlfs_pairs", *sys.argv[1:]]),
        **{name: getattr(options, name) for name in ("policy", "cluster", "draws", "jobs")},
        **surroundings(),
        "loads": {},
    }
    for load in options.loads.split(","):
        seed = options.seed + int(load)
        metrics = played(options, load, seed)
        rows = compared(metrics)
        result["loads"][load] = {"seed": seed, "compared": rows, "metrics": metrics}
        show(load, rows, metrics)
        if options.json is not None:
            options.json.write_text(json.dumps(result, indent=1) + "\n")


def played(options: Any, load: str, seed: int) -> dict[str, dict[str, Any]]:
    """Metrics by policy, the searched one first: lists ``[S, E]``."""
    from jaxsched import traces
    from jaxsched.envs.mlfs.environment import CLUSTERS, PRIORITIES
    from jaxsched.results.comparison import as_seeds
    from jaxsched.runs import saved_policies
    from jaxsched.systems import registry

    system = registry.get("mlfs")
    tables = traces.get(
        f"mlfs-{options.cluster}-x{load}",
        seed=seed,
        num_traces=options.draws,
        num_jobs=options.jobs,
    )
    learned = as_seeds([saved_policies.load(path, system)[0] for path in options.policy])
    weights = {name: getattr(learned.env, name) for name in PRIORITIES}
    size: dict[str, Any] = CLUSTERS[options.cluster]
    env = functions.environment(system, **size, **weights, decide="slot")
    policy = functions.network_policy(system, env, learned.network, "searched", learned.play)
    players = {"searched": (env, policy, list(learned.weights))}
    if options.untrained:
        begun = functions.init_weights(system, env, learned.network, env.params(tables[:1]))
        players["untrained"] = (env, policy, [begun])
    for name in RULES:
        rule = functions.heuristic(system, name, env, len(tables[0]), {"weights": "own"})
        players[name] = (rule.env, rule.policy, [()])
    groups = [[table] for table in tables] if options.one_by_one else [tables]
    longest = max(len(table) for table in tables)
    assert all(len(table) == longest for table in tables)  # one program for all groups
    found: dict[str, dict[str, Any]] = {}
    for name, (where, chooses, seeds) in players.items():
        seen: dict[str, list[list[float]]] = {
            metric: [] for metric in (*RATIOS, *SHARES, "overloads", "migrations", "finished")
        }
        for number, given in enumerate(seeds):
            print(f"x={load}: {len(tables)} tables, {name} {number}", file=sys.stderr, flush=True)
            parts = [
                functions.play(system, where, chooses, where.params(group), given)
                for group in groups
            ]
            for metric, values in seen.items():
                values.append(np.concatenate([part.metrics[metric] for part in parts]).tolist())
        found[name] = seen
    return found


def compared(metrics: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Change against each rule, with its interval, by rule and metric."""
    from jaxsched.results.statistics import paired_difference, ratio_interval

    rows: dict[str, dict[str, list[float]]] = {}
    own = {name: np.array(values) for name, values in metrics["searched"].items()}
    for rule in (name for name in metrics if name != "searched"):
        rows[rule] = {}
        for name in (*RATIOS, *SHARES):
            other = np.array(metrics[rule][name])
            if own[name].size == 1:
                change = own[name] / other - 1 if name in RATIOS else own[name] - other
                rows[rule][name] = [float(change[0, 0])] * 3
                continue
            interval = (ratio_interval if name in RATIOS else paired_difference)(own[name], other)
            less = 1.0 if name in RATIOS else 0.0
            low, high = interval.low - less, interval.high - less
            rows[rule][name] = [interval.estimate - less, low, high]
    return rows


def show(load: str, rows: dict[str, Any], metrics: dict[str, Any]) -> None:
    """Print the table of a load."""
    for name, of in metrics.items():
        means = ", ".join(f"{metric} {np.mean(of[metric]):,.4g}" for metric in (*RATIOS, *SHARES))
        print(f"x={load} {name}: {means}", flush=True)
    for rule, changes in rows.items():
        words = [
            f"{name} {100 * value:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"
            for name, (value, low, high) in changes.items()
        ]
        print(f"x={load} against {rule}, per cent: {'  '.join(words)}", flush=True)


if __name__ == "__main__":
    sys.exit(exit_status(main))
