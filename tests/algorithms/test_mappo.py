"""Several agents with a shared critic: known optima, values, copies, sequences, ratios."""

from functools import cache

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.agents import gaussian_agents, sequences
from jaxsched.algorithms.critics import action_value, concatenated, state_value
from jaxsched.algorithms.ppo import Extras, PPOConfig, mappo
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.types import Rollout
from tests import probes
from tests.probes import Dial, Hands, dials

UPDATES = 150
ENV = Dial()
LOOP = training.LoopConfig(num_envs=16, rollout_length=4, num_updates=UPDATES)


class Value(nn.Module):
    """A linear function of features."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1, use_bias=False)(x)[..., 0]


class Quadratic(nn.Module):
    """A linear function of features, their squares and products."""

    @nn.compact
    def __call__(self, x):
        products = (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)
        return nn.Dense(1)(jnp.concatenate([x, products], axis=-1))[..., 0]


def due_in_even_steps(observation, mask):
    return observation[..., 0] + observation[..., 2] > 0


AGENTS = gaussian_agents(Hands(), probes.hands)
PARTLY = gaussian_agents(
    Hands(), lambda o, m: dict.fromkeys(("left", "right"), m & due_in_even_steps(o, m)[..., None])
)._replace(due=due_in_even_steps)


def critic_of(kind, agents=AGENTS):
    if kind == "state":
        return state_value(Value())
    return action_value(Quadratic() if kind == "quadratic" else Value(), agents, copy_every=2)


@cache
def learner_of(kind="state", agents=AGENTS, **changes):
    settings = {
        "total_updates": UPDATES,
        "num_minibatches": 2,
        "learning_rate": 0.03,
        "final_learning_rate": 1e-3,
        "value_learning_rate": 0.1,
        "gamma": 0.5,
        "entropy_start": 0.0,
        "entropy_end": 0.0,
        "gamma_per": "step",
    }
    return mappo(agents, critic_of(kind, agents), PPOConfig(**settings | changes))


def train(learner, params, *lengths, seed=0):
    carry = training.init(ENV, learner, LOOP, jax.random.key(seed), params)
    parts = []
    for length in lengths or (UPDATES,):
        carry, metrics = training.chunk(ENV, learner, LOOP, carry, params, num_updates=length)
        parts.append(jax.device_get(metrics))
    metrics = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    assert all(np.isfinite(value).all() for value in metrics.values())
    return carry.learner_state, metrics


@pytest.mark.parametrize("kind", ["state", "quadratic"], ids=["state value", "action value"])
def test_agents_learn_to_cooperate(kind):
    params = dials(goal=(0.9, -0.6))
    learner = learner_of(kind)
    state, metrics = train(learner, params)
    observation = jax.nn.one_hot(jnp.zeros(1, jnp.int32), 4)
    action, extras = learner.act(
        state, observation, jnp.ones((1, 2), bool), jax.random.key(0), greedy=True
    )
    assert extras == ()
    np.testing.assert_allclose(action["left"][0], [0.3, -0.2], atol=0.08)
    np.testing.assert_allclose(action["right"][0], [[0.3, 0.3], [-0.2, -0.2]], atol=0.08)
    assert metrics["reward_mean"][-10:].mean() > metrics["reward_mean"][:10].mean() / 2
    assert metrics["entropy"][-1] < metrics["entropy"][0]


@pytest.mark.parametrize(
    ("kind", "agents", "changes", "params", "expected"),
    [
        ("state", AGENTS, {}, dials(length=4), [1.875, 1.75, 1.5, 1]),
        ("state", PARTLY, {"gamma_per": "decision"}, dials(length=4), [3, 2, 2, 1]),
        ("state", AGENTS, {"gamma_per": "group"}, dials(length=4, elapsed_s=0), [4, 3, 2, 1]),
        ("action", AGENTS, {}, dials(length=4), [1.875, 1.75, 1.5, 1]),
        ("action", AGENTS, {}, dials(length=4)._replace(truncates=jnp.bool_(True)), [2]),
        ("action", PARTLY, {"gamma_per": "decision"}, dials(length=4), [3, 2, 2, 1]),
    ],
    ids=["steps", "decisions", "groups", "termination", "truncation", "decisions of actions"],
)
def test_values(kind, agents, changes, params, expected):
    learner = learner_of(kind, agents, **changes)
    params = params._replace(base=jnp.float32(1), slope=jnp.float32(0))
    state, _ = train(learner, params)
    observation = jnp.eye(4)[: len(expected)]
    mask = jnp.ones((len(expected), 2), bool)
    values = critic_of(kind, agents).value(state.params, observation, mask)
    np.testing.assert_allclose(values, expected, atol=0.05)


def test_units_without_effect_are_left_alone():
    learner = learner_of(normalise_advantages=False)
    params = dials(active=(True, False))
    before = learner.init(jax.random.split(jax.random.key(0), 3)[0], ENV.specs(params))
    state, _ = train(learner, params, 2)
    moved = jax.tree.map(
        lambda a, b: np.abs(a - b).max(axis=0), before.params.policy, state.params.policy
    )["params"]
    left, right = moved["left"]["kernel"], moved["right"]["kernel"]
    assert left[0] > 0.01
    assert left[1] == 0
    assert right[:2].min() > 0.01
    np.testing.assert_array_equal(right[2:], 0)


def test_copies_are_renewed_every_second_update():
    params = dials()
    learner = learner_of("action")
    first = learner.init(jax.random.split(jax.random.key(0), 3)[0], ENV.specs(params))
    jax.tree.map(np.testing.assert_array_equal, first.copies, first.params)
    one, _ = train(learner, params, 1)
    two, _ = train(learner, params, 1, 1)
    three, _ = train(learner, params, 1, 1, 1)
    jax.tree.map(np.testing.assert_array_equal, one.copies, first.params)
    jax.tree.map(np.testing.assert_array_equal, two.copies, two.params)
    jax.tree.map(np.testing.assert_array_equal, three.copies, two.params)
    for state in (one, three):
        apart = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), state.copies, state.params)
        assert max(jax.tree.leaves(apart)) > 1e-3
    assert learner_of().init(jax.random.key(0), ENV.specs(params)).copies == ()


@pytest.mark.parametrize("kind", ["state", "action"])
def test_chunks_give_the_same_bits(kind):
    params = dials(length=3)
    whole = train(learner_of(kind), params, 2)
    parts = train(learner_of(kind), params, 1, 1)
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


def test_seeds_under_vmap():
    learner, params = learner_of("action"), dials()
    keys = jax.random.split(jax.random.key(0), 2)
    carry = training.init(ENV, learner, LOOP, keys, params)
    before = jax.device_get(carry.learner_state.params.policy["params"]["left"]["kernel"])
    state, rates = carry.learner_state, jnp.array([0.0, 0.05])
    hyper = state.hyper._replace(learning_rate=rates, final_learning_rate=jnp.copy(rates))
    carry = carry._replace(learner_state=state._replace(hyper=hyper))
    carry, _ = training.chunk(ENV, learner, LOOP, carry, params, num_updates=1)
    after = jax.device_get(carry.learner_state.params.policy["params"]["left"]["kernel"])
    np.testing.assert_array_equal(before[0], after[0])
    assert np.abs(before[1] - after[1]).max() > 0.04


def test_sequences_are_consecutive_steps_of_one_environment():
    time, env = jnp.meshgrid(jnp.arange(6), jnp.arange(2), indexing="ij")
    cut_time, cut_env = sequences((time, env), 3)
    np.testing.assert_array_equal(cut_time, [[0, 0, 3, 3], [1, 1, 4, 4], [2, 2, 5, 5]])
    np.testing.assert_array_equal(cut_env, [[0, 1, 0, 1]] * 3)
    np.testing.assert_array_equal(sequences(time, 1), np.repeat(np.arange(6), 2)[None])


ONE_STEP = {
    "epochs": 1,
    "num_minibatches": 1,
    "normalise_advantages": False,
    "max_gradient_norm": None,
}


def rollout_of(learner, state, params, seed=0):
    """Four steps of three environments under the learner's policy."""
    observation = jax.nn.one_hot(jnp.arange(12).reshape(4, 3) % 4, 4)
    mask = jnp.broadcast_to(params.active, (4, 3, 2))
    keys = jax.random.split(jax.random.key(seed), 4)
    action, extras = jax.lax.map(
        lambda x: learner.act(state, *x, greedy=False), (observation, mask, keys)
    )
    ended = jnp.zeros((4, 3), bool).at[1, 0].set(True)
    return Rollout(
        observation=observation,
        mask=mask,
        action=action,
        reward=jax.random.normal(jax.random.key(9), (4, 3)),
        terminated=ended,
        truncated=jnp.zeros((4, 3), bool),
        elapsed=jnp.ones((4, 3)),
        next_observation=jnp.roll(observation, 1, axis=-1),
        next_mask=mask,
        extras=extras,
    )


