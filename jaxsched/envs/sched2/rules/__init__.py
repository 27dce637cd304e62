"""The rules of SCHED2's cluster, and what all of them look up: models, job tables on the device.

Locality levels and the slowdown table are section 2 of the specification. Level 1 of VGG16,
Transformer, DeepSpeech and InceptionV3 is Fig. 1 of the paper; the rest is the specification's
choice (its section 13). Slowdowns are in tenths so that run times are exact.

Job tables are prepared once on the host. Axes: ``K`` tables, ``n`` jobs (padded), ``L`` locality
levels. An episode is an index into the stack. Each table ends with one empty row, index ``n``: no
GPUs, no run time, never submitted.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, stack_tables, validate
from jaxsched.ops.arrays import to_device
from jaxsched.ops.bisection import count_from
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.types import Array, PRNGKey

NUM_LEVELS = 4
MEASURED = 1  # the last level in Fig. 1


class Model(NamedTuple):
    """A deep-learning model as the cluster sees it."""

    name: str
    slowdown_tenths: tuple[int, int, int, int]  # by locality level


MODELS = (
    Model("AlexNet", (10, 40, 70, 100)),
    Model("InceptionV3", (10, 14, 18, 22)),
    Model("ResNet50", (10, 15, 20, 25)),
    Model("VGG16", (10, 59, 108, 157)),
    Model("DeepSpeech", (10, 16, 22, 28)),
    Model("Transformer", (10, 27, 44, 61)),
)

SLOWDOWN_TENTHS = np.array([model.slowdown_tenths for model in MODELS], np.int32)
SENSITIVE = SLOWDOWN_TENTHS[:, 1] >= 20  # bool [num_models]


def _array(values: ArrayLike) -> Any:
    """Of NumPy if they are: JAX would compile every operation for every shape."""
    return values if isinstance(values, np.ndarray) else jnp.asarray(values)


def level_of(extra_servers: ArrayLike) -> Array:
    """Locality level of a placement on that many more servers than necessary: 0, 1, 2-3, >= 4."""
    extra = _array(extra_servers)
    return (extra >= 1).astype(np.int32) + (extra >= 2) + (extra >= 4)


def fewest_servers(num_gpus: ArrayLike, gpus_per_server: int) -> Array:
    """Servers a gang needs at the least: ``ceil(num_gpus / gpus_per_server)``."""
    return -(-_array(num_gpus) // gpus_per_server)


def worst_level(num_gpus: ArrayLike, num_servers: int, gpus_per_server: int) -> Array:
    """The most scattered level that a gang can reach on this cluster."""
    fewest = fewest_servers(num_gpus, gpus_per_server)
    xp = fewest.__array_namespace__()
    most = xp.maximum(xp.minimum(_array(num_gpus), num_servers), fewest)
    return level_of(most - fewest)


def slowdown_by_level(
    num_gpus: ArrayLike,
    model: ArrayLike,
    num_servers: int,
    gpus_per_server: int,
    saturating: bool = False,
) -> Array:
    """Slowdown (tenths) of jobs ``[...]`` at each level, or their worst one; int32 ``[..., L]``.

    ``saturating``: beyond level 1, the last that Fig. 1 measures, it grows no further.
    """
    worst = worst_level(num_gpus, num_servers, gpus_per_server)
    xp = worst.__array_namespace__()
    known = xp.minimum(xp.arange(NUM_LEVELS), MEASURED if saturating else NUM_LEVELS)
    level = xp.minimum(known, worst[..., None])
    slowdown: Array = xp.asarray(SLOWDOWN_TENTHS)[_array(model)[..., None], level]
    return slowdown


def run_time(duration: ArrayLike, slowdown_tenths: ArrayLike) -> Array:
    """Run time in whole seconds, rounded half up: ``(d * slow10 + 5) // 10``.

    Exact in int32 up to the longest run time of a rigid job, ``jaxsched.jobs.MAX_DURATION_S``: that
    times 157, the largest slowdown of the table, is below 2**31.
    """
    return (_array(duration) * _array(slowdown_tenths) + 5) // 10


NEVER = 2**30 - 1  # a time after every event
LOW_BITS = 12  # sums of times are kept as (sum of time >> 12, sum of time & 4095)


class JobTables(NamedTuple):
    """A stack of job tables, int32.

    Attributes:
      submit_time: ``[K, n + 1]``, seconds; ``NEVER`` from the last job on.
      num_gpus: ``[K, n + 1]``.
      model: ``[K, n + 1]``.
      run_time: ``[K, n + 1, L]``, seconds at each level, clipped at the job's worst level.
      shown: ``[K, n + 1, L + 2]``, run time at each level, ``num_gpus`` and ``submit_time`` side
        by side, so that all that a position in the window shows is one lookup.
      batch_end: ``[K, n + 1]``, index of the first job submitted later than this one.
      sums: ``[K, n + 1, 5]``, sums over the jobs before: GPUs, then duration and submit time in
        two parts each, so that they stay exact for a hundred thousand jobs.
      num_jobs: ``[K]``.
    """

    submit_time: Array
    num_gpus: Array
    model: Array
    run_time: Array
    shown: Array
    batch_end: Array
    sums: Array
    num_jobs: Array

    @property
    def empty_row(self) -> int:
        """Index of the row that stands for an empty position."""
        return self.submit_time.shape[-1] - 1


def lookup(column: Array, episode: Array, index: Array) -> Array:
    """``column[episode, index]`` for indices known to be in range (``index`` of any shape)."""
    flat = column.reshape(-1, *column.shape[2:])
    return flat.at[episode * column.shape[1] + index].get(mode="promise_in_bounds")


def submitted_by(jobs: JobTables, episode: Array, time: Array) -> Array:
    """Number of jobs submitted up to ``time`` (before ``NEVER``), by bisection; int32 scalar."""
    return count_from(
        jnp.zeros_like(jobs.num_jobs[episode]),
        jobs.empty_row,
        lambda job: lookup(jobs.submit_time, episode, job) <= time,
    )


def _check_bounds(table: JobTable) -> None:
    """Refuse what the integers of the dynamics and of the rules cannot hold."""
    submit = int(table["submit_time"][-1])
    if submit >= NEVER:
        job = int(np.searchsorted(table["submit_time"], NEVER))
        raise JaxschedError(
            f"table '{table.name}', job {job}: submit_time is {table['submit_time'][job]}; "
            f"accepted: below {NEVER} s"
        )
    work = table["num_gpus"] * table["duration"]
    if int(work.max()) >= 2**31:
        job = int(work.argmax())
        raise JaxschedError(
            f"table '{table.name}', job {job}: num_gpus * duration is {work[job]}; "
            f"accepted: below {2**31} GPU seconds"
        )


def build_tables(
    tables: list[JobTable],
    num_servers: int,
    gpus_per_server: int,
    *,
    saturating: bool = False,
    length: int = 0,
) -> JobTables:
    """Validate tables and lay them out for the device.

    Args:
      tables: one or more job tables (columns ``submit_time`` s, ``num_gpus``, ``duration`` s,
        ``model`` 0..5), sorted by submission, the first at 0.
      num_servers: S.
      gpus_per_server: G.
      saturating: slowdowns grow no further beyond level 1.
      length: pad the tables to at least this many jobs.

    Raises:
      JaxschedError: a table breaks a rule of section 2; the message names table, job and value.
    """
    for table in tables:
        validate(table, max_gpus=num_servers * gpus_per_server, num_models=len(MODELS))
        _check_bounds(table)
    stack = stack_tables(tables, length=length)
    num_jobs, most = stack.num_jobs, stack.columns["submit_time"].shape[1]
    real = np.arange(most + 1) < num_jobs[:, None]

    def padded(column: str, fill: int) -> np.ndarray:
        values = np.pad(stack.columns[column], ((0, 0), (0, 1)))
        return np.where(real, values, fill).astype(np.int32)

    submit, gpus = padded("submit_time", NEVER), padded("num_gpus", 0)
    duration, model = padded("duration", 0), padded("model", 0)
    slowdown = slowdown_by_level(gpus, model, num_servers, gpus_per_server, saturating)
    times = run_time(duration[..., None], slowdown)
    shown, batch_end, sums = zip(*map(derived, submit, gpus, times, num_jobs), strict=True)
    columns = {
        "submit_time": submit,
        "num_gpus": gpus,
        "model": model,
        "run_time": times,
        "shown": np.stack(shown),
        "batch_end": np.stack(batch_end),
        "sums": np.stack(sums),
        "num_jobs": num_jobs,
    }
    return JobTables(**{name: to_device(values, jnp.int32) for name, values in columns.items()})


def derived(submit_time: Any, num_gpus: Any, run_time: Any, num_jobs: Any) -> tuple[Any, Any, Any]:
    """What follows from the columns of one table: ``shown``, ``batch_end`` and ``sums``.

    Args:
      submit_time: integers ``[n + 1]``, of NumPy or of JAX, as in ``JobTables``.
      num_gpus: ``[n + 1]``.
      run_time: ``[n + 1, L]``.
      num_jobs: scalar.

    Returns:
      Arrays of the same library.
    """
    xp = submit_time.__array_namespace__()
    shown = xp.concatenate([run_time, num_gpus[:, None], submit_time[:, None]], axis=-1)
    batch_end = xp.searchsorted(submit_time, submit_time, side="right")
    real = xp.arange(submit_time.shape[0]) < num_jobs
    of_each = parts_of_sums(num_gpus, run_time, submit_time, real)
    sums = xp.concatenate([xp.zeros_like(of_each[:1]), xp.cumsum(of_each, axis=0)[:-1]])
    return shown, xp.minimum(batch_end, num_jobs), sums


def parts_of_sums(num_gpus: Any, run_time: Any, submit_time: Any, real: Any) -> Any:
    """What each job adds to ``JobTables.sums``, ``[n, 5]``; columns as in ``derived``.

    Submission counts where ``real`` (bool ``[n]``); the others are 0 where there is no job.
    """
    xp = submit_time.__array_namespace__()
    parts = [num_gpus, *in_two(run_time[:, 0]), *in_two(xp.where(real, submit_time, 0))]
    return xp.stack(parts, axis=-1)


def in_two(time: Any) -> tuple[Any, Any]:
    """A time from 0 on as ``time >> 12`` and the rest, by operations that exports have."""
    high = time >> LOW_BITS
    return high, time - high * (1 << LOW_BITS)


def resampled(
    key: PRNGKey, jobs: JobTables, episode: Array, arrived: Array, time: Array
) -> JobTables:
    """The table of an episode alone, its jobs from ``arrived`` on drawn anew after ``time``."""
    own = jax.tree.map(lambda column: column[episode], jobs)
    submit, source = redraw_arrivals(
        key, own.submit_time, arrived, own.num_jobs, time, latest=NEVER - 1
    )
    gpus, run_time = own.num_gpus[source], own.run_time[source]
    shown, batch_end, sums = derived(submit, gpus, run_time, own.num_jobs)
    table = JobTables(
        submit_time=submit,
        num_gpus=gpus,
        model=own.model[source],
        run_time=run_time,
        shown=shown,
        batch_end=batch_end.astype(jnp.int32),
        sums=sums,
        num_jobs=own.num_jobs,
    )
    return jax.tree.map(lambda column: column[None], table)
