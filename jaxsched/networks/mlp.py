"""Networks that more than one system uses."""

from collections.abc import Sequence

import flax.linen as nn

from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
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


class MLP(ExportableModule):
    """A fully connected network from a flat observation to one score per action.

    Attributes:
      num_outputs: A.
      hidden: widths of the hidden layers, each with ReLU.
      dropout: share of the first hidden layer's outputs dropped where ``train`` is true (needs a
        ``dropout`` key).
      affines: a factor and a summand, learnt, for each output of a hidden layer after its ReLU.
      initial_std: weights are drawn from a normal distribution of this deviation, cut at twice
        that; by LeCun's rule if absent.
    """

    num_outputs: int
    hidden: tuple[int, ...]
    dropout: float = 0.0
    affines: bool = False
    initial_std: float | None = None

    def describe(self) -> list[nd.Step]:
        """The hidden layers, and one without ReLU."""
        last = nd.last_of(nd.OBSERVATION, "hidden", self.hidden, affines=self.affines)
        return [
            *nd.dense_stack(nd.OBSERVATION, "hidden", self.hidden, affines=self.affines),
            nd.dense(last, "head", self.num_outputs, activation="linear", output=nd.SCORES),
        ]

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """LeCun's, or a narrow normal distribution."""
        if self.initial_std is None:
            return super().initialiser(layer)
        return nn.initializers.truncated_normal(self.initial_std)

    def regularise(self, layer: str, outputs: Array, train: bool) -> Array:
        """Drop outputs of the first hidden layer."""
        if layer == "hidden_0" and self.dropout:
            return nn.Dropout(self.dropout, deterministic=not train)(outputs)
        return outputs


class ValueMLP(ExportableModule):
    """A fully connected network from a flat observation to one value.

    Attributes:
      hidden: widths of the hidden layers, each with ReLU.
      affines: as in :class:`MLP`.
      initial_std: as in :class:`MLP`.
    """

    single = True
    hidden: tuple[int, ...]
    affines: bool = False
    initial_std: float | None = None

    def describe(self) -> list[nd.Step]:
        """As :class:`MLP` of one output."""
        return self._network().describe()

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """As :class:`MLP` draws."""
        return self._network().initialiser(layer)

    @nn.nowrap
    def _network(self) -> MLP:
        return MLP(1, self.hidden, affines=self.affines, initial_std=self.initial_std, parent=None)
