"""Job tables on the device: everything the dynamics look up, prepared once on the host.

Axes: ``K`` tables, ``N`` rows, ``F`` speed factors, ``V`` words of 32 rows. An episode is an index
into the stack. A table is padded with empty rows, one at least, to a multiple of 32; the last of
them stands for an empty row of the window.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.elastic.models import MODELS
from jaxsched.elastic.resources import find_unfit
from jaxsched.envs.dl2.cluster import Cluster
from jaxsched.errors import JaxschedError
from jaxsched.jobs import NO_SUBMISSION, JobTable, stack_tables, validate
from jaxsched.ops import bit_sets as bits
from jaxsched.ops.arrays import to_device
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.types import Array, PRNGKey

NUM_MODELS = len(MODELS)
NO_MODEL = NUM_MODELS  # of the empty row
NEVER = 2**18  # a slot after every slot
ARRIVAL_BIT = 12  # of ``JobTables.info``
MAX_JOBS = 2**20 - 1  # whole as float32


class JobTables(NamedTuple):
    """A stack of job tables.

    Attributes:
      submit_time: int32 ``[K, N]``, seconds.
      model: int32 ``[K, N]``, ``NO_MODEL`` on empty rows.
      info: int32 ``[K, N]``, what the dynamics need of a job in one word: see ``model_of``,
        ``worker_gpus``, ``worker_cpus``, ``ps_cpus``, ``arrival``.
      needs: int32 ``[K, N]``, what a job's tasks need, see ``usage``.
      epochs: float ``[K, N]``, estimate; 0 on empty rows.
      true_epochs: float ``[K, N]``; 0 on empty rows, which so count as finished.
      expected: float ``[K, N]``, the estimate once more, as a divisor; 1 on empty rows.
      factor: float ``[K, F, N]``, factor on the speed in slot ``s`` at ``s mod F``.
      first_slot: int32 ``[K]``, the first slot that has jobs.
      first_active: uint32 ``[K, V]``, its jobs, see ``bits``.
      first_rows: int32 ``[K, J]``, those of its first batch, ``N - 1`` for none.
      num_jobs: int32 ``[K]``.
    """

    submit_time: Array
    model: Array
    info: Array
    needs: Array
    epochs: Array
    true_epochs: Array
    expected: Array
    factor: Array
    first_slot: Array
    first_active: Array
    first_rows: Array
    num_jobs: Array

    @property
    def empty_row(self) -> int:
        """Index of the row that stands for no job."""
        return self.info.shape[-1] - 1


def model_of(info: Array) -> Array:
    """Job type, ``NO_MODEL`` for none."""
    return info & 15


def worker_gpus(info: Array) -> Array:
    """GPUs of one worker; a parameter server has none."""
    return (info >> 4) & 3


def worker_cpus(info: Array) -> Array:
    """CPU cores of one worker."""
    return (info >> 6) & 7


def ps_cpus(info: Array) -> Array:
    """CPU cores of one parameter server."""
    return (info >> 9) & 7


def arrival(info: Array) -> Array:
    """First slot in which the scheduler sees the job; ``NEVER`` on empty rows."""
    return info >> ARRIVAL_BIT


def first_seen(submit_time: Any, slot_seconds: int) -> Any:
    """First slot in which the scheduler sees jobs submitted at these times (s)."""
    xp = submit_time.__array_namespace__()
    return xp.minimum(-(-submit_time // slot_seconds), NEVER - 1)


def usage(needs: Array, w: Array, p: Array) -> tuple[Array, Array, Array]:
    """GPUs, CPU cores and memory of ``w`` workers and ``p`` PS, int32 each.

    ``needs`` has five bits each for a worker's GPUs, CPUs and GB, then a PS's CPUs and GB.
    """
    gpus, cpus, memory, ps_cpus, ps_memory = ((needs >> 5 * i) & 31 for i in range(5))
    return w * gpus, w * cpus + p * ps_cpus, w * memory + p * ps_memory


def lookup(column: Array, episode: Array, index: Array) -> Array:
    """``column[episode, index]`` for indices known to be in range (``index`` of any shape)."""
    return taken(column.reshape(-1, *column.shape[2:]), episode * column.shape[1] + index)


def taken(column: Array, index: Array) -> Array:
    """``column[index]`` for indices known to be in range, which so are not counted from the end."""
    return column.at[index.astype(jnp.uint32)].get(mode="promise_in_bounds")


def whole(column: Array, episode: Array) -> Array:
    """``column[episode]``."""
    return taken(column, episode)


def sorted_by_submission(table: JobTable) -> JobTable:
    """The jobs in order of submission, ties in the table's order; ``table`` itself if they are."""
    times = table["submit_time"]
    if np.all(np.diff(times) >= 0):
        return table
    return table.take(np.argsort(times, kind="stable"))


