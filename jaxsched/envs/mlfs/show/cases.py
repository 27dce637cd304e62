"""Golden cases of MLFS (specification, section 14).

They are many and small, and each has options of its own, which are constants of the environment's
programs. Here these are parameters, so that environments of one size share a compiled program
(``shared``).
"""

from collections import OrderedDict
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View
from jaxsched.core.trajectory import Some, Step, Trajectory
from jaxsched.envs.mlfs.environment import MLFS, MOST_OFFERS, MOST_SLOTS
from jaxsched.envs.mlfs.heuristics import HOSTS
from jaxsched.envs.mlfs.heuristics.baselines import rule_answer
from jaxsched.envs.mlfs.jobs import MAX_TASKS, TASK_JOBS
from jaxsched.envs.mlfs.rules import MLF, OF_CLUSTER, OF_RULES
from jaxsched.envs.mlfs.rules.dynamics import before_first
from jaxsched.envs.mlfs.rules.offers import offered
from jaxsched.envs.mlfs.rules.state import MIGRANT, NONE, RUNNING, WAITING, number_of
from jaxsched.envs.mlfs.rules.tables import SLOT_S, Params, as_columns, jobs_at, with_room
from jaxsched.envs.mlfs.show.log import Records
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.systems.cases import (
    Content,
    Episode,
    actions_of,
    list_of,
    listed_actions,
    options_of,
    rows_of,
    whole_moment,
)
from jaxsched.types import Array, PRNGKey, PyTree


def shared(env: MLFS, params: Params, max_gpus: int) -> tuple[MLFS, Params]:
    """An environment that others of its size share, and parameters in which it plays as ``env``.

    Args:
      env: the environment.
      params: its parameters.
      max_gpus: GPUs that a server of the program has room for, at least those of any server.
    """
    rules = env.rules
    cluster = rules.cluster._replace(some_gpus=rules.cluster.num_gpus)
    options = {name: getattr(cluster, name) for name in OF_CLUSTER}
    options |= {name: getattr(rules, name) for name in OF_RULES} | {"max_slots": env.max_slots}
    arrays = {name: np.asarray(value) for name, value in options.items()}
    late = {name: x if x.dtype == bool else x.astype(np.int32) for name, x in arrays.items()}
    common = MLFS(
        gpus=(max_gpus,) * env.num_servers,
        max_active=env.max_active,
        use_migration=env.use_migration,
        order=env.order,
        decide=env.decide,
        reward=env.reward,
        slot_every=env.slot_every,
        max_slots=MOST_SLOTS,
        max_offers=MOST_OFFERS,
    )
    return common, params._replace(options=late)


KEYS = (
    *("gpus", "cpus_per_server", "mem_per_server", "bw_per_server", "flow_rate", "comm_rounds"),
    *("move_work", "move_mb", "max_active", "max_offers", "max_slots", "h_r", "h_s", "p_s"),
    *("use_urgency", "use_deadline", "use_bw", "use_migration", "use_mlfc"),
    *("waiting_unit", "early_stop", "tiresias_threshold", "alpha", "gamma", "g_d", "g_r", "g_w"),
)
FORMER = {"waiting_unit": "hour"}
"""What cases have that say nothing of it: they are older than the option."""
OPTIONS = {key: MLFS.former_options.get(key, key) for key in KEYS}
"""Options of the environment by their name in a case."""
WHOLE = (
    *("finished", "makespan", "bandwidth_mb", "overloads", "migrations", "evictions"),
    *("iterations", "steps", "slots"),
)
MLF_POLICIES = {"mlf_h": {}, "mlfs": {"use_mlfc": True}}
"""Policies of the MLF order, and what they switch."""
BY_POLICY, BY_SWITCH = "expect_by_policy", "expect_by_switch_off"
JOBS, RUNNERS, GPUS = 64, 128, 8
"""Sizes of programs are multiples of these."""
SHOWN = {WAITING: 1, RUNNING: 2, MIGRANT: 2}


