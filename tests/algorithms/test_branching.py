"""Policy iteration by branching, on the wager: what waiting is worth is hidden from the policy."""

from dataclasses import replace
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.branching import advantage, branching
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.core import training
from jaxsched.core.look_ahead import Branches
from jaxsched.errors import JaxschedError
from jaxsched.networks.mlp import MLP, ValueMLP
from jaxsched.types import Rollout
from tests import probes
from tests.probes import Always, Wager, wager

ENV = Wager()
PRIZES = np.tile([0.0, 4.0], 8)  # 2 on average
CONFIG = BranchingConfig(
    total_updates=30, futures=16, capacity=64, batch_size=32, learning_rate=0.05
)
LOOP = training.LoopConfig(num_envs=16, rollout_length=2, num_updates=30)
MASK = jnp.ones((1, 3), bool)


VALUE = ValueMLP(())


@cache
def learner(value=None, **changes):
    return branching(MLP(3, ()), replace(CONFIG, critic=value is not None, **changes), value)


def trained(params, updates=30, **changes):
    """State after some updates, and the metrics of each."""
    carry = training.init(ENV, learner(**changes), LOOP, jax.random.key(0), params)
    return probes.updated(ENV, learner(**changes), LOOP, carry, params, updates)


def kernel_of(params):
    return np.asarray(params["params"]["head"]["kernel"])


def first_action(state, **changes):
    observation = jax.nn.one_hot(jnp.array([0]), 3)
    action, _ = learner(**changes).act(state, observation, MASK, jax.random.key(0), greedy=True)
    return int(action[0])


@pytest.mark.parametrize(("sure", "best"), [(1.0, 1), (3.0, 0)])
def test_it_waits_where_waiting_is_worth_more_on_average(sure, best):
    """No reward is in the rollouts of who takes the sure sum that would tell."""
    state, metrics = trained(wager(PRIZES, sure=sure))
    assert first_action(state) == best
    assert float(metrics["gain"][-1]) == pytest.approx(0.0, abs=0.3)


def test_the_true_future_makes_no_clairvoyant_of_a_policy_that_cannot_see_it():
    state, metrics = trained(wager(PRIZES, sure=1.5), futures=0)
    assert first_action(state, futures=0) == 1
    assert float(metrics["better"].mean()) > 0.05  # taking is better where the prize is 0


def test_a_horizon_before_the_prize_makes_it_myopic():
    state, _ = trained(wager(PRIZES), horizon_s=20.0)
    assert first_action(state, horizon_s=20.0) == 0


def test_values_are_those_of_the_alternatives():
    """Two stages: the sure sum, the mean prize by waiting, nothing by leaving."""
    params = wager(np.full(16, 4.0))
    state, _ = trained(params, updates=1)
    undecided = np.asarray(state.kept.observation)[:16, 0] == 1
    worth = np.array([1.0, 4.0, 0.0])
    for action, value in zip(
        np.asarray(state.kept.action)[:16][undecided],
        np.asarray(state.kept.value)[:16][undecided],
        strict=True,
    ):
        np.testing.assert_allclose(value, worth[action])
    assert undecided.any() and state.filled == 16 and state.next == 16


def test_the_oldest_states_give_way():
    state, _ = trained(wager(PRIZES), updates=6)
    assert int(state.filled) == 64 and int(state.next) == 96 % 64


def test_few_alternatives_may_be_drawn():
    state, _ = trained(wager(PRIZES), alternatives=2)
    assert state.kept.value.shape == (64, 2)
    assert first_action(state, alternatives=2) == 1


def test_exploration_takes_other_actions():
    state, _ = trained(wager(PRIZES), updates=1, exploration=1.0)
    many = jnp.ones((3000, 3), bool).at[:, 2].set(False)
    observation = jax.nn.one_hot(jnp.zeros(3000, int), 3)
    action, _ = learner(exploration=1.0).act(
        state, observation, many, jax.random.key(1), greedy=False
    )
    assert np.bincount(action, minlength=3)[:2].min() > 1300 and not np.any(action == 2)


def test_advantages_are_relative_clipped_and_legal():
    value = jnp.array([[-4.0, -2.0, -20.0, 5.0]])
    found = Branches((), (), jnp.array([[True, True, True, False]]), value)
    np.testing.assert_allclose(advantage(found, 0.0, np.inf), [[0.0, 2.0, -16.0, 0.0]])
    np.testing.assert_allclose(advantage(found, 1.0, np.inf), [[0.0, 0.5, -4.0, 0.0]])
    np.testing.assert_allclose(advantage(found, 0.5, 2.0), [[0.0, 1.0, -2.0, 0.0]])


