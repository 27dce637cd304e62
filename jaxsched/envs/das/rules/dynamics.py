"""The rules of DAS's cluster between and at decisions, and the window (sections 3 and 3.4).

Free resources change at finishes and decisions only. Between two finishes the window's jobs,
pending or still to come, are therefore tested once: the next decision is at the first instant at
which one that fits is pending, unless a job finishes before or at that instant. Arrivals take no
steps of their own. Times are whole seconds (int32).

With ``first`` sampling the window holds the first N jobs that have not started, *pending or still
to be submitted*: the pending ones come first, and nothing needs to be done when a job arrives.
With ``random`` sampling it holds pending jobs only, drawn anew at every event.

Axes: ``N`` positions, ``M`` machines, ``R`` rows of the running table, ``P`` = N ranks of a
decision's order, ``V`` words of 32 jobs, ``J`` jobs of the longest episode.

What a policy cannot know of an episode can be drawn anew (:func:`resampled`): later arrivals and
all durations. Durations are hidden until a job finishes. That of a pending job is drawn from all
jobs of the episode, that of a running one from those that would have kept it running until now;
where groups are known (``observation.py``), from jobs of the same group only.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.envs.das.rules import (
    BY_EPISODE,
    CPUS,
    DURATION,
    GPUS,
    INSTANCES,
    MEM,
    NEVER,
    NUM_GPUS,
    SUBMIT,
    Params,
    carried,
    machines,
    parts_of,
    pick,
    placement,
    row_of,
    submit_time,
    submitted_by,
)
from jaxsched.envs.das.rules.machines import Cluster, Running, as_words, ceil_quotient
from jaxsched.envs.das.rules.placement import Demand
from jaxsched.ops import bit_sets as bits
from jaxsched.ops.batching import apply_if
from jaxsched.ops.bootstrap import redraw_arrivals
from jaxsched.options import Bounds
from jaxsched.types import Array, PRNGKey


class Window(NamedTuple):
    """Jobs of the window in table order, those that are not there last.

    Attributes:
      job: int32 ``[N]``, place in the episode.
      rows: int32 ``[8, N]``, their table rows; submission ``NEVER`` in positions without a job.
    """

    job: Array
    rows: Array

    @property
    def submit(self) -> Array:
        """Submission times, int32 ``[N]``."""
        return self.rows[SUBMIT]

    @property
    def demand(self) -> Demand:
        """What the jobs ask for, leaves ``[N]``; nothing in positions without a job."""
        return demand_of(self.rows)


class Draws(NamedTuple):
    """What random windows are drawn from.

    Attributes:
      key: of the episode.
      events: int32, events so far.
      submitted: int32, jobs submitted so far.
      pending: uint32 ``[V]``, the set of pending jobs.
    """

    key: PRNGKey
    events: Array
    submitted: Array
    pending: Array


def demand_of(rows: Array) -> Demand:
    """What table rows int32 ``[8, ...]`` ask for."""
    instances, gpus, cpus, mem = (
        rows[column].astype(jnp.float32) for column in (INSTANCES, GPUS, CPUS, MEM)
    )
    return Demand(instances, gpus, cpus, mem)


def window_of(params: Params, episode: Array, job: Array) -> Window:
    """The window of these jobs (int32 ``[N]``); none where the number is beyond the last job's."""
    return Window(job, row_of(params, episode, job))


def refill(
    params: Params, episode: Array, window: Window, placed: Array, entered: Array
) -> tuple[Window, Array]:
    """Close the gaps of placed jobs and append the next ones in table order.

    Args:
      params: the tables.
      episode: which episode.
      window: before the decision.
      placed: bool ``[N]``, jobs that were placed.
      entered: int32, jobs of the episode that were ever in the window.

    Returns:
      The window, and ``entered`` afterwards.
    """
    size = placed.shape[0]
    place = jnp.arange(size, dtype=jnp.int32)
    source = bits.nth(as_words(~placed), place, missing=size)
    stays = source < size
    old = window.job.at[jnp.minimum(source, size - 1)].get(mode="promise_in_bounds")
    staying = size - jnp.sum(placed, dtype=jnp.int32)
    job = jnp.where(stays, old, entered + place - staying)
    return window_of(params, episode, job), entered + size - staying


