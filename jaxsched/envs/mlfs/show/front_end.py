"""MLFS' cluster as a front end describes it in JSON: jobs, and what each of their tasks does.

A decision is that of one slot: which waiting tasks start where, and which running tasks move or
stop. Times are seconds by any clock of the front end; only differences count, in whole minutes.

Axes: ``A`` jobs of the window, ``K`` places for tasks, ``R`` rows of running tasks.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.jobs import (
    MAX_PARTITIONS,
    MAX_TASKS,
    MODELS,
    SIZES,
    SVM,
    TASK_JOBS,
    graph_shape,
    optimal_iteration,
)
from jaxsched.envs.mlfs.rules import WAVE_CLASSES, Rules, dynamics, migration
from jaxsched.envs.mlfs.rules.offers import answer, communication, link_load
from jaxsched.envs.mlfs.rules.state import (
    ABSENT,
    DONE,
    NOMINAL,
    NONE,
    NOT_READY,
    RUNNING,
    WAITING,
    Active,
    Running,
    State,
    Tasks,
    empty_state,
    part_of,
    present,
    ready,
    split,
)
from jaxsched.envs.mlfs.rules.tables import SLOT_S, Job, Params, jobs_at, with_room
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems.cluster_estimates import (
    ESTIMATED_SCHEMA,
    Estimate,
    assume_schema,
    is_number,
    model_estimate,
    model_schema,
    seconds,
)
from jaxsched.systems.cluster_reader import (
    LONGEST_WAIT_S,
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
from jaxsched.types import Array, PRNGKey, TimeStep

MOST_ITERATIONS = 2**15
MOST_MIN = 2**10  # of work of a task in an iteration
EQUAL = "equal"
STATES = ("running", "done", "waiting")
"""States of a task; those that are not listed wait, or cannot run yet."""


def _whole_to(most: int, value: Any, where: str, least: int = 0) -> int:
    if not (is_number(value) and value == int(value) and least <= value <= most):
        raise JaxschedError(
            f"{where} is {shown(value)}; accepted: a whole number from {least} to {most}, null"
        )
    return int(value)


def _pm(value: Any, where: str) -> int:
    """A share of a GPU as pm."""
    if not (is_number(value) and 0.001 <= value <= 1):
        raise JaxschedError(f"{where} is {shown(value)}; accepted: from 0.001 to 1, null")
    return round(1000 * value)


def _work(value: Any, where: str) -> Any:
    """Minutes of an iteration, or thousandths of minutes of each partition."""
    numbers = value if isinstance(value, list) else [value]
    most = 1000 * MOST_MIN if isinstance(value, list) else MOST_MIN
    if not numbers or not all(is_number(x) and 0 < x <= most for x in numbers):
        raise JaxschedError(
            f"{where} is {shown(value)}; accepted: minutes above 0 and up to {MOST_MIN}, a list of "
            "1/1000 minutes of each partition, null"
        )
    return value


def _size(value: Any, where: str) -> Any:
    """Shares of the partitions in the model's parameters (1/1000)."""
    shares = isinstance(value, list) and all(is_number(x) and 1 <= x <= 1000 for x in value)
    if value != EQUAL and not shares:
        raise JaxschedError(
            f"{where} is {shown(value)}; accepted: a list of 1/1000 of each partition, "
            f"'{EQUAL}', null"
        )
    return value


def _iterations(job: Mapping[str, Any]) -> int:
    """Iterations of a job; 1 where its description is refused."""
    iterations: Any = job.get("iterations")
    good = isinstance(iterations, int) and 1 <= iterations <= MOST_ITERATIONS
    return int(iterations) if good else 1


