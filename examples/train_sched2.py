"""Train SCHED2 from a script: the same loop and recipe as ``jaxsched train sched2``.

    python examples/train_sched2.py [--updates 6000] [--seed 0]

Prints the effectiveness on the training traces while it learns and the result on the test traces.
"""

import argparse
import time
from dataclasses import replace

import jax
import jax.numpy as jnp

from jaxsched import traces
from jaxsched.core import training
from jaxsched.systems import registry


def main() -> None:
    """Train, then compare with the rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, help="updates; those of the preset by default")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    system = registry.get("sched2")
    recipe = system.preset("quick")
    if arguments.updates:
        recipe = replace(recipe, loop=replace(recipe.loop, num_updates=arguments.updates))
    train_tables, test_tables = (
        traces.get(name) for name in (system.traces.train, system.traces.test)
    )
    (setup,) = system.stages(recipe, train_tables)
    env, learner, loop = setup.env, setup.learner, setup.loop

    def effectiveness(policy, tables, weights=()):
        """Mean effectiveness over all tables, of a policy that sees what the agent sees."""
        played = system.play(env, policy, system.params(env, tables), weights)
        return played.metrics["avg_effectiveness"].mean()

    carry = training.init(env, learner, loop, jax.random.key(arguments.seed), setup.params_at(0.0))
    best, best_weights, begin = -1.0, None, time.monotonic()
    every = min(recipe.evaluate_every, loop.num_updates)
    for update in range(0, loop.num_updates - every + 1, every):
        params = setup.params_at(update / loop.num_updates)
        carry, metrics = training.chunk(env, learner, loop, carry, params, num_updates=every)
        weights = learner.policy_params(carry.learner_state)
        score = effectiveness(setup.policy, train_tables, weights)
        if score > best:
            best, best_weights = score, jax.tree.map(jnp.copy, weights)
        steps = (update + every) * loop.steps_per_update
        rate = steps / (time.monotonic() - begin)
        print(f"{steps:>9,} steps  {rate:>7,.0f} steps/s  effectiveness {score:.4f}", flush=True)

    print(f"learned  {effectiveness(setup.policy, test_tables, best_weights):.4f}")
    for name in system.policies:
        policy = system.heuristic(name, env, 0, {}).policy
        print(f"{name:8} {effectiveness(policy, test_tables):.4f}")


if __name__ == "__main__":
    main()
