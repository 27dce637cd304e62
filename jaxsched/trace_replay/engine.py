"""Replays of the orders that never suspend a job.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``K`` classes of equal size (and group). A
GPU is free from the time on at which its job ends, so completions need no step of their own: a
step starts one job, or goes on to the next instant and admits the job that arrives then, if one
does. Within a class every job needs the same, so the next job is the best of the classes' first
ones. Where jobs wait in one fixed order and the number of free GPUs alone says who fits, they stand
in one ``line`` instead, and how many sizes there are plays no part.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.ops.packing import Packing
from jaxsched.trace_replay import failing as fl
from jaxsched.trace_replay import line as ln
from jaxsched.trace_replay import waiting as wt
from jaxsched.trace_replay import windows as wd
from jaxsched.trace_replay.cluster import (
    Cluster,
    available,
    first_server,
    fits,
    kinds_for,
    place,
    rooms_for,
    take_gpus,
)
from jaxsched.trace_replay.demands import Free, limits_of, usable
from jaxsched.trace_replay.fragmentation import Tasks
from jaxsched.trace_replay.gpu_types import run_time_at, work_within
from jaxsched.trace_replay.line import Line
from jaxsched.trace_replay.placing import placed
from jaxsched.trace_replay.policies import Locality, Mode
from jaxsched.trace_replay.shares import free_slots, of_gpus, taken_of
from jaxsched.trace_replay.tables import NEVER, Jobs, Shape
from jaxsched.trace_replay.waiting import NONE, Waiting
from jaxsched.types import Array

Ranking = Literal["key", "drf", "tetris", "fairness", "group-fairness", "slowdown"]
ANY = NONE - 1  # a limit that every waiting job's value keeps
CUTS = 15
PARTS = 2**15  # of a quota that a group may hold, as fractions are compared


class Rules(NamedTuple):
    """Static options of a replay; where GPUs have slots, GPUs stand for slots all over."""

    cluster: Cluster
    shape: Shape
    ranking: Ranking
    mode: Mode
    locality: Locality
    estimated: bool  # promises go by estimates
    weighted: bool  # what groups hold counts in parts of their quotas
    isolated: bool  # no group holds more than its quota
    in_line: bool  # jobs wait in one ``line``
    slots: int = 0  # of each GPU, where it matters which GPU a free slot is on
    fgd: bool = False  # places by fragmentation

    @property
    def by_group(self) -> bool:
        """Whether it matters who holds which GPUs."""
        return self.ranking == "drf" or self.isolated


class Outcome(NamedTuple):
    """What is recorded of a job: a row of the ledger, int32 ``[..., n + 1]`` in columns."""

    start: Array  # of the first run
    end: Array
    num_servers: Array
    first_server: Array


class Committed(NamedTuple):
    """What mode ``commit`` keeps besides: events happen one by one."""

    job: Array  # int32 scalar, the job that is to start next; n if none was chosen yet
    held: Array  # bool [M, S], the GPU's last job has not ended
    number: Array  # int32 [M, S], which start it was
    started: Array  # int32 scalar, jobs started


class State(NamedTuple):
    """A replay between two steps."""

    time: Array  # int32 scalar, s
    arrived: Array  # int32 scalar, jobs admitted
    num_waiting: Array  # int32 scalar
    waiting: Waiting | Line  # values: run times, as the policy knows them
    free_from: Array  # int32 [M, S], when the GPU's last job ends
    expected: Array  # int32 [M, S], when it was expected to as it started; [0, 0] if that is all
    group: Array  # int32 [M, S], group of the GPU's last job
    ledger: Array  # int32 [n + 1, 4], the outcome of each job; the last row is of no job
    overflow: Array  # bool scalar, a job would end beyond int32
    committed: Committed | None  # in mode commit
    failing: fl.Failing | None = None  # where servers are away at times
    use: Array | None = None  # int32 [D, M, S], what the GPU's last job needs of the demands


def opened(rules: Rules, jobs: Jobs) -> State:
    """The idle cluster at time 0."""
    shape, cluster = rules.shape, rules.cluster
    gpus = (cluster.gpus_per_server, cluster.num_servers)
    zero = jnp.int32(0)
    return State(
        time=zero,
        arrived=zero,
        num_waiting=zero,
        waiting=(ln if rules.in_line else wt).nobody(shape.num_blocks, shape.width),
        free_from=jnp.zeros(gpus, jnp.int32),
        expected=jnp.zeros(gpus if rules.estimated else (0, 0), jnp.int32),
        group=jnp.zeros(gpus, jnp.int32),
        ledger=jnp.zeros((shape.num_jobs + 1, len(Outcome._fields)), jnp.int32),
        overflow=jnp.bool_(False),
        committed=Committed(
            jnp.int32(shape.num_jobs), jnp.zeros(gpus, bool), jnp.zeros(gpus, jnp.int32), zero
        )
        if rules.mode == "commit"
        else None,
        failing=None
        if jobs.events is None
        else fl.nothing_failed(cluster, jobs.duration, jobs.events),
        use=jnp.zeros((len(cluster.demands), *gpus), jnp.int32) if cluster.demands else None,
    )


def unfinished(jobs: Jobs, state: State) -> Array:
    """Whether jobs wait or are still to come, bool scalar."""
    more = (state.num_waiting > 0) | (jobs.submit[state.arrived] < NEVER)
    if state.failing is not None and jobs.events is not None:  # who runs may have to run again
        more |= jnp.any(state.free_from > state.time)
    return more & ~state.overflow


def step(rules: Rules, free_weight: Array, jobs: Jobs, state: State) -> State:
    """Start one job, or go on to the next instant; nothing where the replay has finished."""
    if state.committed is not None:
        return _committed_step(rules, free_weight, jobs, state, state.committed)
    cluster, nobody = rules.cluster, rules.shape.num_jobs
    has_ended = state.free_from <= state.time
    is_free = available(cluster, has_ended)
    failing, events, stopped = state.failing, jobs.events, jnp.int32(nobody)
    if failing is not None:
        is_free &= failing.away_until <= state.time
    free = _free(rules, state, is_free)
    decides = (jobs.submit[state.arrived] > state.time) & (state.num_waiting > 0)
    if failing is not None and events is not None:
        due = fl.is_due(failing, events, state.time)
        stopped = fl.victim(failing, events, state.time, state.free_from)
        stopped = jnp.where(state.overflow, nobody, stopped)
        decides &= ~due
    if isinstance(state.waiting, Line):
        decides &= jnp.min(state.waiting.fewest) <= jnp.sum(free.gpus)
    job = jax.lax.cond(
        decides & ~state.overflow,
        lambda: next_job(rules, free_weight, jobs, state, free),
        lambda: jnp.int32(nobody),
    )
    starts = job < nobody
    free = free.on(_open_to(rules, jobs, state, job, state.time))
    own = usable(cluster, free, _demand(jobs, job))
    placing, mine = _placed(rules, free_weight, jobs, free, own, job)
    taken = take_gpus(placing, of_gpus(is_free, rules.slots, mine)) & starts
    left = (jobs.duration if failing is None else failing.remaining)[job]
    end = state.time + _seconds(rules, jobs, left, job, own)

    event = jnp.min(jnp.where(has_ended, NEVER, state.free_from))
    if failing is not None and events is not None:
        event = jnp.minimum(event, fl.upcoming(failing, events, state.time))
    upcoming = jnp.minimum(event, jobs.submit[state.arrived])
    goes_on = ~starts & (upcoming < NEVER) & ~state.overflow
    if failing is not None:
        goes_on &= ~due
    time = jnp.where(goes_on, jnp.maximum(state.time, upcoming), state.time)
    admits = goes_on & (jobs.submit[state.arrived] <= time)

    moved = jnp.where(starts, job, jnp.where(admits, state.arrived, nobody))
    value = jnp.where(admits, jobs.expected[moved], NONE)
    group, expected, first, freed = state.group, state.expected, state.time, state.free_from
    if failing is not None and events is not None:
        moved = jnp.minimum(moved, stopped)
        hit = (failing.job == stopped) & ~has_ended & (stopped < nobody)
        freed = jnp.where(hit, state.time, freed)
        speed = _speed_of(rules, jobs, stopped, hit)
        failing = fl.dealt_with(failing, events, state.time, stopped, speed, state.overflow)
        value = jnp.where(stopped < nobody, _left(jobs, failing, stopped), value)
        failing, first = fl.begun(failing, job, taken, state.time)
    waiting = state.num_waiting + admits - starts
    if failing is not None:
        waiting += stopped < nobody
    outcome = Outcome(first, end, placing.num_servers, first_server(placing))
    if rules.estimated:
        believed = jobs.expected[job] if failing is None else _left(jobs, failing, job)
        takes = _seconds(rules, jobs, believed, job, own)
        until = state.time + jnp.minimum(takes, NEVER - state.time)
        expected = jnp.where(taken, until, expected)
    if rules.by_group:
        group = jnp.where(taken, jobs.class_group[class_of(jobs, job)], group)
    return State(
        time=time,
        arrived=state.arrived + admits,
        num_waiting=waiting,
        waiting=_put(jobs, state.waiting, jobs.place[moved], value),
        free_from=jnp.where(taken, end, freed),
        expected=expected,
        group=group,
        ledger=state.ledger.at[job].set(jnp.stack(outcome)),
        overflow=state.overflow | (starts & ((end < state.time) | (end == NEVER))),
        committed=None,
        failing=failing,
        use=_used(jobs, state, job, taken),
    )


def _free(rules: Rules, state: State, is_free: Array) -> Free:
    """What is free of servers where these GPUs are, bool ``[M, S]``."""
    gpus = jnp.sum(is_free, axis=0, dtype=jnp.int32)
    slots = free_slots(is_free, rules.slots) if rules.slots else None
    if state.use is None:
        return Free(gpus, None, slots)
    used = jnp.sum(jnp.where(is_free, 0, state.use), axis=1, dtype=jnp.int32)
    return Free(gpus, jnp.array(limits_of(rules.cluster), jnp.int32) - used, slots)


def _tasks(rules: Rules, jobs: Jobs) -> Tasks | None:
    """The typical workload where jobs go by fragmentation; else None."""
    if not rules.fgd or jobs.amount is None or jobs.demand is None:
        return None
    return Tasks(jobs.class_gpus, jobs.demand, jobs.amount)


def _placed(
    rules: Rules, free_weight: Array, jobs: Jobs, free: Free, own: Array, job: Array
) -> tuple[Packing, Array | None]:
    """``placed`` of a job of the table."""
    ranks, demand, tasks = _ranks(jobs, job), _demand(jobs, job), _tasks(rules, jobs)
    num_gpus = jobs.num_gpus[job]
    return placed(
        rules.cluster, rules.locality, free_weight, free, own, num_gpus, ranks, demand, tasks
    )


def _demand(jobs: Jobs, job: Array) -> Array | None:
    """``Jobs.demand`` of a job, int32 ``[D]``; None where there is none."""
    return None if jobs.demand is None else jobs.demand[class_of(jobs, job)]


def _used(jobs: Jobs, state: State, job: Array, taken: Array) -> Array | None:
    """``State.use`` once a job has taken GPUs."""
    demand = _demand(jobs, job)
    if state.use is None or demand is None:
        return None
    return jnp.where(taken, demand[: len(state.use), None, None], state.use)


def _rooms(rules: Rules, jobs: Jobs, free: Free, servers: Array | None = None) -> Array:
    """``rooms_for`` jobs, of each class (``[K, ...]``) where servers have limits beside GPUs.

    ``servers`` are those where jobs of each class may start, bool ``[K, S]``; None: all.
    """

    def room(demand: Array | None, servers: Array | None) -> Array:
        own = usable(rules.cluster, free.on(servers), demand)
        return rooms_for(rules.cluster, rules.locality, own)

    alike = jobs.demand is None and servers is None
    return room(None, None) if alike else jax.vmap(room)(jobs.demand, servers)


def _open_to(rules: Rules, jobs: Jobs, state: State, job: Array, time: Array) -> Array | None:
    """The servers where a job could start at a time, bool ``[S]``; None where none are reserved."""
    if jobs.windows is None or state.failing is None:
        return None
    speed = None if jobs.typed is None else jobs.typed.speed[class_of(jobs, job)]
    work = wd.most_work(jobs.windows, rules.cluster, time, speed)
    return work >= _left(jobs, state.failing, job)


def _left(jobs: Jobs, failing: fl.Failing, job: Array) -> Array:
    """``failing.known_left`` of a job of the table, int32 scalar."""
    return fl.known_left(failing, jobs.expected, jobs.duration, job)


def _speed_of(rules: Rules, jobs: Jobs, job: Array, gpus: Array) -> Array | None:
    """The speed of a job that runs on some GPUs (bool ``[M, S]``), in thousandths."""
    if jobs.typed is None:
        return None
    kinds = jnp.array(rules.cluster.server_kinds, jnp.int32)
    kind = jnp.max(jnp.where(jnp.any(gpus, axis=0), kinds, 0))
    return jobs.typed.speed[class_of(jobs, job), kind]


def _committed_step(
    rules: Rules, free_weight: Array, jobs: Jobs, state: State, committed: Committed
) -> State:
    """``step`` of mode ``commit``: the chosen job starts, or one submission or end happens.

    Of equal times submissions come before ends, and of ends those of the jobs that started first.
    """
    cluster, nobody = rules.cluster, rules.shape.num_jobs
    is_free = available(cluster, ~committed.held)
    free = _free(rules, state, is_free)
    head = jax.lax.cond(
        (committed.job == nobody) & (state.num_waiting > 0) & ~state.overflow,
        lambda: _head(rules, free_weight, jobs, state, free),
        lambda: committed.job,
    )
    room = rooms_for(cluster, rules.locality, usable(cluster, free, _demand(jobs, head)))
    fits_now = fits(room, jobs.num_gpus[head], _ranks(jobs, head))
    starts = (head < nobody) & fits_now & ~state.overflow
    job = jnp.where(starts, head, nobody)
    own = usable(cluster, free, _demand(jobs, job))
    placing, mine = _placed(rules, free_weight, jobs, free, own, job)
    taken = take_gpus(placing, of_gpus(is_free, rules.slots, mine)) & starts
    end = state.time + _seconds(rules, jobs, jobs.duration[job], job, own)

    submit = jobs.submit[state.arrived]
    next_end = jnp.min(jnp.where(committed.held, state.free_from, NEVER))
    goes_on = ~starts & (jnp.minimum(submit, next_end) < NEVER) & ~state.overflow
    admits = goes_on & (submit <= next_end)
    is_next = committed.held & (state.free_from == next_end)
    first = jnp.min(jnp.where(is_next, committed.number, NEVER))
    freed = is_next & (committed.number == first) & goes_on & ~admits
    upcoming = jnp.where(admits, submit, next_end)

    moved = jnp.where(starts, job, jnp.where(admits, state.arrived, nobody))
    value = jnp.where(admits, jobs.expected[moved], NONE)
    outcome = Outcome(state.time, end, placing.num_servers, first_server(placing))
    return state._replace(
        time=jnp.where(goes_on, jnp.maximum(state.time, upcoming), state.time),
        arrived=state.arrived + admits,
        num_waiting=state.num_waiting + admits - starts,
        waiting=_put(jobs, state.waiting, jobs.place[moved], value),
        free_from=jnp.where(taken, end, state.free_from),
        ledger=state.ledger.at[job].set(jnp.stack(outcome)),
        overflow=state.overflow | (starts & ((end < state.time) | (end == NEVER))),
        committed=Committed(
            jnp.where(starts, nobody, head).astype(jnp.int32),
            (committed.held | taken) & ~freed,
            jnp.where(taken, committed.started, committed.number),
            committed.started + starts,
        ),
        use=_used(jobs, state, job, taken),
    )


def _head(rules: Rules, free_weight: Array, jobs: Jobs, state: State, free: Free) -> Array:
    """The first waiting job in order, whether it fits or not; int32 scalar, n if none waits."""
    if isinstance(state.waiting, Line):
        place, exists = ln.first(state.waiting, jobs.gpus_at, jnp.int32(ANY))
        return jnp.where(exists, jobs.job_at[place], rules.shape.num_jobs)
    everyone = jnp.full_like(jobs.class_gpus, ANY)
    return _first(rules, free_weight, jobs, state, free, everyone)[1]


def class_of(jobs: Jobs, job: Array) -> Array:
    """The class of a job; some class for no job."""
    width = jobs.job_at.shape[0] // jobs.block_class.shape[0]
    return jnp.minimum(jobs.block_class[jobs.place[job] // width], jobs.class_gpus.shape[0] - 1)


def _ranks(jobs: Jobs, job: Array) -> Array | None:
    """The job's order of kinds of servers, int32 ``[kinds]``; None where GPUs have no types."""
    return None if jobs.typed is None else jobs.typed.rank[class_of(jobs, job)]


