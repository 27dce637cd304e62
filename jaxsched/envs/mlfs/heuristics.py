"""Where heuristics place the task on offer (specification, sections 3.3 and 9).

The order of tasks is the environment's; a policy chooses among the servers that can take the task
on offer. Axes: ``S`` servers, ``R`` running tasks.
"""

from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.jobs import MODELS
from jaxsched.envs.mlfs.simulator import cluster as cl
from jaxsched.envs.mlfs.simulator.cluster import FULL, div
from jaxsched.envs.mlfs.simulator.placing import Offered, offered
from jaxsched.envs.mlfs.simulator.selection import LATE, first_least
from jaxsched.envs.mlfs.simulator.state import NOBODY, State, split
from jaxsched.envs.mlfs.simulator.tables import Params, jobs_at
from jaxsched.types import Array, PRNGKey, PyTree

SPREAD = tuple(MODELS.index(name) for name in ("AlexNet", "MLP"))
"""Models whose tasks Tiresias keeps together."""

Host = Callable[[MLFS, Params, State, Offered], Array]


def mlf_host(env: MLFS, params: Params, state: State, offer: Offered) -> Array:
    """The server nearest to the ideal one (section 3.3)."""
    del params
    cluster = env.cluster
    servers = cl.all_servers(cluster, state.loads)
    used = cl.utilisation(cluster, servers)
    usable = ~cl.overloaded(cluster, servers)
    ideal = jnp.min(jnp.where(usable[:, None], used, LATE), axis=0)
    distance = jnp.sum((used - ideal) ** 2, axis=-1, dtype=jnp.int32)
    share = offer.talk.local_share
    less = share - jnp.max(jnp.where(usable, share, 0))
    distance += jnp.where(env.use_bandwidth, less**2, 0)
    delay = div(FULL * env.move_work, jnp.maximum(offer.work + env.move_work, 1))
    distance += jnp.where(offer.moves, delay, 0) ** 2
    return first_least(offer.valid, distance)


def least_loaded(env: MLFS, params: Params, state: State, offer: Offered) -> Array:
    """The server whose GPUs are least loaded on average."""
    del params
    return first_least(offer.valid, _load(env, state))


def tiresias_host(env: MLFS, params: Params, state: State, offer: Offered) -> Array:
    """AlexNet and MLP go where most of the job runs already, then to the least loaded."""
    del params
    of_job = split(state.running.task)[0] == offer.place
    count = _by_server(env, state, of_job)
    together = jnp.any(offer.job.model == np.array(SPREAD, np.int32))
    most = jnp.max(jnp.where(offer.valid, count, -1))
    among = offer.valid & (~together | (count == most))
    return first_least(among, _load(env, state))


def gandiva_host(env: MLFS, params: Params, state: State, offer: Offered) -> Array:
    """Servers that run jobs of the same size come first."""
    sizes = jobs_at(params, state.episode, state.active.job).num_gpus
    alike = sizes[split(state.running.task)[0]] == offer.job.num_gpus
    hosts = offer.valid & (_by_server(env, state, alike) > 0)
    among = jnp.where(jnp.any(hosts), hosts, offer.valid)
    return first_least(among, _load(env, state))


def _load(env: MLFS, state: State) -> Array:
    """Mean load of the servers' GPUs, rounded down."""
    return div(jnp.sum(state.loads.gpu, axis=-1, dtype=jnp.int32), env.cluster.num_gpus)


def _by_server(env: MLFS, state: State, chosen: Array) -> Array:
    """How many of the chosen running tasks each server has."""
    runs = chosen & (state.running.task != NOBODY)
    server = jnp.where(runs, state.running.server, env.num_servers)
    return jnp.zeros(env.num_servers, jnp.int32).at[server].add(1, mode="drop")


HOSTS: dict[str, Host] = {
    "mlf": mlf_host,
    "fair": least_loaded,
    "slaq": least_loaded,
    "tiresias": tiresias_host,
    "gandiva": gandiva_host,
    "graphene": least_loaded,
    "hypersched": least_loaded,
    "fifo": least_loaded,
}
"""Choice of servers by order."""


@cache
def heuristic(env: MLFS, name: str = "") -> Policy:
    """The heuristic that goes with the environment's order.

    Args:
      env: the environment.
      name: what tables call it; that of the order by default.
    """
    host = HOSTS[env.order]

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        offer = offered(env.rules, view.params, view.state)
        return host(env, view.params, view.state, offer), memory

    return Policy(name or env.order, no_memory, act, privileged=True)
