"""Networks that more than one system uses."""

from collections.abc import Sequence

import flax.linen as nn
from jax import numpy as jnp

from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.types import Array


def mlp(x: Array, name: str, sizes: Sequence[int]) -> Array:
    """Dense layers with ReLU, called ``name_0``, ``name_1``, ... in the enclosing module."""
    for i, size in enumerate(sizes):
        x = nn.relu(nn.Dense(size, name=f"{name}_{i}")(x))
    return x


def layers(name: str, sizes: Sequence[int]) -> list[str]:
    """Names that ``mlp`` gives its layers."""
    return [f"{name}_{i}" for i in range(len(sizes))]


def sizes_of(kind: str) -> tuple[int, ...]:
    """The widths that a network's name stands for, such as ``mlp-64-32``.

    Raises:
      JaxschedError: not such a name.
    """
    name, *sizes = kind.split("-")
    if name != "mlp" or not sizes or not all(size.isdigit() and int(size) for size in sizes):
        raise JaxschedError(
            f"unknown network {kind!r}; accepted: a kind of the system, or widths as mlp-64-32"
        )
    return tuple(map(int, sizes))


class MLP(nn.Module):
    """A fully connected network from a flat observation to one score per action.

    Attributes:
      num_outputs: A.
      hidden: widths of the hidden layers, each with ReLU.
      dropout: share of the first hidden layer's outputs dropped where ``train`` is true (needs a
        ``dropout`` key).
    """

    num_outputs: int
    hidden: tuple[int, ...]
    dropout: float = 0.0

    @nn.compact
    def __call__(self, observation: Array, train: bool = False) -> Array:
        """Observation float32 ``[..., D]`` to scores float32 ``[..., A]``."""
        x = observation
        for i, size in enumerate(self.hidden):
            x = nn.relu(nn.Dense(size, name=f"hidden_{i}")(x))
            if i == 0 and self.dropout:
                x = nn.Dropout(self.dropout, deterministic=not train)(x)
        return nn.Dense(self.num_outputs, name="head")(x)

    def describe(self) -> list[nd.Step]:
        """The network as steps that can be followed without JAX; layers named as its weights."""
        hidden = layers("hidden", self.hidden)
        last = [nd.OBSERVATION, *hidden][-1]
        head = nd.dense(last, "head", activation="linear", output=nd.SCORES)
        return [*nd.dense_stack(nd.OBSERVATION, hidden), head]


class ValueMLP(nn.Module):
    """A fully connected network from a flat observation to one value.

    Attributes:
      hidden: widths of the hidden layers, each with ReLU.
    """

    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Observation float32 ``[..., D]`` to values float32 ``[...]``."""
        return jnp.squeeze(nn.Dense(1, name="head")(mlp(observation, "hidden", self.hidden)), -1)
