"""Golden cases of DL2: a job table with a list of actions or a policy (section 14)."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.envs.dl2 import artefact_cases
from jaxsched.envs.dl2 import records as rec
from jaxsched.envs.dl2.dynamics import ClusterState, held_after, is_active
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import POLICY_OPTIONS, plan_rule
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.plans import Plan
from jaxsched.envs.dl2.presets import ARTEFACT
from jaxsched.envs.dl2.slotwise import Allocation, DL2Slots, SlotsState
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.ops.programs import bounded_programs
from jaxsched.systems.cases import actions_of, keyed, list_of, moment
from jaxsched.types import Array, PyTree, TimeStep

STATIC = {
    "num_servers": "num_servers",
    "gpus_per_server": "gpus_per_server",
    "cpus_per_server": "cpus_per_server",
    "mem_per_server": "mem_per_server",
    "slot_seconds": "slot_seconds",
    "J": "window",
    "max_workers": "max_workers",
    "max_ps": "max_ps",
    "max_slots": "max_slots",
    "comm": "comm",
    "assign_bundle": "assign_bundle",
    "bundle_action": "bundle_action",
    "demand_table": "demand_table",
    "bundle_servers": "bundle_servers",
    "placement": "placement",
    "rows": "rows",
    "misfit": "misfit",
    "obs": "observation",
}
"""Static options by their name in a case."""
SCALARS = ("overlap", "contention", "d_scale", "e_scale")
OTHERS = ("speed_mode",)
CONFIGS = {"artefact": asdict(ARTEFACT)}
"""Options that ``preset`` stands for."""


PROGRAMS = 4  # kept of each kind
GROUPS = (("drf", "fifo", "srtf", "tetris"), ("optimus_oracle", "optimus_fill"))
"""Policies that are compiled as one program."""


class Rules(NamedTuple):
    """Policies and their options."""

    names: tuple[str, ...]
    options: tuple[tuple[str, Any], ...]


class Config(NamedTuple):
    """A case's ``config``: options of the environment and of its parameters."""

    static: dict[str, Any]
    params: dict[str, Any]


def simulate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case in float64; the result has all keys of its ``expect``.

    With the preset ``artefact`` and neither policy nor actions, all its heuristics play.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    config, table = read_case(case)
    with jax.enable_x64(True):
        if "policy" in case:
            options = keyed(case.get("policy_options") or {}, "policy_options", POLICY_OPTIONS)
            return _run_policy(config, table, str(case["policy"]), options)
        if "actions" not in case and dict(case.get("config", {})).get("preset") == "artefact":
            return artefact_cases.play_all(DL2Slots(**config.static), table, config.params)
        return _run_actions(config, table, actions_of({"actions": [], **case}))


def read_case(case: Mapping[str, Any]) -> tuple[Config, JobTable]:
    """The ``config`` and the jobs of a case that has a policy, actions, or neither."""
    config = read_config(case.get("config", {}))
    if "policy" in case and "actions" in case:
        raise JaxschedError("a case needs either 'policy' or 'actions', not both")
    jobs = list_of(case, "jobs")
    if not jobs:
        raise JaxschedError("'jobs' is empty; accepted: at least one job")
    table = from_records(jobs, schema=DL2_JOBS, name="jobs")
    return config, table