def with_defaults(table: JobTable) -> JobTable:
    """The table with the schema's optional columns."""
    columns = dict(table.columns)
    for column in DL2_JOBS:
        if column.name not in columns and column.default is not None:
            if isinstance(column.default, str):
                columns[column.name] = table[column.default]
            else:
                columns[column.name] = np.full((len(table), 1), float(column.default))
    return replace(table, columns=columns, schema=DL2_JOBS)


def check_table(table: JobTable, cluster: Cluster) -> JobTable:
    """The table in order of submission, if the cluster can train all of its jobs.

    Raises:
      JaxschedError: one line with the table, the job and what is accepted.
    """
    if "submit_time" in table.columns and len(table):
        table = sorted_by_submission(with_defaults(table))
    table = validate(table, schema=DL2_JOBS, from_zero=False)
    if len(table) > MAX_JOBS:
        raise JaxschedError(
            f"table '{table.name}' has {len(table)} jobs; accepted: at most {MAX_JOBS}"
        )
    problem = find_unfit(
        table,
        cluster.demands.worker,
        cluster.demands.ps,
        cluster.layout.capacity,
        1 if cluster.together else cluster.num_servers,
        needs_ps=cluster.needs_ps,
    )
    if problem is not None:
        job, reason = problem
        raise JaxschedError(
            f"table '{table.name}', job {job}: {reason}; accepted: jobs of which a worker"
            f"{' and a parameter server fit' if cluster.needs_ps else ' fits'} the cluster"
        )
    return table


def build_tables(
    tables: list[JobTable], cluster: Cluster, *, slot_seconds: int, window: int, max_slots: int
) -> JobTables:
    """Validate tables and lay them out for the device.

    Args:
      tables: one or more job tables with the columns of ``DL2_JOBS``; sorted by submission if they
        are not. The first submission need not be at 0.
      cluster: what they run on.
      slot_seconds: length of a slot.
      window: J.
      max_slots: episodes are cut there.

    Raises:
      JaxschedError: a table breaks a rule (core, section 7); the message names table and job.
    """
    checked = [check_table(table, cluster) for table in tables]
    most = max(len(table) for table in checked) // bits.WORD * bits.WORD + bits.WORD - 1
    stack = stack_tables(checked, schema=DL2_JOBS, from_zero=False, length=most)
    num_jobs = stack.num_jobs
    real = np.arange(most + 1) < num_jobs[:, None]

    def padded(column: str, fill: float) -> np.ndarray:
        values = np.pad(stack.columns[column], ((0, 0), (0, 1)))
        return np.where(real, values, fill)

    submit = padded("submit_time", NO_SUBMISSION).astype(np.int64)
    model = padded("model", NO_MODEL).astype(np.int64)
    known = np.minimum(model, NUM_MODELS - 1)
    seen = np.where(real, first_seen(submit, slot_seconds), NEVER)
    worker, ps = cluster.demands
    needs = worker[known, 0] << 4 | worker[known, 1] << 6 | ps[known, 1] << 9
    info = model | np.where(real, needs, 0) | seen << ARRIVAL_BIT
    wants = np.concatenate([worker, ps[:, 1:]], axis=-1)[known]
    wants = np.where(real, np.sum(wants << 5 * np.arange(5), axis=-1), 0)
    first = seen.min(axis=1)
    early = (seen <= first[:, None]) & (first[:, None] < max_slots)
    grouped = early.reshape(len(tables), -1, bits.WORD).astype(np.uint32)
    words = np.sum(grouped << np.arange(bits.WORD, dtype=np.uint32), axis=-1, dtype=np.uint32)
    rows = np.full((len(tables), window), most)
    for row, flags in zip(rows, early, strict=True):
        batch = np.flatnonzero(flags)[:window]
        row[: len(batch)] = batch
    epochs = padded("epochs", 0.0)
    factor = np.pad(stack.columns["speed_factor"], ((0, 0), (0, 1), (0, 0)), constant_values=1.0)
    return JobTables(
        submit_time=to_device(submit, jnp.int32),
        model=to_device(model, jnp.int32),
        info=to_device(info, jnp.int32),
        needs=to_device(wants, jnp.int32),
        epochs=to_device(epochs, float),
        true_epochs=to_device(padded("true_epochs", 0.0), float),
        expected=to_device(np.where(real, epochs, 1.0), float),
        factor=to_device(np.moveaxis(factor, -1, 1), float),
        first_slot=to_device(first, jnp.int32),
        first_active=to_device(words),
        first_rows=to_device(rows, jnp.int32),
        num_jobs=to_device(num_jobs, jnp.int32),
    )


