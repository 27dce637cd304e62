"""Job tables and parameters on the device: all that the rules look up, prepared once on the host.

Axes: ``K`` tables, ``N`` rows, ``F`` speed factors, ``V`` words of 32 rows; ``M`` job types, ``W``
and ``P`` the largest numbers of workers and parameter servers. An episode is an index into the
stack. A table is padded with empty rows, one at least, to a multiple of 32; the last of them stands
for an empty row of the window.
"""

from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.elastic.models import DL2_COEFFICIENTS, MODELS
from jaxsched.elastic.resources import find_unfit
from jaxsched.elastic.speed import GRID_TASKS, Comm, grid_rates, measured_table, speed_table
from jaxsched.envs.dl2.rules import Cluster, Rules
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


class SpeedTables(NamedTuple):
    """How fast jobs train, float; ``M + 1`` types, the last of which never does.

    Attributes:
      seconds: ``[M + 1, W + 1, P + 1]``, seconds per epoch, infinite where a job cannot train.
      rate: ``[M + 1, W + 1, P + 1]``, its inverse, epochs per second.
      doubling: scalar, CPU cores that the other jobs must use for a job to take twice the time
        (core, section 6: those of the cluster over ``contention``; infinite without contention).
      resizing: scalar, seconds in which a job does not train at the beginning of a slot that gives
        it other tasks than the last one did; None: it takes no time.
    """

    seconds: Array
    rate: Array
    doubling: Array
    resizing: Array | None = None


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


def build_tables(tables: list[JobTable], rules: Rules) -> JobTables:
    """Validate tables and lay them out for the device.

    Args:
      tables: one or more job tables with the columns of ``DL2_JOBS``; sorted by submission if they
        are not. The first submission need not be at 0.
      rules: the cluster, its slots and the window.

    Raises:
      JaxschedError: a table breaks a rule (core, section 7); the message names table and job.
    """
    cluster, window = rules.cluster, rules.window
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
    seen = np.where(real, first_seen(submit, rules.slot_seconds), NEVER)
    worker, ps = cluster.demands
    needs = worker[known, 0] << 4 | worker[known, 1] << 6 | ps[known, 1] << 9
    info = model | np.where(real, needs, 0) | seen << ARRIVAL_BIT
    wants = np.concatenate([worker, ps[:, 1:]], axis=-1)[known]
    wants = np.where(real, np.sum(wants << 5 * np.arange(5), axis=-1), 0)
    first = seen.min(axis=1)
    early = (seen <= first[:, None]) & (first[:, None] < rules.max_slots)
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


SpeedMode = Literal["analytic", "measured", "grid"]
PROFILE_POINTS = ((1, 1), (2, 2), (4, 4), (8, 8), (1, 2), (2, 1), (4, 8), (8, 4))
"""Numbers of PS and workers at which Optimus profiles each job type before it starts."""
MOST_PROFILED = 8


class Knowledge(NamedTuple):
    """Noise-free seconds per epoch that the rule-based policies know, float; ``M + 1`` types.

    Attributes:
      reference: ``[M + 1]``, with four workers and four PS.
      profile: ``[M + 1, 8]``, at ``PROFILE_POINTS``.
    """

    reference: Array
    profile: Array


class Params(NamedTuple):
    """Parameters of DL2.

    Attributes:
      jobs: the stack of job tables; an episode is an index into it.
      draw: int32 ``[2]``, resets draw among ``draw[1]`` episodes from ``draw[0]`` on.
      speed: how fast jobs train.
      known: what the rule-based policies know of it.
      d_scale: float, slots in the cluster that count as 1 in the observation.
      e_scale: float, remaining epochs that count as 1.
    """

    jobs: JobTables
    draw: Array
    speed: SpeedTables
    known: Knowledge
    d_scale: Array
    e_scale: Array


