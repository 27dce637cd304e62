"""The rules of DAS' cluster, and what all of them look up: job tables on the device.

A job is one packed row of integers, so that a single gather brings everything about it; an episode
is a range of rows, which all episodes share.

Axes: ``T`` jobs of all tables, ``E`` episodes, ``J`` jobs of the longest episode.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.das.jobs import GANG_JOBS, GROUP, USER
from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers, JobTable, validate
from jaxsched.ops.arrays import to_device
from jaxsched.ops.bisection import count_from
from jaxsched.options import parameters
from jaxsched.types import Array

SUBMIT, INSTANCES, GPUS, CPUS, MEM, DURATION, LEAST_MACHINES, NUM_GPUS = range(8)
"""Columns of a row: submission (s), instances, what each requests, run time at full speed (s),
the least number of machines (``kmin``) and GPUs in all."""

MAX_EPISODE_JOBS = 2**20 - 1
MOST_IN_TWO = 2**15
"""Sums of times over so many jobs are taken in two parts, over more in three."""
PART_BITS = {2: 16, 3: 11}
"""Of each part but the first, so that sums of parts fit in int32."""
NEVER = 2**31 - 1
"""A time (s) after every event."""
SCALARS: dict[str, float] = {
    "alpha": 0.1,
    "price": 2.84,
    "reward_scale": 1.0,
    "reward_cap": 10.0,
    "jct_ref_min": 170.0,
    "fee_ref": 51.0,
    "dense_scale": 100.0,
}
"""The real numbers among ``Params`` and the specification's values (section 2)."""
BY_EPISODE = ("jct_ref_min", "fee_ref")
MAY_BE_ZERO = ("alpha", "price", "reward_scale", "reward_cap", "dense_scale")


class Params(NamedTuple):
    """What may change without recompiling.

    Attributes:
      rows: int32 ``[T + 1, 8]``, one job each (see ``SUBMIT`` and so on), the last one empty.
      submitted_sum: int32 ``[T + 1, 2 or 3]``, sum of the submission times before each row, in
        parts (``parts_of``); more than fits the first is lost, which differences do not show.
      offset: int32 ``[E]``, first row of each episode.
      num_jobs: int32 ``[E]``.
      first: int32 ``[E]``, submission time that is 0 in the episode.
      places: int32 ``[J]``, 0 to J - 1; its length is the most jobs that an episode has.
      alpha: penalty per GPU of a job that could not be placed.
      price: dollars per GPU-hour.
      reward_scale: numerator of a finished job's reward.
      reward_cap: the most that a finished job gives.
      jct_ref_min: float32 ``[E]``, minutes of completion time that cost ``dense_scale``.
      fee_ref: float32 ``[E]``, dollars that cost ``dense_scale``.
      dense_scale: scale of the dense reward.
      owners: int32 ``[T + 1, 2]``, number of each job's group and user (``observation.py``); None
        where the environment shows no estimates.
      known: int32 ``[K]``, whatever: its length is how many groups and users are told apart; None
        likewise.
    """

    rows: Array
    submitted_sum: Array
    offset: Array
    num_jobs: Array
    first: Array
    places: Array
    alpha: Array
    price: Array
    reward_scale: Array
    reward_cap: Array
    jct_ref_min: Array
    fee_ref: Array
    dense_scale: Array
    owners: Array | None = None
    known: Array | None = None

    @property
    def max_jobs(self) -> int:
        """Most jobs of an episode (static)."""
        return self.places.shape[0]


