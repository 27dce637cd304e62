"""F and S: time per decision of DAS and the meta-heuristics; environment decisions per second."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.das.common import BASE, CLUSTERS, NUM_SHIPPED, SHIPPED, recipe_of
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside
from benchmarks.papers.throughput import environment_row
from jaxsched.core.policies import Policy, View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import baseline
from jaxsched.envs.das.show.paper import SECONDS_PER_JOB
from jaxsched.systems import functions
from jaxsched.types import Array, PyTree

BATCH, QUICK_BATCH = 256, 32
STATES, QUICK_STATES = 64, 4
REPEATED = {"DAS": 9, "mosa": 3, "malo": 1}
"""States that decisions are timed in one by one, and how often in each."""

BATCHED_CALLS = 10
QUICK_CLUSTERS = ("small",)

EVENTS_PER_STEP = 2
BATCHES, QUICK_BATCHES = (1, 1024, 8192), (1, 64)
REPEATS, QUICK_REPEATS = 10, 2
QUICK_STEPS = 2**10


class Recorded(NamedTuple):
    """States in which a decision is due, leaves ``[B, ...]``."""

    state: PyTree
    observation: PyTree
    mask: PyTree


class DecisionTime(NamedTuple):
    """Time of a decision.

    Attributes:
      decision_ms: mean over the states, whatever else is decided beside it.
      jobs: placed by it, mean over the states.
    """

    decision_ms: float
    jobs: float

    @property
    def job_ms(self) -> float:
        """Of each placed job."""
        return self.decision_ms / max(self.jobs, 1e-9)


def decision_time(lab: Lab) -> Outcome:
    """F, Appendix F: DAS alone and side by side, MOSA and MALO, on the default device."""
    clusters = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    tables = SHIPPED.tables("test", NUM_SHIPPED, lab.settings.num_jobs)
    batch = QUICK_BATCH if lab.quick else BATCH
    number = QUICK_STATES if lab.quick else STATES
    together = f"DAS, {batch} side by side"
    found: dict[str, dict[str, DecisionTime]] = {}
    for cluster in clusters:
        recipe = recipe_of(lab, "DAS", cluster)
        env, kind = recipe.env, recipe.network
        params = env.params(tables)
        states = recorded_states(env, params, batch)
        weights = functions.init_weights(lab.system, env, kind, params)
        learned = functions.network_policy(lab.system, env, kind, recipe.policy, recipe.play)
        some = jax.tree.map(lambda x: x[:: batch // number], states)
        rivals = {
            name: Timed(learned, weights, repeats)
            if name == "DAS"
            else Timed(functions.heuristic(lab.system, name, env, 0, {}).policy, (), repeats)
            for name, repeats in REPEATED.items()
        }
        lab.say(f"timing {', '.join(rivals)} on the {cluster} cluster")
        times = times_alone(env, params, some, rivals)
        times[together] = time_together(env, learned, weights, params, states, BATCHED_CALLS)
        found[cluster] = times
    device = jax.devices()[0].device_kind
    table = Table(
        f"inference on {device}: time of a decision (ms), jobs placed, time per job (ms)",
        ["policy", *(f"{c}, {what}" for c in clusters for what in ("decision", "jobs", "job"))],
        [
            [name, *(x for t in found.values() for x in (*t[name], t[name].job_ms))]
            for name in found[clusters[0]]
        ],
        digits=3,
    )
    checks = [check for c in clusters for check in checks_of(c, found[c], together)]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        series = {c: [t.job_ms for t in times.values()] for c, times in found.items()}
        names = list(found[clusters[0]])
        figures.bars(axes, names, series, y_label="time per placed job (ms)")
        axes.set_yscale("log")

    notes = (
        "untrained weights: the time of a decision does not depend on them; no training, no "
        f"transfer between devices counted; alone: mean over {number} states, the same for all, of "
        "the median of up to nine calls; all decide a state in turn; a policy is handed what it "
        "looks at: DAS the observation, the searchers the state and the job table, too",
        "states are those that first come first served, most free GPUs meets, evenly spaced over "
        "the shipped episodes; on a machine with other work these times are upper bounds",
    )
    values = {
        c: {n: {**t._asdict(), "job_ms": t.job_ms} for n, t in times.items()}
        for c, times in found.items()
    }
    return Outcome([table], checks, {"device": device, **values}, draw, notes)


def checks_of(cluster: str, times: Mapping[str, DecisionTime], together: str) -> list[Check]:
    """The claims of Appendix F.

    Args:
      cluster: its name.
      times: of ``DAS``, ``mosa``, ``malo`` and DAS side by side.
      together: name of the latter.
    """
    alone = times["DAS"]
    checks = [
        beside(
            f"{cluster}: {name}'s time per decision over DAS's",
            "about 50",
            times[name].decision_ms / alone.decision_ms,
        )
        for name in ("mosa", "malo")
    ]
    paper = 1e3 * SECONDS_PER_JOB[cluster]
    return [
        *checks,
        beside(f"{cluster}: DAS alone, ms per job", f"{paper:.1f}", alone.job_ms),
        beside(
            f"{cluster}: the paper's time per job over that of {together}",
            "-",
            paper / times[together].job_ms,
        ),
        beside(
            f"{cluster}: time per job alone over that of {together}",
            "-",
            f"{alone.job_ms / times[together].job_ms:.1f}",
        ),
    ]


def recorded_states(env: DAS, params: Any, count: int) -> Recorded:
    """States that a heuristic meets, evenly spaced over the parameters' episodes.

    They are repeated if there are too few.
    """
    policy, episodes = baseline(BASE, env), env.num_episodes(params)

    def play(episode: Array) -> tuple[Recorded, Array]:
        def body(carry: tuple[Any, Any], key: Any) -> tuple[Any, Any]:
            state, timestep = carry
            seen = Recorded(state, timestep.observation, timestep.action_mask)
            view = View(timestep.observation, timestep.action_mask, state, params)
            action, _ = policy.act((), (), view, key)
            due = jnp.any(timestep.observation.real)
            return env.step(key, state, action, params), (seen, due)

        start = env.reset(jax.random.key(0), params, episode)
        _, seen = jax.lax.scan(body, start, jax.random.split(jax.random.key(0), params.max_jobs))
        result: tuple[Recorded, Array] = seen
        return result

    seen, due = jax.jit(jax.vmap(play))(jnp.arange(episodes))
    there = np.flatnonzero(np.asarray(due))
    index = there[np.arange(count) * len(there) // count]
    kept: Recorded = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[index], seen)
    return kept


class Timed(NamedTuple):
    """A policy with its weights, and how often each of its decisions is timed."""

    policy: Policy
    weights: PyTree
    repeats: int


def times_alone(
    env: DAS, params: Any, states: Recorded, rivals: Mapping[str, Timed]
) -> dict[str, DecisionTime]:
    """One decision after the other: mean over the states of the median of the repeats.

    Every state is decided by all in turn, so that they meet the same moments of the machine.
    """
    count = states.mask.shape[0]
    keys = list(jax.random.split(jax.random.key(1), count))
    deciders = {name: _decider(timed, params) for name, timed in rivals.items()}
    laps = {name: np.zeros(count) for name in rivals}
    actions: dict[str, list[PyTree]] = {name: [] for name in rivals}
    for index, key in enumerate(keys):
        seen: Recorded = jax.tree.map(lambda x, i=index: x[i], states)
        for name, (policy, weights, repeats) in rivals.items():
            view, own = handed(policy, seen, params), []
            for repeat in range(repeats + (index == 0)):
                began = time.perf_counter()
                action = jax.block_until_ready(deciders[name](weights, view, key))
                if index or repeat:  # the very first call compiles
                    own.append(time.perf_counter() - began)
            actions[name].append(action)
            laps[name][index] = np.median(own)
    times = {}
    for name in rivals:
        chosen = jax.tree.map(lambda *x: jnp.stack(x), *actions[name])
        placed = _placed(env, params, states, chosen)
        times[name] = DecisionTime(1e3 * float(np.mean(laps[name])), placed)
    return times


def _decider(timed: Timed, params: Any) -> Callable[[PyTree, View, Any], PyTree]:
    memory = timed.policy.init(params)

    @jax.jit
    def decide(weights: PyTree, view: View, key: Any) -> PyTree:
        return timed.policy.act(weights, memory, view, key)[0]

    return decide


def time_together(
    env: DAS, policy: Policy, weights: PyTree, params: Any, states: Recorded, calls: int
) -> DecisionTime:
    """All the states at once."""
    memory, count = policy.init(params), states.mask.shape[0]

    @jax.jit
    def decide(weights: PyTree, params: Any, states: Recorded, keys: Any) -> PyTree:
        def one(seen: Recorded, key: Any) -> PyTree:
            return policy.act(weights, memory, handed(policy, seen, params), key)[0]

        return jax.vmap(one)(states, keys)

    keys = jax.random.split(jax.random.key(1), count)
    laps, actions = [], None
    for _ in range(calls + 1):
        began = time.perf_counter()
        actions = jax.block_until_ready(decide(weights, params, states, keys))
        laps.append(time.perf_counter() - began)
    each = 1e3 * float(np.median(laps[1:])) / count
    return DecisionTime(each, _placed(env, params, states, actions))


def handed(policy: Policy, seen: Recorded, params: Any) -> View:
    """What a policy looks at, and no more: fewer arrays to hand over."""
    view = View(seen.observation, seen.mask, None, None)
    return view._replace(state=seen.state, params=params) if policy.privileged else view


def _placed(env: DAS, params: Any, states: Recorded, actions: PyTree) -> float:
    """Mean number of jobs that the actions place."""
    return float(jnp.mean(_counts(env, params, states.state, actions)))


@partial(jax.jit, static_argnames="env")
def _counts(env: DAS, params: Any, states: PyTree, actions: PyTree) -> Array:
    step = partial(env.step, jax.random.key(0))
    _, timestep = jax.vmap(step, (0, 0, None))(states, actions, params)
    return jnp.sum(timestep.metrics.placed, axis=-1)


def environment_speed(lab: Lab) -> Outcome:
    """S: uniformly random actions, automatic reset, on the default device."""
    return environment_row(
        lab,
        cluster="Small cluster",
        batches=lab.choose(BATCHES, QUICK_BATCHES),
        repeats=QUICK_REPEATS if lab.quick else REPEATS,
        steps=QUICK_STEPS if lab.quick else None,
        options={"events_per_step": EVENTS_PER_STEP},
        tables=SHIPPED.tables("test", NUM_SHIPPED, lab.settings.num_jobs),
        note=f"a step takes a decision, if one is due, and then at most {EVENTS_PER_STEP} events",
    )
