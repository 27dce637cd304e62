"""A baseline from environments that play the same job sequence.

Arrivals change returns far more than actions do. Environments that face the same arrivals share
that part, so the mean of the others' returns from the same simulated time on is a baseline that
removes it and does not depend on the actions judged (input-driven baselines: Mao et al., Variance
Reduction for Reinforcement Learning in Input-Driven Environments, 2019; Decima: Mao et al.,
Learning Scheduling Algorithms for Data Processing Clusters, 2019).

Axes: ``T`` time, ``E`` sequences, ``K`` environments of each, ``B = K * E`` columns: column ``i``
plays sequence ``i % E`` (:class:`~jaxsched.core.training.LoopConfig`, ``num_random_streams``).
"""

import jax
import jax.numpy as jnp

from jaxsched.core.learner import Needs, Size
from jaxsched.types import Array


def sequence_baseline(elapsed: Array, target: Array, num_sequences: int) -> Array:
    """The others' mean return from each step's simulated time on, float32 ``[T, B]``.

    Of each other column of the sequence its target at its first step that begins no earlier, 0
    once it has ended. Columns are whole episodes.

    Args:
      elapsed: float32 ``[T, B]``, simulated seconds that each step takes.
      target: float32 ``[T, B]``, return from each step on.
      num_sequences: E.
    """
    length, columns = target.shape
    members = columns // num_sequences
    begins = jnp.cumsum(elapsed, axis=0) - elapsed

    def by_sequence(x: Array) -> Array:  # [E, K, T]
        return x.T.reshape(members, num_sequences, length).swapaxes(0, 1)

    def later(times: Array, other_begins: Array, other_target: Array) -> Array:
        index = jnp.searchsorted(other_begins, times, side="left", method="scan")
        return jnp.append(other_target, 0.0)[index]

    def of_group(times: Array, values: Array) -> Array:
        pairs = jax.vmap(jax.vmap(later, in_axes=(None, 0, 0)), in_axes=(0, None, None))
        found = pairs(times, times, values)  # [K, K, T]
        others = 1.0 - jnp.eye(members, dtype=jnp.float32)
        return jnp.einsum("ij,ijt->it", others, found) / (members - 1)

    found = jax.vmap(of_group)(by_sequence(begins), by_sequence(target))
    return found.swapaxes(0, 1).reshape(columns, length).T


def shared_needs(num_sequences: int | None) -> Needs:
    """Whole episodes of so many sequences, each by two environments at the least."""
    if num_sequences is None:
        return Needs()
    because = f"{num_sequences} num_sequences"
    return Needs(
        whole_episodes=True,
        sizes=(
            Size("num_random_streams", "equal to", num_sequences, because),
            Size("num_envs", "a multiple of", 2 * num_sequences, f"pairs of {because}"),
        ),
    )
