"""Train one policy of rigid jobs on a small cluster and play it on a larger one.

    python -m benchmarks.once.train_cluster [--updates 60] [--seed 0] [--more 136]
    python -m benchmarks.once.train_cluster --branch [--updates 40]
    python -m benchmarks.once.train_cluster --suspend [--restart 300] [--updates 20]

The workload is a generated trace of the leaderboard, stretched to a load of 0.9. Prints mean job
completion times (h) of tables that were not trained on, with the rules of the replay engine beside.
PPO learns which job starts next; with ``--branch``, policy iteration does, by trying the
alternatives on copies of a state and redrawn futures. With ``--suspend``, a search over whole
episodes learns the order that waiting and running jobs share.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.algorithms.branching import branching
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.algorithms.ppo import ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core import training
from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import Policy, greedy_scores, one_of
from jaxsched.core.recorder import job_recorder
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.heuristics import RULES, SUSPENDING_RULES, by_scores, rule
from jaxsched.envs.cluster.learn import ClusterValue, JobScorer
from jaxsched.leaderboard.workloads import Workload, prepare
from jaxsched.wrappers.fixed_length import FixedLength

STEPS = 6.4  # of an episode with suspension, for each job
MINUTE_S = 60.0  # mean completion time that costs a reward of 1, where single actions are judged
UPDATES = {"ppo": 60, "branch": 40, "suspend": 20}


def pieces(num_servers: int, length: int, count: int) -> list:
    """Consecutive pieces of so many jobs of the trace, on so many servers."""
    rows = int(1.3 * length * count)  # some want no GPUs
    workload = Workload("philly-like", "philly-like", num_servers=num_servers, num_jobs=rows)
    table = prepare(workload, None).table
    return [table.window(k * length, length) for k in range(count)]


def hours(env: ClusterJobs, params: Any, policy: Policy, weights: Any = ()) -> float:
    """Mean job completion time over the tables."""
    episodes, key = jnp.arange(env.num_episodes(params)), jax.random.key(0)
    played = run_episodes(env, policy, job_recorder(env), params, episodes, key, weights)
    return -float(played.episode_return.mean())


def by_ppo(env: ClusterJobs, tables: list, updates: int) -> tuple:
    """Environment, learner, sizes of the loop and parameters: which job starts next."""
    settings = PPOConfig(
        updates,
        only_choices=True,
        normalise_targets=True,
        gamma=1.0,
        lambda_=0.98,
        learning_rate=1e-3,
        entropy_end=0.0,
    )
    learner = ppo(JobScorer(env.window), ClusterValue(env.window), settings)
    loop = training.LoopConfig(num_envs=16, rollout_length=128, num_updates=updates)
    return env, learner, loop, env.params(tables, scale_s=MINUTE_S)


def by_branching(env: ClusterJobs, tables: list, updates: int) -> tuple:
    """Likewise: a state's actions are compared on common futures, played to their end."""
    settings = BranchingConfig(
        updates,
        futures=2,
        alternatives=4,
        gradient_steps=8,
        learning_rate=1e-3,
        exploration=0.05,
        clip=5.0,
        entropy_weight=0.05,
    )
    learner = branching(scorer(env), settings)
    loop = training.LoopConfig(num_envs=64, rollout_length=7, num_updates=updates)
    return env, learner, loop, env.params(tables, scale_s=MINUTE_S)


def by_search(env: ClusterJobs, tables: list, updates: int, restart_s: int) -> tuple:
    """Likewise: the scores of all jobs, by the completion times of whole episodes."""
    steps = int(STEPS * len(tables[0]))
    settings = EvolutionConfig(
        members=32, episodes=8, min_std=0.05, averaging=0.5, layers=("job_score",)
    )
    learner = search_of(scorer(env), settings, lambda scores, mask: scores)
    loop = training.LoopConfig(
        num_envs=settings.batch,
        rollout_length=steps,
        num_updates=updates,
        num_random_streams=settings.episodes,
    )
    return FixedLength(env, steps), learner, loop, env.params(tables, restart_s=restart_s)


def scorer(env: ClusterJobs) -> JobScorer:
    """The network; a search has to do with few weights."""
    if env.suspends:
        return JobScorer(env.window, hidden=(), wait=(), suspends=True)
    return JobScorer(env.window)


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, help="60; 40 with --branch, 20 with --suspend")
    parser.add_argument("--seed", type=int, default=0)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--branch", action="store_true", help="policy iteration instead of PPO")
    ways.add_argument("--suspend", action="store_true", help="running jobs may be suspended")
    parser.add_argument("--restart", type=int, default=0, help="what that costs, seconds of work")
    parser.add_argument("--more", type=int, default=0, help="further tables of the trace to play")
    parser.add_argument("--servers", type=int, default=4, help="of the cluster that is trained on")
    parser.add_argument("--times", type=int, default=4, help="how many times larger the other is")
    parser.add_argument("--jobs", type=int, default=100, help="of a table of the smaller cluster")
    parser.add_argument("--train", type=int, default=48, help="tables to train on")
    parser.add_argument("--test", type=int, default=16, help="tables to play")
    return parser.parse_args()


def main() -> None:
    """Train, then play on both clusters."""
    given = options()
    way = "suspend" if given.suspend else "branch" if given.branch else "ppo"
    updates = given.updates or UPDATES[way]
    servers, larger, seen = given.servers, given.servers * given.times, given.train + given.test

    rules_of_game = {"may_wait": False, "suspends": given.suspend}
    costs = {"restart_s": given.restart} if given.suspend else {}
    window = 16 if given.suspend else 8  # positions for each server
    small = ClusterJobs(num_servers=servers, window=window * servers, **rules_of_game)
    tables = pieces(servers, given.jobs, seen)
    if given.suspend:
        setup = by_search(small, tables[: given.train], updates, given.restart)
    else:
        setup = (by_branching if given.branch else by_ppo)(small, tables[: given.train], updates)
    env, learner, loop, params = setup
    carry = training.init(env, learner, loop, jax.random.key(given.seed), params)
    carry, _ = training.chunk(env, learner, loop, carry, params, num_updates=updates)
    weights = learner.policy_params(carry.learner_state)

    large = ClusterJobs(num_servers=larger, window=window * larger, **rules_of_game)
    rules: dict[str, Any] = {name: order for name, (order, mode) in RULES.items() if mode == "skip"}
    if given.suspend:
        rules |= {name: name for name in SUSPENDING_RULES if name != "spot"}  # no priorities here
    if given.more:
        other = small, pieces(servers, given.jobs, seen + given.more)[seen:]
    else:
        other = large, pieces(larger, given.jobs * given.times, max(given.test // 4, 1))
    for env, held_out in ((small, tables[given.train :]), other):
        print(f"{env.num_servers} servers, {len(held_out)} tables of {len(held_out[0])} jobs")
        params, play = env.params(held_out, **costs), by_scores if env.suspends else greedy_scores
        score: Any = scorer(env).apply
        learned = play("learned", score)
        print(f"  learned    {hours(env, params, learned, weights):8.3f}")
        any_rule = one_of(tuple(rule(env, order) for order in rules.values()))  # compiled once
        for number, name in enumerate(rules):
            print(f"  {name:10} {hours(env, params, any_rule, jnp.int32(number)):8.3f}")


if __name__ == "__main__":
    main()
