"""The scale of returns that a critic learns, where nobody knows it beforehand."""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.algorithms.returns import MovingAverage
from jaxsched.types import Array

DECAY = 0.99  # per update
LEAST_VARIANCE = 1e-6


class Scale(NamedTuple):
    """Moving averages of targets and of their squares; float32 scalars."""

    mean: MovingAverage
    square: MovingAverage

    @classmethod
    def unknown(cls) -> "Scale":
        """Before any target is seen: mean 0, deviation 1."""
        return cls(MovingAverage.empty(), MovingAverage.empty())

    def after(self, target: Array) -> "Scale":
        """With the targets of one more rollout."""
        means = jnp.mean(target), jnp.mean(target**2)
        pairs = zip(self, means, strict=True)
        return Scale(*(average.after(value, DECAY) for average, value in pairs))

    def deviation(self) -> Array:
        """Of the targets; 1 while none is known."""
        variance = self.square.mean() - self.mean.mean() ** 2
        return jnp.where(self.mean.weight > 0, jnp.sqrt(jnp.maximum(variance, LEAST_VARIANCE)), 1.0)

    def outward(self, value: Array) -> Array:
        """What the critic says, in the units of rewards."""
        return self.mean.mean() + self.deviation() * value

    def inward(self, target: Array) -> Array:
        """What the critic should say."""
        return (target - self.mean.mean()) / self.deviation()
