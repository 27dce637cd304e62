"""What a scheduler that is told no run times knows of a job when it is submitted: the jobs before.

A job belongs to four **scopes**: all jobs, those of its owner (``group``), those of its number of
GPUs, and those of both, its stream. Every scope has a row of statistics over the jobs that have
ended so far in this very schedule. Everything is a whole number, so that replays are exact.

Axes: ``n`` jobs, ``R`` rows of statistics (the last one of no job), ``E`` edges of run time,
``F`` features.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.jobs import Integers
from jaxsched.types import Array

SCOPES = ("all", "owner", "size", "stream")
RATES = (256, 64, 128, 16)
"""Statistics are means over all jobs ended until there are so many, then fade at one over that."""
FAST_RATE = 3

EDGES = tuple(30 * 2**k for k in range(16))
"""Seconds that bound the bins in which run times are counted: 30 s to eleven days."""
SHARE = 2**15  # shares of jobs are in units of one over this

STEPS = 8  # logarithms are whole steps of an eighth of an octave
_POWERS = tuple(int(np.ceil(2 ** (k / STEPS))) for k in range(1, 31 * STEPS))
FINE = 64  # means of logarithms are in 64ths of a step
_UNKNOWN_LOG = 11 * STEPS * FINE
_UNKNOWN_SPREAD = 2 * STEPS * FINE
_UNKNOWN_MEAN_S = 2**11


class Statistics(NamedTuple):
    """A row, or rows, of the table; int32. All but the last are one column each.

    Attributes:
      ended: jobs that have ended.
      fast: recent mean of the logarithm of run times, in 64ths of a step.
      slow: mean of it.
      spread: mean distance from ``slow``.
      mean_s: mean run time, seconds.
      newest: number within the scope of the job submitted last among the ended ones.
      newest_log: the logarithm of its run time, in 64ths of a step.
      shares: ``[..., E + 1]``, shares of run times by bin.
    """

    ended: Any
    fast: Any
    slow: Any
    spread: Any
    mean_s: Any
    newest: Any
    newest_log: Any
    shares: Any


class Known(NamedTuple):
    """What is known of the jobs in advance, int32; no columns for policies without history.

    Attributes:
      scopes: ``[n + 1, 4]``, rows of a job's scopes.
      number: ``[n + 1, 4]``, jobs of the scope submitted before.
      traits: ``[n + 1, 9]``: the logarithms of its GPUs, of those four numbers and of the four
        gaps (s) since the scope's last submission.
      steps: ``[n + 1]``, logarithm of the run time, which is read once the job has ended.
    """

    scopes: Any
    number: Any
    traits: Any
    steps: Any


class Siblings(NamedTuple):
    """Running jobs of a job's stream, int32 scalars; zeros where there are none."""

    count: Any
    newest_attained: Any  # seconds that the one submitted last has held its GPUs
    most_attained: Any


class Seen(NamedTuple):
    """What a scorer is told of a job; int32.

    Attributes:
      num_gpus: scalar.
      submit: scalar, seconds.
      features: ``[F]``.
    """

    num_gpus: Any
    submit: Any
    features: Any


NUM_FEATURES = 9 + 4 * (7 + len(EDGES) + 1) + 4


def logarithm(values: Array) -> Array:
    """Whole steps, eight per octave, of whole numbers from 0 on; 0 and 1 give 0. int32."""
    return jnp.searchsorted(jnp.array(_POWERS, jnp.int32), values, side="right").astype(jnp.int32)


def host_logarithm(values: Integers) -> Integers:
    """``logarithm`` of numpy arrays."""
    return np.searchsorted(np.array(_POWERS), values, side="right")


