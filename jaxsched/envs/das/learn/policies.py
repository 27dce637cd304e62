"""Trained agents of DAS as policies: of the plain environment, and of named arrays.

While a policy plays, its weights stay as they are, so what an earlier decision tells the walk
process is computed once and kept, in place of the decision itself: a decision then costs one
embedding, not one for each decision remembered. As functions of named arrays, for programs that
know no JAX, whole windows are computed, not their first positions alone: a batch then has one
shape.

Axes: ``N`` positions, ``M`` machines, ``F`` features of the walk process.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxsched.algorithms.agents import Agents, Normal
from jaxsched.core.array_policy import NEXT, ArrayPolicy
from jaxsched.core.policies import Play, Policy, View, no_memory
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics.weighted import decide_linear, decide_scored
from jaxsched.envs.das.learn import (
    DASNetwork,
    Trunk,
    noise_of,
    outlook_of,
    read_kind,
    takes_whole_windows,
)
from jaxsched.envs.das.learn import walk_process as wp
from jaxsched.envs.das.learn.agents import (
    NOBODY,
    Action,
    DiagonalRows,
    Rival,
    WalkRows,
    dl2_rival,
    finite,
    is_decision,
    rifling_rival,
    same_job,
)
from jaxsched.envs.das.learn.walk_process import Evidence
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.ops.batching import unbatched
from jaxsched.ops.by_width import play_by_width
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree


def das_policy(env: DAS, options: DASNetwork, name: str = "das", play: Play = "greedy") -> Policy:
    """The agents as a policy of the plain environment; its weights are the agents' parameters.

    Args:
      env: the environment.
      options: of the networks.
      name: what tables call it.
      play: take the mean action, or draw one.
    """
    options.check(env)
    follows = options.follows == "job"
    trunk = Trunk(env, options)
    machines = env.num_servers if options.kernel == "node" else 1
    size = num_features(options)
    shape = (options.history, env.window, size)

    def init(params: Any) -> PyTree:
        """Nothing known: evidence of the last decisions, oldest first, is zero."""
        del params
        if not options.remembers:
            return ()
        columns = env.num_servers // machines
        evidence = wp.Evidence(*(jnp.zeros((*shape, n), jnp.float32) for n in (size, columns)))
        return (evidence, jnp.full(shape[:2], NOBODY, jnp.int32)) if follows else evidence

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        observation = finite(view.observation)
        number = number_of(observation)
        known = added(memory) if not follows else known_of_jobs(memory, number)
        if play == "greedy" and not takes_whole_windows(trunk):
            decision = (observation, known)
            choice = play_by_width(partial(choices, trunk), weights, decision, observation.real)
        else:
            noise = None if play == "greedy" else normals(trunk, key)
            choice = _choose(trunk, weights, observation, known, noise)
        latest = (choice.latest, number) if follows else choice.latest
        memory = _pushed(memory, latest, observation)
        return {"priority": choice.priority, "affinity": choice.affinity}, memory

    return Policy(name, init, act)


def decision_of(
    trunk: Trunk, weights: PyTree, memory: PyTree, observation: Observation, noise: "Noise"
) -> tuple[dict[str, Array], PyTree]:
    """One decision of :func:`das_policy` with its randomness handed in, all positions computed.

    Args:
      trunk: the networks.
      weights: their weights.
      memory: of the policy.
      observation: one observation (no batch axes).
      noise: standard normal numbers; zeros give the mean.

    Returns:
      The action and the memory after it.
    """
    observation = finite(observation)
    number = number_of(observation)
    follows = trunk.options.follows == "job"
    known = known_of_jobs(memory, number) if follows else added(memory)
    choice = _choose(trunk, weights, observation, known, noise)
    latest = (choice.latest, number) if follows else choice.latest
    action = {"priority": choice.priority, "affinity": choice.affinity}
    return action, _pushed(memory, latest, observation)


def _pushed(memory: PyTree, latest: PyTree, observation: Observation) -> PyTree:
    """The memory with the latest decision in place of the oldest, if it was one."""
    due = is_decision(observation)
    return jax.tree.map(
        lambda old, new: jnp.where(due, jnp.concatenate([old[1:], new[None]]), old), memory, latest
    )


def number_of(observation: Observation) -> Array:
    """Numbers of the jobs at real positions, int32 ``[N]``; nobody's at others."""
    known = NOBODY if observation.number is None else observation.number
    return jnp.where(observation.real, known, NOBODY)


