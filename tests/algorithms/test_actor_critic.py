"""The actor-critic finds known values, learns grouped bandits and replays as the paper says."""

from dataclasses import replace
from functools import cache

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms import replay as memory
from jaxsched.algorithms.actor_critic import actor_critic, priority_of
from jaxsched.algorithms.actor_critic_gradients import Batch, Learning, Parts, learn_from
from jaxsched.algorithms.actor_critic_settings import ActorCriticConfig
from jaxsched.algorithms.softmax import clipped_adam, log_probabilities
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.types import Rollout
from tests import probes
from tests.probes import NUM_ACTIONS, Grouped, Probe

ENV = Probe()
UPDATES = 150
LOOP = training.LoopConfig(num_envs=8, rollout_length=4, num_updates=UPDATES)
POLICY = nn.Dense(NUM_ACTIONS, use_bias=False)


class Value(nn.Module):
    """A table of values of one-hot observations."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1, use_bias=False)(x)[..., 0]


REPLAY = {"gradient_steps": 4, "batch_size": 32, "capacity": 256}
ON_POLICY = {"gradient_steps": 4, "batch_size": None, "capacity": 0}


@cache
def learner_of(explore=None, **changes):
    settings = {
        "total_updates": UPDATES,
        "learning_rate": 0.1,
        "final_learning_rate": 1e-3,
        "entropy_start": 0.02,
        "entropy_end": 0.0,
    }
    return actor_critic(POLICY, Value(), ActorCriticConfig(**settings | changes), explore)


def train(learner, params, *lengths, env=ENV, seed=0, **hyper):
    carry = training.init(env, learner, LOOP, jax.random.key(seed), params)
    state = carry.learner_state
    hyper = {name: jnp.float32(value) for name, value in hyper.items()}
    carry = carry._replace(learner_state=state._replace(hyper=state.hyper._replace(**hyper)))
    parts = []
    for length in lengths or (UPDATES,):
        carry, metrics = training.chunk(env, learner, LOOP, carry, params, num_updates=length)
        parts.append(jax.device_get(metrics))
    metrics = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    assert all(np.isfinite(value).all() for value in metrics.values())
    return carry.learner_state, metrics


def values_after(params, changes, **hyper):
    state, _ = train(learner_of(**changes), params, **hyper)
    return np.asarray(Value().apply(state.params.value, params.observation))


@pytest.mark.parametrize("changes", [REPLAY, ON_POLICY, ON_POLICY | {"lambda_": 0.8}])
@pytest.mark.parametrize(
    ("process", "gamma", "expected"),
    [
        (probes.observed_reward(), 0.9, {1: 1, 2: -1}),
        # 3600 s, 0 s, 99 s: the last two decisions are one group.
        (probes.timed_reward(), 0.5, {0: 0.5, 1: 1, 2: 1}),
        (probes.process(reward=1.0, elapsed_s=1.0), 0.5, {0: 1.75, 1: 1.5, 2: 1}),
        (probes.ending(), 0.5, {0: 3, 1: 2, 2: 1}),
        (
            probes.process(
                observation=probes.CONSTANT,
                reward=1.0,
                elapsed_s=1.0,
                first=(1, 1),
                truncates=True,
            ),
            0.5,
            {0: 2},
        ),
    ],
    ids=["observed", "groups", "termination", "one group", "truncation"],
)
def test_values(changes, process, gamma, expected):
    values = values_after(process, changes, gamma=gamma)
    for state, value in expected.items():
        np.testing.assert_allclose(values[state], value, atol=0.05)


def test_discount_by_time():
    values = values_after(probes.timed_reward(), ON_POLICY | {"horizon_s": 7200.0})
    np.testing.assert_allclose(values[:3], [np.exp(-0.5), 1, 1], atol=0.05)


def chances(state, positions=3):
    logits = POLICY.apply(state.params.policy, jnp.eye(positions))
    return np.asarray(jax.nn.softmax(jnp.where(jnp.arange(3) < 2, logits, -jnp.inf)))


@pytest.mark.parametrize(
    "changes",
    [
        REPLAY,
        REPLAY | {"baseline": "ema"},
        REPLAY | {"num_clusters": 2, "normalise_advantages": True, "max_gradient_norm": 1.0},
        ON_POLICY,
        ON_POLICY | {"baseline": "ema", "num_clusters": 4},
        ON_POLICY | {"batch_size": 16, "lambda_": 0.9},
    ],
    ids=["replay", "replay ema", "clusters", "rollout", "rollout ema", "minibatches"],
)
def test_the_better_action_of_each_decision_of_a_group_is_learnt(changes):
    state, metrics = train(learner_of(**changes), probes.grouped_pay(), env=Grouped())
    assert np.all(chances(state)[:, 1] > 0.95)
    assert metrics["entropy"][0] > 0.5 > 0.3 > metrics["entropy"][-1]
    assert metrics["reward_mean"][-1] > 0.9


def test_chunks_give_the_same_bits():
    learner = learner_of(**REPLAY, num_clusters=2)
    whole = train(learner, probes.grouped_pay(), 4, env=Grouped())
    parts = train(learner, probes.grouped_pay(), 2, 2, env=Grouped())
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


@pytest.mark.parametrize("num_clusters", [1, 2])
def test_replay_memory_is_not_copied_by_an_update(num_clusters):
    capacity = 100_000
    learner = learner_of(**REPLAY | {"capacity": capacity, "num_clusters": num_clusters})
    params = probes.grouped_pay()
    carry = training.init(Grouped(), learner, LOOP, jax.random.key(0), params)
    lowered = training.chunk.lower(Grouped(), learner, LOOP, carry, params, num_updates=2)
    stored = sum(x.nbytes for x in jax.tree.leaves(carry.learner_state.replay))
    analysis = lowered.compile().memory_analysis()
    assert analysis.temp_size_in_bytes < stored / 10
    assert analysis.alias_size_in_bytes > stored


@pytest.mark.parametrize("changes", [REPLAY | {"num_clusters": 2}, ON_POLICY])
def test_seeds_under_vmap(changes):
    learner, params = learner_of(**changes), probes.grouped_pay()
    keys = jax.random.split(jax.random.key(0), 2)
    carry = training.init(Grouped(), learner, LOOP, keys, params)
    before = np.asarray(carry.learner_state.params.policy["params"]["kernel"])
    rates = jnp.array([0.0, 0.1])
    state = carry.learner_state
    hyper = state.hyper._replace(learning_rate=rates, final_learning_rate=jnp.copy(rates))
    carry = carry._replace(learner_state=state._replace(hyper=hyper))
    carry, _ = training.chunk(Grouped(), learner, LOOP, carry, params, num_updates=3)
    after = np.asarray(carry.learner_state.params.policy["params"]["kernel"])
    np.testing.assert_array_equal(before[0], after[0])
    assert np.abs(before[1] - after[1]).max() > 0.05


def rollout_of(seed, steps=3, batch=4):
    rng = np.random.default_rng(seed)
    observation = jnp.asarray(rng.normal(size=(steps, batch, 3)), jnp.float32)
    mask = jnp.ones((steps, batch, 3), bool).at[..., 2].set(False)
    return Rollout(
        observation=observation,
        mask=mask,
        action=jnp.asarray(rng.integers(0, 2, (steps, batch))),
        reward=jnp.asarray(rng.normal(size=(steps, batch)), jnp.float32),
        terminated=jnp.zeros((steps, batch), bool),
        truncated=jnp.zeros((steps, batch), bool),
        elapsed=jnp.asarray([0.0, 30, 0])[:, None] * jnp.ones(batch),
        next_observation=observation + 1,
        next_mask=mask,
        extras=(),
    )


def begin(learner, **hyper):
    state = learner.init(jax.random.key(0), Grouped().specs(probes.grouped_pay()))
    hyper = {name: jnp.float32(value) for name, value in hyper.items()}
    return state._replace(hyper=state.hyper._replace(**hyper))


def gradient_of(learner, rollout):
    """The gradient of the first step, from Adam's first moment."""
    state, metrics = probes.update(learner, begin(learner), rollout, jax.random.key(1))
    return jax.tree.map(lambda m: m.mu, state.optimiser, is_leaf=lambda x: hasattr(x, "mu")), state


