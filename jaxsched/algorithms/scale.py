"""Normalisation of a critic's targets, for returns whose scale is not known beforehand."""

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
        """The scale before any target: mean 0, deviation 1."""
        return cls(MovingAverage.empty(), MovingAverage.empty())

    def after(self, target: Array) -> "Scale":
        """The scale with the targets of one more rollout."""
        means = jnp.mean(target), jnp.mean(target**2)
        pairs = zip(self, means, strict=True)
        return Scale(*(average.after(value, DECAY) for average, value in pairs))

    def deviation(self) -> Array:
        """Standard deviation of the targets; 1 before any."""
        variance = self.square.mean() - self.mean.mean() ** 2
        return jnp.where(self.mean.weight > 0, jnp.sqrt(jnp.maximum(variance, LEAST_VARIANCE)), 1.0)

    def outward(self, value: Array) -> Array:
        """A normalised value in the units of rewards."""
        return self.mean.mean() + self.deviation() * value

    def inward(self, target: Array) -> Array:
        """A value in the units of rewards, normalised."""
        return (target - self.mean.mean()) / self.deviation()
