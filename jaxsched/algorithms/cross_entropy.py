"""Cross-entropy method over whole episodes: imitate the best trajectories.

De Boer et al., A Tutorial on the Cross-Entropy Method, 2005, with a network as the sampling
distribution and one uniformly random trajectory beside those of the policy. One call of
``update`` is::

    R = sum of the rewards of each trajectory, sorted ascending
    bound = R(floor((1 - rho) * num_trajectories)), elites = trajectories with R >= bound
    inner_steps times:
        one Adam step on the mean of -log pi(action | state) over the elites' decisions
    params = alpha * new params + (1 - alpha) * old params

Each column of the rollout must be exactly one episode from its first row
(:class:`~jaxsched.wrappers.fixed_length.FixedLength` with the rollout's length). A column whose
last row is not terminated is incomplete: it ranks below all others and is never elite.

Axes: ``T`` time, ``B`` trajectories, ``N = T * B`` decisions, ``A`` actions.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from jaxsched.algorithms.settings import traced, traced_values
from jaxsched.algorithms.softmax import (
    best_legal,
    descend,
    flatten_time,
    has_choice,
    init_params,
    log_probabilities,
    taken,
)
from jaxsched.core.learner import Learner, Metrics, Needs, Size
from jaxsched.core.sharding import split, whole
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import select
from jaxsched.options import Bounds, Count, check
from jaxsched.types import Array, PRNGKey, PyTree, Rollout, Specs


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Settings; what is not declared ``traced`` is static (:mod:`jaxsched.algorithms.settings`).

    Attributes:
      num_trajectories: trajectories of the policy per update.
      num_uniform: trajectories of uniformly random legal actions; the first columns. Together
        they are the ``num_envs`` of the loop.
      rho: share of elites.
      bound_rank: rank (1 is the smallest) among all trajectories of the return that bounds the
        elites; ``floor((1 - rho) * num_trajectories)`` by default.
      inner_steps: gradient steps per update, each over all elite decisions.
      dropout: pass ``train=True`` and a dropout key to the network in updates.
      decisions_per_pass: how many decisions a gradient takes in at once; bounds its memory.
      learning_rate: of Adam.
      alpha: smoothing, the weight of the new parameters.
    """

    num_trajectories: Count = 35
    num_uniform: Annotated[int, Bounds(0)] = 1
    rho: Annotated[float, Bounds(above=0, below=1)] = 0.3
    bound_rank: int | None = None
    inner_steps: Count = 1
    dropout: bool = False
    decisions_per_pass: Count = 4096
    learning_rate: float = traced(0.01)
    alpha: float = traced(1.0)

    def __post_init__(self) -> None:
        """Check sizes and shares."""
        check(self)
        if not 1 <= self.rank <= self.batch:
            raise JaxschedError(
                f"CrossEntropyConfig.bound_rank is {self.rank}; it must be in 1..{self.batch}"
            )

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of each update."""
        return self.inner_steps

    @property
    def batch(self) -> int:
        """Trajectories per update, ``B``."""
        return self.num_trajectories + self.num_uniform

    @property
    def rank(self) -> int:
        """Rank of the bound, 1 for the smallest return."""
        if self.bound_rank is not None:
            return self.bound_rank
        exact = (1 - self.rho) * self.num_trajectories
        return max(math.floor(exact + 1e-9), 1)  # 1e-9: rounding of products such as 0.7 * 30


class CrossEntropyState(NamedTuple):
    """The learner's state."""

    params: PyTree
    optimiser: optax.OptState
    hyper: Any  # the traced floats of the settings
    updates: Array  # int32, calls of ``update``


class Elites(NamedTuple):
    """Which trajectories are imitated."""

    elite: Array  # bool [B]
    bound: Array  # float32 scalar, smallest return of an elite; 0 where there is none
    episode_return: Array  # float32 [B], undiscounted
    complete: Array  # bool [B]


def choose_elites(rollout: Rollout, rank: int) -> Elites:
    """Complete trajectories with at least the return of rank ``rank`` (1 for the smallest)."""
    episode_return = jnp.sum(rollout.reward, axis=0)
    complete = rollout.terminated[-1]
    ranked = jnp.where(complete, episode_return, -jnp.inf)
    elite = complete & (ranked >= jnp.sort(ranked)[rank - 1])
    smallest = jnp.min(jnp.where(elite, episode_return, jnp.inf))
    bound = jnp.where(jnp.any(elite), smallest, 0.0)
    return Elites(elite, bound, episode_return, complete)


