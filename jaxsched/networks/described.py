"""Flax modules that are built from their own description, so that each is written once.

Axes: ``D`` entries of an observation, ``A`` actions.
"""

from typing import Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.networks import description as nd
from jaxsched.types import Array

Precision = Literal["float32", "bfloat16"]


class Described(nn.Module, kw_only=True):
    """A network from a flat observation to scores that follows :meth:`describe`.

    Its layers are called as in the description, which is what an export hands over.

    Attributes:
      precision: what dense layers multiply in. With ``"bfloat16"`` their inputs and weights are
        rounded to it, products are added up in float32, and so are bias and activation; weights are
        kept, and all other steps and the scores are computed, in float32.
    """

    single: ClassVar[bool] = False
    """The output is one number: without the axis of scores."""

    precision: Precision = "float32"

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

        def apply(step: nd.Step, x: Any) -> Any:
            layer = nd.layer_of(step)
            if step["op"] == "affine":
                return Affine(name=layer)(x)
            multiply = None if self.precision == "float32" else _in_bfloat16
            y = nn.Dense(
                step["size"],
                kernel_init=self.initialiser(layer),
                dot_general=multiply,
                name=layer,
            )(x)
            y = nn.relu(y) if step["activation"] == "relu" else y
            return self.regularise(layer, y, train)

        self.check(observation)
        scores = nd.follow(self.describe(), observation, apply, jnp, observation.ndim - 1)
        return scores[..., 0] if self.single else scores


class Affine(nn.Module):
    """A factor and a summand for each entry, 1 and 0 at first."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """``x * scale + offset``, float32 ``[..., D]``."""
        size = x.shape[-1:]
        scale = self.param("scale", nn.initializers.ones, size)
        offset = self.param("offset", nn.initializers.zeros, size)
        y: Array = x * scale + offset
        return y


def _in_bfloat16(inputs: Array, kernel: Array, axes: Any, **_: Any) -> Array:
    """A product of rounded numbers, added up in float32."""
    rounded = inputs.astype(jnp.bfloat16), kernel.astype(jnp.bfloat16)
    return jax.lax.dot_general(*rounded, axes, preferred_element_type=jnp.float32)
