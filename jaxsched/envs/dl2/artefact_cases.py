"""Golden cases of DL2's published simulator: times in slots (artefact track, section 11).

Axes: ``N`` rows of the job table, ``n`` jobs.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.trajectory import Step, Trajectory
from jaxsched.envs.dl2 import records as rec
from jaxsched.envs.dl2.dynamics import (
    ClusterState,
    is_active,
    is_open,
    parameter_servers,
    workers,
)
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import ARTEFACT, one_of_baselines
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.slotwise import Allocation, DL2Slots
from jaxsched.systems.cases import Episode
from jaxsched.types import Array

FIRST_SLOTS = 25  # whose allocations are told
EPISODE = ("avg_jct_coarse", "makespan_coarse", "mean_slot_reward")


def heuristics(env: DL2Slots, params: Params) -> dict[str, Episode]:
    """Each of the simulator's heuristics on a table."""
    policy, result = one_of_baselines(ARTEFACT, env), partial(_in_slots, env, params)
    return {
        name: Episode(env, params, policy, result, jnp.int32(number), name, _slot)
        for number, name in enumerate(ARTEFACT)
    }


class Slot(NamedTuple):
    """Whom a slot serves, bool ``[N]``, and with how much."""

    active: Array
    given: Allocation


def _slot(env: DL2Slots, step: Step, params: Params) -> Slot:
    del env, params
    return Slot(is_active(step.before.cluster), step.action)


def _in_slots(
    env: DL2Slots, params: Params, trajectory: Trajectory, metrics: dict[str, Any]
) -> dict[str, Any]:
    times = _job_slots(env, params, trajectory.records)
    submit = np.asarray(params.jobs.submit_time)[0, : len(times["jct_fine"])] / env.slot_seconds
    kept: Slot = trajectory.moments
    first = min(FIRST_SLOTS, metrics["slots"])
    return {
        "per_job": {key: _open(values) for key, values in times.items()},
        "metrics": {
            **{name: metrics[name] for name in EPISODE},
            "avg_jct_fine": metrics["avg_jct_slots"],
            "makespan_coarse": round(metrics["makespan_coarse"]),
            "makespan_fine": metrics["makespan"] / env.slot_seconds,
            "slots": metrics["slots"],
        },
        "sorted_finish_slots_fine": np.sort(submit + times["jct_fine"]).tolist(),
        "alloc_first_slots": [
            [[int(job), int(w[job]), int(p[job])] for job in np.flatnonzero(active)]
            for active, w, p in zip(kept.active[:first], *(x[:first] for x in kept.given),
                                    strict=True)
        ],
    }  # fmt: skip


def _job_slots(env: DL2, params: Params, records: rec.Records) -> dict[str, np.ndarray]:
    """Completion times of the first table's jobs in slots, float64 ``[n]``; NaN while open.

    ``jct_coarse`` counts whole slots, ``jct_fine`` the last one up to the end.
    """
    batched = rec.Records(*(leaf[None] for leaf in records))
    spent = rec.slots_spent(env, params, np.zeros(1, int), batched)
    return {"jct_coarse": spent.coarse[0, spent.real[0]], "jct_fine": spent.fine[0, spent.real[0]]}


def _open(values: np.ndarray) -> list[int | float | None]:
    """Times as a list, whole ones as such, None for jobs that have not finished."""
    whole = np.all(np.isnan(values) | (values == np.rint(values)))
    return [None if np.isnan(x) else int(x) if whole else float(x) for x in values]


class Standing(NamedTuple):
    """Where an episode stands: its slot, and of the jobs ``[N]`` their epochs and tasks."""

    slot: Array
    progress: Array
    tasks: Array


def standing(state: ClusterState, held: Array) -> Standing:
    """Where a state stands.

    Args:
      state: after an action.
      held: int32 ``[N]``, what the jobs held before it ended a slot; told once all is over.
    """
    return Standing(state.slot, state.progress, jnp.where(is_open(state), state.tasks, held))


def final(env: DL2, params: Params, after: Standing | None, records: rec.Records) -> dict[str, Any]:
    """Where an episode stands after the last action.

    Args:
      env: the environment.
      params: its parameters.
      after: where it stands; None: at the beginning.
      records: of the episode.
    """
    if after is None:
        state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
        after = standing(state, state.tasks)
    times = _job_slots(env, params, records)
    count, slot = len(times["jct_fine"]), int(after.slot)
    tasks = after.tasks[:count]
    return {
        "slot": int(np.max(records.finish_slot)) + 1 if slot < 0 else slot,
        "progress": np.asarray(after.progress)[:count].tolist(),
        "workers": np.asarray(workers(tasks)).tolist(),
        "servers": np.asarray(parameter_servers(tasks)).tolist(),
        **{key: _open(values) for key, values in times.items()},
    }
