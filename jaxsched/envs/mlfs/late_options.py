"""Options given when a program runs, so that cases of one size share a compiled program.

An environment's options are constants of its programs, which is what makes them fast. Who plays
many small cases would rather compile once: ``shared`` splits an environment into one that all
cases of a size have in common and the numbers in which they differ, and ``with_options`` puts
these, as arrays, back into it. Axes: ``S`` servers, ``G`` GPUs of a server.
"""

from dataclasses import fields
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.simulator.cluster import Cluster
from jaxsched.envs.mlfs.simulator.tables import WEIGHTS, Params
from jaxsched.types import Array

COMPILED = ("decide", "gpus", "max_active", "use_migration", "order", "reward", "slot_every")
"""Options that shapes or the course of a step follow from."""
OF_PARAMS = (*WEIGHTS, "comm_rounds", "prediction_error", "run_time_error")
"""Options that act through ``Params`` only."""
LATE = tuple(field.name for field in fields(MLFS) if field.name not in (*COMPILED, *OF_PARAMS))
"""Options that a program can read."""

Options = dict[str, Any]
"""Values of ``LATE``, and under "gpus" the GPUs of each server, int32 ``[S]``."""


def shared(env: MLFS, max_gpus: int) -> tuple[MLFS, Options]:
    """What an environment shares with others of its size, and what is its own.

    Args:
      env: the environment.
      max_gpus: G of the program, at least that of any server.
    """
    options = {name: np.asarray(getattr(env, name)) for name in LATE}
    options = {name: x if x.dtype == bool else x.astype(np.int32) for name, x in options.items()}
    common = {name: getattr(env, name) for name in COMPILED}
    common["gpus"] = (max_gpus,) * env.num_servers
    return MLFS(**common), options | {"gpus": np.array(env.gpus, np.int32)}


def with_options(common: MLFS, options: Options) -> MLFS:
    """The environment of ``shared``, to be used while a program is traced; it cannot be hashed."""
    env = object.__new__(_WithOptions)
    values = {field.name: getattr(common, field.name) for field in fields(MLFS)}
    values |= {name: options[name] for name in LATE}
    env.__dict__.update(values, num_gpus=options["gpus"])
    return env


class _WithOptions(MLFS):
    """Some of whose options are arrays; not checked."""

    num_gpus: Array

    @property
    def cluster(self) -> Cluster:
        """Servers, of which some have fewer GPUs than the shape of the loads has room for."""
        return super().cluster._replace(some_gpus=self.num_gpus)


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
