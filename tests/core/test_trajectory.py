"""An episode followed step by step has the records that an evaluation gathers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.trajectory import Some, record_trajectory
from jaxsched.systems import functions
from tests.instances import sched2

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def instance():
    return sched2()


@pytest.fixture(scope="module")
def rule(instance):
    return functions.heuristic(instance.system, "fifo", instance.env, 7, {})


def test_records_are_those_of_an_evaluation(instance, rule):
    recorder = instance.system.log.recorder(rule.env)
    trajectory = record_trajectory(
        rule.env, rule.policy, recorder, instance.params, episode=1, key=KEY
    )
    outcome = run_episodes(
        rule.env, rule.policy, recorder, instance.params, jnp.arange(2, dtype=jnp.int32), KEY
    )
    expected = jax.tree.map(lambda leaf: np.asarray(leaf)[1], outcome.records)
    jax.tree.map(np.testing.assert_array_equal, trajectory.records, expected)
    assert trajectory.ended and trajectory.records.num_started == 5


def test_steps_beyond_the_bound_change_no_record(instance, rule):
    recorder = instance.system.log.recorder(rule.env)
    trajectory = record_trajectory(
        rule.env, rule.policy, recorder, instance.params, key=KEY, most_steps=2
    )
    assert 0 < trajectory.records.num_started <= 2
    assert not trajectory.ended


def of_void(env, step, params):
    """The number of jobs started, after the steps that start none."""
    return Some(step.action == env.window, step.records.num_started)


def test_steps_may_have_nothing_to_keep(instance, rule):
    recorder = instance.system.log.recorder(rule.env)
    trajectory = record_trajectory(
        rule.env, rule.policy, recorder, instance.params, of_void, key=KEY
    )
    there, values = trajectory.moments
    assert there.sum() == len(values) < len(there)
    assert np.all(np.diff(values) >= 0) and values[-1] <= trajectory.records.num_started


def test_an_episode_may_be_followed_past_its_end(instance, rule):
    recorder, count = instance.system.log.recorder(rule.env), 40
    trajectory = record_trajectory(
        rule.env, rule.policy, recorder, instance.params, of_void,
        key=KEY, most_steps=count, past_end=True,
    )  # fmt: skip
    assert len(trajectory.moments.there) == count and not trajectory.ended
