"""SCHED2's cluster as a front end describes it, in JSON or in plain arrays: who runs, who waits.

Times in JSON are seconds by any clock of the front end, Unix time included, with fractions or
without; only differences count, in whole seconds. Waiting jobs are taken in order of submission, as
they enter the window. Arrays hold seconds until GPUs are free, and since waiting jobs came.

Axes: ``S`` servers, ``G`` GPUs per server, ``J`` positions, ``Q`` = ``WAITING`` jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.rules import (
    MODELS,
    NEVER,
    JobTables,
    parts_of_sums,
    run_time,
    slowdown_by_level,
)
from jaxsched.envs.sched2.rules.dynamics import ClusterState, Start, fill_window, legal_positions
from jaxsched.envs.sched2.rules.observation import TIME_SCALE_S
from jaxsched.errors import JaxschedError
from jaxsched.jobs import MAX_DURATION_S, JobTable, from_records
from jaxsched.systems.cluster_arrays import ClusterArrays, ClusterInput
from jaxsched.systems.cluster_estimates import (
    ESTIMATED_SCHEMA,
    Estimate,
    assume_schema,
    assumed,
    model_estimate,
    model_schema,
    seconds,
)
from jaxsched.systems.cluster_reader import (
    Cluster,
    ClusterReader,
    clock,
    field,
    jobs_of,
    name_of,
    order_of,
    passed,
    shown,
    whole,
    whole_seconds,
)
from jaxsched.types import Array, ArraySpec, TimeStep

WAITING = 256
"""Rows for waiting jobs; of more only the oldest are described."""
NOW_S = 2**25  # what the present is called: any time that leaves room before and after


def cluster_arrays(env: Sched2) -> ClusterArrays:
    """Arrays of a cluster; waiting jobs in order of submission, 0 GPUs behind the last."""
    jobs = max(WAITING, env.window)

    def of_jobs(meaning: str, unit: str) -> ClusterInput:
        return ClusterInput(ArraySpec((jobs,), jnp.int32), meaning, unit)

    models = ", ".join(f"{i} {model.name}" for i, model in enumerate(MODELS))
    inputs = {
        "busy_s": ClusterInput(
            ArraySpec((env.num_servers, env.gpus_per_server), jnp.int32),
            "time until the job on the GPU ends, 0 if free",
            "s",
        ),
        "job_gpus": of_jobs("GPUs that a waiting job needs, 0: no job", "GPUs"),
        "job_duration_s": of_jobs("its run time with the best locality", "s"),
        "job_wait_s": of_jobs("time since it was submitted", "s"),
        "job_model": of_jobs(f"its model: {models}", ""),
        "more_to_come": ClusterInput(
            ArraySpec((), jnp.bool_), "waiting is allowed although nothing runs", ""
        ),
    }
    return ClusterArrays(inputs, partial(_observe, env), partial(_example, env, jobs))


def _observe(env: Sched2, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Observation and mask, as of the state with these jobs; seconds count as they usually do."""
    state, jobs = _state(env, arrays)
    legal = legal_positions(state, jobs)
    void = jnp.any(arrays["busy_s"] > 0) | arrays["more_to_come"] | ~jnp.any(legal)
    return env.entries(state, jobs, jnp.float32(TIME_SCALE_S)), jnp.append(legal, void)


