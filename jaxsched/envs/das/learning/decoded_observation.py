"""What the observation of DAS implies: requests, free resources and what fits where.

The entries of the observation are whole numbers divided by constants, so everything here is exact.

Axes: ``N`` positions, ``M`` machines; further leading axes are not supported (use ``vmap``).
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.das.simulator.cluster import Cluster
from jaxsched.envs.das.observation import DAY_S, INSTANCE_SCALE, Observation
from jaxsched.envs.das.simulator.placement import Demand, fitting
from jaxsched.types import Array


class Recovered(NamedTuple):
    """Whole numbers as float32; rows of dummy positions are zero, and nothing fits for them.

    Attributes:
      instances: ``[N]``, C.
      requests: ``[N, 3]``, GPUs, CPUs and GB of each instance.
      wait_s: ``[N]``, seconds since submission.
      free: ``[M, 3]``, free GPUs, CPUs and GB.
      fit: ``[N, M]``, instances of the job that fit on the machine.
      real: bool ``[N]``.
    """

    instances: Array
    requests: Array
    wait_s: Array
    free: Array
    fit: Array
    real: Array

    @property
    def num_gpus(self) -> Array:
        """GPUs of each job, ``[N]``."""
        return self.instances * self.requests[:, 0]


def recover(cluster: Cluster, observation: Observation) -> Recovered:
    """Undo the scaling of one observation."""
    real = observation.real
    jobs = jnp.where(real[:, None], observation.jobs, 0.0)
    capacity = jnp.array(cluster.capacity, jnp.float32)
    machines = observation.machines
    requests = jnp.round(jobs[:, 1:4] * capacity)
    free = jnp.round(jnp.stack([machines[:, 1], machines[:, 0], machines[:, 2]], -1) * capacity)
    instances = jnp.round(jobs[:, 0] * INSTANCE_SCALE)
    gpus, cpus, mem = free.T
    fit = fitting((gpus, cpus, mem), Demand(instances, *requests.T)).T
    return Recovered(
        instances=instances,
        requests=requests,
        wait_s=jnp.round(jobs[:, 4] * DAY_S),
        free=free,
        fit=jnp.where(real[:, None], fit, 0.0),
        real=real,
    )
