"""The cluster's dynamics, those of ``jaxsched.trace_replay``.

Axes: ``S`` servers, ``M`` GPUs per server, ``W`` positions of the window, ``n`` jobs (row ``n`` of
a table stands for no job), ``G`` owners, ``R`` rows of history.

Between two decisions events happen one at a time: jobs that have ended enter the history, the
lowest number first; jobs are admitted; then the clock goes on to the next instant. Where running
jobs may be suspended, they stay in the window until they end, every job has an account, and the
next instant may be one at which its service reaches a threshold; see ``suspension``.

Where servers are away at times (``trace_replay.failing``), an outage that has begun is dealt with
after the ends of that instant, one stopped job at a time, and before admissions. A stopped job
waits again at its place in the order of submission, and what is behind the window may be older jobs
than some that run: then a mask says who waits. The play ends with the last end, since a job that
runs may have to run again.

Where a choice is a commitment (mode ``commit``), there are no instants: each submission and each
end is an event that moves the clock, and a job has ended once it is in the history.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.envs.cluster.rules.tables import Jobs
from jaxsched.ops.batching import select
from jaxsched.trace_replay import failing as fl
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay.cluster import (
    FREE_WEIGHT,
    Cluster,
    available,
    first_server,
    kinds_for,
    rooms_for,
    take_gpus,
)
from jaxsched.trace_replay.cluster import fits as has_room
from jaxsched.trace_replay.demands import Free, limits_of, usable
from jaxsched.trace_replay.gpu_types import run_time_at
from jaxsched.trace_replay.placing import placed
from jaxsched.trace_replay.policies import Locality, Placing
from jaxsched.trace_replay.shares import free_slots, of_gpus
from jaxsched.trace_replay.suspension import (
    Account,
    Plan,
    begin_run,
    new_accounts,
    no_plan,
    own_place,
)
from jaxsched.trace_replay.tables import NEVER
from jaxsched.trace_replay.windows import most_work
from jaxsched.types import Array


class Rules(NamedTuple):
    """Static options; where GPUs have slots, GPUs stand for slots all over."""

    cluster: Cluster
    window: int
    locality: Locality
    placement: Placing
    may_wait: bool
    suspends: bool
    commits: bool = False
    sees_run_times: bool = False
    slots: int = 0  # of each GPU, where it matters which GPU a free slot is on


class State(NamedTuple):
    """The cluster's state; int32."""

    episode: Array  # scalar
    time: Array  # scalar, s
    arrived: Array  # scalar, jobs admitted
    entered: (
        Array  # scalar, jobs that have been in the window; those up to ``arrived`` queue for it
    )
    window: Array  # [W], waiting (and suspendable running) jobs by submission, then n
    free_from: Array  # [M, S], when the GPU's last job ends
    job: Array  # [M, S], its last job
    is_known: Array  # bool [M, S], whether that job has entered the history
    running: Array  # scalar, jobs that run
    held: Array  # [G], GPUs that each owner holds
    queued: Array  # [G], jobs of each owner that wait
    history: Array  # [R, C], statistics of the jobs that have ended
    estimate: Array  # [n + 1], mean run time of the stream when the job was submitted, s
    overflow: Array  # bool scalar, a job would end beyond int32
    accounts: Array | None  # [n + 1, 8], ``Account`` of each job; None without suspension
    plan: Plan | None  # moves of this instant not done yet; None without suspension
    number: Array | None = None  # [M, S], its last job's place in the order of starts; ``commits``
    started: Array | None = None  # scalar, jobs started; ``commits``
    failing: fl.Failing | None = None  # where servers are away at times
    waiting: Array | None = None  # bool [n + 1], jobs that wait; where servers are away at times
    unpaid: Array | None = None  # float32 scalar, job-seconds before the first decision; likewise


class Start(NamedTuple):
    """A job that starts; int32 scalars; row n if no job starts."""

    job: Array
    start: Array  # of its first run
    end: Array
    num_servers: Array
    first_server: Array