def build_speeds(
    rules: Rules,
    comm: Comm,
    speed_mode: SpeedMode,
    overlap: float,
    contention: float | None,
    coefficients: Any,
    resizing: float,
) -> tuple[SpeedTables, Knowledge]:
    """How fast jobs train, and what rules know of it; arguments are those of ``DL2.params``."""
    if speed_mode not in get_args(SpeedMode):
        known = ", ".join(get_args(SpeedMode))
        raise JaxschedError(f"dl2: speed_mode must be one of {known}, not {speed_mode!r}")
    if contention is None:
        contention = 0.0 if speed_mode == "grid" else 1.0
    checked_number("overlap", overlap, 0 <= overlap <= 1, "in [0, 1]")
    checked_number("contention", contention, 0 <= contention < float("inf"), "from 0 on")
    longest = rules.slot_seconds
    accepted = f"from 0 to {longest}, the seconds of a slot"
    is_time = isinstance(resizing, int | float) and 0 <= resizing <= longest
    checked_number("resizing", resizing, is_time, accepted)
    most = (rules.max_workers, rules.max_ps)
    if speed_mode == "grid":
        tau, rate = _grid(rules, comm)
        most = (most[0] + 1, most[1] + 1)  # the artefact's Optimus looks beyond the limits
        rate = np.concatenate([rate, np.zeros((1, *rate.shape[1:]))])
    elif speed_mode == "measured":
        tau = measured_table(*(max(m, MOST_PROFILED) for m in most), comm=comm)
    else:
        size = (max(m, MOST_PROFILED) for m in most)
        tau = speed_table(_checked(coefficients), *size, overlap=overlap, comm=comm)
    tau = np.concatenate([tau, np.full((1, *tau.shape[1:]), np.inf)])
    seconds = tau[:, : most[0] + 1, : most[1] + 1]
    rate = rate[:, : most[0] + 1, : most[1] + 1] if speed_mode == "grid" else 1.0 / seconds
    servers, workers = np.array(PROFILE_POINTS).T
    all_cpus = max(rules.cluster.totals[1], 1)
    speed = SpeedTables(
        seconds=jnp.asarray(seconds, float),
        rate=jnp.asarray(rate, float),
        doubling=jnp.asarray(all_cpus / contention if contention else np.inf, float),
        resizing=jnp.asarray(resizing, float) if resizing else None,
    )
    reference, profile = tau[:, 4, 4], tau[:, workers, servers]
    return speed, Knowledge(jnp.asarray(reference, float), jnp.asarray(profile, float))


def checked_number(name: str, value: float, holds: bool, accepted: str) -> None:
    """Refuse a number of the parameters that does not hold.

    Raises:
      JaxschedError: one line with its name and what is accepted.
    """
    if not holds:
        raise JaxschedError(f"dl2: {name} must be a number {accepted}, not {value!r}")


def _grid(rules: Rules, comm: Comm) -> tuple[np.ndarray, np.ndarray]:
    """Seconds per epoch, infinite where a job does not get on, and epochs per second."""
    if comm != "ps" or max(rules.max_workers, rules.max_ps) >= GRID_TASKS:
        raise JaxschedError(
            "dl2: speed_mode is 'grid'; accepted: with parameter servers, at most "
            f"{GRID_TASKS - 1} workers and PS of a job"
        )
    rate = grid_rates(GRID_TASKS, GRID_TASKS)
    return np.where(rate > 0, 1.0 / np.where(rate > 0, rate, 1.0), np.inf), rate


def _checked(coefficients: Any) -> np.ndarray:
    if coefficients is None:
        return DL2_COEFFICIENTS
    values = np.asarray(coefficients, np.float64)
    if values.shape != (NUM_MODELS, 5) or not np.all(np.isfinite(values) & (values >= 0)):
        raise JaxschedError(
            f"dl2: coefficients are an array of shape {values.shape}; accepted: "
            f"{NUM_MODELS} x 5 finite numbers from 0 on"
        )
    if not np.all(values[:, 0] > 0):
        raise JaxschedError("dl2: a coefficient A is 0; accepted: numbers above 0")
    return values
