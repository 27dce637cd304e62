"""Search for SCHED2's delay rule on training traces (cross-entropy method over whole episodes).

    python -m benchmarks.once.sched2_delay_rule [--updates 40] [--tables 256] [--seed 0] [--write]

Starts as ``strict_sif``, plays generated traces of loads 0.6 to 1.1 and keeps the members of best
fitness; the mean is then played on validation traces of another seed. ``--write`` makes it the
rule that jaxsched ships (``jaxsched/envs/sched2/delay_rule.json``).
"""

import argparse
import json
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.systems import functions

MEMBERS, EPISODES = 64, 8
STD = 0.7
DELAY_WEIGHT = 0.1
LENGTH = 2500  # decisions of an episode of 1,000 jobs at load 1.1
VALIDATION_SEED, NUM_VALIDATION = 1001, 100
METRICS = ("avg_effectiveness", "avg_jct", "makespan")


def main() -> None:
    """Search and print the rule."""
    from jaxsched import runtime

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--tables", type=int, default=256, help="training traces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="make it the rule that is shipped")
    options = parser.parse_args()
    runtime.prepare_cpu()
    found = search(options.updates, options.tables, options.seed)
    print(json.dumps(found, indent=1))
    if options.write:
        target = Path(str(resources.files("jaxsched.envs.sched2") / "delay_rule.json"))
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def search(updates: int, num_tables: int, seed: int) -> dict[str, Any]:
    """The rule found, how, and what it gains on validation traces."""
    import jax
    import jax.numpy as jnp

    from jaxsched import traces
    from jaxsched.algorithms.evolution import EvolutionConfig, evolution
    from jaxsched.core import training
    from jaxsched.envs.sched2.environment import Sched2
    from jaxsched.envs.sched2.heuristics import delay_choice, strict_rule
    from jaxsched.envs.sched2.rules.observation import OUTLOOK
    from jaxsched.wrappers.fixed_length import FixedLength

    env = Sched2(auto_advance=True, reward="lost", outlook=True)
    servers, gpus = env.num_servers, env.gpus_per_server

    def decide(rule: Any, observation: Any, mask: Any) -> Any:
        del mask  # what does not fit is not ready
        empty = jnp.sum(jnp.all(observation[: servers * gpus].reshape(servers, gpus) == 0, axis=-1))
        entries = observation[-len(OUTLOOK) * env.window :].reshape(env.window, len(OUTLOOK))
        return delay_choice(rule, entries, empty, gpus)

    config = EvolutionConfig(members=MEMBERS, episodes=EPISODES, initial_std=STD, relative=0.7)
    learner = evolution(lambda key, specs: strict_rule(), decide, config)
    loop = training.LoopConfig(
        num_envs=config.batch,
        rollout_length=LENGTH,
        num_updates=updates,
        num_random_streams=EPISODES,
    )
    tables = traces.get("sched2-mixed", seed=seed, num_traces=num_tables)
    params = env.params(tables, delay_weight=DELAY_WEIGHT)
    whole = FixedLength(env, LENGTH)
    carry = training.init(whole, learner, loop, jax.random.key(seed), params)
    began = time.perf_counter()
    for update in range(updates):
        carry, metrics = training.chunk(whole, learner, loop, carry, params, num_updates=1)
        words = ", ".join(f"{k} {float(np.mean(metrics[k])):.4g}" for k in ("mean_return", "std"))
        print(f"{update + 1}/{updates}, {time.perf_counter() - began:.0f} s: {words}", flush=True)
    rule = learner.policy_params(carry.learner_state)
    return {
        "found_by": f"python -m benchmarks.once.sched2_delay_rule --updates {updates} "
        f"--tables {num_tables} --seed {seed} --write",
        "validation": validate(rule),
        "rule": {k: np.asarray(v, float).round(4).tolist() for k, v in rule._asdict().items()},
    }


def validate(rule: Any) -> dict[str, Any]:
    """Means of the rule and of ``strict_sif`` on validation traces, and the paired difference."""
    from jaxsched import traces
    from jaxsched.envs.sched2.heuristics import delayed_by
    from jaxsched.results.statistics import paired_difference
    from jaxsched.systems import registry

    system = registry.get("sched2")
    tables = traces.get("sched2-mixed", seed=VALIDATION_SEED, num_traces=NUM_VALIDATION)
    strict = functions.heuristic(system, "strict_sif", functions.environment(system), 1000, {})
    params = strict.env.params(tables)
    found = {
        name: functions.play(system, strict.env, policy, params, weights).metrics
        for name, policy, weights in (
            ("delay", delayed_by(), rule),
            ("strict_sif", strict.policy, ()),
        )
    }
    effectiveness = (found[name]["avg_effectiveness"] for name in found)
    difference = paired_difference(*(values[None] for values in effectiveness))
    means = {
        name: {metric: round(float(metrics[metric].mean()), 4) for metric in METRICS}
        for name, metrics in found.items()
    }
    ends = (difference.estimate, difference.low, difference.high)
    interval = [round(x, 5) for x in ends]
    return {**means, "effectiveness_gained": interval}


if __name__ == "__main__":
    sys.exit(exit_status(main))
