"""Where a job goes: the placements of ``cluster``, and on GPUs with slots; FGD."""

from functools import partial

import jax
import jax.numpy as jnp

from jaxsched.ops.packing import Packing
from jaxsched.trace_replay.cluster import Cluster, place
from jaxsched.trace_replay.demands import Free
from jaxsched.trace_replay.fragmentation import Tasks, place_by_growth
from jaxsched.trace_replay.policies import Locality
from jaxsched.trace_replay.shares import offered
from jaxsched.types import Array


def placed(
    cluster: Cluster,
    locality: Locality,
    free_weight: Array,
    free: Free,
    own: Array,
    num_gpus: Array,
    ranks: Array | None,
    demand: Array | None,
    tasks: Tasks | None,
) -> tuple[Packing, Array | None]:
    """Where a job goes that fits, and the free slots that it may take there (``shares.offered``).

    Args:
      cluster: the servers, in slots where GPUs have some.
      locality: what fits.
      free_weight: see ``cluster.place``.
      free: what is free.
      own: int32 ``[S]``, what the job could use of that (``demands.usable``).
      num_gpus: int32 scalar, GPUs or slots wanted.
      ranks: see ``cluster.place``.
      demand: see ``demands.usable``.
      tasks: the typical workload, where jobs go by fragmentation; None: by ``free_weight``.

    Returns:
      The placement, and int32 ``[M, S]`` free slots of each GPU; None where GPUs are alike.
    """
    placing = place(cluster, locality, free_weight, own, num_gpus, ranks)
    if free.slots is None or demand is None:
        return placing, None
    mine = offered(free.slots, cluster.gpus_per_server // len(free.slots), demand[-1])
    if tasks is not None:
        alone, found, own_gpu = place_by_growth(cluster, free, tasks, own, num_gpus, demand)
        placing = jax.tree.map(partial(jnp.where, found), alone, placing)
        mine = jnp.where(found, own_gpu, mine)
    return placing, mine
