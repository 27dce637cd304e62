"""Who holds instances where, on clusters of many machines: the entries of each machine.

A table of all running jobs on all machines grows with the square of the cluster. An instance takes
at least one GPU, so a machine has no more jobs than GPUs: here each has that many entries.

Axes: ``M`` machines, ``E`` entries of a machine, ``R`` rows of the running table, ``P`` places of a
decision's order.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.das.simulator.cluster import Cluster
from jaxsched.types import Array


class Entries(NamedTuple):
    """The entries; an empty one has row R and no instances.

    Attributes:
      row: int32 ``[M, E]``, of the running table.
      instances: int8 ``[M, E]``, how many.
    """

    row: Array
    instances: Array

    @classmethod
    def none(cls, cluster: Cluster, rows: int) -> "Entries":
        """Empty machines."""
        shape = cluster.num_servers, cluster.gpus
        return cls(jnp.full(shape, rows, jnp.int32), jnp.zeros(shape, jnp.int8))

    def used(self, request: Array) -> Array:
        """What is taken of each machine, packed, uint32 ``[M]``; ``request`` is uint32 ``[R]``."""
        taken = self.instances.astype(jnp.uint32) * self.requests(request)
        return jnp.sum(taken, axis=-1, dtype=jnp.uint32)

    def requests(self, request: Array) -> Array:
        """The packed request of each entry's job, uint32 ``[M, E]``; 0 in empty ones."""
        return request.at[self.row].get(mode="fill", fill_value=np.uint32(0))

    def worst(self, loss: Array, rows: int) -> Array:
        """The largest loss (float ``[M, E]``) of each row's entries, ``[R]``; -1 for none."""
        return jnp.full(rows, -1.0, loss.dtype).at[self.row].max(loss, mode="drop")

    def without(self, ends: Array) -> "Entries":
        """Without the rows ``ends`` (bool ``[R]``)."""
        stays = ~ends.at[self.row].get(mode="fill", fill_value=True)
        return Entries(
            jnp.where(stays, self.row, ends.shape[0]),
            jnp.where(stays, self.instances, 0).astype(jnp.int8),
        )

    def joined_by(self, row: Array, counts: Array) -> "Entries":
        """With jobs more, for which there is room.

        The k-th newcomer of a machine takes its k-th empty entry.

        Args:
          row: int32 ``[P]``, of the running table; of those that are placed.
          counts: int8 ``[P, M]``, instances on each machine, all 0 where not placed.
        """
        comes = counts > 0
        number = jnp.cumsum(comes, axis=0, dtype=jnp.int32) - 1
        empty = self.instances == 0
        turn = jnp.where(empty, jnp.cumsum(empty, axis=-1, dtype=jnp.int32) - 1, -1)
        chosen = comes[..., None] & (number[..., None] == turn)  # [P, M, E]; at most one P for each
        new_row = jnp.sum(jnp.where(chosen, row[:, None, None], 0), axis=0, dtype=jnp.int32)
        new_count = jnp.sum(jnp.where(chosen, counts[..., None], 0), axis=0, dtype=jnp.int8)
        enters = new_count > 0
        return Entries(
            jnp.where(enters, new_row, self.row), jnp.where(enters, new_count, self.instances)
        )
