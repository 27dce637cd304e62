"""What the agent of Chic sees (specification, section 4), and what a critic may see in training.

Per row of the window: one-hot type, remaining iterations, workers and, but for Chic-Pair, parameter
servers (PS); then the number of workloads waiting behind the window. A critic may also see these
workloads and those to come.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.elastic.models import IDENTIFIERS, NAMES
from jaxsched.envs.chic.rules import NUM_MODELS, SCALARS, Params, lookup, per_table, unpack
from jaxsched.envs.chic.rules.dynamics import Row, State, exists, flat, joined
from jaxsched.ops.bounds import known_largest
from jaxsched.types import Array, Feature


def observation_names(window: int, pair: bool) -> tuple[str, ...]:
    """A readable name for each entry, in order."""
    fields = [*IDENTIFIERS[:NUM_MODELS], "remaining", "workers"] + ([] if pair else ["servers"])
    return (*(f"row{row}.{field}" for row in range(window) for field in fields), "backlog")


def features(pair: bool) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    iterations, units, waiting = (
        float(SCALARS[name]) for name in ("iter_scale", "alloc_scale", "backlog_scale")
    )
    found = {
        f"row*.{entry}": Feature(f"1 if the workload is a {name}", "1")
        for entry, name in zip(IDENTIFIERS[:NUM_MODELS], NAMES[:NUM_MODELS], strict=True)
    }
    found |= {
        "row*.remaining": Feature("iterations left", "iterations", iterations),
        "row*.workers": Feature("workers in this phase", "tasks", units),
        "backlog": Feature("workloads that wait behind the window", "workloads", waiting),
    }
    if not pair:
        found["row*.servers"] = Feature("parameter servers in this phase", "tasks", units)
    return found


def largest_entry(params: Params) -> float:
    """A bound of every entry: of a type's flag, iterations, units and waiting workloads."""
    _, iterations = unpack(params.jobs.workload)
    units = max(params.seconds.shape[1:])
    return known_largest(
        1.0,
        iterations / params.iter_scale,
        units / params.alloc_scale,
        params.jobs.num_jobs / params.backlog_scale,
    )


class Scales(NamedTuple):
    """What counts as 1: so many iterations, units and waiting workloads."""

    iterations: float | Array
    units: float | Array
    backlog: float | Array


SCALES = Scales(SCALARS["iter_scale"], SCALARS["alloc_scale"], SCALARS["backlog_scale"])
"""Of parameters with their defaults."""


def observe(state: State, params: Params, pair: bool) -> Array:
    """The observation of a state, see :func:`observation_of`."""
    scales = Scales(params.iter_scale, params.alloc_scale, params.backlog_scale)
    return observation_of(state.rows, state.submitted - state.entered, scales, pair)


def observation_of(rows: Sequence[Row], backlog: Array, scales: Scales, pair: bool) -> Array:
    """The observation, float32 ``[I * 6 + 1]`` (pair ``I * 5 + 1``).

    Args:
      rows: I of the window, or one block of I.
      backlog: int32, workloads that wait behind it.
      scales: what counts as 1.
      pair: Chic-Pair.
    """
    entries = []
    for row in rows:
        of_row = [(exists(row) & (row.model == model)).astype(float) for model in range(NUM_MODELS)]
        of_row += [row.left / scales.iterations, row.workers / scales.units]
        if not pair:
            of_row.append(row.servers / scales.units)
        entries.append(of_row)
    return joined(flat(entries), backlog / scales.backlog).astype(jnp.float32)


COMING = 8
"""Workloads beyond the window that are told, one by one."""
MOST_UNITS = 24.0


def privileged_state(state: State, params: Params) -> Array:
    """The rest of the state, float32 ``[1 + 2 * 8]``.

    Share of the workloads that have not entered the window; and of the next eight of these the
    time until they are submitted (units of ``time_unit``, 0 once they wait, cut at 24) and their
    iterations (units of ``iter_scale``). Zeros where there are none.
    """
    jobs = params.jobs
    count = per_table(jobs.num_jobs, state.episode)
    index = jnp.minimum(state.entered + jnp.arange(COMING, dtype=jnp.int32), jobs.empty_row)
    submit = lookup(jobs.submit_time, state.episode, index)
    _, iterations = unpack(lookup(jobs.workload, state.episode, index))
    until = jnp.clip((submit - state.time) / params.time_unit, 0.0, MOST_UNITS)
    coming = jnp.stack([until, iterations / params.iter_scale])
    coming = jnp.where(index < count, coming, 0.0).reshape(-1)
    left = (count - state.entered) / jnp.maximum(count, 1)
    return jnp.concatenate([left[None], coming]).astype(jnp.float32)
