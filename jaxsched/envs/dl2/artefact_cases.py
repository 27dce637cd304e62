"""Golden cases of DL2's published simulator: times in slots (artefact track, section 11).

Axes: ``N`` rows of the job table, ``n`` jobs.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.envs.dl2 import records as rec
from jaxsched.envs.dl2.dynamics import (
    ClusterState,
    is_active,
    is_open,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import ARTEFACT, plan_rule
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.slotwise import Allocation, DL2Slots
from jaxsched.jobs import JobTable
from jaxsched.ops.programs import bounded_programs
from jaxsched.types import Array

FIRST_SLOTS = 25  # whose allocations are told
EPISODE = ("avg_jct_coarse", "makespan_coarse", "mean_slot_reward")


class Outcome(NamedTuple):
    """An episode under a heuristic."""

    records: rec.Records
    active: Array  # bool [FIRST_SLOTS, N], jobs of the first slots
    workers: Array  # int32 [FIRST_SLOTS, N]
    ps: Array  # int32 [FIRST_SLOTS, N]


def play_all(env: DL2Slots, table: JobTable, options: Mapping[str, Any]) -> dict[str, Any]:
    """Each of the simulator's heuristics on a table, in the layout of a case's ``expect``."""
    params = env.params([table], **options)
    played = {}
    for number, name in enumerate(ARTEFACT):
        outcome = jax.tree.map(np.asarray, play(env, params, jnp.int32(number)))
        times = job_slots(env, params, outcome.records)
        fine = times["jct_fine"]
        submit = np.asarray(params.jobs.submit_time)[0, : len(fine)] / env.slot_seconds
        played[name] = {
            "per_job": {key: _open(values) for key, values in times.items()},
            "metrics": metrics_in_slots(env, params, outcome.records),
            "sorted_finish_slots_fine": np.sort(submit + fine).tolist(),
            "alloc_first_slots": _allocations(outcome),
        }
    return played


@bounded_programs()
def play(env: DL2Slots, params: Params, number: Array) -> Outcome:
    """The first table of ``params`` under the heuristic of that number in ``ARTEFACT``."""
    rules = [plan_rule(name, env) for name in ARTEFACT]
    recorder, key = rec.recorder(env), jax.random.key(0)
    state, timestep = env.reset(key, params, jnp.int32(0))
    none = jnp.zeros((FIRST_SLOTS, params.jobs.info.shape[-1]), jnp.int32)
    outcome = Outcome(recorder.init(params), none > 0, none, none)

    def slot(carry: tuple) -> tuple:
        state, _, count, outcome = carry
        branches = [partial(rule.plan, (), state, params) for rule in rules]
        plan, _ = jax.lax.switch(number, branches)
        after, timestep = env.step(key, state, Allocation(plan.workers, plan.ps), params)
        outcome = Outcome(
            recorder.update(outcome.records, timestep, jnp.bool_(True)),
            outcome.active.at[count].set(is_active(state.cluster), mode="drop"),
            outcome.workers.at[count].set(plan.workers, mode="drop"),
            outcome.ps.at[count].set(plan.ps, mode="drop"),
        )
        return after, timestep.done, count + 1, outcome

    carry = jax.lax.while_loop(
        lambda carry: ~carry[1], slot, (state, timestep.done, jnp.int32(0), outcome)
    )
    found: Outcome = carry[3]
    return found


def job_slots(env: DL2, params: Params, records: rec.Records) -> dict[str, np.ndarray]:
    """Completion times of the first table's jobs in slots, float64 ``[n]``; NaN while open.

    ``jct_coarse`` counts whole slots, ``jct_fine`` the last one up to the end.
    """
    batched = jax.tree.map(lambda leaf: np.asarray(leaf)[None], records)
    spent = rec.slots_spent(env, params, np.zeros(1, int), batched)
    return {"jct_coarse": spent.coarse[0, spent.real[0]], "jct_fine": spent.fine[0, spent.real[0]]}


def metrics_in_slots(env: DL2, params: Params, records: rec.Records) -> dict[str, Any]:
    """Means and makespans of a case."""
    batched = jax.tree.map(lambda leaf: np.asarray(leaf)[None], records)
    found = rec.summarise(env, params, np.zeros(1, int), batched)
    return {
        **{name: float(found[name][0]) for name in EPISODE},
        "avg_jct_fine": float(found["avg_jct_slots"][0]),
        "makespan_coarse": round(float(found["makespan_coarse"][0])),
        "makespan_fine": float(found["makespan"][0]) / env.slot_seconds,
        "slots": int(found["slots"][0]),
    }


def final(
    env: DL2, params: Params, state: ClusterState, held: Array, records: rec.Records
) -> dict[str, Any]:
    """Where an episode stands after the last action.

    Args:
      env: the environment.
      params: its parameters.
      state: after the action.
      held: int32 ``[N]``, what the jobs held before it ended a slot; told once all is over.
      records: of the episode.
    """
    times = job_slots(env, params, records)
    count = len(times["jct_fine"])
    over = not bool(is_open(state))
    tasks = (held if over else state.tasks)[:count]
    last = int(np.max(np.asarray(records.finish_slot)))
    return {
        "slot": last + 1 if int(state.slot) < 0 else int(state.slot),
        "progress": np.asarray(state.progress)[:count].tolist(),
        "workers": np.asarray(workers(tasks)).tolist(),
        "servers": np.asarray(parameter_servers(tasks)).tolist(),
        **{key: _open(values) for key, values in times.items()},
    }


def _open(values: np.ndarray) -> list[int | float | None]:
    """Times as a list, whole ones as such, None for jobs that have not finished."""
    whole = np.all(np.isnan(values) | (values == np.rint(values)))
    return [None if np.isnan(x) else int(x) if whole else float(x) for x in values]


def _allocations(outcome: Outcome) -> list[list[list[int]]]:
    """``[job, workers, PS]`` of the jobs of each of the first slots."""
    rows = zip(outcome.active, outcome.workers, outcome.ps, strict=True)
    slots = [
        [[int(job), int(w[job]), int(p[job])] for job in np.flatnonzero(active)]
        for active, w, p in rows
    ]
    return slots[: int(outcome.records.slots)]
