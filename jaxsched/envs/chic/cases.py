"""Golden cases of Chic: a workload table with a list of actions, or Optimus (section 14)."""

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.envs.chic import records as rec
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.intervals import OptimusIntervals, optimus
from jaxsched.envs.chic.tables import SCALARS, Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems.cases import (
    Episode,
    actions_of,
    list_of,
    listed_actions,
    moment,
    options_of,
    rows_of,
    shared_length,
)
from jaxsched.types import Array

KEYS = ("capacity", "I", "pair", "max_decisions", "stop_on_cond2", "stop_on_one", "void_outside")
OPTIONS = {**dict(zip(KEYS, KEYS, strict=True)), "I": "window"}
"""Options of the environment by their name in a case."""
NUMBERS = tuple(name for name in SCALARS if name != "interval")
OPTIMUS_OPTIONS = {"capacity": "capacity", "on_block": "on_block"}
OPTIMUS_NUMBERS = ("interval", "max_time")
UNLIMITED = 2**62  # a case is as long as it is
METRICS = ("finished", "avg_jct", "max_jct", "avg_wait", "makespan", "utilization")
ACTION_METRICS = (*METRICS, "total_reward", "steps", "phases")
OPTIMUS_METRICS = (*METRICS, "min_jct", "median_jct")
WHOLE = ("finished", "steps", "phases")
LISTED_DECISIONS = 12


def read(case: Mapping[str, Any]) -> Episode:
    """A case with a policy, with actions, or with neither.

    The trajectory of actions has every step, with its number under ``step``.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    if "policy" in case and "actions" in case:
        raise JaxschedError("a case needs 'policy' or 'actions', not both")
    table = from_records(list_of(case, "jobs"), schema=CHIC_JOBS)
    length = shared_length(len(table))
    config = case.get("config")
    if "policy" in case or (isinstance(config, Mapping) and "interval" in config):
        if case.get("policy", "optimus") != "optimus":
            raise JaxschedError(f"policy is {case['policy']!r}; accepted: 'optimus'")
        options, numbers = options_of(case, OPTIMUS_OPTIONS, OPTIMUS_NUMBERS)
        intervals = OptimusIntervals(**options, max_instants=UNLIMITED)
        params = intervals.params([table], length=length, **numbers)
        result = partial(_of_optimus, len(table))
        return Episode(intervals, params, optimus(intervals), result, kept=_decision)
    actions = actions_of({"actions": [], **case}, end=None)
    options, numbers = options_of(case, OPTIONS, NUMBERS)
    env = Chic(**options, max_stalls=UNLIMITED)
    params = env.params([table], length=length, **numbers)
    policy, weights = listed_actions([min(max(action, -1), env.void) for action in actions])
    return Episode(
        env,
        params,
        policy,
        partial(_of_actions, params, len(table), actions),
        weights,
        kept=_row,
        most_steps=len(actions),
        past_end=True,
    )


def _row(env: Chic, step: Step, params: Params) -> OrderedDict[str, Array]:
    """A step as the trajectory lists it; what follows ``done`` is told of phases alone."""
    return OrderedDict(
        time=step.before.time,
        mask=step.mask.astype(int),
        obs=step.observation,
        action=step.action,
        terminal=env.terminal(step.before, params),  # whether S' was reached before the action
        reward=step.timestep.reward,
        done=step.timestep.done,
        time_after=step.after.time,
        progress=step.records.progress,  # iterations made by each workload
        phase=step.timestep.metrics.phase,
    )


def _of_actions(
    params: Params, count: int, actions: list[int], trajectory: Trajectory, metrics: dict[str, Any]
) -> dict[str, Any]:
    def remaining(progress: Any) -> list[int]:
        left: list[int] = rec.remaining(params, 0, progress)[:count].astype(int).tolist()
        return left

    steps = rows_of(trajectory.moments)
    for row, action in zip(steps, actions, strict=True):
        row["action"] = action
        progress = row.pop("progress")
        if row.pop("phase"):
            row["remaining"] = remaining(progress)
        else:
            del row["time_after"]
    times, left = _times(trajectory.records, count), remaining(trajectory.records.progress)
    return {
        "metrics": {name: metrics[name] for name in ACTION_METRICS},
        "jobs": [{**job, "remaining": n} for job, n in zip(times, left, strict=True)],
        "trajectory": steps,
    }


def _decision(env: OptimusIntervals, step: Step, params: Params) -> dict[str, Array]:
    """What Optimus gives each workload at an instant."""
    return {"time": env.time(step.before, params), "units": step.action}


def _of_optimus(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    found = {name: metrics[name] for name in OPTIMUS_METRICS}
    decisions = [
        {
            "time": row["time"],
            "alloc": {str(job): units for job, units in enumerate(row["units"]) if any(units)},
        }
        for row in rows_of(trajectory.moments)[:LISTED_DECISIONS]
    ]
    found["decisions"] = int(trajectory.records.phases)
    return {"metrics": found, "jobs": _times(trajectory.records, count), "decisions": decisions}


def _times(records: Any, count: int) -> list[dict[str, float | None]]:
    """Start and finish of each workload, None before."""
    return [
        {"start": moment(start), "finish": moment(finish)}
        for start, finish in zip(records.start[:count], records.finish[:count], strict=True)
    ]
