"""DL2's cluster as a front end describes it: the jobs of a slot, how far they are, what they hold.

In JSON, a decision is the allocation of a whole slot: the policy infers task after task until
nothing more is placed; only differences of times matter. In arrays, it is one of these inferences.

Axes: ``J`` rows of the window.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from math import ceil
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.elastic.models import NAMES
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.jobs import MEDIAN_EPOCHS
from jaxsched.envs.dl2.rules import dynamics
from jaxsched.envs.dl2.rules.observation import D_SCALE, E_SCALE, Shown, paper_observation
from jaxsched.envs.dl2.rules.tables import NUM_MODELS, Params, build_tables
from jaxsched.envs.dl2.rules.turns import rows_of
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.ops import bit_sets
from jaxsched.systems.cluster_arrays import ClusterArrays, ClusterInput, mask_input
from jaxsched.systems.cluster_estimates import (
    ESTIMATED_SCHEMA,
    Estimate,
    assume_schema,
    is_number,
    model_estimate,
    model_schema,
)
from jaxsched.systems.cluster_reader import (
    Cluster,
    ClusterReader,
    clock,
    jobs_of,
    name_of,
    order_of,
    shown,
    whole,
)
from jaxsched.types import Array, ArraySpec, TimeStep


def cluster_arrays(env: DL2) -> ClusterArrays:
    """Arrays of a cluster; jobs in order of arrival, ``present`` false behind the last."""

    def of_rows(meaning: str, unit: str, dtype: type = jnp.int32) -> ClusterInput:
        return ClusterInput(ArraySpec((env.window,), dtype), meaning, unit)

    models = ", ".join(f"{i} {name}" for i, name in enumerate(NAMES))
    inputs = {
        "present": of_rows("whether the row holds a job", "", jnp.bool_),
        "model": of_rows(f"its model: {models}", ""),
        "slots": of_rows("slots since it arrived", "slots"),
        "epochs_left": of_rows("remaining epochs by the estimate", "epochs", jnp.float32),
        "workers": of_rows("workers in this slot so far", "tasks"),
        "ps": of_rows("parameter servers in this slot so far", "tasks"),
        "mask": mask_input(env, ": worker, PS, both of row 0, of row 1, ..., then none"),
    }
    return ClusterArrays(inputs, partial(_observe, env), partial(_example, env))


def _observe(env: DL2, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Observation and mask, as of rows with these jobs."""
    present, model = arrays["present"], arrays["model"]
    names = ("slots", "epochs_left", "workers", "ps")
    slots, left, workers, ps = (jnp.where(present, arrays[name], 0) for name in names)
    cluster = env.cluster
    needs = (
        jnp.asarray(shares, jnp.int32) for shares in (cluster.worker_shares, cluster.ps_shares)
    )
    of_worker, of_ps = (shares[model] for shares in needs)
    share = jnp.max(workers[:, None] * of_worker + ps[:, None] * of_ps, axis=-1)
    shown = Shown(jnp.where(present, model, NUM_MODELS), slots, left, share, workers, ps)
    return paper_observation(env.rules, shown, D_SCALE, E_SCALE), arrays["mask"]


def _example(env: DL2, random: np.random.Generator) -> dict[str, Any]:
    """Some jobs, some tasks."""
    rows, actions = env.window, env.action_spec(None).num_actions  # type: ignore[arg-type]
    return {
        "present": np.arange(rows) < random.integers(1, rows + 1),
        "model": random.integers(0, NUM_MODELS, rows).astype(np.int32),
        "slots": random.integers(0, 40, rows).astype(np.int32),
        "epochs_left": random.uniform(1, 90, rows).astype(np.float32),
        "workers": random.integers(0, env.max_workers + 1, rows).astype(np.int32),
        "ps": random.integers(0, env.max_ps + 1, rows).astype(np.int32),
        "mask": np.append(random.random(actions - 1) < 0.5, True),
    }


MOST_SLOT = 2**53
MOST_EPOCHS = 1e9
EXAMPLE_JOB = {"submit_time": 0, "model": 0, "epochs": 1.0}


def _epochs(value: Any, where: str) -> float:
    """Epochs above 0."""
    if not (is_number(value) and 1e-6 <= value <= MOST_EPOCHS):
        raise JaxschedError(
            f"{where} is {shown(value)}; accepted: epochs above 0 and up to {MOST_EPOCHS:g}, null"
        )
    return float(value)