def opened(rules: Rules, jobs: Jobs, episode: Array) -> State:
    """The idle cluster at time 0, before any job is admitted."""
    gpus = (rules.cluster.gpus_per_server, rules.cluster.num_servers)
    zero = jnp.int32(0)
    return State(
        episode=episode,
        time=zero,
        arrived=zero,
        entered=zero,
        window=jnp.full(rules.window, jobs.empty_row, jnp.int32),
        free_from=jnp.zeros(gpus, jnp.int32),
        job=jnp.full(gpus, jobs.empty_row, jnp.int32),
        is_known=jnp.ones(gpus, bool),
        running=zero,
        held=jnp.zeros(jobs.owners.shape, jnp.int32),
        queued=jnp.zeros(jobs.owners.shape, jnp.int32),
        history=hs.nothing_yet(jobs.scopes.shape[0]),
        estimate=jnp.zeros(jobs.empty_row + 1, jnp.int32),
        overflow=jnp.bool_(False),
        accounts=jnp.stack(new_accounts(jobs.duration), axis=1) if rules.suspends else None,
        plan=no_plan(rules.cluster, jobs.empty_row) if rules.suspends else None,
        number=jnp.zeros(gpus, jnp.int32) if rules.commits else None,
        started=zero if rules.commits else None,
        failing=None
        if jobs.events is None
        else fl.nothing_failed(rules.cluster, jobs.duration, jobs.events, keeps_cuts=False),
        waiting=None if jobs.events is None else jnp.zeros(jobs.empty_row + 1, bool),
        unpaid=None if jobs.events is None else jnp.float32(0),
    )


def is_free(rules: Rules, state: State) -> Array:
    """Which GPUs are free, bool ``[M, S]``."""
    ended = state.is_known if rules.commits else state.free_from <= state.time
    free = available(rules.cluster, ended)
    return free if state.failing is None else free & (state.failing.away_until <= state.time)


def free_gpus(rules: Rules, state: State) -> Array:
    """Free GPUs of each server, int32 ``[S]``."""
    return jnp.sum(is_free(rules, state), axis=0, dtype=jnp.int32)


def free_servers(rules: Rules, state: State, jobs: Jobs) -> Free:
    """What is free of each server: GPUs, with limits CPUs and memory, with slots those of GPUs."""
    return _free(rules, state, jobs, is_free(rules, state))


def _free(rules: Rules, state: State, jobs: Jobs, open_: Array) -> Free:
    """``free_servers`` where these GPUs (bool ``[M, S]``) are."""
    free = Free(jnp.sum(open_, axis=0, dtype=jnp.int32))
    if rules.slots:
        free = free._replace(slots=free_slots(open_, rules.slots))
    if jobs.demand is None or not rules.cluster.demands:
        return free
    needs = jobs.demand[..., :-1] if rules.slots else jobs.demand
    used = jnp.where(open_[..., None], 0, needs[state.job])  # [M, S, D]
    limits = jnp.array(limits_of(rules.cluster), jnp.int32)
    return free._replace(spare=limits - jnp.sum(used, axis=0).T)


def usable_by(rules: Rules, state: State, jobs: Jobs, free: Free, row: Array) -> Array:
    """Free GPUs of each server that a job (scalar row) could use, int32 ``[S]``."""
    open_to = _open_to(rules, state, jobs, row)
    return usable(rules.cluster, free.on(open_to), _demand(jobs, row))


def _open_to(rules: Rules, state: State, jobs: Jobs, row: Array) -> Array | None:
    """The servers where a job could start now, bool ``[S]``; None where none are reserved."""
    if jobs.windows is None or jobs.expected is None or state.failing is None:
        return None
    speed = None if jobs.typed is None else jobs.typed.speed[row]
    work = most_work(jobs.windows, rules.cluster, state.time, speed)
    return work >= fl.known_left(state.failing, jobs.expected, jobs.duration, row)


def _demand(jobs: Jobs, row: Array) -> Array | None:
    return None if jobs.demand is None else jobs.demand[row]


def account_of(state: State, row: Array) -> Account:
    """The accounts of jobs, shape of ``row``; a waiting job's ``end`` is 0."""
    assert state.accounts is not None
    columns = state.accounts[row]
    return Account(*(columns[..., k] for k in range(columns.shape[-1])))


def ran_before(state: State) -> Array:
    """GPUs whose last job began its last run before now, bool ``[M, S]``."""
    assert state.accounts is not None
    return state.accounts[:, Account._fields.index("last_start")][state.job] < state.time


def runs(state: State) -> Array:
    """Which positions hold a running job, bool ``[W]``; none without suspension."""
    if state.accounts is None:
        return jnp.zeros(state.window.shape, bool)
    return account_of(state, state.window).end != 0