def read_case(case: Mapping[str, Any]) -> Content:
    """A case with a policy, with actions, or with several runs.

    Of a case with several runs the result has one entry per run, by the name of the policy or of
    the switch that is off, and once more under the case's own key.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    options, _ = options_of(case, OPTIONS)
    options = {**FORMER, **options}
    table = from_records(list_of(case, "jobs"), schema=TASK_JOBS)
    several = {key: case[key] for key in (BY_POLICY, BY_SWITCH) if key in case}
    for key, names in several.items():
        if not isinstance(names, Mapping) or not names:
            raise JaxschedError(f"{key!r} must be an object with at least one entry")
    runs = {name: _episode(options, table, name) for name in several.get(BY_POLICY, ())}
    for name in several.get(BY_SWITCH, ()):
        if name not in OPTIONS:
            raise JaxschedError(f"{BY_SWITCH!r}: unknown key {name!r}")
        switched = _episode({**options, OPTIONS[name]: False}, table, "mlf_h")
        runs[name] = switched._replace(name=f"mlf_h without {name}")
    if several:
        return {**runs, **{key: {name: runs[name] for name in several[key]} for key in several}}
    if "policy" in case and "actions" in case:
        raise JaxschedError("a case needs 'policy' or 'actions', not both")
    if "policy" in case:
        return _episode(options, table, case["policy"])
    return _episode(options, table, case.get("after_actions", "mlf_h"), actions_of(case))


def _episode(
    options: Mapping[str, Any], table: JobTable, policy: Any, actions: list[int] | None = None
) -> Episode:
    """By the listed actions, then by the policy."""
    env = environment_of(options, policy)
    params = env.params([table])
    room = _in_steps(params.max_jobs, JOBS), _in_steps(params.max_running, RUNNERS)
    common, params = shared(env, with_room(params, *room), _in_steps(max(env.gpus), GPUS))

    def result(trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
        return _result(trajectory, metrics, len(table), use_mlfc=env.use_mlfc)

    return Episode(
        common,
        params,
        _listed_then_heuristic(common),
        result,
        (listed_actions(actions or [])[1], jnp.int32(len(actions or ()))),
        name="listed actions" if actions is not None else policy,
        kept=_row,
        state=before_first(common.rules_of(params), params, jnp.int32(0)),
    )


def environment_of(options: Mapping[str, Any], policy: Any) -> MLFS:
    """The environment with the options in which a policy plays, slot by slot.

    Raises:
      JaxschedError: no such policy, or a bad option.
    """
    if policy in MLF_POLICIES:
        return MLFS(**{**options, **MLF_POLICIES[policy]}, slot_every=1)
    known = (*MLF_POLICIES, *(order for order in HOSTS if order != MLF))
    if policy not in known:
        raise JaxschedError(f"policy is {policy!r}; accepted: {', '.join(known)}")
    return MLFS(**{**options, "use_mlfc": False}, order=policy, slot_every=1)


def _in_steps(number: int, step: int) -> int:
    """The next multiple, so that cases have few different sizes."""
    return -(-number // step) * step


@cache
def _listed_then_heuristic(env: MLFS) -> Policy:
    """Answers the listed actions, one for each offer, then as the order's heuristic."""

    def init(params: Params) -> Array:
        del params
        return jnp.int32(0)

    def act(weights: PyTree, memory: Array, view: View, key: PRNGKey) -> tuple[Array, Array]:
        del key
        listed, count = weights
        entry = listed[jnp.minimum(memory, listed.shape[0] - 1)]
        action = jnp.where(memory < count, entry, rule_answer(env, view.state, view.params))
        return action.astype(jnp.int32), memory + env.decides(view.state)

    return Policy("listed actions", init, act, privileged=True)


class Tasks(NamedTuple):
    """The tasks ``[A, K]`` of the active jobs ``[A]`` at the beginning of a slot."""

    slot: Array
    active: Array
    number: Array
    phase: Array
    priority: Array
    since: Array


class Kept(NamedTuple):
    """What is kept of a step."""

    reward: Array
    row: Some  # of decisions, as the trajectory lists them
    tasks: Some  # of steps that begin a slot


def _row(env: MLFS, step: Step, params: Params) -> Kept:
    before, after, told = step.before, step.after, step.timestep
    offer = offered(env.rules_of(params), params, before)
    row = OrderedDict(
        slot=before.slot,
        time=SLOT_S * before.slot,
        job=offer.which,
        task=offer.number,
        migrating=offer.migrant,
        mask=step.mask.astype(jnp.int32),
        action=step.action,
        reward=jnp.float32(0),  # those up to the next decision are added
        done=jnp.bool_(False),
        obs=step.observation,
    )
    jobs = as_columns(jobs_at(params, after.episode, after.active.job))
    tasks = Tasks(
        after.slot,
        after.active.job,
        number_of(jobs, jnp.arange(MAX_TASKS)),
        after.tasks.state,
        after.tasks.priority,
        after.tasks.since,
    )
    begins = (after.slot != before.slot) & ~told.done
    return Kept(told.reward, Some(told.metrics.decides, row), Some(begins, tasks))


def _result(
    trajectory: Trajectory, metrics: dict[str, Any], num_jobs: int, *, use_mlfc: bool
) -> dict[str, Any]:
    kept: Kept = trajectory.moments
    steps = rows_of(kept.row.values)
    decision = np.cumsum(kept.row.there) - 1
    for at, reward in zip(decision.tolist(), kept.reward.tolist(), strict=True):
        if at >= 0:  # the first step only ends the slot before the first
            steps[at]["reward"] += reward
    if steps:
        steps[-1]["done"] = trajectory.ended
    tasks: Tasks = kept.tasks.values
    return {
        "metrics": metrics,
        "jobs": _jobs(trajectory.records)[:num_jobs],
        "slots": int(trajectory.records.slots),
        "decisions": int(trajectory.records.decisions),
        "trajectory": steps,
        "snapshots": [_snapshot(Tasks(*entry)) for entry in zip(*tasks, strict=True)],
        "use_mlfc": use_mlfc,
    }


def _snapshot(tasks: Tasks) -> dict[str, Any]:
    """Migrants and priorities at the beginning of a slot."""
    shown = (tasks.active != NONE)[:, None] & np.isin(tasks.phase, list(SHOWN))
    rows, migrants = [], []
    for place in np.argsort(tasks.active):
        for task in np.flatnonzero(shown[place]):
            kind = int(tasks.phase[place, task])
            name = [int(tasks.active[place]), int(tasks.number[place, task])]
            rows.append([*name, SHOWN[kind], int(tasks.priority[place, task])])
            if kind == MIGRANT:
                migrants.append((int(tasks.since[place, task]), name))
    migrants.sort()
    return {
        "slot": int(tasks.slot),
        "migrants": [name for _, name in migrants],
        "priority": rows,
    }


def _jobs(records: Records) -> list[dict[str, Any]]:
    columns = {name: np.asarray(getattr(records, name)) for name in Records._fields[:6]}

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
