"""Time and metrics of one MLFS episode per policy, after compilation, one environment.

    python -m benchmarks.mlfs_episode --cluster real --trace mlfs-real-x3
    python -m benchmarks.mlfs_episode --cluster large --trace mlfs-large-x1 --by slot
    python -m benchmarks.mlfs_episode --cluster real --trace mlfs-real-x1 --policies pretrained

Policies are rules, ``pretrained`` (the searched weights of pairs) and runs that learnt such
weights. Prints for each the wall time of the whole episode, per simulated slot and per decision,
and the metrics; ``--jobs`` takes other than the trace's own number of jobs, ``--json`` writes all.
With ``--by slot`` the environment places a slot's tasks by the rule itself, in one step: the
schedule is the same, and no observation is written for each offer. Small loops are then compiled
into one function each (``KERNEL_BYTES``), which pays where a single environment is stepped.
``--window`` is the number of jobs in the cluster beyond which others wait outside,
``--waiting-unit`` that of the wait in Equation 4.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.scripts import exit_status
from jaxsched.runtime import prepare_cpu
from jaxsched.systems import functions

KERNEL_BYTES = 2**22
"""A loop of which a round touches fewer bytes than this becomes one function with ``--by slot``."""
SHOWN = ("avg_jct", "makespan", "deadline_ratio", "accuracy_ratio", "bandwidth_mb", "overloads")


def main() -> None:
    """Play the rules one after the other and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cluster", default="real", choices=("small", "real", "large"))
    parser.add_argument("--trace", default="mlfs-real-x3")
    parser.add_argument("--policies", default="mlf_h,tiresias,mlf_hc")
    parser.add_argument("--seed", type=int, default=7001)
    parser.add_argument("--jobs", type=int, help="of the table; the trace's own number if absent")
    parser.add_argument("--window", type=int, help="jobs in the cluster; its own if absent")
    parser.add_argument("--waiting-unit", choices=("day", "hour"), help="of Equation 4")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--by", choices=("offer", "slot"), default="offer", help="what a step is")
    options = parser.parse_args()
    if options.by == "slot":
        prepare_cpu(kernel_bytes=KERNEL_BYTES)
    from jaxsched import traces
    from jaxsched.envs.mlfs.environment import CLUSTERS
    from jaxsched.provenance import surroundings
    from jaxsched.systems import registry

    system = registry.get("mlfs")
    asked = {"max_active": options.window, "waiting_unit": options.waiting_unit}
    given = {name: value for name, value in asked.items() if value is not None}
    size = {**CLUSTERS[options.cluster], **given}
    env: Any = functions.environment(system, **size, slot_every=1)
    tables = traces.get(options.trace, seed=options.seed, num_traces=1, num_jobs=options.jobs)
    jobs = len(tables[0])
    print(f"{options.trace}, seed {options.seed}: {jobs} jobs on {sum(env.gpus)} GPUs", flush=True)
    episodes: dict[str, Any] = {}
    for name in options.policies.split(","):
        found = episodes[name] = play(system, env, name, tables, whole_slots=options.by == "slot")
        metrics = ", ".join(f"{key} {found['metrics'][key]:,.4g}" for key in SHOWN)
        print(
            f"{name}: {found['wall_s']:.1f} s (compiled in {found['compile_s']:.1f} s), "
            f"{found['ms_per_slot']:.3f} ms per slot, {found['us_per_decision']:.1f} us per "
            f"decision; {metrics}",
            flush=True,
        )
        if options.json is not None:
            about = {"trace": options.trace, "seed": options.seed, "jobs": jobs}
            result = {**about, "cluster": options.cluster, **given, **surroundings()}
            result["rules"] = episodes
            options.json.write_text(json.dumps(result, indent=1) + "\n")


def play(
    system: Any, env: Any, name: str, tables: Any, *, whole_slots: bool = False
) -> dict[str, Any]:
    """One policy on the one table."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from benchmarks.papers.mlfs.players import Player, by_slot, on_cluster
    from jaxsched.core.evaluation import run_episodes
    from jaxsched.envs.mlfs.show import log as rec
    from jaxsched.runs import saved_policies

    weights: Any = ()
    if name in system.policies:
        heuristic: Any = functions.heuristic(system, name, env, len(tables[0]), {})
        player = Player(name, heuristic.env, heuristic.policy)
        _, env, policy, _ = by_slot(player) if whole_slots else player
    else:
        learned, _ = saved_policies.load(name, system)
        env, weights = on_cluster(learned.env, env), learned.weights[0]
        policy = functions.network_policy(system, env, learned.network, name, learned.play)
    params = env.params(tables)
    episodes, key = jnp.arange(1), jax.random.key(0)
    recorder = rec.recorder(env)
    began = time.perf_counter()
    compiled = run_episodes.lower(env, policy, recorder, params, episodes, key, weights).compile()
    compile_s = time.perf_counter() - began
    began = time.perf_counter()
    outcome = jax.block_until_ready(compiled(params, episodes, key, weights))
    wall_s = time.perf_counter() - began
    found = rec.summarise(env, params, np.arange(1), outcome.records)
    metrics = {name: float(values[0]) for name, values in found.items()}
    return {
        "wall_s": wall_s,
        "compile_s": compile_s,
        "ms_per_slot": 1e3 * wall_s / metrics["slots"],
        "us_per_decision": 1e6 * wall_s / metrics["steps"],
        "metrics": metrics,
    }


if __name__ == "__main__":
    sys.exit(exit_status(main))