def _as_many_again(epochs: float, job: Mapping[str, Any]) -> float:
    """At least twice what the job has trained: it will train as long again."""
    done: Any = job.get("progress")
    known = is_number(done) and 0 <= done < MOST_EPOCHS  # else refused with its place
    return max(epochs, min(2 * done, MOST_EPOCHS)) if known else epochs


ESTIMATES = {
    "model": model_estimate(NAMES, "ResNet50", "a job on GPUs with the smallest needs"),
    "epochs": Estimate(
        MEDIAN_EPOCHS,
        _epochs,
        "the median of training workloads, or twice the progress if that is more",
        "epochs above 0",
        _as_many_again,
    ),
}


class Decision(NamedTuple):
    """Tasks given so far, int32 ``[N, S]``: how many of each job on each server."""

    workers: Array
    servers: Array


class Told(NamedTuple):
    """What a cluster tells beside its jobs."""

    slot: Array
    progress: Array  # epochs trained, [N]
    num_jobs: Array
    episode: Array


class DL2Reader(ClusterReader[DL2]):
    """Workers and parameter servers of every job in the coming slot, and where they go."""

    schema = {
        "type": "object",
        "required": ["jobs"],
        "properties": {
            "slot": {"type": "integer", "description": "number of the coming slot"},
            "time": {
                "type": "number",
                "description": "instead of slot: when the coming slot begins, s by any clock",
            },
            "jobs": {
                "type": "array",
                "description": "jobs submitted before the slot and not finished",
                "items": {
                    "type": "object",
                    "required": ["submit_time"],
                    "properties": {
                        "id": {"description": "any; the place in the list if absent"},
                        "submit_time": {
                            "type": "number",
                            "description": "s by the clock of time, or since slot 0 began",
                        },
                        "model": model_schema(NAMES),
                        "epochs": {"type": ["number", "null"], "description": "expected in all"},
                        "progress": {
                            "type": "number",
                            "minimum": 0,
                            "default": 0,
                            "description": "epochs trained",
                        },
                    },
                },
            },
            "assume": assume_schema(ESTIMATES),
        },
    }
    answer_schema = {
        "type": "object",
        "properties": {
            "allocation": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "job": {"description": "id"},
                        "workers": {"type": "integer"},
                        "parameter_servers": {"type": "integer"},
                        "workers_on": {"type": "object", "description": "server -> workers"},
                        "parameter_servers_on": {"type": "object"},
                    },
                },
            },
            "estimated": ESTIMATED_SCHEMA,
        },
    }
    example = {
        "slot": 12,
        "jobs": [
            {"id": "a", "submit_time": 12000, "model": NAMES[0], "epochs": 40, "progress": 11.5},
            {"id": "b", "submit_time": 14000, "model": NAMES[1], "epochs": 25},
        ],
    }
    jobs = "jobs"
    estimates = ESTIMATES

    def read(self, env: DL2, clusters: Sequence[Cluster], length: int) -> tuple[Params, Told]:
        """See the base class."""
        if env.assign_bundle:
            raise JaxschedError(
                "dl2: slots start with a bundle for every job; accepted for decisions on described "
                "clusters: policies of environments without assign_bundle"
            )
        tables, progress, slots = [], [], []
        for cluster in clusters:
            records, slot = _records(env, cluster)
            slots.append(slot)
            progress.append([job.get("progress", 0.0) for job in records])
            padding = [{"submit_time": 10**8, "model": 0, "epochs": 1.0}] * (length - len(records))
            tables.append(from_records([*records, *padding], schema=DL2_JOBS, name="jobs"))
        params = _speeds(env)._replace(jobs=build_tables(tables, env.rules))
        trained = np.zeros((len(clusters), params.jobs.info.shape[-1]))
        for row, values in zip(trained, progress, strict=True):
            row[: len(values)] = values
        told = Told(
            slot=jnp.asarray(slots, jnp.int32),
            progress=jnp.asarray(trained, params.jobs.epochs.dtype),
            num_jobs=jnp.asarray([len(values) for values in progress], jnp.int32),
            episode=jnp.arange(len(clusters), dtype=jnp.int32),
        )
        return params, told

    def state(self, env: DL2, params: Params, told: Told) -> dynamics.ClusterState:
        """All jobs are the slot's, and have no tasks yet."""
        jobs = params.jobs
        state = dynamics.new_cluster(env.rules, jobs, params.speed, told.episode)
        active = bit_sets.to_words(jnp.arange(jobs.info.shape[-1]) < told.num_jobs)
        state = state._replace(slot=told.slot, progress=told.progress, active=active)
        return state._replace(rows=rows_of(env.rules, state, jobs.empty_row))

    def nothing(self, env: DL2, params: Params) -> Decision:
        """No job has a task."""
        zeros = jnp.zeros((params.jobs.info.shape[-1], env.num_servers), jnp.int32)
        return Decision(zeros, zeros)

    def decided(
        self,
        so_far: Decision,
        state: dynamics.ClusterState,
        after: dynamics.ClusterState,
        timestep: TimeStep,
    ) -> tuple[Decision, Array]:
        """Until the slot ends."""
        metrics = timestep.metrics
        more = metrics.increment

        def add(tasks: Array, server: Array) -> Array:  # S, beyond the last one, where none went
            return tasks.at[more.job, server].add(more.placed.astype(jnp.int32), mode="drop")

        found = Decision(add(so_far.workers, more.servers[0]), add(so_far.servers, more.servers[1]))
        return found, metrics.slot_ended | (metrics.decisions == 0)

    def answer(self, env: DL2, cluster: Cluster, decision: Decision) -> dict[str, Any]:
        """Who gets what where, jobs in the front end's order."""
        order = order_of(cluster["jobs"], "jobs")
        rows: list[Any] = [None] * len(order)
        for row, place in enumerate(order):
            workers, servers = (tasks[row] for tasks in decision)
            rows[place] = {
                "job": name_of(cluster["jobs"][place], place),
                "workers": int(workers.sum()),
                "parameter_servers": int(servers.sum()),
                "workers_on": _by_server(workers),
                "parameter_servers_on": _by_server(servers),
            }
        return {"allocation": rows}


