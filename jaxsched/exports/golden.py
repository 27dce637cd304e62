"""Golden rows: states of the system with what a policy makes of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import (
    Current,
    Environment,
    Observed,
    look,
    start,
    step_and_look,
)
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.types import Array, ArraySpec, PRNGKey, PyTree

MIN_GOLDEN_ROWS = 8


def golden_rows(
    env: Environment,
    params: Any,
    score_fn: Callable[[PyTree, Array], Array],
    weights: PyTree,
    key: PRNGKey,
    count: int = MIN_GOLDEN_ROWS,
) -> nd.GoldenRows:
    """States met in random legal play, with as many different masks as there are.

    States in which the two best legal scores are nearly equal are avoided, since another order of
    summation could change the action there.

    Args:
      env: an environment with a flat observation and one discrete action, or one whose action is
        the scores; these are then all legal, and met in play of the policy.
      params: its parameters.
      score_fn: ``score_fn(weights, observation) -> scores [A]``.
      weights: the policy's parameters.
      key: for episodes and actions.
      count: number of rows.

    Raises:
      JaxschedError: fewer than ``count`` different states were met.
    """
    if isinstance(env.action_spec(params), ArraySpec):
        seen = _random_states(env, params, key, score=jax.tree_util.Partial(score_fn, weights))
    else:
        seen = _random_states(env, params, key)
    with jax.default_matmul_precision("highest"):  # accelerators round inputs by default
        scored = jax.jit(jax.vmap(score_fn, (None, 0)))(weights, seen[0])
    observation, mask, scores = (np.asarray(leaf) for leaf in (*seen, scored))
    mask = np.broadcast_to(mask, scores.shape)
    rows = _varied(observation, mask, scores, count)
    return nd.GoldenRows(
        observation[rows], mask[rows], scores[rows], nd.greedy(scores[rows], mask[rows])
    )


@partial(jax.jit, static_argnames=("env", "num_envs", "num_steps"))
def _random_states(
    env: Environment,
    params: Any,
    key: PRNGKey,
    num_envs: int = 16,
    num_steps: int = 256,
    score: Any = None,
) -> tuple[Array, Array]:
    """Observations and masks met in random legal play, ``[num_steps * num_envs, ...]``.

    With ``score(observation)`` that is the action.
    """

    def play(key: PRNGKey) -> tuple[Array, Array]:
        def step(
            carry: tuple[Current, Observed], key: PRNGKey
        ) -> tuple[tuple[Current, Observed], Observed]:
            act_key, step_key = jax.random.split(key)
            current, seen = carry
            if score is None:
                action = jax.random.categorical(
                    act_key, jnp.where(seen.mask, jnp.float32(0), -jnp.inf)
                )
                action = action.astype(jnp.int32)
            else:
                action = score(seen.observation)
            current, following, _ = step_and_look(env, step_key, current, action, params)
            return (current, following), seen

        start_key, loop_key = jax.random.split(key)
        current = start(env, start_key, params)
        first = current, look(env, current, params)
        return jax.lax.scan(step, first, jax.random.split(loop_key, num_steps))[1]

    observation, mask = jax.vmap(play)(jax.random.split(key, num_envs))
    return observation.reshape(-1, observation.shape[-1]), mask.reshape(-1, mask.shape[-1])


def _varied(
    observation: np.ndarray, mask: np.ndarray, scores: np.ndarray, count: int
) -> np.ndarray:
    """Indices of ``count`` different states, clear ones of different masks first."""
    rows = np.sort(np.unique(observation, axis=0, return_index=True)[1])
    if len(rows) < count:
        raise JaxschedError(
            f"random play met {len(rows)} different states, too few for {count} golden rows"
        )
    clear = clear_rows(scores, mask)
    rows = rows[np.argsort(~clear[rows], kind="stable")]
    distinct = rows[np.unique(mask[rows], axis=0, return_index=True)[1]]
    distinct = distinct[clear[distinct]]
    distinct = distinct[np.argsort(mask[distinct].sum(axis=1), kind="stable")]
    chosen = _spread(distinct, min(count, len(distinct)))
    rest = rows[~np.isin(rows, chosen)]
    if clear[rest].sum() >= count - len(chosen):
        rest = rest[clear[rest]]
    return np.concatenate([chosen, _spread(rest, count - len(chosen))])


def clear_rows(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Where the best two legal scores differ by more than rounding, bool ``[R]``."""
    legal = np.sort(np.where(mask, scores, -np.inf), axis=1)
    margin = legal[:, -1] - legal[:, -2] if legal.shape[1] > 1 else np.full(len(legal), np.inf)
    clear: np.ndarray = margin > 2 * nd.TOLERANCE * np.maximum(1, np.abs(scores).max(axis=1))
    return clear


def _spread(rows: np.ndarray, count: int) -> np.ndarray:
    """``count`` of the rows, at even distances."""
    return rows[np.linspace(0, len(rows) - 1, count).astype(int)]
