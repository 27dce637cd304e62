"""DQN finds the known values of the probes, and explores and learns when it should."""

from functools import cache

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.dqn import DQNConfig, dqn
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from tests import probes
from tests.probes import NUM_ACTIONS, STEPS, Probe

ENV = Probe()
UPDATES = 150
LOOP = training.LoopConfig(num_envs=8, rollout_length=4, num_updates=UPDATES)
TABLE = nn.Dense(NUM_ACTIONS, use_bias=False)  # of one-hot observations: a table of Q values


def config(**changes):
    settings = {
        "total_updates": UPDATES,
        "gradient_steps": 8,
        "batch_size": 32,
        "capacity": 512,
        "learning_starts": 64,
        "target_period": 20,
        "learning_rate": 0.1,
        "final_learning_rate": 1e-3,
        "epsilon_end": 0.2,
    }
    return DQNConfig(**settings | changes)


@cache  # one learner, hence one compilation, for all processes
def learner_of(**changes):
    return dqn(TABLE, config(**changes))


def start(learner, params, **hyper):
    carry = training.init(ENV, learner, LOOP, jax.random.key(0), params)
    state = carry.learner_state
    values = {name: jnp.float32(value) for name, value in hyper.items()}
    return carry._replace(learner_state=state._replace(hyper=state.hyper._replace(**values)))


def q_values(params, gamma=0.9, **changes):
    """Trained values of the four states, ``[S, A]``."""
    learner = learner_of(**changes)
    carry = start(learner, params, gamma=gamma)
    carry, metrics = training.chunk(ENV, learner, LOOP, carry, params, num_updates=UPDATES)
    assert all(np.isfinite(value).all() for value in metrics.values())
    network_params = learner.policy_params(carry.learner_state)
    return np.asarray(TABLE.apply(network_params, params.observation))


def column(*values):
    return np.tile(np.array(values)[:, None], (1, NUM_ACTIONS))


def test_constant_reward():
    values = q_values(probes.constant_reward())
    np.testing.assert_allclose(values[2:3], column(1), atol=0.01)


def test_reward_that_the_observation_shows():
    values = q_values(probes.observed_reward())
    np.testing.assert_allclose(values[1:3], column(1, -1), atol=0.01)


PLAIN = {
    "double": False,
    "prioritised": False,
    "target_rate": 0.05,
    "observation_dtype": "float16",
}


@pytest.mark.parametrize("changes", [{}, {"n_step": 3}, PLAIN])
def test_discount_per_step(changes):
    values = q_values(probes.delayed_reward(), **changes)
    np.testing.assert_allclose(values[:3], column(0.81, 0.9, 1), atol=0.02)


@pytest.mark.parametrize("n_step", [1, 2])
def test_discount_by_time(n_step):
    values = q_values(probes.timed_reward(), horizon_s=7200.0, n_step=n_step)
    np.testing.assert_allclose(values[:3], column(np.exp(-0.5), 1, 1), atol=0.02)


@pytest.mark.parametrize("changes", [{}, PLAIN])
def test_bootstrap_and_action_heed_the_mask(changes):
    values = q_values(probes.forbidden_best(), **changes)
    np.testing.assert_allclose(values[0], [0, 1, 5.9], atol=0.05)


@pytest.mark.parametrize("changes", [{}, {"n_step": 3}])
def test_truncation_bootstraps(changes):
    values = q_values(probes.endless(), gamma=0.5, **changes)
    np.testing.assert_allclose(values[0], [2, 2, 2], atol=0.02)


@pytest.mark.parametrize("changes", [{}, {"n_step": 3}])
def test_termination_does_not_bootstrap(changes):
    values = q_values(probes.ending(), gamma=0.5, **changes)
    np.testing.assert_allclose(values[:3], column(1.75, 1.5, 1), atol=0.02)


def act_state(learner, **hyper):
    return start(learner, probes.ending(), **hyper).learner_state


def test_greedy_action_is_the_best_legal_one():
    learner = learner_of()
    state = act_state(learner)._replace(
        params={"params": {"kernel": jnp.tile(jnp.array([1.0, 2.0, 9.0]), (4, 1))}}
    )
    mask = jnp.array([[True, True, False], [True, False, False], [False, False, True]])
    action, extras = learner.act(state, STEPS[:3], mask, jax.random.key(1), greedy=True)
    np.testing.assert_array_equal(action, [1, 0, 2])
    assert extras == ()