@cache
def _speeds(env: DL2) -> Params:
    """Parameters of a cluster, whose tables of speeds take longer to make than a decision."""
    return env.params([from_records([EXAMPLE_JOB], schema=DL2_JOBS, name="jobs")])


def _by_server(tasks: Any) -> dict[str, int]:
    return {str(server): int(tasks[server]) for server in np.flatnonzero(tasks)}


def _records(env: DL2, cluster: Cluster) -> tuple[list[dict[str, Any]], int]:
    """Jobs in order of submission, times from the first one's slot on, and the slot."""
    jobs, _ = jobs_of(cluster, "jobs", ESTIMATES)
    seconds, begins = env.slot_seconds, _begins(env, cluster)
    order = order_of(jobs, "jobs")
    before = []  # s from the beginning of the slot, at most 0
    for place in order:
        time = jobs[place]["submit_time"]
        if time - begins >= 1:
            raise JaxschedError(
                f"jobs[{place}].submit_time is {shown(time)}; accepted: up to {begins}, the "
                "beginning of the slot"
            )
        before.append(min(time - begins, 0))
    first = min([0, *(int(-(-time // seconds)) for time in before)])
    if -first >= env.max_slots:
        raise JaxschedError(f"a job waits for {-first} slots; accepted: below {env.max_slots}")
    records = []
    for place, time in zip(order, before, strict=True):
        done = jobs[place].get("progress", 0.0)
        if not (is_number(done) and 0 <= done < MOST_EPOCHS):
            raise JaxschedError(
                f"jobs[{place}].progress is {shown(done)}; accepted: epochs, a number from 0 on"
            )
        shifted = ceil(max(time - first * seconds, 0))
        records.append({**jobs[place], "submit_time": shifted, "progress": done})
    return records, -first


def _begins(env: DL2, cluster: Cluster) -> Any:
    """When the coming slot begins, s by the clock of submission times."""
    if ("time" in cluster) == ("slot" in cluster):
        raise JaxschedError("slot or time is missing, or both are there; accepted: one of them")
    if "time" in cluster:
        return clock(cluster, "time")
    return whole(cluster, "slot", -MOST_SLOT, MOST_SLOT) * env.slot_seconds
