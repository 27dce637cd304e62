"""Policies in an evaluation: heuristics and trained networks alike."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.types import ArraySpec, PRNGKey, PyTree

Play = Literal["greedy", "sampled"]
"""How scores become an action: the best one, or one drawn from their softmax."""


class View(NamedTuple):
    """Inputs of one decision (single environment).

    ``state`` is the full state and ``params`` the environment's parameters; only policies that
    declare ``privileged`` read them.
    """

    observation: PyTree
    mask: PyTree
    state: PyTree
    params: PyTree


class Policy(NamedTuple):
    """A decision rule as pure functions of one environment.

    Attributes:
      name: its name in tables and figures.
      init: ``init(params) -> memory``, the policy's memory at the start of an episode.
      act: ``act(weights, memory, view, key) -> (action, memory)``.
      privileged: reads the state, not only the observation.
    """

    name: str
    init: Callable[[Any], PyTree]
    act: Callable[[PyTree, PyTree, View, PRNGKey], tuple[PyTree, PyTree]]
    privileged: bool = False


def no_memory(params: Any) -> tuple[()]:
    """``init`` of a policy without memory."""
    del params
    return ()


@cache
def one_of(policies: tuple[Policy, ...]) -> Policy:
    """Policies without weights as one, whose weights are the index of the policy to use, int32.

    Programs are compiled once for all of them; each acts as it would alone. The same
    object at each call. Actions must have one structure and shape; dtypes are the first one's.
    """

    def init(params: Any) -> PyTree:
        return tuple(policy.init(params) for policy in policies)

    def act(index: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        like, _ = jax.eval_shape(policies[0].act, (), memory[0], view, key)

        def play(place: int) -> tuple[PyTree, PyTree]:
            action, after = policies[place].act((), memory[place], view, key)
            action = jax.tree.map(lambda x, first: jnp.asarray(x, first.dtype), action, like)
            return action, (*memory[:place], after, *memory[place + 1 :])

        return jax.lax.switch(index, [partial(play, place) for place in range(len(policies))])

    name = " or ".join(policy.name for policy in policies)
    return Policy(name, init, act, privileged=any(policy.privileged for policy in policies))


def uniform_legal(name: str = "random") -> Policy:
    """A policy that draws uniformly among the legal actions of a single discrete choice."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        del weights
        return jax.random.categorical(key, jnp.where(view.mask, jnp.float32(0), -jnp.inf)), memory

    return Policy(name, no_memory, act)


def uniform_reals(name: str, spec: PyTree) -> Policy:
    """A policy that draws every entry of a continuous action uniformly from [-1, 1).

    Args:
      name: its name in tables and figures.
      spec: pytree of ``ArraySpec``, the environment's ``action_spec``.
    """
    leaves, tree = jax.tree.flatten(spec, is_leaf=lambda leaf: isinstance(leaf, ArraySpec))

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        del weights, view
        draws = [
            jax.random.uniform(leaf_key, leaf.shape, leaf.dtype, -1.0, 1.0)
            for leaf, leaf_key in zip(leaves, jax.random.split(key, len(leaves)), strict=True)
        ]
        return jax.tree.unflatten(tree, draws), memory

    return Policy(name, no_memory, act)


def greedy_scores(name: str, score: Callable[[PyTree, PyTree], PyTree]) -> Policy:
    """A policy that takes the legal action of the highest ``score(weights, observation)``."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        del key
        scores = score(weights, view.observation)
        return jnp.argmax(jnp.where(view.mask, scores, -jnp.inf)).astype(jnp.int32), memory

    return Policy(name, no_memory, act)


def sampled_scores(name: str, score: Callable[[PyTree, PyTree], PyTree]) -> Policy:
    """A policy that draws a legal action from the softmax of ``score(weights, observation)``."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        scores = score(weights, view.observation)
        logits = jnp.where(view.mask, scores, -jnp.inf)
        return jax.random.categorical(key, logits).astype(jnp.int32), memory

    return Policy(name, no_memory, act)


def real_outputs(name: str, score: Callable[[PyTree, PyTree], PyTree]) -> Policy:
    """A policy whose action is ``score(weights, observation)``, real numbers."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[PyTree, PyTree]:
        del key
        return score(weights, view.observation), memory

    return Policy(name, no_memory, act)
