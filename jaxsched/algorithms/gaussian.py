"""Independent normal distributions as policies: densities, entropies, samples.

Axes: ``...`` any; all functions work element by element.
"""

import jax
import jax.numpy as jnp

from jaxsched.types import Array, PRNGKey

HALF_LOG_TWO_PI = 0.9189385332046727


def log_density(action: Array, mean: Array, std: Array) -> Array:
    """Log density of each action, in nats, ``[...]``."""
    return -0.5 * ((action - mean) / std) ** 2 - jnp.log(std) - HALF_LOG_TWO_PI


def entropy(std: Array) -> Array:
    """Entropy of each, in nats, ``[...]``."""
    return 0.5 + HALF_LOG_TWO_PI + jnp.log(std)


def sample(key: PRNGKey, mean: Array, std: Array) -> Array:
    """One draw of each, ``[...]``."""
    return mean + std * jax.random.normal(key, mean.shape, mean.dtype)