def read_config(config: Any) -> Config:
    """Check a case's ``config``; what is left out has the environment's defaults."""
    config = keyed(config, "config", ("preset", *STATIC, *SCALARS, *OTHERS))
    preset = config.get("preset")
    if preset is not None and preset not in CONFIGS:
        raise JaxschedError(f"config: preset is {preset!r}; accepted: {', '.join(CONFIGS)}")
    for name in SCALARS:
        value = config.get(name, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise JaxschedError(f"config: {name} must be a number, not {value!r}")
    static = dict(CONFIGS[preset]) if preset else {}
    static |= {field: config[name] for name, field in STATIC.items() if name in config}
    params = {name: config[name] for name in (*SCALARS, *OTHERS) if name in config}
    return Config(static, params)


def _run_policy(
    config: Config, table: JobTable, name: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    env = DL2Slots(**config.static)
    plan_rule(name, env, **options)  # is there such a policy?
    group = next((group for group in GROUPS if name in group), (name,))
    rules, number = Rules(group, tuple(options.items())), jnp.int32(group.index(name))
    params = env.params([table], **config.params)
    state, timestep, records, memory = _reset_slots(env, rules, params)
    slots, done = [], bool(timestep.done)
    while not done:
        slot, before = int(state.cluster.slot), state
        state, memory, records, active, plan, timestep = _slot(
            env, rules, before, number, memory, params, records
        )
        done = bool(timestep.done)
        slots.append(
            {
                "slot": slot,
                "time": slot * env.slot_seconds,
                "alloc": _allocations(np.asarray(active), jax.tree.map(np.asarray, plan)),
                "reward": float(timestep.reward),
            }
        )
    return {"slots": slots, **_summary(env, params, records)}


@bounded_programs(num_static=2, most=PROGRAMS)
def _reset_slots(env: DL2Slots, rules: Rules, params: Params) -> tuple:
    state, timestep = env.reset(jax.random.key(0), params, jnp.int32(0))
    memory = plan_rule(rules.names[0], env, **dict(rules.options)).init(params)
    return state, timestep, rec.recorder(env).init(params), memory


@bounded_programs(num_static=2, most=PROGRAMS)
def _slot(
    env: DL2Slots,
    rules: Rules,
    state: SlotsState,
    number: Array,
    memory: PyTree,
    params: Params,
    records: rec.Records,
) -> tuple:
    """One slot by the policy of that number among ``rules``."""
    plans = [plan_rule(name, env, log=True, **dict(rules.options)).plan for name in rules.names]
    branches = [partial(plan, memory, state, params) for plan in plans]
    plan, memory = jax.lax.switch(number, branches)
    allocation = Allocation(plan.workers, plan.ps)
    after, timestep = env.step(jax.random.key(0), state, allocation, params)
    records = rec.recorder(env).update(records, timestep, jnp.bool_(True))
    return after, memory, records, is_active(state.cluster), plan, timestep


def _allocations(active: np.ndarray, plan: Plan) -> list[dict[str, Any]]:
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


def _run_actions(config: Config, table: JobTable, actions: list[int]) -> dict[str, Any]:
    env = DL2(**config.static)
    params = env.params([table], **config.params)
    state, timestep, records = _reset(env, params)
    trajectory, held = [], state.tasks
    for index, action in enumerate(actions):
        row = {
            "step": index,
            "time": int(state.slot) * env.slot_seconds,
            "slot": int(state.slot),
            "batch": int(state.batch),
            "action": action,
            "mask": np.asarray(timestep.action_mask).astype(int).tolist(),
            "obs": _observed(env, timestep.observation),
        }
        before = state
        state, timestep, records = _step(env, before, jnp.int32(action), params, records)
        held = held_after(before.tasks, timestep.metrics.increment)
        row |= {
            "reward": float(timestep.reward),
            "slot_ended": bool(timestep.metrics.slot_ended),
            "done": bool(timestep.done),
        }
        trajectory.append(row)
        if row["done"]:
            break
    return {
        "trajectory": trajectory,
        "finished": bool(timestep.terminated),
        "final": artefact_cases.final(env, params, state, held, records),
        **_summary(env, params, records),
    }


def _observed(env: DL2, observation: Array) -> list[Any]:
    """The observation, as a matrix of a row for each field where it is the artefact's."""
    values = np.asarray(observation)
    found: list[Any] = values.tolist()
    if env.observation == "artefact":
        found = values.reshape(-1, env.window).tolist()
    return found


@bounded_programs(most=PROGRAMS)
def _reset(env: DL2, params: Params) -> tuple[ClusterState, TimeStep, rec.Records]:
    state, timestep = env.reset(jax.random.key(0), params, jnp.int32(0))
    return state, timestep, rec.recorder(env).init(params)


@bounded_programs(most=PROGRAMS)
def _step(
    env: DL2, state: ClusterState, action: Array, params: Params, records: rec.Records
) -> tuple[ClusterState, TimeStep, rec.Records]:
    state, timestep = env.step(jax.random.key(0), state, action, params)
    return state, timestep, rec.recorder(env).update(records, timestep, jnp.bool_(True))


def _summary(env: DL2, params: Any, records: Any) -> dict[str, Any]:
    """Metrics and jobs of a single episode."""
    batched = jax.tree.map(lambda leaf: np.asarray(leaf)[None], records)
    metrics = {
        name: float(value[0])
        for name, value in rec.summarise(env, params, np.zeros(1, int), batched).items()
    }
    for name in ("finished", "decisions", "slots"):
        metrics[name] = int(metrics[name])  # type: ignore[assignment]
    times = rec.job_times(env, params, np.zeros(1, int), batched)
    return {
        "metrics": metrics,
        "jobs": [
            {
                "start": moment(times.start[0, job]),
                "finish": moment(times.finish[0, job]),
                "progress": float(batched.progress[0, job]),
            }
            for job in np.flatnonzero(times.real[0])
        ],
    }
