"""What the agent sees (SCHED2, section 4 of the specification), and what critics see beside it.

Layout of the flat vector, ``S*G + (k+2)*J + 4`` long (184 at the paper's size), plus ``2*J`` with
extras: remaining time of each GPU; per position in the window (position q is the specification's
slot q) the profile at the k levels, the demand and the wait; four statistics of the waiting jobs
beyond the window; optional extras per position.

The outlook (``Sched2.outlook``), a variant of the paper, is what a planner would ask of each
waiting job: may it start well now, and if not, when (``OUTLOOK``).

Axes: ``S`` servers, ``G`` GPUs per server, ``J`` positions.
"""

from typing import Literal

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.sched2.rules import (
    LOW_BITS,
    NEVER,
    NUM_LEVELS,
    SLOWDOWN_TENTHS,
    JobTables,
    fewest_servers,
    in_two,
    level_of,
    lookup,
    slowdown_by_level,
)
from jaxsched.envs.sched2.rules.dynamics import (
    ClusterState,
    finish_times,
    fits_now,
    is_free,
    legal_positions,
    position_rows,
    window_gpus,
)
from jaxsched.ops import packing as placement
from jaxsched.types import Array, Feature

Profile = Literal["time", "slowdown"]
NUM_STATISTICS = 4
TIME_SCALE_S = 3600.0  # seconds that count as 1

OUTLOOK = {
    "duration": ("ideal run time", "s"),
    "wait": ("time since the job was submitted", "s"),
    "until": ("time until it could start at level 0 if nothing else started", "s"),
    "lost": ("what starting now would add to its run time", "s"),
    "fits": ("1 if it fits the free GPUs", "1"),
    "level0": ("1 if it would start at level 0 now", "1"),
    "split": ("1 if it fits, but not at level 0", "1"),
    "demand": ("GPUs that the job needs", "GPUs"),
    "left_over": ("GPUs left free on the server that takes its rest", "GPUs"),
    "sensitivity": ("its slowdown at level 1, less 1", "1"),
    "effectiveness": ("effectiveness if started now, 0 if it does not fit", "1"),
}
"""Entries of a position's outlook in order, 0 where it is empty: meaning, and unit. Times are in
units of ``time_scale``, GPUs of those of a server; ``until`` is exact or too late, 0 where the job
could start at level 0 now."""
NUM_TIMES = 4  # of them


def observation_names(
    num_servers: int, gpus_per_server: int, window: int, extras: bool
) -> tuple[str, ...]:
    """A readable name for each entry of the observation, in order."""
    gpus = [
        f"server{s}.gpu{g}.remaining" for s in range(num_servers) for g in range(gpus_per_server)
    ]
    fields = [f"profile{level}" for level in range(NUM_LEVELS)] + ["demand", "wait"]
    positions = [f"position{q}.{field}" for q in range(window) for field in fields]
    beyond = [f"beyond.{field}" for field in ("count", "demand", "duration", "wait")]
    more = [
        f"position{q}.{field}"
        for q in range(window)
        for field in ("level_now", "effectiveness_now")
    ]
    return tuple(gpus + positions + beyond + (more if extras else []))