def test_one_gradient_step_by_hand():
    """With one state kept: the softmax policy gradient of the known advantages."""
    one = learner(batch_size=1, gradient_steps=1, max_gradient_norm=None, capacity=16)
    params = {"params": {"head": {"kernel": jnp.zeros((3, 3)), "bias": jnp.zeros(3)}}}
    state = one.init(jax.random.key(0), ENV.specs(wager(PRIZES)), params)
    found = Branches(
        observation=jnp.tile(jax.nn.one_hot(jnp.array([0]), 3), (16, 1)),
        action=jnp.tile(jnp.array([[0, 2, 1]]), (16, 1)),
        legal=jnp.ones((16, 3), bool),
        value=jnp.tile(jnp.array([[1.0, 0.0, 4.0]]), (16, 1)),
    )
    rollout = Rollout(*[()] * 10, branches=found)
    after, metrics = probes.update(one, state, rollout, jax.random.key(0))
    # p = 1/3 each, advantages 0, -1, 3 of actions 0, 2, 1: their mean is 2/3.
    assert float(metrics["gained"]) == pytest.approx(2 / 3)
    bias = np.asarray(after.params.policy["params"]["head"]["bias"])
    np.testing.assert_allclose(np.sign(bias), [-1.0, 1.0, -1.0])
    np.testing.assert_allclose(np.abs(bias), 0.05, rtol=1e-3)  # the first step of Adam
    assert float(metrics["better"]) == 0.5 and float(metrics["gain"]) == 3.0


def test_plays_that_stop_before_the_prize_are_closed_by_what_it_is_worth():
    """Without a critic who plays one step sees the sure sum alone."""
    params = wager(PRIZES, sure=1.0)
    plays = {"max_steps": 1, "exploration": 0.5, "value_learning_rate": 0.2}
    myopic, _ = trained(params, **plays)
    state, _ = trained(params, value=VALUE, **plays)
    assert first_action(myopic, **plays) == 0
    assert first_action(state, value=VALUE, **plays) == 1
    values = VALUE.apply(state.params.value, jnp.eye(3))
    np.testing.assert_allclose(state.scale.outward(values)[:2], [2.0, 2.0], atol=0.6)


def test_what_is_beyond_a_play_is_discounted_and_ends_with_the_episode():
    """By hand: V is 3 wherever it is asked, and plays of two steps know that the prize is 4."""
    params = wager(np.full(16, 4.0))
    plays = {"updates": 1, "value": Always(3.0), "exploration": 1.0, "discount_s": 50.0}
    for max_steps, waited in ((1, 3.0), (2, 4.0)):
        state, _ = trained(params, max_steps=max_steps, **plays)
        undecided = np.asarray(state.kept.observation)[:16, 0] == 1
        worth = np.array([1.0, waited, 0.0])
        action, value = np.asarray(state.kept.action)[:16], np.asarray(state.kept.value)[:16]
        np.testing.assert_allclose(value[undecided], worth[action[undecided]])
        np.testing.assert_allclose(value[~undecided], 4.0)  # paid at once, then it is over
        assert undecided.any() and not undecided.all()


def test_the_critic_alone_learns_at_first():
    params = wager(PRIZES)
    first, _ = trained(params, updates=4, value=VALUE, max_steps=1, critic_updates=4)
    later, _ = trained(params, updates=5, value=VALUE, max_steps=1, critic_updates=4)
    start, _ = trained(params, updates=1, value=VALUE, max_steps=1, critic_updates=4)
    chex.assert_trees_all_equal(first.params.policy, start.params.policy)
    assert not np.array_equal(*map(kernel_of, (first.params.value, start.params.value)))
    assert not np.array_equal(*map(kernel_of, (first.params.policy, later.params.policy)))


def test_without_a_critic_the_policy_learns_from_the_first_update():
    params = wager(PRIZES)
    waits, _ = trained(params, updates=1, critic_updates=4)
    plain, _ = trained(params, updates=1)
    chex.assert_trees_all_equal(waits.params, plain.params)


@pytest.mark.parametrize(
    "changes",
    [
        {"total_updates": 0},
        {"futures": 1},
        {"relative": 2.0},
        {"clip": 0.0},
        {"exploration": -1.0},
        {"critic_updates": -1},
    ],
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(JaxschedError, match=rf"{next(iter(changes))} is"):
        replace(CONFIG, **changes)


def test_more_environments_than_states_kept_are_refused():
    with pytest.raises(JaxschedError, match="num_envs is 16; .* at most 8 .the states kept"):
        training.init(ENV, learner(capacity=8), LOOP, jax.random.key(0), wager(PRIZES))


def test_a_critic_needs_a_network():
    with pytest.raises(JaxschedError, match="critic is true; it must be false without a network"):
        branching(MLP(3, ()), replace(CONFIG, critic=True))
