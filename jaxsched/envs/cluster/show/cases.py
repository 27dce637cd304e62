"""Golden cases of the cluster: a job table with a list of actions or a rule."""

from collections import OrderedDict
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import jax.numpy as jnp

from jaxsched.core.policies import Policy, one_of
from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.envs.cluster.environment import MOST_POSITIONS, ClusterJobs, Params
from jaxsched.envs.cluster.heuristics import COMMITTED_RULES, RULES, SUSPENDING_RULES, rule
from jaxsched.errors import JaxschedError
from jaxsched.jobs import Column, from_records
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
from jaxsched.trace_replay.tables import COLUMNS, OPTIONAL
from jaxsched.types import Array

OPTIONS = {
    name: name
    for name in (
        "num_servers", "gpus_per_server", "servers", "window", "locality", "placement", "may_wait",
        "suspends", "restart_s", "commits",
    )
}  # fmt: skip
FURTHER = (Column("group", 0, 2**31 - 1, "", "the job's owner"), *OPTIONAL.values())
WHOLE = ("finished", "makespan", "preemptions")


def read(case: Mapping[str, Any]) -> Episode:
    """Read a case that has either a rule as its policy, or actions.

    Raises:
      JaxschedError: the case is malformed, or its table must be refused.
    """
    options, others = options_of(case, OPTIONS, ("thresholds",))
    if ("policy" in case) == ("actions" in case):
        raise JaxschedError("a case needs either 'policy' or 'actions'")
    records = list_of(case, "jobs")
    present = {name for row in records if isinstance(row, Mapping) for name in row}
    further = tuple(column for column in FURTHER if column.name in present)
    table = from_records(records, name="jobs", schema=(*COLUMNS, *further))
    length = shared_length(len(table))
    options.setdefault("window", min(length, MOST_POSITIONS))
    thresholds = others.get("thresholds")
    if thresholds is not None:
        if not isinstance(thresholds, list):
            raise JaxschedError(f"config: thresholds are {thresholds!r:.40}; accepted: a list")
        others["thresholds"] = tuple(thresholds)
    if "policy" not in case:
        return _of_actions(case, ClusterJobs(**options), table, length, others)
    env = ClusterJobs(**{"may_wait": True, **options})
    name, (known, policy) = str(case["policy"]), _rules(env)
    if name not in known:
        raise JaxschedError(f"policy is {name!r}; accepted: {', '.join(known)}")
    params = env.params([table], length=length, **others)
    result = partial(_result, len(table))
    return Episode(env, params, policy, result, jnp.int32(known.index(name)), name)


@cache
def _rules(env: ClusterJobs) -> tuple[tuple[str, ...], Policy]:
    """Names of an environment's rules, and one policy of all; equal environments share it."""
    known = dict(RULES)
    if env.commits:
        known |= COMMITTED_RULES
    if env.suspends:
        known |= SUSPENDING_RULES
    return tuple(known), one_of(tuple(rule(env, *how) for how in known.values()))


def _of_actions(
    case: Mapping[str, Any], env: ClusterJobs, table: Any, length: int, others: dict[str, Any]
) -> Episode:
    if env.suspends:
        raise JaxschedError("actions where jobs are suspended are scores; accepted: a policy")
    actions = actions_of(case)
    policy, weights = listed_actions(actions)
    return Episode(
        env,
        env.params([table], length=length, **others),
        policy,
        partial(_result, len(table)),
        weights,
        kept=_row,
        most_steps=len(actions),
        past_end=True,
    )


def _row(env: ClusterJobs, step: Step, params: Params) -> OrderedDict[str, Array]:
    """A step of the result; ``start`` is the job that started, n if none did."""
    del params
    return OrderedDict(
        time=step.before.time,
        mask=step.mask.astype(jnp.int32),
        action=step.action,
        start=step.timestep.metrics.started,
        reward=step.timestep.reward,
        done=step.timestep.terminated,
    )


def _result(count: int, trajectory: Trajectory, metrics: dict[str, Any]) -> dict[str, Any]:
    records = trajectory.records
    columns = [name for name in ("num_servers", "first_server", "preemptions") if name in records]

    def job(row: int) -> dict[str, Any]:
        begun = records["start"][row] >= 0
        return {
            "start": whole_moment(records["start"][row]),
            "finish": whole_moment(records["finish"][row]),
            **{name: int(records[name][row]) if begun else None for name in columns},
        }

    found = {"metrics": metrics, "jobs": [job(row) for row in range(count)]}
    if trajectory.moments:
        found["trajectory"] = rows_of(trajectory.moments)
    return found