def waits(state: State, jobs: Jobs) -> Array:
    """Which positions hold a waiting job, bool ``[W]``."""
    occupied = state.window < jobs.empty_row
    return occupied if state.accounts is None else occupied & ~runs(state)


def num_waiting(state: State, jobs: Jobs) -> Array:
    """Number of waiting jobs in the window and behind it, int32 scalar."""
    if state.waiting is not None:
        return jnp.sum(state.waiting, dtype=jnp.int32)
    inside = jnp.sum(state.window < jobs.empty_row, dtype=jnp.int32)
    queued = inside + state.arrived - state.entered
    return queued if state.accounts is None else queued - state.running


def fits(rules: Rules, state: State, jobs: Jobs) -> Array:
    """Which positions hold a job that can start now, bool ``[W]``."""
    return _fit(rules, state, jobs, free_servers(rules, state, jobs))


def can_choose(rules: Rules, state: State, jobs: Jobs) -> Array:
    """Whether some job could start now, possibly by suspending others; bool scalar.

    A job that started at this instant is not suspended.
    """
    free = free_servers(rules, state, jobs)
    if state.accounts is not None:
        may_end = available(rules.cluster, (state.free_from <= state.time) | ran_before(state))
        free = _free(rules, state, jobs, may_end)
    return jnp.any(_fit(rules, state, jobs, free))


def _fit(rules: Rules, state: State, jobs: Jobs, free: Free) -> Array:
    """Which positions hold a waiting job that fits what is ``free``."""
    able = waits(state, jobs) & fit(rules, state, jobs, free, state.window)
    if jobs.quota is not None:
        owner = jobs.group[state.window]
        able &= state.held[owner] + jobs.num_gpus[state.window] <= jobs.quota[owner]
    return able


def fit(rules: Rules, state: State, jobs: Jobs, free: Free, row: Array) -> Array:
    """Whether jobs fit what is ``free``, bool, shape of ``row``."""
    ranks = None if jobs.typed is None else jobs.typed.rank[row]
    return has_room(_rooms(rules, state, jobs, free, row), jobs.num_gpus[row], ranks)


def kinds(rules: Rules, state: State, jobs: Jobs, free: Free, row: Array) -> Array:
    """The kind of servers that jobs would get, shape of ``row``; undefined if they do not fit."""
    assert jobs.typed is not None
    room = _rooms(rules, state, jobs, free, row)
    return kinds_for(room, jobs.num_gpus[row], jobs.typed.rank[row])


def _rooms(rules: Rules, state: State, jobs: Jobs, free: Free, row: Array) -> Array:
    """``trace_replay.cluster.rooms_for``, of each job where it matters which."""

    def room(row: Array) -> Array:
        own = usable_by(rules, state, jobs, free, row)
        return rooms_for(rules.cluster, rules.locality, own)

    alike = jobs.demand is None and jobs.windows is None
    return room(row) if alike or not row.ndim else jax.vmap(room)(row)


def all_started(state: State, jobs: Jobs) -> Array:
    """Whether all jobs are submitted and none waits, or time overflows; bool scalar.

    Where servers are away at times, whether none runs either.
    """
    over = (jobs.submit[state.arrived] == NEVER) & (num_waiting(state, jobs) == 0)
    if state.failing is not None:
        over &= jnp.all(state.free_from <= state.time)
    return over | state.overflow


def upcoming(state: State, jobs: Jobs) -> Array:
    """The next instant of a decision, int32 scalar; ``NEVER`` if there is none.

    A job ends or is submitted, a running one reaches a threshold while others wait, an outage
    begins, or a server is back.
    """
    busy = jnp.where(state.free_from > state.time, state.free_from, NEVER)
    following = jnp.minimum(jnp.min(busy), jobs.submit[state.arrived])
    if state.accounts is not None:
        account = account_of(state, state.window)
        begun = (account.last_start - account.served)[:, None]  # start of an unbroken run as long
        crossing = begun + jobs.crossing[state.window]
        later = runs(state)[:, None] & (crossing > state.time)  # an overflow is negative
        later &= num_waiting(state, jobs) > 0
        crossings = jnp.where(later, crossing, NEVER)
        following = jnp.minimum(following, jnp.min(crossings, initial=NEVER))
    if state.failing is not None and jobs.events is not None:
        following = jnp.minimum(following, fl.upcoming(state.failing, jobs.events, state.time))
    return following