def known(submit: Integers, num_gpus: Integers, duration: Integers, group: Integers) -> Known:
    """What statistics and features need of each job; int64 without the row of no job.

    Args:
      submit: seconds ``[n]``, in order.
      num_gpus: ``[n]``.
      duration: seconds ``[n]``.
      group: owners ``[n]``.
    """
    everyone = np.zeros_like(group)
    keys = ((everyone, everyone), (group, everyone), (everyone, num_gpus), (group, num_gpus))
    scopes, numbers, gaps, rows = [], [], [], 0
    for pair in keys:
        found = np.unique(np.stack(pair, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        scopes.append(found + rows)
        rows += int(found.max()) + 1
        number, gap = _earlier(found, submit)
        numbers.append(number)
        gaps.append(gap)
    traits = [num_gpus, *(number + 1 for number in numbers), *(gap + 1 for gap in gaps)]
    return Known(
        np.stack(scopes, axis=1),
        np.stack(numbers, axis=1),
        np.stack([host_logarithm(trait) for trait in traits], axis=1),
        host_logarithm(duration),
    )


def _earlier(scope: Integers, submit: Integers) -> tuple[Integers, Integers]:
    """Jobs of the same scope before, and seconds since the last one (2**30 - 1 for the first)."""
    order = np.argsort(scope, kind="stable")
    first = np.r_[True, np.diff(scope[order]) > 0]
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    number, gap = np.empty_like(scope), np.empty_like(scope)
    number[order] = np.arange(len(order)) - start
    gap[order] = np.where(first, 2**30 - 1, np.diff(submit[order], prepend=0))
    return number, gap


def nothing_yet(num_rows: int) -> Array:
    """The table before any job has ended, int32 ``[R, 7 + E + 1]``."""
    bins = len(EDGES) + 1
    row = [0, _UNKNOWN_LOG, _UNKNOWN_LOG, _UNKNOWN_SPREAD, _UNKNOWN_MEAN_S, -1, _UNKNOWN_LOG]
    return jnp.tile(jnp.array(row + [SHARE // bins] * bins, jnp.int32), (num_rows, 1))


def statistics(table: Array) -> Statistics:
    """The columns of a table or of some of its rows."""
    single = len(Statistics._fields) - 1
    columns: list[Any] = [table[..., k] for k in range(single)]
    return Statistics._make([*columns, table[..., single:]])


def completed(table: Array, jobs: Known, job: Array, duration: Array) -> Array:
    """The table after a job has ended; unchanged but for the row of no job where there is none.

    Args:
      table: int32 ``[R, C]``.
      jobs: what is known.
      job: int32 scalar, n for none.
      duration: int32 scalar, its run time, seconds.
    """
    scopes = jobs.scopes[job]
    old = statistics(table[scopes])
    log = jobs.steps[job] * FINE
    count = old.ended + 1
    rate = jnp.minimum(count, jnp.array(RATES))
    newer = jobs.number[job] > old.newest
    bins = jnp.arange(len(EDGES) + 1) == jnp.sum(duration > jnp.array(EDGES))
    new = Statistics(
        ended=count,
        fast=old.fast + (log - old.fast) // jnp.minimum(count, FAST_RATE),
        slow=old.slow + (log - old.slow) // rate,
        spread=old.spread + (jnp.abs(log - old.slow) - old.spread) // rate,
        mean_s=old.mean_s + (duration - old.mean_s) // rate,
        newest=jnp.where(newer, jobs.number[job], old.newest),
        newest_log=jnp.where(newer, log, old.newest_log),
        shares=old.shares + (SHARE * bins - old.shares) // rate[:, None],
    )
    return table.at[scopes].set(jnp.column_stack(new))


def of_scopes(table: Array, jobs: Known, job: Array) -> Statistics:
    """A job's statistics, ``[4]`` each; a scope in which no job has ended has the one before."""
    rows = list(table[jobs.scopes[job]])
    for k in range(1, len(rows)):
        rows[k] = jnp.where(rows[k][0] > 0, rows[k], rows[k - 1])
    return statistics(jnp.stack(rows))


def features(table: Array, jobs: Known, job: Array, siblings: Siblings, waiting: Array) -> Array:
    """What is known of a job at its submission, int32 ``[F]``.

    Traits; for each scope, the number ended and unfinished, ``fast``, ``slow``, ``spread``,
    ``newest_log``, how many submissions ago the newest was, and the shares; siblings; jobs that
    wait. Numbers and seconds are logarithms.
    """
    found = of_scopes(table, jobs, job)
    own = statistics(table[jobs.scopes[job]])
    scopes = jnp.column_stack(
        [
            logarithm(own.ended + 1),
            logarithm(jobs.number[job] - own.ended + 1),
            found.fast,
            found.slow,
            found.spread,
            found.newest_log,
            logarithm(jobs.number[job] - own.newest),
            found.shares,
        ]
    )
    seconds = [siblings.newest_attained + 1, siblings.most_attained + 1]
    rest = logarithm(jnp.stack([siblings.count + 1, *seconds, waiting + 1]))
    return jnp.concatenate([jobs.traits[job], scopes.reshape(-1), rest])
