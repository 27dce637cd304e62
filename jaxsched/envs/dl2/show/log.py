"""What is kept of DL2's episodes: records, the metrics over them (section 8), pictures, cases.

Pictures show stacks of workers and parameter servers, slot by slot. A golden case is a job table
with a list of actions or a policy (section 14), or one of DL2's published simulator, with times in
slots (artefact track, section 11).

Axes: ``N`` rows of the job table, ``n`` jobs.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder
from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.elastic.models import NAMES
from jaxsched.envs.dl2.environment import DL2, StepMetrics
from jaxsched.envs.dl2.heuristics import Allocation, DL2Slots, Plan
from jaxsched.envs.dl2.heuristics.baselines import POLICY_OPTIONS, one_of_baselines, plan_rule
from jaxsched.envs.dl2.heuristics.published import PUBLISHED
from jaxsched.envs.dl2.learn.presets import ARTEFACT
from jaxsched.envs.dl2.rules import dynamics
from jaxsched.envs.dl2.rules.dynamics import (
    ClusterState,
    is_active,
    is_open,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.rules.tables import Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records, metrics
from jaxsched.jobs.lanes import stacks
from jaxsched.jobs.metrics import Metric
from jaxsched.jobs.schedule import (
    Band,
    Fact,
    Line,
    Pieces,
    Schedule,
    by_job,
    counted,
    steps,
    usual_lines,
)
from jaxsched.systems.cases import (
    Content,
    Episode,
    actions_of,
    keyed,
    list_of,
    listed_actions,
    moment,
    options_of,
    rows_of,
)
from jaxsched.systems.recording import Recording
from jaxsched.types import Array, TimeStep

OWN_METRICS = {
    "avg_jct_slots": Metric("JCT", "slots", "lower", 3, "mean of (finish - submit) / slot"),
    "avg_jct_coarse": Metric(
        "JCT in whole slots", "slots", "lower", 3, "mean of slots from the first to the last"
    ),
    "makespan_coarse": Metric(
        "makespan in whole slots", "slots", "lower", 1, "slots from the first to the last of all"
    ),
    "mean_slot_reward": Metric(
        "reward of a slot", "", "neither", 3, "shares of epochs trained, sum over slots / slots"
    ),
    "cpu_utilization": Metric("CPU utilization", "", "neither", 4, "mean share of cores allocated"),
}
"""Metrics that only this system has."""


class Records(NamedTuple):
    """What happened to each job, ``[N]`` in table order (the last is no job), and in all."""

    start_slot: Array  # int32, first slot in which it trained, -1: never
    finish_slot: Array  # int32, slot in which it finished, -1: never
    finish_share: Array  # float, share of that slot after which it finished
    progress: Array  # float, epochs trained
    slots: Array  # int32 scalar, slots with jobs
    gpus: Array  # int32 scalar, GPUs allocated, summed over these slots
    cpus: Array  # int32 scalar, CPU cores likewise
    decisions: Array  # int32 scalar
    invalid_actions: Array  # int32 scalar


@cache
def recorder(env: Environment) -> Recorder:
    """Gathers ``Records`` from the steps of one episode of ``DL2`` or ``DL2Slots``."""
    del env

    def init(params: Params) -> Records:
        size = params.jobs.info.shape[1:]
        none = jnp.full(size, -1, jnp.int32)
        zero, zeros = jnp.int32(0), jnp.zeros(size, params.jobs.epochs.dtype)
        return Records(none, none, zeros, zeros, zero, zero, zero, zero, zero)

    def update(records: Records, timestep: TimeStep, playing: Array) -> Records:
        step: StepMetrics = timestep.metrics
        report = step.report
        starts = (records.start_slot < 0) & playing
        ends = (report.finished >= 0) & playing
        return Records(
            start_slot=jnp.where(starts, report.started, records.start_slot),
            finish_slot=jnp.where(ends, report.finished, records.finish_slot),
            finish_share=jnp.where(ends, report.finish_share, records.finish_share),
            progress=jnp.where(playing, step.progress, records.progress),
            slots=records.slots + jnp.where(playing, report.slots, 0),
            gpus=records.gpus + jnp.where(playing, report.gpus, 0),
            cpus=records.cpus + jnp.where(playing, report.cpus, 0),
            decisions=records.decisions + jnp.where(playing, step.decisions, 0),
            invalid_actions=records.invalid_actions + (step.invalid & playing),
        )

    return Recorder(init, update)


class JobTimes(NamedTuple):
    """Times of each job in seconds, float64 ``[E, n]``; -1 where there is none."""

    submit: np.ndarray
    start: np.ndarray
    finish: np.ndarray
    real: np.ndarray  # bool [E, n], a job of the table


def job_times(env: Any, params: Params, episodes: np.ndarray, records: Any) -> JobTimes:
    """When each job was submitted, started and finished."""
    rows, unit = np.asarray(episodes), float(env.slot_seconds)
    submit = np.asarray(params.jobs.submit_time)[rows, :-1].astype(np.float64)
    real = np.arange(submit.shape[1]) < np.asarray(params.jobs.num_jobs)[rows, None]
    start = np.asarray(records.start_slot)[:, :-1].astype(np.float64)
    finish = np.asarray(records.finish_slot)[:, :-1].astype(np.float64)
    share = np.asarray(records.finish_share)[:, :-1].astype(np.float64)
    return JobTimes(
        submit=submit,
        start=np.where(start >= 0, start * unit, -1.0),
        finish=np.where(finish >= 0, (finish + share) * unit, -1.0),
        real=real,
    )


class SlotsSpent(NamedTuple):
    """Completion times of each job in slots, float64 ``[E, n]``; NaN for jobs that are open."""

    coarse: np.ndarray  # whole slots, as DL2's published simulator counts
    fine: np.ndarray  # from submission to the end in the last slot
    last: np.ndarray  # the slot after the job's last
    first: np.ndarray  # the job's first
    real: np.ndarray  # bool, a job of the table


def slots_spent(env: Any, params: Params, episodes: np.ndarray, records: Any) -> SlotsSpent:
    """How many slots each job took."""
    times = job_times(env, params, episodes, records)
    first = np.ceil(times.submit / env.slot_seconds)
    finish = np.asarray(records.finish_slot)[:, :-1]
    done = times.real & (finish >= 0)
    last = np.where(done, finish + 1.0, np.nan)
    fine = np.where(done, times.finish - times.submit, np.nan) / env.slot_seconds
    return SlotsSpent(last - first, fine, last, first, times.real)


def _of_one(found: Any, env: Any, params: Params, episode: int, records: Any) -> Any:
    """``job_times`` or ``slots_spent`` of one episode, without its axis."""
    batched = jax.tree.map(lambda leaf: np.asarray(leaf)[None], records)
    return jax.tree.map(lambda leaf: leaf[0], found(env, params, np.array([episode]), batched))


def summarise(
    env: Any, params: Params, episodes: np.ndarray, records: Any
) -> dict[str, np.ndarray]:
    """Metrics of each episode.

    Args:
      env: the environment the records come from, ``DL2`` or ``DL2Slots``.
      params: its parameters.
      episodes: int ``[E]``, the episodes played.
      records: ``Records`` with leaves ``[E, ...]``.

    Returns:
      name -> float64 ``[E]``: the metrics of section 8, times in seconds, and in whole slots.
    """
    records = jax.tree.map(np.asarray, records)
    times = job_times(env, params, episodes, records)
    finished = times.real & (times.finish >= 0)
    jct = metrics.masked_mean(times.finish - times.submit, finished)
    spent = slots_spent(env, params, episodes, records)
    end = np.max(np.where(finished, spent.last, 0.0), axis=-1)
    begin = np.min(np.where(times.real, spent.first, np.inf), axis=-1)
    last = np.max(np.where(finished, times.finish, 0.0), axis=-1)
    first = np.min(np.where(times.real, times.submit, np.inf), axis=-1)
    per_epoch = np.asarray(params.jobs.epochs, np.float64)[np.asarray(episodes)]
    shares = records.progress / np.where(per_epoch > 0, per_epoch, 1.0)
    totals = env.num_servers * env.gpus_per_server, env.num_servers * env.cpus_per_server
    result = {
        "finished": np.sum(finished, axis=-1),
        "avg_jct": jct,
        "avg_jct_slots": jct / env.slot_seconds,
        "avg_jct_coarse": metrics.masked_mean(np.nan_to_num(spent.coarse), finished),
        "makespan_coarse": np.where(finished.any(axis=-1), end - begin, 0.0),
        "mean_slot_reward": np.sum(shares, axis=-1) / np.maximum(records.slots, 1),
        "avg_wait": metrics.masked_mean(times.start - times.submit, finished),
        "makespan": np.where(finished.any(axis=-1), last - first, 0.0),
        "utilization": records.gpus / np.maximum(records.slots * totals[0], 1),
        "cpu_utilization": records.cpus / np.maximum(records.slots * totals[1], 1),
        "total_reward": np.sum(shares, axis=-1),
        "decisions": records.decisions,
        "slots": records.slots,
    }
    return {name: np.asarray(value, np.float64) for name, value in result.items()}


class Moment(NamedTuple):
    """What is kept of a step; ``[N]`` of each job."""

    slot: Array
    ended: Array
    tasks: Array  # int32 [N], held when the slot ended
    gpus: Array
    cpus: Array


@cache
def recording(env: DL2) -> Recording:
    """How episodes of ``env``, a ``DL2`` or ``DL2Slots``, are recorded."""
    return Recording(env, recorder(env), _schedule, _moment, _clock)


def _moment(env: DL2, step: Step, params: Params) -> Moment:
    del params
    told: StepMetrics = step.timestep.metrics
    if isinstance(env, DL2Slots):
        tasks = env.tasks_of(step.before.cluster, step.action)
    else:
        tasks = dynamics.held_after(step.before.tasks, told.increment)
    return Moment(told.slot, told.slot_ended, tasks, told.report.gpus, told.report.cpus)


def _clock(env: DL2, state: Any) -> Array:
    cluster = state.cluster if isinstance(env, DL2Slots) else state
    seconds: Array = cluster.slot * env.slot_seconds
    return seconds


def _schedule(env: DL2, params: Params, episode: int, trajectory: Trajectory) -> Schedule:
    """When each job trained, with its tasks where the moments are kept."""
    times = _of_one(job_times, env, params, episode, trajectory.records)
    count, unit = int(params.jobs.num_jobs[episode]), float(env.slot_seconds)
    submit, start, finish = (column[:count] for column in times[:3])
    model = np.asarray(params.jobs.model)[episode, :count].astype(np.int64)
    told = by_job("dl2", submit, start, finish, model=model, models=NAMES)
    if trajectory.moments is None:
        return told
    kept: Any = trajectory.moments
    ended = np.flatnonzero(kept.ended)
    kept = jax.tree.map(lambda leaf: np.asarray(leaf)[ended], kept)
    begins = kept.slot * unit
    slots = [(begin, begin + unit) for begin in begins.tolist()]
    tasks: Any = kept.tasks[:, :count]
    workers, top = _stacked(slots, np.asarray(dynamics.workers(tasks)), 0, finish)
    servers, height = _stacked(slots, np.asarray(dynamics.parameter_servers(tasks)), top, finish)
    bands = [Band("workers", top)] + ([Band("parameter servers", height)] if height else [])
    return replace(
        told,
        unit="task",
        bands=tuple(bands),
        pieces=Pieces.of([*workers, *servers]),
        facts=_facts(params, episode, count, tasks, unit),
        lines=_lines(env, kept, submit, start, finish),
    )


def _stacked(
    slots: list[tuple[float, float]], held: np.ndarray, first: int, finish: np.ndarray
) -> tuple[list[Any], int]:
    """Stacks of tasks from row ``first`` on, each job's until it finishes; and their height."""
    amounts = [{int(job): int(row[job]) for job in np.flatnonzero(row)} for row in held]
    pieces, most = stacks(slots, amounts, first)
    cut = [
        (job, row, rows, start, min(end, finish[int(job)]) if finish[int(job)] > start else end, 0)
        for job, row, rows, start, end, _ in pieces
    ]
    return cut, most