def added(evidence: PyTree) -> PyTree:
    """Evidence of all remembered decisions, leaves ``[N, ...]`` of ``[tau, N, ...]``."""
    return jax.tree.map(lambda x: jnp.sum(x, axis=0), evidence)


def known_of_jobs(memory: tuple[PyTree, Array], number: Array) -> PyTree:
    """The same, job by job: ``memory`` also has the jobs' numbers then, int32 ``[tau, N]``."""
    evidence, earlier = memory
    same = same_job(number[None], earlier)  # [tau, N, N]
    return jax.tree.map(lambda x: wp.einsum("knp,kp...->n...", same, x), evidence)


class Noise(NamedTuple):
    """Standard normal numbers that one draw is made of.

    Attributes:
      priority: ``[N]``.
      weights: ``[N, F]``, of the walk process; not read with the kernel ``graph`` or without it.
      affinity: ``[N, M]``.
    """

    priority: Array
    weights: Array
    affinity: Array


def normals(trunk: Trunk, key: PRNGKey) -> Noise:
    """What a decision is drawn with."""
    shape = trunk.env.window, trunk.env.num_servers
    order_key, row_key = jax.random.split(key)
    priority = jax.random.normal(order_key, shape[:1], jnp.float32)
    if not trunk.options.remembers:
        affinity = jax.random.normal(row_key, shape, jnp.float32)
        return Noise(priority, jnp.zeros((shape[0], 0), jnp.float32), affinity)
    return Noise(priority, *wp.normals(row_key, shape, num_features(trunk.options)))


class Choice(NamedTuple):
    """What is done, and what it will tell later decisions; leaves ``[..., N, ...]``."""

    priority: Array
    affinity: Array
    latest: Any  # evidence, or ()


def _choose(
    trunk: Trunk,
    weights: PyTree,
    observation: Observation,
    known: Any,
    noise: Noise | None = None,
) -> Choice:
    """The choice given evidence of leaves ``[..., N, ...]``: drawn with noise, else the mean."""
    outlook = outlook_of(trunk, weights, observation)
    rows: DiagonalRows | WalkRows = DiagonalRows(outlook.affinity_mean, outlook.affinity_std)
    if trunk.options.remembers:
        given = wp.posterior(known, noise_of(trunk, weights, observation))
        mean = wp.predict(given, outlook.features, outlook.affinity_mean)
        rows = WalkRows(mean, given, outlook.features)
    priority, affinity = outlook.priority_mean, rows.mean
    if noise is not None:
        priority = priority + outlook.priority_std * noise.priority
        affinity = rows.drawn(noise.weights, noise.affinity)
    if not trunk.options.remembers:
        return Choice(priority, affinity, ())
    executed = jnp.where(observation.real[..., None], affinity, 0.0)
    latest = wp.evidence(outlook.features, executed - outlook.affinity_mean)
    return Choice(priority, affinity, latest)


def choices(
    trunk: Trunk, width: int, weights: PyTree, decisions: tuple[Observation, Any]
) -> Choice:
    """Greedy choices of decisions ``[D, ...]``, view and evidence, of their first positions."""
    observation, known = decisions
    known = jax.tree.map(lambda x: x[:, :width], known)
    return _choose(trunk, weights, observation.narrowed(width), known)


def num_features(options: DASNetwork) -> int:
    """F, features of the walk process."""
    even = options.walk_length // 2 + 1
    return even if options.basis == "centred" else options.walk_length + 1


def forgetful_policy(name: str, agents: Agents, play: Play = "greedy") -> Policy:
    """Agents that need no history as a policy; its weights are the agents' parameters."""
    choose = one_action(agents, play)

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        return choose(weights, view.observation, view.mask, key), memory

    return Policy(name, no_memory, act)


def one_action(agents: Agents, play: Play) -> Callable[[PyTree, PyTree, PyTree, PRNGKey], PyTree]:
    """``(weights, observation, mask, key) -> action`` of one environment (no batch axes)."""

    def act(weights: PyTree, observation: PyTree, mask: PyTree, key: PRNGKey) -> PyTree:
        def of_batch(observation: PyTree, mask: PyTree) -> PyTree:
            if play == "greedy":
                return agents.greedy(weights, observation, mask)
            return agents.sample(weights, observation, mask, key)[0]

        return unbatched(of_batch, observation, mask)

    return act


