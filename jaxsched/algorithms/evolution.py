"""Search over the parameters of a policy by whole episodes.

Where :mod:`jaxsched.algorithms.cross_entropy` samples actions, this samples whole parameter
vectors around a mean. One call of ``update`` is::

    G[k, e] = sum of the rewards of member k on episode e
    fitness[k] = mean over e of (G[k, e] - mean of G[:, e]) / |mean of G[:, e]| ** relative

and then, with ``follow="elites"``, for policies of some tens of parameters (Mannor, Rubinstein and
Gat, The Cross Entropy Method for Fast Policy Search, 2003; the floor under the noise as in Szita
and Lorincz, Learning Tetris Using the Noisy Cross-Entropy Method, 2006),

    elites = the best members by fitness, weighted by the logarithm of their rank
    mean, std = (1 - smoothing) * old + smoothing * those of the elites; std at least min_std

or, with ``follow="gradient"``, for networks (Salimans et al., Evolution Strategies as a Scalable
Alternative to Reinforcement Learning, 2017),

    u[k] = rank of member k by fitness, from -1/2 for the worst to 1/2 for the best
    mean = a step of Adam along the mean over k of u[k] (member[k] - mean) / std

Parameters of layers that are not searched (``layers``) stay where the search started: the heads of
a trained network alone can be few enough for it.

Each column of the rollout must be one whole episode
(:class:`~jaxsched.wrappers.fixed_length.FixedLength`), and columns ``e, e + E, e + 2 E, ...`` the
same one (``LoopConfig.num_random_streams`` = E), so that members are compared on the same arrivals.

Axes: ``T`` time, ``B = K * E`` columns, member-major: ``K`` members, ``E`` episodes each; ``D``
parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxsched.algorithms.settings import linear, traced, traced_values
from jaxsched.algorithms.softmax import (
    as_float32,
    best_legal,
    clipped_adam,
    descend,
    init_params,
)
from jaxsched.core.learner import Learner, Metrics, Needs, Size
from jaxsched.core.sharding import split_layout, whole_layout
from jaxsched.errors import JaxschedError
from jaxsched.options import Bounds, Count, Positive, Share, check
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs

Decide = Callable[[PyTree, PyTree, PyTree], PyTree]
Follow = Literal["elites", "gradient"]
_ADAM = clipped_adam(None)


@dataclass(frozen=True)
class EvolutionConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      members: parameter vectors per update; every other one mirrors the one before.
      episodes: episodes that each member plays.
      elite_share: share of the members that the next distribution is made of.
      initial_std: standard deviation of every parameter at the start.
      min_std: it never falls below this.
      smoothing: weight of the new distribution.
      follow: what moves the mean; ``gradient`` leaves the standard deviation as it is.
      learning_rate: of Adam, with ``gradient``, at the start.
      final_learning_rate: after ``total_updates``; linear in between; constant if absent.
      total_updates: see ``final_learning_rate``.
      relative: 1 compares members by their relative advantage on each episode, 0 by their absolute
        one, in which the episodes of large returns outweigh the others.
      layers: names of the layers of a network whose parameters move; all of them if empty.
      averaging: the policy is a moving average of the mean that keeps this share of itself at each
        update; 0 is the mean itself.
    """

    members: Count = 128
    episodes: Count = 8
    elite_share: float = 0.25
    initial_std: Positive = 0.5
    min_std: float = traced(0.02)
    smoothing: float = traced(0.5)
    follow: Follow = "elites"
    learning_rate: Positive = traced(0.03)
    final_learning_rate: float | None = traced(None, absent="learning_rate")
    total_updates: Count = 1
    layers: tuple[str, ...] = ()
    averaging: Annotated[float, Bounds(0, below=1)] = traced(0.0)
    relative: Share = traced(1.0)

    def __post_init__(self) -> None:
        """Check sizes and shares."""
        check(self)
        if self.members % 2:
            raise JaxschedError(f"EvolutionConfig.members is {self.members}; it must be even")
        elites = self.follow == "elites"
        if elites and (not 0 < self.elite_share <= 1 or self.num_elites < 2):
            raise JaxschedError(
                f"EvolutionConfig.elite_share is {self.elite_share}; it must give at least 2 of "
                f"{self.members} members"
            )

    @property
    def num_elites(self) -> int:
        """Members that the next distribution is made of."""
        return int(self.elite_share * self.members)

    @property
    def batch(self) -> int:
        """Columns of a rollout."""
        return self.members * self.episodes