def _state(env: Sched2, arrays: Mapping[str, Array]) -> tuple[ClusterState, JobTables]:
    """The state of a cluster, and a table of its waiting jobs in which nothing else is to come."""
    columns = (arrays[name] for name in ("job_gpus", "job_duration_s", "job_wait_s", "job_model"))
    gpus, duration, wait, model = (jnp.append(column, 0) for column in columns)
    real = gpus > 0
    slowdown = slowdown_by_level(gpus, model, env.num_servers, env.gpus_per_server, env.saturating)
    times = run_time(jnp.where(real, duration, 0)[:, None], slowdown)
    count, place = jnp.sum(real, dtype=jnp.int32), jnp.arange(gpus.shape[0], dtype=jnp.int32)
    submit = jnp.where(real, NOW_S - wait, NEVER)
    parts = jnp.where((place < env.window)[:, None], 0, parts_of_sums(gpus, times, submit, real))
    beyond = jnp.sum(parts, axis=0, dtype=jnp.int32)
    jobs = JobTables(
        submit_time=submit,
        num_gpus=gpus,
        model=model,
        run_time=times,
        shown=jnp.concatenate([times, gpus[:, None], submit[:, None]], axis=-1),
        batch_end=place,  # not read
        sums=jnp.where((place > env.window)[:, None], beyond, 0),  # of those from ``head`` on
        num_jobs=count,
    )
    state = ClusterState(
        last_job=jnp.where(arrays["busy_s"] > 0, 2 * (NOW_S + arrays["busy_s"]), 0),
        window=place[: env.window],
        in_window=jnp.minimum(count, env.window),
        time=jnp.int32(NOW_S),
        head=jnp.minimum(count, env.window),
        arrived=count,
        episode=jnp.int32(0),
    )
    return state, jax.tree.map(lambda column: column[None], jobs)


