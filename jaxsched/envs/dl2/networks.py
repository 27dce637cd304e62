"""The policy and value networks of DL2: the paper's, and a variant that shares weights by row.

Specification, section 10. Rows of the observation are jobs; their order carries no meaning, so
the variant reads every row with the same weights and adds what all rows have in common.
"""

import flax.linen as nn
import jax.numpy as jnp

from jaxsched.elastic.models import MODELS
from jaxsched.networks import description as nd
from jaxsched.networks.mlp import layers, mlp
from jaxsched.types import Array

NUM_TYPES = len(MODELS)
SCALARS = 5  # d, e, r, w, u: entries of a row beside its type
KINDS = 3  # worker, parameter server, bundle
SQUASH_MULTIPLY, SQUASH_DIVIDE = 10.0, 2.0


def split_rows(observation: Array, num_rows: int) -> Array:
    """Rows ``[..., J, L + 5]`` of a flat observation ``[..., J * (L + 5)]``."""
    lead, size = observation.shape[:-1], num_rows * NUM_TYPES
    types = observation[..., :size].reshape(*lead, num_rows, NUM_TYPES)
    scalars = observation[..., size:].reshape(*lead, SCALARS, num_rows)
    return jnp.concatenate([types, jnp.swapaxes(scalars, -1, -2)], axis=-1)


def join_rows(rows: Array) -> Array:
    """The inverse of ``split_rows``."""
    lead = rows.shape[:-2]
    types = rows[..., :NUM_TYPES].reshape(*lead, -1)
    scalars = jnp.swapaxes(rows[..., NUM_TYPES:], -1, -2).reshape(*lead, -1)
    return jnp.concatenate([types, scalars], axis=-1)


def read_rows(
    observation: Array, num_rows: int, row_sizes: tuple[int, ...], context_sizes: tuple[int, ...]
) -> tuple[Array, Array]:
    """Every row through the same layers, and what their mean says of the cluster.

    Returns:
      Rows ``[..., J, row_sizes[-1]]`` and context ``[..., context_sizes[-1]]``.
    """
    squashed = jnp.log1p(SQUASH_MULTIPLY * observation) / SQUASH_DIVIDE
    rows = mlp(split_rows(squashed, num_rows), "row", row_sizes)
    return rows, mlp(jnp.mean(rows, axis=-2), "context", context_sizes)


class RowPolicy(nn.Module):
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

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Observation float32 ``[..., D]`` to logits float32 ``[..., 3 * J + 1]``."""
        rows, context = read_rows(observation, self.num_rows, self.row_sizes, self.context_sizes)
        everywhere = (*rows.shape[:-1], context.shape[-1])
        contexts = jnp.broadcast_to(context[..., None, :], everywhere)
        scored = mlp(jnp.concatenate([rows, contexts], axis=-1), "score", (self.score_size,))
        tasks = nn.Dense(KINDS, name="tasks")(scored)
        void = nn.Dense(1, name="void")(context)
        return jnp.concatenate([tasks.reshape(*void.shape[:-1], -1), void], axis=-1)

    def describe(self) -> list[nd.Step]:
        """The network as steps that can be followed without JAX; layers named as its weights."""
        size, num_rows = self.num_rows * NUM_TYPES, self.num_rows
        row_layers = layers("row", self.row_sizes)
        context_layers = layers("context", self.context_sizes)
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
            *nd.dense_stack("rows", row_layers),
            nd.mean(row_layers[-1], "mean_row"),
            *nd.dense_stack("mean_row", context_layers),
            nd.repeat(context_layers[-1], "contexts", num_rows),
            nd.concat((row_layers[-1], "contexts"), "rows_in_context"),
            nd.dense("rows_in_context", "score_0"),
            nd.dense("score_0", "tasks", activation="linear"),
            nd.reshape("tasks", "flat_tasks", (KINDS * num_rows,)),
            nd.dense(context_layers[-1], "void", activation="linear"),
            nd.concat(("flat_tasks", "void"), nd.SCORES),
        ]


class RowValue(nn.Module):
    """The value network of the same make.

    Attributes:
      num_rows: J.
      row_sizes: widths of the layers shared by the rows.
      context_sizes: widths of the layers that read the mean over rows.
    """

    num_rows: int
    row_sizes: tuple[int, ...] = (32, 32)
    context_sizes: tuple[int, ...] = (64,)

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Observation float32 ``[..., D]`` to values float32 ``[...]``."""
        _, context = read_rows(observation, self.num_rows, self.row_sizes, self.context_sizes)
        return jnp.squeeze(nn.Dense(1, name="head")(context), -1)