def features(profile: Profile, gpus_per_server: int, window: int) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    time, gpus = TIME_SCALE_S, float(gpus_per_server)
    divisors = {"s": time, "GPUs": gpus, "1": 1.0}
    if profile == "time":
        by_level = Feature("run time at locality level min(i, worst level of the job)", "s", time)
    else:
        by_level = Feature("slowdown at locality level min(i, worst level of the job)", "1")
    return {
        "server*.gpu*.remaining": Feature(
            "remaining time of the job on the GPU, 0 if free", "s", time
        ),
        "position*.profile*": by_level,
        "position*.demand": Feature(
            "GPUs that the job needs, 0 for an empty position", "GPUs", gpus
        ),
        "position*.wait": Feature("time since the job was submitted", "s", time),
        "beyond.count": Feature("waiting jobs beyond the window", "jobs", float(window)),
        "beyond.demand": Feature("their mean number of GPUs", "GPUs", gpus),
        "beyond.duration": Feature("their mean ideal run time", "s", time),
        "beyond.wait": Feature("their mean wait", "s", time),
        "position*.level_now": Feature(
            "level that packing would give now, 0 if it does not fit", "1", 3.0
        ),
        "position*.effectiveness_now": Feature(
            "effectiveness if started now, 0 if it does not fit", "1"
        ),
        **{
            f"position*.outlook.{name}": Feature(meaning, unit, divisors[unit])
            for name, (meaning, unit) in OUTLOOK.items()
        },
    }


def observe(
    state: ClusterState,
    jobs: JobTables,
    *,
    time_scale: Array,
    profile: Profile = "time",
    extras: bool = False,
    saturating: bool = False,
) -> Array:
    """The observation, float32; every entry is linear in the raw quantity.

    Args:
      state: the cluster.
      jobs: job tables.
      time_scale: seconds that count as 1 (the paper's size uses 3600).
      profile: run times at each level, or slowdowns.
      extras: append per position the level that packing would give now / 3 and the effectiveness if
        started now (0 where the job does not fit). A result with extras is a variant.
      saturating: slowdowns grow no further beyond level 1.
    """
    remaining = jnp.maximum(finish_times(state).reshape(-1) - state.time, 0)
    parts = [
        remaining * (1.0 / time_scale),
        position_features(state, jobs, time_scale, profile, saturating),
        beyond_window(state, jobs, time_scale),
    ]
    if extras:
        parts.append(start_now(state, jobs).reshape(-1))
    return jnp.concatenate(parts).astype(jnp.float32)


def position_features(
    state: ClusterState, jobs: JobTables, time_scale: Array, profile: Profile, saturating: bool
) -> Array:
    """Per position: profile by level, GPUs / G, wait / time_scale; float32 ``[J * (k + 2)]``."""
    num_servers, gpus_per_server = state.last_job.shape
    rows = position_rows(state, jobs)
    num_positions, width = rows.shape
    column = np.tile(np.arange(width), num_positions)
    scale = jnp.where(column == NUM_LEVELS, 1.0 / gpus_per_server, 1.0 / time_scale)
    values = rows.reshape(-1)
    # Submission becomes the wait; that of an empty position lies after every event, which gives 0.
    wait = jnp.maximum(state.time - values, 0)
    features = jnp.where(column == NUM_LEVELS + 1, wait, values) * scale
    if profile == "time":
        return features
    gpus, model = rows[:, NUM_LEVELS], lookup(jobs.model, state.episode, state.window)
    slowdown = slowdown_by_level(gpus, model, num_servers, gpus_per_server, saturating) / 10.0
    by_level = jnp.where(gpus[:, None] > 0, slowdown, 0.0)
    features = features.reshape(num_positions, width)
    return features.at[:, :NUM_LEVELS].set(by_level).reshape(-1)


def beyond_window(state: ClusterState, jobs: JobTables, time_scale: Array) -> Array:
    """Waiting jobs beyond the window: count / J, mean GPUs / G, mean duration and mean wait."""
    num_positions, gpus_per_server = state.window.shape[0], state.last_job.shape[-1]
    ends = lookup(jobs.sums, state.episode, jnp.stack([state.head, state.arrived]))
    gpus, long_high, long_low, submit_high, submit_low = ends[1] - ends[0]
    count = state.arrived - state.head
    unit = float(1 << LOW_BITS)
    duration = long_high * unit + long_low
    time_high, time_low = in_two(state.time)
    wait_high, wait_low = count * time_high - submit_high, count * time_low - submit_low
    wait = wait_high * unit + wait_low
    each = 1.0 / jnp.maximum(count, 1)
    return jnp.stack(
        [
            count / num_positions,
            gpus * each / gpus_per_server,
            duration * each / time_scale,
            wait * each / time_scale,
        ]
    ).astype(jnp.float32)


