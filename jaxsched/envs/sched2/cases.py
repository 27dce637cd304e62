"""Golden cases of SCHED2: a job table with a list of actions or a baseline (section 14)."""

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp

from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.heuristics import MODES, any_baseline, numbered
from jaxsched.envs.sched2.slowdown import NUM_LEVELS
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
from jaxsched.systems.cases import (
    Episode,
    actions_of,
    list_of,
    listed_actions,
    options_of,
    rows_of,
    shared_length,
    whole_moment,
)
from jaxsched.types import Array

STATIC = ("num_servers", "gpus_per_server", "window", "profile", "auto_advance", "reward", "extras")
OPTIONS = {name: name for name in STATIC}
NUMBERS = {"time_scale": 3600.0, "invalid_penalty": 0.0}
BASELINE = {"baseline_mode": "skip", "baseline_window": 10}
WHOLE = ("finished", "makespan")


def read(case: Mapping[str, Any]) -> Episode:
    """A case that has either a policy or actions.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    options, others = options_of(case, OPTIONS, (*NUMBERS, *BASELINE, "k"))
    others = {**NUMBERS, **BASELINE, **others}
    _check(options, others)
    if ("policy" in case) == ("actions" in case):
        raise JaxschedError("a case needs either 'policy' or 'actions'")
    table = from_records(list_of(case, "jobs"), name="jobs")
    numbers = {name: others[name] for name in NUMBERS}
    length = shared_length(len(table))
    if "policy" in case:
        name, window = str(case["policy"]), others["baseline_window"] or max(len(table), 1)
        number = numbered(name, others["baseline_mode"])
        env = Sched2(**{**options, "window": window})
        params = env.params([table], **numbers, length=length)
        result = partial(_of_baseline, len(table))
        return Episode(env, params, any_baseline(), result, jnp.int32(number), name)
    actions = actions_of(case)
    env = Sched2(**options)
    policy, weights = listed_actions(actions)
    return Episode(
        env,
        env.params([table], **numbers, length=length),
        policy,
        partial(_of_actions, len(table)),
        weights,
        kept=_row,
        most_steps=len(actions),
        past_end=True,
    )


def _check(options: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """The types of what no environment checks."""
    if others.get("k", NUM_LEVELS) != NUM_LEVELS:
        raise JaxschedError(f"config: k must be {NUM_LEVELS}, not {others['k']!r}")
    for name in ("auto_advance", "extras"):
        if not isinstance(options.get(name, False), bool):
            raise JaxschedError(f"config: {name} must be true or false, not {options[name]!r}")
    for name in NUMBERS:
        value = others[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise JaxschedError(f"config: {name} must be a number, not {value!r}")
    mode, window = others["baseline_mode"], others["baseline_window"]
    if mode not in MODES:
        raise JaxschedError(
            f"config: baseline_mode must be one of {', '.join(MODES)}, not {mode!r}"
        )
    if isinstance(window, bool) or not isinstance(window, int) or window < 0:
        raise JaxschedError(
            f"config: baseline_window must be a whole number from 0 (whole queue), not {window!r}"
        )


def _row(env: Sched2, step: Step, params: Params) -> OrderedDict[str, Array]:
    """A step as the trajectory lists it."""
    del env, params
    told = step.timestep
    return OrderedDict(
        time=step.before.time,
        mask=step.mask.astype(jnp.int32),
        action=step.action,
        obs=step.observation,
        reward=told.reward,
        done=told.terminated,
        invalid=told.metrics.invalid,
        elapsed=told.elapsed.astype(jnp.int32),
    )


def _of_baseline(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    order = trajectory.records.order[: trajectory.records.num_started].tolist()
    return {"order": order, **_summary(count, trajectory.records, metrics)}


def _of_actions(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    steps = rows_of(trajectory.moments)
    return {
        "trajectory": steps,
        "return": sum(row["reward"] for row in steps),
        "invalid_actions": int(trajectory.records.invalid_actions),
        **_summary(count, trajectory.records, metrics),
    }


def _summary(count: int, records: Any, metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics, jobs and curves."""
    started = int(records.num_started)
    return {
        "metrics": metrics,
        "jobs": [_job(records, job) for job in range(count)],
        "fragmentation_curve": records.fragmentation_curve[:started].tolist(),
        "queue_gpus_curve": records.queue_gpus_curve[:started].tolist(),
    }


def _job(records: Any, job: int) -> dict[str, Any]:
    """What became of a job; one that never starts has no times, no locality and no GPUs."""
    started = bool(records.start[job] >= 0)
    counts = [int(bits).bit_count() for bits in records.gpus[job]]
    servers = [server for server, count in enumerate(counts) if count]
    return {
        "start": whole_moment(records.start[job]),
        "finish": whole_moment(records.finish[job]),
        "level": int(records.level[job]) if started else None,
        "servers": servers,
        "counts": [counts[server] for server in servers],
        "reused": bool(records.reused[job]),
    }
