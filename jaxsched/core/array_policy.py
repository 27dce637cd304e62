"""A policy as one pure function of named arrays, the form of exports."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jaxsched.types import Array, ArraySpec, PyTree

NEXT = "next_"
"""Prefix of a memory's name: the output with its value at the next decision."""


class ArrayPolicy(NamedTuple):
    """A decision rule whose randomness and memory are inputs and outputs; no batch axes.

    Attributes:
      decide: ``(weights, inputs) -> outputs``. Inputs are observation, memory and noise by name;
        outputs the action by name and each memory as ``next_`` and its name.
      observation: inputs from the environment's observation, whose leaves have these names.
      memory: zero before the first decision of an episode.
      noise: standard normal numbers to draw an action, zeros for the mean action.
      action: outputs; the leaves of the environment's action have these names.
    """

    decide: Callable[[PyTree, Mapping[str, Array]], dict[str, Array]]
    observation: Mapping[str, ArraySpec]
    memory: Mapping[str, ArraySpec]
    noise: Mapping[str, ArraySpec]
    action: Mapping[str, ArraySpec]

    @property
    def inputs(self) -> dict[str, ArraySpec]:
        """All inputs by name."""
        return {**self.observation, **self.memory, **self.noise}