def resampled(
    key: PRNGKey, jobs: JobTables, episode: Array, slot: Array, progress: Array, slot_seconds: int
) -> JobTables:
    """The table of an episode alone, with what cannot be known in a slot drawn anew.

    Jobs seen later than in this slot are a bootstrap of the table's jobs and gaps. How far a
    job's epochs differ from their estimate is drawn from all jobs of the table; for those that
    have trained, from the differences that leave them unfinished. Speed factors are moved by a
    number of slots drawn uniformly.

    Args:
      key: of the draw.
      jobs: the stack.
      episode: which table.
      slot: the present one.
      progress: float ``[N]``, epochs that each job has trained.
      slot_seconds: length of a slot.
    """
    own = jax.tree.map(lambda column: column[episode], jobs)
    arrival_key, epochs_key, factor_key = jax.random.split(key, 3)
    real = jnp.arange(own.info.shape[0]) < own.num_jobs
    seen_by_now = (arrival(own.info) <= slot) | (slot < 0)  # all of them at the end
    known = jnp.sum(real & seen_by_now, dtype=jnp.int32)
    submit, source = redraw_arrivals(
        arrival_key, own.submit_time, known, own.num_jobs, slot * slot_seconds, NO_SUBMISSION - 1
    )
    seen = jnp.where(real, first_seen(submit, slot_seconds), NEVER)
    info = own.info[source] & ((1 << ARRIVAL_BIT) - 1) | seen << ARRIVAL_BIT
    epochs = own.epochs[source]
    moved = jax.random.randint(factor_key, (), 0, own.factor.shape[0], jnp.int32)
    table = JobTables(
        submit_time=submit,
        model=own.model[source],
        info=info,
        needs=own.needs[source],
        epochs=epochs,
        true_epochs=_redrawn_epochs(epochs_key, own, epochs, progress),
        expected=own.expected[source],
        factor=jnp.roll(own.factor[:, source], moved, axis=0),
        first_slot=own.first_slot,
        first_active=own.first_active,
        first_rows=own.first_rows,
        num_jobs=own.num_jobs,
    )
    return jax.tree.map(lambda column: column[None], table)


def _redrawn_epochs(key: PRNGKey, own: JobTables, epochs: Array, progress: Array) -> Array:
    """Epochs that jobs with these estimates take, given what they have trained; float ``[N]``."""
    real = jnp.arange(epochs.shape[0]) < own.num_jobs
    ratio = jnp.sort(jnp.where(real, own.true_epochs / own.expected, jnp.inf))
    done = jnp.searchsorted(ratio, progress / own.expected, side="right")
    share = jax.random.uniform(key, epochs.shape, ratio.dtype)
    left = jnp.maximum(own.num_jobs - done, 1)
    chosen = jnp.minimum(done + (share * left).astype(jnp.int32), own.num_jobs - 1)
    drawn = epochs * ratio[chosen]
    finished = progress >= own.true_epochs
    return jnp.where(real & ~finished & (drawn > progress), drawn, own.true_epochs)
