"""The environment under the replay engine's rules gives the engine's schedules, job by job."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import one_of
from jaxsched.core.recorder import job_recorder
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.environment import SCALE_S
from jaxsched.envs.cluster.heuristics import RULES, rule
from jaxsched.trace_replay import POLICIES, Cluster, Policy, replay_batch
from tests.trace_replay.cases import random_columns

LENGTHS = (40, 40, 40, 33, 40, 7)  # every second table starts at 0, all have ties
CLUSTER = Cluster(3, 4)
WAYS = [("strict", "pack"), ("strict", "first_fit"), ("strict", "load_balance"), ("any", "pack")]
CASES = [(name, *WAYS[0]) for name in RULES] + [
    (name, *way) for name in ("fifo", "sjf", "qssf") for way in WAYS[1:]
]


@cache
def tables():
    return [random_columns(seed, n, CLUSTER.num_gpus) for seed, n in enumerate(LENGTHS)]


@cache
def program(locality, placement):
    """All rules of one way to place as one program; its weights are the number of the rule."""
    env = ClusterJobs(3, 4, max(LENGTHS), locality, placement)
    params, key = env.params(tables()), jax.random.key(0)
    policy = one_of(tuple(rule(env, *options) for options in RULES.values()))
    episodes = jnp.arange(len(LENGTHS))
    return lambda number: jax.device_get(
        run_episodes(env, policy, job_recorder(env), params, episodes, key, number)
    )


@cache
def played(name, locality, placement):
    return program(locality, placement)(jnp.int32(list(RULES).index(name)))


@cache
def replayed(name, locality, placement):
    usual = POLICIES[name]
    policy = Policy(usual.order, usual.mode, placement, locality=locality)
    return replay_batch(tables(), CLUSTER, policy)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_schedules_are_the_engines(case):
    records = played(*case).records
    for episode, expected in enumerate(replayed(*case)):
        here = {
            name: column[episode][: LENGTHS[episode]]
            for name, column in records.items()
            if np.ndim(column) > 1
        }
        np.testing.assert_array_equal(here["submit"], expected.submit)
        np.testing.assert_array_equal(here["start"], expected.start)
        np.testing.assert_array_equal(here["finish"], expected.end)
        np.testing.assert_array_equal(here["num_servers"], expected.num_servers)
        np.testing.assert_array_equal(here["first_server"], expected.first_server)


@pytest.mark.parametrize("case", CASES[:3], ids="-".join)
def test_returns_are_mean_completion_times(case):
    outcome = played(*case)
    means = [-records.jct.mean() / SCALE_S for records in replayed(*case)]
    assert outcome.finished.all()
    np.testing.assert_allclose(outcome.episode_return, means, rtol=1e-4)
