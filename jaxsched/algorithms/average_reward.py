"""The average-reward setting: rewards less the policy's long-run reward per simulated second.

A cluster runs without end, so that a discount is only a device. In the average-reward setting a
step is worth its reward less the long-run reward per simulated second times the seconds that it
takes, plus the difference of the values of where it leads to and of where it began (Sutton and
Barto, Reinforcement Learning, 2018, 10.3; Zhang and Ross, On-Policy Deep Reinforcement Learning for
the Average-Reward Criterion, 2021). Such values have no time scale and are defined up to a
constant; targets are centred so that the constant cannot drift.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.algorithms.returns import MovingAverage
from jaxsched.types import Array, Rollout

DECAY = 0.95  # per update
LEAST_SECONDS = 1e-6


class RewardRate(NamedTuple):
    """Moving averages of a step's reward and of its simulated seconds."""

    reward: MovingAverage
    elapsed: MovingAverage

    @classmethod
    def unknown(cls) -> "RewardRate":
        """The rate before any step: 0 per second."""
        return cls(MovingAverage.empty(), MovingAverage.empty())

    def after(self, rollout: Rollout) -> "RewardRate":
        """The rate with one more rollout; rewards and elapsed times are ``[T, B]``."""
        means = jnp.mean(rollout.reward), jnp.mean(rollout.elapsed)
        pairs = zip(self, means, strict=True)
        return RewardRate(*(average.after(value, DECAY) for average, value in pairs))

    def per_second(self) -> Array:
        """Reward per simulated second; float32."""
        return self.reward.mean() / jnp.maximum(self.elapsed.mean(), LEAST_SECONDS)

    def differential(self, rollout: Rollout) -> Rollout:
        """The rollout with each reward less the average of so many seconds."""
        return rollout._replace(reward=rollout.reward - self.per_second() * rollout.elapsed)


def undiscounted(rollout: Rollout) -> Array:
    """Discounts of 1, and 0 after a termination, whose value is the average; float32 ``[T, B]``."""
    return 1.0 - rollout.terminated.astype(jnp.float32)
