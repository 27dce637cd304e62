"""What DL2's learner does besides following its gradient: job-aware exploration, row shuffling."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxsched.envs.dl2.networks import KINDS, join_rows, split_rows
from jaxsched.envs.dl2.observation import ObservationKind
from jaxsched.types import Array, PRNGKey

MOST_UNEQUAL = 10  # workers per parameter server, or the reverse, beyond which a job is poor
EPSILON_FLOOR = 0.1
EPSILON_HEIGHT, EPSILON_STEPS = 1.2, 500.0
WORKERS_AT, PS_AT = -2, -1  # among the entries of a row


def epsilon(step: Array) -> Array:
    """Probability of mending a poor state: ``max(0.1, 1.2 / (1 + exp(step / 500)))``."""
    return jnp.maximum(EPSILON_FLOOR, EPSILON_HEIGHT / (1.0 + jnp.exp(step / EPSILON_STEPS)))


def mending_action(w: Array, p: Array) -> tuple[Array, Array]:
    """The action that mends the first row in a poor state.

    A row is poor with several workers and no parameter server (PS), several PS and no worker, or
    more than ten of one per one of the other.

    Args:
      w: int32 ``[J]``, workers.
      p: int32 ``[J]``, parameter servers.

    Returns:
      The action, int32, and whether there is such a row.
    """
    short_of_ps = ((w >= 2) & (p == 0)) | ((p >= 1) & (w > MOST_UNEQUAL * p))
    short_of_workers = ((p >= 2) & (w == 0)) | ((w >= 1) & (p > MOST_UNEQUAL * w))
    poor = short_of_ps | short_of_workers
    row = jnp.argmax(poor).astype(jnp.int32)
    return KINDS * row + short_of_ps[row].astype(jnp.int32), jnp.any(poor)


def job_aware(
    num_rows: int, max_workers: int, max_ps: int, kind: ObservationKind = "paper"
) -> Callable[[PRNGKey, Array, Array, Array, Array], Array]:
    """Job-aware exploration (section 10) for a cluster with parameter servers.

    Returns:
      ``explore(key, observation, mask, action, step) -> action`` over a batch: with probability
      ``epsilon(step)`` the mending action, if there is one and it is legal.
    """

    def explore(key: PRNGKey, observation: Array, mask: Array, action: Array, step: Array) -> Array:
        rows = split_rows(observation, num_rows, kind)
        units = (1, 1) if kind == "artefact" else (max_workers, max_ps)
        w = jnp.round(rows[..., WORKERS_AT] * units[0]).astype(jnp.int32)
        p = jnp.round(rows[..., PS_AT] * units[1]).astype(jnp.int32)
        mending, poor = jax.vmap(mending_action)(w, p)
        legal = jnp.take_along_axis(mask, mending[:, None], axis=-1)[:, 0]
        chance = jax.random.uniform(key, action.shape, jnp.float32) < epsilon(step)
        return jnp.where(poor & legal & chance, mending, action).astype(action.dtype)

    return explore


def shuffle_rows(
    num_rows: int, kind: ObservationKind = "paper"
) -> Callable[[PRNGKey, Array, Array, Array], tuple[Array, Array, Array]]:
    """Data augmentation of the supervised stage: the same decision with its rows in random order.

    Returns:
      ``augment(key, observation, mask, label) -> (observation, mask, label)`` of one decision.
    """

    def augment(
        key: PRNGKey, observation: Array, mask: Array, label: Array
    ) -> tuple[Array, Array, Array]:
        order = jax.random.permutation(key, num_rows)
        place = jnp.argsort(order)  # where each row went
        observation = join_rows(split_rows(observation, num_rows, kind)[order], kind)
        tasks = mask[:-1].reshape(num_rows, KINDS)[order].reshape(-1)
        row = jnp.minimum(label // KINDS, num_rows - 1)
        moved = KINDS * place[row] + label % KINDS
        label = jnp.where(label == KINDS * num_rows, label, moved).astype(label.dtype)
        return observation, jnp.append(tasks, mask[-1]), label

    return augment
