"""The rule-based policies of DL2 (section 9) and the probe (section 15).

All decide once per slot, from an empty allocation, and see all active jobs; those of DL2's
published simulator are in ``published``. ``baseline`` gives them as policies of ``DL2Slots``;
``plan_rule`` also tells the order of their increments.

Optimus allocates by marginal gains, with a fitted or the true speed model (Peng et al., "Optimus:
An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys 2018). The probe is a
greedy policy that knows the true speeds and the contention: it bounds what is easily attainable,
and reads what no scheduler knows.

Axes: ``N`` rows of the job table, ``M`` job types.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory, one_of
from jaxsched.elastic import optimus_fit
from jaxsched.elastic.optimus_fit import Evidence
from jaxsched.envs.dl2.heuristics import (
    Allocation,
    DL2Slots,
    Draft,
    Plan,
    Rule,
    Slot,
    SlotsState,
    clip,
    first_best,
    first_least,
    most_bundles,
    open_draft,
    ranked,
    repeat,
    see,
    shares,
    try_increment,
)
from jaxsched.envs.dl2.heuristics.published import PUBLISHED
from jaxsched.envs.dl2.rules import BUNDLE, PS, WORKER
from jaxsched.envs.dl2.rules.dynamics import delay
from jaxsched.envs.dl2.rules.tables import NUM_MODELS, PROFILE_POINTS, Params
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

CAP = 4  # bundles of one job, for fifo, srtf and tetris
POLICY_OPTIONS = ("cap",)


def plan_rule(name: str, env: DL2Slots, *, cap: int = CAP, log: bool = False) -> Rule:
    """The rule of that name for an environment.

    Args:
      name: ``optimus``, or one of ``RULES``.
      env: the environment.
      cap: bundles of one job at most, for ``fifo``, ``srtf`` and ``tetris``.
      log: list the increments of each plan in order.

    Raises:
      JaxschedError: unknown name, a cap that is not a whole number from 1 on, or a rule with
        all-reduce for which it is not defined.
    """
    if name not in (every := ("optimus", *RULES)):
        known = ", ".join(every)
        raise JaxschedError(f"dl2: unknown policy {name!r}; known are {known}")
    if isinstance(cap, bool) or not isinstance(cap, int) or cap < 1:
        raise JaxschedError(f"dl2: cap must be a whole number from 1 on, not {cap!r}")
    if name == "optimus" and env.comm != "ps":
        raise JaxschedError(
            "dl2: optimus fits a model of workers and parameter servers; with all-reduce use "
            "optimus_oracle or optimus_fill"
        )
    if name in PUBLISHED and env.comm != "ps":
        raise JaxschedError(f"dl2: {name} gives parameter servers; accepted: comm 'ps'")
    length = env.cluster.max_tasks if log else 0

    def start(state: SlotsState, params: Params) -> tuple[Slot, Draft]:
        slot = see(env, state, params)
        return slot, open_draft(slot, length)

    if name == "optimus":

        def fit_and_plan(memory: Any, state: SlotsState, params: Params) -> tuple[Plan, Any]:
            slot, draft = start(state, params)
            memory = refitted(memory, slot)
            seconds = fitted(memory, slot)
            return allocate(slot, draft, seconds, fill=False).plan, memory

        return Rule(profiled, fit_and_plan)

    def plan(memory: PyTree, state: SlotsState, params: Params) -> tuple[Plan, PyTree]:
        slot, draft = start(state, params)
        return RULES[name](slot, draft, cap).plan, memory

    return Rule(no_memory, plan)


def baseline(name: str, env: DL2Slots, *, cap: int = CAP, log: bool = False) -> Policy:
    """The policy of that name for ``DL2Slots``; see ``plan_rule``.

    With ``log`` its actions are whole plans, of which the environment reads the allocation.
    """
    rule = plan_rule(name, env, cap=cap, log=log)

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        del weights, key
        plan, memory = rule.plan(memory, view.state, view.params)
        return plan if log else Allocation(plan.workers, plan.ps), memory

    return Policy(name, rule.init, act, privileged=True)


@cache
def one_of_baselines(
    names: tuple[str, ...], env: DL2Slots, *, cap: int = CAP, log: bool = False
) -> Policy:
    """Policies as one whose weights are the place of the one that plays (``policies.one_of``)."""
    return one_of(tuple(baseline(name, env, cap=cap, log=log) for name in names))


def _drf(slot: Slot, draft: Draft) -> Draft:
    """Dominant resource fairness: the job with the smallest share gets the next bundle."""
    index = jnp.arange(slot.active.shape[0], dtype=jnp.int32)

    def step(draft: Draft, live: Array) -> tuple[Draft, Array, Array]:
        job = first_least(shares(slot, draft.plan), live)
        draft, placed = try_increment(slot, draft, job, slot.bundle, live[job])
        live &= placed | (index != job)
        return draft, live, jnp.any(live)

    return repeat(step, draft, slot.active, jnp.any(slot.active))[0]


def _fifo(slot: Slot, draft: Draft, cap: int) -> Draft:
    """First in, first out."""
    return ranked(slot, draft, jnp.arange(slot.active.shape[0], dtype=jnp.int32), cap)


def _reference(slot: Slot) -> Array:
    """Remaining seconds with four workers and four PS, float ``[N]``."""
    return slot.left * jnp.where(slot.active, slot.params.known.reference[slot.model], 0.0)


def _srtf(slot: Slot, draft: Draft, cap: int) -> Draft:
    """Shortest remaining time first."""
    return ranked(slot, draft, _reference(slot), cap)


class _Serving(NamedTuple):
    """Whom Tetris serves: the job of the best score gets all its bundles before the next."""

    live: Array  # bool [N]
    job: Array  # int32, -1: choose anew


def _tetris(slot: Slot, draft: Draft, cap: int) -> Draft:
    """Alignment of a bundle with the free resources, plus preference for short jobs."""
    cluster, limit = slot.rules.cluster, most_bundles(slot.rules, cap)
    index = jnp.arange(slot.active.shape[0], dtype=jnp.int32)
    totals = np.array(cluster.totals)
    has = totals > 0
    shares = cluster.worker_shares + (cluster.ps_shares if cluster.needs_ps else 0)
    padded = np.concatenate([shares, np.zeros((1, len(totals)), shares.dtype)])
    demand = jnp.asarray(padded / cluster.share_unit, float)[slot.model]  # [N, R]
    short = 1.0 / jnp.maximum(_reference(slot), 1.0)

    def best(draft: Draft, live: Array) -> Array:
        left = jnp.sum(cluster.layout.unpack(draft.servers.free), axis=0)
        free = jnp.where(has, left.astype(demand.dtype) / np.maximum(totals, 1), 0.0)
        align = jnp.sum(demand * free, axis=-1)
        count = jnp.maximum(jnp.sum(live), 1)

        def relative(values: Array) -> Array:
            mean = jnp.sum(jnp.where(live, values, 0.0)) / count
            return jnp.where(mean > 0, values / jnp.where(mean > 0, mean, 1.0), 0.0)

        return first_best(relative(align) + relative(short), live)

    def step(draft: Draft, serving: _Serving) -> tuple[Draft, _Serving, Array]:
        job = jnp.where(serving.job >= 0, serving.job, best(draft, serving.live))
        open_ = draft.plan.workers[job] < limit
        draft, placed = try_increment(slot, draft, job, slot.bundle, serving.live[job] & open_)
        goes_on = placed & (draft.plan.workers[job] < limit)
        live = serving.live & (goes_on | (index != job))
        return draft, _Serving(live, jnp.where(goes_on, job, -1)), jnp.any(live)

    serving = _Serving(slot.active, jnp.int32(-1))
    return repeat(step, draft, serving, jnp.any(slot.active))[0]


def _with_true_speeds(slot: Slot, draft: Draft, *, fill: bool) -> Draft:
    """Optimus that knows the noise-free speeds; ``fill``: goes on where a task does not fit."""
    return allocate(slot, draft, slot.seconds, fill=fill)


def _uncapped(rule: Callable[[Slot, Draft], Draft]) -> Callable[[Slot, Draft, int], Draft]:
    return lambda slot, draft, cap: rule(slot, draft)


Seconds = Callable[[Array, Array], Array]
"""Seconds per epoch of every job with ``w`` workers and ``p`` PS, float ``[N]``."""


class Model(NamedTuple):
    """Memory of the online fit, per job type."""

    evidence: Evidence  # leaves [M, ...]
    theta: Array  # float [M, 5]


def profiled(params: Params) -> Model:
    """The model before the first slot: eight noise-free points of every type."""
    servers, workers = (jnp.asarray(column) for column in np.array(PROFILE_POINTS).T)
    rate = 1.0 / params.known.profile[:NUM_MODELS]
    points = optimus_fit.evidence(workers, servers, rate)
    total = Evidence(jnp.sum(points.gram, axis=1), jnp.sum(points.moment, axis=1))
    return Model(total, optimus_fit.fit(*total))


def refitted(model: Model, slot: Slot) -> Model:
    """Add what was measured in the last slot, and refit."""
    last = slot.state.last
    w, p = jnp.maximum(last.workers, 1), jnp.maximum(last.ps, 1)
    points = optimus_fit.evidence(w, p, last.pace)
    types = jnp.arange(NUM_MODELS, dtype=jnp.int32)[:, None]
    of_type = ((slot.model == types) & (last.pace > 0)).astype(last.pace.dtype)
    gram = jnp.sum(of_type[..., None, None] * points.gram, axis=1)
    moment = jnp.sum(of_type[..., None] * points.moment, axis=1)
    total = Evidence(model.evidence.gram + gram, model.evidence.moment + moment)
    return Model(total, optimus_fit.fit(*total))


def fitted(model: Model, slot: Slot) -> Seconds:
    """What the fitted model predicts."""
    theta = model.theta[jnp.minimum(slot.model, NUM_MODELS - 1)]
    return lambda w, p: optimus_fit.predict(theta, w, p)


class Gains(NamedTuple):
    """Epoch seconds saved per share of the cluster, float ``[N]``; -inf where not allowed."""

    worker: Array
    ps: Array


def gains(slot: Slot, plan: Plan, seconds: Seconds) -> Gains:
    """Gain of one more worker and of one more PS of each job (core, section 9)."""
    rules = slot.rules
    cluster = rules.cluster
    w, p = plan.workers, plan.ps
    now = seconds(w, p)

    def gain(more_w: int, more_p: int, shares: np.ndarray, allowed: Array) -> Array:
        unit = np.append(shares.max(axis=-1), 1) / cluster.share_unit
        # One product of a difference: equal speeds give exactly 0, which ends the loop.
        saved = slot.left * (now - seconds(w + more_w, p + more_p))
        return jnp.where(allowed, saved / jnp.asarray(unit, float)[slot.model], -jnp.inf)

    running = slot.active & (w > 0)
    if not cluster.needs_ps:
        worker = gain(1, 0, cluster.worker_shares, running & (w < rules.max_workers))
        return Gains(worker, jnp.full_like(worker, -jnp.inf))
    running &= p > 0
    return Gains(
        gain(1, 0, cluster.worker_shares, running & (w < rules.max_workers)),
        gain(0, 1, cluster.ps_shares, running & (p < rules.max_ps)),
    )


def allocate(slot: Slot, draft: Draft, seconds: Seconds, *, fill: bool) -> Draft:
    """First a bundle for each job in order, then tasks by gain.

    Args:
      slot: the slot.
      draft: nothing is allocated.
      seconds: the speed model.
      fill: where a task does not fit, close that job for that kind and go on, instead of stopping.
    """
    jobs = slot.active.shape[0]

    def first(job: Array, draft: Draft) -> Draft:
        job = jnp.asarray(job, jnp.int32)
        return try_increment(slot, draft, job, slot.bundle, slot.active[job])[0]

    draft = jax.lax.fori_loop(0, jobs - 1, first, draft)

    def step(draft: Draft, closed: Array) -> tuple[Draft, Array, Array]:
        gain = gains(slot, draft.plan, seconds)
        # PS before worker: it wins ties of the same job.
        both = jnp.where(closed, -jnp.inf, jnp.stack([gain.ps, gain.worker], axis=-1).reshape(-1))
        chosen = jnp.argmax(both).astype(jnp.int32)
        kind = jnp.where(chosen % 2 == 0, PS, WORKER)
        worth = both[chosen] > 0
        draft, placed = try_increment(slot, draft, chosen // 2, kind, worth)
        if fill:
            here = jnp.arange(both.shape[0], dtype=jnp.int32) == chosen
            return draft, closed | (here & ~placed), worth
        return draft, closed, placed

    return repeat(step, draft, jnp.zeros(2 * jobs, bool))[0]


EXPONENT = 0.1
LEAST_LEFT = 1e-3  # epochs, so that the weight is finite


def _with_none(values: np.ndarray) -> Array:
    """A column per job type, with 0 for none."""
    return jnp.asarray(np.append(values, 0))


def probe(slot: Slot, draft: Draft) -> Draft:
    """Increments by what they add to ``sum rate / remaining^0.1`` per dominant share.

    ``rate`` is the true speed without the slot's noise, slowed by the CPU cores of the others; an
    increment is charged with what it slows. It stops when nothing that fits adds anything.
    """
    rules, speed = slot.rules, slot.params.speed
    cluster = rules.cluster
    weight = jnp.maximum(slot.left, LEAST_LEFT) ** -EXPONENT
    kinds = (WORKER, PS, BUNDLE) if cluster.needs_ps else (WORKER,)
    more = {WORKER: (1, 0), PS: (0, 1), BUNDLE: (1, 1)}
    worker_cpus = _with_none(cluster.demands.worker[:, 1])[slot.model]
    ps_cpus = _with_none(cluster.demands.ps[:, 1])[slot.model]

    def rate(w: Array, p: Array) -> Array:
        table = speed.rate
        return table[slot.model, clip(w, table.shape[1]), clip(p, table.shape[2])]

    def values(plan: Plan) -> Array:
        """Added value per share, float ``[kinds, N]``."""
        w, p = plan.workers, plan.ps
        cpus = w * worker_cpus + p * ps_cpus
        total = jnp.sum(cpus, dtype=jnp.int32)
        worth = weight * rate(w, p)
        now = jnp.sum(worth / delay(speed, total - cpus))
        added = []
        for kind in kinds:
            more_w, more_p = more[kind]
            extra = more_w * worker_cpus + more_p * ps_cpus  # [N]
            # Everybody's value if the job of the row gets the increment: others are slowed.
            others = 1.0 / delay(speed, total + extra[:, None] - cpus)  # [row, job]
            slowed = jnp.sum(worth * others, axis=-1) - worth * jnp.diagonal(others)
            own = weight * rate(w + more_w, p + more_p) / delay(speed, total - cpus)
            shares = np.append(
                (more_w * cluster.worker_shares + more_p * cluster.ps_shares).max(axis=-1), 1
            )
            share = jnp.asarray(shares / cluster.share_unit, float)[slot.model]
            allowed = slot.active & (w + more_w <= rules.max_workers)
            allowed &= p + more_p <= rules.max_ps
            added.append(jnp.where(allowed, (slowed + own - now) / share, -jnp.inf))
        return jnp.stack(added)

    def step(draft: Draft, closed: Array) -> tuple[Draft, Array, Array]:
        value = jnp.where(closed, -jnp.inf, values(draft.plan)).reshape(-1)
        chosen = jnp.argmax(value).astype(jnp.int32)
        jobs = slot.active.shape[0]
        worth = value[chosen] > 0
        kind = jnp.asarray(kinds)[chosen // jobs]
        draft, placed = try_increment(slot, draft, chosen % jobs, kind, worth)
        here = jnp.arange(value.shape[0], dtype=jnp.int32) == chosen
        return draft, closed | (here & ~placed).reshape(closed.shape), worth

    closed = jnp.zeros((len(kinds), slot.active.shape[0]), bool)
    return repeat(step, draft, closed)[0]


RULES: dict[str, Callable[[Slot, Draft, int], Draft]] = {
    "drf": _uncapped(_drf),
    "fifo": _fifo,
    "srtf": _srtf,
    "tetris": _tetris,
    "optimus_oracle": _uncapped(partial(_with_true_speeds, fill=False)),
    "optimus_fill": _uncapped(partial(_with_true_speeds, fill=True)),
    "probe": _uncapped(probe),
    **{name: _uncapped(rule) for name, rule in PUBLISHED.items()},
}
