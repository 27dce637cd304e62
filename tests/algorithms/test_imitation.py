"""Imitation learns what it is shown, only from decisions that say something."""

from functools import cache
from typing import get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms import softmax as module
from jaxsched.algorithms.imitation import ImitationConfig, Loss, imitation
from jaxsched.core import training
from jaxsched.core.policies import Policy, no_memory
from jaxsched.errors import JaxschedError
from jaxsched.types import Rollout
from jaxsched.wrappers.recorded import Recorded, RecordedParams
from jaxsched.wrappers.teacher import Taught, TaughtEnvironment
from tests import probes
from tests.probes import Probe

ROWS, ACTIONS = 12, 4
NETWORK = nn.Dense(ACTIONS)
LOOP = training.LoopConfig(num_envs=32, rollout_length=2, num_updates=60)
EYE = np.eye(ROWS, dtype=np.float16)
LABEL = np.random.default_rng(0).integers(0, 3, ROWS)
DATA = RecordedParams(
    jnp.asarray(EYE),
    # The last action is never legal; in row 0 there is no choice.
    jnp.ones((ROWS, ACTIONS), bool).at[:, 3].set(False).at[0].set(jnp.arange(ACTIONS) == LABEL[0]),
    jnp.asarray(LABEL, jnp.int32),
)


@cache
def learner_of(augment=None, **changes):
    settings = {
        "total_updates": 60,
        "gradient_steps": 4,
        "batch_size": 16,
        "learning_rate": 0.1,
        "final_learning_rate": 0.01,
        "student_share": 0.0,
    }
    return imitation(NETWORK, ImitationConfig(**settings | changes), augment)


def train(learner, *lengths, seed=0):
    carry = training.init(Recorded(), learner, LOOP, jax.random.key(seed), DATA)
    parts = []
    for length in lengths:
        carry, metrics = training.chunk(Recorded(), learner, LOOP, carry, DATA, num_updates=length)
        parts.append(jax.device_get(metrics))
    return carry, jax.tree.map(lambda *x: np.concatenate(x), *parts)


@pytest.mark.parametrize("loss", get_args(Loss))
def test_a_table_is_learnt(loss):
    learner = learner_of(loss=loss)
    carry, metrics = train(learner, 60)
    assert metrics["agreement"][0] < 0.9
    assert metrics["agreement"][-1] >= 0.99
    assert metrics["loss"][-1] < metrics["loss"][0] / 3
    np.testing.assert_array_equal(metrics["episode_return_sum"], metrics["episodes"])
    np.testing.assert_array_equal(metrics["illegal_labels"], 0)
    seen = Taught(DATA.observation, DATA.label)
    action, extras = learner.act(
        carry.learner_state, seen, DATA.mask, jax.random.key(0), greedy=True
    )
    np.testing.assert_array_equal(action, LABEL)
    assert extras == ()


def test_chunks_give_the_same_bits_and_rates_decay():
    whole, metrics = train(learner_of(), 6)
    parts, again = train(learner_of(), *[1] * 6)
    jax.tree.map(np.testing.assert_array_equal, metrics, again)
    jax.tree.map(
        np.testing.assert_array_equal, whole.learner_state.params, parts.learner_state.params
    )
    np.testing.assert_allclose(metrics["learning_rate"], 0.1 - 0.09 * np.arange(6) / 60, rtol=1e-5)


def test_seeds_under_vmap():
    learner = learner_of()
    keys = jax.random.split(jax.random.key(0), 2)
    carry = training.init(Recorded(), learner, LOOP, keys, DATA)
    rates = jnp.array([0.0, 0.1])
    state = carry.learner_state
    hyper = state.hyper._replace(learning_rate=rates, final_learning_rate=jnp.copy(rates))
    before = np.asarray(state.params["params"]["kernel"])
    carry = carry._replace(learner_state=state._replace(hyper=hyper))
    carry, metrics = training.chunk(Recorded(), learner, LOOP, carry, DATA, num_updates=30)
    after = np.asarray(carry.learner_state.params["params"]["kernel"])
    np.testing.assert_array_equal(before[0], after[0])
    assert metrics["agreement"][1, -1] > 0.95


def test_losses_by_hand():
    logits = jnp.log(jnp.array([[0.5, 0.25, 0.25, 99.0], [0.9, 0.05, 0.05, 99.0]]))
    mask = jnp.array([[1, 1, 1, 0], [1, 0, 0, 0]], bool)
    label = jnp.array([1, 0])
    rollout = Rollout(
        observation=Taught(jnp.eye(2)[:, None], label[:, None]),
        mask=mask[:, None],
        action=label[:, None],
        reward=jnp.zeros((2, 1)),
        terminated=(),
        truncated=(),
        elapsed=(),
        next_observation=(),
        next_mask=(),
        extras=(),
    )
    expected = {
        "cross_entropy": np.log(4),
        "squared": (0.25 + 0.5625 + 0.0625) / 4,
        "absolute": (0.5 + 0.75 + 0.25) / 4,
    }
    for loss, value in expected.items():
        config = ImitationConfig(total_updates=1, batch_size=2, loss=loss)
        learner = imitation(nn.Dense(4, use_bias=False), config)
        specs = TaughtEnvironment(Probe(), TEACHER).specs(probes.ending())
        state = learner.init(jax.random.key(0), specs, {"params": {"kernel": logits}})
        _, metrics = probes.update(learner, state, rollout, jax.random.key(0))
        np.testing.assert_allclose(metrics["loss"], value, rtol=1e-5)  # the second row is forced
        assert float(metrics["agreement"]) == 0
        assert float(metrics["informative"]) == 0.5


