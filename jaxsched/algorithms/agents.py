"""Policies of several agents over structured actions, as learners see them.

An action is a pytree; each *agent* owns a part of it and draws it in *units* (positions in a queue,
machines, ...) that are independent given the observation. A single discrete choice is one agent
with one unit.

Axes: ``...`` any batch axes, ``T`` time, ``B`` batch, ``U`` units of an agent, ``S`` steps of a
sequence, ``C`` sequences.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms import gaussian
from jaxsched.algorithms.softmax import (
    best_legal,
    entropy,
    flatten_time,
    has_choice,
    init_params,
    log_probabilities,
    taken,
)
from jaxsched.core.learner import Size
from jaxsched.core.sharding import ENVS, num_parts, split
from jaxsched.types import Array, PRNGKey, PyTree, Specs

ByAgent = dict[str, Array]


class Likelihood(NamedTuple):
    """Log-probability and entropy of an action; every field maps agent names to ``[..., U]``.

    Attributes:
      log_prob: float32, log density of each unit's part of the action; 0 where ``active`` is
        false.
      entropy: float32, entropy of each unit per dimension of its part; 0 where not active.
      active: bool, units whose part of the action has an effect.
    """

    log_prob: ByAgent
    entropy: ByAgent
    active: ByAgent


class Agents(NamedTuple):
    """A stochastic policy over pytree actions as pure functions.

    Attributes:
      init: ``(key, specs) -> params``.
      sample: ``(params, observation, mask, key) -> (action, log_prob)`` over leaves ``[B, ...]``;
        ``log_prob`` as in ``Likelihood``.
      greedy: ``(params, observation, mask) -> action``, the most likely one; leaves ``[B, ...]``.
      evaluate: ``(params, observation, mask, action) -> Likelihood`` over sequences: leaves
        ``[T, B, ...]`` that follow each other in time, so that what several steps share is
        computed once.
      means: ``(params, observation, mask, action) -> action``, the most likely ones over
        sequences ``[T, B, ...]`` in which ``action`` was executed; ``greedy`` step by step if
        absent.
      due: ``(observation, mask) -> bool [...]``, where a decision is to be taken; everywhere if
        absent.
      parts: ``action -> {agent: [..., U, ...]}``, what each agent owns; the action itself, a
        dictionary by agent, if absent.
    """

    init: Callable[[PRNGKey, Specs], PyTree]
    sample: Callable[[PyTree, PyTree, PyTree, PRNGKey], tuple[PyTree, ByAgent]]
    greedy: Callable[[PyTree, PyTree, PyTree], Any]
    evaluate: Callable[[PyTree, PyTree, PyTree, PyTree], Likelihood]
    means: Callable[[PyTree, PyTree, PyTree, PyTree], Any] | None = None
    due: Callable[[PyTree, PyTree], Array] | None = None
    parts: Callable[[PyTree], ByAgent] | None = None


class Normal(NamedTuple):
    """Independent normal distributions: ``[B, U]``, or ``[B, U, D]`` for vectors."""

    mean: Array
    std: Array


def over_time(function: Callable[..., PyTree], *trees: PyTree) -> PyTree:
    """A function of leaves ``[N, ...]``, row by row, applied to leaves ``[T, B, ...]``."""
    if num_parts(ENVS) > 1:  # rows in time-major order would be gathered from the devices
        turned = jax.tree.map(_turned, trees)
        shape = jax.tree.leaves(turned)[0].shape[:2]
        result = split(function(*split(tuple(map(flatten_time, turned)))))
        return jax.tree.map(lambda x: _turned(x.reshape(*shape, *x.shape[1:])), result)
    shape = jax.tree.leaves(trees)[0].shape[:2]
    result = function(*map(flatten_time, trees))
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), result)


def _turned(x: Array) -> Array:
    return jnp.swapaxes(x, 0, 1)


def sequence_means(
    agents: Agents, params: PyTree, observation: PyTree, mask: PyTree, action: PyTree
) -> Any:
    """The most likely actions over sequences, leaves ``[T, B, ...]``."""
    if agents.means is not None:
        return agents.means(params, observation, mask, action)
    return over_time(lambda o, m: agents.greedy(params, o, m), observation, mask)


def parts_of(agents: Agents, action: PyTree) -> ByAgent:
    """What each agent owns of an action."""
    return action if agents.parts is None else agents.parts(action)


def sequences(tree: PyTree, length: int | None) -> PyTree:
    """Cut leaves ``[T, B, ...]`` into ``[S, C, ...]``: ``C = T / S * B``, ``S`` steps each.

    ``length`` is S, 1 if absent; it divides T (:func:`sequence_needs`).
    """
    length = length or 1

    def cut(x: Array) -> Array:
        num_steps, batch, *rest = x.shape
        chunks = x.reshape(num_steps // length, length, batch, *rest)
        return jnp.swapaxes(chunks, 0, 1).reshape(length, -1, *rest)

    return jax.tree.map(cut, tree)


def sequence_needs(length: int | None) -> tuple[Size, ...]:
    """What the training loop has to give to a learner of sequences of so many steps."""
    if length is None:
        return ()
    return (Size("rollout_length", "a multiple of", length, "sequence_length"),)


def unit_mean(values: ByAgent, active: ByAgent) -> Array:
    """Mean over the active units of each agent, then over agents with any; ``[...]``, 0 if none."""
    total, agents = jnp.float32(0), jnp.float32(0)
    for name, present in active.items():
        count = jnp.sum(present, axis=-1)
        value = jnp.sum(jnp.where(present, values[name], 0.0), axis=-1)
        total = total + value / jnp.maximum(count, 1)
        agents = agents + (count > 0)
    return total / jnp.maximum(agents, 1)


def any_active(active: ByAgent) -> Array:
    """Where any unit of any agent acts; bool ``[...]``."""
    present = [jnp.any(units, axis=-1) for units in active.values()]
    return jnp.any(jnp.stack(present), axis=0)


def reading(agents: Agents, part: Callable[[Any], Any]) -> Agents:
    """The same agents, which read a part of each observation.

    Args:
      agents: the policy.
      part: ``(observation) -> what the agents read``; of specs, too.
    """
    means, due = agents.means, agents.due
    if means is not None:
        agents = agents._replace(means=lambda params, seen, *rest: means(params, part(seen), *rest))
    if due is not None:
        agents = agents._replace(due=lambda seen, mask: due(part(seen), mask))
    init, sample, greedy, evaluate = agents[:4]
    return agents._replace(
        init=lambda key, specs: init(key, specs._replace(observation=part(specs.observation))),
        sample=lambda params, seen, *rest: sample(params, part(seen), *rest),
        greedy=lambda params, seen, mask: greedy(params, part(seen), mask),
        evaluate=lambda params, seen, *rest: evaluate(params, part(seen), *rest),
    )


def softmax_agents(network: nn.Module, *, only_choices: bool = False) -> Agents:
    """One discrete choice among legal actions: an agent ``action`` of one unit.

    Args:
      network: flax module, ``apply(params, observation) -> logits`` of float32 ``[B, A]``.
      only_choices: the unit is active only where more than one action is legal.
    """

    def scores_of(params: PyTree, observation: PyTree, mask: Array) -> Array:
        return log_probabilities(cast(Array, network.apply(params, observation)), mask)

    def init(key: PRNGKey, specs: Specs) -> PyTree:
        return init_params(network, key, specs.observation)

    def sample(
        params: PyTree, observation: PyTree, mask: Array, key: PRNGKey
    ) -> tuple[Array, ByAgent]:
        scores = scores_of(params, observation, mask)
        action = jax.random.categorical(key, scores).astype(jnp.int32)
        return action, {"action": taken(scores, action)[..., None]}

    def greedy(params: PyTree, observation: PyTree, mask: Array) -> Array:
        return best_legal(scores_of(params, observation, mask), mask)

    def evaluate(params: PyTree, observation: PyTree, mask: Array, action: Array) -> Likelihood:
        scores = over_time(lambda o, m: scores_of(params, o, m), observation, mask)
        log_prob = taken(scores, action)[..., None]
        return Likelihood(
            {"action": log_prob},
            {"action": entropy(scores)[..., None]},
            {
                "action": has_choice(mask)[..., None]
                if only_choices
                else jnp.ones_like(log_prob, bool)
            },
        )

    return Agents(
        init, sample, greedy, evaluate, parts=lambda action: {"action": action[..., None]}
    )


def gaussian_agents(
    network: nn.Module, active: Callable[[PyTree, PyTree], ByAgent] | None = None
) -> Agents:
    """Agents that draw numbers from independent normal distributions.

    The action is a dictionary by agent.

    Args:
      network: flax module, ``apply(params, observation) -> {agent: Normal}`` over ``[B, ...]``.
      active: ``(observation, mask) -> {agent: bool [..., U]}``; all units if absent.
    """

    def init(key: PRNGKey, specs: Specs) -> PyTree:
        return init_params(network, key, specs.observation)

    def normals(params: PyTree, observation: PyTree) -> dict[str, Normal]:
        return cast(dict[str, Normal], network.apply(params, observation))

    def likelihood(
        params: PyTree, observation: PyTree, mask: PyTree, action: ByAgent
    ) -> Likelihood:
        found = normals(params, observation)
        acts = {name: jnp.ones(normal.mean.shape[:2], bool) for name, normal in found.items()}
        if active is not None:
            acts = active(observation, mask)

        log_prob, entropies = {}, {}
        for name, (mean, std) in found.items():
            acting = acts[name].reshape(*acts[name].shape, *[1] * (mean.ndim - acts[name].ndim))
            density = gaussian.log_density(jnp.where(acting, action[name], 0.0), mean, std)
            units = acts[name].shape
            density = jnp.sum(density.reshape(*units, -1), axis=-1)
            each = jnp.mean(gaussian.entropy(std).reshape(*units, -1), axis=-1)
            log_prob[name] = jnp.where(acts[name], density, 0.0)
            entropies[name] = jnp.where(acts[name], each, 0.0)
        return Likelihood(log_prob, entropies, acts)

    def sample(
        params: PyTree, observation: PyTree, mask: PyTree, key: PRNGKey
    ) -> tuple[ByAgent, ByAgent]:
        found = normals(params, observation)
        action = {
            name: gaussian.sample(k, *normal)
            for (name, normal), k in zip(
                found.items(), jax.random.split(key, len(found)), strict=True
            )
        }
        return action, likelihood(params, observation, mask, action).log_prob

    def greedy(params: PyTree, observation: PyTree, mask: PyTree) -> ByAgent:
        return {name: normal.mean for name, normal in normals(params, observation).items()}

    def evaluate(params: PyTree, observation: PyTree, mask: PyTree, action: ByAgent) -> Likelihood:
        return cast(
            Likelihood,
            over_time(lambda *rows: likelihood(params, *rows), observation, mask, action),
        )

    return Agents(init, sample, greedy, evaluate)
