"""Replays of the orders that suspend running jobs, and of those that learn from the jobs before.

Axes: ``S`` servers, ``M`` GPUs per server, ``n`` jobs, ``Q`` thresholds. A step starts one job,
suspends one or settles something about either (``decisions`` says what), takes one ended job into
the history (for orders that have one), or goes on to the next instant and admits the job that
arrives then, if one does. A row of
``Q + 1`` levels, given or, with a history, scored when the job is submitted, has one for each
number of thresholds that the job's service has crossed (``spot``: its priority's rank).
"""

import jax
import jax.numpy as jnp

from jaxsched.ops.batching import select
from jaxsched.trace_replay import demand as dm
from jaxsched.trace_replay import history as hs
from jaxsched.trace_replay import queues as qu
from jaxsched.trace_replay import waiting as wt
from jaxsched.trace_replay.accounts import Learnt, Options, Rules, Running, State, Stops
from jaxsched.trace_replay.cluster import available, place, take_gpus
from jaxsched.trace_replay.decisions import Decision, decide, decision_about, lost_s, worth_of
from jaxsched.trace_replay.scorers import SCORERS
from jaxsched.trace_replay.suspension import (
    Account,
    Move,
    Plan,
    after,
    begin_run,
    cut_run,
    no_move,
    own_place,
)
from jaxsched.trace_replay.tables import NEVER, Jobs
from jaxsched.trace_replay.waiting import NONE
from jaxsched.types import Array


def unfinished(jobs: Jobs, state: State) -> Array:
    """Whether jobs wait or are still to come, bool scalar; without these, nobody is suspended."""
    more = (state.num_waiting > 0) | (jobs.submit[state.arrived] < NEVER)
    return more & ~rests(state)


def rests(state: State) -> Array:
    """Whether steps do nothing: a job would end too late, or suspensions are to be taken out."""
    if state.stops is None:
        return state.overflow
    return state.overflow | (state.stops.number == state.stops.runs.shape[0] - 1)


