"""Networks that more than one system uses."""

from collections.abc import Sequence

import flax.linen as nn

from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.described import Described
from jaxsched.types import Array


def mlp(x: Array, name: str, sizes: Sequence[int]) -> Array:
    """Dense layers with ReLU, called ``name_0``, ``name_1``, ... in the enclosing module."""
    for i, size in enumerate(sizes):
        x = nn.relu(nn.Dense(size, name=f"{name}_{i}")(x))
    return x


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


class MLP(Described):
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

    def describe(self) -> list[nd.Step]:
        """The hidden layers, and one without ReLU."""
        last = nd.last_of(nd.OBSERVATION, "hidden", self.hidden)
        return [
            *nd.dense_stack(nd.OBSERVATION, "hidden", self.hidden),
            nd.dense(last, "head", self.num_outputs, activation="linear", output=nd.SCORES),
        ]

    def regularise(self, layer: str, outputs: Array, train: bool) -> Array:
        """Drop outputs of the first hidden layer."""
        if layer == "hidden_0" and self.dropout:
            return nn.Dropout(self.dropout, deterministic=not train)(outputs)
        return outputs


class ValueMLP(Described):
    """A fully connected network from a flat observation to one value.

    Attributes:
      hidden: widths of the hidden layers, each with ReLU.
    """

    single = True
    hidden: tuple[int, ...]

    def describe(self) -> list[nd.Step]:
        """As :class:`MLP` of one output."""
        return MLP(1, self.hidden).describe()
