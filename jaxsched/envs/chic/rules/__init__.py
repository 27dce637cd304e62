"""Workload tables and speed tables of Chic: everything the dynamics look up.

Axes: ``K`` tables, ``n`` workloads (padded), ``M`` = 3 types, ``W`` and ``P`` the most workers and
parameter servers (PS) that one workload can hold. Each table ends with one empty row, index ``n``:
no iterations, never submitted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxsched.elastic.jobs import CHIC_JOBS
from jaxsched.elastic.models import CHIC_COEFFICIENTS, PS_NEEDS, WORKER_NEEDS
from jaxsched.elastic.resources import find_unfit
from jaxsched.elastic.speed import speed_table
from jaxsched.errors import JaxschedError
from jaxsched.jobs import NO_SUBMISSION, JobTable, stack_tables, validate
from jaxsched.ops.arrays import to_device
from jaxsched.ops.bisection import count_from
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.options import parameters
from jaxsched.types import Array, PRNGKey

NUM_MODELS = len(CHIC_COEFFICIENTS)
WORKERS, SERVERS = WORKER_NEEDS[:NUM_MODELS], PS_NEEDS[:NUM_MODELS]
NO_GAIN_S = 1e-9  # seconds per iteration: an allocation that gains no more is as fast as it gets
LATEST_DRAWN_S = float(NO_SUBMISSION // 2)  # far from where float32 cannot tell seconds apart
PART_BITS = 12  # of the lower part of summed submission times
MODEL_BITS = 2  # low bits of a packed workload


class JobTables(NamedTuple):
    """A stack of workload tables.

    Attributes:
      submit_time: float ``[K, n + 1]``, seconds; 2**30 beyond the last workload.
      submit_sum: int32 ``[K, n + 1, 2]``, sum of the submission times before each row: whole
        seconds in units of 2**12 s, and what is left; only differences count, sums may wrap round.
      fraction_sum: float ``[K, n + 1]``, the same of their fractions of a second.
      workload: int32 ``[K, n + 1]``, iterations and type side by side (``unpack``); 0 beyond.
      num_jobs: int32 ``[K]``.
      at_start: int32 ``[K]``, workloads submitted together with the first.
    """

    submit_time: Array
    submit_sum: Array
    fraction_sum: Array
    workload: Array
    num_jobs: Array
    at_start: Array

    @property
    def empty_row(self) -> int:
        """Index of the row that stands for no workload."""
        return self.submit_time.shape[-1] - 1


class Params(NamedTuple):
    """What may change without recompiling; floats are of JAX's default type.

    Attributes:
      jobs: the stack of workload tables; an episode is an index into it.
      draw: int32 ``[2]``, resets draw among ``draw[1]`` episodes from ``draw[0]`` on.
      seconds: ``[M, W + 2, P + 2]``, seconds per iteration with ``w`` workers and ``p`` PS
        (infinite without one of either).
      settled: bool ``[M, W + 2, P + 2]``, no further unit makes an iteration faster
        (condition 2 of the paper).
      time_unit: seconds of completion time that cost 1 of reward.
      p1: penalty for choosing a row without workload.
      p2: penalty for a first unit, given back once there is a worker and a PS.
      decision_seconds: how long each decision takes.
      stall_seconds: seconds without training before the next decisions.
      iter_scale: remaining iterations that count as 1 in the observation.
      alloc_scale: units that count as 1.
      backlog_scale: waiting workloads that count as 1.
      max_time: seconds, truncates an episode.
      interval: seconds between the decisions of ``OptimusIntervals``.
    """

    jobs: JobTables
    draw: Array
    seconds: Array
    settled: Array
    time_unit: Array
    p1: Array
    p2: Array
    decision_seconds: Array
    stall_seconds: Array
    iter_scale: Array
    alloc_scale: Array
    backlog_scale: Array
    max_time: Array
    interval: Array


SCALARS: dict[str, float] = {
    "time_unit": 1200.0,
    "p1": 5.0,
    "p2": 1.0,
    "decision_seconds": 0.0,
    "stall_seconds": 1200.0,
    "iter_scale": 100.0,
    "alloc_scale": 10.0,
    "backlog_scale": 10.0,
    "max_time": 1e7,
    "interval": 600.0,
}
"""The real numbers among ``Params`` and the paper's values (section 2)."""
MAY_BE_ZERO = ("p1", "p2", "decision_seconds")