def _seconds(rules: Rules, jobs: Jobs, work: Array, job: Array, free: Array) -> Array:
    """How long so many seconds of a job's work take where it would go; junk if it fits nowhere."""
    if jobs.typed is None:
        return work
    own = class_of(jobs, job)
    room = rooms_for(rules.cluster, rules.locality, free)
    kind = kinds_for(room, jobs.num_gpus[job], jobs.typed.rank[own])
    return run_time_at(work, jobs.typed.speed[own, kind])


def _kinds(rules: Rules, jobs: Jobs, free: Free, servers: Array | None) -> Array:
    """The kind that jobs of each class would get now, int32 ``[K]``; junk where they do not fit."""
    assert jobs.typed is not None
    room = _rooms(rules, jobs, free, servers)
    return kinds_for(room, jobs.class_gpus, jobs.typed.rank)


def next_job(rules: Rules, free_weight: Array, jobs: Jobs, state: State, free: Free) -> Array:
    """The job that starts now, int32 scalar; n if none does."""
    nobody, cluster = rules.shape.num_jobs, rules.cluster
    if isinstance(state.waiting, Line):
        return _next_in_line(rules, jobs, state, state.waiting, jnp.sum(free.gpus))
    ranks = None if jobs.typed is None else jobs.typed.rank
    room = _rooms(rules, jobs, free)

    def startable(room: Array) -> Array:
        found = fits(room, jobs.class_gpus, ranks)
        if rules.isolated:
            left = jobs.quota - _held(rules, state)
            found &= jobs.class_gpus <= left[jobs.class_group]
        return found

    can_start = startable(room)

    def able(servers: Array | None) -> Array:
        if servers is None:
            return can_start
        return startable(_rooms(rules, jobs, free, servers))

    if rules.ranking == "fairness":
        return _worst_off(rules, jobs, state, can_start)
    if rules.mode == "skip":
        return _first_of_spans(
            rules, free_weight, jobs, state, free, lambda servers: jnp.where(able(servers), ANY, -1)
        )
    head = _head(rules, free_weight, jobs, state, free)
    own, now_open = _ranks(jobs, head), _open_to(rules, jobs, state, head, state.time)
    if now_open is None:
        own_room = room if jobs.demand is None else room[class_of(jobs, head)]
    else:
        heads_now = usable(cluster, free.on(now_open), _demand(jobs, head))
        own_room = rooms_for(cluster, rules.locality, heads_now)
    head_fits = fits(own_room, jobs.num_gpus[head], own)
    if rules.mode == "block":
        return jnp.where(head_fits, head, nobody)

    def backfilled() -> Array:
        needed, heads = jobs.num_gpus[head], _demand(jobs, head)

        def open_at(time: Array) -> Array | None:
            return _open_to(rules, jobs, state, head, time)

        promised, then_free = promise(rules, jobs, state, needed, own, heads, open_at)
        then_open = open_at(promised)

        def leaves_room(
            num_gpus: Array, ranks: Array | None, demand: Array | None, servers: Array | None
        ) -> Array:
            here = free.on(servers)
            now = usable(cluster, here, demand)
            placing, mine = placed(
                cluster,
                rules.locality,
                free_weight,
                here,
                now,
                num_gpus,
                ranks,
                demand,
                _tasks(rules, jobs),
            )
            taken = placing.counts(now) if mine is None else taken_of(mine, placing.counts(now))
            left = usable(cluster, then_free.without(taken, demand).on(then_open), heads)
            return fits(rooms_for(cluster, rules.locality, left), needed, own)

        def harmless(servers: Array | None) -> Array:
            gpus, soon = jnp.minimum(jobs.class_gpus, cluster.num_gpus), promised - state.time
            if jobs.typed is not None:
                kinds = _kinds(rules, jobs, free, servers)
                speed = jnp.take_along_axis(jobs.typed.speed, kinds[:, None], 1)
                soon = work_within(soon, speed[:, 0], ANY)
            leaves = jax.vmap(leaves_room)(gpus, ranks, jobs.demand, servers)
            return jnp.where(able(servers), jnp.where(leaves, ANY, soon), -1)

        return _first_of_spans(rules, free_weight, jobs, state, free, harmless)

    return jax.lax.cond(head_fits, lambda: head, backfilled)