def step(rules: Rules, options: Options, jobs: Jobs, state: State) -> State:
    """Do one thing (see above); nothing at the replay's end."""
    nobody, running = rules.shape.num_jobs, state.running
    has_ended = running.free_from <= state.time
    is_free = available(rules.cluster, has_ended)
    free = jnp.sum(is_free, axis=0, dtype=jnp.int32)
    ended, raised = _ended(rules, state, has_ended), jnp.int32(nobody)
    decides = (jobs.submit[state.arrived] > state.time) & (state.num_waiting > 0)
    if state.promotion is not None:
        raised = qu.first_due(state.promotion, jobs.job_at, state.time, nobody)
        raised = jnp.where(rests(state), nobody, raised)
    decision = jax.lax.cond(
        decides & (ended == nobody) & (raised == nobody) & ~rests(state),
        lambda: decide(rules, options, jobs, state, free),
        lambda: decision_about(state, no_move(nobody)),
    )
    move, plan = decision.move, decision.plan
    starts, suspends = move.starts < nobody, move.suspended < nobody
    busy = (ended < nobody) | (raised < nobody)
    for who in move:
        busy |= who < nobody
    time, admits = _clock(rules, jobs, state, has_ended, busy)

    chosen = jnp.minimum(jnp.minimum(move.starts, move.suspended), move.chosen)
    moved = jnp.where(admits, state.arrived, jnp.minimum(chosen, raised))
    instant = state.instant + (time > state.time)
    account, scored = decision.account, decision.levels
    features = state.features
    if rules.scorer:
        account, scored, features = _scored(rules, options, jobs, state, time, admits, decision)
    placing = place(rules.cluster, rules.locality, options.free_weight, free, jobs.num_gpus[moved])
    if plan is not None:
        if rules.locality == "strict":
            was_chosen = jnp.any(plan.coming == move.starts) & starts
            placing = select(was_chosen, own_place(rules.cluster, plan, move.starts), placing)
        plan = after(plan, move, running.job, nobody)
    started = begin_run(account, state.time, placing)
    late = (started.end < state.time) | (started.end == NEVER)
    again_s = options.restart_s + lost_s(options, state.time - account.last_start)
    rest = select(suspends, cut_run(account, state.time, again_s), account)
    taken = take_gpus(placing, is_free) & starts
    stopped = suspends & ~has_ended & (running.job == move.suspended)
    levels = scored if rules.scorer or rules.worth != "level" else jobs.levels[moved]
    if rules.worth == "level":
        attained = rest.served
        if state.promotion is not None:
            attained -= state.promotion.forgiven[moved]
        passed = jnp.sum(jobs.crossing[moved] <= attained, dtype=jnp.int32)
        value = levels[jnp.where(admits, 0, passed)]
        if running.standing is not None:
            front = qu.behind(jnp.max(jnp.where(stopped, running.standing, 0)), state.instant)
            value = jnp.where(suspends, value + front, qu.BACK + instant)
    else:
        left = jnp.where(admits, jobs.duration[moved], rest.remaining)
        value = worth_of(rules, left, jobs.num_gpus[moved])
    written = moved if rules.scorer else chosen
    waits = admits | suspends | (raised < nobody)
    promotion, counted = state.promotion, started
    if promotion is not None:
        counted = started._replace(served=started.served - promotion.forgiven[moved])
        promotion = _promotion(options, jobs, state, move, raised, rest, passed == 0)
    running = _running(jobs, state, moved, counted, taken, stopped, ended, levels)
    if running.standing is not None:
        crosses = jnp.any(running.crossing == time, axis=0) & (running.free_from > time)
        placed = qu.standing(running.standing, taken, crosses, instant, time > state.time)
        running = running._replace(standing=placed)
    return State(
        time=time,
        arrived=state.arrived + admits,
        num_waiting=state.num_waiting + admits + suspends - starts,
        waiting=wt.put(state.waiting, jobs.place[moved], jnp.where(waits, value, NONE)),
        running=running,
        ledger=state.ledger.at[written].set(jnp.stack([*select(starts, started, rest), *scored])),
        overflow=state.overflow | (starts & late),
        history=hs.completed(state.history, jobs.known, ended, jobs.duration[ended])
        if rules.scorer
        else state.history,
        features=features,
        demand=_demand(options, jobs, state, time, running, plan),
        plan=plan,
        stops=_stops(state, move, account, suspends),
        instant=instant,
        promotion=promotion,
    )


def _ended(rules: Rules, state: State, has_ended: Array) -> Array:
    """The lowest job that has ended and is not in the history, int32 scalar; n if there is none."""
    if state.running.learnt is None:
        return jnp.int32(rules.shape.num_jobs)
    new = has_ended & ~state.running.learnt.is_known & ~rests(state)
    return jnp.min(jnp.where(new, state.running.job, rules.shape.num_jobs))


def _clock(
    rules: Rules, jobs: Jobs, state: State, has_ended: Array, busy: Array
) -> tuple[Array, Array]:
    """The time after a step, and whether it admits a job; completions enter the history first."""
    running, submit = state.running, jobs.submit[state.arrived]
    changes = jnp.where(has_ended, NEVER, running.free_from)
    later = jnp.where(~has_ended & (running.crossing > state.time), running.crossing, NEVER)
    event = jnp.minimum(jnp.min(changes), jnp.min(later, initial=NEVER))
    if state.promotion is not None:
        event = jnp.minimum(event, jnp.min(state.promotion.due.least))
    upcoming = jnp.minimum(event, submit)
    goes_on = ~busy & (upcoming < NEVER) & ~rests(state)
    time = jnp.where(goes_on, jnp.maximum(state.time, upcoming), state.time)
    admits = goes_on & (submit <= time)
    if rules.scorer:
        admits &= jnp.min(changes) > time
    return time, admits