def lookup(column: Array, episode: Array, index: Array) -> Array:
    """``column[episode, index]`` for indices known to be in range."""
    flat = column.reshape(-1)
    return flat.at[episode * column.shape[1] + index].get(mode="promise_in_bounds")


def per_table(column: Array, episode: Array) -> Array:
    """``column[episode]`` for an episode known to be in range."""
    return column.at[episode].get(mode="promise_in_bounds")


def submissions(jobs: JobTables, episode: Array) -> Array:
    """Submission times of a table, ``[n + 1]``."""
    return per_table(jobs.submit_time, episode)


def unpack(workload: Any) -> tuple[Any, Any]:
    """Type and iterations of packed workloads."""
    return workload & ((1 << MODEL_BITS) - 1), workload >> MODEL_BITS


def most_units(capacity: tuple[int, ...], needs: npt.NDArray[np.int32]) -> int:
    """How many of these tasks the cluster holds at most, over the types."""
    room = np.array(capacity) // np.maximum(needs, 1)
    return int(np.where(needs > 0, room, np.iinfo(np.int32).max).min(axis=-1).max())


def build_params(
    tables: Sequence[JobTable],
    capacity: tuple[int, ...],
    *,
    pair: bool,
    coefficients: npt.ArrayLike,
    scalars: dict[str, float],
    length: int = 0,
) -> Params:
    """Validate tables and values, and lay them out for the device.

    Args:
      tables: workload tables (``CHIC_JOBS``), sorted here by submission (stable).
      capacity: of the cluster.
      pair: condition 2 is about pairs of a worker and a PS.
      coefficients: ``[M, 5]`` of ``speed.seconds``.
      scalars: values for some of ``SCALARS``.
      length: pad the tables to at least this many workloads.

    Raises:
      JaxschedError: a table breaks a rule or holds a workload that can never train, or a value is
        out of range.
    """
    values = parameters("chic: ", SCALARS, scalars, MAY_BE_ZERO)
    jobs = build_tables(tables, capacity, length)
    first = float(np.max(np.asarray(jobs.submit_time)[:, 0]))
    if first >= values["max_time"]:
        raise JaxschedError(
            f"chic: max_time is {values['max_time']} s, not after the first submission at "
            f"{first} s; accepted: a later time"
        )
    most = most_units(capacity, WORKERS), most_units(capacity, SERVERS)
    seconds = speed_table(coefficients, most[0] + 2, most[1] + 2)
    if seconds.shape[0] != NUM_MODELS or not np.all(seconds[:, 1:, 1:] > 0):
        raise JaxschedError(f"chic: coefficients must be [{NUM_MODELS}, 5] with positive speeds")
    settled = find_settled(seconds, pair)
    return Params(
        jobs=jobs,
        draw=to_device([0, len(tables)], jnp.int32),
        seconds=to_device(seconds[:, :-1, :-1], float),
        settled=to_device(settled),
        **{name: to_device(value, float) for name, value in values.items()},
    )


def find_settled(seconds: npt.NDArray[np.float64], pair: bool) -> npt.NDArray[np.bool_]:
    """Where no further unit makes an iteration faster, without the last row and column."""
    now = seconds[:, :-1, :-1]
    more = seconds[:, 1:, 1:] if pair else np.minimum(seconds[:, 1:, :-1], seconds[:, :-1, 1:])
    return np.isfinite(now) & (more >= now - NO_GAIN_S)


