"""Golden cases of MLFS (specification, section 14)."""

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.mlfs import records as rec
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.heuristics import HOSTS
from jaxsched.envs.mlfs.jobs import MAX_TASKS, TASK_JOBS
from jaxsched.envs.mlfs.late_options import Options, padded, shared, with_options
from jaxsched.envs.mlfs.simulator.dynamics import before_first
from jaxsched.envs.mlfs.simulator.placing import Offered, offered
from jaxsched.envs.mlfs.simulator.rules import MLF
from jaxsched.envs.mlfs.simulator.state import (
    MIGRANT,
    NOBODY,
    RUNNING,
    WAITING,
    State,
    number_of,
)
from jaxsched.envs.mlfs.simulator.tables import SLOT_S, Params, as_columns, jobs_at
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.ops.programs import bounded_programs
from jaxsched.systems.cases import (
    actions_of,
    keyed,
    list_of,
    shared_length,
    whole_moment,
)
from jaxsched.types import Array

STATIC = (
    *("gpus", "cpus_per_server", "mem_per_server", "bw_per_server", "flow_rate", "comm_rounds"),
    *("move_work", "move_mb", "max_active", "max_offers", "max_slots", "h_r", "h_s", "p_s"),
    *("use_urgency", "use_deadline", "use_bw", "use_migration", "use_mlfc"),
    *("tiresias_threshold", "alpha", "gamma", "g_d", "g_r", "g_w"),
)
"""Keys of a case's configuration."""

WHOLE = (
    *("finished", "makespan", "bandwidth_mb", "overloads", "migrations", "evictions"),
    *("iterations", "steps", "slots"),
)
MLF_POLICIES = {"mlf_h": {}, "mlfs": {"use_mlfc": True}}
"""Policies of the MLF order, and what they switch."""
BY_POLICY, BY_SWITCH = "expect_by_policy", "expect_by_switch_off"
JOBS, RUNNERS, GPUS, ACTIONS = 64, 128, 8, 1024
"""Sizes of programs are multiples of these; of lists of actions, at least."""
CHUNK = 64  # steps of one call
MOST_PROGRAMS = 8  # the seven baselines' and MLF's
SHOWN = {WAITING: 1, RUNNING: 2, MIGRANT: 2}


def simulate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case; the result has all keys of its ``expect``.

    Of a case with several runs the result has one entry per run, by the name of the policy or of
    the switch that is off, and once more under the case's own key.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    config = dict(keyed(case.get("config", {}), "config", STATIC))
    table = from_records(list_of(case, "jobs"), schema=TASK_JOBS)
    several = {key: case[key] for key in (BY_POLICY, BY_SWITCH) if key in case}
    runs: dict[str, Any] = {}
    for name in several.get(BY_POLICY, ()):
        runs[name] = _episode(config, table, name, [])
    for name in several.get(BY_SWITCH, ()):
        runs[name] = _episode({**config, name: False}, table, "mlf_h", [])
    if several:
        return {**runs, **{key: {name: runs[name] for name in several[key]} for key in several}}
    if "policy" in case and "actions" in case:
        raise JaxschedError("a case needs 'policy' or 'actions', not both")
    policy = case.get("policy", case.get("after_actions", "mlf_h"))
    actions = [] if "policy" in case else actions_of(case)
    return _episode(config, table, policy, actions)


def environment_of(config: Mapping[str, Any], policy: Any) -> MLFS:
    """The environment of a case's configuration in which a policy plays, slot by slot.

    Raises:
      JaxschedError: no such policy, or a bad option.
    """
    options = {MLFS.former_options.get(key, key): config[key] for key in STATIC if key in config}
    if policy in MLF_POLICIES:
        return MLFS(**{**options, **MLF_POLICIES[policy]}, slot_every=1)
    known = (*MLF_POLICIES, *(order for order in HOSTS if order != MLF))
    if policy not in known:
        raise JaxschedError(f"policy is {policy!r}; accepted: {', '.join(known)}")
    return MLFS(**{**options, "use_mlfc": False}, order=policy, slot_every=1)


def _episode(
    config: Mapping[str, Any], table: Any, policy: Any, actions: list[int]
) -> dict[str, Any]:
    env = environment_of(config, policy)
    params = env.params([table])
    room = (_in_steps(params.max_jobs, JOBS), _in_steps(params.max_running, RUNNERS))
    params = padded(params, *room)
    common, options = shared(env, _in_steps(max(env.gpus), GPUS))
    listed = np.zeros(shared_length(max(len(actions), ACTIONS)), np.int32)
    listed[: len(actions)] = actions
    play = partial(_steps, common, options, params, listed, np.int32(len(actions)))
    state = before_first(common.rules, params, jnp.int32(0))
    records = rec.recorder(common).init(params)
    trajectory: list[dict[str, Any]] = []
    snapshots: list[dict[str, Any]] = []
    done = False
    while not done:
        (state, records), steps = play(state, records)
        steps = jax.tree.map(np.asarray, steps)
        for index in range(CHUNK):
            step: Step = jax.tree.map(operator.itemgetter(index), steps)
            if step.decides:
                trajectory.append(_row(len(trajectory), step.row))
            done = bool(step.done)
            if trajectory:  # the first step only ends the slot before the first
                trajectory[-1]["reward"] += float(step.reward)
                trajectory[-1]["done"] = done
            if done:
                break
            if not snapshots or snapshots[-1]["slot"] != step.after.slot:
                snapshots.append(_snapshot(step.after))
    batched = jax.tree.map(lambda x: np.asarray(x)[None], records)
    found = rec.summarise(env, params, np.zeros(1, int), batched)
    return {
        "metrics": {n: int(v[0]) if n in WHOLE else float(v[0]) for n, v in found.items()},
        "jobs": _jobs(records)[: len(table)],
        "slots": int(records.slots),
        "decisions": int(records.decisions),
        "trajectory": trajectory,
        "snapshots": snapshots,
        "use_mlfc": env.use_mlfc,
    }