def _facts(params: Params, episode: int, count: int, tasks: Any, unit: float) -> tuple[Fact, ...]:
    columns = {"epochs": params.jobs.true_epochs, "estimated epochs": params.jobs.epochs}
    workers, servers = dynamics.workers(tasks), dynamics.parameter_servers(tasks)
    slots = np.maximum((workers > 0).sum(axis=0), 1)
    facts = [
        Fact(name, np.asarray(column, np.float64)[episode, :count].tolist())
        for name, column in columns.items()
    ]
    return (
        *facts,
        Fact("workers, mean of its slots", (workers.sum(axis=0) / slots).tolist()),
        Fact("parameter servers, mean", (servers.sum(axis=0) / slots).tolist()),
        Fact("time in slots with a worker", ((workers > 0).sum(axis=0) * unit).tolist(), "s"),
    )


def _lines(
    env: DL2, kept: Any, submit: np.ndarray, start: np.ndarray, finish: np.ndarray
) -> tuple[Line, ...]:
    unit = float(env.slot_seconds)
    begins = kept.slot * unit
    totals = {"GPUs": env.num_servers * env.gpus_per_server, "CPU cores": env.num_servers
              * env.cpus_per_server}  # fmt: skip
    lines = list(usual_lines(submit, start, finish, Pieces.of([]), {}))
    for name, used in (("GPUs", kept.gpus), ("CPU cores", kept.cpus)):
        if totals[name]:
            times, values = counted(begins, begins + unit, used / totals[name])
            lines.append(Line(name, "utilisation", times, values))
    for name, amount in (
        ("workers", dynamics.workers(kept.tasks)),
        ("parameter servers", dynamics.parameter_servers(kept.tasks)),
    ):
        if amount.any():
            total = counted(begins, begins + unit, amount.sum(axis=1))
            lines.append(Line(name, "tasks", *steps(*total), stacked=True))
    return tuple(lines)


