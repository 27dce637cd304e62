"""Flax modules that are built from their own description, so that each is written once.

Axes: ``D`` entries of an observation, ``A`` actions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.networks import description as nd
from jaxsched.types import Array

Precision = Literal["float32", "bfloat16"]
LECUN_NORMAL = nn.initializers.lecun_normal()


class ExportableModule(nn.Module, kw_only=True):
    """A network from a flat observation to scores that follows :meth:`describe`.

    Its layers are called as in the description, which is what an export hands over.

    Attributes:
      precision: what dense layers multiply in. With ``"bfloat16"`` their inputs and weights are
        rounded to it, products and bias are added up in float32, and what a layer with an
        activation gives is rounded again, as are gradients between layers; weights and their
        gradients are kept, and other steps and the scores are computed, in float32.
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
        return LECUN_NORMAL

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
            rectified = step["activation"] == "relu"
            start = self.initialiser(layer)
            y = dense(self.precision, step["size"], layer, rectified=rectified, kernel_init=start)(
                x
            )
            return self.regularise(layer, y, train)

        self.check(observation)
        scores = nd.follow(self.describe(), observation, apply, jnp, observation.ndim - 1)
        return scores[..., 0] if self.single else scores


def dense(
    precision: Precision,
    size: int,
    name: str,
    *,
    rectified: bool = False,
    kernel_init: nn.initializers.Initializer = LECUN_NORMAL,
    use_bias: bool = True,
) -> Callable[[Array], Array]:
    """A dense layer for a module's compact method; weights have the same names in each precision.

    Args:
      precision: of its products; with ``"bfloat16"`` it is a :class:`RoundedDense`.
      size: of its output.
      name: of the layer.
      rectified: ReLU follows.
      kernel_init: what the kernel is drawn with.
      use_bias: add a bias.

    Returns:
      A function of ``[..., D]`` to ``[..., size]``.
    """
    if precision == "bfloat16":
        return RoundedDense(size, rectified, kernel_init, use_bias, name=name)
    layer = nn.Dense(size, use_bias=use_bias, kernel_init=kernel_init, name=name)
    return (lambda x: nn.relu(layer(x))) if rectified else layer


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


class RoundedDense(nn.Module):
    """``nn.Dense``, with ReLU if ``rectified``, that reads and writes bfloat16.

    A layer's numbers are read from memory and written there several times in a gradient step, which
    takes a GPU longer than the products: half the bytes are nearly half the time.

    Attributes:
      size: of the output.
      rectified: ReLU follows, and the output is bfloat16; else it is float32.
      kernel_init: what the kernel is drawn with.
      use_bias: add a bias.
    """

    size: int
    rectified: bool
    kernel_init: nn.initializers.Initializer
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """``[..., D]`` to ``[..., size]``."""
        kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.size))
        bias = jnp.zeros(self.size, jnp.float32)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, (self.size,))
        y: Array = _rounded(self.rectified, x, kernel, bias)
        return y


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rounded(rectified: bool, x: Array, kernel: Array, bias: Array) -> Array:
    """``x @ kernel + bias``, or ReLU of it in bfloat16."""
    y = _product(x, kernel) + bias
    return nn.relu(y).astype(jnp.bfloat16) if rectified else y


def _product(x: Array, y: Array) -> Array:
    """``x @ y`` of rounded numbers, added up in float32."""
    rounded = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
    return jnp.matmul(*rounded, preferred_element_type=jnp.float32)


def _rounded_forward(rectified: bool, x: Array, kernel: Array, bias: Array) -> tuple[Array, Any]:
    y = _rounded(rectified, x, kernel, bias)
    # An array without entries tells the input's type; it is kept rounded.
    kind = jnp.zeros(0, x.dtype)
    return y, (x.astype(jnp.bfloat16), kernel, kind, y if rectified else None)


def _rounded_backward(rectified: bool, kept: Any, slope: Array) -> tuple[Array, Array, Array]:
    x, kernel, kind, y = kept
    if rectified:
        slope = jnp.where(y > 0, slope, 0)
    slope = slope.astype(jnp.bfloat16)
    rows, slopes = x.reshape(-1, x.shape[-1]), slope.reshape(-1, slope.shape[-1])
    of_bias = jnp.sum(slopes, axis=0, dtype=jnp.float32)
    return _product(slope, kernel.T).astype(kind.dtype), _product(rows.T, slopes), of_bias


_rounded.defvjp(_rounded_forward, _rounded_backward)
