"""Golden cases of Chic: a workload table with a list of actions, or Optimus (section 14)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.envs.chic import records as rec
from jaxsched.envs.chic.dynamics import State
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.intervals import IntervalState, OptimusIntervals, allocate, optimus
from jaxsched.envs.chic.tables import SCALARS, Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.systems.cases import (
    actions_of,
    bounded_programs,
    keyed,
    list_of,
    moment,
    shared_length,
)
from jaxsched.systems.recording import Staged, listed_actions
from jaxsched.types import Array, TimeStep

STATIC = {
    "capacity": "capacity",
    "I": "window",
    "pair": "pair",
    "max_decisions": "max_decisions",
    "stop_on_cond2": "stop_on_cond2",
    "void_outside": "void_outside",
}
OPTIMUS_STATIC = {"capacity": "capacity", "on_block": "on_block"}
UNLIMITED = 2**62  # a case is as long as it is
METRICS = ("finished", "avg_jct", "max_jct", "avg_wait", "makespan", "utilization")
ACTION_METRICS = (*METRICS, "total_reward", "steps", "phases")
OPTIMUS_METRICS = (*METRICS, "min_jct", "median_jct")
WHOLE = ("finished", "steps", "phases")
LISTED_DECISIONS = 12
PROGRAMS = 4  # kept of each kind


class Ready(NamedTuple):
    """A case, ready to be played; ``actions`` are None where Optimus decides."""

    env: Chic | OptimusIntervals
    params: Params
    table: JobTable
    actions: list[int] | None


def simulate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case in float64; the result has all keys of its ``expect``.

    The trajectory has every step, with its number under ``step``.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    with jax.enable_x64(True):
        ready = read_case(case)
        return _run_optimus(ready) if ready.actions is None else _run_actions(ready)


def staged(case: Mapping[str, Any]) -> Staged:
    """A golden case, ready to be played; call it and play in float64.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    env, params, _, actions = read_case(case)
    if isinstance(env, OptimusIntervals):
        return Staged(env, params, optimus(env))
    actions = actions or []
    listed = [_clipped(env, action) for action in actions] or [env.void]
    policy, weights = listed_actions(jnp.asarray(listed, jnp.int32))
    return Staged(env, params, policy, weights, len(actions))


def read_case(case: Mapping[str, Any]) -> Ready:
    """A case that has a policy, actions, or neither."""
    config = case.get("config", {})
    if not isinstance(config, Mapping):
        raise JaxschedError(f"'config' must be an object, not {type(config).__name__}")
    if "policy" in case and "actions" in case:
        raise JaxschedError("a case needs 'policy' or 'actions', not both")
    table = from_records(list_of(case, "jobs"), schema=CHIC_JOBS)
    length = shared_length(len(table))
    if "policy" in case or "interval" in config:
        if case.get("policy", "optimus") != "optimus":
            raise JaxschedError(f"policy is {case['policy']!r}; accepted: 'optimus'")
        options, numbers = _options_of(config, OPTIMUS_STATIC, ("interval", "max_time"))
        intervals = OptimusIntervals(**options, max_instants=UNLIMITED)
        return Ready(intervals, intervals.params([table], length=length, **numbers), table, None)
    actions = actions_of({"actions": [], **case}, end=None)
    scalars = tuple(name for name in SCALARS if name != "interval")
    options, numbers = _options_of(config, STATIC, scalars)
    env = Chic(**options, max_stalls=UNLIMITED)
    return Ready(env, env.params([table], length=length, **numbers), table, actions)


