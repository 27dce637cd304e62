"""The rules of Chic's cluster (specification, section 3), with no word of learning in them.

Workloads enter the window in table order and leave it only when they finish, so those that ever
entered it are the table's first ``entered`` rows and no record per workload is needed.

The window's rows are written out one by one or, where they are many, as one block of arrays. Of few
rows each number is an array over the environments alone, which compilers vectorise. A window of
more than ``MOST_APART`` is a single block, whose numbers are arrays over its rows: the program then
stays as small as for one row. The rules are written once for both: what concerns one row is the
same, and what joins rows stands first.

Axes: ``I`` rows of the window. Times in seconds, of JAX's default float type.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.resources import Layout, layout
from jaxsched.envs.chic.rules import (
    SERVERS,
    WORKERS,
    JobTables,
    Params,
    lookup,
    per_table,
    unpack,
    waiting_of_arrivals,
)
from jaxsched.ops.batching import materialise, materialise_flags
from jaxsched.types import Array

MOST_APART = 32
FEW = 4  # rows that the closing of gaps writes out pair by pair


class Row(NamedTuple):
    """One workload of the window, or a block of them; int32 ``[]`` or ``[I]``, 0 where empty.

    ``job`` is its index in the table (the empty row's where there is none), ``left`` are remaining
    iterations, ``workers`` and ``servers`` the allocation of the current phase.
    """

    job: Array
    model: Array
    left: Array
    workers: Array
    servers: Array


def empty_rows(window: int, job: int) -> tuple[Row, ...]:
    """A window without workloads, whose rows say ``job``."""
    if window > MOST_APART:
        none = jnp.zeros(window, jnp.int32)
        return (Row(jnp.full(window, job, jnp.int32), none, none, none, none),)
    none = jnp.int32(0)
    return (Row(jnp.int32(job), none, none, none, none),) * window


def places(window: int) -> list[Any]:
    """Which place each row has, or the block's rows have."""
    if window > MOST_APART:
        return [np.arange(window, dtype=np.int32)]
    return list(range(window))


def exists(row: Row) -> Array:
    """Whether the row holds a workload (a finished one leaves at once)."""
    return row.left > 0


def can_train(row: Row) -> Array:
    """Whether its workload has a worker and a PS."""
    return (row.workers > 0) & (row.servers > 0)


def either(flags: list[Array]) -> Array:
    """Whether one of the flags of a row is set."""
    return reduce(jnp.logical_or, flags)


def any_of(flags: list[Array]) -> Array:
    """Whether one of the rows' flags is set, bool scalar."""
    found = either(flags)
    return jnp.any(found) if found.ndim else found


def count(flags: list[Array]) -> Array:
    """How many of the rows' flags are set, int32 scalar."""
    return summed(reduce(jnp.add, [flag.astype(jnp.int32) for flag in flags]))


def summed(number: Array) -> Array:
    """A row's number, or the sum of a block's; scalar."""
    return jnp.sum(number, dtype=number.dtype) if number.ndim else number


def column(numbers: list[Array]) -> Array:
    """One number of each row, ``[I]``."""
    return numbers[0] if numbers[0].ndim else jnp.stack(numbers)


def flat(numbers: list[list[Array]]) -> list[Array]:
    """Several numbers of each row, row after row: scalars, or one array ``[I * n]``."""
    if numbers[0][0].ndim:
        return [jnp.stack(numbers[0], axis=-1).reshape(-1)]
    return [number for row in numbers for number in row]


def joined(numbers: list[Array], last: Array) -> Array:
    """What :func:`flat` gives, and one more entry; one-dimensional."""
    if numbers[0].ndim:
        return jnp.append(numbers[0], last)
    return jnp.stack([*numbers, last])


def end_of(rows: tuple[Row, ...], place: int) -> Row:
    """The first (0) or the last (-1) row of the window, scalars."""
    row = rows[place]
    return Row(*(value[place] for value in row)) if row.job.ndim else row


def table_of(rows: tuple[Row, ...]) -> Array:
    """The window as one array, int32 ``[I, 5]``."""
    if rows[0].job.ndim:
        return jnp.stack(rows[0], axis=-1)
    return jnp.stack([jnp.stack(row) for row in rows])


def of_table(table: Array) -> tuple[Row, ...]:
    """The window of such an array."""
    if len(table) > MOST_APART:
        return (Row(*table.T),)
    return tuple(Row(*table[place]) for place in range(len(table)))


def shared(number: Array, num_rows: int) -> Array:
    """A number that every row reads, or a flag; where rows are many not computed anew for each."""
    if num_rows <= FEW:
        return number
    return materialise_flags(number)[0] if number.dtype == bool else materialise(number)


EPS = 1e-4  # iterations: what rounding may take from a whole number of them
TOL = 1e-2  # seconds: events closer together coincide


class State(NamedTuple):
    """Everything the future depends on."""

    rows: tuple[Row, ...]  # I of them, or one block of I; the workloads first, in table order
    time: Array  # float
    decisions: Array  # int32, in the current phase
    submitted: Array  # int32, workloads submitted up to now
    entered: Array  # int32, workloads that ever were in the window
    episode: Array  # int32, which table
    paid: Array | None = None  # bool, the phase has chosen an empty row, where that costs only once


class Cluster(NamedTuple):
    """The cluster's static description: packed resources (``elastic.resources.Layout``)."""

    layout: Layout
    worker: tuple[int, ...]  # packed need of one worker of each type
    server: tuple[int, ...]
    pair: tuple[int, ...]

    def need(self, kind: str, model: Array) -> Array:
        """Packed need of one unit of a workload of that type, int32."""
        return by_model(getattr(self, kind), model)


def by_model(values: Sequence[int], model: Array) -> Array:
    """One of a few numbers, by a workload's type; int32."""
    chosen = jnp.int32(values[-1])
    for index, value in enumerate(values[:-1]):
        chosen = jnp.where(model == index, value, chosen)
    return chosen


def cluster_of(capacity: tuple[int, ...]) -> Cluster:
    """The packing for an aggregate capacity."""
    packing = layout(capacity)

    def packed(needs: np.ndarray) -> tuple[int, ...]:
        return tuple(int(need) for need in packing.pack(needs))

    return Cluster(packing, packed(WORKERS), packed(SERVERS), packed(WORKERS + SERVERS))


def window_size(state: State) -> Array:
    """Workloads in the window, int32."""
    return count([exists(row) for row in state.rows])


def free_resources(state: State, cluster: Cluster) -> Array:
    """Packed free resources, int32."""
    free = jnp.int32(cluster.layout.full)
    for row in state.rows:
        free -= summed(row.workers * cluster.need("worker", row.model))
        free -= summed(row.servers * cluster.need("server", row.model))
    return shared(free, len(state.rows))


def fitting_units(state: State, cluster: Cluster, pair: bool) -> list[list[Array]]:
    """Per row whether it has a workload of which each kind of unit fits, bools.

    The kinds are worker, PS; with ``pair`` only a worker with a PS.
    """
    free = free_resources(state, cluster)
    kinds = ("pair",) if pair else ("worker", "server")
    return [
        [exists(row) & cluster.layout.fits(free, cluster.need(kind, row.model)) for kind in kinds]
        for row in state.rows
    ]


def used_up(state: State, cluster: Cluster, pair: bool) -> Array:
    """Whether of some resource less is free than any unit of the window needs, bool.

    A resource that a kind of unit does not need at all (GPUs, of a PS) is judged by the other.
    """
    free = cluster.layout.unpack(free_resources(state, cluster))
    over = jnp.bool_(False)
    for resource, amounts in enumerate(least_needs(pair).T.tolist()):
        enough = [
            exists(row) & (by_model(amounts, row.model) <= free[..., resource])
            for row in state.rows
        ]
        over |= ~any_of(enough)
    return over


def least_needs(pair: bool) -> np.ndarray:
    """The smallest amount above 0 that a unit of each type needs, int ``[M, R]``."""
    if pair:
        return WORKERS + SERVERS
    needs = np.stack([WORKERS, SERVERS])
    return np.min(np.where(needs > 0, needs, needs.max(axis=0)), axis=0)


def look_up_speed(table: Array, row: Row) -> Array:
    """Entry of a speed table for a row's type and allocation."""
    _, workers, servers = table.shape
    index = (row.model * workers + row.workers) * servers + row.servers
    return table.reshape(-1).at[index].get(mode="promise_in_bounds")


def finished(state: State, jobs: JobTables) -> Array:
    """Every workload has finished, bool."""
    last = per_table(jobs.num_jobs, state.episode)
    return ~exists(end_of(state.rows, 0)) & (state.entered == last)


def timed_out(state: State, params: Params) -> Array:
    """A training phase has ended at or after the time limit, bool."""
    return (state.time >= params.max_time) & (state.decisions == 0)


def new_state(jobs: JobTables, episode: Array, window: int) -> State:
    """The cluster at the first submission."""
    episode = jnp.asarray(episode, jnp.int32)
    none = jnp.int32(0)
    time = lookup(jobs.submit_time, episode, none)
    submitted = per_table(jobs.at_start, episode)
    state = State(empty_rows(window, jobs.empty_row), time, none, submitted, none, episode)
    return refill(state, jobs)


def refill(state: State, jobs: JobTables) -> State:
    """Close the gaps that finished workloads left, then let waiting ones in, in table order."""
    if len(state.rows) > FEW or state.rows[0].job.ndim:
        return _refill_many(state, jobs)
    stays = [exists(row) for row in state.rows]
    staying, free = count(stays), len(state.rows)
    before = [count(stays[:k]) if k else jnp.int32(0) for k in range(free)]
    rows = []
    for place in range(free):
        new = _newcomer(state, jobs, place, staying)
        for k in reversed(range(place, free)):
            moves = stays[k] & (before[k] == place)
            new = Row(
                *(
                    jnp.where(moves, old, value)
                    for old, value in zip(state.rows[k], new, strict=True)
                )
            )
        rows.append(new)
    entering = jnp.minimum(free - staying, state.submitted - state.entered)
    return state._replace(rows=tuple(rows), entered=state.entered + entering)


def _newcomer(
    state: State, jobs: JobTables, place: Array | np.ndarray | int, staying: Array
) -> Row:
    """The waiting workload that enters at a place, or at several; an empty row if there is none."""
    candidate = state.entered + place - staying
    enters = (place >= staying) & (candidate < state.submitted)
    job = jnp.where(enters, candidate, jobs.empty_row)
    model, left = unpack(lookup(jobs.workload, state.episode, job))
    none = jnp.zeros_like(job)
    return Row(job, model, left, none, none)


def _refill_many(state: State, jobs: JobTables) -> State:
    """The same with the window as an array: ``I`` moves in place of one for each pair of rows."""
    table = table_of(state.rows)  # [I, 5]
    place = np.arange(len(table), dtype=np.int32)
    stays = exists(Row(*table.T))
    rank = jnp.cumsum(stays.astype(jnp.int32)) - 1
    staying = rank[-1] + 1
    waiting = jnp.stack(_newcomer(state, jobs, place, staying), axis=-1)
    table = waiting.at[jnp.where(stays, rank, len(place))].set(table, mode="drop")
    entering = jnp.minimum(len(place) - staying, state.submitted - state.entered)
    return state._replace(rows=of_table(table), entered=state.entered + entering)


class Phase(NamedTuple):
    """How a training phase from a state on would go.

    ``left`` are the remaining iterations of each row after it.
    """

    end: Array
    duration: Array
    left: list[Array]


def train(state: State, params: Params) -> Phase:
    """The training phase: to the next admissible arrival or the first finish."""
    jobs, rows = params.jobs, state.rows
    pace = [look_up_speed(params.seconds, row) for row in rows]
    trains = [can_train(row) for row in rows]
    needed = [
        jnp.where(t, row.left * g, jnp.inf) for t, row, g in zip(trains, rows, pace, strict=True)
    ]
    first_finish = jnp.min(jnp.stack(needed))
    arrival = lookup(jobs.submit_time, state.episode, state.submitted)
    gap = arrival - state.time
    last = per_table(jobs.num_jobs, state.episode)
    arrives = ~exists(end_of(rows, -1)) & (state.submitted < last) & (gap <= first_finish + TOL)
    stalls = jnp.isinf(first_finish)
    duration = jnp.where(arrives, gap, jnp.where(stalls, params.stall_seconds, first_finish))
    duration = shared(duration, len(rows))
    end = jnp.where(arrives, arrival, state.time + duration)
    left = []
    for t, row, g, need in zip(trains, rows, pace, needed, strict=True):
        done = jnp.floor(duration / g + EPS).astype(jnp.int32)
        after = jnp.where(need <= duration + TOL, 0, jnp.maximum(row.left - done, 0))
        left.append(jnp.where(t, after, row.left))
    return Phase(end, duration, left)


def waiting_time(
    state: State, params: Params, end: Array, duration: Array, submitted: Array
) -> Array:
    """Seconds that workloads spend in the system until ``end``, summed over them.

    Those of the window and those behind it count in full, those submitted meanwhile (up to row
    ``submitted``) from their submission on.
    """
    present = window_size(state) + state.submitted - state.entered
    came = waiting_of_arrivals(params.jobs, state.episode, state.submitted, submitted, end)
    return present * duration + came