def swap_columns(key, observation, mask, label):
    """Shift the actions by a random amount; the mask shows by how much, so it can be learnt."""
    shift = jax.random.randint(key, (), 0, 2)
    return jnp.roll(observation, shift * 6), mask, (label + shift) % 3


def test_decisions_are_augmented_one_by_one():
    # Only rows 0..5 are shown; the augmentation moves half of them on, with another label.
    data = DATA._replace(
        observation=jnp.asarray(EYE[1 + np.arange(ROWS) % 5]),
        mask=jnp.ones((ROWS, ACTIONS), bool),
        label=jnp.asarray(np.arange(ROWS) % 5 % 3, jnp.int32),
    )
    learner = learner_of(augment=swap_columns)
    carry = training.init(Recorded(), learner, LOOP, jax.random.key(0), data)
    carry, metrics = training.chunk(Recorded(), learner, LOOP, carry, data, num_updates=60)
    assert metrics["agreement"][-1] >= 0.99
    everything = Taught(jnp.asarray(EYE[1:]), jnp.zeros(ROWS - 1, jnp.int32))
    mask = jnp.ones((ROWS - 1, ACTIONS), bool)
    action, _ = learner.act(carry.learner_state, everything, mask, jax.random.key(0), greedy=True)
    shown = np.arange(5) % 3
    np.testing.assert_array_equal(action[:5], shown)
    np.testing.assert_array_equal(action[6:], (shown + 1) % 3)


TEACHER = Policy(
    "state", no_memory, lambda weights, memory, view, key: (view.state % 3, memory), True
)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_student_acts_at_its_share(share):
    learner = learner_of(student_share=share)
    state = learner.init(jax.random.key(0), Recorded().specs(DATA))
    kernel = jnp.zeros((ROWS, ACTIONS)).at[:, 2:].set(jnp.array([50.0, 99.0]))
    state = state._replace(params={"params": {"kernel": kernel, "bias": jnp.zeros(ACTIONS)}})
    count = 4000
    seen = Taught(jnp.ones((count, ROWS), jnp.float16), jnp.zeros(count, jnp.int32))
    mask = jnp.tile(jnp.arange(ACTIONS) < 3, (count, 1))
    action, _ = learner.act(state, seen, mask, jax.random.key(1), greedy=False)
    student = np.mean(np.asarray(action) == 2)
    assert set(np.asarray(action).tolist()) <= {0, 2}
    assert abs(student - share) <= 4 * np.sqrt(share * (1 - share) / count)


def test_a_live_teacher_goes_through_the_same_loop():
    env, params = TaughtEnvironment(Probe(), TEACHER), probes.ending()
    config = ImitationConfig(total_updates=40, batch_size=16, learning_rate=0.1, student_share=0.5)
    learner = imitation(nn.Dense(probes.NUM_ACTIONS), config)
    loop = training.LoopConfig(num_envs=8, rollout_length=4, num_updates=40)
    start = {"params": {"kernel": jnp.zeros((4, 3)), "bias": jnp.zeros(3)}}
    carry = training.init(env, learner, loop, jax.random.key(0), params, start)
    passed = learner.policy_params(carry.learner_state)
    jax.tree.map(np.testing.assert_array_equal, passed, start)
    _, metrics = training.chunk(env, learner, loop, carry, params, num_updates=40)
    assert metrics["agreement"][-1] >= 0.99


def test_minibatches_use_every_row_equally_often():
    rows = np.asarray(module.minibatches(jax.random.key(0), 10, 5, 5))
    assert rows.shape == (5, 5)
    counts = np.bincount(rows.reshape(-1), minlength=10)
    assert set(counts.tolist()) <= {2, 3}
    np.testing.assert_array_equal(np.sort(rows[:2].reshape(-1)), np.arange(10))
    np.testing.assert_array_equal(np.sort(rows[2:4].reshape(-1)), np.arange(10))
    assert not np.array_equal(rows[:2], rows[2:4])


def test_entropy_and_masked_softmax():
    scores = module.log_probabilities(
        jnp.array([[1.0, 1.0, 50.0], [0.0, 0.0, 0.0]]), jnp.array([[1, 1, 0], [0, 1, 0]], bool)
    )
    np.testing.assert_allclose(jnp.exp(scores), [[0.5, 0.5, 0], [0, 1, 0]])
    np.testing.assert_allclose(module.entropy(scores), [np.log(2), 0], rtol=1e-6)
    slope = jax.grad(lambda x: module.entropy(module.log_probabilities(x, x < 10))[0])(
        jnp.array([[1.0, 2.0, 50.0]])
    )
    assert np.all(np.isfinite(slope))
    assert float(slope[0, 2]) == 0


@pytest.mark.parametrize(
    "changes", [{"batch_size": 0}, {"loss": "hinge"}, {"student_share": 1.5}, {"total_updates": 0}]
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(JaxschedError, match=f"ImitationConfig.{next(iter(changes))}"):
        ImitationConfig(**{"total_updates": 1} | changes)