ESTIMATES = {
    "model": model_estimate(MODELS, "MLP", "a chain of layers"),
    "work": Estimate(
        5.0, _work, "a usual iteration", "minutes of an iteration at full speed, or a list"
    ),
    "size": Estimate(EQUAL, _size, "equal shares", f"a list, '{EQUAL}'"),
    "gpu_demand": Estimate(0.325, _pm, "the mean of the workload", "a share of a GPU"),
    "cpus": Estimate(2, partial(_whole_to, 2**12), "the mean of the workload", "whole numbers"),
    "mem": Estimate(9, partial(_whole_to, 2**14), "the mean of the workload", "GB"),
    "vol_worker": Estimate(75, partial(_whole_to, 2**10), "the mean of the workload", "MB"),
    "vol_ps": Estimate(75, partial(_whole_to, 2**10), "the mean of the workload", "MB"),
    "urgency": Estimate(5, partial(_whole_to, 10, least=1), "in the middle", "1 to 10"),
    "deadline_s": Estimate(
        44_100,
        partial(seconds, most=LONGEST_WAIT_S),
        "the mean slack of the workload",
        "seconds above 0 after the submission",
    ),
    "curve_a": Estimate(
        34,
        partial(_whole_to, 2**20, least=1),
        "34,000 over the iterations, the mean of the workload",
        "1/1000, the slope of the accuracy's curve at its start",
        lambda value, job: max(1, round(1000 * value / _iterations(job))),
    ),
    "req_iter": Estimate(
        MOST_ITERATIONS,
        partial(_whole_to, MOST_ITERATIONS, least=1),
        "all of the iterations",
        "iterations from 1 on",
        lambda value, job: min(value, _iterations(job)),
    ),
    "option": Estimate(1, partial(_whole_to, 2), "that of the workload", "0, 1 or 2"),
    "allow": Estimate(2, partial(_whole_to, 2), "that of the workload", "0, 1 or 2"),
}
"""By the columns of ``TASK_JOBS`` that have their names."""

_TASK = {
    "type": "object",
    "required": ["task", "state"],
    "properties": {
        "task": {"type": "integer", "minimum": 0, "description": "its number in the job"},
        "state": {"enum": list(STATES)},
        "server": {"type": "integer", "description": "where it runs, or ran last"},
        "gpu": {"type": "integer", "description": "of the server; of running tasks"},
        "left_min": {
            "type": "number",
            "description": "minutes at full speed that are left of a task that was started",
        },
        "since": {"type": "number", "description": "since when it waits, s by that clock"},
        "demand": {
            "type": "number",
            "description": "measured GPU and CPU load of a running task over what it asks for, in "
            "steps of 0.1 from 0.8 to 1.2; 1 if absent",
        },
    },
}
_NUMBER = {"type": ["number", "null"]}
_PLACED = {
    "job": {"description": "id"},
    "task": {"type": "integer"},
    "server": {"type": "integer"},
    "gpu": {"type": "integer"},
}


class Placements(NamedTuple):
    """Where tasks run once a slot's tasks are placed, int32 ``[R]``; -1 in free rows."""

    task: Array  # place of the job times 32 plus place of the task
    server: Array
    gpu: Array


class Decided(NamedTuple):
    """What a step of ``OneSlot`` reports."""

    placements: Placements
    complete: Array  # bool


@dataclass(frozen=True)
class OneSlot(MLFS):
    """MLFS in a slot that does not end: steps place its tasks and say where they run."""

    def step(
        self, key: PRNGKey, state: State, action: Array, params: Params
    ) -> tuple[State, TimeStep]:
        """The answer to one offer, or to all of the slot where a step is a slot."""
        del key
        if self.by_slot:
            after = self.placed(state, action, params)
        else:
            given = jnp.asarray(action, jnp.int32)
            after = answer(self.rules_of(params), params, state, given)
        observation, mask = self.observe(after, params)
        none, no = jnp.float32(0), jnp.bool_(False)
        complete = jnp.bool_(True) if self.by_slot else ~self.decides(after)
        running = after.running
        decided = Decided(Placements(running.task, running.server, running.gpu), complete)
        return after, TimeStep(observation, mask, none, no, no, none, decided)


class Described(NamedTuple):
    """Clusters but for their job tables; arrays of the first ``A`` jobs in order of submission."""

    phase: Any  # int8 [A, K]: RUNNING, DONE, or WAITING where nothing is said
    server: Any  # int16 [A, K], -1 where it never ran
    gpu: Any  # int16 [A, K]
    left: Any  # int32 [A, K], mmin
    since: Any  # int32 [A, K], slots
    measured: Any  # int32 [A, K], pm
    iterations: Any  # int32 [A], completed
    limit: Any  # int32 [A], iterations after which the job ends; -1: as MLF-C says now
    home: Any  # int32 [A]
    attained: Any  # int32 [A], task slots
    slot: Any  # int32
    jobs: Any  # int32
    busy: Any  # bool
    episode: Any  # int32