@pytest.mark.parametrize("kind", ["state", "action"])
def test_sequences_and_rows_give_the_same_gradients(kind):
    params, found = dials(), []
    for length in (None, 2):
        learner = learner_of(kind, **ONE_STEP, sequence_length=length)
        state = learner.init(jax.random.key(0), ENV.specs(params))
        rollout = rollout_of(learner, state, params)
        after, metrics = jax.jit(learner.update)(state, rollout, jax.random.key(1))
        found.append((after.optimiser, metrics))
    for other in found[1:]:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found[0], other)


def test_losses_of_an_action_value_by_hand():
    learner = learner_of("action", **ONE_STEP, lambda_=0.5)
    params = dials()
    state = learner.init(jax.random.key(0), ENV.specs(params))
    other = learner.init(jax.random.key(5), ENV.specs(params)).params
    state = state._replace(copies=other)
    rollout = rollout_of(learner, state, params)
    assert rollout.extras.value == ()
    _, metrics = probes.update(learner, state, rollout, jax.random.key(1))

    def q(weights, observation, action):
        action = jax.tree.map(lambda x: np.clip(x, -3, 3), action)
        left, right = action["left"], np.reshape(action["right"], (12, 4))
        features = np.concatenate([np.reshape(observation, (12, 4)), left, right], axis=-1)
        return (features @ np.asarray(weights["params"]["Dense_0"]["kernel"])).reshape(4, 3)

    def means(observation):
        rows = np.reshape(observation, (12, 4))
        tables = {name: other.policy["params"][name]["kernel"] for name in ("left", "right")}
        return {name: rows @ np.asarray(table) for name, table in tables.items()}

    reward, live = np.asarray(rollout.reward), ~np.asarray(rollout.terminated)
    value = q(other.value, rollout.observation, means(rollout.observation))
    following = q(other.value, rollout.next_observation, means(rollout.next_observation))
    target = reward + 0.5 * live * following
    taken = jax.tree.map(lambda x: np.reshape(x, (12, *x.shape[2:])), rollout.action)
    predicted = q(state.params.value, rollout.observation, taken)
    np.testing.assert_allclose(metrics["value_loss"], np.mean((target - predicted) ** 2), rtol=1e-4)

    # The rollout's next observations are not those of its next steps: targets are written out.
    later, lambda_return = np.zeros(3), np.zeros((4, 3))
    for t in reversed(range(4)):
        weight = 0.5 * live[t] * (t < 3)
        later = reward[t] + 0.5 * live[t] * ((1 - weight) * following[t] + weight * later)
        lambda_return[t] = later
    np.testing.assert_allclose(metrics["policy_loss"], -np.mean(lambda_return - value), rtol=1e-4)


