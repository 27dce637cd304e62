"""DL2: the backlog reward adds up to completion times, and look-ahead on it is never worse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.look_ahead import look_ahead
from jaxsched.core.monte_carlo import LookAhead, Weights, look_ahead_params
from jaxsched.core.policies import uniform_legal
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, registry
from tests.instances import dl2, dl2_tables

SYSTEM = registry.get("dl2")
PLAIN = functions.environment(SYSTEM, num_servers=2, window=3, max_slots=60)
ENV = SYSTEM.training.planning(PLAIN)
EPISODES = jnp.arange(9)


@pytest.fixture(scope="module")
def params():
    return ENV.params([table for seed in range(3) for table in dl2_tables(seed)])


def played(env, policy, params, weights=()):
    """Returns ``[E]``, and the mean times from the first slot of each job to its end (slots)."""
    recorder, key = SYSTEM.log.recorder(env), jax.random.key(0)
    outcome = run_episodes(env, policy, recorder, params, EPISODES, key, weights)
    metrics = SYSTEM.log.metrics(env, params, np.asarray(EPISODES), outcome.records)
    submit = np.asarray(params.jobs.submit_time)
    rounded_up = -(-submit // env.slot_seconds) * env.slot_seconds
    real = np.arange(submit.shape[1]) < np.asarray(params.jobs.num_jobs)[:, None]
    wait = np.where(real, rounded_up - submit, 0).sum(axis=1) / real.sum(axis=1)
    spent = (metrics["avg_jct"] - wait) / env.slot_seconds * real.sum(axis=1)
    assert np.array_equal(metrics["finished"], real.sum(axis=1))
    return np.asarray(outcome.episode_return), spent


def test_backlogs_add_up_to_completion_times(params):
    found, spent = played(ENV, uniform_legal(), params)
    assert np.allclose(found, -spent, rtol=1e-4)


def test_clairvoyant_look_ahead_on_whole_slots_is_never_worse_than_its_base(params):
    names = ("drf", "probe", "srtf")
    heuristics = [functions.heuristic(SYSTEM, name, ENV, 7, {}) for name in names]
    env = heuristics[0].env
    base, *rivals = (heuristic.policy for heuristic in heuristics)
    policy = look_ahead(env, base, LookAhead(futures=0), "clairvoyant", tuple(rivals))
    plain, spent = played(env, base, params)
    better, less = played(env, policy, params, Weights((), look_ahead_params(margin=0.0)))
    assert np.all(better >= plain - 1e-3) and np.sum(better > plain + 0.01) >= 3
    assert np.all(less <= spent + 1e-3)


def test_backlog_is_of_one_slot():
    with pytest.raises(JaxschedError, match="reward is 'backlog'; accepted with assign_bundle"):
        functions.environment(SYSTEM, assign_bundle=True, reward="backlog")
    known = "progress, epochs, backlog, presence"
    with pytest.raises(JaxschedError, match=f"reward is 'fee'; accepted: {known}"):
        functions.environment(SYSTEM, reward="fee")
    bundles = dl2(assign_bundle=True).env
    assert SYSTEM.training.planning(bundles) == bundles