def _put(jobs: Jobs, waiting: Waiting | Line, place: Array, value: Array) -> Waiting | Line:
    if isinstance(waiting, Line):
        return ln.put(waiting, jobs.gpus_at, place, value)
    return wt.put(waiting, place, value)


def _next_in_line(rules: Rules, jobs: Jobs, state: State, line: Line, room: Array) -> Array:
    """``next_job`` where jobs wait in one line and so many GPUs are free; some job fits."""
    nobody = rules.shape.num_jobs

    def job_of(found: tuple[Array, Array]) -> Array:
        return jnp.where(found[1], jobs.job_at[found[0]], nobody)

    if rules.mode == "skip":
        return job_of(ln.first(line, jobs.gpus_at, room))
    head = _head(rules, jnp.int32(0), jobs, state, Free(jnp.zeros(0, jnp.int32)))
    head_fits = jobs.num_gpus[head] <= room
    if rules.mode == "block":
        return jnp.where(head_fits, head, nobody)

    def backfilled() -> Array:
        needed = jobs.num_gpus[head]
        promised, then_free = promise(rules, jobs, state, needed, None, None, lambda _: None)
        spare = jnp.sum(then_free.gpus) - needed
        short = promised - state.time
        return job_of(ln.first_beside(line, jobs.gpus_at, room, spare, short))

    return jax.lax.cond(head_fits, lambda: head, backfilled)


