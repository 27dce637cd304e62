"""Regression learns a teacher's numbers, or only their order, where they have an effect."""

from functools import cache

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.agents import gaussian_agents, softmax_agents
from jaxsched.algorithms.regression import AgentLoss, RegressionConfig, regression
from jaxsched.core import training
from jaxsched.core.policies import Policy, no_memory
from jaxsched.errors import JaxschedError
from jaxsched.types import ArraySpec, DiscreteSpec, Rollout, Specs
from jaxsched.wrappers.teacher import Taught, TaughtEnvironment
from tests import probes
from tests.probes import Dial, Hands, dials

UPDATES = 80
LOOP = training.LoopConfig(num_envs=8, rollout_length=4, num_updates=UPDATES)
AGENTS = gaussian_agents(Hands(), probes.hands)
LEFT = np.array([[0.3, -0.2], [0.1, 0.5], [-0.4, 0.0], [0.6, 0.2]], np.float32)
RIGHT = np.stack([LEFT[:, ::-1] - 0.1, LEFT], axis=-1)


def follow_table(weights, memory, view, key):
    """Dials by step; junk where they have no effect."""
    step = jnp.argmax(view.observation)
    left = jnp.where(view.mask, jnp.asarray(LEFT)[step], jnp.nan)
    right = jnp.where(view.mask[:, None], jnp.asarray(RIGHT)[step], -jnp.inf)
    return {"left": left, "right": right}, memory


ENV = TaughtEnvironment(Dial(), Policy("table", no_memory, follow_table))
BOTH = (True, True)


@cache
def learner_of(loss="squared", **changes):
    losses = (AgentLoss("left", loss), AgentLoss("right", loss, weight=0.5))
    settings = {
        "total_updates": UPDATES,
        "losses": losses,
        "gradient_steps": 2,
        "batch_size": 16,
        "learning_rate": 0.1,
        "final_learning_rate": 0.01,
        "student_share": 0.0,
    }
    return regression(AGENTS, RegressionConfig(**settings | changes))


def train(learner, *lengths, active=BOTH, seed=0):
    params = dials(length=4, active=active)
    carry = training.init(ENV, learner, LOOP, jax.random.key(seed), params)
    parts = []
    for length in lengths or (UPDATES,):
        carry, metrics = training.chunk(ENV, learner, LOOP, carry, params, num_updates=length)
        parts.append(jax.device_get(metrics))
    metrics = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    assert all(np.isfinite(value).all() for value in metrics.values())
    return carry.learner_state, metrics


def greedy(learner, state):
    seen = Taught(jnp.eye(4), {"left": jnp.asarray(LEFT), "right": jnp.asarray(RIGHT)})
    action, _ = learner.act(state, seen, jnp.ones((4, 2), bool), jax.random.key(0), greedy=True)
    return action


@pytest.mark.parametrize(
    ("loss", "changes"),
    [
        ("squared", {}),
        ("squared", {"sequence_length": 2, "batch_size": 8, "student_share": 0.5}),
        ("nll", {"max_gradient_norm": 5.0}),
    ],
)
def test_a_table_is_learnt(loss, changes):
    learner = learner_of(loss, **changes)
    state, metrics = train(learner)
    action = greedy(learner, state)
    np.testing.assert_allclose(action["left"], LEFT, atol=0.05)
    np.testing.assert_allclose(action["right"], RIGHT, atol=0.05)
    total = metrics["left_loss"] + 0.5 * metrics["right_loss"]
    np.testing.assert_allclose(metrics["loss"], total, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        metrics["learning_rate"], 0.1 - 0.09 * np.arange(UPDATES) / UPDATES, rtol=1e-4
    )
    paid = (
        probes.Dial()
        .step(
            jax.random.key(0),
            jnp.int32(0),
            {"left": jnp.asarray(LEFT[0]), "right": jnp.asarray(RIGHT[0])},
            dials(length=4),
        )[1]
        .reward
    )
    if not changes.get("student_share"):
        rewards = metrics["episode_return_sum"] / metrics["episodes"]
        assert np.ptp(rewards) < 1e-4  # the teacher acted, whatever was learnt
        assert rewards[0] < float(paid)


def test_an_order_is_learnt_from_pairs():
    learner = learner_of("ranking", ranking_scale=5.0)
    state, metrics = train(learner)
    action = greedy(learner, state)
    np.testing.assert_array_equal(np.argsort(action["left"]), np.argsort(LEFT))
    np.testing.assert_array_equal(np.argsort(action["right"]), np.argsort(RIGHT))
    assert metrics["left_agreement"][-1] == metrics["right_agreement"][-1] == 1
    assert metrics["left_agreement"][0] < 1


def test_units_without_effect_teach_nothing():
    learner = learner_of()
    params = dials(length=4, active=(True, False))
    first = learner.init(jax.random.split(jax.random.key(0), 3)[0], ENV.specs(params))
    state, metrics = train(learner, 3, active=(True, False))
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(axis=0), first.params, state.params)
    left, right = (moved["params"][name]["kernel"] for name in ("left", "right"))
    assert left[0] > 0.1
    assert left[1] == 0
    assert right[:2].min() > 0.1
    np.testing.assert_array_equal(right[2:], 0)


