"""Features that DAS's observation implies, for networks that need not find them themselves.

An extra of ours (off by default): an order that adapts to load needs to see it.

Axes: ``...`` any batch axes, ``N`` positions, ``M`` machines.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.decoded_observation import Recovered, recover
from jaxsched.envs.das.observation import DAY_S, Observation
from jaxsched.types import Array


class Derived(NamedTuple):
    """Derived features, about 0 to 1 each; rows of dummy positions are zero.

    Attributes:
      jobs: float32 ``[..., N, 12]``: log2 of GPUs, GPUs, log of the wait, instances that fit,
        whether all do, whether on one machine, and the load.
      machines: float32 ``[..., M, 9]``: free GPUs relative to the most free machine, whether idle,
        share of waiting jobs of which an instance fits, and the load.
      pairs: float32 ``[..., N, M, 8]``: share of the job's instances that fit on the machine,
        whether all do, shares of GPUs and of CPUs left free by them; then the same again for jobs
        that fit on one machine, else 0.
    """

    jobs: Array
    machines: Array
    pairs: Array


def derived_features(env: DAS, observation: Observation) -> Derived:
    """The derived features of observations of any batch axes."""
    vectorised = partial(jnp.vectorize, signature="(n,a),(m,b),(n)->(n,c),(m,d),(n,m,e)")

    @vectorised
    def unbatched(jobs: Array, machines: Array, real: Array) -> Derived:
        return Derived(*_derived(env, recover(env.cluster, Observation(jobs, machines, real))))

    return Derived(*unbatched(observation.jobs, observation.machines, observation.real))


def load_features(env: DAS, known: Recovered) -> Array:
    """How much waits and how full the cluster is, float32 ``[6]``.

    Share of positions in use; GPUs asked for and log2 of one more, relative to the cluster's; mean
    wait (log); share of GPUs free; most free GPUs on a machine.
    """
    total = env.num_servers * env.gpus_per_server
    count = jnp.sum(known.real, dtype=jnp.float32)
    asked = jnp.sum(known.num_gpus) / total
    wait = jnp.sum(known.wait_s) / jnp.maximum(count, 1.0)
    free = known.free[:, 0]
    return jnp.stack(
        [
            count / env.window,
            asked / 4,
            jnp.log2(1 + asked) / 4,
            _log_wait(wait),
            jnp.sum(free) / total,
            jnp.max(free) / env.gpus_per_server,
        ]
    )


def _log_wait(wait_s: Array) -> Array:
    return jnp.log1p(wait_s / 60) / jnp.log1p(DAY_S / 60)


def _derived(env: DAS, known: Recovered) -> tuple[Array, Array, Array]:
    instances = jnp.maximum(known.instances, 1)
    load = load_features(env, known)
    share = jnp.minimum(known.fit / instances[:, None], 1)
    room = jnp.sum(known.fit, axis=-1) / instances
    gpus = known.num_gpus
    jobs = jnp.stack(
        [
            jnp.log2(jnp.maximum(gpus, 1)) / 7,
            gpus / 64,
            _log_wait(known.wait_s),
            jnp.minimum(room, 1),
            room >= 1,
            jnp.max(share, axis=-1) >= 1,
        ],
        axis=-1,
    )
    jobs = jnp.concatenate([jobs, jnp.broadcast_to(load, (*gpus.shape, load.size))], axis=-1)
    free = known.free[:, 0]
    waiting, placeable = (
        jnp.sum(counted, axis=0, dtype=jnp.float32) for counted in (known.real, known.fit >= 1)
    )
    machines = jnp.stack(
        [
            free / jnp.maximum(jnp.max(free), 1),
            free == env.gpus_per_server,
            placeable / jnp.maximum(waiting, 1.0),
        ],
        axis=-1,
    )
    machines = jnp.concatenate(
        [machines, jnp.broadcast_to(load, (env.num_servers, load.size))], axis=-1
    )
    taken = jnp.minimum(known.fit, known.instances[:, None])[..., None] * known.requests[:, None]
    left = known.free - taken
    capacity = jnp.array([env.gpus_per_server, env.cpus_per_server], jnp.float32)
    pairs = jnp.concatenate([share[..., None], share[..., None] >= 1, left[..., :2] / capacity], -1)
    on_one = jnp.max(share, axis=-1) >= 1
    pairs = jnp.concatenate([pairs, jnp.where(on_one[:, None, None], pairs, 0)], axis=-1)
    real = known.real
    return jnp.where(real[:, None], jobs, 0), machines, jnp.where(real[:, None, None], pairs, 0)