def test_the_gradient_of_clusters_is_the_average_of_theirs():
    single = ON_POLICY | {"gradient_steps": 1, "normalise_advantages": True}
    rollout = rollout_of(0)
    found, _ = gradient_of(learner_of(**single, num_clusters=2), rollout)
    halves = [
        gradient_of(learner_of(**single), jax.tree.map(lambda x, h=half: x[:, h], rollout))[0]
        for half in (slice(0, 2), slice(2, 4))
    ]
    expected = jax.tree.map(lambda a, b: (a + b) / 2, *halves)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7), found, expected
    )
    whole, _ = gradient_of(learner_of(**single), rollout)  # normalised all at once
    assert np.abs(whole.policy["params"]["kernel"] - found.policy["params"]["kernel"]).max() > 1e-4


@pytest.mark.parametrize("per_action", [False, True])
def test_losses_by_hand(per_action):
    """Of three actions, one illegal, the mean of the entropy is a third of its sum."""
    learner = learner_of(**ON_POLICY | {"gradient_steps": 1, "entropy_per_action": per_action})
    rollout, state = rollout_of(1), begin(learner, gamma=0.5, entropy_start=0.3)
    _, metrics = probes.update(learner, state, rollout, jax.random.key(1))
    value = lambda x: np.asarray(Value().apply(state.params.value, x))  # noqa: E731
    reward, later = np.asarray(rollout.reward), value(rollout.next_observation)
    second = reward[1] + 0.5 * later[1]
    target = np.stack([reward[0] + second, second, reward[2] + later[2]])
    advantage = target - value(rollout.observation)
    logits = POLICY.apply(state.params.policy, rollout.observation)[..., :2]
    scores = np.asarray(jax.nn.log_softmax(logits))
    chosen = np.take_along_axis(scores, np.asarray(rollout.action)[..., None], -1)[..., 0]
    spread = -np.sum(np.exp(scores) * scores, -1)
    expected = {
        "policy_loss": np.mean(-chosen * advantage - 0.3 * spread / (3 if per_action else 1)),
        "value_loss": np.mean(advantage**2),
        "entropy": np.mean(spread),
        "target_mean": np.mean(target),
        "advantage_abs": np.mean(np.abs(advantage)),
    }
    for name, number in expected.items():
        np.testing.assert_allclose(metrics[name], number, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("gradient_at", ["current", "stored"])
def test_the_policys_gradient_by_hand(gradient_at):
    """Logits are pulled by ``advantage (taken - p)`` and the entropy's slope at some ``p``."""
    rng = np.random.default_rng(9)
    learner = learner_of(**REPLAY, gradient_at=gradient_at)
    observation, kernel, old = (rng.normal(size=(6, 3)).astype(np.float32) for _ in range(3))
    kernel, mask = kernel[:3], np.arange(3) < 2
    action = rng.integers(0, 2, 6)
    target, scale = (rng.normal(size=(2, 6)) + [[0], [2]]).astype(np.float32)
    batch = Batch(
        jnp.asarray(observation),
        jnp.tile(mask, (6, 1)),
        jnp.asarray(action),
        jnp.asarray(target),
        jnp.ones(6),
        jnp.asarray(scale),
        log_probabilities(jnp.asarray(old), jnp.asarray(mask)),
    )
    state = begin(learner, entropy_start=0.3)
    policy = {"params": {"kernel": jnp.asarray(kernel)}}
    params = state.params._replace(policy=policy)
    learning = Learning(params, state.optimiser, None, state.gradient_steps)
    config = ActorCriticConfig(1, entropy_start=0.3, **REPLAY, gradient_at=gradient_at)
    parts = Parts(POLICY, Value(), config, None, clipped_adam(None))
    one = jax.tree.map(lambda x: x[None], batch)
    learned, advantage, _ = learn_from(
        parts, state.updates, state.hyper, one, jnp.float32(0), learning
    )
    logits = old if gradient_at == "stored" else observation @ kernel
    p = np.exp(logits) * mask
    p /= p.sum(1, keepdims=True)
    logs = np.where(mask, np.log(np.where(mask, p, 1)), 0)
    spread = -(p * logs).sum(1, keepdims=True)
    pull = (np.asarray(advantage)[0] * scale)[:, None] * (np.eye(3)[action] - p)
    pull -= 0.3 * p * (logs + spread)
    expected = -observation.T @ pull / 6
    found = learned.optimiser.policy.mu["params"]["kernel"] / 0.1  # Adam's first moment
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_probabilities_are_stored_with_the_decision_also_where_it_is_held():
    settings = {"gradient_steps": 1, "batch_size": 4, "capacity": 16, "held": 3}
    learner = learner_of(**settings, gradient_at="stored")
    state, whole = begin(learner), rollout_of(7, steps=6, batch=1)
    ends = np.array([0, 0, 0, 0, 1, 1])[:, None]
    drawn = jnp.asarray(np.random.default_rng(1).normal(size=(6, 1, 3)), jnp.float32)
    whole = whole._replace(extras=drawn, elapsed=jnp.asarray(1200.0 * ends, jnp.float32))
    for first in (0, 3):
        part = jax.tree.map(lambda x, f=first: x[f : f + 3], whole)
        state, _ = probes.update(learner, state, part, jax.random.key(first))
    np.testing.assert_array_equal(state.replay.items.scores[0, :6], drawn[:, 0])
    _, extras = learner.act(state, jnp.eye(3), jnp.ones((3, 3), bool), jax.random.key(0), False)
    logits = POLICY.apply(state.params.policy, jnp.eye(3))
    np.testing.assert_allclose(extras, jax.nn.log_softmax(logits), rtol=1e-6)


@pytest.mark.parametrize("held", [0, 3])
def test_decisions_that_are_left_out_are_not_stored_and_their_reward_is_shared(held):
    config = ActorCriticConfig(1, gradient_steps=1, batch_size=4, capacity=16, held=held)
    kept = lambda following: following[0] < 3  # noqa: E731
    learner = actor_critic(POLICY, Value(), config, kept=kept)
    whole = rollout_of(7, steps=4, batch=1)
    following = whole.next_observation.at[:, 0, 0].set(jnp.arange(1.0, 5.0))
    ends = jnp.asarray([[0.0], [0], [1200], [1200]])
    reward = jnp.asarray([[0.0], [0], [5], [7]])
    whole = whole._replace(next_observation=following, elapsed=ends, reward=reward)
    state, _ = probes.update(learner, begin(learner), whole, jax.random.key(0))
    assert int(state.replay.size[0]) == 2  # the third ended the slot, the fourth was alone in one
    items = jax.tree.map(lambda x: np.asarray(x[0, :2]), state.replay.items)
    np.testing.assert_array_equal(items.observation, whole.observation[:2, 0])
    np.testing.assert_allclose(items.reward, 5)
    with pytest.raises(JaxschedError, match="paid or left out with replay"):
        actor_critic(POLICY, Value(), replace(config, capacity=0, held=0), kept=kept)


def test_priorities():
    hyper = begin(learner_of(**REPLAY)).hyper
    advantage = jnp.array([0.0, -0.49, 0.99, 7.0])
    found = priority_of(advantage, hyper)
    np.testing.assert_allclose(found, [0.01**0.9, 0.5**0.9, 1, 1], rtol=1e-5)
    found = priority_of(advantage, hyper._replace(priority_most=jnp.float32(4)))
    np.testing.assert_allclose(found, [0.01**0.9, 0.5**0.9, 1, 4**0.9], rtol=1e-5)


def test_replay_holds_what_each_cluster_saw():
    learner = learner_of(gradient_steps=1, batch_size=8, capacity=16, num_clusters=2)
    rollout = rollout_of(2)
    state, metrics = probes.update(learner, begin(learner), rollout, jax.random.key(1))
    assert float(metrics["replay_size"]) == 12
    items = state.replay.items
    for cluster, columns in enumerate((slice(0, 2), slice(2, 4))):
        held = jax.tree.map(lambda x, c=cluster: np.asarray(x[c, :6]), items)
        reward = np.asarray(rollout.reward[:, columns])
        shared = np.stack([reward[0] + reward[1], reward[1], reward[2]])
        following = np.asarray(rollout.next_observation[:, columns])[[1, 1, 2]]
        np.testing.assert_allclose(held.reward, shared.reshape(-1), rtol=1e-6)
        np.testing.assert_allclose(held.discount, [0.9] * 4 + [1.0] * 2, rtol=1e-6)
        np.testing.assert_array_equal(held.next_observation, following.reshape(6, 3))
        np.testing.assert_array_equal(held.action, rollout.action[:, columns].reshape(-1))
        np.testing.assert_array_equal(held.mask, rollout.mask[:, columns].reshape(6, 3))
        np.testing.assert_array_equal(
            held.observation, rollout.observation[:, columns].reshape(6, 3)
        )


def test_a_group_that_the_rollout_cuts_is_held_until_it_ends():
    """Rewards 1, 2, ...; slots end after decisions 1, 5 and 6, rollouts after 2 and 4."""
    settings = {"gradient_steps": 1, "batch_size": 4, "capacity": 16, "held": 3, "gamma": 0.5}
    learner = learner_of(**settings, step_per="group")
    state, whole = begin(learner), rollout_of(7, steps=6, batch=1)
    ends = np.array([0, 1, 0, 0, 0, 1, 1])[1:, None]
    whole = whole._replace(
        reward=jnp.arange(1.0, 7.0)[:, None], elapsed=jnp.asarray(1200.0 * ends, jnp.float32)
    )
    sizes, steps = [], []
    for first in (0, 2, 4):
        part = jax.tree.map(lambda x, f=first: x[f : f + 2], whole)
        state, metrics = probes.update(learner, state, part, jax.random.key(first))
        sizes.append(int(state.replay.size[0]))
        steps.append(int(state.gradient_steps))
    assert sizes == [1, 1, 6]
    assert steps == [1, 1, 3]  # one for each slot that ended
    items = jax.tree.map(lambda x: np.asarray(x[0, :6]), state.replay.items)
    np.testing.assert_allclose(items.reward, [1, 14, 12, 9, 5, 6])  # 2 + 3 + 4 + 5, 3 + 4 + 5, ...
    np.testing.assert_allclose(items.discount, 0.5)
    np.testing.assert_array_equal(items.observation, whole.observation[:, 0])
    last = np.asarray(whole.next_observation[:, 0])[[0, 4, 4, 4, 4, 5]]
    np.testing.assert_array_equal(items.next_observation, last)
    assert not state.held.waits.any()
    with pytest.raises(JaxschedError, match="num_envs is 8; .* equal to 1 .held_envs 1"):
        training.init(Grouped(), learner, LOOP, jax.random.key(0), probes.grouped_pay())


def test_no_step_before_the_memory_is_full():
    learner = learner_of(gradient_steps=2, batch_size=4, capacity=24, fill_first=True)
    state, rollout = begin(learner), rollout_of(8)
    for taken in (0, 2, 4):
        before = state.params
        state, metrics = probes.update(learner, state, rollout, jax.random.key(taken))
        assert int(state.gradient_steps) == taken
        assert all(np.isfinite(value) for value in metrics.values())
        if not taken:
            jax.tree.map(np.testing.assert_array_equal, before, state.params)


FROZEN = dict.fromkeys(
    (
        "learning_rate",
        "final_learning_rate",
        "value_learning_rate",
        "final_value_learning_rate",
    ),
    0.0,
)


def quiet(learner, seed):
    """A state that does not learn, and a rollout, with advantages well below 1."""
    state, rollout = begin(learner, **FROZEN), rollout_of(seed)
    value = jax.tree.map(lambda x: 0.1 * x, state.params.value)
    state = state._replace(params=state.params._replace(value=value))
    return state, rollout._replace(reward=0.2 * rollout.reward)


def advantages(state, items):
    value = lambda x: Value().apply(state.params.value, x)  # noqa: E731
    following = value(items.next_observation)
    return np.asarray(items.reward + items.discount * following - value(items.observation))


def test_priorities_and_importance_exponent_move_as_the_paper_says():
    learner = learner_of(gradient_steps=3, batch_size=4, capacity=16, beta_growth=2e-4)
    state, rollout = quiet(learner, 3)
    state, metrics = probes.update(learner, state, rollout, jax.random.key(1))
    np.testing.assert_allclose(metrics["beta"], 0.1 + 2e-4, rtol=1e-6)  # mean of 0.1 .. 0.1004
    _, metrics = probes.update(learner, state, rollout, jax.random.key(1))
    np.testing.assert_allclose(metrics["beta"], 0.1 + 8e-4, rtol=1e-6)
    late = state._replace(gradient_steps=jnp.int32(10_000))
    _, metrics = probes.update(learner, late, rollout, jax.random.key(1))
    assert float(metrics["beta"]) == 1

    # What was drawn has the priority of its advantage, what was not that of new items.
    replay = jax.tree.map(lambda x: x[0], state.replay)
    priority = priority_of(advantages(state, replay.items)[:12], state.hyper)
    held = memory.priorities(replay)[:12]
    drawn = held != 1
    assert 4 <= drawn.sum() < 12
    np.testing.assert_allclose(held[drawn], priority[drawn], rtol=1e-4)
    assert float(replay.max_priority) == 1


@pytest.mark.parametrize("over", ["batch", "memory"])
def test_importance_weights_enter_the_loss(over):
    learner = learner_of(gradient_steps=1, batch_size=8, capacity=24, importance=over)
    state, rollout = quiet(learner, 4)
    state, _ = probes.update(learner, state, rollout, jax.random.key(1))
    state = state._replace(hyper=state.hyper._replace(beta_start=jnp.float32(0.5)))
    key = jax.random.key(5)
    after, metrics = probes.update(learner, state, rollout, key)
    # The draw of the second update, made by hand.
    replay = jax.tree.map(lambda x: x[0], state.replay)
    replay = memory.add(replay, jax.tree.map(lambda x: x[0, 12:24], after.replay.items))
    draw_key = jax.random.split(jax.random.split(jax.random.split(key)[0], 1)[0], 1)[0]
    drawn, _, probability = memory.sample(draw_key, replay, 8, over == "memory")
    weight = np.asarray(probability) ** -(0.5 + 1e-4)
    if over == "memory":
        weight /= float(memory.least_probability(replay)) ** -(0.5 + 1e-4)
    else:
        weight /= weight.max()
    assert weight.min() < 0.9
    advantage, alone = advantages(state, drawn), np.ones(8)
    of_value = alone if over == "memory" else weight
    expected = np.mean(of_value * advantage**2)
    np.testing.assert_allclose(metrics["value_loss"], expected, rtol=1e-4)
    logits = POLICY.apply(state.params.policy, drawn.observation)[:, :2]
    scores = np.asarray(jax.nn.log_softmax(logits))
    chosen = np.take_along_axis(scores, np.asarray(drawn.action)[:, None], 1)[:, 0]
    spread = -np.sum(np.exp(scores) * scores, 1) * float(metrics["entropy_weight"])
    expected = -np.mean(weight * chosen * advantage + of_value * spread)
    np.testing.assert_allclose(metrics["policy_loss"], expected, rtol=1e-4)


def test_moving_average_baseline():
    changes = {"gradient_steps": 1, "baseline": "ema", "baseline_decay": 0.9}
    learner = learner_of(**ON_POLICY | changes)
    rollout, state = rollout_of(6), begin(learner)
    after, metrics = probes.update(learner, state, rollout, jax.random.key(1))
    group = np.asarray(rollout.reward[0] + rollout.reward[1])
    np.testing.assert_allclose(metrics["baseline"], np.mean(group), rtol=1e-4)
    np.testing.assert_allclose(after.average.weight, 1 - 0.9**4, rtol=1e-4)
    # Targets are rewards alone; the last row's group is not over, so it teaches nothing.
    target = np.stack([group, np.asarray(rollout.reward[1])])
    np.testing.assert_allclose(metrics["target_mean"], np.mean(target), rtol=1e-4)
    size = np.mean(np.abs(target - np.mean(group)))
    np.testing.assert_allclose(metrics["advantage_abs"], size, rtol=1e-4)
    assert float(metrics["value_loss"]) == 0
    jax.tree.map(np.testing.assert_array_equal, state.params.value, after.params.value)


def test_decisions_without_a_known_target_change_nothing():
    learner = learner_of(gradient_steps=2, batch_size=8, capacity=16, baseline="ema")
    rollout, state = rollout_of(6)._replace(elapsed=jnp.zeros((3, 4))), begin(learner)
    after, metrics = probes.update(learner, state, rollout, jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, state.params, after.params)
    assert all(np.isfinite(value) for value in metrics.values())


def test_actions_are_legal_sampled_and_greedy():
    learner = learner_of(**ON_POLICY)
    policy = {"params": {"kernel": jnp.tile(jnp.array([0.0, np.log(3), 99.0]), (3, 1))}}
    state = learner.init(jax.random.key(0), Grouped().specs(probes.grouped_pay()), policy)
    assert learner.policy_params(state) is policy
    observation = jnp.tile(jnp.eye(3)[:1], (4000, 1))
    mask = jnp.tile(jnp.arange(3) < 2, (4000, 1))
    action, extras = learner.act(state, observation, mask, jax.random.key(1), greedy=False)
    count = np.bincount(action, minlength=3)
    assert count[2] == 0
    assert abs(count[1] - 3000) < 4 * np.sqrt(750)
    greedy, _ = learner.act(state, observation[:2], mask[:2], jax.random.key(1), greedy=True)
    np.testing.assert_array_equal(greedy, [1, 1])
    assert extras == ()


def first_until_two(key, observation, mask, action, step):
    """Always action 0 in the first two updates."""
    return jnp.where(step < 2, 0, action)


def test_injected_exploration_is_executed_and_stored():
    learner = learner_of(explore=first_until_two, gradient_steps=1, batch_size=8, capacity=256)
    carry = training.init(Grouped(), learner, LOOP, jax.random.key(0), probes.grouped_pay())
    carry, metrics = training.chunk(
        Grouped(), learner, LOOP, carry, probes.grouped_pay(), num_updates=4
    )
    np.testing.assert_array_equal(metrics["reward_mean"][:2], 0)  # action 0 pays nothing
    assert metrics["reward_mean"][3] > 0
    stored = np.asarray(carry.learner_state.replay.items.action[0, : 4 * 32])
    assert set(stored[:64].tolist()) == {0}
    assert set(stored[64:].tolist()) == {0, 1}
    state = carry.learner_state._replace(updates=jnp.int32(0))
    observation, mask = jnp.eye(3)[:1], jnp.array([[False, True, False]])
    greedy, _ = learner.act(state, observation, mask, jax.random.key(0), greedy=True)
    assert int(greedy[0]) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 0},
        {"batch_size": None},
        {"batch_size": 9, "num_clusters": 2},
        {"capacity": -1},
        {"baseline": "mean"},
        {"lambda_": 0.9},
        {"lambda_": 0.9, "capacity": 0, "baseline": "ema"},
        {"priority_floor": 0.0},
        {"num_clusters": 0},
        {"step_per": "slot"},
        {"step_per": "group", "capacity": 0},
        {"fill_first": True, "capacity": 0},
        {"held": -1},
        {"held": 4, "capacity": 0},
        {"held_envs": 0},
    ],
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(JaxschedError, match=f"ActorCriticConfig.{next(iter(changes))}"):
        ActorCriticConfig(**{"total_updates": 1} | changes)


def test_sizes_that_do_not_fit_the_rollout_are_refused():
    loop = training.LoopConfig(num_envs=4, rollout_length=3, num_updates=1)
    for changes, words in (
        (ON_POLICY | {"num_clusters": 3}, "num_envs is 4; .* a multiple of 3 .3 num_clusters"),
        ({"capacity": 11, "batch_size": 8}, "is 12; .* at most 11 .1 num_clusters x capacity 11"),
    ):
        with pytest.raises(JaxschedError, match=words):
            training.init(
                Grouped(), learner_of(**changes), loop, jax.random.key(0), probes.grouped_pay()
            )
