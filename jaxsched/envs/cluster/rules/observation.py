"""Observations: without run times of unfinished jobs, unless ``sees_run_times``.

Axes: ``S`` servers, ``W`` positions, ``C`` numbers of the cluster, ``F`` numbers of a position.
Neither C nor F depends on the cluster, the window or the table, so that weights shared by the
positions play on every workload.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.envs.cluster.rules import dynamics
from jaxsched.envs.cluster.rules.dynamics import Rules, State
from jaxsched.envs.cluster.rules.tables import Jobs
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay.cluster import largest_fit
from jaxsched.trace_replay.gpu_types import UNIT
from jaxsched.trace_replay.shares import offered
from jaxsched.types import Array, Feature

CLUSTER = (
    "free",
    "largest_fit",
    "none_free",
    "quarter_free",
    "half_free",
    "most_free",
    "nearly_free",
    "wholly_free",
    "running",
    "waiting",
    "behind_window",
    "gpus_wanted",
)
"""Shares of the cluster's GPUs that are free and that one job could get; shares of servers with no
free GPUs, up to a quarter, a half, three quarters, less than all, and all of them; logarithms of
the jobs that run, wait, and wait behind the window, and of the GPUs that waiting jobs in the window
request over those of the cluster."""

POSITION = (
    "occupied",
    "fits",
    "first",
    "gpus",
    "gpus_of_server",
    "gpus_of_cluster",
    "wait",
    "estimate",
    "estimated_work",
    "owner_holds",
    "owner_waits",
    *(f"{scope}.{name}" for scope in hs.SCOPES for name in ("ended", "fast", "slow", "spread")),
)
"""Whether a job is there, waits and fits now, and is the oldest; its GPUs (logarithm, shares of a
server, at most 1, and of the cluster); seconds waited, the mean run time of its stream when it was
submitted, and this times its GPUs (logarithms); GPUs that its owner holds (share of the cluster)
and the owner's waiting jobs (logarithm); for each scope of the history the logarithm of the jobs
ended, and the recent mean, the mean and the spread of the logarithms of run times, as of now."""

OF_CLUSTER = ("restart",)
"""With suspension, behind ``CLUSTER``: the seconds of work that a suspension adds (logarithm)."""

OF_POSITION = ("runs", "attained", "service", "run", "suspensions", "priority")
"""With suspension, behind ``POSITION``: whether the job runs; seconds for which it has held GPUs so
far, these times its GPUs, seconds of its present run, how often it was suspended, and its priority
(logarithms). ``wait`` is the rest of its time in the system."""

OF_RUN_TIMES = ("run_time", "work", "slowdown", "f1_size", "f1_age")
"""Where run times are seen, behind all these: the run time, this times the GPUs and the bounded
slowdown if the job started now (logarithms); and the two parts of F1 (``trace_replay.policies``)
over 100: ``log10(run time) * GPUs``, and ``870 log10(time / submission)``. The rule ``f1`` orders
jobs by the first minus the second."""

OF_TYPES = ("speed", "best_speed")
"""Where GPUs have types, behind all these: the speed of the job on the type that it would get now,
relative to that of its run time (logarithm; 0 where it does not fit), and the same
over its speed on its fastest type."""

OF_SLOTS = ("shared_free", "largest_part")
"""Where GPUs have slots, behind the numbers of the cluster: the free slots of GPUs that jobs share
over all slots, and the largest free part of one of these GPUs. There free GPUs count by their free
slots, and ``largest_fit`` is of jobs of whole GPUs, or the largest free part of a GPU if more."""

OF_SHARES = ("part",)
"""Where GPUs have slots, behind all these: the part of a GPU that the job holds, 1 for jobs of
whole GPUs; other GPUs of a job then count in parts."""

BRIEF_S = 10.0  # shorter run times count as this long in the bounded slowdown
F1_WEIGHT, F1_UNIT = 870.0, 100.0
OCTAVES = 16.0  # logarithms are divided by this
LARGEST = 4.0  # no entry is above it: GPU-seconds are below 2**46


def logarithm(value: Array) -> Array:
    """``log2(1 + value) / 16``."""
    return jnp.log2(1.0 + value.astype(jnp.float32)) / OCTAVES


def observe(rules: Rules, state: State, jobs: Jobs, restart_s: Array) -> Array:
    """``CLUSTER``, then ``POSITION`` of each position, zeros in empty ones; ``[C + WF]``."""
    cluster, positions = of_cluster(rules, state, jobs), of_positions(rules, state, jobs)
    if rules.suspends:
        cluster = jnp.append(cluster, logarithm(restart_s))
    if rules.slots > 1:
        cluster = jnp.append(cluster, _of_slots(rules, state, jobs))
    return jnp.concatenate([cluster, positions.reshape(-1)])


def of_cluster(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``CLUSTER``, float32 ``[C]``."""
    cluster = rules.cluster
    free = dynamics.free_gpus(rules, state)
    total = float(cluster.num_gpus)
    full: Any = cluster.gpus_per_server
    if cluster.kinds:
        full = jnp.array(cluster.server_gpus, jnp.int32)
    quarter = jnp.where(free == full, 5, -(-4 * free // full))
    servers = jnp.sum(quarter[None, :] == jnp.arange(6)[:, None], axis=1) / cluster.num_servers
    wanted = jnp.sum(jnp.where(dynamics.waits(state, jobs), jobs.num_gpus[state.window], 0))
    return jnp.concatenate(
        [
            jnp.stack([jnp.sum(free), _largest_fit(rules, state, jobs, free)]) / total,
            servers,
            logarithm(
                jnp.stack(
                    [
                        state.running,
                        dynamics.num_waiting(state, jobs),
                        state.arrived - state.entered,
                    ]
                )
            ),
            logarithm(wanted / total)[None],
        ]
    ).astype(jnp.float32)


def _largest_fit(rules: Rules, state: State, jobs: Jobs, free: Array) -> Array:
    """GPUs that one job could get of these, int32 scalar; in slots, where GPUs have some."""
    if rules.slots <= 1:
        return largest_fit(rules.cluster, rules.locality, free)
    by_gpu = dynamics.free_servers(rules, state, jobs).slots
    assert by_gpu is not None
    whole = jnp.sum(offered(by_gpu, rules.slots, jnp.int32(0)), axis=0)
    return jnp.maximum(largest_fit(rules.cluster, rules.locality, whole), jnp.max(by_gpu))


def _of_slots(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``OF_SLOTS``, float32 ``[2]``."""
    by_gpu = dynamics.free_servers(rules, state, jobs).slots
    assert by_gpu is not None
    shared = jnp.where(by_gpu < rules.slots, by_gpu, 0)
    parts = jnp.sum(shared) / rules.cluster.num_gpus, jnp.max(shared) / rules.slots
    return jnp.stack(parts).astype(jnp.float32)


def _in_gpus(rules: Rules, gpus: Array) -> Array:
    """What jobs request as GPUs, where they may be slots."""
    return gpus / rules.slots if rules.slots > 1 else gpus


def of_positions(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``POSITION`` of each position, float32 ``[W, F]``."""
    rows = state.window
    occupied = rows < jobs.empty_row
    gpus, group = jobs.num_gpus[rows], jobs.group[rows]
    cluster = rules.cluster
    estimate = state.estimate[rows].astype(jnp.float32)
    waited = state.time - jobs.submit[rows]
    further: list[Array] = []
    if rules.suspends:
        account, runs = dynamics.account_of(state, rows), dynamics.runs(state)
        run = jnp.where(runs, state.time - account.last_start, 0)
        attained = account.served + run
        waited -= attained
        work = attained.astype(jnp.float32) * gpus
        numbers = (attained, work, run, account.preemptions, jobs.priority[rows])
        logarithms = [logarithm(number) for number in numbers]
        further = [jnp.stack([runs.astype(jnp.float32), *logarithms], axis=-1)]
    if rules.sees_run_times:
        further.append(_of_run_times(rules, state, jobs))
    if jobs.typed is not None:
        further.append(_of_types(rules, state, jobs))
    if rules.slots > 1:
        further.append(jnp.minimum(_in_gpus(rules, gpus), 1.0)[:, None])
    scopes = jax.vmap(lambda row: hs.of_scopes(state.history, jobs.known, row))(rows)
    unit = hs.STEPS * hs.FINE * OCTAVES
    history = jnp.stack(
        [
            logarithm(scopes.ended),
            scopes.fast / unit,
            scopes.slow / unit,
            scopes.spread / unit,
        ],
        axis=-1,
    ).reshape(rows.shape[0], -1)
    own = jnp.stack(
        [
            occupied,
            dynamics.fits(rules, state, jobs),
            jnp.arange(rows.shape[0]) == 0,
            logarithm(_in_gpus(rules, gpus)),
            jnp.minimum(gpus / cluster.gpus_per_server, 1.0),
            gpus / cluster.num_gpus,
            logarithm(waited),
            logarithm(estimate),
            logarithm(estimate * _in_gpus(rules, gpus)),
            state.held[group] / cluster.num_gpus,
            logarithm(state.queued[group]),
        ],
        axis=-1,
    )
    parts = [own.astype(jnp.float32), history.astype(jnp.float32), *further]
    seen = jnp.concatenate(parts, axis=-1)
    return jnp.where(occupied[:, None], seen, 0.0)


def _of_run_times(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``OF_RUN_TIMES`` of each position, float32 ``[W, 5]``."""
    rows = state.window
    run, gpus = jobs.duration[rows].astype(jnp.float32), _in_gpus(rules, jobs.num_gpus[rows])
    waited = (state.time - jobs.submit[rows]).astype(jnp.float32)
    slowdown = (waited + run) / jnp.maximum(run, BRIEF_S)
    since = jnp.maximum(jobs.submit[rows], 0.1).astype(jnp.float32)
    age = F1_WEIGHT * jnp.log1p(waited / since) / jnp.log(10.0)
    columns = [
        logarithm(run),
        logarithm(run * gpus),
        logarithm(slowdown),
        jnp.log10(jnp.maximum(run, 0.1)) * gpus / F1_UNIT,
        age / F1_UNIT,
    ]
    return jnp.clip(jnp.stack(columns, axis=-1), 0.0, LARGEST)


def _of_types(rules: Rules, state: State, jobs: Jobs) -> Array:
    """``OF_TYPES`` of each position, float32 ``[W, 2]``."""
    assert jobs.typed is not None
    rows, free = state.window, dynamics.free_servers(rules, state, jobs)
    kinds = dynamics.kinds(rules, state, jobs, free, rows)[:, None]
    speed, slowdown = (
        jnp.take_along_axis(column[rows], kinds, axis=1)[:, 0].astype(jnp.float32) / UNIT
        for column in (jobs.typed.speed, jobs.typed.slowdown)
    )
    has_room = dynamics.fits(rules, state, jobs)[:, None]
    return jnp.where(has_room, jnp.stack([logarithm(speed), 1.0 / slowdown], axis=-1), 0.0)


def unbatched(
    *,
    suspends: bool,
    sees_run_times: bool = False,
    has_types: bool = False,
    has_slots: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the entries of the cluster, and of a position."""
    cluster: tuple[str, ...] = CLUSTER
    position: tuple[str, ...] = POSITION
    if suspends:
        cluster, position = cluster + OF_CLUSTER, position + OF_POSITION
    if sees_run_times:
        position += OF_RUN_TIMES
    if has_types:
        position += OF_TYPES
    if has_slots:
        cluster, position = cluster + OF_SLOTS, position + OF_SHARES
    return cluster, position


def _names_of(rules: Rules) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``unbatched`` for these rules."""
    return unbatched(
        suspends=rules.suspends,
        sees_run_times=rules.sees_run_times,
        has_types=bool(rules.cluster.gpu_types),
        has_slots=rules.slots > 1,
    )


def names(rules: Rules) -> tuple[str, ...]:
    """Names of an observation's entries."""
    cluster, position = _names_of(rules)
    return (*cluster, *(f"position{q}.{name}" for q in range(rules.window) for name in position))


_OCTAVES = "log2(1 + x)"
_OF_CLUSTER = {
    "free": ("free GPUs over those of the cluster", "1", 1.0),
    "largest_fit": ("GPUs that one job could get over those of the cluster", "1", 1.0),
    "none_free": ("share of servers without free GPUs", "1", 1.0),
    "quarter_free": ("share of servers with up to a quarter of their GPUs free", "1", 1.0),
    "half_free": ("share of servers with more, up to a half", "1", 1.0),
    "most_free": ("share of servers with more, up to three quarters", "1", 1.0),
    "nearly_free": ("share of servers with more, but not all", "1", 1.0),
    "wholly_free": ("share of servers with all GPUs free", "1", 1.0),
    "running": ("jobs that run", _OCTAVES, OCTAVES),
    "waiting": ("jobs that wait", _OCTAVES, OCTAVES),
    "behind_window": ("jobs that wait behind the window", _OCTAVES, OCTAVES),
    "gpus_wanted": ("GPUs that waiting jobs in the window request over the cluster's", _OCTAVES,
                    OCTAVES),
    "restart": ("seconds of work that a suspension adds", _OCTAVES, OCTAVES),
    "shared_free": ("free slots of GPUs that jobs share over all slots", "1", 1.0),
    "largest_part": ("largest free part of a GPU that jobs share", "1", 1.0),
}  # fmt: skip
_OF_POSITION = {
    "occupied": ("1 for a job, else 0", "1", 1.0),
    "fits": ("1 if it waits and could start now", "1", 1.0),
    "first": ("1 for the oldest job", "1", 1.0),
    "gpus": ("GPUs of the job", _OCTAVES, OCTAVES),
    "gpus_of_server": ("its GPUs over those of a server, at most 1", "1", 1.0),
    "gpus_of_cluster": ("its GPUs over those of the cluster", "1", 1.0),
    "wait": ("seconds waited", _OCTAVES, OCTAVES),
    "estimate": ("mean run time (s) of its stream when it was submitted", _OCTAVES, OCTAVES),
    "estimated_work": ("this times its GPUs", _OCTAVES, OCTAVES),
    "owner_holds": ("GPUs that its owner holds over those of the cluster", "1", 1.0),
    "owner_waits": ("jobs of its owner that wait", _OCTAVES, OCTAVES),
    "runs": ("1 where the job runs", "1", 1.0),
    "attained": ("seconds for which it has held GPUs", _OCTAVES, OCTAVES),
    "service": ("GPU-seconds that it has held", _OCTAVES, OCTAVES),
    "run": ("seconds of its present run", _OCTAVES, OCTAVES),
    "suspensions": ("its suspensions so far", _OCTAVES, OCTAVES),
    "priority": ("its priority", _OCTAVES, OCTAVES),
    "run_time": ("seconds that the job will run", _OCTAVES, OCTAVES),
    "work": ("this times its GPUs", _OCTAVES, OCTAVES),
    "slowdown": ("its bounded slowdown if it started now", _OCTAVES, OCTAVES),
    "f1_size": ("log10(run time) times its GPUs", "1", F1_UNIT),
    "f1_age": ("870 log10(time / submission)", "1", F1_UNIT),
    "speed": (
        "its speed on the GPUs that it would get now, over that of its run time",
        _OCTAVES,
        OCTAVES,
    ),
    "best_speed": ("this over its speed on its fastest GPUs", "1", 1.0),
    "part": ("part of a GPU that it holds, 1 for jobs of whole GPUs", "1", 1.0),
}
_LIKE = {"all": "all jobs", "owner": "jobs of its owner", "size": "jobs of its GPUs",
         "stream": "jobs of its owner and GPUs"}  # fmt: skip
_OF_SCOPE = {
    "ended": ("that have ended", _OCTAVES),
    "fast": ("recent mean of the logarithm of run times (s)", "octaves"),
    "slow": ("mean of the logarithm of run times (s)", "octaves"),
    "spread": ("its spread", "octaves"),
}


def features(rules: Rules) -> dict[str, Feature]:
    """Meaning of each entry, by its name with ``*`` for the position."""
    cluster, position = _names_of(rules)
    found = {name: Feature(*_OF_CLUSTER[name]) for name in cluster}
    for name in position:
        scope, dot, statistic = name.partition(".")
        if dot:
            words, unit = _OF_SCOPE[statistic]
            found[f"position*.{name}"] = Feature(f"{_LIKE[scope]}: {words}", unit, OCTAVES)
        else:
            found[f"position*.{name}"] = Feature(*_OF_POSITION[name])
    return found
