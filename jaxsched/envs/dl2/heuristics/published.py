"""Heuristics of DL2's published simulator (artefact track, 8), and rules that act through actions.

Its heuristics start from an empty cluster, see all active jobs and place by the environment's
options, which are to be those of the preset ``artefact`` to reproduce it. Where the paper's text
says something else, the simulator's way is kept: Tetris prefers long jobs, shortest first goes by
the remaining share, Optimus knows the speeds and does not weigh a task by what it takes.

Rules that act through the agent's actions add one increment per decision, among the rows it sees.
They tell what the agent's interface allows, and teach it where slots do not start empty or rows
move up (``rows = "window"``). They read speeds that no scheduler knows, and which tasks fit, and
void where what they want does not fit.

Axes: ``N`` rows of the job table, ``S`` servers, ``M`` job types, ``J`` rows of the window.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import (
    Draft,
    Slot,
    clip,
    first_best,
    first_least,
    most_bundles,
    noted,
    ranked,
    repeat,
    shares,
    try_increment,
)
from jaxsched.envs.dl2.rules import (
    BUNDLE,
    KINDS,
    MAX_TASKS,
    PS,
    WORKER,
    Rules,
    feasible,
    holds,
    put,
)
from jaxsched.envs.dl2.rules.dynamics import ClusterState, options, parameter_servers, workers
from jaxsched.envs.dl2.rules.observation import facts_of_rows
from jaxsched.envs.dl2.rules.tables import NUM_MODELS, Params, model_of, whole
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree

ENDLESS = 1e9  # seconds, of a job that does not get on


def drf(slot: Slot, draft: Draft) -> Draft:
    """The smallest dominant share gets the next bundle, until one does not fit."""
    limit = most_bundles(slot.rules, MAX_TASKS)

    def step(draft: Draft, extra: tuple[()]) -> tuple[Draft, tuple[()], Array]:
        live = slot.active & (draft.plan.workers < limit)
        job = first_least(shares(slot, draft.plan), live)
        draft, placed = try_increment(slot, draft, job, BUNDLE, live[job])
        return draft, extra, placed

    return repeat(step, draft, ())[0]


def fifo(slot: Slot, draft: Draft) -> Draft:
    """First come, first served, up to the limits: a job or two take the whole cluster."""
    return ranked(slot, draft, jnp.arange(slot.active.shape[0], dtype=jnp.int32), MAX_TASKS)


def srtf(slot: Slot, draft: Draft) -> Draft:
    """The same by the smallest share of the epochs that remains, not by the time it takes."""
    return ranked(slot, draft, _fraction(slot), MAX_TASKS)


def _fraction(slot: Slot) -> Array:
    """Share of the epochs that remains, float ``[N]``."""
    cluster = slot.state.cluster
    return 1.0 - cluster.progress / whole(slot.params.jobs.expected, cluster.episode)


def tetris(slot: Slot, draft: Draft) -> Draft:
    """Server by server, the job of the highest score, until its bundle does not fit there.

    The score is what a bundle has in common with the server's free resources, plus a weight times
    the work that is left: more work scores higher.
    """
    cluster = slot.rules.cluster
    limit = most_bundles(slot.rules, MAX_TASKS)
    bundle = np.append(cluster.demands.worker + cluster.demands.ps, [[0, 0, 0]], axis=0)
    demand = jnp.asarray(bundle, float)[slot.model]  # [N, R]
    left = jnp.sum(demand, axis=-1) * _fraction(slot)
    packed = cluster.placement[:, :2] + cluster.placement[:, 2:]
    count = jnp.maximum(jnp.sum(slot.active), 1)

    def mean(values: Array) -> Array:
        return jnp.sum(jnp.where(slot.active, values, 0.0)) / count

    def step(draft: Draft, server: Array) -> tuple[Draft, Array, Array]:
        room = draft.servers.free[server]
        align = jnp.sum(demand * cluster.layout.unpack(room), axis=-1)
        weight = mean(align) / mean(left)
        live = slot.active & (draft.plan.workers < limit)
        job = first_best(align + weight * left, live)
        need, load = jnp.asarray(packed).at[slot.model[job]].get(mode="clip")
        placed = live[job] & (weight != 0) & holds(cluster, room, need)
        at = jnp.where(placed, server, cluster.num_servers)
        draft = draft._replace(servers=put(draft.servers, at, need, load))
        where = jnp.stack([at, at])
        draft = noted(slot, draft, job, jnp.int32(BUNDLE), where, placed)
        server = jnp.where(placed, server, server + 1)
        return draft, server, server < cluster.num_servers

    return repeat(step, draft, jnp.int32(0), jnp.any(slot.active))[0]


class Wish(NamedTuple):
    """What each job wants most; ``[...]`` as the jobs."""

    kind: Array  # int32, WORKER or PS
    gain: Array  # float, seconds saved; infinite while it lacks one of the two
    refused: Array  # bool, it has as many of these as it may


def wishes(
    params: Params, limits: tuple[int, int], model: Array, left: Array, tasks: tuple[Array, Array]
) -> Wish:
    """Optimus' marginal gains by the true speeds.

    Args:
      params: with the speeds, of one worker and one PS more than the limits where they are known.
      limits: workers and PS of a job.
      model: int32 ``[...]``, job types.
      left: float ``[...]``, remaining epochs.
      tasks: workers and PS, int32 ``[...]`` each.
    """
    (w, p), rate = tasks, params.speed.rate

    def seconds(w: Array, p: Array) -> Array:
        speed = rate[model, clip(w, rate.shape[1]), clip(p, rate.shape[2])]
        return jnp.where(speed > 0, left / jnp.where(speed > 0, speed, 1.0), ENDLESS)

    now = seconds(w, p)
    by_worker, by_ps = now - seconds(w + 1, p), now - seconds(w, p + 1)
    by_ps = jnp.where((w > 0) & (p == 0), jnp.inf, by_ps)
    by_worker = jnp.where(w == 0, jnp.inf, jnp.where(p == 0, -jnp.inf, by_worker))
    worker = (by_worker > by_ps) | (w == 0)
    refused = jnp.where(worker, w >= limits[0], p >= limits[1])
    return Wish(
        jnp.where(worker, WORKER, PS).astype(jnp.int32), jnp.maximum(by_worker, by_ps), refused
    )


def optimus(slot: Slot, draft: Draft) -> Draft:
    """The largest gain gets its task, until none gains or one does not fit.

    A job that wants what it may have no more of leaves; the other kind is not tried.
    """
    limits = slot.rules.max_workers, slot.rules.max_ps

    def step(draft: Draft, live: Array) -> tuple[Draft, Array, Array]:
        tasks = draft.plan.workers, draft.plan.ps
        wish = wishes(slot.params, limits, slot.model, slot.left, tasks)
        live &= ~wish.refused
        job = first_best(wish.gain, live)
        worth = live[job] & (wish.gain[job] > 0)
        draft, placed = try_increment(slot, draft, job, wish.kind[job], worth)
        return draft, live, placed

    return repeat(step, draft, slot.active)[0]


PUBLISHED: dict[str, Callable[[Slot, Draft], Draft]] = {
    "drf_artefact": drf,
    "optimus_artefact": optimus,
    "srtf_artefact": srtf,
    "fifo_artefact": fifo,
    "tetris_artefact": tetris,
}


class SeenRows(NamedTuple):
    """What a rule sees of the rows; all ``[J]``."""

    rules: Rules
    params: Params
    model: Array  # int32, ``NUM_MODELS`` for none
    workers: Array  # int32
    ps: Array  # int32
    left: Array  # float, remaining epochs
    share: Array  # int32, dominant share in units of ``1 / U``
    allowed: Array  # int32, kinds within the limits, a bit each
    fitting: Array  # int32, those of them that fit


def action_rule(name: str, env: DL2) -> Policy:
    """The rule of that name for an environment.

    Raises:
      JaxschedError: with all-reduce, for which there is none.
    """
    if env.comm != "ps":
        raise JaxschedError(f"dl2: {name} gives parameter servers; accepted: comm 'ps'")
    choose = partial(BY_ACTIONS[name], env.window)

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        return choose(_look(env.rules, view.state, view.params)), memory

    return Policy(name, no_memory, act, privileged=True)


def _look(rules: Rules, state: ClusterState, params: Params) -> SeenRows:
    seen = facts_of_rows(rules, state, params.jobs)
    true_epochs = whole(params.jobs.true_epochs, state.episode)[state.rows]
    fits = feasible(rules.cluster, state.servers, bundles=rules.bundles)
    allowed = options(rules, seen.tasks, seen.info, jnp.int32((1 << KINDS * NUM_MODELS) - 1))
    return SeenRows(
        rules=rules,
        params=params,
        model=model_of(seen.info),
        workers=workers(seen.tasks),
        ps=parameter_servers(seen.tasks),
        left=jnp.maximum(true_epochs - state.progress[state.rows], 0.0),
        share=seen.share,
        allowed=allowed,
        fitting=allowed & options(rules, seen.tasks, seen.info, fits),
    )


def _action(window: int, row: Array, kind: Array | int, good: Array) -> Array:
    return jnp.where(good, KINDS * row + kind, KINDS * window).astype(jnp.int32)


def _void(window: int, rows: SeenRows) -> Array:
    """Nothing beside what slots start with."""
    del rows
    return jnp.int32(KINDS * window)


def _drf(window: int, rows: SeenRows) -> Array:
    """A bundle for the smallest dominant share."""
    live = (rows.allowed >> BUNDLE) & 1 > 0
    row = first_least(rows.share, live)
    return _action(window, row, BUNDLE, (rows.fitting[row] >> BUNDLE) & 1 > 0)


def _drf_tasks(window: int, rows: SeenRows) -> Array:
    """The same bundle as a worker and then a parameter server.

    A row with more workers than parameter servers has its worker; a bundle begins only where it
    fits.
    """
    begun = rows.workers > rows.ps
    live = ((rows.allowed >> BUNDLE) & 1 > 0) & ~begun
    row = jnp.where(jnp.any(begun), jnp.argmax(begun), first_least(rows.share, live))
    kind = jnp.where(begun[row], PS, WORKER)
    fits = jnp.where(begun[row], rows.fitting[row] >> PS, rows.fitting[row] >> BUNDLE)
    return _action(window, row.astype(jnp.int32), kind, fits & 1 > 0)


def _optimus(window: int, rows: SeenRows) -> Array:
    """The task of the largest marginal gain, of the artefact's Optimus."""
    limits = rows.rules.max_workers, rows.rules.max_ps
    wish = wishes(rows.params, limits, rows.model, rows.left, (rows.workers, rows.ps))
    live = (rows.model < NUM_MODELS) & ~wish.refused
    row = first_best(wish.gain, live)
    good = live[row] & (wish.gain[row] > 0) & ((rows.fitting[row] >> wish.kind[row]) & 1 > 0)
    return _action(window, row, wish.kind[row], good)