def _in_steps(number: int, step: int) -> int:
    """The next multiple, so that cases have few different sizes."""
    return -(-number // step) * step


class Row(NamedTuple):
    """What a decision saw and did; arrays of one environment."""

    slot: Array
    offer: Offered
    mask: Array
    action: Array
    observation: Array


class Moment(NamedTuple):
    """The tasks ``[A, K]`` of the active jobs ``[A]`` after a step."""

    slot: Array
    active: Array
    number: Array
    phase: Array
    priority: Array
    since: Array


class Step(NamedTuple):
    """What is told of a step."""

    row: Row
    decides: Array
    reward: Array
    done: Array
    after: Moment


@bounded_programs(most=MOST_PROGRAMS)
def _steps(
    common: MLFS,
    options: Options,
    params: Params,
    listed: Array,
    num_listed: Array,
    state: State,
    records: rec.Records,
) -> tuple[tuple[State, rec.Records], Step]:
    """``CHUNK`` steps by the listed actions, then by the order's heuristic; leaves of ``Step`` [T].

    Steps beyond the end change nothing.
    """
    env = with_options(common, options)

    def step(carry: tuple[State, rec.Records], _: None) -> tuple[tuple[State, rec.Records], Step]:
        state, records = carry
        observation, mask = env.observe(state, params)
        offer = offered(env.rules, params, state)
        best = HOSTS[env.order](env, params, state, offer)
        action = jnp.where(records.decisions < num_listed, listed[records.decisions], best)
        row = Row(state.slot, offer, mask, action, observation)
        state, timestep = env.step(jax.random.key(0), state, action, params)
        records = rec.after_step(records, timestep, jnp.bool_(True))
        done = timestep.terminated | timestep.truncated
        told = Step(row, timestep.metrics.decides, timestep.reward, done, _moment(params, state))
        return (state, records), told

    return jax.lax.scan(step, (state, records), None, CHUNK)


def _moment(params: Params, state: State) -> Moment:
    tasks, active = state.tasks, state.active.job
    jobs = as_columns(jobs_at(params, state.episode, active))
    number = number_of(jobs, jnp.arange(MAX_TASKS))
    return Moment(state.slot, active, number, tasks.state, tasks.priority, tasks.since)


def _row(step: int, row: Row) -> dict[str, Any]:
    slot = int(row.slot)
    return {
        "step": step,
        "slot": slot,
        "time": SLOT_S * slot,
        "job": int(row.offer.which),
        "task": int(row.offer.number),
        "migrating": bool(row.offer.migrant),
        "mask": np.asarray(row.mask).astype(int).tolist(),
        "action": int(row.action),
        "reward": 0.0,
        "done": False,
        "obs": np.asarray(row.observation).tolist(),
    }


def _snapshot(moment: Moment) -> dict[str, Any]:
    """Migrants and priorities at the beginning of a slot."""
    active, phase = moment.active, moment.phase
    shown = (active != NOBODY)[:, None] & np.isin(phase, list(SHOWN))
    rows, migrants = [], []
    for place in np.argsort(active):
        for task in np.flatnonzero(shown[place]):
            kind = int(phase[place, task])
            name = [int(active[place]), int(moment.number[place, task])]
            rows.append([*name, SHOWN[kind], int(moment.priority[place, task])])
            if kind == MIGRANT:
                migrants.append((int(moment.since[place, task]), name))
    migrants.sort()
    return {
        "slot": int(moment.slot),
        "migrants": [name for _, name in migrants],
        "priority": rows,
    }


def _jobs(records: rec.Records) -> list[dict[str, Any]]:
    columns = {name: np.asarray(getattr(records, name)) for name in rec.Records._fields[:6]}

    return [
        {
            "start": whole_moment(SLOT_S * columns["start"][job]),
            "finish": whole_moment(SLOT_S * columns["finish"][job]),
            "home": int(columns["home"][job]),
            "iterations": int(columns["iterations"][job]),
            "iters_by_deadline": int(columns["by_deadline"][job]),
            "run_slots": int(columns["run_slots"][job]),
        }
        for job in range(len(columns["start"]))
    ]
