"""The six baselines of the SCHED2 paper and the reference policies (section 9).

All use packing and choose among the jobs of the environment's window: build the environment with
the baseline's window (``window = n`` lets it see the whole queue). A rule ranks the jobs by a key
(ties: lower position, that is the older job); in mode ``skip`` jobs that do not fit are passed
over, in mode ``block`` the first job in rank waits until it fits.
"""

from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp

from jaxsched.core.policies import Policy, View, no_memory, one_of
from jaxsched.envs.sched2.delay_rule import choose, tuned_rule
from jaxsched.envs.sched2.dynamics import ClusterState, is_free, legal_positions, window_gpus
from jaxsched.envs.sched2.environment import Params
from jaxsched.envs.sched2.observation import TIME_SCALE_S, placement_now
from jaxsched.envs.sched2.outlook import OUTLOOK, outlook
from jaxsched.envs.sched2.tables import JobTables, lookup
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

Mode = Literal["skip", "block"]
MODES = get_args(Mode)
MAX_DELAYS = 3  # DSIF delays a job at most this often
LAST = jnp.iinfo(jnp.int32).max


def _by_age(state: ClusterState, jobs: JobTables) -> Array:
    del jobs
    return jnp.arange(state.window.shape[0])


def _by_duration(state: ClusterState, jobs: JobTables) -> Array:
    return lookup(jobs.run_time, state.episode, state.window)[:, 0]


def _by_actual_time(state: ClusterState, jobs: JobTables) -> Array:
    return placement_now(state, jobs)[1]


def _by_work(state: ClusterState, jobs: JobTables) -> Array:
    """GPU time in int32: exact for 120 GPUs and jobs of up to 200 days."""
    return window_gpus(state, jobs) * _by_duration(state, jobs)


KEYS: dict[str, Callable[[ClusterState, JobTables], Array]] = {
    "fifo": _by_age,  # first in, first out
    "sif": _by_duration,  # shortest ideal time first
    "dsif": _by_duration,  # the same, delaying jobs that would be split
    "saf": _by_actual_time,  # shortest actual time first (knows the run time of each placement)
    "lrf": window_gpus,  # least required GPUs first
    "spf": _by_work,  # smallest product of GPUs and time first
}
BASELINES = tuple(KEYS)
STRICT_KEYS = {"strict": _by_age, "strict_sif": _by_duration}
DELAY = "delay"
REFERENCES = (*STRICT_KEYS, DELAY)


class Delays(NamedTuple):
    """Memory of DSIF."""

    times: Array  # int32 [n + 1], how often each job was delayed
    held_at: Array  # int32 [n + 1], instant at which it was last delayed, -1 before


@cache
def baseline(name: str, mode: Mode = "skip") -> Policy:
    """The policy of that name, the same object at each call: evaluations are compiled for it.

    Raises:
      JaxschedError: unknown name or mode.
    """
    if name not in BASELINES + REFERENCES:
        known = ", ".join(BASELINES + REFERENCES)
        raise JaxschedError(f"sched2: unknown policy {name!r}; known are {known}")
    if mode not in MODES:
        raise JaxschedError(f"sched2: unknown baseline mode {mode!r}; known are {', '.join(MODES)}")
    if name == DELAY:
        act = delayed_by().act
        return Policy(name, no_memory, lambda _, *rest: act(tuned_rule(), *rest), privileged=True)
    if name in STRICT_KEYS:
        return Policy(name, no_memory, _strict(STRICT_KEYS[name]), privileged=True)
    if name == "dsif":
        return Policy(name, _no_delays, _delayed(mode), privileged=True)
    return Policy(name, no_memory, _ranked(KEYS[name], mode), privileged=True)


def numbered(name: str, mode: Mode = "skip") -> int:
    """Number of a policy as ``any_baseline`` counts them."""
    names = BASELINES + REFERENCES
    return names.index(baseline(name, mode).name) * len(MODES) + MODES.index(mode)


@cache
def any_baseline() -> Policy:
    """All policies in all modes as one, whose weights are a number: compiled once for all."""
    names = BASELINES + REFERENCES
    return one_of(tuple(baseline(name, mode) for name in names for mode in MODES))


@cache
def delayed_by() -> Policy:
    """The delay rule whose numbers are the policy's weights (``delay_rule.DelayRule``)."""

    def act(rule: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del key
        state, jobs = view.state, view.params.jobs
        entries = outlook(state, jobs, jnp.float32(TIME_SCALE_S))
        entries = entries.reshape(state.window.shape[0], len(OUTLOOK))
        empty = jnp.sum(jnp.all(is_free(state), axis=-1))
        return choose(rule, entries, empty, state.last_job.shape[-1]), memory

    return Policy(DELAY, no_memory, act, privileged=True)


def _void(state: ClusterState) -> Array:
    return jnp.int32(state.window.shape[0])


def _first(key: Array, candidates: Array) -> tuple[Array, Array]:
    """Position of the smallest key among the candidates, and whether there is any candidate."""
    position = jnp.argmin(jnp.where(candidates, key, LAST)).astype(jnp.int32)
    return position, jnp.any(candidates)


def _candidates(state: ClusterState, jobs: JobTables, mode: Mode) -> Array:
    return legal_positions(state, jobs) if mode == "skip" else state.window != jobs.empty_row


def _ranked(key_of: Callable[[ClusterState, JobTables], Array], mode: Mode) -> Callable:
    if key_of is _by_actual_time:
        mode = "skip"  # the key is only defined for jobs that fit

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        state, jobs = view.state, view.params.jobs
        position, found = _first(key_of(state, jobs), _candidates(state, jobs, mode))
        starts = found & legal_positions(state, jobs)[position]
        return jnp.where(starts, position, _void(state)), memory

    return act


def _no_delays(params: Params) -> Delays:
    n = params.jobs.empty_row + 1
    return Delays(jnp.zeros((n,), jnp.int32), jnp.full((n,), -1, jnp.int32))


def _delayed(mode: Mode) -> Callable:
    """DSIF: a job whose placement now would be split is delayed at most three times.

    At most once per instant. Nothing changes between the delays of one instant, so they are taken
    all at once: all such jobs that rank before the first job that need not be delayed.
    """

    def act(weights: PyTree, memory: Delays, view: View, key: PRNGKey) -> tuple[Array, Delays]:
        del weights, key
        state, jobs = view.state, view.params.jobs
        fits, rank, job = legal_positions(state, jobs), _by_duration(state, jobs), state.window
        level, _ = placement_now(state, jobs)
        candidates = _candidates(state, jobs, mode) & (memory.held_at[job] != state.time)
        delayed = candidates & fits & (level > 0) & (memory.times[job] < MAX_DELAYS)
        position, found = _first(rank, candidates & ~delayed)
        positions = jnp.arange(rank.shape[0])
        before = (rank < rank[position]) | ((rank == rank[position]) & (positions < position))
        held = delayed & (before | ~found)
        starts = found & fits[position]
        times = memory.times.at[job].add(held.astype(jnp.int32))
        held_at = memory.held_at.at[job].max(jnp.where(held, state.time, -1))
        return jnp.where(starts, position, _void(state)), Delays(times, held_at)

    return act


def _strict(key_of: Callable[[ClusterState, JobTables], Array]) -> Callable:
    """The first by its key of the window's jobs that would start at level 0 now, otherwise void."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        state, jobs = view.state, view.params.jobs
        level, _ = placement_now(state, jobs)
        ready = legal_positions(state, jobs) & (level == 0)
        position, found = _first(key_of(state, jobs), ready)
        return jnp.where(found, position, _void(state)), memory

    return act
