"""One set of weights scores and plays clusters and windows of any size, and learns on them."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.algorithms.ppo import ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core import training
from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import greedy_scores
from jaxsched.core.recorder import job_recorder
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.heuristics import by_scores
from jaxsched.envs.cluster.learn import ClusterValue, JobScorer
from jaxsched.envs.cluster.rules.observation import unbatched
from jaxsched.wrappers.fixed_length import FixedLength
from tests.trace_replay.cases import random_columns

NUM_JOBS, TABLES = 24, 3
SMALL, WIDE, LARGE = ClusterJobs(3, 4, 24), ClusterJobs(3, 4, 40), ClusterJobs(7, 8, 30)
SIZES = {"hidden": (8,), "wait": (8,)}
STEPS = 400  # room for an episode with suspension


@cache
def trained():
    """The policy's weights before and after a few updates on the small cluster."""
    learner = ppo(
        JobScorer(SMALL.window, **SIZES),
        ClusterValue(SMALL.window, (8,), (8,)),
        PPOConfig(3, epochs=1, num_minibatches=2, only_choices=True, gamma=1.0),
    )
    loop = training.LoopConfig(num_envs=4, rollout_length=16, num_updates=3)
    params = params_of(SMALL)
    carry = training.init(SMALL, learner, loop, jax.random.key(0), params)
    before = jax.device_get(learner.policy_params(carry.learner_state))
    carry, metrics = training.chunk(SMALL, learner, loop, carry, params, num_updates=3)
    return before, jax.device_get(learner.policy_params(carry.learner_state)), metrics


def params_of(env):
    tables = [random_columns(seed, NUM_JOBS, env.num_servers * 4) for seed in range(TABLES)]
    return env.params(tables)


def played(env, weights):
    policy = greedy_scores("learned", JobScorer(env.window, **SIZES).apply)
    episodes, key = jnp.arange(TABLES), jax.random.key(0)
    return jax.device_get(
        run_episodes(env, policy, job_recorder(env), params_of(env), episodes, key, weights)
    )


def test_training_moves_the_weights():
    before, after, metrics = trained()
    changed = [
        np.any(one != other)
        for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    ]
    assert all(changed)
    assert all(np.isfinite(value).all() for value in jax.tree.leaves(metrics))


def test_a_wider_window_that_is_never_full_changes_nothing():
    """The schedule is the same: positions are scored by themselves."""
    weights = trained()[1]
    one, other = played(SMALL, weights), played(WIDE, weights)
    np.testing.assert_array_equal(one.records["start"], other.records["start"])
    np.testing.assert_array_equal(one.records["finish"], other.records["finish"])


def test_the_same_weights_play_another_cluster():
    outcome = played(LARGE, trained()[1])
    assert outcome.finished.all()
    records, table = outcome.records, params_of(LARGE).jobs
    np.testing.assert_array_equal(
        records["finish"] - records["start"], table.duration[:, :NUM_JOBS]
    )
    mean = (records["finish"] - records["submit"]).mean(axis=1) / 3600
    np.testing.assert_allclose(outcome.episode_return, -mean, rtol=1e-4)


# With suspension, where the scores are the action

SUSPENDING = replace(SMALL, suspends=True)


@cache
def searched():
    """A policy's weights before and after a few updates of a search over whole episodes."""
    settings = EvolutionConfig(members=8, episodes=2)
    network = JobScorer(SUSPENDING.window, suspends=True, **SIZES)
    learner = search_of(network, settings, lambda scores, mask: scores)
    loop = training.LoopConfig(settings.batch, STEPS, 2, num_random_streams=settings.episodes)
    env, params = FixedLength(SUSPENDING, STEPS), params_of(SUSPENDING)
    carry = training.init(env, learner, loop, jax.random.key(0), params)
    before = jax.device_get(learner.policy_params(carry.learner_state))
    carry, metrics = training.chunk(env, learner, loop, carry, params, num_updates=2)
    return before, jax.device_get(learner.policy_params(carry.learner_state)), metrics


def test_a_search_moves_the_weights_of_a_scorer_that_suspends():
    before, after, metrics = searched()
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert np.any(one != other)
    assert (metrics["incomplete"] < 1).all() and np.isfinite(metrics["mean_return"]).all()


def test_a_linear_score_begins_as_the_least_attained_service():
    network = JobScorer(SUSPENDING.window, (), (), suspends=True)
    _, names = unbatched(suspends=True)
    spec = SUSPENDING.observation_spec(params_of(SUSPENDING))
    weights = network.init(jax.random.key(0), spec.zeros())
    observation = jax.random.uniform(jax.random.key(1), spec.shape)
    jobs = observation[-SUSPENDING.window * len(names) :].reshape(SUSPENDING.window, -1)
    service, runs = (jobs[:, names.index(name)] for name in ("service", "runs"))
    scores = network.apply(weights, observation)
    np.testing.assert_allclose(scores[:-1], 0.1 * runs - service, rtol=1e-5, atol=1e-6)


def test_the_searched_weights_play_another_window():
    env = replace(SUSPENDING, window=WIDE.window)
    policy = by_scores("searched", JobScorer(env.window, suspends=True, **SIZES).apply)
    episodes, key, weights = jnp.arange(TABLES), jax.random.key(0), searched()[1]
    outcome = jax.device_get(
        run_episodes(env, policy, job_recorder(env), params_of(env), episodes, key, weights)
    )
    assert outcome.finished.all() and outcome.records["preemptions"].sum() > 0
    jct = outcome.records["finish"] - outcome.records["submit"]
    np.testing.assert_allclose(outcome.episode_return, -jct.mean(axis=1) / 3600, rtol=1e-4)