KEYS = (
    *("num_servers", "gpus_per_server", "cpus_per_server", "mem_per_server", "slot_seconds", "J"),
    *("max_workers", "max_ps", "max_slots", "comm", "assign_bundle", "bundle_action"),
    *("demand_table", "bundle_servers", "placement", "rows", "misfit", "obs"),
)
OPTIONS = {**dict(zip(KEYS, KEYS, strict=True)), "J": "window", "obs": "observation"}
"""Options of the environment by their name in a case."""
NUMBERS = ("overlap", "contention", "resizing", "d_scale", "e_scale")
PRESETS = {"artefact": asdict(ARTEFACT)}
"""Options that ``preset`` stands for."""
WHOLE = ("finished", "decisions", "slots")
GROUPS = (("drf", "fifo", "srtf", "tetris"), ("optimus_oracle", "optimus_fill"))
"""Policies that are compiled as one program."""


def read_case(case: Mapping[str, Any]) -> Content:
    """A case with a policy, with actions, or with neither.

    With the preset ``artefact`` and neither policy nor actions, all its heuristics play.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    options, numbers = config_of(case)
    if "policy" in case and "actions" in case:
        raise JaxschedError("a case needs either 'policy' or 'actions', not both")
    jobs = list_of(case, "jobs")
    if not jobs:
        raise JaxschedError("'jobs' is empty; accepted: at least one job")
    table = from_records(jobs, schema=DL2_JOBS, name="jobs")
    if "policy" in case:
        chosen = keyed(case.get("policy_options") or {}, "policy_options", POLICY_OPTIONS)
        slots, name = DL2Slots(**options), str(case["policy"])
        group = next((group for group in GROUPS if name in group), (name,))
        plan_rule(name, slots, **chosen)  # is there such a policy?
        policy = one_of_baselines(group, slots, log=True, **chosen)
        params, number = slots.params([table], **numbers), jnp.int32(group.index(name))
        return Episode(
            slots, params, policy, partial(_of_slots, slots, params), number, name, _slot
        )
    if "actions" not in case and case.get("config", {}).get("preset") == "artefact":
        slots = DL2Slots(**options)
        return _heuristics(slots, slots.params([table], **numbers))
    env, actions = DL2(**options), actions_of({"actions": [], **case})
    params = env.params([table], **numbers)
    policy, weights = listed_actions(actions)
    result = partial(_of_actions, env, params)
    return Episode(env, params, policy, result, weights, kept=_row, most_steps=len(actions))


def config_of(case: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the environment and of its parameters that a case's ``config`` names."""
    options, others = options_of(case, OPTIONS, ("preset", *NUMBERS, "speed_mode"))
    preset = others.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise JaxschedError(f"config: preset is {preset!r}; accepted: {', '.join(PRESETS)}")
    for name in NUMBERS:
        value = others.get(name, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise JaxschedError(f"config: {name} must be a number, not {value!r}")
    return {**PRESETS.get(preset, {}), **options}, others


class Slot(NamedTuple):
    """A slot under a policy, whose plan is the allocation alone where nothing lists it."""

    moment: Moment
    reward: Array
    active: Array  # bool [N]
    plan: Plan | Allocation


def _slot(env: DL2Slots, step: Step, params: Params) -> Slot:
    moment, active = _moment(env, step, params), is_active(step.before.cluster)
    return Slot(moment, step.timestep.reward, active, step.action)


def _of_slots(
    env: DL2Slots, params: Params, trajectory: Trajectory, metrics: dict[str, Any]
) -> dict[str, Any]:
    moments: Slot = trajectory.moments
    slots = [
        {
            "slot": slot,
            "time": slot * env.slot_seconds,
            "alloc": _allocations(moments.active[at], Plan(*(x[at] for x in moments.plan))),
            "reward": float(moments.reward[at]),
        }
        for at, slot in enumerate(moments.moment.slot.tolist())
    ]
    return {"slots": slots, "metrics": metrics, "jobs": _jobs(env, params, trajectory.records)}


def _allocations(active: Any, plan: Plan) -> list[dict[str, Any]]:
    """What each active job of a slot holds, and where its tasks went in order of placement."""
    placement: dict[int, list[list[Any]]] = {}
    for index in range(int(plan.count)):
        tasks = placement.setdefault(int(plan.job[index]), [])
        for kind, server in zip("wp", plan.servers[index].tolist(), strict=True):
            if server >= 0:
                tasks.append([kind, server])
    return [
        {
            "job": int(job),
            "workers": int(plan.workers[job]),
            "servers": int(plan.ps[job]),
            "placement": placement.get(int(job), []),
        }
        for job in np.flatnonzero(active)
    ]


class Kept(NamedTuple):
    """What is kept of a step; ``row`` is what the trajectory lists."""

    row: OrderedDict[str, Array]
    moment: Moment
    after: ClusterState


def _row(env: DL2, step: Step, params: Params) -> Kept:
    before, told, observation = step.before, step.timestep, step.observation
    if env.observation == "artefact":
        observation = observation.reshape(-1, env.window)  # a row for each field
    row = OrderedDict(
        time=before.slot * env.slot_seconds,
        slot=before.slot,
        batch=before.batch,
        action=step.action,
        mask=step.mask.astype(jnp.int32),
        obs=observation,
        reward=told.reward,
        slot_ended=told.metrics.slot_ended,
        done=told.done,
    )
    return Kept(row, _moment(env, step, params), step.after)


def _of_actions(
    env: DL2, params: Params, trajectory: Trajectory, metrics: dict[str, Any]
) -> dict[str, Any]:
    kept: Kept | None = trajectory.moments
    if kept is None:
        state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
        held = state.tasks
    else:
        state, held = jax.tree.map(lambda leaf: leaf[-1], (kept.after, kept.moment.tasks))
    return {
        "trajectory": rows_of(None if kept is None else kept.row),
        "finished": bool(dynamics.is_finished(state)),
        "final": _final(env, params, state, held, trajectory.records),
        "metrics": metrics,
        "jobs": _jobs(env, params, trajectory.records),
    }


def _jobs(env: DL2, params: Params, records: Records) -> list[dict[str, Any]]:
    times: JobTimes = _of_one(job_times, env, params, 0, records)
    return [
        {
            "start": moment(times.start[job]),
            "finish": moment(times.finish[job]),
            "progress": float(records.progress[job]),
        }
        for job in np.flatnonzero(times.real)
    ]


FIRST_SLOTS = 25  # whose allocations are told
EPISODE = ("avg_jct_coarse", "makespan_coarse", "mean_slot_reward")


def _heuristics(env: DL2Slots, params: Params) -> dict[str, Episode]:
    """Each of the simulator's heuristics on a table."""
    policy, result = one_of_baselines(tuple(PUBLISHED), env), partial(_in_slots, env, params)
    return {
        name: Episode(env, params, policy, result, jnp.int32(number), name, _slot)
        for number, name in enumerate(PUBLISHED)
    }


def _in_slots(
    env: DL2Slots, params: Params, trajectory: Trajectory, metrics: dict[str, Any]
) -> dict[str, Any]:
    times = _job_slots(env, params, trajectory.records)
    submit = np.asarray(params.jobs.submit_time)[0, : len(times["jct_fine"])] / env.slot_seconds
    kept: Slot = trajectory.moments
    first = min(FIRST_SLOTS, metrics["slots"])
    return {
        "per_job": {key: _open(values) for key, values in times.items()},
        "metrics": {
            **{name: metrics[name] for name in EPISODE},
            "avg_jct_fine": metrics["avg_jct_slots"],
            "makespan_coarse": round(metrics["makespan_coarse"]),
            "makespan_fine": metrics["makespan"] / env.slot_seconds,
            "slots": metrics["slots"],
        },
        "sorted_finish_slots_fine": np.sort(submit + times["jct_fine"]).tolist(),
        "alloc_first_slots": [
            [[int(job), int(w[job]), int(p[job])] for job in np.flatnonzero(active)]
            for active, w, p in zip(kept.active[:first], *(x[:first] for x in kept.plan),
                                    strict=True)
        ],
    }  # fmt: skip


def _job_slots(env: DL2, params: Params, records: Records) -> dict[str, np.ndarray]:
    """Completion times of the first table's jobs in slots, float64 ``[n]``; NaN while open.

    ``jct_coarse`` counts whole slots, ``jct_fine`` the last one up to the end.
    """
    spent: SlotsSpent = _of_one(slots_spent, env, params, 0, records)
    return {"jct_coarse": spent.coarse[spent.real], "jct_fine": spent.fine[spent.real]}


def _open(values: np.ndarray) -> list[int | float | None]:
    """Times as a list, whole ones as such, None for jobs that have not finished."""
    whole = np.all(np.isnan(values) | (values == np.rint(values)))
    return [None if np.isnan(x) else int(x) if whole else float(x) for x in values]


def _final(
    env: DL2, params: Params, state: ClusterState, held: Array, records: Records
) -> dict[str, Any]:
    """Slot, progress and tasks after the last action.

    Args:
      env: the environment.
      params: its parameters.
      state: after the last action.
      held: int32 ``[N]``, tasks when the last slot ended, which are shown once all is over.
      records: of the episode.
    """
    times = _job_slots(env, params, records)
    count, slot = len(times["jct_fine"]), int(state.slot)
    tasks: Any = np.asarray(state.tasks if is_open(state) else held)[:count]
    return {
        "slot": int(np.max(records.finish_slot)) + 1 if slot < 0 else slot,
        "progress": np.asarray(state.progress)[:count].tolist(),
        "workers": workers(tasks).tolist(),
        "servers": parameter_servers(tasks).tolist(),
        **{key: _open(values) for key, values in times.items()},
    }
