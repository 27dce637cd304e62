"""What a policy sees of the task on offer and the servers (specification, section 4), and critics.

Axes: ``S`` servers, ``A`` places for active jobs, ``J`` jobs of the longest episode.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.jobs import MAX_TASKS, MAX_WIDTH, MODELS
from jaxsched.envs.mlfs.rules import FULL, Cluster, Rules, div
from jaxsched.envs.mlfs.rules.offers import Offered
from jaxsched.envs.mlfs.rules.priority import MOST_PRIORITY, progress_of, slots_left
from jaxsched.envs.mlfs.rules.state import NONE, State, part_of
from jaxsched.envs.mlfs.rules.tables import MOST_WAVE, SCALARS, Params, index_of, unpack
from jaxsched.jobs.models import identifier
from jaxsched.ops.bounds import known_largest
from jaxsched.types import Array, Feature

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
PM, DAY = 1000.0, float(DAY_MIN)
NUM_GLOBAL, NUM_TASK, NUM_SERVER = len(GLOBAL_NAMES), len(TASK_NAMES), len(SERVER_NAMES)


def observation_names(num_servers: int) -> tuple[str, ...]:
    """Names of all entries."""
    servers = [f"server{s}.{name}" for s in range(num_servers) for name in SERVER_NAMES]
    tasks = [f"task.{name}" for name in TASK_NAMES]
    return (*CLUSTER_NAMES, *tasks, *servers)


def features(rules: Rules) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    models = {f"task.is_{identifier(name)}": Feature(f"1 for {name}", "1") for name in MODELS}
    return {**_of_cluster(rules), **models, **_of_task(rules.cluster), **_of_servers()}


def _of_cluster(rules: Rules) -> dict[str, Feature]:
    return {
        "cluster.time": Feature("since the start", "slots", DAY),
        "cluster.active": Feature("jobs in the window", "jobs", float(rules.window)),
        "cluster.waiting": Feature("tasks that could run", "tasks", 1000.0),
        "cluster.running": Feature("tasks that run, migrants included", "tasks", 1000.0),
        "cluster.busy": Feature("1 if tasks waited or servers were full in the last slot", "1"),
        "cluster.gpu_use": Feature("mean load of the servers' GPUs", "pm", PM),
        "cluster.offers": Feature("decisions in this slot so far", "1", float(rules.max_offers)),
        "cluster.outside": Feature("submitted jobs beyond the window", "jobs", 1000.0),
    }


def _of_task(cluster: cl.Cluster) -> dict[str, Feature]:
    layers, tasks = 16.0, 32.0
    entries = {
        "num_gpus": Feature("tasks of the job", "tasks", tasks),
        "urgency": Feature("of the job, 1 to 10", "1", 10.0),
        "iteration": Feature("share of the job's iterations begun", "1"),
        "iterations_left": Feature("iterations to the limit, this one included", "1", 200.0),
        "loss_share": Feature("loss reduction of the last iteration over all so far", "pm", PM),
        "size": Feature("share of the model's parameters", "pm", PM),
        "work": Feature("of the task in an iteration at full speed", "1/1000 min", 10_000.0),
        "work_left": Feature("of it that is not done", "1/1000 min", 10_000.0),
        "layer": Feature("of the task in the job's graph", "1", layers),
        "layers": Feature("of the job's graph", "1", layers),
        "descendants": Feature("tasks of lower layers", "tasks", tasks),
        "children": Feature("tasks that wait for this one", "tasks", tasks),
        "waited": Feature("slots since it could run, 0 for a migrant", "slots", DAY),
        "time_left": Feature(
            "until the latest finish that still meets the deadline, within a week", "slots", DAY
        ),
        "job_left": Feature("work left of the whole job", "task-minutes", DAY),
        "gpu_demand": Feature("of one GPU", "pm", PM),
        "cpu_demand": Feature(f"of {cluster.cpus} CPUs", "pm", PM),
        "mem_demand": Feature(f"of {cluster.mem} GB", "pm", PM),
        "migrant": Feature("1 if it runs on an overloaded server", "1"),
        "priority": Feature("of the order in which tasks are offered", "1", 1e6),
        "communication": Feature("of the task in an iteration", "MB", 10_000.0),
    }
    return {f"task.{name}": feature for name, feature in entries.items()}


def _of_servers() -> dict[str, Feature]:
    entries = {
        "gpu_use": Feature("mean load of its GPUs", "pm", PM),
        "cpu_use": Feature("load of its CPUs", "pm", PM),
        "mem_use": Feature("memory in use", "pm", PM),
        "bandwidth_use": Feature("load of its link", "pm", PM),
        "least_gpu": Feature("load of the least loaded GPU", "pm", PM),
        "most_gpu": Feature("load of the most loaded GPU", "pm", PM),
        "local_share": Feature("communication of the task that would stay here", "pm", PM),
        "moves": Feature("1 if the task ran elsewhere last", "1"),
        "not_overloaded": Feature("1 if no resource is overloaded", "1"),
        "valid": Feature("1 if it can take the task", "1"),
    }
    return {f"server*.{name}": feature for name, feature in entries.items()}


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
    running = jnp.sum(state.running.task != NONE, dtype=jnp.int32) + state.migrants
    count = jnp.sum(state.active.job != NONE, dtype=jnp.int32)
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
    status, there = offer.status, offer.there
    of_server = [
        *(used / FULL for used in status.used),
        cl.least_gpu(servers) / FULL,
        jnp.max(servers.loads.gpu, axis=-1) / FULL,
        jnp.where(there, offer.talk.local_share / FULL, 0.0),
        there & offer.moves,
        ~status.overloaded,
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


WITHIN_MIN = np.array([60, 240, 960])
"""Times from now until which deadlines pass and jobs come."""
JOBS = 64.0


def privileged_state(cluster: Cluster, state: State, params: Params) -> Array:
    """The rest of the state, float32 ``[6 + 3 * 3]``.

    Active jobs and jobs that wait behind the window (per 64), the work of both that is left (days
    of all GPUs at full speed), active jobs that are past their deadlines (per 64), and the share of
    the jobs still to come. And within 1, 4 and 16 hours: active jobs' deadlines that pass, jobs
    that come (per 64 both), and their work (days).
    """
    days = FULL * DAY_MIN * float(sum(cluster.gpus))
    episode = state.episode
    count = params.num_jobs.at[episode].get(mode="promise_in_bounds")
    places = params.places
    there = places < count
    index = index_of(params, episode, places, there)
    submit, iterations, work = (
        params.rows[index, SCALARS.index(name)]
        for name in ("submit_slot", "iterations", "total_work")
    )
    whole = iterations.astype(jnp.float32) * work.astype(jnp.float32) / days

    active = state.active
    real = active.job >= 0
    at = index_of(params, episode, active.job, real)
    deadline, of_iteration = (
        params.rows[at, SCALARS.index(name)] for name in ("deadline_min", "total_work")
    )
    left = jnp.where(real, jnp.maximum(active.limit - active.iterations, 0), 0)
    left_days = left.astype(jnp.float32) * of_iteration.astype(jnp.float32) / days
    behind = there & (places >= state.admitted) & (submit <= state.slot)
    later = there & (submit > state.slot)
    until = deadline - state.slot
    passes = real & (until >= 0) & (until <= WITHIN_MIN[:, None])
    comes = later & (submit - state.slot <= WITHIN_MIN[:, None])
    return jnp.concatenate(
        [
            jnp.stack(
                [
                    jnp.sum(real) / JOBS,
                    jnp.sum(behind) / JOBS,
                    jnp.sum(left_days),
                    jnp.sum(jnp.where(behind, whole, 0.0)),
                    jnp.sum(real & (until < 0)) / JOBS,
                    jnp.sum(later) / jnp.maximum(count, 1),
                ]
            ),
            jnp.sum(passes, axis=-1) / JOBS,
            jnp.sum(comes, axis=-1) / JOBS,
            jnp.sum(jnp.where(comes, whole, 0.0), axis=-1),
        ]
    ).astype(jnp.float32)
