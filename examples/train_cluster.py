"""Train one policy of rigid jobs on a small cluster and play it on a larger one.

    python examples/train_cluster.py [--updates 60] [--seed 0]

The workload is a generated trace of the leaderboard, stretched to a load of 0.9. Prints mean job
completion times (h) of tables that were not trained on, with the rules of the replay engine beside.
"""

import argparse

import jax
import jax.numpy as jnp

from jaxsched.algorithms.ppo import ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core import training
from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import greedy_scores
from jaxsched.core.recorder import job_recorder
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.heuristics import RULES, rule
from jaxsched.envs.cluster.networks import ClusterValue, JobScorer
from jaxsched.leaderboard.workloads import Workload, prepare

TRAIN, TEST = 48, 16  # tables


def pieces(num_servers: int, length: int, count: int) -> list:
    """Consecutive pieces of so many jobs of the trace, on so many servers."""
    rows = int(1.3 * length * count)  # some want no GPUs
    workload = Workload("philly-like", "philly-like", num_servers=num_servers, num_jobs=rows)
    table = prepare(workload, None).table
    return [table.window(k * length, length) for k in range(count)]


def hours(env: ClusterJobs, tables: list, policy, weights=()) -> float:
    """Mean job completion time over the tables."""
    params, key = env.params(tables), jax.random.key(0)
    episodes = jnp.arange(len(tables))
    played = run_episodes(env, policy, job_recorder(env), params, episodes, key, weights)
    return -float(played.episode_return.mean())


def main() -> None:
    """Train, then play on both clusters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    small = ClusterJobs(num_servers=4, window=32, may_wait=False)
    tables = pieces(4, 100, TRAIN + TEST)
    settings = PPOConfig(
        arguments.updates,
        only_choices=True,
        normalise_targets=True,
        gamma=1.0,
        lambda_=0.98,
        learning_rate=1e-3,
        entropy_end=0.0,
    )
    learner = ppo(JobScorer(small.window), ClusterValue(small.window), settings)
    loop = training.LoopConfig(num_envs=16, rollout_length=128, num_updates=arguments.updates)
    params = small.params(tables[:TRAIN], scale_s=60.0)
    carry = training.init(small, learner, loop, jax.random.key(arguments.seed), params)
    carry, _ = training.chunk(small, learner, loop, carry, params, num_updates=arguments.updates)
    weights = learner.policy_params(carry.learner_state)

    large = ClusterJobs(num_servers=16, window=128, may_wait=False)
    for env, held_out in ((small, tables[TRAIN:]), (large, pieces(16, 400, 4))):
        print(f"{env.num_servers} servers, {len(held_out)} tables of {len(held_out[0])} jobs")
        learned = greedy_scores("learned", JobScorer(env.window).apply)
        print(f"  learned    {hours(env, held_out, learned, weights):8.3f}")
        for name, (order, mode) in RULES.items():
            if mode == "skip":
                print(f"  {name:10} {hours(env, held_out, rule(env, order)):8.3f}")


if __name__ == "__main__":
    main()
