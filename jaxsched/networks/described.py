"""Flax modules that are built from their own description, so that each is written once.

Axes: ``D`` entries of an observation, ``A`` actions.
"""

from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp

from jaxsched.networks import description as nd
from jaxsched.types import Array


class Described(nn.Module):
    """A network from a flat observation to scores that follows :meth:`describe`.

    Its layers are called as in the description, which is what an export hands over.
    """

    single: ClassVar[bool] = False
    """The output is one number: without the axis of scores."""

    def describe(self) -> list[nd.Step]:
        """The network as steps that can be followed without JAX; layers named as its weights."""
        raise NotImplementedError

    def check(self, observation: Array) -> None:
        """Refuse an observation that the network is not for."""
        del observation

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """What the weights of a layer are drawn with."""
        del layer
        return nn.initializers.lecun_normal()

    def regularise(self, layer: str, outputs: Array, train: bool) -> Array:
        """What happens to the outputs of a layer in training only."""
        del layer, train
        return outputs

    @nn.compact
    def __call__(self, observation: Array, train: bool = False) -> Array:
        """Observation float32 ``[..., D]`` to scores float32 ``[..., A]``; ``[...]`` if single."""

        def dense(step: nd.Step, x: Any) -> Any:
            layer = nd.layer_of(step)
            y = nn.Dense(step["size"], kernel_init=self.initialiser(layer), name=layer)(x)
            y = nn.relu(y) if step["activation"] == "relu" else y
            return self.regularise(layer, y, train)

        self.check(observation)
        scores = nd.follow(self.describe(), observation, dense, jnp, observation.ndim - 1)
        return scores[..., 0] if self.single else scores
