"""What the agent sees (DL2, section 4 of the specification).

Layout of the flat vector, ``J * (L + 5)`` long with ``L = 8`` job types: the one-hot types, row by
row; then, for all rows each, the slots since the arrival, the remaining epochs by the estimate, the
dominant share allocated in this slot, workers and parameter servers.

DL2's published simulator shows a matrix ``6 x J`` of raw values instead (``artefact``): the type's
number from 1 on, the slots since the arrival, the share of the epochs that remains, the dominant
share, workers and parameter servers; each of them for all rows.

Axes: ``J`` rows of the window.
"""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.models import IDENTIFIERS, NAMES
from jaxsched.envs.dl2.rules import KINDS, Rules, tables
from jaxsched.envs.dl2.rules.dynamics import ClusterState, options, parameter_servers, workers
from jaxsched.envs.dl2.rules.tables import NUM_MODELS, JobTables, Params, arrival, lookup, taken
from jaxsched.ops import bit_sets
from jaxsched.ops.bounds import known_largest
from jaxsched.types import Array, Feature

ObservationKind = Literal["paper", "artefact"]
FIELDS = ("slots", "remaining", "share", "workers", "ps")
ARTEFACT_FIELDS = ("type", "slots", "fraction", "share", "workers", "ps")
KIND_NAMES = ("worker", "ps", "bundle")
ROWS_IN_WORD = 10
D_SCALE, E_SCALE = 50.0, 100.0  # of ``DL2.params``


def observation_names(window: int, kind: ObservationKind = "paper") -> tuple[str, ...]:
    """A readable name for each entry of the observation, in order."""
    if kind == "artefact":
        return tuple(f"row{r}.{field}" for field in ARTEFACT_FIELDS for r in range(window))
    types = [f"row{r}.{name}" for r in range(window) for name in IDENTIFIERS]
    return tuple(types + [f"row{r}.{field}" for field in FIELDS for r in range(window)])


def action_names(window: int) -> tuple[str, ...]:
    """A name for each action, in order."""
    return (*(f"row{r}.{kind}" for r in range(window) for kind in KIND_NAMES), "void")


def features(kind: ObservationKind, max_workers: int, max_ps: int) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    if kind == "artefact":
        return {
            "row*.type": Feature("number of the job's type from 1 on", "1"),
            "row*.slots": Feature("slots since the job arrived", "slots"),
            "row*.fraction": Feature("share of the epochs that remains", "1"),
            "row*.share": Feature("dominant share allocated in this slot", "1"),
            "row*.workers": Feature("workers in this slot", "tasks"),
            "row*.ps": Feature("parameter servers in this slot", "tasks"),
        }
    found = {
        f"row*.{entry}": Feature(f"1 if the job is a {name}", "1")
        for entry, name in zip(IDENTIFIERS, NAMES, strict=True)
    }
    return found | {
        "row*.slots": Feature("slots since the job arrived", "slots", D_SCALE),
        "row*.remaining": Feature("remaining epochs by the estimate", "epochs", E_SCALE),
        "row*.share": Feature("dominant share allocated in this slot", "1"),
        "row*.workers": Feature("workers in this slot", "tasks", float(max_workers)),
        "row*.ps": Feature("parameter servers in this slot", "tasks", float(max_ps)),
    }


def extremes(rules: Rules, params: Params, kind: ObservationKind) -> tuple[float, float]:
    """Bounds of every entry.

    Of flags and shares, epochs, and slots since the arrival. Speeds below 0 take progress away:
    there what remains has no bound.
    """
    slots = rules.max_slots + 1
    if kind == "artefact":
        endless = known_largest(-params.speed.rate) > 0
        counts = known_largest(slots, rules.max_workers, rules.max_ps, NUM_MODELS)
        return 0.0, float("inf") if endless else counts
    return 0.0, known_largest(1.0, params.jobs.epochs / params.e_scale, slots / params.d_scale)


class RowFacts(NamedTuple):
    """The rows' jobs; all ``[J]`` and 0 for none."""

    info: Array  # int32, see ``JobTables.info``
    tasks: Array  # int32, see ``ClusterState.tasks``
    slots: Array  # int32, since the arrival
    left: Array  # float, epochs by the estimate
    share: Array  # int32, dominant share in units of ``1 / U``


class Shown(NamedTuple):
    """What an observation is made of; all ``[J]``."""

    model: Array  # int32, ``NUM_MODELS`` for none
    slots: Array  # int32, since the arrival
    left: Array  # float, epochs by the estimate
    share: Array  # int32, dominant share in units of ``1 / U``
    workers: Array  # int32
    ps: Array  # int32


def facts_of_rows(rules: Rules, state: ClusterState, jobs: JobTables) -> RowFacts:
    """What is known of the rows' jobs."""
    info = lookup(jobs.info, state.episode, state.rows)
    needs = lookup(jobs.needs, state.episode, state.rows)
    tasks = taken(state.tasks, state.rows)
    usage = tables.usage(needs, workers(tasks), parameter_servers(tasks))
    weights = rules.cluster.share_weights
    share = jnp.maximum(usage[0] * weights[0], usage[1] * weights[1])
    share = jnp.maximum(share, usage[2] * weights[2])
    progress = taken(state.progress, state.rows)
    left = lookup(jobs.epochs, state.episode, state.rows) - progress
    # Empty rows never arrive, so that theirs is 0.
    slots = jnp.maximum(state.slot - tables.arrival(info), 0)
    return RowFacts(info, tasks, slots, left, share)


