"""Returns of environments that play the same sequence, as a baseline, and the scale of targets."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.common_sequences import sequence_baseline
from jaxsched.algorithms.ppo import ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.algorithms.scale import Scale
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.wrappers.fixed_length import FixedLength
from tests import probes
from tests.algorithms.test_ppo import POLICY, Value
from tests.probes import Wager

UPDATES = 60
LOOP = training.LoopConfig(16, 2, UPDATES, num_random_streams=4)
SETTINGS = {
    "total_updates": UPDATES,
    "num_minibatches": 1,
    "epochs": 2,
    "learning_rate": 0.05,
    "lambda_": 1.0,
    "gamma": 1.0,
    "entropy_start": 0.0,
    "entropy_end": 0.0,
    "max_gradient_norm": None,
}
NOISE = 1000.0
PRIZES = (-NOISE, 4.0 + NOISE, 2.0 - NOISE, 6.0 + NOISE)


class Lottery(Wager):
    """A wager whose episode pays a large sum whatever is done: prizes less or more ``NOISE``."""

    name = "lottery"

    def step(self, key, state, action, params):
        """Who takes the sure sum gets the luck of the episode as well."""
        after, timestep = super().step(key, state, action, params)
        prize = params.prize[state[1]]
        luck = jnp.where(prize > NOISE / 2, NOISE, -NOISE)
        leaves = (state[0] == 0) & (action != 1)
        return after, timestep._replace(reward=timestep.reward + jnp.where(leaves, luck, 0.0))


@cache
def learner_of(**changes):
    return ppo(POLICY, Value(), PPOConfig(**SETTINGS | changes))


def train(learner, seed=0):
    env, params = FixedLength(Lottery(), 2), probes.wager(PRIZES, sure=1.0)
    carry = training.init(env, learner, LOOP, jax.random.key(seed), params)
    carry, metrics = training.chunk(env, learner, LOOP, carry, params, num_updates=UPDATES)
    kernel = jnp.asarray(carry.learner_state.params.policy["params"]["kernel"])
    return np.asarray(jax.nn.softmax(kernel[0])), jax.device_get(metrics), carry


def test_the_baseline_is_the_others_return_from_the_same_time_on():
    # Two sequences (columns 0, 2 and 1, 3), steps that begin at 0, 1, 2 and at 0, 2, 2 seconds.
    elapsed = jnp.array([[1.0, 2, 2, 1], [1, 0, 0, 1], [1, 1, 1, 1]])
    target = jnp.array([[9.0, 8, 7, 6], [5, 4, 3, 2], [1, 1, 1, 1]])
    expected = [
        [7, 6, 9, 8],
        [3, 1, 1, 4],  # who begins at 1 s meets the other's step at 2 s; at 2 s the one at 2 s
        [3, 1, 1, 4],
    ]
    np.testing.assert_array_equal(sequence_baseline(elapsed, target, 2), expected)
    late = jnp.array([[5.0, 1.0], [1.0, 1.0]])
    found = sequence_baseline(late, jnp.array([[2.0, 4.0], [1.0, 3.0]]), 1)
    np.testing.assert_array_equal(found, [[4.0, 2.0], [0.0, 1.0]])  # 0 after the other's end


def test_arrivals_do_not_drown_the_choice():
    """Waiting brings 3 on average and the sure sum 1, under luck of 1000 either way."""
    common = [
        train(learner_of(num_sequences=4, only_choices=True), seed)[0][1] for seed in range(3)
    ]
    alone = [train(learner_of(), seed)[0][1] for seed in range(3)]
    assert min(common) > 0.8
    assert np.mean(alone) < np.mean(common) - 0.2


def test_the_critic_learns_normalised_targets():
    chance, metrics, carry = train(learner_of(normalise_targets=True))
    scale = carry.learner_state.scale
    seen = metrics["target_mean"]
    weights = 0.99 ** np.arange(UPDATES - 1, -1, -1)
    np.testing.assert_allclose(scale.mean.mean(), np.average(seen, weights=weights), rtol=1e-3)
    assert float(scale.deviation()) > NOISE / 4
    values = scale.outward(Value().apply(carry.learner_state.params.value, jnp.eye(3)))
    assert abs(float(values[0]) - float(scale.mean.mean())) < NOISE
    assert np.all(np.isfinite(chance))


def test_the_scale():
    scale = Scale.unknown()
    assert float(scale.outward(jnp.float32(2.0))) == float(scale.inward(jnp.float32(2.0))) == 2.0
    scale = scale.after(jnp.array([1.0, 3.0]))
    np.testing.assert_allclose([scale.mean.mean(), scale.deviation()], [2.0, 1.0], rtol=1e-5)
    scale = scale.after(jnp.array([1.0, 3.0]) * 10)
    np.testing.assert_allclose(scale.inward(scale.outward(jnp.float32(0.7))), 0.7, rtol=1e-5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(JaxschedError, match="PPOConfig.num_sequences"):
        PPOConfig(1, num_sequences=0)
    with pytest.raises(JaxschedError, match="only_choices is false; it must be true with num_seq"):
        PPOConfig(1, num_sequences=2)
    env, params = FixedLength(Wager(), 2), probes.wager([1.0])
    loop = training.LoopConfig(16, 2, 1, num_random_streams=8)
    with pytest.raises(JaxschedError, match="num_random_streams is 8; .* equal to 4"):
        training.init(
            env, learner_of(num_sequences=4, only_choices=True), loop, jax.random.key(0), params
        )
    with pytest.raises(JaxschedError, match="needs whole episodes"):
        training.init(
            Wager(),
            learner_of(num_sequences=4, only_choices=True),
            training.LoopConfig(16, 4, 1, num_random_streams=4),
            jax.random.key(0),
            params,
        )
