"""The six baselines of the SCHED2 paper and the reference policies (section 9).

All use packing and choose among the jobs of the environment's window: build the environment with
the baseline's window (``window = n`` lets it see the whole queue). A rule ranks the jobs by a key
(ties: lower position, that is the older job); in mode ``skip`` jobs that do not fit are passed
over, in mode ``block`` the first job in rank waits until it fits.

The reference policy ``delay`` is delay scheduling with tuned patience, 17 numbers (section 12). A
job of the window may start now if it fits and

    it would start at level 0, or has waited for ``patience`` times its ideal run time,
    where patience depends on its class (sensitive or not) and size, and
    it is smaller than a server and would open an entirely free one: more of these than
    ``reserve`` are left.

The one of the highest priority starts, a weighted sum of what is known of each; if there is none,
nothing starts. ``delay_rule.json`` has the numbers that a search on training traces found
(``python -m benchmarks.once.sched2_delay_rule``). Axes: ``J`` positions, ``C = 2`` classes
(insensitive, sensitive), ``Z = 4`` sizes (up to 2, 4 and 8 GPUs, more).
"""

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory, one_of
from jaxsched.envs.sched2.environment import Params
from jaxsched.envs.sched2.rules import JobTables, lookup
from jaxsched.envs.sched2.rules.dynamics import ClusterState, is_free, legal_positions, window_gpus
from jaxsched.envs.sched2.rules.observation import OUTLOOK, TIME_SCALE_S, outlook, placement_now
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
    """The delay rule whose numbers are the policy's weights (``DelayRule``)."""

    def act(rule: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del key
        state, jobs = view.state, view.params.jobs
        entries = outlook(state, jobs, jnp.float32(TIME_SCALE_S))
        entries = entries.reshape(state.window.shape[0], len(OUTLOOK))
        empty = jnp.sum(jnp.all(is_free(state), axis=-1))
        return delay_choice(rule, entries, empty, state.last_job.shape[-1]), memory

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


SIZES = (2, 4, 8)  # largest demands of the first classes of sizes
SENSITIVE = 1.0  # a slowdown at level 1 of this much above 1 and more
PRIORITIES = ("duration", "wait", "demand", "sensitivity", "left_over", "effectiveness", "age")
FILE = "delay_rule.json"


class DelayRule(NamedTuple):
    """The numbers of the rule, float32."""

    patience: Array | np.ndarray  # [C, Z], logarithm of multiples of the ideal run time
    reserve: Array | np.ndarray  # [2], servers, for jobs of one GPU and of more
    priority: Array | np.ndarray  # [7], weights of PRIORITIES


def strict_rule() -> DelayRule:
    """Close to ``strict_sif``: split after twenty run times only, no reserve, shortest first."""
    weights = [-1.0 if name == "duration" else 0.0 for name in PRIORITIES]
    return DelayRule(
        jnp.full((2, len(SIZES) + 1), 3.0), jnp.full(2, -0.5), jnp.array(weights, jnp.float32)
    )


@cache
def tuned_rule() -> DelayRule:
    """The rule that the search found (numpy arrays)."""
    text = (resources.files("jaxsched.envs.sched2") / FILE).read_text(encoding="utf-8")
    found = json.loads(text)["rule"]
    return DelayRule(*(np.asarray(found[name], np.float32) for name in DelayRule._fields))


def delay_choice(rule: DelayRule, entries: Array, empty: Array, gpus_per_server: int) -> Array:
    """Position of the job that starts, or J if none does; int32 scalar.

    Args:
      rule: the numbers.
      entries: float32 ``[J, 11]``, the window's outlook.
      empty: int32 scalar, servers that are entirely free.
      gpus_per_server: G.
    """
    of = {name: entries[:, i] for i, name in enumerate(OUTLOOK)}
    gpus = of["demand"] * gpus_per_server
    size = sum((gpus > most).astype(jnp.int32) for most in SIZES)
    sensitive = (of["sensitivity"] >= SENSITIVE).astype(jnp.int32)
    patience = jnp.exp(jnp.asarray(rule.patience)[sensitive, size])
    waited = of["wait"] >= patience * of["duration"]
    left = of["left_over"] * gpus_per_server
    opens = (gpus < gpus_per_server) & (jnp.abs(left + gpus - gpus_per_server) < 0.5)
    reserve = jnp.asarray(rule.reserve)[(gpus > 1.5).astype(jnp.int32)]
    ready = (of["fits"] > 0) & ((of["level0"] > 0) | waited) & ~(opens & (empty <= reserve))
    num = entries.shape[0]
    known = {
        **of,
        "duration": jnp.log(jnp.maximum(of["duration"], 1e-6)),
        "wait": jnp.log1p(of["wait"] / jnp.maximum(of["duration"], 1e-6)),
        "age": -jnp.arange(num) / num,
    }
    score = jnp.stack([known[name] for name in PRIORITIES], axis=-1) @ jnp.asarray(rule.priority)
    best = jnp.argmax(jnp.where(ready, score, -jnp.inf)).astype(jnp.int32)
    return jnp.where(jnp.any(ready), best, num)