def queue_gpus(state: ClusterState, jobs: JobTables) -> Array:
    """GPUs demanded by all waiting jobs, int32 (Fig. 9, solid line)."""
    ends = lookup(jobs.sums, state.episode, jnp.stack([state.head, state.arrived]))
    return jnp.sum(window_gpus(state, jobs), dtype=jnp.int32) + ends[1, 0] - ends[0, 0]


def placement_now(state: ClusterState, jobs: JobTables) -> tuple[Array, Array]:
    """Level and run time (s) that packing would give each position's job now, both int32 ``[J]``.

    Meaningful where the job fits.
    """
    gpus = window_gpus(state, jobs)
    free_count = jnp.sum(is_free(state), axis=-1, dtype=jnp.int32)
    gpus_per_server = state.last_job.shape[-1]
    servers = placement.servers_for(free_count, gpus, gpus_per_server)
    level = level_of(servers - fewest_servers(gpus, gpus_per_server))
    by_level = lookup(jobs.run_time, state.episode, state.window)
    chosen = jnp.arange(NUM_LEVELS) == level[:, None]
    return level, jnp.sum(jnp.where(chosen, by_level, 0), axis=-1, dtype=jnp.int32)


def start_now(state: ClusterState, jobs: JobTables) -> Array:
    """Per position: level now / 3 and effectiveness if started now, float32 ``[J, 2]``."""
    level, run = placement_now(state, jobs)
    wait = state.time - lookup(jobs.submit_time, state.episode, state.window)
    duration = lookup(jobs.run_time, state.episode, state.window)[:, 0]
    effectiveness = duration / jnp.maximum(wait + run, 1)
    features = jnp.stack([level / (NUM_LEVELS - 1), effectiveness], axis=-1)
    return jnp.where(legal_positions(state, jobs)[:, None], features, 0.0)


def outlook_names(window: int) -> list[str]:
    """A readable name for each entry, in order."""
    return [f"position{q}.outlook.{name}" for q in range(window) for name in OUTLOOK]


def outlook(state: ClusterState, jobs: JobTables, time_scale: Array) -> Array:
    """The entries of all positions, float32 ``[J * 11]``."""
    gpus_per_server = state.last_job.shape[-1]
    rows = position_rows(state, jobs)
    duration, gpus, submit = rows[:, 0], rows[:, NUM_LEVELS], rows[:, NUM_LEVELS + 1]
    level, run = placement_now(state, jobs)
    fits = fits_now(state, gpus)
    level0 = fits & (level == 0)
    wait = jnp.maximum(state.time - submit, 0)
    until = jnp.where(level0, 0, until_level0(state, gpus))
    model = lookup(jobs.model, state.episode, state.window)
    sensitivity = jnp.asarray(SLOWDOWN_TENTHS)[model, 1] / 10.0 - 1.0
    seconds = [duration, wait, until, jnp.where(fits, run - duration, 0)]
    others = [
        *(fits, level0, fits & ~level0),
        gpus / gpus_per_server,
        left_over(state, gpus) / gpus_per_server,
        sensitivity,
        start_now(state, jobs)[:, 1],
    ]
    columns = [x.astype(jnp.float32) / time_scale for x in seconds]
    columns += [x.astype(jnp.float32) for x in others]
    entries = jnp.where((gpus > 0)[:, None], jnp.stack(columns, axis=-1), 0.0)
    return entries.reshape(-1).astype(jnp.float32)