def legal(rules: Rules, state: State, jobs: Jobs) -> Array:
    """Legal actions, bool ``[W + 1]``: jobs that fit; and to wait, if an event will come.

    Without ``may_wait``, waiting is legal at the end only. Where choices commit, every position
    with a job is legal.
    """
    may = all_started(state, jobs)
    if rules.commits:
        return jnp.append(waits(state, jobs), may)
    if rules.may_wait:
        may |= upcoming(state, jobs) < NEVER
    return jnp.append(fits(rules, state, jobs), may)


def start_job(rules: Rules, state: State, jobs: Jobs, position: Array) -> tuple[State, Start]:
    """Start the job at a position, which fits or was chosen; at position W, no job."""
    row = jnp.append(state.window, jobs.empty_row)[position]
    starts = row < jobs.empty_row
    open_ = is_free(rules, state)
    free = _free(rules, state, jobs, open_)
    weight = jnp.int32(FREE_WEIGHT[rules.placement])
    gpus, ranks, failing = jobs.num_gpus[row], None, state.failing
    runs_s = (jobs.duration if failing is None else failing.remaining)[row]
    free = free.on(_open_to(rules, state, jobs, row))
    if jobs.typed is not None:
        ranks = jobs.typed.rank[row]
        kind = kinds(rules, state, jobs, free, row)
        runs_s = run_time_at(runs_s, jobs.typed.speed[row, kind])
    own_free = usable_by(rules, state, jobs, free, row)
    placing, mine = placed(
        rules.cluster,
        rules.locality,
        weight,
        free,
        own_free,
        gpus,
        ranks,
        _demand(jobs, row),
        jobs.tasks,
    )
    plan = state.plan
    if plan is not None:
        own = plan.coming == row
        if rules.locality == "strict":
            was_chosen = jnp.any(own) & starts
            placing = select(was_chosen, own_place(rules.cluster, plan, row), placing)
        plan = plan._replace(coming=jnp.where(own, jobs.empty_row, plan.coming))
    taken = take_gpus(placing, of_gpus(open_, rules.slots, mine)) & starts
    begun, end, accounts = state.time, state.time + runs_s, state.accounts
    if failing is not None:
        after, begun = fl.begun(failing, row, taken, state.time)
        failing = select(starts, after, failing)
    if accounts is None:
        window = without(state.window, jnp.where(starts, position, rules.window), jobs)
    else:
        window, account = state.window, begin_run(account_of(state, row), state.time, placing)
        begun, end = account.start, account.end
        accounts = accounts.at[row].set(jnp.where(starts, jnp.stack(account), accounts[row]))

    left = state._replace(
        window=window,
        free_from=jnp.where(taken, end, state.free_from),
        job=jnp.where(taken, row, state.job),
        is_known=state.is_known & ~taken,
        running=state.running + starts,
        held=state.held.at[jobs.group[row]].add(jnp.where(starts, jobs.num_gpus[row], 0)),
        queued=state.queued.at[jobs.group[row]].add(-starts.astype(jnp.int32)),
        overflow=state.overflow | (starts & ((end < state.time) | (end == NEVER))),
        accounts=accounts,
        plan=plan,
        failing=failing,
    )
    if state.waiting is not None:
        left = left._replace(waiting=state.waiting.at[row].set(False))
    if state.number is not None and state.started is not None:
        left = left._replace(
            number=jnp.where(taken, state.started, state.number), started=state.started + starts
        )
    start = Start(row, begun, end, placing.num_servers, first_server(placing))
    return entered(left, jobs), start


def without(window: Array, position: Array, jobs: Jobs) -> Array:
    """The window without the job at a position, later jobs moving up; W removes none."""
    later = jnp.append(window[1:], jobs.empty_row)
    return jnp.where(jnp.arange(window.shape[0]) >= position, later, window)