def build_params(
    tables: Sequence[JobTable],
    capacity: tuple[int, int, int],
    num_servers: int,
    *,
    slowest: int,
    starts: Sequence[int] | None,
    episode_jobs: int | None,
    scalars: dict[str, float],
    owned: bool = False,
) -> Params:
    """Validate tables and values, and lay them out for the device.

    Args:
      tables: of the schema ``GANG_JOBS``, in order of submission.
      capacity: GPUs, CPUs and GB of each machine.
      num_servers: machines.
      slowest: least speed of a running job, percent.
      starts: first rows of the episodes cut from the one table; None: a table is an episode.
      episode_jobs: jobs of each such episode.
      scalars: values for some of ``SCALARS``.
      owned: keep the jobs' groups and users.

    Raises:
      JaxschedError: a table or a value is refused.
    """
    values = parameters("das: ", SCALARS, scalars, MAY_BE_ZERO)
    if not tables:
        raise JaxschedError("das: there are no job tables; accepted: at least one")
    packed = [_packed(table, capacity, num_servers) for table in tables]
    rows = np.concatenate([*packed, np.zeros((1, 8), np.int64)])
    rows[-1, SUBMIT] = NEVER
    counts = np.array([len(table) for table in tables])
    offset = np.concatenate([[0], np.cumsum(counts)[:-1]])
    if (starts is None) != (episode_jobs is None):
        raise JaxschedError("das: starts and episode_jobs go together; accepted: both or neither")
    if starts is not None and episode_jobs is not None:
        offset = _checked_starts(starts, episode_jobs, counts)
        counts = np.full(len(offset), episode_jobs)
    longest = int(counts.max())
    if longest > MAX_EPISODE_JOBS:
        raise JaxschedError(
            f"das: an episode has {longest} jobs; accepted: at most {MAX_EPISODE_JOBS}"
        )
    _check_horizon(rows, offset, counts, slowest)
    sums = np.concatenate([[0], np.cumsum(rows[:-1, SUBMIT])])
    owners = owners_of(tables) if owned else None
    return Params(
        rows=to_device(rows, jnp.int32),
        submitted_sum=to_device(parts_of(sums, 2 if longest <= MOST_IN_TWO else 3), jnp.int32),
        offset=to_device(offset, jnp.int32),
        num_jobs=to_device(counts, jnp.int32),
        first=to_device(rows[offset, SUBMIT], jnp.int32),
        places=to_device(np.arange(longest), jnp.int32),
        **{
            name: to_device(np.full(len(offset) if name in BY_EPISODE else (), value), jnp.float32)
            for name, value in values.items()
        },
        owners=None if owners is None else to_device(owners, jnp.int32),
        known=None if owners is None else to_device(np.zeros(int(owners.max()) + 1), jnp.int32),
    )


def with_room(params: Params, rows: int, jobs: int) -> Params:
    """Parameters that play alike, of tables of so many jobs in all and episodes of so many."""
    behind = ((0, rows + 1 - params.rows.shape[0]), (0, 0))
    known = params.known
    if known is not None:
        known = jnp.pad(known, (0, 2 * rows + 1 - known.shape[0]))
    return params._replace(
        rows=jnp.pad(params.rows, behind, mode="edge"),  # the last row is the empty one
        submitted_sum=jnp.pad(params.submitted_sum, behind, mode="edge"),
        places=jnp.arange(jobs, dtype=jnp.int32),
        owners=None if params.owners is None else jnp.pad(params.owners, behind),
        known=known,
    )


