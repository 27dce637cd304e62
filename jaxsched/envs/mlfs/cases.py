"""Golden cases of MLFS (specification, section 14)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.cases import actions_of, keyed, list_of
from jaxsched.envs.mlfs import records as rec
from jaxsched.envs.mlfs.baselines import HOSTS, heuristic
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.placing import Offered, offered
from jaxsched.envs.mlfs.rules import MLF
from jaxsched.envs.mlfs.state import (
    ABSENT,
    DONE,
    MIGRANT,
    NOBODY,
    NOT_READY,
    RUNNING,
    WAITING,
    State,
    number_of,
)
from jaxsched.envs.mlfs.tables import SLOT_S, WEIGHTS, Params, jobs_at
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.policies import Policy, View
from jaxsched.task_graph import MAX_TASKS, TASK_JOBS
from jaxsched.types import Array, TimeStep

STATIC = (
    *("gpus", "cpus_per_server", "mem_per_server", "bw_per_server", "flow_rate", "comm_rounds"),
    *("move_work", "move_mb", "max_active", "max_offers", "max_slots", "h_r", "h_s", "p_s"),
    *("use_urgency", "use_deadline", "use_bw", "use_migration", "use_mlfc"),
    "tiresias_threshold",
)
WHOLE = (
    *("finished", "makespan", "bandwidth_mb", "overloads", "migrations", "evictions"),
    *("iterations", "steps", "slots"),
)
MLF_POLICIES = {"mlf_h": {}, "mlfs": {"use_mlfc": True}}
"""Policies of the MLF order, and what they switch."""
BY_POLICY, BY_SWITCH = "expect_by_policy", "expect_by_switch_off"
SHOWN = {WAITING: 1, RUNNING: 2, MIGRANT: 2}


def simulate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case; the result has all keys of its ``expect``.

    Of a case with several runs the result has one entry per run, by the name of the policy or of
    the switch that is off, and once more under the case's own key.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    config = dict(keyed(case.get("config", {}), "config", (*STATIC, *WEIGHTS)))
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
    options = {name: config[name] for name in STATIC if name in config}
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
    params = env.params([table], **{name: config[name] for name in WEIGHTS if name in config})
    rule = heuristic(env)
    state, timestep = _reset(env, params)
    records = rec.recorder(env).init(params)
    trajectory: list[dict[str, Any]] = []
    snapshots = [_snapshot(env, params, state)]
    while not timestep.done:
        before, seen = state, timestep
        decides = bool(env.decides(state))
        count = len(trajectory)
        action = _decide(env, rule, state, params)
        if count < len(actions):
            action = jnp.int32(actions[count])
        state, timestep, records = _step(env, state, action, params, records)
        if decides:
            trajectory.append(_row(count, seen, _offer(env, params, before), int(action), before))
        trajectory[-1]["reward"] += float(timestep.reward)
        trajectory[-1]["done"] = bool(timestep.done)
        if int(state.slot) != int(before.slot) and not timestep.done:
            snapshots.append(_snapshot(env, params, state))
    batched = jax.tree.map(lambda x: np.asarray(x)[None], records)
    found = rec.summarise(env, params, np.zeros(1, int), batched)
    return {
        "metrics": {n: int(v[0]) if n in WHOLE else float(v[0]) for n, v in found.items()},
        "jobs": _jobs(records),
        "slots": int(records.slots),
        "decisions": int(records.decisions),
        "trajectory": trajectory,
        "snapshots": snapshots,
        "use_mlfc": env.use_mlfc,
    }


@partial(jax.jit, static_argnames="env")
def _reset(env: MLFS, params: Params) -> tuple[State, TimeStep]:
    return env.reset(jax.random.key(0), params, jnp.int32(0))


@partial(jax.jit, static_argnames="env")
def _step(
    env: MLFS, state: State, action: Array, params: Params, records: rec.Records
) -> tuple[State, TimeStep, rec.Records]:
    state, timestep = env.step(jax.random.key(0), state, action, params)
    return state, timestep, rec.recorder(env).update(records, timestep, jnp.bool_(True))


@partial(jax.jit, static_argnames=("env", "policy"))
def _decide(env: MLFS, policy: Policy, state: State, params: Params) -> Array:
    view = View(*env.observe(state, params), state, params)
    return policy.act((), (), view, jax.random.key(0))[0]


@partial(jax.jit, static_argnames="env")
def _offer(env: MLFS, params: Params, state: State) -> Offered:
    return offered(env.rules, params, state)


def _row(step: int, seen: TimeStep, offer: Offered, action: int, state: State) -> dict[str, Any]:
    slot = int(state.slot)
    return {
        "step": step,
        "slot": slot,
        "time": SLOT_S * slot,
        "job": int(offer.which),
        "task": int(offer.number),
        "migrating": bool(offer.migrant),
        "mask": np.asarray(seen.action_mask).astype(int).tolist(),
        "action": action,
        "reward": 0.0,
        "done": False,
        "obs": np.asarray(seen.observation).tolist(),
    }


def _snapshot(env: MLFS, params: Params, state: State) -> dict[str, Any]:
    """Migrants and priorities at the beginning of a slot."""
    del env
    active = np.asarray(state.active.job)
    jobs = jax.tree.map(np.asarray, jobs_at(params, state.episode, state.active.job))
    phase, priority = np.asarray(state.tasks.state), np.asarray(state.tasks.priority)
    turn = np.asarray(state.tasks.since)
    rows, migrants = [], []
    for place in np.argsort(active):
        if active[place] == NOBODY:
            continue
        job = jax.tree.map(lambda x, at=place: x[at], jobs)
        for task in range(MAX_TASKS):
            kind = int(phase[place, task])
            if kind in (ABSENT, NOT_READY, DONE):
                continue
            name = [int(active[place]), int(number_of(job, jnp.int32(task)))]
            rows.append([*name, SHOWN[kind], int(priority[place, task])])
            if kind == MIGRANT:
                migrants.append((int(turn[place, task]), name))
    migrants.sort()
    return {
        "slot": int(state.slot),
        "migrants": [name for _, name in migrants],
        "priority": rows,
    }


def _jobs(records: rec.Records) -> list[dict[str, Any]]:
    columns = {name: np.asarray(getattr(records, name)) for name in rec.Records._fields[:6]}

    def seconds(slot: Any) -> int:
        return SLOT_S * int(slot) if slot >= 0 else rec.NEVER

    return [
        {
            "start": seconds(columns["start"][job]),
            "finish": seconds(columns["finish"][job]),
            "home": int(columns["home"][job]),
            "iterations": int(columns["iterations"][job]),
            "iters_by_deadline": int(columns["by_deadline"][job]),
            "run_slots": int(columns["run_slots"][job]),
        }
        for job in range(len(columns["start"]))
    ]