def test_the_student_acts_in_its_share_of_the_steps():
    learner = learner_of(student_share=0.3)
    count = 2000
    state = learner.init(jax.random.key(0), ENV.specs(dials()))
    label = {"left": jnp.full((count, 2), 7.0), "right": jnp.full((count, 2, 2), 7.0)}
    seen = Taught(jnp.tile(jnp.eye(4)[:1], (count, 1)), label)
    mask = jnp.ones((count, 2), bool)
    action, extras = learner.act(state, seen, mask, jax.random.key(1), greedy=False)
    teacher = np.asarray(action["left"][:, 0] == 7)
    assert extras == ()
    np.testing.assert_array_equal(np.all(action["right"] == 7, axis=(1, 2)), teacher)
    assert abs(teacher.mean() - 0.7) < 4 * np.sqrt(0.21 / count)
    action, _ = learner_of().act(state, seen, mask, jax.random.key(1), greedy=False)
    assert action is label


def one_rollout(observation, mask, label, action):
    """Two steps of one environment."""
    return Rollout(
        observation=Taught(observation, label),
        mask=mask,
        action=action,
        reward=jnp.zeros((2, 1)),
        terminated=(),
        truncated=(),
        elapsed=(),
        next_observation=(),
        next_mask=(),
        extras=(),
    )


def test_means_over_sequences_see_what_was_executed():
    label = {"left": jnp.ones((2, 1, 2)), "right": jnp.ones((2, 1, 2, 2))}
    executed = jax.tree.map(lambda x: x + jnp.arange(2.0).reshape(2, *[1] * (x.ndim - 1)), label)

    def sums(params, observation, mask, action):
        """Of all that was executed up to each step: needs the order of time."""
        del params, observation, mask
        return jax.tree.map(lambda x: jnp.cumsum(x, axis=0), action)

    config = RegressionConfig(1, (AgentLoss("left"),), batch_size=1, sequence_length=2)
    learner = regression(AGENTS._replace(means=sums), config)
    state = learner.init(jax.random.key(0), ENV.specs(dials()))
    rollout = one_rollout(jnp.eye(4)[:2, None], jnp.ones((2, 1, 2), bool), label, executed)
    _, metrics = probes.update(learner, state, rollout, jax.random.key(0))
    # Executed 1, then 2: the sums are 1 and 3.
    np.testing.assert_allclose(metrics["left_loss"], np.mean([(1 - 1) ** 2, (3 - 1) ** 2]))


def test_the_likelihood_of_a_discrete_choice_is_its_cross_entropy():
    agents = softmax_agents(nn.Dense(3, use_bias=False))
    config = RegressionConfig(1, (AgentLoss("action", "nll"),), batch_size=2)
    learner = regression(agents, config)
    kernel = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]]))
    specs = Specs(Taught(ArraySpec((2,)), ArraySpec((), jnp.int32)), DiscreteSpec(3))
    state = learner.init(jax.random.key(0), specs, {"params": {"kernel": kernel}})
    label = jnp.array([[1], [0]])
    mask = jnp.array([[[True, True, True]], [[True, True, False]]])
    rollout = one_rollout(jnp.eye(2)[:, None], mask, label, label)
    _, metrics = probes.update(learner, state, rollout, jax.random.key(0))
    np.testing.assert_allclose(metrics["loss"], -(np.log(0.25) + np.log(8 / 9)) / 2, rtol=1e-5)


def test_chunks_give_the_same_bits():
    whole, parts = train(learner_of(), 2), train(learner_of(), 1, 1)
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


def test_seeds_under_vmap():
    learner, params = learner_of(), dials(length=4)
    carry = training.init(ENV, learner, LOOP, jax.random.split(jax.random.key(0), 2), params)
    before = jax.device_get(carry.learner_state.params["params"]["left"]["kernel"])
    state, rates = carry.learner_state, jnp.array([0.0, 0.1])
    hyper = state.hyper._replace(learning_rate=rates, final_learning_rate=jnp.copy(rates))
    carry = carry._replace(learner_state=state._replace(hyper=hyper))
    carry, _ = training.chunk(ENV, learner, LOOP, carry, params, num_updates=1)
    after = jax.device_get(carry.learner_state.params["params"]["left"]["kernel"])
    np.testing.assert_array_equal(before[0], after[0])
    assert np.abs(before[1] - after[1]).max() > 0.1


def test_what_cannot_be_is_refused():
    with pytest.raises(JaxschedError, match="AgentLoss.loss is 'absolute'"):
        AgentLoss("left", "absolute")
    with pytest.raises(JaxschedError, match=r"losses is for the agents \[\]"):
        RegressionConfig(1, ())
    with pytest.raises(JaxschedError, match="each once"):
        RegressionConfig(1, (AgentLoss("left"), AgentLoss("left", "nll")))
    for changes in ({"student_share": 2.0}, {"ranking_scale": 0.0}, {"batch_size": 0}):
        with pytest.raises(JaxschedError, match=next(iter(changes))):
            RegressionConfig(1, (AgentLoss("left"),), **changes)
    learner = learner_of(losses=(AgentLoss("head"),))
    with pytest.raises(JaxschedError, match="name the agent 'head'; accepted: left, right"):
        train(learner, 1)