def build_tables(
    tables: Sequence[JobTable], capacity: tuple[int, ...], length: int = 0
) -> JobTables:
    """Sort, validate, pad and stack workload tables; see ``build_params``."""
    checked = [_checked(table, capacity) for table in tables]
    stack = stack_tables(checked, schema=CHIC_JOBS, from_zero=False, length=length)
    columns = {name: np.pad(values, ((0, 0), (0, 1))) for name, values in stack.columns.items()}
    real = np.arange(columns["model"].shape[1]) < stack.num_jobs[:, None]
    workload = (columns["iterations"] << MODEL_BITS) | columns["model"]
    submit = to_device(np.where(real, columns["submit_time"], NO_SUBMISSION), float)
    rounded = np.asarray(submit)
    return JobTables(
        submit_time=submit,
        **sums_before(submit),
        workload=to_device(np.where(real, workload, 0), jnp.int32),
        num_jobs=to_device(stack.num_jobs),
        at_start=to_device(np.sum(rounded == rounded[:, :1], axis=1), jnp.int32),
    )


@jax.jit
def sums_before(submit_time: Array) -> dict[str, Array]:
    """``submit_sum`` and ``fraction_sum`` of tables with these times, float ``[..., n + 1]``."""
    whole = jnp.floor(submit_time).astype(jnp.int32)
    parts, fraction = in_parts(whole), submit_time - whole
    return {
        "submit_sum": jnp.cumsum(parts, axis=-2, dtype=jnp.int32) - parts,
        "fraction_sum": jnp.cumsum(fraction, axis=-1) - fraction,
    }


def in_parts(seconds: Array) -> Array:
    """Whole seconds in units of 2**12 s and what is left, int32 ``[..., 2]``."""
    return jnp.stack([seconds >> PART_BITS, seconds & ((1 << PART_BITS) - 1)], axis=-1)


def submitted_by(jobs: JobTables, episode: Array, time: Array, known: Array) -> Array:
    """How many workloads are submitted at ``time`` or before, int32; at least ``known``."""
    return count_from(
        known, jobs.empty_row, lambda job: lookup(jobs.submit_time, episode, job) <= time
    )


def waiting_of_arrivals(
    jobs: JobTables, episode: Array, first: Array, end: Array, time: Array
) -> Array:
    """Sum of ``time - submit_time`` over the workloads ``first .. end - 1``, float (s).

    All wait from the last of these submissions on; what they waited before it, the sums tell,
    exactly but for the last rounding, however long the table.
    """
    last = lookup(jobs.submit_time, episode, jnp.maximum(end - 1, 0))
    whole = jnp.floor(last).astype(jnp.int32)
    length, sums = jobs.submit_sum.shape[1], jobs.submit_sum.reshape(-1, 2)
    begun, until = (
        sums.at[episode * length + row].get(mode="promise_in_bounds") for row in (first, end)
    )
    count = end - first
    coarse, fine = count * in_parts(whole) - (until - begun)
    fraction = lookup(jobs.fraction_sum, episode, end) - lookup(jobs.fraction_sum, episode, first)
    before = coarse * float(1 << PART_BITS) + fine + (count * (last - whole) - fraction)
    return count * (time - last) + before


def resampled(
    key: PRNGKey, jobs: JobTables, episode: Array, submitted: Array, time: Array
) -> JobTables:
    """The table of an episode alone, its workloads from ``submitted`` on drawn after ``time``."""
    own = jax.tree.map(lambda column: column[episode], jobs)
    submit, source = redraw_arrivals(
        key, own.submit_time, submitted, own.num_jobs, time, LATEST_DRAWN_S
    )
    columns = {"submit_time": submit, "workload": own.workload[source], **sums_before(submit)}
    table = own._replace(**columns)
    return jax.tree.map(lambda column: column[None], table)


def _checked(table: JobTable, capacity: tuple[int, ...]) -> JobTable:
    """The table in order of submission, if every workload can train."""
    if "submit_time" in table.columns:
        table = table.take(np.argsort(table["submit_time"], kind="stable"))
    validate(table, schema=CHIC_JOBS, from_zero=False)
    unfit = find_unfit(table, WORKERS, SERVERS, capacity, num_servers=1)
    if unfit is not None:
        job, why = unfit
        raise JaxschedError(
            f"table '{table.name}', job {job}: {why} in a cluster of {capacity}; "
            "accepted: workloads of which one worker and one parameter server fit together"
        )
    return table