def _example(env: Sched2, jobs: int, random: np.random.Generator) -> dict[str, Any]:
    """Some GPUs free, more jobs than the window holds or fewer."""
    shape = (env.num_servers, env.gpus_per_server)
    real = np.arange(jobs) < random.integers(1, 2 * env.window)
    most = max(env.num_servers * env.gpus_per_server // 4, 1)
    waits = -np.sort(-random.integers(0, 20_000, jobs))
    columns = {
        "job_gpus": random.integers(1, most + 1, jobs),
        "job_duration_s": random.integers(60, 20_000, jobs),
        "job_wait_s": waits,
        "job_model": random.integers(0, len(MODELS), jobs),
    }
    found = {name: np.where(real, x, 0).astype(np.int32) for name, x in columns.items()}
    busy = np.where(random.random(shape) < 0.6, random.integers(1, 9_000, shape), 0)
    return {"busy_s": busy.astype(np.int32), **found, "more_to_come": np.array(True)}


NAMES = tuple(model.name for model in MODELS)
LONGEST = NEVER // 4  # s between two times of a cluster: doubled and added they fit in int32
UNKNOWN = "unknown"
ESTIMATES = {
    "model": model_estimate(NAMES, "Transformer", "which most jobs of the training traces are"),
    "duration": Estimate(
        3640,
        partial(seconds, most=MAX_DURATION_S),
        "the median of the training traces",
        "seconds above 0",
    ),
}
COMING = {"submit_time": 0, "num_gpus": 1, "duration": 1, "model": 0}


class Sched2Reader(ClusterReader[Sched2]):
    """Which waiting job starts now, and on which GPUs."""

    schema = {
        "type": "object",
        "required": ["time", "busy_until", "waiting"],
        "properties": {
            "time": {"type": "number", "description": "now, s by any clock"},
            "busy_until": {
                "type": "array",
                "description": "per server and GPU, when what runs there ends (s by that clock); "
                "null or a time that is over: free; 'unknown': the duration that is assumed from "
                "now on; null for a server: all of its GPUs are free",
                "items": {
                    "type": ["array", "null"],
                    "items": {"anyOf": [{"type": ["number", "null"]}, {"const": UNKNOWN}]},
                },
            },
            "waiting": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["submit_time", "num_gpus"],
                    "properties": {
                        "id": {"description": "any; the place in the list if absent"},
                        "submit_time": {"type": "number", "description": "s by that clock"},
                        "num_gpus": {"type": "integer", "minimum": 1},
                        "model": model_schema(NAMES),
                        "duration": {
                            "type": ["number", "null"],
                            "exclusiveMinimum": 0,
                            "description": "run time with the best locality, s",
                        },
                    },
                },
            },
            "more_to_come": {
                "type": "boolean",
                "default": True,
                "description": "waiting is allowed although nothing runs",
            },
            "assume": assume_schema(ESTIMATES),
        },
    }
    answer_schema = {
        "type": "object",
        "properties": {
            "start": {"description": "id of the job that starts; null: wait"},
            "gpus": {
                "type": "array",
                "description": "GPUs it gets",
                "items": {"type": "array", "description": "server, GPU"},
            },
            "run_time": {"type": "integer", "description": "predicted with that placement, s"},
            "level": {"type": "integer", "description": "locality level; 0 is the best"},
            "window": {"type": "array", "description": "ids of the jobs that the policy saw"},
            "estimated": ESTIMATED_SCHEMA,
        },
    }
    example = {
        "time": 7200,
        "busy_until": [[9000] * 8, *([[None] * 8] * 14)],
        "waiting": [
            {"id": "a", "submit_time": 7000, "num_gpus": 8, "model": NAMES[0], "duration": 3600},
            {"id": "b", "submit_time": 7100, "num_gpus": 1, "model": NAMES[1], "duration": 600},
        ],
    }
    jobs = "waiting"
    estimates = ESTIMATES

    def environment(self, env: Sched2) -> Sched2:
        """Without automatic advance, since the clock is the front end's."""
        return replace(env, auto_advance=False)

    def example_for(self, env: Sched2) -> Cluster:
        """A full server; the first job as large as a server."""
        gpus, (first, second) = env.gpus_per_server, self.example["waiting"]
        return {
            **self.example,
            "busy_until": [[9000] * gpus, *([[None] * gpus] * (env.num_servers - 1))],
            "waiting": [{**first, "num_gpus": gpus}, second],
        }

    def num_jobs(self, cluster: Cluster) -> int:
        """The waiting ones, and one to come."""
        return super().num_jobs(cluster) + 1

    def read(
        self, env: Sched2, clusters: Sequence[Cluster], length: int
    ) -> tuple[Params, ClusterState]:
        """See the base class; the rest of a description is a state without its window."""
        parts = [_read(env, cluster) for cluster in clusters]
        params = env.params([part.table for part in parts], length=length)
        none = jnp.zeros(len(clusters), jnp.int32)
        told = ClusterState(
            last_job=jnp.asarray(np.stack([part.last_job for part in parts]), jnp.int32),
            window=jnp.full((len(clusters), env.window), params.jobs.empty_row, jnp.int32),
            in_window=none,
            time=jnp.asarray([part.time for part in parts], jnp.int32),
            head=none,
            arrived=jnp.asarray([part.arrived for part in parts], jnp.int32),
            episode=jnp.arange(len(clusters), dtype=jnp.int32),
        )
        return params, told

    def state(self, env: Sched2, params: Params, told: ClusterState) -> ClusterState:
        """The oldest waiting jobs are in the window."""
        return fill_window(told, params.jobs)

    def nothing(self, env: Sched2, params: Params) -> Start:
        """No job starts."""
        zero, no, nobody = jnp.int32(0), jnp.bool_(False), jnp.int32(params.jobs.empty_row)
        gpus = jnp.zeros(env.num_servers, jnp.uint32)
        return Start(no, nobody, zero, zero, zero, zero, gpus, no)

    def decided(
        self, so_far: Start, state: ClusterState, after: ClusterState, timestep: TimeStep
    ) -> tuple[Start, Array]:
        """One step decides."""
        del so_far, state, after
        return timestep.metrics.start, jnp.bool_(True)

    def estimated(self, cluster: Cluster) -> list[dict[str, Any]]:
        """Jobs with unknown fields, and GPUs that are free at a time that is not known."""
        gpus = [
            [server, gpu]
            for server, times in enumerate(cluster["busy_until"])
            for gpu, until in enumerate(times or ())
            if until == UNKNOWN
        ]
        left = assumed(cluster, ESTIMATES)["duration"]
        return super().estimated(cluster) + ([{"gpus": gpus, "duration": left}] if gpus else [])

    def answer(self, env: Sched2, cluster: Cluster, decision: Start) -> dict[str, Any]:
        """Whom to start where."""
        jobs = cluster["waiting"]
        order = order_of(jobs, "waiting")
        window = [name_of(jobs[place], place) for place in order[: env.window]]
        if not decision.started:
            return {"start": None, "gpus": [], "window": window}
        place = order[int(decision.job)]
        taken = [
            [server, gpu]
            for server, bits in enumerate(decision.gpus.tolist())
            for gpu in range(env.gpus_per_server)
            if bits >> gpu & 1
        ]
        return {
            "start": name_of(jobs[place], place),
            "gpus": taken,
            "run_time": int(decision.run),
            "level": int(decision.level),
            "window": window,
        }