def _scored(
    rules: Rules,
    options: Options,
    jobs: Jobs,
    state: State,
    time: Array,
    admits: Array,
    decision: Decision,
) -> tuple[Account, Array, Array]:
    """The account and levels of the job that a step is about, and the features kept."""
    job, running, learnt = state.arrived, state.running, state.running.learnt
    assert learnt is not None and rules.scorer

    def score() -> tuple[Array, Array]:
        stream = jobs.known.scopes[:, -1]
        same = (running.free_from > time) & (stream[running.job] == stream[job])
        newest = jnp.max(jnp.where(same, running.job, -1))
        attained = jnp.where(same, time - learnt.begun, 0)
        siblings = hs.Siblings(
            jnp.sum(same, dtype=jnp.int32) // jobs.num_gpus[job],
            jnp.max(jnp.where(running.job == newest, attained, 0)),
            jnp.max(attained),
        )
        found = hs.features(state.history, jobs.known, job, siblings, state.num_waiting)
        seen = hs.Seen(jobs.num_gpus[job], jobs.submit[job], found)
        mean_s = hs.of_scopes(state.history, jobs.known, job).mean_s[-1]
        return found, SCORERS[rules.scorer](options.predictor, seen, mean_s)

    nothing = jnp.zeros(hs.NUM_FEATURES, jnp.int32), decision.levels
    found, levels = jax.lax.cond(admits, score, lambda: nothing)
    fresh = Account(*(jnp.int32(0) for _ in Account._fields))
    fresh = fresh._replace(remaining=jobs.duration[job])
    features = state.features
    if rules.keeps_features:
        features = features.at[jnp.where(admits, job, rules.shape.num_jobs)].set(found)
    return select(admits, fresh, decision.account), levels, features


def _running(
    jobs: Jobs,
    state: State,
    moved: Array,
    started: Account,
    taken: Array,
    stopped: Array,
    ended: Array,
    levels: Array,
) -> Running:
    """What GPUs do after a job has taken some, or was suspended on some."""
    running = state.running
    unserved = state.time - started.served
    crossing = unserved + jobs.crossing[moved]
    crossing = jnp.where(crossing < unserved, NEVER, crossing)[:, None, None]
    free_from = jnp.where(taken, started.end, running.free_from)
    learnt = running.learnt
    if learnt is not None:
        is_known = (learnt.is_known | stopped | (running.job == ended)) & ~taken
        learnt = Learnt(jnp.where(taken, unserved, learnt.begun), is_known)
    rows, since = running.levels, running.since
    if since is not None:
        since = jnp.where(taken, state.time, since)
    return Running(
        jnp.where(taken, moved, running.job),
        jnp.where(stopped, state.time, free_from),
        jnp.where(taken, crossing, running.crossing),
        jnp.where(taken, levels[: rows.shape[0], None, None], rows),
        learnt,
        since,
        running.standing,
    )


def _promotion(
    options: Options,
    jobs: Jobs,
    state: State,
    move: Move,
    raised: Array,
    rest: Account,
    is_first: Array,
) -> qu.Promotion:
    """What is kept for promotions after a step."""
    assert state.promotion is not None
    before, at = state.promotion, jobs.place
    served = state.ledger[raised, Account._fields.index("served")]
    kept = qu.promoted(before, raised, at[raised], served)
    attained = rest.served - before.forgiven[move.starts]
    kept = qu.started(kept, move.starts, at[move.starts], attained, state.time)
    stops, percent = move.suspended, options.promote_percent
    return qu.suspended(kept, stops, at[stops], rest.served, is_first, state.time, percent)


def _stops(state: State, move: Move, account: Account, suspends: Array) -> Stops | None:
    """The suspensions with that of this step, if it is one."""
    if state.stops is None:
        return None
    row = jnp.stack([move.suspended, account.last_start, state.time])
    runs, number = state.stops
    # Written always, and never read: XLA would copy the array otherwise.
    return Stops(jax.lax.dynamic_update_slice(runs, row[None], (number, 0)), number + suspends)


def _demand(
    options: Options, jobs: Jobs, state: State, time: Array, running: Running, plan: Plan | None
) -> dm.Demand | None:
    """The demand of the jobs of value 0 after a step, at the time after it; of chosen ones too."""
    if state.demand is None:
        return None
    assert plan is not None
    holds = (running.free_from > time) & (running.levels[0] == 0)
    comes = (plan.coming < jobs.duration.shape[0] - 1) & (jobs.levels[plan.coming, 0] == 0)
    held = jnp.sum(holds, dtype=jnp.int32) + jnp.sum(comes, dtype=jnp.int32)
    return dm.followed(state.demand, options.forecast, state.time, time, held)