@pytest.mark.parametrize(
    ("active", "ratios", "outside"),
    [
        ((True, True), [[2.0, 1.1], [0.5, 1.0]], 0.5),
        ((True, False), [[2.0], [0.5]], 1),
    ],
)
def test_ratios_of_units_by_hand(active, ratios, outside):
    learner = learner_of(**ONE_STEP)
    params = dials()
    state = learner.init(jax.random.key(0), ENV.specs(params))
    rollout = rollout_of(learner, state, params)
    # In all steps but one no unit is active: they do not count.
    mask = jnp.zeros((4, 3, 2), bool).at[0, 0].set(jnp.array(active))
    shift = {"left": jnp.log(jnp.array([2.0, 1.1])), "right": jnp.log(jnp.array([0.5, 1.0]))}
    old = {name: x - shift[name] for name, x in rollout.extras.log_prob.items()}
    value = rollout.extras.value
    rollout = rollout._replace(mask=mask, extras=Extras(old, value))
    rollout = rollout._replace(terminated=jnp.ones((4, 3), bool))
    _, metrics = probes.update(learner, state, rollout, jax.random.key(1))
    advantage = float(rollout.reward[0, 0] - value[0, 0])
    gains = [
        np.mean([min(r * advantage, np.clip(r, 0.8, 1.2) * advantage) for r in agent])
        for agent in ratios
    ]
    np.testing.assert_allclose(metrics["policy_loss"], -np.mean(gains), rtol=1e-4)
    np.testing.assert_allclose(metrics["clip_share"], outside, rtol=1e-5)
    divergence = [np.mean([r - 1 - np.log(r) for r in agent]) for agent in ratios]
    np.testing.assert_allclose(metrics["approx_kl"], np.mean(divergence), rtol=1e-4)
    # Per dimension: log std + log sqrt(2 pi e), whatever the number of dials.
    np.testing.assert_allclose(metrics["entropy"], -1 + 0.5 * np.log(2 * np.pi * np.e), rtol=1e-5)


