"""Golden cases of DL2: a job table with a list of actions or a policy (section 14)."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.envs.dl2 import artefact_cases
from jaxsched.envs.dl2 import records as rec
from jaxsched.envs.dl2.artefact_cases import Standing
from jaxsched.envs.dl2.dynamics import held_after, is_active
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import POLICY_OPTIONS, one_of_baselines, plan_rule
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.plans import Plan
from jaxsched.envs.dl2.presets import ARTEFACT
from jaxsched.envs.dl2.slotwise import DL2Slots
from jaxsched.errors import JaxschedError
from jaxsched.jobs import from_records
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
from jaxsched.types import Array

KEYS = (
    *("num_servers", "gpus_per_server", "cpus_per_server", "mem_per_server", "slot_seconds", "J"),
    *("max_workers", "max_ps", "max_slots", "comm", "assign_bundle", "bundle_action"),
    *("demand_table", "bundle_servers", "placement", "rows", "misfit", "obs"),
)
OPTIONS = {**dict(zip(KEYS, KEYS, strict=True)), "J": "window", "obs": "observation"}
"""Options of the environment by their name in a case."""
NUMBERS = ("overlap", "contention", "d_scale", "e_scale")
PRESETS = {"artefact": asdict(ARTEFACT)}
"""Options that ``preset`` stands for."""
WHOLE = ("finished", "decisions", "slots")
GROUPS = (("drf", "fifo", "srtf", "tetris"), ("optimus_oracle", "optimus_fill"))
"""Policies that are compiled as one program."""


def read(case: Mapping[str, Any]) -> Content:
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
        return artefact_cases.heuristics(slots, slots.params([table], **numbers))
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
    """A slot under a policy."""

    slot: Array
    reward: Array
    active: Array  # bool [N]
    plan: Plan


def _slot(env: DL2Slots, step: Step, params: Params) -> Slot:
    del env, params
    before = step.before.cluster
    return Slot(before.slot, step.timestep.reward, is_active(before), step.action)


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
        for at, slot in enumerate(moments.slot.tolist())
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
    terminated: Array
    after: Standing


def _row(env: DL2, step: Step, params: Params) -> Kept:
    del params
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
    held = held_after(before.tasks, told.metrics.increment)
    return Kept(row, told.terminated, artefact_cases.standing(step.after, held))


def _of_actions(
    env: DL2, params: Params, trajectory: Trajectory, metrics: dict[str, Any]
) -> dict[str, Any]:
    kept: Kept | None = trajectory.moments
    after = None if kept is None else Standing(*(x[-1] for x in kept.after))
    return {
        "trajectory": rows_of(None if kept is None else kept.row),
        "finished": kept is not None and bool(kept.terminated[-1]),
        "final": artefact_cases.final(env, params, after, trajectory.records),
        "metrics": metrics,
        "jobs": _jobs(env, params, trajectory.records),
    }


def _jobs(env: DL2, params: Params, records: rec.Records) -> list[dict[str, Any]]:
    times = rec.job_times(env, params, np.zeros(1, int), rec.Records(*(x[None] for x in records)))
    return [
        {
            "start": moment(times.start[0, job]),
            "finish": moment(times.finish[0, job]),
            "progress": float(records.progress[job]),
        }
        for job in np.flatnonzero(times.real[0])
    ]
