"""Spaces with the names, attributes and methods of gymnax's, for where gymnax is not loaded."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.adapters.containers import bounds, to_containers
from jaxsched.types import Array, ArraySpec, DiscreteSpec, PRNGKey, PyTree


@dataclass(frozen=True)
class Discrete:
    """Whole numbers ``0 .. n - 1``."""

    n: int
    shape: tuple[int, ...] = ()
    dtype: Any = jnp.int32

    def sample(self, key: PRNGKey) -> Array:
        """One of them, uniform."""
        return jax.random.randint(key, self.shape, 0, self.n, self.dtype)

    def contains(self, x: Any) -> Array:
        """Whether ``x`` is one of them."""
        return (jnp.asarray(x) >= 0) & (jnp.asarray(x) < self.n)


@dataclass(frozen=True)
class Box:
    """Arrays whose entries lie between ``low`` and ``high``."""

    low: Any
    high: Any
    shape: tuple[int, ...]
    dtype: Any = jnp.float32

    def sample(self, key: PRNGKey) -> Array:
        """Uniform between the bounds."""
        uniform = jax.random.uniform(key, self.shape, minval=self.low, maxval=self.high)
        return uniform.astype(self.dtype)

    def contains(self, x: Any) -> Array:
        """Whether all entries of ``x`` lie between the bounds."""
        return jnp.all((jnp.asarray(x) >= self.low) & (jnp.asarray(x) <= self.high))


@dataclass(frozen=True)
class Dict:
    """Dictionaries of arrays."""

    spaces: Mapping[str, Any]

    def sample(self, key: PRNGKey) -> dict[str, Any]:
        """A sample of each part."""
        keys = jax.random.split(key, len(self.spaces))
        return {
            name: self.spaces[name].sample(k) for name, k in zip(self.spaces, keys, strict=True)
        }

    def contains(self, x: Any) -> Array:
        """Whether each part of ``x`` is in its space."""
        parts = [space.contains(x[name]) for name, space in self.spaces.items()]
        return jnp.all(jnp.stack(parts))


def space_of(spec: PyTree) -> Any:
    """The space of a tree of specs, of gymnax's own classes where a program has loaded it.

    Its learners ask for these classes, which can only be met once gymnax is there anyway.
    """
    kinds: Any = sys.modules.get("gymnax.environments.spaces", sys.modules[__name__])

    def leaf(spec: ArraySpec | DiscreteSpec) -> Any:
        if isinstance(spec, DiscreteSpec):
            return kinds.Discrete(spec.num_actions)
        return kinds.Box(*bounds(spec), spec.shape, spec.dtype)

    def node(parts: Any) -> Any:
        named = parts if isinstance(parts, dict) else dict(enumerate(parts))
        return kinds.Dict(named)

    return to_containers(spec, leaf, node)
