"""The window: which jobs a decision is about (specification, section 3.4).

With ``first`` sampling the window holds the first N jobs that have not started, *pending or still
to be submitted*: the pending ones come first, and nothing needs to be done when a job arrives.
With ``random`` sampling it holds pending jobs only, drawn anew at every event.

Axes: ``N`` positions, ``V`` words of 32 jobs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.envs.das.simulator.execution import as_words
from jaxsched.envs.das.simulator.placement import Demand
from jaxsched.envs.das.simulator.tables import CPUS, GPUS, INSTANCES, MEM, SUBMIT, Params, row_of
from jaxsched.ops import bit_sets as bits
from jaxsched.types import Array, PRNGKey


class Window(NamedTuple):
    """Jobs of the window in table order, those that are not there last.

    Attributes:
      job: int32 ``[N]``, place in the episode.
      rows: int32 ``[8, N]``, their table rows; submission ``NEVER`` in positions without a job.
    """

    job: Array
    rows: Array

    @property
    def submit(self) -> Array:
        """Submission times, int32 ``[N]``."""
        return self.rows[SUBMIT]

    @property
    def demand(self) -> Demand:
        """What the jobs ask for, leaves ``[N]``; nothing in positions without a job."""
        return demand_of(self.rows)


class Draws(NamedTuple):
    """What random windows are drawn from.

    Attributes:
      key: of the episode.
      events: int32, events so far.
      submitted: int32, jobs submitted so far.
      pending: uint32 ``[V]``, the set of pending jobs.
    """

    key: PRNGKey
    events: Array
    submitted: Array
    pending: Array


def demand_of(rows: Array) -> Demand:
    """What table rows int32 ``[8, ...]`` ask for."""
    instances, gpus, cpus, mem = (
        rows[column].astype(jnp.float32) for column in (INSTANCES, GPUS, CPUS, MEM)
    )
    return Demand(instances, gpus, cpus, mem)


def window_of(params: Params, episode: Array, job: Array) -> Window:
    """The window of these jobs (int32 ``[N]``); none where the number is beyond the last job's."""
    return Window(job, row_of(params, episode, job))


def refill(
    params: Params, episode: Array, window: Window, placed: Array, entered: Array
) -> tuple[Window, Array]:
    """Close the gaps of placed jobs and append the next ones in table order.

    Args:
      params: the tables.
      episode: which episode.
      window: before the decision.
      placed: bool ``[N]``, jobs that were placed.
      entered: int32, jobs of the episode that were ever in the window.

    Returns:
      The window, and ``entered`` afterwards.
    """
    size = placed.shape[0]
    place = jnp.arange(size, dtype=jnp.int32)
    source = bits.nth(as_words(~placed), place, missing=size)
    stays = source < size
    old = window.job.at[jnp.minimum(source, size - 1)].get(mode="promise_in_bounds")
    staying = size - jnp.sum(placed, dtype=jnp.int32)
    job = jnp.where(stays, old, entered + place - staying)
    return window_of(params, episode, job), entered + size - staying


def as_set(params: Params, first: Array, end: Array) -> Array:
    """The set of the jobs ``first .. end - 1``, uint32 ``[V]``."""
    words = -(-params.max_jobs // bits.WORD)
    start = bits.WORD * jnp.arange(words, dtype=jnp.int32)
    return bits.below(end - start) & ~bits.below(first - start)


def without(pending: Array, job: Array, leaves: Array) -> Array:
    """The set without the jobs (int32 ``[N]``) that are marked (bool ``[N]``)."""
    words = jnp.arange(pending.shape[0], dtype=jnp.int32)
    here = (job[None, :] // bits.WORD == words[:, None]) & leaves[None, :]
    bit = jnp.left_shift(jnp.uint32(1), (job % bits.WORD).astype(jnp.uint32))
    return pending & ~jnp.sum(jnp.where(here, bit[None, :], 0), axis=1, dtype=jnp.uint32)


def draw_window(params: Params, episode: Array, draws: Draws, size: int) -> Window:
    """``size`` of the pending jobs, uniformly without replacement, in table order.

    Floyd's algorithm draws the ranks among the pending jobs; where there are not more than
    ``size`` jobs, all are taken.
    """
    number = jnp.sum(bits.count(draws.pending), dtype=jnp.int32)
    share = jax.random.uniform(jax.random.fold_in(draws.key, draws.events), (size,), jnp.float32)
    place = jnp.arange(size, dtype=jnp.int32)
    surplus = jnp.maximum(number - size, 0)

    def draw(k: Array, chosen: Array) -> Array:
        last = surplus + k
        rank = jnp.minimum((share[k] * (last + 1)).astype(jnp.int32), last)
        taken = jnp.any((chosen == rank) & (place < k))
        return jnp.where(place == k, jnp.where(taken, last, rank), chosen)

    chosen = jax.lax.fori_loop(0, size, draw, jnp.zeros(size, jnp.int32))
    chosen = jnp.where(surplus > 0, chosen, place)
    below = jnp.sum(chosen[None, :] < chosen[:, None], axis=-1, dtype=jnp.int32)
    found = jnp.where(below[None, :] == place[:, None], chosen[None, :], 0)
    ranks = jnp.sum(found, axis=-1, dtype=jnp.int32)
    return window_of(params, episode, nth_pending(draws.pending, ranks, params.max_jobs))


def nth_pending(pending: Array, ranks: Array, missing: int) -> Array:
    """The jobs of these ranks (int32 ``[N]``) in the set, ``missing`` where there are none."""
    counts = bits.count(pending)
    until = jnp.cumsum(counts, dtype=jnp.int32)
    word = jnp.sum(until[None, :] <= ranks[:, None], axis=-1, dtype=jnp.int32)
    found = word < pending.shape[0]
    word = jnp.minimum(word, pending.shape[0] - 1)
    left = ranks - (until - counts)[word]
    bit = jax.vmap(lambda one, which: bits.nth(one[None], which, missing=0))(pending[word], left)
    return jnp.where(found, bits.WORD * word + bit, missing)
