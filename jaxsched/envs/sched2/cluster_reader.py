"""SCHED2's cluster as a front end describes it: what runs until when, and who waits.

Times are absolute seconds of the front end; only differences matter. Waiting jobs are taken in
order of submission, as they enter the window.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.sched2.dynamics import ClusterState, fill_window
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.slowdown import MODELS
from jaxsched.envs.sched2.tables import NEVER
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.systems.cluster_reader import (
    Cluster,
    ClusterReader,
    field,
    jobs_of,
    name_of,
    order_of,
    shown,
    whole,
)
from jaxsched.types import Array, TimeStep

NAMES = tuple(model.name for model in MODELS)
LATEST = NEVER // 2
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
            "time": {"type": "integer", "minimum": 0, "description": "now, s"},
            "busy_until": {
                "type": "array",
                "description": "per server and GPU, when what runs there ends (s); null or a time "
                "that is over: free",
                "items": {"type": "array", "items": {"type": ["integer", "null"]}},
            },
            "waiting": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["submit_time", "num_gpus", "model", "duration"],
                    "properties": {
                        "id": {"description": "any; the place in the list if absent"},
                        "submit_time": {"type": "integer", "minimum": 0, "description": "s"},
                        "num_gpus": {"type": "integer", "minimum": 1},
                        "model": {"enum": list(NAMES)},
                        "duration": {
                            "type": "integer",
                            "minimum": 1,
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

    def environment(self, env: Sched2) -> Sched2:
        """Without automatic advance, since the clock is the front end's."""
        return replace(env, auto_advance=False)

    def num_jobs(self, cluster: Cluster) -> int:
        """The waiting ones, and one to come."""
        return len(field(cluster, "waiting", list, "a list of jobs")) + 1

    def read(self, env: Sched2, clusters: Sequence[Cluster], length: int) -> tuple[Params, Told]:
        """See the base class."""
        parts = [_read(env, cluster) for cluster in clusters]
        params = env.params([table for table, _, _ in parts], length=length)
        told = Told(
            last_job=jnp.asarray(np.stack([last for _, last, _ in parts]), jnp.int32),
            time=jnp.asarray([_time(c) - _origin(c) for c in clusters], jnp.int32),
            arrived=jnp.asarray([number for _, _, number in parts], jnp.int32),
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


def _time(cluster: Cluster) -> int:
    return whole(cluster, "time", 0, LATEST)


def _origin(cluster: Cluster) -> int:
    """What is called 0: the first submission of a waiting job."""
    return min([_time(cluster), *(int(job["submit_time"]) for job in cluster["waiting"])])


def _read(env: Sched2, cluster: Cluster) -> tuple[JobTable, np.ndarray, int]:
    """The table of a cluster, ``last_job``, and how many of the table's jobs are there."""
    time, jobs = _time(cluster), jobs_of(cluster, "waiting", NAMES)
    order = order_of(jobs, "waiting")
    jobs = [jobs[place] for place in order]
    for job in jobs:
        whole(job, "submit_time", 0, time)
    origin = min([time, *(job["submit_time"] for job in jobs)])
    records = [{**job, "submit_time": job["submit_time"] - origin} for job in jobs]
    more = cluster.get("more_to_come", True)
    if not isinstance(more, bool):
        raise JaxschedError(f"more_to_come is {shown(more)}; accepted: true or false")
    if more or not records:
        records.append({**COMING, "submit_time": time - origin})
    return (
        from_records(records, name="waiting"),
        _last_job(env, cluster, time, origin),
        len(jobs),
    )


def _last_job(env: Sched2, cluster: Cluster, time: int, origin: int) -> np.ndarray:
    """``ClusterState.last_job`` of the times at which GPUs are free."""
    servers = field(cluster, "busy_until", list, "a list of servers, each a list of GPUs")
    shape = (env.num_servers, env.gpus_per_server)
    if len(servers) != shape[0]:
        raise JaxschedError(f"busy_until has {len(servers)} servers; accepted: {shape[0]}")
    last = np.zeros(shape, np.int64)
    for place, gpus in enumerate(servers):
        if not isinstance(gpus, list) or len(gpus) != shape[1]:
            raise JaxschedError(
                f"busy_until[{place}] is {shown(gpus)}; accepted: a list of {shape[1]} times"
            )
        for gpu, until in enumerate(gpus):
            if until is None:
                continue
            name = f"busy_until[{place}][{gpu}]"
            ends = whole({name: until}, name, 0, LATEST)
            last[place, gpu] = 2 * (ends - origin) if ends > time else 0
    return last