def observe(
    rules: Rules, state: ClusterState, params: Params, kind: ObservationKind = "paper"
) -> tuple[Array, Array]:
    """Observation, float ``[J * 13]`` or ``[J * 6]``, and legal actions, bool ``[3 * J + 1]``.

    Args:
      rules: the rules.
      state: the cluster.
      params: with the job tables, and what counts as 1.
      kind: which observation.
    """
    seen = facts_of_rows(rules, state, params.jobs)
    w, p = workers(seen.tasks), parameter_servers(seen.tasks)
    shown = Shown(tables.model_of(seen.info), seen.slots, seen.left, seen.share, w, p)
    if kind == "artefact":
        expected = lookup(params.jobs.expected, state.episode, state.rows)
        observation = _artefact_observation(rules, shown, expected)
    else:
        observation = paper_observation(rules, shown, params.d_scale, params.e_scale)
    return observation, _legal(options(rules, seen.tasks, seen.info, state.fits))


def paper_observation(
    rules: Rules, shown: Shown, d_scale: float | Array, e_scale: float | Array
) -> Array:
    """The paper's observation, float ``[J * 13]``.

    Args:
      rules: the rules.
      shown: of the rows' jobs; a type beyond the last one and zeros for none.
      d_scale: slots that count as 1.
      e_scale: epochs that count as 1.
    """
    dtype = shown.left.dtype
    types = shown.model[:, None] == jnp.arange(NUM_MODELS, dtype=jnp.int32)
    parts = [
        types.reshape(-1),
        shown.slots.astype(dtype) * (1.0 / d_scale),
        jnp.maximum(shown.left, 0.0) * (1.0 / e_scale),
        shown.share.astype(dtype) / rules.cluster.share_unit,
        shown.workers.astype(dtype) / rules.max_workers,
        shown.ps.astype(dtype) / rules.max_ps,
    ]
    return jnp.concatenate([part.astype(dtype) for part in parts])


def _artefact_observation(rules: Rules, shown: Shown, expected: Array) -> Array:
    """That of DL2's published simulator, float ``[J * 6]``."""
    dtype = shown.left.dtype
    number = jnp.where(shown.model < NUM_MODELS, shown.model + 1, 0)
    fraction = jnp.maximum(shown.left, 0.0) / expected
    share = shown.share.astype(dtype) / rules.cluster.share_unit
    parts = [number, shown.slots, fraction, share, shown.workers, shown.ps]
    return jnp.concatenate([part.astype(dtype) for part in parts])


def _legal(allowed: Array) -> Array:
    """Legal actions, bool ``[3 * J + 1]``, from the bits of each row's kinds, int32 ``[J]``.

    Bits of some rows are gathered in a word and spread from there: a sum is computed once, whatever
    reads it, where else a row's options are found anew for each of its kinds.
    """
    flags, num_rows = [], allowed.shape[0]
    for first in range(0, num_rows, ROWS_IN_WORD):
        some = allowed[first : first + ROWS_IN_WORD]
        num_bits = KINDS * some.shape[0]
        word = jnp.sum(some << np.arange(0, num_bits, KINDS, dtype=np.int32), dtype=jnp.int32)
        if first + ROWS_IN_WORD >= num_rows:  # void
            word, num_bits = word | 1 << num_bits, num_bits + 1
        flags.append((word >> np.arange(num_bits, dtype=np.int32)) & 1 > 0)
    return jnp.concatenate(flags)


AHEAD = (1, 2, 4, 8)
"""Slots from now until which submissions are counted."""


def privileged_state(state: ClusterState, params: Params) -> Array:
    """The rest of the state, float32 ``[3 + 4]``.

    Jobs of the slot, the true epochs that these have left (units of ``e_scale``), jobs still to
    come; and jobs that come within the next 1, 2, 4 and 8 slots. Counts are shares of the table's
    jobs.
    """
    jobs, episode = params.jobs, state.episode
    count = jnp.maximum(jobs.num_jobs[episode], 1)
    real = jnp.arange(jobs.info.shape[-1]) < jobs.num_jobs[episode]
    active = bit_sets.to_flags(state.active)[: real.shape[0]] & real
    left = jnp.maximum(jobs.true_epochs[episode] - state.progress, 0.0) / params.e_scale
    ahead = arrival(jobs.info[episode]) - state.slot
    within = (ahead > 0) & (ahead <= np.array(AHEAD)[:, None]) & real
    return jnp.concatenate(
        [
            jnp.stack([jnp.sum(active) / count, jnp.sum(jnp.where(active, left, 0.0))]),
            (jnp.sum((ahead > 0) & real) / count)[None],
            jnp.sum(within, axis=-1) / count,
        ]
    ).astype(jnp.float32)