def as_set(params: Params, first: Array, end: Array) -> Array:
    """The set of the jobs ``first .. end - 1``, uint32 ``[V]``."""
    words = -(-params.max_jobs // bits.WORD)
    start = bits.WORD * jnp.arange(words, dtype=jnp.int32)
    return bits.below(end - start) & ~bits.below(first - start)


def without(pending: Array, job: Array, leaves: Array) -> Array:
    """The set without the jobs (int32 ``[N]``) that are marked (bool ``[N]``)."""
    words = jnp.arange(pending.shape[0], dtype=jnp.int32)
    here = (job[None, :] // bits.WORD == words[:, None]) & leaves[None, :]
    bit = jnp.left_shift(jnp.uint32(1), (job % bits.WORD).astype(jnp.uint32))
    return pending & ~jnp.sum(jnp.where(here, bit[None, :], 0), axis=1, dtype=jnp.uint32)


def draw_window(params: Params, episode: Array, draws: Draws, size: int) -> Window:
    """``size`` of the pending jobs, uniformly without replacement, in table order.

    Floyd's algorithm draws the ranks among the pending jobs; where there are not more than
    ``size`` jobs, all are taken.
    """
    number = jnp.sum(bits.count(draws.pending), dtype=jnp.int32)
    share = jax.random.uniform(jax.random.fold_in(draws.key, draws.events), (size,), jnp.float32)
    place = jnp.arange(size, dtype=jnp.int32)
    surplus = jnp.maximum(number - size, 0)

    def draw(k: Array, chosen: Array) -> Array:
        last = surplus + k
        rank = jnp.minimum((share[k] * (last + 1)).astype(jnp.int32), last)
        taken = jnp.any((chosen == rank) & (place < k))
        return jnp.where(place == k, jnp.where(taken, last, rank), chosen)

    chosen = jax.lax.fori_loop(0, size, draw, jnp.zeros(size, jnp.int32))
    chosen = jnp.where(surplus > 0, chosen, place)
    below = jnp.sum(chosen[None, :] < chosen[:, None], axis=-1, dtype=jnp.int32)
    found = jnp.where(below[None, :] == place[:, None], chosen[None, :], 0)
    ranks = jnp.sum(found, axis=-1, dtype=jnp.int32)
    return window_of(params, episode, nth_pending(draws.pending, ranks, params.max_jobs))


def nth_pending(pending: Array, ranks: Array, missing: int) -> Array:
    """The jobs of these ranks (int32 ``[N]``) in the set, ``missing`` where there are none."""
    counts = bits.count(pending)
    until = jnp.cumsum(counts, dtype=jnp.int32)
    word = jnp.sum(until[None, :] <= ranks[:, None], axis=-1, dtype=jnp.int32)
    found = word < pending.shape[0]
    word = jnp.minimum(word, pending.shape[0] - 1)
    left = ranks - (until - counts)[word]
    bit = jax.vmap(lambda one, which: bits.nth(one[None], which, missing=0))(pending[word], left)
    return jnp.where(found, bits.WORD * word + bit, missing)


@dataclass(frozen=True)
class Rules(Cluster):
    """Static options of the rules.

    Attributes:
      window: N, jobs that one decision can be about.
      on_no_fit: a job that does not fit is passed over ("skip") or ends the decision ("block").
      sampling: with more than N pending jobs the window holds the "first" or "random" ones.
      lazy: jobs start in an idle cluster only, one at a time (appendix A).
    """

    window: Annotated[int, Bounds(1, 1024)] = 32
    on_no_fit: Literal["skip", "block"] = "skip"
    sampling: Literal["first", "random"] = "first"
    lazy: bool = False


class State(NamedTuple):
    """Everything the future depends on.

    Attributes:
      running: the running table.
      used: uint32 ``[M]``, what it takes, packed (``Cluster.pack``).
      window: jobs that decisions are about.
      time: int32, s.
      since: int32, time of the last change of speeds.
      due: bool, a decision happens now.
      held: bool, the last decision blocked: an event must pass before the next one.
      entered: int32, jobs that were ever in the window (``first`` sampling).
      submitted: int32, jobs submitted, as of the start of the last step that needed it.
      finished: int32, jobs finished.
      gain: float32, what the paper's reward has added up since the last decision.
      concerned: int32, jobs that it is about.
      episode: int32.
      draws: what random windows are drawn from; None with ``first`` sampling.
      seen: run times of finished jobs by group and user (``observation.py``), float32 ``[K, 2]``;
        None where nobody asks.
    """

    running: Running
    used: Array
    window: Window
    time: Array
    since: Array
    due: Array
    held: Array
    entered: Array
    submitted: Array
    finished: Array
    gain: Array
    concerned: Array
    episode: Array
    draws: Draws | None
    seen: Array | None = None


class Decision(NamedTuple):
    """What a decision did.

    Attributes:
      order: int32 ``[P]``, positions in the order in which they are placed if they fit.
      rank: int32 ``[N]``, that of each position in this order.
      rows: int32 ``[8, P]``, the jobs' table rows in that order.
      counts: int8 ``[P, M]``, instances placed in that order, all 0 where none.
      placed: bool ``[N]``, by position.
      failed: bool ``[N]``, by position: tried in vain.
      failed_gpus: int32, GPUs that these ask for.
    """

    order: Array
    rank: Array
    rows: Array
    counts: Array
    placed: Array
    failed: Array
    failed_gpus: Array


class StepAccumulator(NamedTuple):
    """What happened since the decision.

    Attributes:
      finish: int32 ``[R]``, when the row's job finished, -1 where it did not.
      gpu_seconds: float32, allocated.
      absent_seconds: float32, job-seconds for which jobs had finished.
    """

    finish: Array
    gpu_seconds: Array
    absent_seconds: Array


def over(state: State, params: Params) -> Array:
    """Every job has finished, bool."""
    return state.finished >= pick(params.num_jobs, state.episode)


def real_positions(state: State) -> Array:
    """Positions that hold a pending job while a decision is due, bool ``[N]``."""
    return state.due & (state.window.submit <= state.time)


def still_pending(state: State, most: int) -> Array:
    """Which of the submitted jobs have not started, bool ``[J + 1]``; of later ones anything."""
    places = jnp.arange(most + 1, dtype=jnp.int32)
    if state.draws is not None:
        return jnp.append(bits.to_flags(state.draws.pending)[:most], jnp.bool_(False))
    in_window = jnp.zeros(most + 1, bool).at[state.window.job].set(True, mode="drop")
    return in_window | (places >= state.entered)


def decide(rules: Rules, state: State, priority: Array, affinity: Array) -> Decision:
    """The decision of an action, nothing where none is due.

    Args:
      rules: static options.
      state: before the decision.
      priority: float ``[N]``.
      affinity: float ``[N, M]``.
    """
    real = real_positions(state)
    tried, free = real, rules.free(state.used)
    if rules.lazy:
        tried = real & (placement.rank_of(priority, real) == 0)
    rank = placement.rank_of(priority, tried)
    possible = tried & placement.can_place(free, state.window.demand)
    if rules.on_no_fit == "block":  # up to the first that does not fit
        number = jnp.min(jnp.where(possible, rules.window, rank))
    else:  # what does not fit now will not after others have been placed
        rank = placement.rank_of(priority, possible)
        number = jnp.sum(possible, dtype=jnp.int32)
    order = placement.inverse_of(rank)
    rows = state.window.rows.at[:, order].get(mode="promise_in_bounds")
    affinity = affinity.at[order].get(mode="promise_in_bounds")
    affinity = jnp.where(jnp.isnan(affinity), -jnp.inf, affinity)
    counts = placement.place_in_order(free, demand_of(rows), affinity, number)
    succeeds = jnp.any(counts > 0, axis=-1)
    if rules.on_no_fit == "block":
        index = jnp.arange(rules.window, dtype=jnp.int32)
        succeeds &= index < jnp.min(jnp.where(succeeds, rules.window, index))
        counts = jnp.where(succeeds[:, None], counts, 0).astype(jnp.int8)
    placed = succeeds.at[rank].get(mode="promise_in_bounds")
    failed = tried & ~placed
    gpus = jnp.sum(jnp.where(failed, state.window.rows[NUM_GPUS], 0), dtype=jnp.int32)
    return Decision(order, rank, rows, counts, placed, failed, gpus)


def apply(rules: Rules, state: State, params: Params, decision: Decision) -> State:
    """Start the placed jobs, set the speeds and close the window's gaps."""
    order = decision.order
    running = machines.admit(
        rules,
        state.running,
        state.window.job.at[order].get(mode="promise_in_bounds"),
        decision.rows,
        decision.counts,
        state.time,
    )
    running, used = machines.set_speeds(rules, running, state.since, state.time)
    state = state._replace(
        running=running,
        used=used,
        since=state.time,
        due=jnp.bool_(False),
        held=jnp.any(decision.failed) if rules.on_no_fit == "block" else state.held,
    )
    if state.draws is not None:
        pending = without(state.draws.pending, state.window.job, decision.placed)
        draws = state.draws._replace(pending=pending)
        window = draw_window(params, state.episode, draws, rules.window)
        return state._replace(draws=draws, window=window)
    window, entered = refill(params, state.episode, state.window, decision.placed, state.entered)
    return state._replace(window=window, entered=entered)


def count_time(rules: Rules, state: State, since: StepAccumulator, time: Array) -> StepAccumulator:
    """``since`` with the integrals taken on to ``time``."""
    elapsed = (time - state.time).astype(jnp.float32)
    gone = jnp.sum(since.finish >= 0, dtype=jnp.int32).astype(jnp.float32)
    allocated = jnp.sum(rules.amount(state.used, 0))
    return since._replace(
        gpu_seconds=since.gpu_seconds + allocated * elapsed,
        absent_seconds=since.absent_seconds + gone * elapsed,
    )


def look_ahead(
    rules: Rules, state: State, params: Params, since: StepAccumulator
) -> tuple[State, StepAccumulator]:
    """Go to the next decision if it comes before the next finish; otherwise stay."""
    free = rules.free(state.used)
    at = jnp.maximum(state.window.submit, state.time)
    if rules.on_no_fit == "block":
        known = state.submitted if state.draws is None else state.draws.submitted
        arrived = submitted_by(params, state.episode, state.time, known)
        arrival = submit_time(params, state.episode, arrived)
        at = jnp.where(state.held, jnp.maximum(at, arrival), at)
    # Held apart from what follows: compilers would do it job by job on the way to the least time.
    fits = apply_if(
        ~state.due,
        lambda _, given: placement.can_place(*given),
        jnp.zeros(rules.window, bool),
        (free, state.window.demand),
    )
    fits &= state.window.submit < NEVER
    if rules.lazy:
        fits &= jnp.all(state.running.job < 0)
    decision = jnp.min(jnp.where(fits, at, NEVER))
    due = decision < jnp.min(state.running.end)
    if rules.sampling == "random":  # the window is that of this instant
        due &= decision <= state.time
    time = jnp.where(due & ~state.due, decision, state.time)
    since = count_time(rules, state, since, time)
    return state._replace(due=due | state.due, time=time), since


def next_event(
    rules: Rules, state: State, params: Params, since: StepAccumulator
) -> tuple[State, StepAccumulator]:
    """Go to the next event and process it; nothing changes where a decision is due.

    With ``first`` sampling only finishes are events here (arrivals change nothing by themselves),
    with ``random`` sampling arrivals are too.
    """
    event = jnp.min(state.running.end)
    if state.draws is not None:
        event = jnp.minimum(event, submit_time(params, state.episode, state.draws.submitted))
    moves = ~state.due & (event < NEVER)
    time = jnp.where(moves, event, state.time)
    ends = moves & (state.running.end <= time)
    since = count_time(rules, state, since, time)
    since = since._replace(finish=jnp.where(ends, time, since.finish))
    running, used = machines.set_speeds(
        rules, machines.release(state.running, ends), state.since, time
    )
    state = state._replace(
        running=running,
        used=used,
        time=time,
        since=time,
        held=state.held & ~moves,
        finished=state.finished + jnp.sum(ends, dtype=jnp.int32),
    )
    if state.draws is None:
        return state, since
    before = state.draws.submitted
    submitted = submitted_by(params, state.episode, time, before)
    draws = state.draws._replace(
        events=state.draws.events + moves,
        submitted=submitted,
        pending=state.draws.pending | as_set(params, before, submitted),
    )
    window = draw_window(params, state.episode, draws, rules.window)
    return state._replace(draws=draws, window=window), since


LATEST_DRAWN_S = 2**30 - 1


def resampled(key: PRNGKey, params: Params, state: State) -> tuple[State, Params]:
    """The state with other jobs to come and other durations, and its episode alone."""
    arrival_key, pending_key, running_key, window_key = jax.random.split(key, 4)
    episode, most = state.episode, params.max_jobs
    count = pick(params.num_jobs, episode)
    places = jnp.append(params.places, most)
    real = places < count
    index = jnp.where(real, pick(params.offset, episode) + places, params.rows.shape[0] - 1)
    own = params.rows[index]
    submit = jnp.where(real, own[:, SUBMIT] - pick(params.first, episode), own[:, SUBMIT])
    known = submitted_by(params, episode, state.time, state.submitted)
    submit, source = redraw_arrivals(arrival_key, submit, known, count, state.time, LATEST_DRAWN_S)
    durations = jnp.sort(jnp.where(real, own[:, DURATION], jnp.iinfo(jnp.int32).max))
    owners = None if params.owners is None else params.owners[index]
    hidden = still_pending(state, most) & (places < known)
    if owners is None:
        after = _longer(running_key, state, own[:, DURATION], durations, count)
        drawn = jax.random.randint(pending_key, places.shape, 0, jnp.maximum(count, 1), jnp.int32)
        guess = durations[drawn]
    else:
        after = _longer_of_group(running_key, state, own[:, DURATION], owners[:, 0], real)
        guess = own[_peers(pending_key, owners[:, 0]), DURATION]
    running, ends_with = _redrawn_running(state, own[:, DURATION], after)
    duration = jnp.where(hidden, guess, own[source, DURATION])
    at = jnp.where(running.job >= 0, running.job, most + 1)
    duration = duration.at[at].set(ends_with, mode="drop")
    rows = own[source].at[:, SUBMIT].set(submit).at[:, DURATION].set(duration)
    alone = params._replace(
        rows=rows,
        submitted_sum=sums_of(jnp.where(real, submit, 0), params.submitted_sum.shape[-1]),
        offset=jnp.zeros(1, jnp.int32),
        num_jobs=count[None],
        first=jnp.zeros(1, jnp.int32),
        owners=None if owners is None else owners[source],
        **{name: pick(getattr(params, name), episode)[None] for name in BY_EPISODE},
    )
    zero = jnp.int32(0)
    state = state._replace(
        running=running, window=window_of(alone, zero, state.window.job), episode=zero
    )
    if state.draws is not None:
        state = state._replace(draws=state.draws._replace(key=window_key))
    return state, alone


def _worked(state: State, own: Array) -> Array:
    """How long running jobs would have run at full speed until now (s, ``[R]``)."""
    running = state.running
    before = own[jnp.maximum(running.job, 0)]
    done = 100 * before - running.left + running.speed * (state.time - state.since)
    return done // 100


def _longer(key: PRNGKey, state: State, own: Array, durations: Array, count: Array) -> Array:
    """A duration for each running job, of all that are longer than it has worked (s, ``[R]``).

    Args:
      key: of the draw.
      state: the state.
      own: durations of the episode's jobs, ``[J + 1]``.
      durations: the same in order.
      count: jobs of the episode.
    """
    worked = _worked(state, own)
    shorter = jnp.searchsorted(durations, worked, side="right").astype(jnp.int32)
    share = jax.random.uniform(key, shorter.shape, jnp.float32)
    longer = count - shorter
    chosen = shorter + (share * longer).astype(jnp.int32)
    after = durations[jnp.clip(chosen, 0, jnp.maximum(count - 1, 0))]
    return jnp.where(longer > 0, after, own[jnp.maximum(state.running.job, 0)])


def _longer_of_group(key: PRNGKey, state: State, own: Array, group: Array, real: Array) -> Array:
    """The same of jobs of the same group, int32 ``[R]``; ``group``, ``real`` are ``[J + 1]``."""
    job = jnp.maximum(state.running.job, 0)
    longer = own[None, :] > _worked(state, own)[:, None]
    fits = longer & (group[None, :] == group[job][:, None]) & real[None, :]
    until = jnp.cumsum(fits, axis=-1, dtype=jnp.int32)
    share = jax.random.uniform(key, job.shape, jnp.float32)
    wanted = (share * until[:, -1]).astype(jnp.int32)
    chosen = jnp.argmax(until > wanted[:, None], axis=-1)
    return jnp.where(until[:, -1] > 0, own[chosen], own[job])


def _peers(key: PRNGKey, group: Array) -> Array:
    """For each job one of its group, itself included, int32 ``[J + 1]``."""
    order = jnp.argsort(group, stable=True)
    first, last = (jnp.searchsorted(group[order], group, side=side) for side in ("left", "right"))
    share = jax.random.uniform(key, group.shape, jnp.float32)
    return order[first + (share * (last - first)).astype(jnp.int32)]


def _redrawn_running(state: State, own: Array, after: Array) -> tuple[Running, Array]:
    """The running table with other durations ``after`` (s, ``[R]``), and what these are then."""
    running = state.running
    runs = running.job >= 0
    before = own[jnp.maximum(running.job, 0)]
    after = jnp.where(runs, after, before)
    left = running.left + 100 * (after - before)
    speed = jnp.maximum(running.speed, 1)
    end = state.since + ceil_quotient(left, speed, speed.astype(jnp.float32))
    moved = running._replace(
        left=jnp.where(runs, left, running.left), end=jnp.where(runs, end, running.end)
    )
    return moved, after


def sums_of(submit: Array, number: int) -> Array:
    """``Params.submitted_sum`` of an episode's submission times, in so many parts."""
    parts = jnp.cumsum(parts_of(submit, number), axis=0, dtype=jnp.int32)
    sums = jnp.stack(carried(parts), axis=-1)
    return jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]])