def _packed(table: JobTable, capacity: tuple[int, int, int], num_servers: int) -> np.ndarray:
    """The table's rows, int64 ``[n, 8]``, if every job fits the empty cluster."""
    validate(table, schema=GANG_JOBS, from_zero=False)
    columns = [table[column.name] for column in GANG_JOBS]
    submit, instances, *requests, duration = columns
    room = [
        np.where(need > 0, cap // np.maximum(need, 1), NEVER)
        for need, cap in zip(requests, capacity, strict=True)
    ]
    per = np.minimum.reduce(room)
    unfit = np.flatnonzero(per * num_servers < instances)
    if unfit.size:
        job = int(unfit[0])
        needs = ", ".join(str(need[job]) for need in requests)
        raise JaxschedError(
            f"table '{table.name}', job {job}: {instances[job]} instances of ({needs}) GPUs, CPUs, "
            f"GB never fit {num_servers} machines of {capacity}; accepted: jobs that fit the "
            "empty cluster"
        )
    least = -(-instances // per)
    return np.stack([submit, instances, *requests, duration, least, instances * requests[0]], -1)


def _checked_starts(starts: Sequence[int], episode_jobs: int, counts: np.ndarray) -> np.ndarray:
    if len(counts) != 1:
        raise JaxschedError(f"das: episodes are cut from one table; found {len(counts)} tables")
    first = np.asarray(starts)
    last = counts[0] - episode_jobs
    if episode_jobs < 1 or last < 0:
        raise JaxschedError(
            f"das: episode_jobs is {episode_jobs}; accepted: from 1 to the table's {counts[0]}"
        )
    if first.ndim != 1 or not first.size or first.dtype.kind not in "iu":
        raise JaxschedError("das: starts must be a list of one or more whole numbers")
    bad = np.flatnonzero((first < 0) | (first > last))
    if bad.size:
        raise JaxschedError(
            f"das: episode {bad[0]} starts at row {first[bad[0]]}; accepted: from 0 to {last}"
        )
    return first.astype(np.int64)


def _check_horizon(rows: np.ndarray, offset: np.ndarray, counts: np.ndarray, slowest: int) -> None:
    """Times fit in int32 even if all jobs of an episode ran one after the other, slowly."""
    run = -(-100 * rows[:, DURATION] // slowest)
    total = np.concatenate([[0], np.cumsum(run)])
    latest = rows[offset + counts - 1, SUBMIT] + total[offset + counts] - total[offset]
    late = np.flatnonzero(latest >= NEVER)
    if late.size:
        raise JaxschedError(
            f"das: episode {late[0]} could last until {latest[late[0]]} s; accepted: before {NEVER}"
        )


def owners_of(tables: Sequence[JobTable]) -> Integers:
    """Places of each job's group and user among what is told apart, int64 ``[T + 1, 2]``.

    Without the columns ``group`` and ``user`` all jobs are of one.
    """
    found = []
    for table in tables:
        alike = np.zeros(len(table), np.int64)
        columns = [table.columns.get(name, alike) for name in (GROUP, USER)]
        numbers = [np.unique(column, return_inverse=True)[1] for column in columns]
        groups = numbers[0].max() + 1
        found.append(np.stack([1 + numbers[0], 1 + groups + numbers[1]], axis=-1))
    return np.concatenate([*found, np.zeros((1, 2), np.int64)]).astype(np.int64)


def row_of(params: Params, episode: Array, job: Array) -> Array:
    """Rows of jobs ``job`` (int32 ``[...]``, from 0) of an episode, int32 ``[8, ...]``.

    Submission times are those of the episode; that of a job that it does not have is ``NEVER``.
    """
    count = pick(params.num_jobs, episode)
    there = job < count
    index = jnp.where(there, pick(params.offset, episode) + job, params.rows.shape[0] - 1)
    rows = params.rows.at[index].get(mode="promise_in_bounds")
    submit = jnp.where(there, rows[..., SUBMIT] - pick(params.first, episode), NEVER)
    columns = [rows[..., column] for column in range(1, rows.shape[-1])]
    return jnp.stack([submit, *columns])


def pick(column: Array, index: Array) -> Array:
    """``column[index]`` for an index known to be in range."""
    return column.at[index].get(mode="promise_in_bounds")


def submit_time(params: Params, episode: Array, job: Array) -> Array:
    """Submission time of one job, int32; ``NEVER`` beyond the episode's last."""
    there = job < pick(params.num_jobs, episode)
    index = jnp.where(there, pick(params.offset, episode) + job, params.rows.shape[0] - 1)
    time = params.rows.at[index, SUBMIT].get(mode="promise_in_bounds")
    return jnp.where(there, time - pick(params.first, episode), NEVER)


def submitted_by(params: Params, episode: Array, time: Array, known: Array) -> Array:
    """How many jobs are submitted at ``time`` (s) or before, int32; at least ``known``."""
    return count_from(known, params.max_jobs, lambda job: submit_time(params, episode, job) <= time)


def waiting_of_arrivals(
    params: Params, episode: Array, first: Array, end: Array, time: Array
) -> Array:
    """Sum of ``time - submit_time`` over the jobs ``first .. end - 1``, float32 (job-seconds).

    Exact but for the last rounding: the sums are differences of integers in parts.
    """
    offset = pick(params.offset, episode)
    before = pick(params.submitted_sum, offset + first)
    until = pick(params.submitted_sum, offset + end)
    moment = time + pick(params.first, episode)
    number = until.shape[-1]
    parts = carried((end - first) * parts_of(moment, number) - (until - before))
    high, low, width = parts[0], parts[-1], PART_BITS[number]
    for place, part in enumerate(parts[-2:0:-1], 1):
        low |= part << width * place
    return high.astype(jnp.float32) * 2.0 ** (width * (number - 1)) + low.astype(jnp.float32)


def parts_of(numbers: Any, number: int) -> Any:
    """Whole numbers from 0 on in so many parts, the highest first, ``[..., 2 or 3]``."""
    xp, width = numbers.__array_namespace__(), PART_BITS[number]
    lower = [(numbers >> width * k) & (2**width - 1) for k in reversed(range(number - 1))]
    return xp.stack([numbers >> width * (number - 1), *lower], axis=-1)


def carried(parts: Array) -> list[Array]:
    """What is too much for a part added to the next higher one; of ``[..., 2 or 3]`` one by one."""
    found, width = [parts[..., k] for k in range(parts.shape[-1])], PART_BITS[parts.shape[-1]]
    for k in reversed(range(1, len(found))):
        found[k - 1] += found[k] >> width
        found[k] &= 2**width - 1
    return found
