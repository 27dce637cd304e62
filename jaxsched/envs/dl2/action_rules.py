"""Rules that act through the agent's actions: one increment per decision, among the rows it sees.

They tell what the agent's interface allows, and teach it where slots do not start empty or rows
move up (``rows = "window"``). They read speeds that no scheduler knows, and which tasks fit, and
void where what they want does not fit.

Axes: ``J`` rows of the window.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.dl2.artefact_rules import wishes
from jaxsched.envs.dl2.cluster import BUNDLE, KINDS, PS, WORKER, feasible
from jaxsched.envs.dl2.dynamics import ClusterState, Rules, options, parameter_servers, workers
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.observation import see_rows
from jaxsched.envs.dl2.parameters import Params
from jaxsched.envs.dl2.plans import clip, first_best, first_least
from jaxsched.envs.dl2.tables import NUM_MODELS, model_of, whole
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PRNGKey, PyTree


class Rows(NamedTuple):
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
    choose = partial(RULES[name.removesuffix("_actions")], env.window)

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del weights, key
        return choose(_look(env.rules, view.state, view.params)), memory

    return Policy(name, no_memory, act, privileged=True)


def _look(rules: Rules, state: ClusterState, params: Params) -> Rows:
    seen = see_rows(rules, state, params.jobs)
    true_epochs = whole(params.jobs.true_epochs, state.episode)[state.rows]
    fits = feasible(rules.cluster, state.servers, bundles=rules.bundles)
    allowed = options(rules, seen.tasks, seen.info, jnp.int32((1 << KINDS * NUM_MODELS) - 1))
    return Rows(
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


def _void(window: int, rows: Rows) -> Array:
    """Nothing beside what slots start with."""
    del rows
    return jnp.int32(KINDS * window)


def _drf(window: int, rows: Rows) -> Array:
    """A bundle for the smallest dominant share."""
    live = (rows.allowed >> BUNDLE) & 1 > 0
    row = first_least(rows.share, live)
    return _action(window, row, BUNDLE, (rows.fitting[row] >> BUNDLE) & 1 > 0)


def _drf_tasks(window: int, rows: Rows) -> Array:
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


def _optimus(window: int, rows: Rows) -> Array:
    """The task of the largest marginal gain, of the artefact's Optimus."""
    limits = rows.rules.max_workers, rows.rules.max_ps
    wish = wishes(rows.params, limits, rows.model, rows.left, (rows.workers, rows.ps))
    live = (rows.model < NUM_MODELS) & ~wish.refused
    row = first_best(wish.gain, live)
    good = live[row] & (wish.gain[row] > 0) & ((rows.fitting[row] >> wish.kind[row]) & 1 > 0)
    return _action(window, row, wish.kind[row], good)


def _probe(window: int, rows: Rows) -> Array:
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


RULES: dict[str, Callable[[int, Rows], Array]] = {
    "void": _void,
    "drf": _drf,
    "drf_tasks": _drf_tasks,
    "optimus": _optimus,
    "probe": _probe,
}
ACTION_RULES = tuple(f"{name}_actions" for name in RULES)
