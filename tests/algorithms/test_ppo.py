"""PPO finds known values, learns grouped bandits, and clips what it should."""

from functools import cache, partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.agents import softmax_agents
from jaxsched.algorithms.critics import action_value
from jaxsched.algorithms.ppo import Extras, PPOConfig, mappo, ppo
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.types import Rollout
from tests import probes
from tests.probes import NUM_ACTIONS, Grouped, Probe

UPDATES = 120
LOOP = training.LoopConfig(num_envs=8, rollout_length=4, num_updates=UPDATES)
POLICY = nn.Dense(NUM_ACTIONS, use_bias=False)


class Value(nn.Module):
    """A table of values of one-hot observations."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1, use_bias=False)(x)[..., 0]


@cache
def learner_of(**changes):
    settings = {
        "total_updates": UPDATES,
        "num_minibatches": 2,
        "learning_rate": 0.1,
        "final_learning_rate": 1e-3,
        "entropy_end": 0.0,
    }
    return ppo(POLICY, Value(), PPOConfig(**settings | changes))


def with_hyper(state, **hyper):
    hyper = {name: jnp.float32(value) for name, value in hyper.items()}
    return state._replace(hyper=state.hyper._replace(**hyper))


def train(learner, params, *lengths, env, seed=0, loop=LOOP, **hyper):
    carry = training.init(env, learner, loop, jax.random.key(seed), params)
    carry = carry._replace(learner_state=with_hyper(carry.learner_state, **hyper))
    parts = []
    for length in lengths or (UPDATES,):
        carry, metrics = training.chunk(env, learner, loop, carry, params, num_updates=length)
        parts.append(jax.device_get(metrics))
    metrics = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    assert all(np.isfinite(value).all() for value in metrics.values())
    return carry.learner_state, metrics


CUT = probes.process(
    observation=probes.CONSTANT, reward=1.0, elapsed_s=1.0, first=(1, 1), truncates=True
)


@pytest.mark.parametrize(
    ("process", "gamma", "expected"),
    [
        (probes.observed_reward(), 0.9, {1: 1, 2: -1}),
        (probes.timed_reward(), 0.5, {0: 0.5, 1: 1, 2: 1}),
        (probes.process(reward=1.0, elapsed_s=1.0), 0.5, {0: 1.75, 1: 1.5, 2: 1}),
        (CUT, 0.5, {0: 2}),
    ],
    ids=["observed", "groups", "termination", "truncation"],
)
def test_values(process, gamma, expected):
    state, metrics = train(learner_of(), process, env=Probe(), gamma=gamma)
    values = np.asarray(Value().apply(state.params.value, process.observation))
    for number, value in expected.items():
        np.testing.assert_allclose(values[number], value, atol=0.05)


def test_discount_by_time_and_scaled_rewards():
    learner = learner_of(horizon_s=7200.0, reward_scale=2.0)
    process = probes.timed_reward()
    state, metrics = train(learner, process, env=Probe())
    values = np.asarray(Value().apply(state.params.value, process.observation))
    np.testing.assert_allclose(values[:3], [2 * np.exp(-0.5), 2, 2], atol=0.1)
    assert metrics["explained_variance"][-1] > 0.9


def test_values_of_a_window():
    # Three steps of a second, reward 1 each: the window of a second takes in the next step only.
    process = probes.process(reward=1.0, elapsed_s=1.0)
    loop = training.LoopConfig(num_envs=8, rollout_length=3, num_updates=UPDATES)
    state, metrics = train(
        learner_of(return_span_s=9.0), process, env=Probe(), loop=loop, gamma=0.5, return_span_s=1.0
    )
    values = np.asarray(Value().apply(state.params.value, process.observation))
    np.testing.assert_allclose(values[:3], [1.5, 1.5, 1], atol=0.05)
    np.testing.assert_allclose(metrics["target_mean"], 4 / 3, rtol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"normalise_advantages": False}])
def test_the_better_action_of_each_decision_of_a_group_is_learnt(changes):
    state, metrics = train(learner_of(**changes), probes.grouped_pay(), env=Grouped())
    logits = POLICY.apply(state.params.policy, jnp.eye(3))[:, :2]
    assert np.all(jax.nn.softmax(logits)[:, 1] > 0.95)
    assert metrics["reward_mean"][-1] > 0.9
    np.testing.assert_allclose(
        metrics["learning_rate"], 0.1 - 0.099 * np.arange(UPDATES) / UPDATES, rtol=1e-4
    )


def test_chunks_give_the_same_bits():
    whole = train(learner_of(), probes.grouped_pay(), 4, env=Grouped())
    parts = train(learner_of(), probes.grouped_pay(), 2, 2, env=Grouped())
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


def test_seeds_under_vmap():
    learner, params, env = learner_of(), probes.grouped_pay(), Grouped()
    keys = jax.random.split(jax.random.key(0), 2)
    carry = training.init(env, learner, LOOP, keys, params)
    before = np.asarray(carry.learner_state.params.policy["params"]["kernel"])
    rates = jnp.array([0.0, 0.1])
    state = carry.learner_state
    hyper = state.hyper._replace(learning_rate=rates, final_learning_rate=jnp.copy(rates))
    carry = carry._replace(learner_state=state._replace(hyper=hyper))
    carry, _ = training.chunk(env, learner, LOOP, carry, params, num_updates=3)
    after = np.asarray(carry.learner_state.params.policy["params"]["kernel"])
    np.testing.assert_array_equal(before[0], after[0])
    assert np.abs(before[1] - after[1]).max() > 0.05


def begin(learner, params=None):
    return learner.init(jax.random.key(0), Grouped().specs(probes.grouped_pay()), params)


def test_extras_are_the_log_probability_and_the_value():
    learner = learner_of()
    policy = {"params": {"kernel": jnp.tile(jnp.array([0.0, np.log(3), 99.0]), (3, 1))}}
    state = begin(learner, policy)
    assert learner.policy_params(state) is policy
    observation = jnp.tile(jnp.eye(3)[:1], (4000, 1))
    mask = jnp.tile(jnp.arange(3) < 2, (4000, 1))
    action, extras = learner.act(state, observation, mask, jax.random.key(1), greedy=False)
    count = np.bincount(action, minlength=3)
    assert count[2] == 0
    assert abs(count[1] - 3000) < 4 * np.sqrt(750)
    expected = np.log(np.array([0.25, 0.75]))[np.asarray(action)]
    np.testing.assert_allclose(extras.log_prob["action"][:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(extras.value, Value().apply(state.params.value, observation))
    greedy, _ = learner.act(state, observation[:2], mask[:2], jax.random.key(1), greedy=True)
    np.testing.assert_array_equal(greedy, [1, 1])


def rollout_of(log_prob, value):
    """Four decisions, each its own episode with reward 1, -1, 1, -1, of action 0 of two."""
    mask = jnp.ones((4, 1, 3), bool).at[..., 2].set(False)
    reward = jnp.array([1.0, -1, 1, -1])[:, None]
    return Rollout(
        observation=jnp.ones((4, 1, 3)),
        mask=mask,
        action=jnp.zeros((4, 1), jnp.int32),
        reward=reward,
        terminated=jnp.ones((4, 1), bool),
        truncated=jnp.zeros((4, 1), bool),
        elapsed=jnp.ones((4, 1)),
        next_observation=jnp.full((4, 1, 3), 7.0),
        next_mask=mask,
        extras=Extras(
            {"action": jnp.asarray(log_prob)[:, None, None]}, jnp.asarray(value)[:, None]
        ),
    )


ONE_STEP = {
    "epochs": 1,
    "num_minibatches": 1,
    "normalise_advantages": False,
    "max_gradient_norm": None,
}
LEVEL = {"params": {"kernel": jnp.zeros((3, 3))}}  # both legal actions equally likely


def test_losses_by_hand():
    learner = learner_of(**ONE_STEP)
    ratio = np.array([2.0, 2.0, 0.5, 0.5])
    old_value = jnp.array([0.5, 0.5, 0.0, 0.0])
    state = with_hyper(begin(learner, LEVEL), entropy_start=0.1)
    value = {"params": {"Dense_0": {"kernel": jnp.full((3, 1), 1 / 3)}}}
    state = state._replace(params=state.params._replace(value=value))
    rollout = rollout_of(np.log(0.5) - np.log(ratio), old_value)
    after, metrics = probes.update(learner, state, rollout, jax.random.key(0))
    # Advantages 0.5, -1.5, 1, -1; ratios clipped to 1.2 and 0.8 where that lowers the gain.
    gain = np.mean([1.2 * 0.5, 2.0 * -1.5, 0.5 * 1, 0.8 * -1])
    np.testing.assert_allclose(metrics["policy_loss"], -gain, rtol=1e-5)
    error = np.mean([0, (-1 - 1) ** 2, 0, (-1 - 1) ** 2])  # the value is 1 now
    np.testing.assert_allclose(metrics["value_loss"], error, rtol=1e-5)
    np.testing.assert_allclose(metrics["entropy"], np.log(2), rtol=1e-5)
    np.testing.assert_allclose(metrics["approx_kl"], np.mean(ratio - 1 - np.log(ratio)), rtol=1e-5)
    assert float(metrics["clip_share"]) == 1
    # Only the second and third push: d(ratio * A)/d logit_0 = ratio * A * (1 - 1/2), mean of 4.
    slope = (2.0 * -1.5 + 0.5 * 1) * 0.5 / 4
    found = after.optimiser.policy.mu["params"]["kernel"]
    np.testing.assert_allclose(found, 0.1 * np.array([[-slope, slope, 0]] * 3), rtol=1e-4)


def test_a_window_longer_than_the_rollout_is_lambda_one():
    rollout = rollout_of(np.full(4, np.log(0.5)), np.zeros(4))
    ends = jnp.array([0, 1, 0, 0], bool)[:, None]
    rollout = rollout._replace(terminated=ends, elapsed=jnp.array([0.0, 60, 60, 60])[:, None])
    kernel = {"params": {"Dense_0": {"kernel": jnp.full((3, 1), 1 / 3)}}}

    def after(**changes):
        learner = learner_of(**ONE_STEP | {"gamma_per": "step"} | changes)
        state = begin(learner, LEVEL)
        state = state._replace(params=state.params._replace(value=kernel))
        return probes.update(learner, state, rollout, jax.random.key(0))

    (whole, facts), (wide, same) = after(lambda_=1.0), after(return_span_s=3600.0)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), facts, same)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), whole.params, wide.params)
    # Returns 1 - 0.99, -1, then 1 - 0.99 + 0.99**2 * 7 and -1 + 0.99 * 7, values of sum(7) / 3.
    expected = [0.01, -1, 0.01 + 0.99**2 * 7, -1 + 0.99 * 7]
    np.testing.assert_allclose(same["target_mean"], np.mean(expected), rtol=1e-5)
    # Seconds count for the window although discounts count steps.
    _, narrow = after(return_span_s=30.0)
    np.testing.assert_allclose(narrow["target_mean"], np.mean([0.01, -1, 1, -1]), atol=1e-5)


def test_gradients_are_clipped_to_their_norm():
    rollout = rollout_of(np.full(4, np.log(0.5)), np.array([0.0, 1, 2, 5]))
    norms = []
    for limit in (None, 0.05):
        learner = learner_of(**ONE_STEP | {"max_gradient_norm": limit})
        after, metrics = probes.update(learner, begin(learner, LEVEL), rollout, jax.random.key(0))
        moments = jax.tree.leaves(after.optimiser.policy)
        kernel = next(x for x in moments if x.shape == (3, 3))
        norms.append(float(jnp.linalg.norm(kernel)) * 10)
        assert float(metrics["gradient_norm"]) > 0.1
    np.testing.assert_allclose(norms[0], metrics["gradient_norm"], rtol=1e-4)
    np.testing.assert_allclose(norms[1], 0.05, rtol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": 0},
        {"num_minibatches": 0},
        {"lambda_": 1.5},
        {"clip": 0.0},
        {"return_span_s": 0.0},
    ],
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(JaxschedError, match=f"PPOConfig.{next(iter(changes))}"):
        PPOConfig(**{"total_updates": 1} | changes)


def test_minibatches_must_divide_the_rollout():
    learner = learner_of(**ONE_STEP | {"num_minibatches": 3})
    loop = training.LoopConfig(num_envs=2, rollout_length=2, num_updates=1)
    with pytest.raises(JaxschedError, match="is 4; .* a multiple of 3 .3 num_minibatches"):
        training.init(Probe(), learner, loop, jax.random.key(0), probes.ending())


def test_a_window_takes_a_state_value():
    agents = softmax_agents(POLICY)
    with pytest.raises(
        JaxschedError, match="return_span_s is 60.0; it must be None for an action value"
    ):
        mappo(agents, action_value(Value(), agents), PPOConfig(1, return_span_s=60.0))


def test_only_choices_count():
    """A step with one legal action leaves the loss, the entropy and the advantages' mean."""
    every, choices = softmax_agents(POLICY), softmax_agents(POLICY, only_choices=True)
    params = POLICY.init(jax.random.key(0), jnp.eye(3))
    mask = jnp.array([[[True, True, True], [False, True, False]]])
    arguments = params, jnp.eye(3)[None, :2], mask, jnp.array([[0, 1]])
    np.testing.assert_array_equal(every.evaluate(*arguments).active["action"], [[[True], [True]]])
    np.testing.assert_array_equal(
        choices.evaluate(*arguments).active["action"], [[[True], [False]]]
    )
