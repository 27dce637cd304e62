"""What the two agents of DAS see (specification, section 4).

Axes: ``N`` positions of the window (the specification's slots), ``M`` machines.
"""

from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.das.simulator.cluster import Cluster
from jaxsched.envs.das.simulator.dynamics import State, real_positions
from jaxsched.envs.das.simulator.owners import ESTIMATE_NAMES, LOG2_SCALE
from jaxsched.envs.das.simulator.tables import CPUS, GPUS, INSTANCES, MEM
from jaxsched.types import Array, Feature

INSTANCE_SCALE = 64.0
DAY_S = 86400.0
JOB_NAMES = ("instances", "gpus", "cpus", "memory", "age")
MACHINE_NAMES = ("free_cpus", "free_gpus", "free_memory", "free_bandwidth", "used_gpus")


class Observation(NamedTuple):
    """One observation.

    Attributes:
      jobs: float32 ``[N, 5]``, the entries of ``JOB_NAMES``; 0 in positions that are not real.
        With ``DAS.estimates`` those of ``owners.ESTIMATE_NAMES`` follow.
      machines: float32 ``[M, 5]``, the entries of ``MACHINE_NAMES``, each a share.
      real: bool ``[N]``, positions that hold a pending job; none where no decision is due.
      number: int32 ``[N]``, places of the jobs in the episode, so that a history can follow a job
        from position to position; no feature. None without ``DAS.numbers``.
    """

    jobs: Array
    machines: Array
    real: Array
    number: Array | None = None

    def narrowed(self, width: int) -> "Observation":
        """Of the first positions alone; any batch axes."""
        number = None if self.number is None else self.number[..., :width]
        return Observation(self.jobs[..., :width, :], self.machines, self.real[..., :width], number)


def features(cluster: Cluster, estimates: bool) -> dict[str, Feature]:
    """Meaning and unit of each kind of entry."""
    named = (
        Feature("estimated run time, from its group", "log2 of s", LOG2_SCALE),
        Feature("estimated run time, from its user", "log2 of s", LOG2_SCALE),
        Feature("n / (n + 1) of n finished jobs of its group", "", 1.0),
        Feature("n / (n + 1) of n finished jobs of its user", "", 1.0),
    )
    more = zip(ESTIMATE_NAMES, named, strict=True) if estimates else ()
    return {
        **{f"position*.{name}": feature for name, feature in more},
        "position*.instances": Feature("instances of the job", "instances", INSTANCE_SCALE),
        "position*.gpus": Feature("of each instance", "GPUs", cluster.gpus),
        "position*.cpus": Feature("of each instance", "CPUs", cluster.cpus),
        "position*.memory": Feature("of each instance", "GB", cluster.mem),
        "position*.waiting": Feature("whether the position holds a waiting job", "1 or 0"),
        "position*.number": Feature("place of the job in the episode", ""),
        "position*.age": Feature("since submission", "s", DAY_S),
        "machine*.free_cpus": Feature("free", "CPUs", cluster.cpus),
        "machine*.free_gpus": Feature("free", "GPUs", cluster.gpus),
        "machine*.free_memory": Feature("free", "GB", cluster.mem),
        "machine*.free_bandwidth": Feature("not in use", "Gbps", cluster.bandwidth),
        "machine*.used_gpus": Feature("in use", "GPUs", cluster.gpus),
    }


def observe(cluster: Cluster, state: State) -> Observation:
    """The observation of a state."""
    real, rows = real_positions(state), state.window.rows
    columns = {INSTANCES: INSTANCE_SCALE, GPUS: cluster.gpus, CPUS: cluster.cpus, MEM: cluster.mem}
    shares = [rows[column].astype(jnp.float32) / scale for column, scale in columns.items()]
    age = (state.time - state.window.submit).astype(jnp.float32) / DAY_S
    jobs = jnp.where(real[:, None], jnp.stack([*shares, age], axis=-1), 0.0)

    gpus, cpus, mem = cluster.free(state.used)
    busy = cluster.net_per_gpu * cluster.field(state.used, 3)
    bandwidth = jnp.maximum(cluster.bandwidth - busy, 0.0) / cluster.bandwidth
    machines = jnp.stack(
        [
            cpus / cluster.cpus,
            gpus / cluster.gpus,
            mem / cluster.mem,
            bandwidth,
            1.0 - gpus / cluster.gpus,
        ],
        axis=-1,
    )
    return Observation(jobs, machines, real)