def _probe(window: int, rows: SeenRows) -> Array:
    """What adds most epochs of this slot per resource, over the root of those that remain.

    Epochs count up to what remains; the next best kind is tried where the best does not fit.
    """
    rules, rate = rows.rules, rows.params.speed.rate
    cluster = rules.cluster

    def trained(w: Array, p: Array) -> Array:
        speed = rate[rows.model, clip(w, rate.shape[1]), clip(p, rate.shape[2])]
        return jnp.minimum(speed * rules.slot_seconds, rows.left)

    now = trained(rows.workers, rows.ps)
    worker, server = (
        jnp.append(jnp.sum(jnp.asarray(needs), axis=-1), 1)[rows.model] for needs in cluster.demands
    )
    more = {WORKER: (1, 0), PS: (0, 1), BUNDLE: (1, 1)}
    values = []
    for kind, (w, p) in more.items():
        added = trained(rows.workers + w, rows.ps + p) - now
        value = added / jnp.sqrt(jnp.maximum(rows.left, 1e-6)) / (w * worker + p * server)
        values.append(jnp.where((rows.fitting >> kind) & 1 > 0, value, -jnp.inf))
    value = jnp.stack(values, axis=-1).reshape(-1)
    best = jnp.argmax(value).astype(jnp.int32)
    return _action(window, best // KINDS, best % KINDS, value[best] > 0)


BY_ACTIONS: dict[str, Callable[[int, SeenRows], Array]] = {
    "void_actions": _void,
    "drf_actions": _drf,
    "drf_tasks_actions": _drf_tasks,
    "optimus_actions": _optimus,
    "probe_actions": _probe,
}