def test_exploration_is_uniform_over_legal_actions():
    learner = learner_of()
    state = act_state(learner, epsilon_start=1.0)
    mask = jnp.tile(jnp.array([True, False, True]), (4000, 1))
    action, _ = learner.act(state, jnp.ones((4000, 4)), mask, jax.random.key(1), greedy=False)
    count = np.bincount(action, minlength=3)
    assert count[1] == 0
    assert abs(count[0] - 2000) < 130  # four standard deviations


def test_injected_exploration_replaces_the_uniform_draw():
    def last_legal(key, observation, mask):
        return mask.shape[-1] - 1 - jnp.argmax(mask[:, ::-1], axis=-1)

    learner = dqn(TABLE, config(), explore=last_legal)
    state = act_state(learner, epsilon_start=1.0)
    mask = jnp.array([[True, True, False], [True, False, True]])
    action, _ = learner.act(state, STEPS[:2], mask, jax.random.key(1), greedy=False)
    np.testing.assert_array_equal(action, [1, 2])


def test_nothing_is_learnt_before_learning_starts():
    params = probes.ending()
    sizes = {"learning_starts": 96, "total_updates": 8, "gradient_steps": 3, "target_period": 6}
    learner = learner_of(**sizes, epsilon_fraction=0.75)
    carry = start(learner, params)
    before = jax.tree.map(np.asarray, learner.policy_params(carry.learner_state))
    for _ in range(2):
        carry, _ = training.chunk(ENV, learner, LOOP, carry, params, num_updates=1)
    state = carry.learner_state
    assert int(state.replay.size) == 64
    assert int(state.gradient_steps) == 0
    assert float(state.replay.max_priority) == 1.0
    jax.tree.map(np.testing.assert_array_equal, before, learner.policy_params(state))
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(state.optimiser))

    # Then three gradient steps per update, and a hard copy of the target after every sixth.
    metrics = {}
    for update in range(1, 7):
        carry, metrics = training.chunk(ENV, learner, LOOP, carry, params, num_updates=1)
        state = carry.learner_state
        assert int(state.gradient_steps) == 3 * update
        same = jax.tree.map(np.array_equal, state.params, state.target_params)
        assert all(jax.tree.leaves(same)) == (update % 2 == 0)
        explored = min((update + 2) / (0.75 * 8), 1)  # these updates come after two others
        np.testing.assert_allclose(metrics["epsilon"], 1 - 0.8 * explored, rtol=1e-5)

    # The last of eight updates was made at progress 7/8, epsilon is that of the next action.
    np.testing.assert_allclose(metrics["learning_rate"], 0.1 - 0.099 * 7 / 8, rtol=1e-5)
    np.testing.assert_allclose(metrics["beta"], 0.4 + 0.6 * 7 / 8, rtol=1e-5)
    np.testing.assert_allclose(metrics["epsilon"], 0.2, rtol=1e-6)


def test_learning_rates_vmap():
    params, learner = probes.ending(), learner_of(learning_starts=1)
    keys = jnp.stack([jax.random.key(0)] * 2)
    carry = training.init(ENV, learner, LOOP, keys, params)
    rates = jnp.array([0.0, 0.1])
    state = carry.learner_state
    hyper = state.hyper._replace(learning_rate=rates, final_learning_rate=jnp.copy(rates))
    carry = carry._replace(learner_state=state._replace(hyper=hyper))
    before = np.asarray(state.params["params"]["kernel"])
    carry, _ = training.chunk(ENV, learner, LOOP, carry, params, num_updates=4)
    after = np.asarray(carry.learner_state.params["params"]["kernel"])
    np.testing.assert_array_equal(before[0], after[0])
    assert np.abs(before[1] - after[1]).max() > 0.1


@pytest.mark.parametrize(
    "changes",
    [{"batch_size": 0}, {"learning_starts": 1000}, {"priority_floor": 0.0}, {"n_step": 0}],
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(JaxschedError, match="DQNConfig"):
        config(**changes)