def _options_of(
    config: Mapping[str, Any], static: Mapping[str, str], scalars: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Static options and real numbers of a case's ``config``."""
    keyed(config, "config", (*static, *scalars))
    options = {static[name]: config[name] for name in static if name in config}
    return options, {name: config[name] for name in scalars if name in config}


def _clipped(env: Chic, action: int) -> int:
    return min(max(action, -1), env.void)


def _run_actions(ready: Ready) -> dict[str, Any]:
    env, params, table, actions = ready
    assert isinstance(env, Chic)
    state, timestep, records = _reset(env, params)
    trajectory = []
    for index, action in enumerate(actions or ()):
        row = {
            "step": index,
            "time": float(state.time),
            "mask": np.asarray(timestep.action_mask).astype(int).tolist(),
            "obs": np.asarray(timestep.observation).tolist(),
            "action": action,
        }
        row["terminal"], state, timestep, records = _step(
            env, state, jnp.int32(_clipped(env, action)), params, records
        )
        row["terminal"] = bool(row["terminal"])
        row |= {"reward": float(timestep.reward), "done": bool(timestep.done)}
        if timestep.metrics.phase:
            row["time_after"] = float(state.time)
            row["remaining"] = _remaining(params, records, table)
        trajectory.append(row)
    jobs = [
        {**times, "remaining": left}
        for times, left in zip(
            _times(records, table), _remaining(params, records, table), strict=True
        )
    ]
    metrics = _metrics(env, params, records, ACTION_METRICS)
    return {"metrics": metrics, "jobs": jobs, "trajectory": trajectory}


def _run_optimus(ready: Ready) -> dict[str, Any]:
    env, params, table, _ = ready
    assert isinstance(env, OptimusIntervals)
    state, timestep, records = _reset(env, params)
    decisions: list[dict[str, Any]] = []
    while not timestep.done:
        time, units, state, timestep, records = _decide(env, state, params, records)
        if len(decisions) < LISTED_DECISIONS:
            given = {str(job): row for job, row in enumerate(units.tolist()) if any(row)}
            decisions.append({"time": float(time), "alloc": given})
    metrics = _metrics(env, params, records, OPTIMUS_METRICS)
    metrics["decisions"] = int(records.phases)
    return {"metrics": metrics, "jobs": _times(records, table), "decisions": decisions}


@bounded_programs(most=PROGRAMS)
def _reset(env: Chic | OptimusIntervals, params: Params) -> tuple[Any, TimeStep, rec.Records]:
    state, timestep = env.reset(jax.random.key(0), params, jnp.int32(0))
    return state, timestep, rec.recorder(env).init(params)


@bounded_programs(most=PROGRAMS)
def _step(
    env: Chic, state: State, action: Array, params: Params, records: rec.Records
) -> tuple[Array, State, TimeStep, rec.Records]:
    """Whether S' was reached before the action, and what follows it."""
    after, timestep = env.step(jax.random.key(0), state, action, params)
    records = rec.recorder(env).update(records, timestep, jnp.bool_(True))
    return env.terminal(state, params), after, timestep, records


@bounded_programs(most=PROGRAMS)
def _decide(
    env: OptimusIntervals, state: IntervalState, params: Params, records: rec.Records
) -> tuple[Array, Array, IntervalState, TimeStep, rec.Records]:
    """The instant, Optimus' allocation and what follows it."""
    units = allocate(env, state, params)
    after, timestep = env.step(jax.random.key(0), state, units, params)
    records = rec.recorder(env).update(records, timestep, jnp.bool_(True))
    return env.time(state, params), units, after, timestep, records


def _metrics(
    env: Chic | OptimusIntervals, params: Params, records: rec.Records, names: tuple[str, ...]
) -> dict[str, Any]:
    batched = jax.tree.map(lambda x: np.asarray(x)[None], records)
    values = rec.summarise(env, params, np.zeros(1, int), batched)
    return {
        name: int(values[name][0]) if name in WHOLE else float(values[name][0]) for name in names
    }


def _times(records: rec.Records, table: JobTable) -> list[dict[str, float | None]]:
    """Start and finish of each workload, None before."""
    times = np.stack([np.asarray(records.start), np.asarray(records.finish)], axis=-1)
    return [
        {"start": moment(start), "finish": moment(finish)}
        for start, finish in times[: len(table)].tolist()
    ]


def _remaining(params: Params, records: rec.Records, table: JobTable) -> list[int]:
    """Iterations that each workload still has."""
    return rec.remaining(params, 0, records)[: len(table)].astype(int).tolist()
