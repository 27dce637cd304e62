"""Records that every environment, learner and evaluator exchanges.

Axes: ``T`` time, ``B`` batch of environments. All records are pytrees of arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

Array: TypeAlias = jax.Array
PRNGKey: TypeAlias = jax.Array
PyTree: TypeAlias = Any
Knowledge = Literal["nothing", "estimates", "prediction", "run times", "unstated"]
"""What a policy may know of how long a job will run."""
NO_JOB = -1
"""In place of a job's row."""


class TimeStep(NamedTuple):
    """What one ``reset`` or ``step`` reports (single environment: no batch axis).

    Attributes:
      observation: pytree, the state as the policy sees it *after* the transition.
      action_mask: bool ``[num_actions]`` (or a pytree of masks); at least one entry is true.
      reward: float32 scalar.
      terminated: bool scalar, the episode reached its end (bootstrap value 0).
      truncated: bool scalar, the episode was cut (bootstrap from ``observation``).
      elapsed: float32 scalar, simulated seconds that passed during the step, for time-based
        discounting; 0 where decisions are taken at the same instant.
      metrics: pytree with the same structure at each step of one environment.
    """

    observation: PyTree
    action_mask: PyTree
    reward: Array
    terminated: Array
    truncated: Array
    elapsed: Array
    metrics: PyTree

    @property
    def done(self) -> Array:
        """True where the episode ended for either reason."""
        return self.terminated | self.truncated


class Rollout(NamedTuple):
    """A time-major piece of experience, leaves ``[T, B, ...]``.

    ``next_observation`` and ``next_mask`` describe the state that the step led to, before any
    automatic reset; ``extras`` is what the learner's ``act`` returned beside the action.
    ``branches`` are for learners that ask for them (``Learner.branching``), leaves ``[B, ...]``.
    """

    observation: PyTree
    mask: PyTree
    action: PyTree
    reward: Array
    terminated: Array
    truncated: Array
    elapsed: Array
    next_observation: PyTree
    next_mask: PyTree
    extras: PyTree
    branches: PyTree = ()


@dataclass(frozen=True)
class ArraySpec:
    """Shape, dtype and bounds of one array (``names`` labels the entries where there are few)."""

    shape: tuple[int, ...]
    dtype: Any = jnp.float32
    minimum: float = float("-inf")
    maximum: float = float("inf")
    names: tuple[str, ...] = ()

    def zeros(self) -> Array:
        """An array of zeros of this spec."""
        return jnp.zeros(self.shape, self.dtype)


@dataclass(frozen=True)
class DiscreteSpec:
    """Actions ``0 .. num_actions - 1``; ``names`` labels them and is no part of the value."""

    num_actions: int
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def minimum(self) -> int:
        """The first action."""
        return 0

    @property
    def maximum(self) -> int:
        """The last action."""
        return self.num_actions - 1

    def zeros(self) -> Array:
        """The first action, int32 scalar."""
        return jnp.zeros((), jnp.int32)


def action_names(spec: PyTree) -> tuple[str, ...]:
    """A name for each choice or number of an action: the spec's own, or its number.

    Args:
      spec: an ``ArraySpec`` or a ``DiscreteSpec``, or several by name.
    """
    if isinstance(spec, Mapping):
        return tuple(name for part in spec.values() for name in action_names(part))
    count = spec.num_actions if isinstance(spec, DiscreteSpec) else prod(spec.shape)
    return spec.names or tuple(f"action{index}" for index in range(count))


class Specs(NamedTuple):
    """What a learner knows of an environment: pytrees of ``ArraySpec`` and ``DiscreteSpec``."""

    observation: PyTree
    action: PyTree


class Feature(NamedTuple):
    """What the entries of one kind mean: ``quantity = entry * divisor``, in ``unit``."""

    meaning: str
    unit: str
    divisor: float = 1.0