def entered(state: State, jobs: Jobs) -> State:
    """Fill the window's empty positions with the oldest jobs behind it.

    Where stopped jobs wait again, fill the window with the oldest waiting jobs; then as many are
    behind it as ``entered`` is below ``arrived``.
    """
    if state.waiting is not None:
        (rows,) = jnp.nonzero(state.waiting, size=state.window.shape[0], fill_value=jobs.empty_row)
        behind = num_waiting(state, jobs) - jnp.sum(rows < jobs.empty_row, dtype=jnp.int32)
        return state._replace(window=rows.astype(jnp.int32), entered=state.arrived - behind)
    inside = jnp.sum(state.window < jobs.empty_row, dtype=jnp.int32)
    position = jnp.arange(state.window.shape[0], dtype=jnp.int32)
    row = state.entered + position - inside
    moves = (position >= inside) & (row < state.arrived)
    return state._replace(
        window=jnp.where(moves, row, state.window),
        entered=state.entered + jnp.sum(moves, dtype=jnp.int32),
    )


def happenings(state: State, jobs: Jobs) -> tuple[Array, Array]:
    """The job that enters the history next (n: none), and whether a job is admitted."""
    new = (state.free_from <= state.time) & ~state.is_known
    ended = jnp.min(jnp.where(new, state.job, jobs.empty_row))
    admits = (ended == jobs.empty_row) & (jobs.submit[state.arrived] <= state.time)
    due = outage_is_due(state, jobs)
    return ended, admits if due is None else admits & ~due


def outage_is_due(state: State, jobs: Jobs) -> Array | None:
    """Whether an outage has begun that is not dealt with, bool scalar; None without outages."""
    if state.failing is None or jobs.events is None:
        return None
    return fl.is_due(state.failing, jobs.events, state.time)


def event(rules: Rules, state: State, jobs: Jobs) -> tuple[State, Array]:
    """One event; without an end, an outage or an admission, the clock goes on.

    Returns:
      The state, and the job-seconds in the system that passed, float32.
    """
    ended, admits = happenings(state, jobs)
    ends = ended < jobs.empty_row
    following = upcoming(state, jobs)
    goes_on = ~ends & ~admits & (following < NEVER)
    due = outage_is_due(state, jobs)
    if due is not None:
        goes_on &= ~due
        state = _after_outage(rules, state, jobs, due & ~ends)
    time = jnp.where(goes_on, following, state.time)
    return _happened(state, jobs, time, ended, ends, admits)


def _after_outage(rules: Rules, state: State, jobs: Jobs, deals: Array) -> State:
    """The state once the outage that has begun has stopped a job, or there is none left to stop.

    Nothing happens unless it ``deals`` (bool scalar).
    """
    failing, events = state.failing, jobs.events
    assert failing is not None and events is not None and state.waiting is not None
    victim = fl.victim(failing, events, state.time, state.free_from)
    row = jnp.where(deals, victim, jobs.empty_row)
    after, hit = stopped(state, jobs, row)
    speed = None
    if jobs.typed is not None:
        of_server = jnp.array(rules.cluster.server_kinds, jnp.int32)
        kind = jnp.max(jnp.where(jnp.any(hit, axis=0), of_server, 0))
        speed = jobs.typed.speed[row, kind]
    return after._replace(
        failing=fl.dealt_with(failing, events, state.time, row, speed, ~deals),
        waiting=state.waiting.at[row].set(row < jobs.empty_row),
    )


def stopped(state: State, jobs: Jobs, row: Array) -> tuple[State, Array]:
    """The state once a running job (scalar row) gave its GPUs back, and these, bool ``[M, S]``.

    At ``empty_row`` nothing changes. What the job has still to run is not told here.
    """
    stops = row < jobs.empty_row
    hit = (state.job == row) & (state.free_from > state.time) & stops
    freed = jnp.where(stops, jobs.num_gpus[row], 0)
    after = state._replace(
        free_from=jnp.where(hit, state.time, state.free_from),
        is_known=state.is_known | hit,
        running=state.running - stops,
        held=state.held.at[jobs.group[row]].add(-freed),
        queued=state.queued.at[jobs.group[row]].add(stops.astype(jnp.int32)),
    )
    return after, hit


def event_of_its_own(state: State, jobs: Jobs) -> tuple[State, Array]:
    """``event`` where choices commit: the next submission, or the next end if it is earlier.

    Of equal ends, the job that started first ends first.
    """
    held = ~state.is_known
    next_end = jnp.min(jnp.where(held, state.free_from, NEVER))
    submit = jobs.submit[state.arrived]
    happens = jnp.minimum(submit, next_end) < NEVER
    admits = happens & (submit <= next_end)
    ends = happens & ~admits
    assert state.number is not None
    is_next = held & (state.free_from == next_end)
    number = jnp.where(is_next, state.number, NEVER)
    first = is_next & (number == jnp.min(number)) & ends
    ended = jnp.min(jnp.where(first, state.job, jobs.empty_row))
    upcoming = jnp.where(admits, submit, next_end)
    time = jnp.where(happens, jnp.maximum(state.time, upcoming), state.time)
    return _happened(state, jobs, time, ended, ends, admits)