class EvolutionState(NamedTuple):
    """The learner's state."""

    mean: PyTree
    std: Array  # float32 [D]
    members: Array  # float32 [K, D], who plays now
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``
    optimiser: PyTree  # of ``gradient``; empty otherwise
    averaged: PyTree  # what plays


def evolution(
    init_params: Callable[[PRNGKey, Specs], PyTree], decide: Decide, config: EvolutionConfig
) -> Learner:
    """A learner by search in parameter space.

    Args:
      init_params: ``(key, specs) -> params``, where the search starts; float32 leaves.
      decide: ``(params, observation, mask) -> action`` of one environment.
      config: settings.

    Returns:
      The learner. ``act`` needs ``config.batch`` environments and lets each member play its
      columns; where ``greedy`` the mean plays. No extras.
    """

    def draw(key: PRNGKey, mean: PyTree, std: Array) -> Array:
        center, _ = ravel_pytree(mean)
        half = (config.members // 2, std.shape[0])
        noise = jax.random.normal(key, half, jnp.float32) * std
        return center + jnp.stack([noise, -noise], axis=1).reshape(config.members, -1)

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> EvolutionState:
        params_key, key = jax.random.split(key)
        if params is None:
            params = init_params(params_key, specs)
        flat, _ = ravel_pytree(params)
        std = config.initial_std * searched(params, config.layers)
        members = draw(key, params, std)
        optimiser = _ADAM.init(flat) if config.follow == "gradient" else ()
        hyper = traced_values(config)
        return EvolutionState(params, std, members, hyper, jnp.int32(0), optimiser, params)

    def act(
        state: EvolutionState, observation: PyTree, mask: PyTree, key: PRNGKey, greedy: bool
    ) -> tuple[PyTree, tuple[()]]:
        del key
        one = jax.vmap(decide, in_axes=(None, 0, 0))
        if greedy:
            return one(state.averaged, observation, mask), ()
        _, unravel = ravel_pytree(state.mean)

        def grouped(x: Array) -> Array:
            return x.reshape(config.members, config.episodes, *x.shape[1:])

        seen, legal = jax.tree.map(grouped, (observation, mask))
        action = jax.vmap(lambda flat, o, m: one(unravel(flat), o, m))(state.members, seen, legal)
        return jax.tree.map(lambda x: x.reshape(config.batch, *x.shape[2:]), action), ()

    def update(
        state: EvolutionState, rollout: Rollout, key: PRNGKey
    ) -> tuple[EvolutionState, Metrics]:
        complete = jnp.all(rollout.terminated[-1].reshape(config.members, -1), axis=-1)
        episode_return = jnp.sum(rollout.reward, axis=0).reshape(config.members, -1)
        score = fitness(episode_return, state.hyper.relative)
        score = jnp.where(complete, score, -jnp.inf)
        old, unravel = ravel_pytree(state.mean)
        if config.follow == "gradient":
            new, optimiser = _ascended(config, state, old, score)
            std = state.std
        else:
            new, std = _elites_followed(config, state, old, score)
            optimiser = ()
        mean, kept = unravel(new), state.hyper.averaging
        averaged = jax.tree.map(lambda a, m: kept * a + (1 - kept) * m, state.averaged, mean)
        metrics = {
            "mean_return": jnp.mean(jnp.sum(rollout.reward, axis=0)),
            "best_fitness": jnp.max(score),
            "std": jnp.mean(std),
            "moved": jnp.linalg.norm(new - old),
            "incomplete": jnp.mean(~complete, dtype=jnp.float32),
        }
        members, count = draw(key, mean, std), state.updates + 1
        following = EvolutionState(mean, std, members, state.hyper, count, optimiser, averaged)
        return following, metrics

    columns = f"{config.members} members x {config.episodes} episodes"
    sizes = (
        Size("num_envs", "equal to", config.batch, columns),
        Size("num_random_streams", "equal to", config.episodes, columns),
    )
    needs = Needs(True, sizes)
    return Learner(init, act, update, lambda state: state.averaged, needs, layout=_layout)


def _layout(state: EvolutionState) -> EvolutionState:
    layout: EvolutionState = whole_layout(state)
    return layout._replace(members=split_layout(state.members, 0))


def search_of(
    network: nn.Module,
    config: EvolutionConfig,
    act: Callable[[Array, Array], Array] = best_legal,
) -> Learner:
    """Search over the parameters of a network that scores actions.

    Args:
      network: flax module, ``apply(params, observation) -> scores`` of float32 ``[A]``.
      config: settings.
      act: ``(scores, mask) -> action``; the legal action of the highest score by default.
    """

    def init(key: PRNGKey, specs: Specs) -> PyTree:
        return init_params(network, key, specs.observation)

    def decide(params: PyTree, observation: PyTree, mask: Array) -> Array:
        scores: Any = network.apply(params, jax.tree.map(as_float32, observation))
        return act(scores, mask)

    return evolution(init, decide, config)


def searched(params: PyTree, layers: tuple[str, ...]) -> Array:
    """1 for each parameter of the layers, 0 for others, float32 ``[D]``; no layers: all of them.

    Raises:
      JaxschedError: no layer has that name.
    """
    paths = jax.tree_util.tree_leaves_with_path(params)
    names = [
        {str(getattr(key, "key", getattr(key, "name", ""))) for key in path} for path, _ in paths
    ]
    for layer in layers:
        if not any(layer in of for of in names):
            known = sorted(set().union(*names) - {"params", "kernel", "bias", ""})
            raise JaxschedError(
                f"EvolutionConfig.layers: no layer {layer!r}; known are {', '.join(known)}"
            )
    moves = [not layers or any(layer in of for layer in layers) for of in names]
    parts = [jnp.full(leaf.size, float(m)) for (_, leaf), m in zip(paths, moves, strict=True)]
    return jnp.concatenate(parts).astype(jnp.float32)


def _elites_followed(
    config: EvolutionConfig, state: EvolutionState, old: Array, score: Array
) -> tuple[Array, Array]:
    """Mean and standard deviation, moved towards those of the best members."""
    ranked = jnp.argsort(-score)[: config.num_elites]
    weight = jnp.log(config.num_elites + 0.5) - jnp.log(1.0 + jnp.arange(config.num_elites))
    weight = (weight / jnp.sum(weight)).astype(jnp.float32)
    elites, smoothing = state.members[ranked], state.hyper.smoothing
    new = weight @ elites
    spread = jnp.sqrt(weight @ (elites - new) ** 2)
    mean = (1 - smoothing) * old + smoothing * new
    std = (1 - smoothing) * state.std + smoothing * spread
    moves = state.std > 0  # the others would move by a rounding
    return jnp.where(moves, mean, old), jnp.where(moves, jnp.maximum(std, state.hyper.min_std), 0.0)


def _ascended(
    config: EvolutionConfig, state: EvolutionState, old: Array, score: Array
) -> tuple[Array, PyTree]:
    """The mean after a step along the estimated gradient, and the optimiser's state."""
    rank = jnp.argsort(jnp.argsort(score))
    weight = (rank / (score.shape[0] - 1) - 0.5).astype(jnp.float32)
    moves = state.std > 0
    noise = jnp.where(moves, (state.members - old) / jnp.where(moves, state.std, 1.0), 0.0)
    ascent = weight @ noise / score.shape[0]
    hyper, progress = state.hyper, state.updates / config.total_updates
    rate = linear(hyper.learning_rate, hyper.final_learning_rate, progress)
    return descend(_ADAM, old, state.optimiser, -ascent, rate)


def fitness(episode_return: Array, relative: float | Array = 1.0) -> Array:
    """Mean advantage over the members' mean on the same episode, ``[K]`` of ``[K, E]``.

    Args:
      episode_return: float32 ``[K, E]``.
      relative: see :class:`EvolutionConfig`.
    """
    mean = jnp.mean(episode_return, axis=0)
    scale = jnp.maximum(jnp.abs(mean), 1e-6) ** relative
    return jnp.mean((episode_return - mean) / scale, axis=-1)
