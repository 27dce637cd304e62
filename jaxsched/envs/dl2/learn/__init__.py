"""How policies of DL2 are trained; here the networks, the paper's and one that shares weights.

Specification, section 10. Rows of the observation are jobs; their order carries no meaning, so
the variant reads every row with the same weights and adds what all rows have in common.
"""

import jax.numpy as jnp

from jaxsched.elastic.models import MODELS
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.rules import KINDS
from jaxsched.envs.dl2.rules.observation import ObservationKind, observation_names
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
from jaxsched.networks.mlp import MLP, ValueMLP, sizes_of
from jaxsched.types import Array

NUM_TYPES = len(MODELS)
SCALARS = 5  # d, e, r, w, u: entries of a row beside its type
PAPER_HIDDEN = (256, 256)
PUBLISHED_STD = 0.02  # of the weights that the published network starts with
SQUASH_MULTIPLY, SQUASH_DIVIDE = 10.0, 2.0


def split_rows(observation: Array, num_rows: int, kind: ObservationKind = "paper") -> Array:
    """Rows ``[..., J, L + 5]`` of a flat observation ``[..., J * (L + 5)]``.

    Those of the ``artefact``'s observation are ``[..., J, 6]``. A row ends with its workers and PS.
    """
    if kind == "artefact":
        return jnp.swapaxes(observation.reshape(*observation.shape[:-1], -1, num_rows), -1, -2)
    lead, size = observation.shape[:-1], num_rows * NUM_TYPES
    types = observation[..., :size].reshape(*lead, num_rows, NUM_TYPES)
    scalars = observation[..., size:].reshape(*lead, SCALARS, num_rows)
    return jnp.concatenate([types, jnp.swapaxes(scalars, -1, -2)], axis=-1)


def join_rows(rows: Array, kind: ObservationKind = "paper") -> Array:
    """The inverse of ``split_rows``."""
    lead = rows.shape[:-2]
    if kind == "artefact":
        return jnp.swapaxes(rows, -1, -2).reshape(*lead, -1)
    types = rows[..., :NUM_TYPES].reshape(*lead, -1)
    scalars = jnp.swapaxes(rows[..., NUM_TYPES:], -1, -2).reshape(*lead, -1)
    return jnp.concatenate([types, scalars], axis=-1)


def _row_steps(network: "RowPolicy | RowValue") -> list[nd.Step]:
    """Every row through the same layers, and what their mean says of the cluster."""
    num_rows, size = network.num_rows, network.num_rows * NUM_TYPES
    scalars = []
    for i in range(SCALARS):
        start = size + i * num_rows
        scalars += [
            nd.take("squashed", f"flat_{i}", start=start, stop=start + num_rows),
            nd.reshape(f"flat_{i}", f"scalar_{i}", (num_rows, 1)),
        ]
    return [
        nd.log1p(nd.OBSERVATION, "squashed", multiply=SQUASH_MULTIPLY, divide=SQUASH_DIVIDE),
        nd.take("squashed", "flat_types", stop=size),
        nd.reshape("flat_types", "types", (num_rows, NUM_TYPES)),
        *scalars,
        nd.concat(("types", *(f"scalar_{i}" for i in range(SCALARS))), "rows"),
        *nd.dense_stack("rows", "row", network.row_sizes),
        nd.mean(nd.last_of("rows", "row", network.row_sizes), "mean_row"),
        *nd.dense_stack("mean_row", "context", network.context_sizes),
    ]


class RowPolicy(ExportableModule):
    """A variant: what is learnt about a job holds in every row.

    Attributes:
      num_rows: J.
      row_sizes: widths of the layers shared by the rows.
      context_sizes: widths of the layers that read the mean over rows.
      score_size: width of the layer that scores a row in its context.
    """

    num_rows: int
    row_sizes: tuple[int, ...] = (32, 32)
    context_sizes: tuple[int, ...] = (32,)
    score_size: int = 32

    def describe(self) -> list[nd.Step]:
        """Rows in their context to ``3 * J + 1`` logits."""
        row = nd.last_of("rows", "row", self.row_sizes)
        context = nd.last_of("mean_row", "context", self.context_sizes)
        return [
            *_row_steps(self),
            nd.repeat(context, "contexts", self.num_rows),
            nd.concat((row, "contexts"), "rows_in_context"),
            nd.dense("rows_in_context", "score_0", self.score_size),
            nd.dense("score_0", "tasks", KINDS, activation="linear"),
            nd.reshape("tasks", "flat_tasks", (KINDS * self.num_rows,)),
            nd.dense(context, "void", 1, activation="linear"),
            nd.concat(("flat_tasks", "void"), nd.SCORES),
        ]


class RowValue(ExportableModule):
    """The value network of the same make.

    Attributes:
      num_rows: J.
      row_sizes: widths of the layers shared by the rows.
      context_sizes: widths of the layers that read the mean over rows.
    """

    single = True
    num_rows: int
    row_sizes: tuple[int, ...] = (32, 32)
    context_sizes: tuple[int, ...] = (64,)

    def describe(self) -> list[nd.Step]:
        """The context to one value."""
        context = nd.last_of("mean_row", "context", self.context_sizes)
        head = nd.dense(context, "head", 1, activation="linear", output=nd.SCORES)
        return [*_row_steps(self), head]


def policy_network(env: DL2, kind: str) -> ExportableModule:
    """The policy network of that kind.

    Args:
      env: whose observations it reads.
      kind: ``paper`` (two layers of 256), ``published`` (one as wide as the observation, a learnt
        factor and summand after its ReLU, weights drawn with deviation 0.02), ``rows`` (a variant
        that shares weights by row), or layers of other widths as ``mlp-128-128``.

    Raises:
      JaxschedError: no such kind, or one that does not read such observations.
    """
    if kind == "rows":
        if env.observation != "paper":
            raise JaxschedError("dl2: network is 'rows'; accepted: with the observation 'paper'")
        return RowPolicy(env.window)
    if kind == "published":
        return MLP(KINDS * env.window + 1, _as_wide(env), affines=True, initial_std=PUBLISHED_STD)
    return MLP(KINDS * env.window + 1, _hidden(kind))


def value_network(env: DL2, kind: str) -> ExportableModule:
    """The value network of the same make."""
    if kind == "published":
        return ValueMLP(_as_wide(env), affines=True, initial_std=PUBLISHED_STD)
    return RowValue(env.window) if kind == "rows" else ValueMLP(_hidden(kind))


def _hidden(kind: str) -> tuple[int, ...]:
    return PAPER_HIDDEN if kind == "paper" else sizes_of(kind)


def _as_wide(env: DL2) -> tuple[int]:
    return (len(observation_names(env.window, env.observation)),)
