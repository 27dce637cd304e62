"""Options given when a program runs, so that environments of one size share a compiled program.

An environment's options are constants of its programs, which is what makes them fast. Who plays
many small cases would rather compile once: ``shared`` moves the options in which environments of a
size differ into their parameters.
"""

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.environment import MLFS, MOST_OFFERS, MOST_SLOTS
from jaxsched.envs.mlfs.simulator.rules import OF_CLUSTER, OF_RULES
from jaxsched.envs.mlfs.simulator.tables import Params
from jaxsched.types import Array


def shared(env: MLFS, params: Params, max_gpus: int) -> tuple[MLFS, Params]:
    """An environment that others of its size share, and parameters in which it plays as ``env``.

    Args:
      env: the environment.
      params: its parameters.
      max_gpus: GPUs that a server of the program has room for, at least those of any server.
    """
    rules = env.rules
    cluster = rules.cluster._replace(some_gpus=rules.cluster.num_gpus)
    options = {name: getattr(cluster, name) for name in OF_CLUSTER}
    options |= {name: getattr(rules, name) for name in OF_RULES} | {"max_slots": env.max_slots}
    arrays = {name: np.asarray(value) for name, value in options.items()}
    late = {name: x if x.dtype == bool else x.astype(np.int32) for name, x in arrays.items()}
    common = MLFS(
        gpus=(max_gpus,) * env.num_servers,
        max_active=env.max_active,
        use_migration=env.use_migration,
        order=env.order,
        decide=env.decide,
        reward=env.reward,
        slot_every=env.slot_every,
        max_slots=MOST_SLOTS,
        max_offers=MOST_OFFERS,
    )
    return common, params._replace(options=late)


def padded(params: Params, num_jobs: int, max_running: int) -> Params:
    """Parameters of the same episodes with room for more, so that their shapes are shared.

    Args:
      params: of some tables.
      num_jobs: jobs of each table at least; J.
      max_running: tasks that can run at once, at least; R.
    """
    num_jobs = max(num_jobs, params.max_jobs)
    rows = params.offset.shape[0] * num_jobs + 1

    def longer(values: Array, count: int) -> Array:
        more = max(count - values.shape[0], 0)
        return jnp.pad(values, [(0, more), *[(0, 0)] * (values.ndim - 1)])

    return params._replace(
        rows=longer(params.rows, rows),
        acc_max=longer(params.acc_max, rows),
        submit_s=longer(params.submit_s, rows),
        places=jnp.arange(num_jobs, dtype=jnp.int32),
        running=jnp.arange(max(max_running, params.max_running), dtype=jnp.int32),
    )
