"""The cluster as a front end describes it: which jobs run where, which wait, which have ended.

Times are seconds by any clock of the front end; only differences count, in whole seconds. A
decision is that of an instant: all jobs that start now and, with suspension, all that are
suspended. Where choices commit, it is one choice.

Axes: ``n`` rows of the table (one more stands for no job), ``M`` GPUs per server, ``S`` servers,
``W`` positions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.cluster.environment import ClusterJobs, Params
from jaxsched.envs.cluster.rules import dynamics
from jaxsched.envs.cluster.rules.dynamics import State
from jaxsched.envs.cluster.rules.tables import Jobs, with_room
from jaxsched.envs.cluster.show import described
from jaxsched.envs.cluster.show.described import Snapshot
from jaxsched.envs.cluster.show.listed import (
    ESTIMATES,
    FINISHED,
    RUNNING,
    SPEEDS,
    WAITING,
    listed,
)
from jaxsched.errors import JaxschedError
from jaxsched.ops.arrays import to_device
from jaxsched.systems.cluster_estimates import ESTIMATED_SCHEMA, assume_schema
from jaxsched.systems.cluster_reader import Cluster, ClusterReader, field, name_of
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay.suspension import Account, new_accounts
from jaxsched.types import NO_JOB, Array, TimeStep

_GPUS = {
    "type": "object",
    "description": "GPUs by the number of the server, from 0 on",
    "additionalProperties": {"type": "integer", "minimum": 1},
}
_SECONDS = {"type": ["number", "null"], "exclusiveMinimum": 0}
_OF_EVERY_JOB = {
    "id": {"description": "any; the place in the list if absent"},
    "owner": {"description": "any; run times of jobs of equal owners resemble one another"},
    "cpus": {"type": "integer", "description": "of the whole job, where servers have limits"},
    "memory_gb": {"type": "integer", "description": "of the whole job, where servers have limits"},
    "priority": {"type": "integer", "minimum": 0, "default": 0, "description": "larger goes first"},
    "duration": {**_SECONDS, "description": "run time, s; for policies that know it"},
    "expected": {**_SECONDS, "description": "its run time as expected when it was submitted, s"},
    "attained": {
        "type": ["number", "null"],
        "minimum": 0,
        "description": "seconds for which it has held GPUs so far, where policies suspend jobs",
    },
    "suspensions": {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "how often it was suspended, where policies suspend jobs",
    },
}
_SUBMIT = {"submit_time": {"type": "number", "description": "s by that clock"}}


class Choice(NamedTuple):
    """What is decided so far.

    Attributes:
      job: int32 ``[M, S]``, the job that starts on each GPU; n where none does.
      suspended: bool ``[n + 1]``, jobs that are suspended.
      committed: int32, the job to which a choice commits; n: none.
      estimate: int32 ``[n + 1]``, expected run times, s.
    """

    job: Array
    suspended: Array
    committed: Array
    estimate: Array


class ClusterJobsReader(ClusterReader[ClusterJobs]):
    """Which jobs start now, on which servers, and which are suspended."""

    schema = {
        "type": "object",
        "required": ["time", RUNNING, WAITING],
        "properties": {
            "time": {"type": "number", "description": "now, s by any clock"},
            RUNNING: {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["servers"],
                    "properties": {
                        **_OF_EVERY_JOB,
                        "servers": _GPUS,
                        "submit_time": {"description": "s; where policies suspend jobs"},
                        "start_time": {
                            "description": "of its present run, s; where policies suspend jobs"
                        },
                    },
                },
            },
            WAITING: {
                "type": "array",
                "description": "jobs that wait, suspended ones among them",
                "items": {
                    "type": "object",
                    "required": ["submit_time", "num_gpus"],
                    "properties": {
                        **_OF_EVERY_JOB,
                        **_SUBMIT,
                        "num_gpus": {"type": "integer", "minimum": 1},
                        "speeds": {
                            "type": ["object", "number", "null"],
                            "description": "where GPUs have types: its speed on each over that of "
                            "its run time, by the name of the type; 0: it cannot run there",
                        },
                        "job_type": {
                            "type": ["string", "null"],
                            "description": "what it trains, where the cluster has a table of "
                            "speeds (env.speeds); in place of speeds",
                        },
                    },
                },
            },
            FINISHED: {
                "type": "array",
                "description": "jobs that have ended, from which run times are expected",
                "items": {
                    "type": "object",
                    "required": ["end_time", "num_gpus", "run_time"],
                    "properties": {
                        "owner": {},
                        "end_time": {"type": "number", "description": "s by that clock"},
                        "num_gpus": {"type": "integer", "minimum": 1},
                        "run_time": {
                            "type": "number",
                            "exclusiveMinimum": 0,
                            "description": "s, without what suspensions added; where GPUs have "
                            "types, at the speed 1",
                        },
                    },
                },
            },
            "quotas": {
                "type": "array",
                "description": "GPUs that owners may hold, where the cluster has quotas",
                "items": {
                    "type": "object",
                    "required": ["gpus"],
                    "properties": {"owner": {}, "gpus": {"type": "integer", "minimum": 0}},
                },
            },
            "committed": {
                "description": "where choices commit: the waiting job of an earlier answer; null: "
                "none"
            },
            "first_submission": {
                "type": ["number", "null"],
                "description": "when the first job ever was submitted, s by that clock; only F1 "
                "reads it; by default that of the oldest waiting job",
            },
            "more_to_come": {
                "type": "boolean",
                "default": True,
                "description": "waiting is allowed although nothing runs",
            },
            "assume": assume_schema({**ESTIMATES, "speeds": SPEEDS}),
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
                    "properties": {"job": {"description": "id"}, "servers": _GPUS},
                },
            },
            "suspend": {
                "type": "array",
                "description": "ids of running jobs that are suspended now, before others start",
            },
            "committed": {
                "description": "where choices commit: the id of the chosen job, whether it starts "
                "now or waits until it fits; null: there is none"
            },
            "window": {"type": "array", "description": "ids of the jobs that the policy saw"},
            "estimated": ESTIMATED_SCHEMA,
        },
    }
    jobs = WAITING
    estimates = ESTIMATES
    actions_are_scores = True

    @property
    def example(self) -> Cluster:  # type: ignore[override]
        """A snapshot of the default cluster."""
        return self.example_for(ClusterJobs())

    def example_for(self, env: ClusterJobs) -> Cluster:
        """A running job on the first server, and two that wait."""
        further: dict[str, Any] = dict.fromkeys(env.cluster.demands, 1)
        own = {**further, "speeds": 1} if env.cluster.gpu_types else further
        half = max(env.server_gpus()[0] // 2, 1)
        quotas = {"quotas": [{"owner": "red", "gpus": 8}]} if env.quotas != "none" else {}
        return {
            "time": 7200,
            RUNNING: [
                {
                    "id": "r",
                    "owner": "red",
                    "servers": {"0": half},
                    "submit_time": 3500,
                    "start_time": 3600,
                    **further,
                }
            ],
            WAITING: [
                {"id": "a", "owner": "blue", "submit_time": 7000, "num_gpus": half, **own},
                {"id": "b", "owner": "red", "submit_time": 7100, "num_gpus": 1, **own},
            ],
            FINISHED: [{"owner": "red", "end_time": 5400, "num_gpus": 1, "run_time": 1200}],
            **quotas,
        }

    def num_jobs(self, cluster: Cluster) -> int:
        """Jobs of all lists, and one to come."""
        lists = [field(cluster, name, list, "a list of jobs") for name in (RUNNING, WAITING)]
        if FINISHED in cluster:
            lists.append(field(cluster, FINISHED, list, "a list of jobs"))
        return sum(map(len, lists)) + 1

    def read(
        self, env: ClusterJobs, clusters: Sequence[Cluster], length: int
    ) -> tuple[Params, Snapshot]:
        """See the base class; failures to come play no part in an instant.

        Raises:
          JaxschedError: a cluster that requests cannot tell, or one of them is refused.
        """
        _check(env)
        parts = [
            described.read(env, cluster, length, episode)
            for episode, cluster in enumerate(clusters)
        ]
        told = replace(env, speeds="", quotas="none", failures="", checkpoint_s=0)
        params = told.params([part.table for part in parts], length=length)
        jobs = with_room(params.jobs)
        if env.quotas != "none":
            jobs = jobs._replace(quota=to_device([part.quota for part in parts], jnp.int32))
        snapshots = zip(*(part.snapshot for part in parts), strict=True)
        columns = [np.stack(column) for column in snapshots]
        kinds = [bool if column.dtype == bool else jnp.int32 for column in columns]
        snapshot = Snapshot(*map(to_device, columns, kinds))
        return params._replace(jobs=jobs), snapshot

    def state(self, env: ClusterJobs, params: Params, told: Snapshot) -> State:
        """The state of a snapshot, at the beginning of an instant."""
        rules, jobs = env.rules, params.jobs.of_episode(told.episode)
        nobody, runs = jobs.empty_row, told.runs.astype(bool)
        row = jnp.arange(nobody + 1, dtype=jnp.int32)
        waits = (row >= told.first) & (row < told.arrived) & ~runs
        end = jnp.where(runs, told.time + told.left, 0)
        position = jnp.arange(env.window, dtype=jnp.int32)
        window = jnp.where(told.first + position < told.arrived, told.first + position, nobody)
        entered = jnp.minimum(told.first + env.window, told.arrived)
        chosen = told.committed < nobody
        alone = jnp.where(position == 0, told.committed, nobody)
        history, estimate = _past(jobs, told)
        state = dynamics.opened(rules, jobs, told.episode)
        state = state._replace(
            time=told.time,
            arrived=told.arrived,
            entered=jnp.where(chosen, told.arrived, entered),
            window=jnp.where(chosen, alone, window),
            free_from=jnp.where(told.job < nobody, end[told.job], 0),
            job=told.job,
            is_known=told.job == nobody,
            running=jnp.sum(runs, dtype=jnp.int32),
            held=state.held.at[jobs.group].add(jnp.where(runs, jobs.num_gpus, 0)),
            queued=state.queued.at[jobs.group].add(waits.astype(jnp.int32)),
            history=history,
            estimate=estimate,
        )
        if env.commits:
            return state._replace(number=told.job, started=told.arrived)
        if not env.suspends:
            return state
        account = new_accounts(jnp.where(waits, told.left, jobs.duration))._replace(
            end=end,
            preemptions=told.suspensions,
            last_start=jnp.where(runs, told.time - told.run, 0),
            served=told.served,
        )
        return state._replace(accounts=jnp.stack(account, axis=1))

    def nothing(self, env: ClusterJobs, params: Params) -> Choice:
        """No job starts."""
        nobody = params.jobs.empty_row
        gpus = (env.cluster.gpus_per_server, env.cluster.num_servers)
        return Choice(
            job=jnp.full(gpus, nobody, jnp.int32),
            suspended=jnp.zeros(nobody + 1, bool),
            committed=jnp.int32(nobody),
            estimate=jnp.zeros(nobody + 1, jnp.int32),
        )

    def begun(self, env: ClusterJobs, params: Params, state: State) -> tuple[Choice, Array]:
        """Nothing is to be decided while no job could start, nor suspended ones for it."""
        jobs = params.jobs.of_episode(state.episode)
        if env.commits:
            may_choose = jnp.any(dynamics.waits(state, jobs))
        else:
            may_choose = dynamics.can_choose(env.rules, state, jobs)
        nothing = self.nothing(env, params)
        return nothing._replace(estimate=state.estimate), ~may_choose

    def decided(
        self, so_far: Choice, state: State, after: State, timestep: TimeStep
    ) -> tuple[Choice, Array]:
        """Until the clock goes on; where choices commit, one step decides."""
        nobody = so_far.suspended.shape[0] - 1
        started = timestep.metrics.started
        row = jnp.where(started == NO_JOB, nobody, started)
        begins: Array = row < nobody
        complete = (timestep.elapsed > 0) | timestep.terminated | timestep.truncated
        if state.number is not None:  # choices commit, and the job may start later
            so_far = so_far._replace(committed=row)
            begins &= timestep.metrics.of_started["start"] == state.time
            complete = jnp.bool_(True)
        taken = (after.job == row) & (after.free_from > state.time) & begins
        if state.accounts is not None and after.accounts is not None:
            stops = Account._fields.index("preemptions")
            more = after.accounts[:, stops] > state.accounts[:, stops]
            so_far = so_far._replace(suspended=so_far.suspended | more)
        return so_far._replace(job=jnp.where(taken, row, so_far.job)), complete

    def answer(self, env: ClusterJobs, cluster: Cluster, decision: Choice) -> dict[str, Any]:
        """Jobs to start with their servers, and jobs to suspend."""
        seen = listed(env, cluster)
        base, nobody = len(seen.finished), decision.suspended.shape[0] - 1
        start = [
            {"job": seen.name(int(row) - base), "servers": _by_server(decision.job == row)}
            for row in np.unique(decision.job[decision.job < nobody])
        ]
        found: dict[str, Any] = {"start": start}
        if env.suspends:
            stops = np.flatnonzero(decision.suspended[:nobody])
            found["suspend"] = [seen.name(int(row) - base) for row in stops]
        first, last = seen.first(env), len(seen.active)
        window = [seen.name(row) for row in range(first, min(first + env.window, last))]
        if env.commits:
            chosen = int(decision.committed)
            found["committed"] = None if chosen == nobody else seen.name(chosen - base)
            if cluster.get("committed") is not None:
                window = [cluster["committed"]]
        found["window"] = window
        rows = {place: row for row, place in enumerate(seen.active, base)}
        found["estimated"] = [
            {"job": name_of(seen.jobs[name][place], place), **guessed}
            | (
                {"expected": int(decision.estimate[rows[name, place]])}
                if "expected" in guessed
                else {}
            )
            for name in ((WAITING, RUNNING) if env.suspends else (WAITING,))
            for place, guessed in enumerate(seen.guessed[name])
            if guessed
        ]
        return found


def _past(jobs: Jobs, told: Snapshot) -> tuple[Array, Array]:
    """History of the jobs that have ended, and what was expected of others when they came.

    As ``dynamics`` has them after the same ends and submissions, one after the other.
    """

    def one(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        history, estimate = carry
        row, ends = told.event_row[number], told.event_ends[number]
        ended, came = jnp.where(ends, row, jobs.empty_row), jnp.where(ends, jobs.empty_row, row)
        seen = hs.of_scopes(history, jobs.known, came)
        mean = jnp.where(seen.ended[-1] > 0, seen.mean_s[-1], told.unknown)
        after = hs.completed(history, jobs.known, ended, jobs.duration[ended])
        return after, estimate.at[came].set(mean)

    begun = hs.nothing_yet(jobs.scopes.shape[0]), jnp.zeros(jobs.empty_row + 1, jnp.int32)
    history, estimate = jax.lax.fori_loop(0, told.event_row.shape[0], one, begun)
    return history, jnp.where(told.expected < 0, estimate, told.expected)


def _check(env: ClusterJobs) -> None:
    """Refuse clusters of which requests do not tell enough."""
    for present, what in (
        (env.gpu_slots() > 1, "slots of GPUs"),
        (env.placement == "fgd", "placement fgd"),
        (env.reservations, "reservations"),
    ):
        if present:
            raise JaxschedError(
                f"cluster: {what} with requests of a front end; accepted: policies of clusters "
                "without"
            )


def _by_server(gpus: Any) -> dict[str, int]:
    """Number of these GPUs (bool ``[M, S]``) on each server that has one."""
    counts = gpus.sum(axis=0)
    return {str(server): int(counts[server]) for server in np.flatnonzero(counts)}