def cross_entropy(network: nn.Module, config: CrossEntropyConfig) -> Learner:
    """A learner by the cross-entropy method.

    Args:
      network: flax module, ``apply(params, observation) -> logits`` of float32 ``[B, A]``; with
        ``config.dropout`` it also takes ``train=True`` and a ``"dropout"`` key.
      config: settings.

    Returns:
      The learner; its ``act`` returns no extras and samples unless ``greedy``.
    """
    optimiser = optax.scale_by_adam()

    def init(key: PRNGKey, specs: Specs, params: PyTree | None = None) -> CrossEntropyState:
        if params is None:
            params = init_params(network, key, specs.observation)
        moments = optimiser.init(params)
        return CrossEntropyState(params, moments, traced_values(config), jnp.int32(0))

    def act(
        state: CrossEntropyState, observation: PyTree, mask: Array, key: PRNGKey, greedy: bool
    ) -> tuple[Array, tuple[()]]:
        logits = cast(Array, network.apply(state.params, observation))
        if greedy:
            return best_legal(logits, mask), ()
        uniform = jnp.arange(config.batch) < config.num_uniform
        logits = jnp.where(uniform[:, None], 0.0, logits)
        action = jax.random.categorical(key, log_probabilities(logits, mask))
        return action.astype(jnp.int32), ()

    def update(
        state: CrossEntropyState, rollout: Rollout, key: PRNGKey
    ) -> tuple[CrossEntropyState, Metrics]:
        elites = choose_elites(rollout, config.rank)
        chosen = (elites.elite[None, :] & has_choice(rollout.mask)).reshape(-1)
        count = jnp.sum(chosen)
        rows = _rows_of(chosen, config.decisions_per_pass)
        decisions = whole(flatten_time((rollout.observation, rollout.mask, rollout.action)))

        def step(
            carry: tuple[PyTree, optax.OptState], key: PRNGKey
        ) -> tuple[tuple[PyTree, optax.OptState], Array]:
            params, adam = carry
            loss, gradient = mean_over(params, decisions, rows, count, key)
            return descend(optimiser, params, adam, gradient, state.hyper.learning_rate), loss

        old = (state.params, state.optimiser)
        (params, adam), losses = jax.lax.scan(step, old, jax.random.split(key, config.inner_steps))
        params = optax.incremental_update(params, state.params, state.hyper.alpha)
        params, adam = select(count > 0, (params, adam), old)
        metrics = {
            "loss": jnp.mean(losses),
            "bound": elites.bound,
            "mean_return": jnp.mean(elites.episode_return),
            "elite_share": jnp.mean(elites.elite, dtype=jnp.float32),
            "elite_decisions": count.astype(jnp.float32),
            "incomplete": jnp.mean(~elites.complete, dtype=jnp.float32),
        }
        return CrossEntropyState(params, adam, state.hyper, state.updates + 1), metrics

    def mean_over(
        params: PyTree, decisions: PyTree, rows: Array, count: Array, key: PRNGKey
    ) -> tuple[Array, PyTree]:
        """Mean loss over the first ``count`` rows and its gradient, a pass at a time."""
        size = rows.shape[1]

        def loss_of(params: PyTree, index: Array, valid: Array, key: PRNGKey) -> Array:
            observation, mask, action = split(jax.tree.map(lambda x: x[index], decisions))
            options: dict[str, Any] = (
                {"train": True, "rngs": {"dropout": key}} if config.dropout else {}
            )
            logits = cast(Array, network.apply(params, observation, **options))
            chosen = taken(log_probabilities(logits, mask), action)
            return -jnp.sum(jnp.where(valid, chosen, 0.0))

        def add(turn: Array, total: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
            valid = turn * size + jnp.arange(size) < count
            part = jax.value_and_grad(loss_of)(
                params, rows[turn], valid, jax.random.fold_in(key, turn)
            )
            return jax.tree.map(jnp.add, total, part)

        zeros = (jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
        # Padding and the decisions of other trajectories cost nothing: they are never visited.
        total = jax.lax.fori_loop(0, -(-count // size), add, zeros)
        return jax.tree.map(lambda x: x / jnp.maximum(count, 1), total)

    trajectories = f"{config.num_trajectories} num_trajectories + {config.num_uniform} num_uniform"
    needs = Needs(True, (Size("num_envs", "equal to", config.batch, trajectories),))
    return Learner(init, act, update, lambda state: state.params, needs)


def _rows_of(chosen: Array, size: int) -> Array:
    """Indices of the true entries of ``[N]`` first, int32 ``[passes, size]``."""
    size = min(size, chosen.shape[0])
    passes = -(-chosen.shape[0] // size)
    (rows,) = jnp.nonzero(chosen, size=chosen.shape[0], fill_value=0)
    rows = jnp.pad(rows, (0, passes * size - chosen.shape[0]))
    return rows.reshape(passes, size).astype(jnp.int32)