def _happened(
    state: State, jobs: Jobs, time: Array, ended: Array, ends: Array, admits: Array
) -> tuple[State, Array]:
    """The state at ``time``, after an end (if ``ends``) or an admission (if ``admits``)."""
    present = num_waiting(state, jobs) + state.running
    spent = (time - state.time).astype(jnp.float32) * present

    row = jnp.where(admits, state.arrived, jobs.empty_row)
    mean_s = hs.of_scopes(state.history, jobs.known, row).mean_s[-1]
    freed = jnp.where(ends, jobs.num_gpus[ended], 0)
    window = state.window
    if state.accounts is not None:
        left = jnp.where(ends & (window == ended), jnp.arange(window.shape[0]), window.shape[0])
        window = without(window, jnp.min(left), jobs)
    after = state._replace(
        time=time,
        window=window,
        arrived=state.arrived + admits,
        is_known=state.is_known | (state.job == ended),
        running=state.running - ends,
        held=state.held.at[jobs.group[ended]].add(-freed),
        queued=state.queued.at[jobs.group[row]].add(admits.astype(jnp.int32)),
        history=hs.completed(state.history, jobs.known, ended, jobs.duration[ended]),
        estimate=state.estimate.at[row].set(mean_s),
    )
    if state.waiting is not None:
        after = after._replace(waiting=state.waiting.at[row].set(admits))
    return entered(after, jobs), spent


def to_choice(rules: Rules, state: State, jobs: Jobs, passes: Array) -> tuple[State, Array]:
    """Process events until none is left at this instant and a job could start.

    Args:
      rules: the rules.
      state: the cluster.
      jobs: the table.
      passes: bool scalar, the clock goes on at least once.

    Returns:
      The state, and the job-seconds in the system that passed, float32. Once the last
      job has started, the clock goes on to the last end.
    """
    begun = state.time

    def goes_on(carry: tuple[State, Array]) -> Array:
        state = carry[0]
        if rules.commits:
            return ~jnp.any(waits(state, jobs)) & ~all_started(state, jobs)
        ended, admits = happenings(state, jobs)
        happens = (ended < jobs.empty_row) | admits
        due = outage_is_due(state, jobs)
        happens = happens if due is None else happens | due
        idles = (passes & (state.time == begun)) | ~can_choose(rules, state, jobs)
        return (happens | idles) & ~all_started(state, jobs)

    def one(carry: tuple[State, Array]) -> tuple[State, Array]:
        if rules.commits:
            after, spent = event_of_its_own(carry[0], jobs)
        else:
            after, spent = event(rules, carry[0], jobs)
        return after, carry[1] + spent

    after, spent = jax.lax.while_loop(goes_on, one, (state, jnp.float32(0)))
    left = jnp.maximum(after.free_from - after.time, 0).astype(jnp.float32)
    rest = jnp.sum(left / jobs.num_gpus[after.job])
    over = all_started(after, jobs)
    last = jnp.maximum(after.time, jnp.max(after.free_from))
    after = after._replace(time=jnp.where(over & ~after.overflow, last, after.time))
    return after, spent + jnp.where(over, rest, 0.0)


def until_it_fits(rules: Rules, state: State, jobs: Jobs, position: Array) -> tuple[State, Array]:
    """Process events one by one until the job at a position fits; none at position W.

    Returns:
      The state, and the job-seconds in the system that passed, float32.
    """
    row = jnp.append(state.window, jobs.empty_row)[position]

    def goes_on(carry: tuple[State, Array]) -> Array:
        fits_now = fit(rules, carry[0], jobs, free_servers(rules, carry[0], jobs), row)
        return ~fits_now & (row < jobs.empty_row)

    def one(carry: tuple[State, Array]) -> tuple[State, Array]:
        after, spent = event_of_its_own(carry[0], jobs)
        return after, carry[1] + spent

    return jax.lax.while_loop(goes_on, one, (state, jnp.float32(0)))