def promise(
    rules: Rules,
    jobs: Jobs,
    state: State,
    num_gpus: Array,
    ranks: Array | None,
    demand: Array | None,
    open_at: Callable[[Array], Array | None],
) -> tuple[Array, Free]:
    """When a job of that many GPUs, order of kinds and demand will fit if nobody else starts.

    A job that has outrun its estimate is expected to end in the next second. Where servers are
    reserved a job may fit at a time and not later, so times are tried in turn, from the first on at
    which enough GPUs are free; ``open_at`` gives the servers where it could start at a time.

    Returns:
      When, int32 scalar (s), and what is free at that time.
    """
    until = state.free_from
    if rules.estimated:
        until = jnp.where(until > state.time, jnp.maximum(state.expected, state.time + 1), until)
    if state.failing is not None:
        until = jnp.maximum(until, state.failing.away_until)

    def free_at(time: Array) -> Free:
        return _free(rules, state, available(rules.cluster, until <= time))

    def holds(time: Array, servers: Array | None) -> Array:
        then = usable(rules.cluster, free_at(time).on(servers), demand)
        return fits(rooms_for(rules.cluster, rules.locality, then), num_gpus, ranks)

    def halve(bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        too_early, enough = bounds
        middle = too_early + (enough - too_early) // 2
        enough_then = holds(middle, None)
        return jnp.where(enough_then, too_early, middle), jnp.where(enough_then, middle, enough)

    latest = jnp.maximum(jnp.max(until), state.time)
    if rules.in_line:
        if rules.cluster.kinds:
            until = jnp.where(available(rules.cluster, until <= latest), until, NEVER)
        promised = _kth(until.reshape(-1), num_gpus, state.time - 1, latest)
        return promised, free_at(promised)
    _, promised = jax.lax.while_loop(
        lambda bounds: bounds[1] - bounds[0] > 1, halve, (state.time - 1, latest)
    )
    windows = jobs.windows
    if windows is not None:

        def too_early(time: Array) -> Array:
            return (time < NEVER) & ~holds(time, open_at(time))

        def later(time: Array) -> Array:
            end = jnp.min(jnp.where(until > time, until, NEVER))
            return jnp.minimum(end, wd.next_end(windows, time))

        promised = jax.lax.while_loop(too_early, later, promised)
    return promised, free_at(promised)


def _kth(values: Array, k: Array, below: Array, most: Array) -> Array:
    """The least number that ``k`` of the values do not exceed, above ``below``; int32 scalar.

    A search that divides what is left by ``CUTS + 1`` at a time; ``most`` is no less than all.
    """
    cuts = jnp.arange(1, CUTS + 1, dtype=jnp.int32)

    def narrow(bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        step = (high - low - 1) // (CUTS + 1) + 1
        tried = jnp.minimum(low + jnp.minimum(cuts, (high - low) // step) * step, high)
        enough = jnp.sum(values[None, :] <= tried[:, None], axis=1, dtype=jnp.int32) >= k
        return jnp.max(jnp.where(enough, low, tried)), jnp.min(jnp.where(enough, tried, high))

    found = jax.lax.while_loop(lambda bounds: bounds[1] - bounds[0] > 1, narrow, (below, most))
    return found[1]


def _first_of_spans(
    rules: Rules,
    free_weight: Array,
    jobs: Jobs,
    state: State,
    free: Free,
    limit_on: Callable[[Array | None], Array],
) -> Array:
    """The first in order of the waiting jobs that keep their class's limit, int32 scalar; or n.

    ``limit_on`` gives limits of run times (``_first``) where jobs of each class may start on these
    servers alone, bool ``[K, S]``; None: on all. Where servers are reserved, run times are looked
    through span by span, each with its own servers.
    """
    windows, waiting = jobs.windows, state.waiting
    if windows is None:
        return _first(rules, free_weight, jobs, state, free, limit_on(None))[1]
    assert isinstance(waiting, Waiting)
    speeds = None if jobs.typed is None else jobs.typed.speed
    each = jax.vmap(
        partial(wd.most_work, windows, rules.cluster, state.time),
        axis_size=jobs.class_gpus.shape[0],
    )
    work = jnp.where(free.gpus > 0, each(speeds), 0)

    def look(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        above, least, first = carry
        span = wd.span_above(work, above)
        part = state._replace(waiting=wd.within(waiting, jobs.block_class, span))
        limit = limit_on(span.servers)
        key, job = _first(rules, free_weight, jobs, part, free, limit, span.servers)
        better = (key < least) | ((key == least) & (job < first))
        return span.most, jnp.where(better, key, least), jnp.where(better, job, first)

    none = jnp.zeros_like(jobs.class_gpus), jnp.int32(NONE), jnp.int32(rules.shape.num_jobs)
    return jax.lax.while_loop(lambda carry: jnp.any(carry[0] < ANY), look, none)[2]


def _first(
    rules: Rules,
    free_weight: Array,
    jobs: Jobs,
    state: State,
    free: Free,
    limit: Array,
    servers: Array | None = None,
) -> tuple[Array, Array]:
    """The first in order of the waiting jobs whose run time keeps their class's limit, or n.

    Before it its key in the order. ``servers`` are those of ``_rooms``.
    """
    nobody = rules.shape.num_jobs
    assert isinstance(state.waiting, Waiting)
    found = wt.first_up_to(state.waiting, jobs.block_class, limit)
    job = jnp.where(found.exists, jobs.job_at[found.place], nobody)
    if rules.ranking in GROUPS_FIRST:
        key = GROUPS_FIRST[rules.ranking](rules, jobs, state)[jobs.class_group]
    elif rules.ranking == "tetris":
        key = jobs.key[job] - alignment(rules, free_weight, jobs, free, servers)
    elif rules.ranking == "slowdown" and jobs.typed is not None:
        kinds = _kinds(rules, jobs, free, servers)[:, None]
        key = jnp.take_along_axis(jobs.typed.slowdown, kinds, 1)[:, 0]
    else:
        key = jobs.key[job]
    least = jnp.min(jnp.where(found.exists, key, NONE))
    return least, jnp.min(jnp.where(found.exists & (key == least), job, nobody))


def _worst_off(rules: Rules, jobs: Jobs, state: State, fits: Array) -> Array:
    """The waiting job of the worst finish-time fairness whose class fits; n if none does."""
    of_block = jnp.append(fits, False)[jnp.minimum(jobs.block_class, fits.shape[0])]
    unfair = jnp.where(of_block[:, None], _unfairness(jobs, state), -1)
    worst = (unfair >= 0) & (unfair == jnp.max(unfair))
    return jnp.min(jnp.where(worst, jobs.job_at.reshape(worst.shape), rules.shape.num_jobs))


def _unfairness(jobs: Jobs, state: State) -> Array:
    """Wait over run time of each waiting job, float32 ``[B, W]``; -1 where none waits."""
    run_time = state.waiting.values
    waited = (state.time - jobs.submit_at.reshape(run_time.shape)).astype(jnp.float32)
    return jnp.where(run_time < NONE, waited / run_time.astype(jnp.float32), -1)


def _part_held(rules: Rules, jobs: Jobs, state: State) -> Array:
    """What each group holds, or with weights the part of its quota, int32 ``[groups]``."""
    held = _held(rules, state)
    return held * PARTS // jobs.quota if rules.weighted else held


def _worst_of_group(rules: Rules, jobs: Jobs, state: State) -> Array:
    """The finish-time fairness of each group's worst waiting job, int32 ``[groups]``, worst least.

    Bits of numbers from 0 on are in the order of the numbers.
    """
    of_block = jnp.max(_unfairness(jobs, state), axis=1)
    group = jobs.class_group[jnp.minimum(jobs.block_class, jobs.class_group.shape[0] - 1)]
    own = group[None, :] == jnp.arange(rules.shape.num_groups)[:, None]
    worst = jnp.max(jnp.where(own, of_block[None, :], 0), axis=1)
    return -jax.lax.bitcast_convert_type(worst, jnp.int32)


def _held(rules: Rules, state: State) -> Array:
    """GPUs that each group holds, int32 ``[groups]``."""
    busy = state.free_from > state.time
    group = jnp.where(busy, state.group, rules.shape.num_groups).reshape(-1)
    numbers = jnp.arange(rules.shape.num_groups)
    return jnp.sum(group[None, :] == numbers[:, None], axis=1, dtype=jnp.int32)


def alignment(
    rules: Rules, free_weight: Array, jobs: Jobs, free: Free, servers: Array | None
) -> Array:
    """Tetris' alignment of each class with its servers, int32 ``[K]``, in shares of the mean.

    Junk for classes that do not fit. ``servers`` are those of ``_rooms``.
    """
    most = rules.cluster.num_servers * rules.cluster.gpus_per_server

    def of_class(
        num_gpus: Array, ranks: Array | None, demand: Array | None, servers: Array | None
    ) -> Array:
        here = free.on(servers)
        own = usable(rules.cluster, here, demand)
        placing = place(rules.cluster, rules.locality, free_weight, own, num_gpus, ranks)
        return jnp.sum(placing.counts(own) * free.gpus)

    gpus = jnp.minimum(jobs.class_gpus, most)
    ranks = None if jobs.typed is None else jobs.typed.rank
    return 1000 * jax.vmap(of_class)(gpus, ranks, jobs.demand, servers) // jobs.align_unit


GROUPS_FIRST: dict[Ranking, Callable[[Rules, Jobs, State], Array]] = {
    "drf": _part_held,
    "group-fairness": _worst_of_group,
}
"""How groups are ranked, lowest first, where jobs are in the order of their groups."""
