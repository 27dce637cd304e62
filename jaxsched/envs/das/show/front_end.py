"""Snapshots of DAS' cluster from a front end: which jobs run where, and which wait.

Times are seconds by any clock of the front end; only differences count, in whole seconds. Waiting
jobs enter the window in order of submission.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.jobs import (
    CPUS_PER_GPU,
    GANG_JOBS,
    GB_PER_GPU,
    GROUP,
    MEDIAN_DURATION_S,
    MOST_DURATION_S,
    USER,
)
from jaxsched.envs.das.rules import Params, dynamics, machines, row_of, with_room
from jaxsched.envs.das.rules.dynamics import State, StepAccumulator, window_of
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.systems.cluster_estimates import (
    ESTIMATED_SCHEMA,
    Estimate,
    assume_schema,
    is_number,
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
)
from jaxsched.types import Array, TimeStep

MOST_INSTANCES = 2**15


def _amount(value: Any, where: str) -> int:
    """A whole amount of a resource, from 0 on."""
    if not (is_number(value) and value == int(value) and 0 <= value < 2**14):
        raise JaxschedError(
            f"{where} is {shown(value)}; accepted: a whole number from 0 to {2**14 - 1}, null"
        )
    return int(value)


def _of_each_gpu(value: Any, job: Mapping[str, Any]) -> Any:
    gpus = job.get("gpus_per_instance", 1)
    return value * gpus if isinstance(gpus, int) else value


def _per_gpu(default: int, what: str) -> Estimate:
    why = f"{default} for each GPU of the instance, as most jobs of the workload ask for"
    return Estimate(default, _amount, why, f"{what} of each GPU", _of_each_gpu)


ESTIMATES = {
    "cpus_per_instance": _per_gpu(CPUS_PER_GPU, "CPUs"),
    "mem_per_instance": _per_gpu(GB_PER_GPU, "GB"),
    "duration": Estimate(
        int(MEDIAN_DURATION_S),
        partial(seconds, most=MOST_DURATION_S),
        "the median of the workload; policies that are no oracles do not read it",
        "seconds above 0",
    ),
}
_REQUESTS = {
    "gpus_per_instance": {"type": "integer", "minimum": 1},
    "cpus_per_instance": {"type": ["integer", "null"], "minimum": 0},
    "mem_per_instance": {"type": ["integer", "null"], "minimum": 0, "description": "GB"},
    "group": {"description": "any; jobs of equal groups repeat one another"},
    "user": {"description": "any"},
}
_ID = {"id": {"description": "any; the place in the list if absent"}}
_MACHINES = {
    "type": "object",
    "description": "instances by the number of the machine, from 0 on",
    "additionalProperties": {"type": "integer", "minimum": 1},
}


class Choice(NamedTuple):
    """What one decision placed, by position of the window."""

    counts: Array  # int8 [N, M], instances on each machine
    failed: Array  # bool [N], did not fit


class Snapshot(NamedTuple):
    """A snapshot without its job table, in which running jobs come first."""

    counts: Array  # int8 [J, M], instances of running jobs on each machine
    first: Array  # int32, row of the oldest waiting job
    gone: Array  # int32, jobs of the table that neither run nor wait
    time: Array  # int32, now
    seen: Array | None  # float32 [K, 2], see ``State.seen``
    episode: Array  # int32


class DASReader(ClusterReader[DAS]):
    """Which waiting jobs start now, and on which machines."""

    schema = {
        "type": "object",
        "required": ["time", "running", "waiting"],
        "properties": {
            "time": {"type": "number", "description": "now, s by any clock"},
            "running": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["gpus_per_instance", "machines"],
                    "properties": {**_ID, **_REQUESTS, "machines": _MACHINES},
                },
            },
            "waiting": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["submit_time", "num_instances", "gpus_per_instance"],
                    "properties": {
                        **_ID,
                        "submit_time": {"type": "number", "description": "s by that clock"},
                        "num_instances": {"type": "integer", "minimum": 1},
                        **_REQUESTS,
                        "duration": {"type": ["number", "null"], "exclusiveMinimum": 0},
                    },
                },
            },
            "finished": {
                "type": "array",
                "description": "finished jobs, from which run times are estimated",
                "items": {
                    "type": "object",
                    "required": ["run_time"],
                    "properties": {
                        "group": {},
                        "user": {},
                        "run_time": {"type": "number", "exclusiveMinimum": 0, "description": "s"},
                    },
                },
            },
            "assume": assume_schema(ESTIMATES),
        },
    }
    answer_schema = {
        "type": "object",
        "properties": {
            "start": {
                "type": "array",
                "description": "jobs that start now",
                "items": {
                    "type": "object",
                    "properties": {"job": {"description": "id"}, "machines": _MACHINES},
                },
            },
            "does_not_fit": {"type": "array", "description": "ids of jobs that did not fit"},
            "window": {"type": "array", "description": "ids of the jobs that the policy saw"},
            "estimated": ESTIMATED_SCHEMA,
        },
    }
    example = {
        "time": 7200,
        "running": [{"id": "r", "gpus_per_instance": 4, "machines": {"0": 1, "1": 1}}],
        "waiting": [
            {"id": "a", "submit_time": 7000, "num_instances": 8, "gpus_per_instance": 1},
            {"id": "b", "submit_time": 7100, "num_instances": 2, "gpus_per_instance": 8},
        ],
    }
    jobs = "waiting"
    estimates = ESTIMATES

    def environment(self, env: DAS) -> DAS:
        """``first`` sampling, and steps from decision to decision."""
        return replace(env, sampling="first", events_per_step=0)

    def example_for(self, env: DAS) -> Cluster:
        """A job on half of a machine or two; one of small instances and one of whole machines."""
        gpus, machines = env.gpus_per_server, range(min(env.num_servers, 2))
        (running,), (first, second) = self.example["running"], self.example["waiting"]
        half = {
            "gpus_per_instance": max(gpus // 2, 1),
            "machines": {str(machine): 1 for machine in machines},
        }
        few = {"num_instances": min(gpus, 8), "gpus_per_instance": 1}
        wide = {"num_instances": len(machines), "gpus_per_instance": gpus}
        return {
            **self.example,
            "running": [{**running, **half}],
            "waiting": [{**first, **few}, {**second, **wide}],
        }

    def num_jobs(self, cluster: Cluster) -> int:
        """Number of waiting and running jobs."""
        return super().num_jobs(cluster) + len(field(cluster, "running", list, "a list of jobs"))

    def read(self, env: DAS, clusters: Sequence[Cluster], length: int) -> tuple[Params, Snapshot]:
        """See the base class."""
        parts = [_read(env, cluster) for cluster in clusters]
        params = env.params([part.table for part in parts])
        params = with_room(params, len(clusters) * length, length)
        counts = np.zeros((len(clusters), length, env.num_servers), np.int8)
        for place, part in enumerate(parts):
            counts[place, : len(part.counts)] = part.counts
        seen = None
        if params.known is not None:
            seen = np.zeros((len(clusters), len(params.known), 2), np.float32)
            for place, part in enumerate(parts):
                seen[place, : len(part.seen)] = part.seen
        snapshot = Snapshot(
            counts=jnp.asarray(counts),
            first=jnp.asarray([len(part.counts) + part.gone for part in parts], jnp.int32),
            gone=jnp.asarray([part.gone for part in parts], jnp.int32),
            time=jnp.asarray([part.time for part in parts], jnp.int32),
            seen=None if seen is None else jnp.asarray(seen),
            episode=jnp.arange(len(clusters), dtype=jnp.int32),
        )
        return params, snapshot

    def state(self, env: DAS, params: Params, snapshot: Snapshot) -> State:
        """The state of a snapshot; the oldest waiting jobs are in the window."""
        places = params.places
        rows = row_of(params, snapshot.episode, places)
        running = machines.nobody_runs(env)
        running = machines.admit(env, running, places, rows, snapshot.counts, snapshot.time)
        running, used = machines.set_speeds(env, running, snapshot.time, snapshot.time)
        job = snapshot.first + jnp.arange(env.window, dtype=jnp.int32)
        state = State(
            running=running,
            used=used,
            window=window_of(params, snapshot.episode, job),
            time=snapshot.time,
            since=snapshot.time,
            due=jnp.bool_(False),
            held=jnp.bool_(False),
            entered=snapshot.first + env.window,
            submitted=params.num_jobs[snapshot.episode],
            finished=snapshot.gone,
            gain=jnp.float32(0),
            concerned=jnp.int32(0),
            episode=snapshot.episode,
            draws=None,
            seen=snapshot.seen,
        )
        never = jnp.full(machines.num_rows(env), -1, jnp.int32)
        nothing = StepAccumulator(never, jnp.float32(0), jnp.float32(0))
        return dynamics.look_ahead(env, state, params, nothing)[0]  # whether a job fits

    def nothing(self, env: DAS, params: Params) -> Choice:
        """No job starts."""
        del params
        shape = env.window, env.num_servers
        return Choice(jnp.zeros(shape, jnp.int8), jnp.zeros(env.window, bool))

    def decided(
        self, so_far: Choice, state: State, after: State, timestep: TimeStep
    ) -> tuple[Choice, Array]:
        """One step decides."""
        del so_far, state, after
        return Choice(timestep.metrics.counts, timestep.metrics.failed), jnp.bool_(True)

    def answer(self, env: DAS, cluster: Cluster, decision: Choice) -> dict[str, Any]:
        """Jobs to start, with their machines."""
        jobs = cluster["waiting"]
        order = order_of(jobs, "waiting")[: env.window]
        names = [name_of(jobs[place], place) for place in order]
        placed = [
            {str(machine): int(count[machine]) for machine in np.flatnonzero(count)}
            for count in decision.counts[: len(names)]
        ]
        chosen = zip(names, placed, strict=True)
        return {
            "start": [{"job": name, "machines": where} for name, where in chosen if where],
            "does_not_fit": [n for n, f in zip(names, decision.failed, strict=False) if f],
            "window": names,
        }


class _Part(NamedTuple):
    """One cluster; its time 0 is the first submission of a waiting job."""

    table: JobTable
    counts: np.ndarray  # int8 [running jobs, M]
    time: int
    seen: np.ndarray  # float32 [K, 2]
    gone: int  # 1 for a cluster without jobs: a table has at least one


def _read(env: DAS, cluster: Cluster) -> _Part:
    waiting, _ = jobs_of(cluster, "waiting", ESTIMATES)
    running, _ = jobs_of(cluster, "running", ESTIMATES)
    now, order = clock(cluster, "time"), order_of(waiting, "waiting")
    waits = [
        passed(waiting[place]["submit_time"], now, f"waiting[{place}].submit_time")
        for place in order
    ]
    time = max(waits, default=0)
    counts = [_counts(env, job, f"running[{place}].") for place, job in enumerate(running)]
    records = [
        {**_requests(env, job, f"running[{place}]."), "submit_time": 0, "num_instances": sum(count)}
        for place, (job, count) in enumerate(zip(running, counts, strict=True))
    ]
    for place, wait in zip(order, waits, strict=True):
        before = f"waiting[{place}]."
        instances = whole(waiting[place], "num_instances", 1, MOST_INSTANCES, before)
        own = {"submit_time": time - wait, "num_instances": instances}
        records.append({**_requests(env, waiting[place], before), **own})
    held = np.array(counts, np.int64).reshape(-1, env.num_servers)
    _check_machines(env, records, held)
    everyone = [*running, *(waiting[place] for place in order)]
    no_job = dict.fromkeys((column.name for column in GANG_JOBS), 1) | {"submit_time": 0}
    table = from_records(records or [no_job], schema=GANG_JOBS, name="cluster")
    table, seen = _with_owners(cluster, everyone, table)
    return _Part(table, held.astype(np.int8), time, seen, not records)


def _requests(env: DAS, job: Mapping[str, Any], before: str) -> dict[str, int]:
    gpus = whole(job, "gpus_per_instance", 1, env.gpus_per_server, before)
    return {
        "gpus_per_instance": gpus,
        **{name: job[name] for name in ("cpus_per_instance", "mem_per_instance", "duration")},
    }


def _counts(env: DAS, job: Mapping[str, Any], before: str) -> list[int]:
    """Instances of a running job on each machine."""
    held = field(job, "machines", Mapping, "an object of machines and instances", before)
    known = {str(machine) for machine in range(env.num_servers)}
    unknown = sorted(map(str, set(held) - known))
    if unknown or not held:
        raise JaxschedError(
            f"{before}machines has {unknown[0] if unknown else 'no machine'}; accepted: machines "
            f"from 0 to {env.num_servers - 1}"
        )
    most, found = env.gpus_per_server, [0] * env.num_servers
    for machine in held:
        found[int(machine)] = whole(held, machine, 1, most, f"{before}machines.")
    return found


def _check_machines(env: DAS, records: list[dict[str, Any]], counts: np.ndarray) -> None:
    names = ("gpus_per_instance", "cpus_per_instance", "mem_per_instance")
    words = ("GPUs", "CPUs", "GB")
    for name, word, most in zip(names, words, env.capacity, strict=True):
        each = np.array([record[name] for record in records[: len(counts)]], np.int64)
        held = each @ counts
        over = np.flatnonzero(held > most)
        if over.size:
            raise JaxschedError(
                f"running: the jobs on machine {over[0]} hold {held[over[0]]} {word}; accepted: at "
                f"most {most}"
            )


def _finished(cluster: Cluster) -> list[Mapping[str, Any]]:
    accepted = "a list of objects with run_time"
    jobs = field(cluster, "finished", list, accepted) if "finished" in cluster else []
    if not all(isinstance(job, Mapping) for job in jobs):
        raise JaxschedError(f"finished is {shown(jobs)}; accepted: {accepted}")
    return jobs


def _with_owners(
    cluster: Cluster, jobs: Sequence[Mapping[str, Any]], table: JobTable
) -> tuple[JobTable, np.ndarray]:
    """The table with groups and users, and their finished jobs' run times (``State.seen``)."""
    codes: list[dict[str, int]] = [{}, {}]
    columns = {}
    for known, name in zip(codes, (GROUP, USER), strict=True):
        numbers = [known.setdefault(repr(job.get(name)), len(known)) for job in jobs] or [0]
        columns[name] = np.array(numbers, np.int64)
    own = JobTable({**table.columns, **columns}, table.name, table.notes, table.schema)
    first = (1, 1 + max(len(codes[0]), 1))
    seen = np.zeros((first[1] + max(len(codes[1]), 1), 2), np.float32)
    for place, job in enumerate(_finished(cluster)):
        run = seconds(job.get("run_time"), f"finished[{place}].run_time", MOST_DURATION_S)
        rows = [
            begin + known[repr(job.get(name))]
            for begin, known, name in zip(first, codes, (GROUP, USER), strict=True)
            if repr(job.get(name)) in known
        ]
        seen[[0, *rows]] += (1.0, np.log2(run))
    return own, seen
