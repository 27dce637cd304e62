"""SCHED2's cluster as a front end describes it: what runs until when, and who waits.

Times are seconds by any clock of the front end, Unix time included, with fractions or without; only
differences count, in whole seconds. Waiting jobs are taken in order of submission, as they enter
the window.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.sched2.dynamics import ClusterState, fill_window
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.slowdown import MODELS
from jaxsched.envs.sched2.tables import NEVER
from jaxsched.errors import JaxschedError
from jaxsched.jobs import MAX_DURATION_S, JobTable, from_records
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
    shown,
    waited,
    whole,
    whole_seconds,
)
from jaxsched.types import Array, TimeStep

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


class Decision(NamedTuple):
    """What one step started."""

    job: Array  # int32, row of the table; the empty row's for none
    started: Array  # bool
    gpus: Array  # uint32 [S], GPUs taken of each server, bit sets
    run: Array  # int32, run time there, s
    level: Array  # int32, locality level


class Told(NamedTuple):
    """What a cluster tells beside its jobs; see ``ClusterState``."""

    last_job: Array
    time: Array
    arrived: Array
    episode: Array


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

    def num_jobs(self, cluster: Cluster) -> int:
        """The waiting ones, and one to come."""
        return super().num_jobs(cluster) + 1

    def read(self, env: Sched2, clusters: Sequence[Cluster], length: int) -> tuple[Params, Told]:
        """See the base class."""
        parts = [_read(env, cluster) for cluster in clusters]
        params = env.params([part.table for part in parts], length=length)
        told = Told(
            last_job=jnp.asarray(np.stack([part.last_job for part in parts]), jnp.int32),
            time=jnp.asarray([part.time for part in parts], jnp.int32),
            arrived=jnp.asarray([part.arrived for part in parts], jnp.int32),
            episode=jnp.arange(len(clusters), dtype=jnp.int32),
        )
        return params, told

    def state(self, env: Sched2, params: Params, told: Told) -> ClusterState:
        """The oldest waiting jobs are in the window."""
        nobody = jnp.full(env.window, params.jobs.empty_row, jnp.int32)
        empty = ClusterState(
            last_job=told.last_job,
            window=nobody,
            in_window=jnp.int32(0),
            time=told.time,
            head=jnp.int32(0),
            arrived=told.arrived,
            episode=told.episode,
        )
        return fill_window(empty, params.jobs)

    def nothing(self, env: Sched2, params: Params) -> Decision:
        """Nobody starts."""
        zero = jnp.int32(0)
        gpus = jnp.zeros(env.num_servers, jnp.uint32)
        return Decision(jnp.int32(params.jobs.empty_row), jnp.bool_(False), gpus, zero, zero)

    def decided(
        self, so_far: Decision, state: ClusterState, timestep: TimeStep
    ) -> tuple[Decision, Array]:
        """One step decides."""
        del so_far, state
        start = timestep.metrics.start
        found = Decision(start.job, start.started, start.gpus, start.run, start.level)
        return found, jnp.bool_(True)

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

    def answer(self, env: Sched2, cluster: Cluster, decision: Decision) -> dict[str, Any]:
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
    waits = [waited(jobs[place]["submit_time"], now, place, LONGEST) for place in order]
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
