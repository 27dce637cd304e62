"""Elites are those of the paper's rule, only they teach, and they teach what they did."""

from dataclasses import replace
from functools import cache

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.cross_entropy import CrossEntropyConfig, choose_elites, cross_entropy
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.types import Rollout
from jaxsched.wrappers.fixed_length import FixedLength
from tests import probes
from tests.probes import Grouped

ENV = FixedLength(Grouped(), 8)  # episodes of 6 decisions and 2 steps of padding
PAY = probes.grouped_pay()
NETWORK = nn.Dense(3, use_bias=False)


class Dropping(nn.Module):
    """Half of the inputs are dropped in training."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(3, use_bias=False)(nn.Dropout(0.5)(x, deterministic=not train))


@cache
def learner_of(network=NETWORK, **changes):
    return cross_entropy(network, CrossEntropyConfig(**changes))


def rollout_of(returns, steps=4, seed=0):
    """Columns with the given sums of rewards."""
    rng = np.random.default_rng(seed)
    batch = len(returns)
    reward = rng.normal(size=(steps, batch))
    reward[-1] += np.asarray(returns) - reward.sum(0)
    mask = np.ones((steps, batch, 3), bool)
    mask[..., 2] = False
    mask[-1] = [False, False, True]  # padding: no choice
    action = rng.integers(0, 2, (steps, batch))
    action[-1] = 2
    return Rollout(
        observation=jnp.asarray(rng.normal(size=(steps, batch, 3)), jnp.float32),
        mask=jnp.asarray(mask),
        action=jnp.asarray(action),
        reward=jnp.asarray(reward, jnp.float32),
        terminated=jnp.zeros((steps, batch), bool).at[-1].set(True),
        truncated=jnp.zeros((steps, batch), bool),
        elapsed=(),
        next_observation=(),
        next_mask=(),
        extras=(),
    )


def begin(learner, params=None):
    return learner.init(jax.random.key(0), ENV.specs(PAY), params)


RETURNS = np.random.default_rng(1).permutation(36) * 10.0


def test_thirteen_of_thirty_six():
    config = CrossEntropyConfig()
    assert (config.batch, config.rank) == (36, 24)
    found = choose_elites(rollout_of(RETURNS), config.rank)
    np.testing.assert_allclose(found.bound, 230, rtol=1e-5)  # the 24th of 0, 10, 20, ...
    np.testing.assert_array_equal(found.elite, RETURNS >= 230)
    assert int(found.elite.sum()) == 13


def test_ties_at_the_bound_are_elite():
    reward = jnp.asarray(np.sort(RETURNS)).at[20:24].set(230.0)[None]
    rollout = rollout_of(RETURNS, steps=1)._replace(reward=reward)
    assert int(choose_elites(rollout, 24).elite.sum()) == 16


def test_incomplete_trajectories_rank_last_and_are_never_elite():
    rollout = rollout_of(RETURNS)
    best = np.argsort(RETURNS)[-5:]
    rollout = rollout._replace(terminated=rollout.terminated.at[-1, best].set(False))
    found = choose_elites(rollout, 24)
    np.testing.assert_allclose(found.bound, 180, rtol=1e-5)  # five fewer above
    np.testing.assert_array_equal(found.elite, (RETURNS >= 180) & (RETURNS < 310))
    # Where most are incomplete all others are elite.
    rollout = rollout._replace(terminated=rollout.terminated.at[-1, 3:].set(False))
    few = choose_elites(rollout, 24)
    np.testing.assert_array_equal(few.elite, rollout.terminated[-1])
    np.testing.assert_allclose(few.bound, RETURNS[few.elite].min(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rho", "num", "rank"), [(0.3, 35, 24), (0.3, 30, 21), (0.9, 10, 1), (0.99, 10, 1)]
)
def test_rank_of_the_bound(rho, num, rank):
    assert CrossEntropyConfig(num_trajectories=num, rho=rho).rank == rank
    assert CrossEntropyConfig(num_trajectories=num, rho=rho, bound_rank=7).rank == 7


def loss_by_hand(params, rollout, elite):
    logits = NETWORK.apply(params, rollout.observation[:-1][:, elite])[..., :2]
    scores = jax.nn.log_softmax(logits)
    action = rollout.action[:-1][:, elite]
    return -jnp.mean(jnp.take_along_axis(scores, action[..., None], -1))


@pytest.mark.parametrize("decisions_per_pass", [4096, 7])
def test_gradient_is_that_of_the_elites_alone(decisions_per_pass):
    learner = learner_of(decisions_per_pass=decisions_per_pass)
    rollout, state = rollout_of(RETURNS), begin(learner)
    after, metrics = jax.jit(learner.update)(state, rollout, jax.random.key(0))
    loss, gradient = jax.value_and_grad(loss_by_hand)(state.params, rollout, RETURNS >= 230)
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
    kernel = gradient["params"]["kernel"]
    np.testing.assert_allclose(after.optimiser.mu["params"]["kernel"], 0.1 * kernel, rtol=1e-4,
        atol=1e-7)  # fmt: skip
    # Adam's first step is the learning rate against the sign of the gradient.
    step = after.params["params"]["kernel"] - state.params["params"]["kernel"]
    np.testing.assert_allclose(step[:, :2], -0.01 * np.sign(kernel[:, :2]), rtol=1e-3)
    assert float(metrics["elite_decisions"]) == 3 * 13  # padding does not count
    np.testing.assert_allclose(metrics["elite_share"], 13 / 36, rtol=1e-6)
    np.testing.assert_allclose(metrics["mean_return"], 175, rtol=1e-4)
    np.testing.assert_allclose(metrics["bound"], 230, rtol=1e-5)
    assert float(metrics["incomplete"]) == 0


def test_smoothing_goes_part_of_the_way():
    rollout, kernels = rollout_of(RETURNS), []
    for alpha in (1.0, 0.25, 0.0):
        state = begin(learner_of(inner_steps=3))
        state = state._replace(hyper=state.hyper._replace(alpha=jnp.float32(alpha)))
        after, _ = probes.update(learner_of(inner_steps=3), state, rollout, jax.random.key(0))
        kernels.append(np.asarray(after.params["params"]["kernel"]))
    whole, part, none = kernels
    np.testing.assert_array_equal(none, state.params["params"]["kernel"])
    np.testing.assert_allclose(part - none, 0.25 * (whole - none), rtol=1e-3, atol=1e-6)
    assert np.abs(whole - none).max() > 0.02


def test_without_elites_nothing_changes():
    learner = learner_of()
    rollout = rollout_of(RETURNS)
    state, _ = probes.update(
        learner, begin(learner), rollout, jax.random.key(0)
    )  # so Adam has momentum
    cut = rollout._replace(terminated=jnp.zeros_like(rollout.terminated))
    after, metrics = probes.update(learner, state, cut, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, after[:2], state[:2])
    assert all(np.isfinite(value) for value in metrics.values())
    assert float(metrics["incomplete"]) == 1
    assert float(metrics["elite_share"]) == 0


def test_dropout_acts_in_updates_only():
    learner = learner_of(Dropping(), dropout=True)
    rollout, state = rollout_of(RETURNS), begin(learner)
    one, other = (
        probes.update(learner, state, rollout, jax.random.key(k))[1]["loss"] for k in (0, 1)
    )
    assert abs(float(one) - float(other)) > 1e-4
    observation = jax.random.normal(jax.random.key(2), (36, 3))
    mask = jnp.ones((36, 3), bool)
    greedy = [learner.act(state, observation, mask, jax.random.key(k), True)[0] for k in (0, 1)]
    np.testing.assert_array_equal(*greedy)
    plain = learner_of(Dropping())
    losses = [probes.update(plain, state, rollout, jax.random.key(k))[1]["loss"] for k in (0, 1)]
    assert float(losses[0]) == float(losses[1])


def test_first_columns_are_uniform_and_the_others_follow_the_policy():
    learner = learner_of(num_trajectories=4000, num_uniform=4000)
    kernel = jnp.tile(jnp.array([0.0, np.log(9), 99.0]), (3, 1))
    policy = {"params": {"kernel": kernel}}
    state = begin(learner, policy)
    assert learner.policy_params(state) is policy
    observation = jnp.tile(jnp.eye(3)[:1], (8000, 1))
    mask = jnp.tile(jnp.arange(3) < 2, (8000, 1))
    action, extras = learner.act(state, observation, mask, jax.random.key(1), greedy=False)
    uniform, policy = np.asarray(action)[:4000], np.asarray(action)[4000:]
    assert abs((uniform == 1).sum() - 2000) < 4 * np.sqrt(1000)
    assert abs((policy == 1).sum() - 3600) < 4 * np.sqrt(360)
    assert action.max() == 1
    assert extras == ()
    greedy, _ = learner.act(state, observation[:2], mask[:2], jax.random.key(1), greedy=True)
    np.testing.assert_array_equal(greedy, 1)


LOOP = training.LoopConfig(num_envs=36, rollout_length=8, num_updates=40)


def train(*lengths, seed=0):
    learner = learner_of(learning_rate=0.1)
    carry = training.init(ENV, learner, LOOP, jax.random.key(seed), PAY)
    parts = []
    for length in lengths:
        carry, metrics = training.chunk(ENV, learner, LOOP, carry, PAY, num_updates=length)
        parts.append(jax.device_get(metrics))
    return carry.learner_state, jax.tree.map(lambda *x: np.concatenate(x), *parts)


def test_the_better_action_is_learnt():
    state, metrics = train(40)
    logits = NETWORK.apply(state.params, jnp.eye(3))[:, :2]
    assert np.all(jax.nn.softmax(logits)[:, 1] > 0.95)
    assert metrics["mean_return"][0] < 4 < 5.5 < metrics["mean_return"][-1]
    np.testing.assert_array_equal(metrics["incomplete"], 0)


def test_chunks_give_the_same_bits():
    jax.tree.map(np.testing.assert_array_equal, train(4), train(2, 2))


def test_seeds_under_vmap():
    learner = learner_of(learning_rate=0.1)
    keys = jnp.stack([jax.random.key(0), jax.random.key(1)])
    carry = training.init(ENV, learner, LOOP, keys, PAY)
    carry, metrics = training.chunk(ENV, learner, LOOP, carry, PAY, num_updates=4)
    for seed in range(2):
        alone, expected = train(4, seed=seed)
        kernel = carry.learner_state.params["params"]["kernel"][seed]
        np.testing.assert_allclose(kernel, alone.params["params"]["kernel"], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(metrics["loss"][seed], expected["loss"], rtol=1e-3)


def test_gradients_take_little_memory():
    """Long padded episodes need a pass at a time, not all decisions at once."""
    steps, batch, width = 1024, 36, 256
    network = nn.Sequential((nn.Dense(width), nn.relu, nn.Dense(3)))
    learner = learner_of(network, decisions_per_pass=512)
    rollout = rollout_of(RETURNS, steps=steps)
    state = begin(learner)
    compiled = jax.jit(learner.update).lower(state, rollout, jax.random.key(0)).compile()
    at_once = 4 * steps * batch * width
    assert compiled.memory_analysis().temp_size_in_bytes < at_once / 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_trajectories", 0),
        ("num_uniform", -1),
        ("rho", 1.0),
        ("bound_rank", 37),
        ("bound_rank", 0),
        ("inner_steps", 0),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(JaxschedError, match=f"CrossEntropyConfig.{name} is {value}"):
        CrossEntropyConfig(**{name: value})


def test_another_number_of_environments_is_refused():
    loop = replace(LOOP, num_envs=8)
    with pytest.raises(JaxschedError, match="num_envs is 8; .* equal to 36 .35 num_trajectories"):
        training.init(ENV, learner_of(), loop, jax.random.key(0), PAY)


def test_parts_of_episodes_are_refused():
    loop = replace(LOOP, rollout_length=LOOP.rollout_length - 1)
    with pytest.raises(JaxschedError, match="rollout_length is .*; the learner needs whole episo"):
        training.init(ENV, learner_of(), loop, jax.random.key(0), PAY)
