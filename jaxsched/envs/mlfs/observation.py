"""What a policy sees of the task on offer and the servers (specification, section 4).

Axes: ``S`` servers.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.jobs import MAX_TASKS, MAX_WIDTH, MODELS
from jaxsched.envs.mlfs.simulator import cluster as cl
from jaxsched.envs.mlfs.simulator.cluster import FULL, div
from jaxsched.envs.mlfs.simulator.job import MOST_WAVE
from jaxsched.envs.mlfs.simulator.orders import MOST_PRIORITY
from jaxsched.envs.mlfs.simulator.placing import Offered
from jaxsched.envs.mlfs.simulator.priority import progress_of, slots_left
from jaxsched.envs.mlfs.simulator.rules import Rules
from jaxsched.envs.mlfs.simulator.state import NOBODY, State, part_of
from jaxsched.envs.mlfs.simulator.tables import Params, unpack
from jaxsched.jobs.models import identifier
from jaxsched.ops.bounds import known_largest
from jaxsched.types import Array

DAY_MIN = 1440
WEEK_MIN = 10080
LEAST_ENTRY = -WEEK_MIN / DAY_MIN  # of the time left; the others' are higher

GLOBAL_NAMES = (
    "time",
    "active",
    "waiting",
    "running",
    "busy",
    "gpu_use",
    "offers",
    "outside",
)
TASK_NAMES = (
    *(f"is_{identifier(model)}" for model in MODELS),
    "num_gpus",
    "urgency",
    "iteration",
    "iterations_left",
    "loss_share",
    "size",
    "work",
    "work_left",
    "layer",
    "layers",
    "descendants",
    "children",
    "waited",
    "time_left",
    "job_left",
    "gpu_demand",
    "cpu_demand",
    "mem_demand",
    "migrant",
    "priority",
    "communication",
)
SERVER_NAMES = (
    "gpu_use",
    "cpu_use",
    "mem_use",
    "bandwidth_use",
    "least_gpu",
    "most_gpu",
    "local_share",
    "moves",
    "not_overloaded",
    "valid",
)
CLUSTER_NAMES = tuple(f"cluster.{name}" for name in GLOBAL_NAMES)
NUM_GLOBAL, NUM_TASK, NUM_SERVER = len(GLOBAL_NAMES), len(TASK_NAMES), len(SERVER_NAMES)


def observation_names(num_servers: int) -> tuple[str, ...]:
    """Names of all entries."""
    servers = [f"server{s}.{name}" for s in range(num_servers) for name in SERVER_NAMES]
    tasks = [f"task.{name}" for name in TASK_NAMES]
    return (*CLUSTER_NAMES, *tasks, *servers)


def largest_entry(rules: Rules, params: Params, max_slots: int) -> float:
    """What no entry exceeds, from the largest job of the tables; see ``known_largest``.

    On a server the load is at most that of all tasks that can run at once, and what is left of an
    instance grows by at most one move a slot.
    """
    known = not isinstance(params.rows, jax.core.Tracer)
    jobs = unpack(np.asarray(params.rows) if known else params.rows)
    cluster, slots = rules.cluster, max_slots + 1
    sent_mb = MAX_WIDTH * jobs.worker_mb + 2 * jobs.server_mb
    work_left = jobs.work.max(axis=-1) + sent_mb * (FULL / cluster.flow_rate)
    waves = params.max_running * MOST_WAVE / FULL
    return known_largest(
        1.0,  # shares and flags
        slots / DAY_MIN,  # times
        (jobs.submit_slot + 1) / DAY_MIN,
        rules.window * MAX_TASKS / 1000,  # tasks
        params.max_jobs / 1000,  # jobs beyond the window
        jobs.gpu_demand * (waves / FULL),  # loads of a server
        jobs.cpus * (waves / cluster.cpus),
        jobs.mem * (waves / cluster.mem),
        params.max_running * cluster.flow_rate / cluster.bandwidth,
        jobs.iterations / 200,
        (work_left + slots * rules.move_work) / 10000,
        (jobs.iterations * (jobs.total_work / FULL) + 1) / DAY_MIN,  # of the whole job
        MOST_PRIORITY / 1_000_000,
        sent_mb / 10000,
    )


def cluster_entries(rules: Rules, state: State) -> Array:
    """Float32 ``[8]``, what is seen of the cluster as a whole."""
    used = cl.utilisation(rules.cluster, cl.all_servers(rules.cluster, state.loads))
    running = jnp.sum(state.running.task != NOBODY, dtype=jnp.int32) + state.migrants
    count = jnp.sum(state.active.job != NOBODY, dtype=jnp.int32)
    return _scaled(
        [
            (state.slot, DAY_MIN),
            (count, rules.window),
            (state.waiting, 1000),
            (running, 1000),
            (state.busy, 1),
            (div(jnp.sum(used[:, 0], dtype=jnp.int32), rules.cluster.num_servers), 1000),
            (state.offers.made, rules.max_offers),
            (state.submitted - state.admitted, 1000),
        ]
    )


def observe(rules: Rules, state: State, offer: Offered) -> Array:
    """Float32 ``[8 + 26 + 10 S]``."""
    servers = cl.all_servers(rules.cluster, state.loads)
    standing, there = offer.standing, offer.there
    of_server = [
        *(used / FULL for used in standing.used),
        cl.least_gpu(servers) / FULL,
        jnp.max(servers.loads.gpu, axis=-1) / FULL,
        jnp.where(there, offer.talk.local_share / FULL, 0.0),
        there & offer.moves,
        ~standing.overloaded,
        offer.valid,
    ]
    task = jnp.where(there, task_features(rules, state, offer), 0.0)
    rows = jnp.stack([x.astype(jnp.float32) for x in of_server], axis=-1)
    return jnp.concatenate([cluster_entries(rules, state), task, rows.reshape(-1)])


def task_features(rules: Rules, state: State, offer: Offered) -> Array:
    """Float32 ``[26]`` of the task on offer."""
    job, place = offer.job, offer.place
    limit, iterations = state.active.limit[place], state.active.iterations[place]
    progress = progress_of(job, iterations, limit)
    part = part_of(offer.task)
    below = offer.talk.layers - 1 - offer.talk.layer
    since = state.tasks.since[place, offer.task]
    left = slots_left(job, progress.after, job.tail[part], state.slot)
    demand = offer.estimate
    return _scaled(
        [
            *((job.model == model, 1) for model in range(len(MODELS))),
            (job.num_gpus, 32),
            (job.urgency, 10),
            (progress.iteration, jnp.maximum(job.iterations, 1)),
            (limit - progress.iteration + 1, 200),
            (progress.ratio, 1000),
            (job.size[part], 1000),
            (offer.work, 10000),
            (jnp.where(offer.left == 0, offer.work, offer.left), 10000),
            (offer.talk.layer, 16),
            (offer.talk.layers, 16),
            (below * job.width, 32),
            (jnp.where(below > 0, job.width, 0), 32),
            (jnp.where(offer.migrant, 0, state.slot - since), DAY_MIN),
            (jnp.clip(left, -WEEK_MIN, WEEK_MIN), DAY_MIN),
            (progress.residual, DAY_MIN),
            (demand.gpu, FULL),
            (div(demand.cpu, rules.cluster.cpus), FULL),
            (cl.per_mille(demand.mem, rules.cluster.mem), FULL),
            (offer.migrant, 1),
            (state.tasks.priority[place, offer.task], 1_000_000),
            (offer.talk.total_mb, 10000),
        ]
    )


def _scaled(pairs: list) -> Array:
    """Quotients as float32, one per pair."""
    above = jnp.stack([jnp.asarray(value).astype(jnp.float32) for value, _ in pairs])
    below = jnp.stack([jnp.asarray(scale).astype(jnp.float32) for _, scale in pairs])
    return above / below