Inputs = Mapping[str, Array]
Decide = Callable[[PyTree, Inputs], dict[str, Array]]


def array_policy(env: DAS, kind: str) -> ArrayPolicy:
    """The policy of a kind of network.

    Args:
      env: the environment.
      kind: see ``learn.read_kind``.
    """
    which, network = read_kind(kind)
    memory: dict[str, ArraySpec] = {}
    noise: dict[str, ArraySpec] = {}
    shape = env.window, env.num_servers
    if which == "das":
        memory, noise = _memory(env, network), _noise(env, network)
        decide = _das(env, network)
    elif which in ("dl2", "rifling"):
        part, size = ("priority", shape[:1]) if which == "dl2" else ("affinity", shape)
        noise = {f"{part}_noise": ArraySpec(size)}
        decide = _rival(dl2_rival(env) if which == "dl2" else rifling_rival(env))
    else:
        decide = _rule(env, decide_linear if which == "linear" else decide_scored)
    parts = env.observation_spec()._asdict()
    seen = {name: spec for name, spec in parts.items() if spec is not None}
    return ArrayPolicy(decide, seen, memory, noise, env.action_spec())


def _observation(inputs: Inputs) -> Observation:
    return Observation(*(inputs.get(name) for name in Observation._fields))  # type: ignore[arg-type]


def _memory(env: DAS, options: DASNetwork) -> dict[str, ArraySpec]:
    """What the last decisions tell the walk process, and whose they were."""
    policy = das_policy(env, options)
    memory = jax.eval_shape(lambda: _named(policy.init(None), options))
    return {name: ArraySpec(x.shape, x.dtype) for name, x in memory.items()}


def _noise(env: DAS, options: DASNetwork) -> dict[str, ArraySpec]:
    positions, machines = env.window, env.num_servers
    noise = {
        "priority_noise": ArraySpec((positions,)),
        "affinity_noise": ArraySpec((positions, machines)),
    }
    if options.remembers and options.kernel == "node":
        noise["walk_noise"] = ArraySpec((positions, num_features(options)))
    return noise


def _named(memory: Any, options: DASNetwork) -> dict[str, Any]:
    """The memory of a policy by name."""
    if not options.remembers:
        return {}
    if options.follows == "job":
        return {**memory[0]._asdict(), "owner": memory[1] + 1}  # nobody's is 0, as before the first
    return dict(memory._asdict())


def _das(env: DAS, options: DASNetwork) -> Decide:
    options.check(env)
    trunk = Trunk(env, options)

    def decide(weights: PyTree, inputs: Inputs) -> dict[str, Array]:
        memory: Any = ()
        if options.remembers:
            memory = Evidence(inputs["gram"], inputs["moment"])
        if options.remembers and options.follows == "job":
            memory = (memory, inputs["owner"] - 1)
        shape = (env.window, num_features(options))
        noise = Noise(
            inputs["priority_noise"],
            inputs.get("walk_noise", jnp.zeros(shape, jnp.float32)),
            inputs["affinity_noise"],
        )
        action, after = decision_of(trunk, weights, memory, _observation(inputs), noise)
        remembered = {f"{NEXT}{name}": x for name, x in _named(after, options).items()}
        return {**action, **remembered}

    return decide


def _rival(rival: Rival) -> Decide:
    def decide(weights: PyTree, inputs: Inputs) -> dict[str, Array]:
        observation = jax.tree.map(lambda x: x[None], _observation(inputs))
        found = cast(dict[str, Normal], rival.network.apply(weights, observation))
        normal = found[rival.agent]
        value = normal.mean + normal.std * inputs[f"{rival.part}_noise"]
        return jax.tree.map(lambda x: x[0], dict(rival.complete(observation, value)))

    return decide


def _rule(env: DAS, rule: Callable[[DAS, Any, Observation], Action]) -> Decide:
    def decide(weights: PyTree, inputs: Inputs) -> dict[str, Array]:
        return dict(rule(env, weights, _observation(inputs)))

    return decide