class _Part(NamedTuple):
    """One cluster; its time 0 is the first submission of a waiting job."""

    table: JobTable
    last_job: np.ndarray
    time: int
    arrived: int  # jobs of the table that are there


def _read(env: Sched2, cluster: Cluster) -> _Part:
    jobs, _ = jobs_of(cluster, "waiting", ESTIMATES)
    now = clock(cluster, "time")
    order = order_of(jobs, "waiting")
    waits = [
        passed(jobs[place]["submit_time"], now, f"waiting[{place}].submit_time", LONGEST)
        for place in order
    ]
    time = max(waits, default=0)
    records, most_gpus = [], env.num_servers * env.gpus_per_server
    for place, wait in zip(order, waits, strict=True):
        gpus = whole(jobs[place], "num_gpus", 1, most_gpus, f"waiting[{place}].")
        records.append({**jobs[place], "num_gpus": gpus, "submit_time": time - wait})
    more = cluster.get("more_to_come", True)
    if not isinstance(more, bool):
        raise JaxschedError(f"more_to_come is {shown(more)}; accepted: true or false")
    if more or not records:
        records.append({**COMING, "submit_time": time})
    last = _last_job(env, cluster, now, time)
    return _Part(from_records(records, name="waiting"), last, time, len(jobs))


def _last_job(env: Sched2, cluster: Cluster, now: float, time: int) -> np.ndarray:
    """``ClusterState.last_job`` of the times at which GPUs are free; ``now`` is called ``time``."""
    servers = field(cluster, "busy_until", list, "a list of servers, each a list of GPUs")
    shape = (env.num_servers, env.gpus_per_server)
    if len(servers) != shape[0]:
        raise JaxschedError(f"busy_until has {len(servers)} servers; accepted: {shape[0]}")
    unknown = seconds(assumed(cluster, ESTIMATES)["duration"], "assume.duration", MAX_DURATION_S)
    last = np.zeros(shape, np.int64)
    for place, gpus in enumerate(servers):
        if gpus is None:
            continue
        if not isinstance(gpus, list) or len(gpus) != shape[1]:
            raise JaxschedError(
                f"busy_until[{place}] is {shown(gpus)}; accepted: a list of {shape[1]} times, null"
            )
        for gpu, until in enumerate(gpus):
            if until is None:
                continue
            where = f"busy_until[{place}][{gpu}]"
            left = unknown if until == UNKNOWN else _left(until, now, where)
            last[place, gpu] = 2 * (time + left) if left > 0 else 0
    return last


def _left(until: Any, now: float, where: str) -> int:
    """How long a GPU stays busy, s; at most 0: it is free."""
    left = whole_seconds(clock({where: until}, where) - now, up=True)
    if left > LONGEST:
        raise JaxschedError(
            f"{where} is {shown(until)} at time {shown(now)}; accepted: up to {LONGEST} s later, "
            "by the same clock"
        )
    return left
