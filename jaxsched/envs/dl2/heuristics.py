"""The rule-based policies of DL2 (section 9) and the probe (section 15).

All decide once per slot, from an empty allocation, and see all active jobs; those of DL2's
published simulator are in ``artefact_rules``. ``baseline`` gives them as policies of ``DL2Slots``;
``plan_rule`` and ``plan`` also tell the order of their increments.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory, one_of
from jaxsched.envs.dl2 import artefact_rules, optimus
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.plans import (
    Draft,
    Plan,
    Rule,
    Slot,
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
from jaxsched.envs.dl2.probe import probe
from jaxsched.envs.dl2.slotwise import Allocation, DL2Slots, SlotsState
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

CAP = 4  # bundles of one job, for fifo, srtf and tetris
CAPPED = ("fifo", "srtf", "tetris")
BASELINES = ("drf", *CAPPED, "optimus", "optimus_oracle", "optimus_fill")
ARTEFACT = tuple(f"{name}_artefact" for name in artefact_rules.RULES)
REFERENCES = ("probe",)
POLICY_OPTIONS = ("cap",)


def plan_rule(name: str, env: DL2Slots, *, cap: int = CAP, log: bool = False) -> Rule:
    """The rule of that name for an environment.

    Args:
      name: one of ``BASELINES``, ``REFERENCES`` or ``ARTEFACT``.
      env: the environment.
      cap: bundles of one job at most, for ``fifo``, ``srtf`` and ``tetris``.
      log: list the increments of each plan in order.

    Raises:
      JaxschedError: unknown name, a cap that is not a whole number from 1 on, or a rule with
        all-reduce for which it is not defined.
    """
    if name not in (every := BASELINES + REFERENCES + ARTEFACT):
        known = ", ".join(every)
        raise JaxschedError(f"dl2: unknown policy {name!r}; known are {known}")
    if isinstance(cap, bool) or not isinstance(cap, int) or cap < 1:
        raise JaxschedError(f"dl2: cap must be a whole number from 1 on, not {cap!r}")
    if name == "optimus" and env.comm != "ps":
        raise JaxschedError(
            "dl2: optimus fits a model of workers and parameter servers; with all-reduce use "
            "optimus_oracle or optimus_fill"
        )
    if name in ARTEFACT and env.comm != "ps":
        raise JaxschedError(f"dl2: {name} gives parameter servers; accepted: comm 'ps'")
    length = env.cluster.max_tasks if log else 0

    def start(state: SlotsState, params: Params) -> tuple[Slot, Draft]:
        slot = see(env, state, params)
        return slot, open_draft(slot, length)

    if name == "optimus":

        def fit_and_plan(memory: Any, state: SlotsState, params: Params) -> tuple[Plan, Any]:
            slot, draft = start(state, params)
            memory = optimus.learn(memory, slot)
            seconds = optimus.fitted(memory, slot)
            return optimus.allocate(slot, draft, seconds, fill=False).plan, memory

        return Rule(optimus.profiled, fit_and_plan)

    def plan(memory: PyTree, state: SlotsState, params: Params) -> tuple[Plan, PyTree]:
        slot, draft = start(state, params)
        return RULES[name](slot, draft, cap).plan, memory

    return Rule(no_memory, plan)


def plan(name: str, env: DL2Slots, *, cap: int = CAP) -> Rule:
    """``plan_rule`` with the increments listed, as imitation needs them."""
    return plan_rule(name, env, cap=cap, log=True)


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


def _drf(slot: Slot, draft: Draft, cap: int) -> Draft:
    """Dominant resource fairness: the job with the smallest share gets the next bundle."""
    del cap
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


def _oracle(slot: Slot, draft: Draft, cap: int) -> Draft:
    """Optimus with the true noise-free speeds."""
    del cap
    return optimus.allocate(slot, draft, slot.seconds, fill=False)


def _fill(slot: Slot, draft: Draft, cap: int) -> Draft:
    """The oracle, going on where a task does not fit."""
    del cap
    return optimus.allocate(slot, draft, slot.seconds, fill=True)


def _probe(slot: Slot, draft: Draft, cap: int) -> Draft:
    del cap
    return probe(slot, draft)


def _uncapped(rule: Callable[[Slot, Draft], Draft]) -> Callable[[Slot, Draft, int], Draft]:
    return lambda slot, draft, cap: rule(slot, draft)


RULES: dict[str, Callable[[Slot, Draft, int], Draft]] = {
    "drf": _drf,
    "fifo": _fifo,
    "srtf": _srtf,
    "tetris": _tetris,
    "optimus_oracle": _oracle,
    "optimus_fill": _fill,
    "probe": _probe,
    **{name: _uncapped(artefact_rules.RULES[name.removesuffix("_artefact")]) for name in ARTEFACT},
}