class MLFSReader(ClusterReader[MLFS]):
    """Which tasks start, move and stop in this slot, and where."""

    schema = {
        "type": "object",
        "required": ["time", "jobs"],
        "properties": {
            "time": {"type": "number", "description": "now, s by any clock"},
            "busy": {
                "type": "boolean",
                "default": False,
                "description": "in the last minute tasks waited or servers were full",
            },
            "jobs": {
                "type": "array",
                "minItems": 1,
                "description": "submitted and not finished; in order of submission, those beyond "
                "the window wait",
                "items": {
                    "type": "object",
                    "required": ["submit_time", "num_gpus", "iterations"],
                    "properties": {
                        "id": {"description": "any; the place in the list if absent"},
                        "submit_time": {"type": "number", "description": "s by that clock"},
                        "num_gpus": {"enum": list(SIZES), "description": "tasks of the job"},
                        "iterations": {"type": "integer", "minimum": 1},
                        "model": model_schema(MODELS),
                        "work": {
                            "description": "minutes of an iteration at full speed, or a list: "
                            "1/1000 minutes of a task of each partition"
                        },
                        "size": {
                            "description": "a list: share of each partition in the parameters, "
                            "1/1000"
                        },
                        "gpu_demand": {**_NUMBER, "description": "of a task, GPUs"},
                        "cpus": {**_NUMBER, "description": "of a task"},
                        "mem": {**_NUMBER, "description": "of a task, GB"},
                        "vol_worker": {**_NUMBER, "description": "MB to a child, each round"},
                        "vol_ps": {**_NUMBER, "description": "MB to the parameter server"},
                        "urgency": {**_NUMBER, "description": "1 to 10"},
                        "deadline_s": {**_NUMBER, "description": "s after the submission"},
                        "curve_a": {**_NUMBER, "description": "slope of the accuracy, 1/1000"},
                        "req_iter": {**_NUMBER, "description": "iterations to the target"},
                        "option": {**_NUMBER, "description": "how the job ends, see MLF-C"},
                        "allow": {**_NUMBER, "description": "the furthest option under load"},
                        "iterations_done": {"type": "integer", "default": 0},
                        "ends_after": {
                            "type": ["integer", "null"],
                            "description": "iterations after which it ends; by MLF-C if absent",
                        },
                        "home": {
                            "type": ["integer", "null"],
                            "description": "server of its parameters",
                        },
                        "attained_min": {
                            "type": "number",
                            "default": 0,
                            "description": "minutes that its tasks have run, summed",
                        },
                        "tasks": {
                            "type": "array",
                            "description": "of the present iteration; tasks that are not listed "
                            "wait, or for others before them",
                            "items": _TASK,
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
            "start": {
                "type": "array",
                "description": "waiting tasks that start",
                "items": {"type": "object", "properties": _PLACED},
            },
            "move": {
                "type": "array",
                "description": "running tasks that go on elsewhere",
                "items": {"type": "object", "properties": _PLACED},
            },
            "stop": {
                "type": "array",
                "description": "running tasks that go back to the queue",
                "items": {"type": "object", "properties": {n: _PLACED[n] for n in ("job", "task")}},
            },
            "window": {"type": "array", "description": "ids of the jobs that the policy saw"},
            "estimated": ESTIMATED_SCHEMA,
        },
    }
    example = {
        "time": 7200,
        "jobs": [
            {
                "id": "a",
                "submit_time": 3600,
                "num_gpus": 2,
                "model": "MLP",
                "iterations": 40,
                "iterations_done": 3,
                "home": 0,
                "tasks": [
                    {"task": 0, "state": "done", "server": 0},
                    {"task": 1, "state": "running", "server": 0, "gpu": 1, "left_min": 2.5},
                ],
            },
            {"id": "b", "submit_time": 7100, "num_gpus": 4, "model": "SVM", "iterations": 20},
        ],
    }
    jobs = "jobs"
    estimates = ESTIMATES

    def environment(self, env: MLFS) -> OneSlot:
        """The same in a slot that does not end."""
        options = {option.name: getattr(env, option.name) for option in fields(MLFS)}
        return OneSlot(**{**options, "slot_every": 0})

    def example_for(self, env: MLFS) -> Cluster:
        """The running task on a GPU that there is."""
        example: dict[str, Any] = deepcopy(dict(self.example))
        example["jobs"][0]["tasks"][1]["gpu"] = min(1, env.gpus[0] - 1)
        return example

    def read(self, env: MLFS, clusters: Sequence[Cluster], length: int) -> tuple[Params, Described]:
        """See the base class."""
        parts = [_read(env, cluster, number) for number, cluster in enumerate(clusters)]
        tables = [from_records(records, schema=TASK_JOBS, name="jobs") for records, _ in parts]
        params = env.params(tables)
        # Of tasks that run, as many as are told: demand may let more run than fit at full demand.
        running = max(int(np.sum(one.phase == RUNNING)) for _, one in parts)
        room = 1 << (max(params.max_running, running) - 1).bit_length()
        told = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *(x for _, x in parts))
        return with_room(params, length, room), told

    def state(self, env: MLFS, params: Params, told: Described) -> State:
        """The slot with its offers open, or as it begins where a step is a slot."""
        rules = env.rules_of(params)
        places = jnp.arange(rules.window, dtype=jnp.int32)
        job = jnp.where(places < told.jobs, places, NONE)
        jobs = jobs_at(params, told.episode, job)
        stops = dynamics.stop_limit(rules, jobs, told.iterations, told.slot, told.busy)
        limit = jnp.where(rules.use_mlfc, stops, jobs.iterations)
        zero = jnp.zeros_like(job)
        active = Active(
            job=job,
            iterations=told.iterations,
            by_deadline=told.iterations,
            limit=jnp.where(told.limit >= 0, told.limit, limit),
            home=told.home,
            start=zero - 1,
            run_slots=zero,
            attained=told.attained,
            gpu=jobs.gpu_demand,
            cpus=jobs.cpus,
            mem=jobs.mem,
        )
        phase = _phases(jobs, told.phase)
        state = empty_state(
            rules.cluster, rules.window, len(rules.classes), params.max_running, told.episode
        )
        state = state._replace(
            slot=told.slot,
            admitted=jnp.minimum(told.jobs, rules.window),
            submitted=told.jobs,
            active=active,
            tasks=Tasks(
                phase, told.server, told.left, told.since, state.tasks.priority, told.measured
            ),
            waiting=jnp.sum(phase == WAITING, dtype=jnp.int32),
            busy=told.busy,
        )
        state = state._replace(running=_running(rules, jobs, state, told, params.max_running))
        if not env.by_slot:
            return dynamics.open_slot(rules, params, state)
        rows = migration.rows_of(jobs, active, state.tasks, state.running, state.slot)
        return state._replace(loads=migration.total(rules, state.running, rows, rows.demand))

    def nothing(self, env: MLFS, params: Params) -> Placements:
        """No task runs."""
        none = jnp.full(params.max_running, NONE, jnp.int32)
        return Placements(none, none, none)

    def decided(
        self, so_far: Placements, state: State, after: State, timestep: TimeStep
    ) -> tuple[Placements, Array]:
        """Until no offer is left."""
        del so_far, state, after
        return timestep.metrics.placements, timestep.metrics.complete

    def answer(self, env: MLFS, cluster: Cluster, decision: Placements) -> dict[str, Any]:
        """Starts, moves and stops of tasks."""
        read, _ = jobs_of(cluster, "jobs", ESTIMATES)
        order = order_of(read, "jobs")[: env.max_active]
        names = [name_of(read[place], place) for place in order]
        before = {
            (at, task["task"]): (task["server"], task["gpu"])
            for at, place in enumerate(order)
            for task in read[place].get("tasks", ())
            if task["state"] == "running"
        }
        after = {}
        for row in np.flatnonzero(decision.task >= 0):
            at, inside = divmod(int(decision.task[row]), MAX_TASKS)
            number = _number_of(read[order[at]], inside)
            after[at, number] = int(decision.server[row]), int(decision.gpu[row])

        def told(chosen: dict[tuple[int, int], tuple[int, int]]) -> list[dict[str, Any]]:
            return [
                {"job": names[at], "task": number, "server": server, "gpu": gpu}
                for (at, number), (server, gpu) in sorted(chosen.items())
            ]

        moved = {x: y for x, y in after.items() if x in before and before[x] != y}
        return {
            "start": told({x: y for x, y in after.items() if x not in before}),
            "move": told(moved),
            "stop": [{"job": names[at], "task": k} for at, k in sorted(set(before) - set(after))],
            "window": names,
        }


def _phases(jobs: Job, told: Array) -> Array:
    """States of all tasks, int8 ``[A, K]``; those of which nothing is said wait if they can."""
    done = told == DONE
    waiting = jnp.where(ready(jobs, done), WAITING, NOT_READY)
    phase = jnp.where((told == RUNNING) | done, told, waiting)
    return jnp.where(present(jobs), phase, ABSENT).astype(jnp.int8)


def _running(rules: Rules, jobs: Job, state: State, told: Described, max_running: int) -> Running:
    """Rows of the running tasks, whose communication follows from where their parents ran."""
    flat = (state.tasks.state == RUNNING).reshape(-1)
    (task,) = jnp.nonzero(flat, size=max_running, fill_value=NONE)
    task = task.astype(jnp.int32)
    place, inside = split(task)

    def of_row(place: Array, inside: Array) -> tuple[Array, ...]:
        job = jax.tree.map(lambda leaf: leaf[place], jobs)
        server = told.server[place, inside].astype(jnp.int32)
        talk = communication(rules, state, job, place, inside)
        cross = talk.total_mb - talk.local_mb[server]
        load = link_load(rules, job.work[part_of(inside)], cross)
        gpu, left = told.gpu[place, inside].astype(jnp.int32), told.left[place, inside]
        return server, gpu, left, load, talk.local_share[server]

    return Running(task, *jax.vmap(of_row)(place, inside))


def _partitions(job: Mapping[str, Any]) -> tuple[int, int]:
    """Partitions of a job, and their layers."""
    shape = graph_shape(np.array([job["model"]]), np.array([job["num_gpus"]]))
    _, partitions, width = (int(x[0]) for x in shape)
    return partitions, partitions // width


def _place_of(job: Mapping[str, Any], number: int) -> int:
    """Place of a task by its number."""
    if job["model"] == SVM:
        return number
    replica, part = divmod(number, _partitions(job)[0])
    return replica * MAX_PARTITIONS + part


def _number_of(job: Mapping[str, Any], place: int) -> int:
    """Number of a task by its place."""
    if job["model"] == SVM:
        return place
    replica, part = divmod(place, MAX_PARTITIONS)
    return replica * _partitions(job)[0] + part


def _read(env: MLFS, cluster: Cluster, number: int) -> tuple[list[dict[str, Any]], Described]:
    """Records of the jobs in order of submission, and the rest of the description.

    Slot 0 begins less than a minute before the first submission.
    """
    jobs, _ = jobs_of(cluster, "jobs", ESTIMATES)
    if not jobs:
        raise JaxschedError("jobs is empty; accepted: one or more")
    busy = cluster.get("busy", False)
    if not isinstance(busy, bool):
        raise JaxschedError(f"busy is {shown(busy)}; accepted: true or false")
    now, order = clock(cluster, "time"), order_of(jobs, "jobs")
    waits = [
        passed(jobs[place]["submit_time"], now, f"jobs[{place}].submit_time") for place in order
    ]
    slot = -(-max(waits) // SLOT_S)
    records = [
        _record(jobs[place], SLOT_S * slot - wait, f"jobs[{place}].")
        for place, wait in zip(order, waits, strict=True)
    ]
    told = _nothing(env.max_active, slot, len(jobs), busy, number)
    for at, place in enumerate(order):
        _fill(env, told, at, jobs[place], now, f"jobs[{place}].")
    return records, told


def _record(job: Mapping[str, Any], submit: int, before: str) -> dict[str, Any]:
    """A job as tables hold it; ``submit`` is its submission, s."""
    gpus = whole(job, "num_gpus", 1, MAX_TASKS, before)
    if gpus not in SIZES:
        sizes = ", ".join(map(str, SIZES))
        raise JaxschedError(f"{before}num_gpus is {gpus}; accepted: {sizes}")
    iterations = whole(job, "iterations", 1, MOST_ITERATIONS, before)
    partitions, layers = _partitions(job)
    work, size, curve = job["work"], job["size"], np.array([job["curve_a"]])
    if not isinstance(work, list):
        work = [max(1, round(1000 * work / layers))] * partitions
    same = ("model", "gpu_demand", "cpus", "mem", "vol_worker", "vol_ps", "urgency", "curve_a")
    return {
        **{name: job[name] for name in (*same, "option", "allow")},
        "submit_time": submit,
        "num_gpus": gpus,
        "iterations": iterations,
        "opt_iter": int(optimal_iteration(np.array([iterations]), curve)[0]),
        "req_iter": min(job["req_iter"], iterations),
        "work": work,
        "size": [max(1, 1000 // partitions)] * partitions if size == EQUAL else size,
        "deadline": submit + job["deadline_s"],
        "acc_max": 1.0,  # no decision depends on it
    }


def _nothing(window: int, slot: int, jobs: int, busy: bool, episode: int) -> Described:
    """A cluster in which nothing runs; ``_fill`` writes the rest into the arrays."""
    shape = window, MAX_TASKS
    return Described(
        phase=np.full(shape, WAITING, np.int8),
        server=np.full(shape, NONE, np.int16),
        gpu=np.zeros(shape, np.int16),
        left=np.zeros(shape, np.int32),
        since=np.full(shape, slot, np.int32),
        measured=np.full(shape, NOMINAL, np.int32),
        iterations=np.zeros(window, np.int32),
        limit=np.full(window, NONE, np.int32),
        home=np.full(window, NONE, np.int32),
        attained=np.zeros(window, np.int32),
        slot=np.int32(slot),
        jobs=np.int32(jobs),
        busy=np.bool_(busy),
        episode=np.int32(episode),
    )


def _fill(env: MLFS, told: Any, at: int, job: Mapping[str, Any], now: float, before: str) -> None:
    """Write what a job says of itself and its tasks into row ``at``."""
    tasks = job.get("tasks", [])
    if not isinstance(tasks, list):
        raise JaxschedError(f"{before}tasks is {shown(tasks)}; accepted: a list of tasks")
    if at >= env.max_active:
        if tasks:
            raise JaxschedError(
                f"{before}tasks: the job is number {at + 1} in order of submission; accepted: "
                f"tasks of the first {env.max_active} jobs, which are in the window"
            )
        return
    last = env.num_servers - 1
    most = job["iterations"]
    if job.get("iterations_done") is not None:
        told.iterations[at] = whole(job, "iterations_done", 0, most - 1, before)
    if job.get("ends_after") is not None:
        told.limit[at] = whole(job, "ends_after", 1, most, before)
    if job.get("home") is not None:
        told.home[at] = whole(job, "home", 0, last, before)
    told.attained[at] = round(_minutes(job, "attained_min", before, 2**20))
    found = set()
    for index, task in enumerate(tasks):
        where = f"{before}tasks[{index}]."
        number = whole(task, "task", 0, job["num_gpus"] - 1, where)
        if number in found:
            raise JaxschedError(f"{where}task is {number}, as of a task before it")
        found.add(number)
        _fill_task(env, told, (at, _place_of(job, number)), task, now, where)


def _fill_task(
    env: MLFS, told: Any, where: tuple[int, int], task: Mapping[str, Any], now: float, before: str
) -> None:
    """Write what a task says of itself."""
    state = field(task, "state", str, f"one of {', '.join(STATES)}", before)
    if state not in STATES:
        raise JaxschedError(f"{before}state is {shown(state)}; accepted: {', '.join(STATES)}")
    if task.get("server") is not None or state == "running":
        server = whole(task, "server", 0, env.num_servers - 1, before)
        told.server[where] = server
    if state == "running":
        told.gpu[where] = whole(task, "gpu", 0, env.gpus[server] - 1, before)
        field(task, "left_min", (int, float), "minutes", before)
        demand = task.get("demand", 1)
        if not is_number(demand):
            raise JaxschedError(f"{before}demand is {shown(demand)}; accepted: a number")
        least, most = WAVE_CLASSES[0] // 100, WAVE_CLASSES[-1] // 100
        told.measured[where] = 100 * round(10 * min(max(demand, least / 10), most / 10))
    if state != "done":
        told.left[where] = round(1000 * _minutes(task, "left_min", before, MOST_MIN))
    if state == "waiting" and task.get("since") is not None:
        since = clock(task, "since", before)
        if now - since > LONGEST_WAIT_S:
            raise JaxschedError(
                f"{before}since is {shown(task['since'])}; accepted: up to {LONGEST_WAIT_S} s ago"
            )
        told.since[where] -= max(0, int((now - since) // SLOT_S))
    told.phase[where] = {"running": RUNNING, "done": DONE, "waiting": WAITING}[state]


def _minutes(holder: Mapping[str, Any], name: str, before: str, most: int) -> float:
    """Minutes, 0 if absent."""
    value = holder.get(name, 0)
    if not (is_number(value) and 0 <= value <= most):
        raise JaxschedError(f"{before}{name} is {shown(value)}; accepted: minutes up to {most}")
    return float(value)