def until_level0(state: ClusterState, gpus: Array) -> Array:
    """Seconds until each gang could start at level 0 if nothing else started, int32 ``[J]``.

    Exact for gangs of at most one server; for larger ones the time until as many servers are
    entirely free, which is the latest.
    """
    num_servers, gpus_per_server = state.last_job.shape
    remaining = jnp.maximum(finish_times(state) - state.time, 0)
    place = _ranks(remaining)[..., None] == jnp.arange(gpus_per_server)
    by_count = jnp.where(place, remaining[..., None], NEVER)  # when 1, 2, ... GPUs are free,
    first = jnp.min(by_count, axis=(0, 1))  # [G]: on the quickest server
    whole = jnp.max(remaining, axis=-1)
    rank = _ranks(whole)  # [S]: servers that are entirely free before this one
    servers = -(-gpus // gpus_per_server)
    alone = jnp.where(gpus[:, None] == jnp.arange(1, gpus_per_server + 1), first, 0)
    several = jnp.where(rank[None, :] + 1 == servers[:, None], whole, 0)
    return jnp.where(
        gpus <= gpus_per_server,
        jnp.sum(alone, axis=-1, dtype=jnp.int32),
        jnp.sum(several, axis=-1, dtype=jnp.int32),
    )


def left_over(state: ClusterState, gpus: Array) -> Array:
    """Free GPUs that stay on the tightest server that takes the rest of each gang, int32 ``[J]``.

    The rest is what does not fill a server; 0 where there is none, G where no server has as many.
    """
    gpus_per_server = state.last_job.shape[-1]
    free = jnp.sum(is_free(state), axis=-1, dtype=jnp.int32)
    rest = gpus % gpus_per_server
    spare = free[None, :] - rest[:, None]
    tightest = jnp.min(jnp.where(spare >= 0, spare, gpus_per_server), axis=-1)
    return jnp.where(rest > 0, tightest, 0)


def _ranks(values: Array) -> Array:
    """How many of a row come before each of its values, ties by index; int32, as ``values``.

    By comparing pairs, which is faster than sorting short rows.
    """
    place = jnp.arange(values.shape[-1])
    one, other = values[..., :, None], values[..., None, :]
    before = (other < one) | ((other == one) & (place < place[:, None]))
    return jnp.sum(before, axis=-1, dtype=jnp.int32)


COMING = 8
"""Jobs to come that are told, one by one."""
MOST_HOURS = 24.0


def privileged_state(state: ClusterState, jobs: JobTables, time_scale: Array) -> Array:
    """The rest of the state, float32 ``[4 + 3 * 8]``.

    Waiting jobs beyond the window and GPUs that all waiting jobs need, per GPU of the cluster;
    work on the GPUs (units of ``time_scale`` per GPU); share of the jobs still to come; and of the
    next eight of these the time until they are submitted, their ideal run times (both in units of
    ``time_scale``, cut at 24), and their GPUs per GPU of a server. Zeros where there are none.
    """
    num_gpus = state.last_job.size
    busy = jnp.maximum(finish_times(state) - state.time, 0)
    work = jnp.sum(busy.astype(jnp.float32)) / num_gpus / time_scale
    count = jobs.num_jobs[state.episode]
    index = jnp.minimum(state.arrived + jnp.arange(COMING, dtype=jnp.int32), jobs.empty_row)
    rows = lookup(jobs.shown, state.episode, index)
    there = index < count
    until = jnp.minimum((rows[:, -1] - state.time) / time_scale, MOST_HOURS)
    duration = jnp.minimum(rows[:, 0] / time_scale, MOST_HOURS)
    gpus = rows[:, NUM_LEVELS] / state.last_job.shape[-1]
    coming = jnp.where(there, jnp.stack([until, duration, gpus]), 0.0)
    totals = jnp.stack(
        [
            (state.arrived - state.head) / num_gpus,
            queue_gpus(state, jobs) / num_gpus,
            work,
            (count - state.arrived) / jnp.maximum(count, 1),
        ]
    )
    return jnp.concatenate([totals, coming.reshape(-1)]).astype(jnp.float32)