def test_rows_at_once_change_nothing():
    whole, parts = (action_value(Value(), AGENTS, rows_at_once=n) for n in (None, 3))
    params = dials()
    state = learner_of("action").init(jax.random.key(0), ENV.specs(params))
    observation, mask = jnp.eye(4), jnp.ones((4, 2), bool)
    np.testing.assert_allclose(
        whole.value(state.params, observation, mask),
        parts.value(state.params, observation, mask),
        rtol=1e-6,
    )


def test_features_hold_everything_and_cut_actions():
    action = {"left": jnp.array([[9.0, 0.5]]), "right": jnp.full((1, 2, 2), -9.0)}
    row = concatenated({"seen": jnp.array([[7.0]]), "real": jnp.array([[True]])}, action)
    np.testing.assert_array_equal(row, [[1, 7, 3, 0.5, -3, -3, -3, -3]])


def test_what_cannot_be_is_refused():
    with pytest.raises(JaxschedError, match="gamma_per is 'decision'; these agents have no 'due'"):
        learner_of(gamma_per="decision")
    with pytest.raises(JaxschedError, match="gamma_per is 'year'"):
        learner_of(gamma_per="year")
    with pytest.raises(JaxschedError, match="average_reward is true; it must be false for an act"):
        learner_of("action", average_reward=True)
    with pytest.raises(JaxschedError, match="copy_every is 0"):
        action_value(Value(), AGENTS, copy_every=0)
    params = dials()
    for changes, words in (
        ({"sequence_length": 3}, "rollout_length is 4; .* a multiple of 3 .sequence_length"),
        ({"sequence_length": 2, "num_minibatches": 4}, "is 12; .* 8 .4 num_minibatches of seq"),
    ):
        loop = training.LoopConfig(num_envs=3, rollout_length=4, num_updates=1)
        with pytest.raises(JaxschedError, match=words):
            training.init(ENV, learner_of(**changes), loop, jax.random.key(0), params)
