"""Average rewards and growing horizons: what a discount hides is found."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.agents import softmax_agents
from jaxsched.algorithms.average_reward import RewardRate
from jaxsched.algorithms.critics import action_value
from jaxsched.algorithms.ppo import PPOConfig, mappo, ppo
from jaxsched.core import training
from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.types import ArraySpec, DiscreteSpec, TimeStep
from tests import probes
from tests.algorithms.test_ppo import POLICY, Value
from tests.algorithms.test_ppo import train as train_ppo
from tests.probes import NUM_ACTIONS, Probe

UPDATES = 150
LOOP = training.LoopConfig(num_envs=8, rollout_length=16, num_updates=UPDATES)
STAY, PRIZE, ROAD = 1.0, 10.0, 4


@dataclass(frozen=True)
class Fork(Environment):
    """Goes on for ever: stay for 1 a second, or walk four seconds for 10 at the fifth."""

    name = "fork"
    behaviour_version = 1

    def reset(self, key, params, episode=None):
        """At the fork."""
        return jnp.int32(0), self._report(jnp.int32(0), jnp.float32(0))

    def step(self, key, state, action, params):
        """Along the road, or round at the fork."""
        stays = (state == 0) & (action != 1)
        following = jnp.where(stays, 0, (state + 1) % (ROAD + 1))
        reward = jnp.where(stays, STAY, jnp.where(state == ROAD, PRIZE, 0.0))
        return following, self._report(following, reward)

    def _report(self, state, reward):
        observation, mask = self.observe(state, ())
        return TimeStep(observation, mask, reward, False, False, jnp.float32(1), metrics=())

    def observe(self, state, params):
        """Where one is."""
        return jax.nn.one_hot(state, ROAD + 1), jnp.ones(NUM_ACTIONS, bool)

    def num_episodes(self, params):
        """One."""
        return 1

    def max_steps(self, params):
        """Never ends; what a caller may want to see."""
        return 100

    def observation_spec(self, params):
        """One-hot."""
        return ArraySpec((ROAD + 1,))

    def action_spec(self, params):
        """1 takes the road."""
        return DiscreteSpec(NUM_ACTIONS)


class Steps(NamedTuple):
    """What the rate reads of a rollout."""

    reward: jax.Array
    elapsed: jax.Array


@cache
def trained(**changes):
    settings = {
        "total_updates": UPDATES,
        "num_minibatches": 2,
        "learning_rate": 0.1,
        "final_learning_rate": 1e-3,
        "entropy_start": 0.05,
        "entropy_end": 0.0,
        "lambda_": 0.8,
    }
    learner = ppo(POLICY, Value(), PPOConfig(**settings | changes))
    carry = training.init(Fork(), learner, LOOP, jax.random.key(3), ())
    carry, metrics = training.chunk(Fork(), learner, LOOP, carry, (), num_updates=UPDATES)
    state = carry.learner_state
    chance = jax.nn.softmax(POLICY.apply(state.params.policy, jnp.eye(ROAD + 1)[:1])[0])
    return state, float(chance[1]), jax.device_get(metrics)


def test_the_road_pays_by_the_average_and_not_under_a_short_horizon():
    _, short, _ = trained(horizon_s=1.0)
    state, chance, metrics = trained(average_reward=True)
    assert short < 0.1
    assert chance > 0.9
    np.testing.assert_allclose(metrics["reward_per_second"][-1], PRIZE / (ROAD + 1), rtol=0.03)
    # Two a second are missed on the way: what is ahead is worth 2 more at each place passed.
    values = np.asarray(Value().apply(state.params.value, jnp.eye(ROAD + 1)))
    np.testing.assert_allclose(np.diff(values), 2.0, atol=0.5)
    assert abs(values.mean()) < 1.5


def test_a_horizon_that_grows_finds_the_road():
    changes = {"entropy_start": 0.5, "final_learning_rate": 0.1}
    _, chance, _ = trained(horizon_s=1.0, final_horizon_s=500.0, **changes)
    _, never, _ = trained(horizon_s=1.0, **changes)
    assert never < 0.1
    assert chance > 0.9


def test_a_horizon_that_ends_elsewhere_gives_its_values():
    """Discounts are those of the final horizon in the end: exp(-60 / 60) per minute."""
    params = probes.process(reward=1.0, elapsed_s=60.0)
    rates = {"learning_rate": 0.1, "final_learning_rate": 0.05}
    config = PPOConfig(120, num_minibatches=2, horizon_s=10.0, final_horizon_s=60.0, **rates)
    learner = ppo(POLICY, Value(), config)
    state, _ = train_ppo(learner, params, env=Probe())
    values = np.asarray(Value().apply(state.params.value, params.observation))
    rest = np.exp(-1.0)
    np.testing.assert_allclose(values[:3], [1 + rest + rest**2, 1 + rest, 1], atol=0.1)


def test_the_rate_counts_seconds_not_steps():
    rollout = Steps(jnp.array([[4.0], [0.0]]), jnp.array([[1.0], [3.0]]))
    rate = RewardRate.unknown()
    assert float(rate.per_second()) == 0
    rate = rate.after(rollout)
    assert float(rate.per_second()) == 1
    np.testing.assert_array_equal(rate.differential(rollout).reward, [[3.0], [-3.0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"final_horizon_s": 5.0}, "final_horizon_s is 5.0; it must be None without horizon_s"),
        ({"horizon_s": -1.0}, "horizon_s is -1.0; accepted: a number above 0"),
        ({"horizon_s": 1.0, "average_reward": True}, "horizon_s is 1.0; it must be None with av"),
        ({"return_span_s": 1.0, "average_reward": True}, "return_span_s is 1.0; .* with average"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(JaxschedError, match=message):
        PPOConfig(1, **changes)


def test_an_action_value_has_no_average():
    agents = softmax_agents(POLICY)
    with pytest.raises(JaxschedError, match="average_reward is true; .* action value"):
        mappo(agents, action_value(Value(), agents), PPOConfig(1, average_reward=True))
