"""Returns over groups of decisions that are taken at one instant.

Some schedulers infer several times before simulated time moves. Those decisions form a *group*,
which a step with ``elapsed > 0``, or one that ends the episode, closes. Decisions of a group share
what the group earns (environments pay on the step that closes it), so nothing is discounted
inside a group:

    target_t = (rewards of t to the end of its group) + discount * V(first observation after it)

Where a rollout stops in the middle of a group, its last rows bootstrap from the value of the next
observation, undiscounted: exact in expectation. Truncations bootstrap, terminations do not. With
one decision per instant all this is the usual one-step target.

Other schedulers are judged by what happens in a fixed time after a decision;
:func:`span_returns` are sums over that span.

Axes: ``T`` time, ``B`` batch of environments.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.types import Array, PyTree, Rollout


class Groups(NamedTuple):
    """What each step of a rollout shares with the rest of its group; leaves ``[T, B]``.

    Attributes:
      reward: float32, rewards from the step to the end of its group (or of the rollout).
      last: int32, row at which the group ends; its ``next_observation`` is bootstrapped from.
      discount: float32, what the bootstrap value is multiplied by; 0 after a termination.
      complete: bool, the end of the group lies in the rollout.
    """

    reward: Array
    last: Array
    discount: Array
    complete: Array


class MovingAverage(NamedTuple):
    """Exponential moving average that starts empty, so its first mean is that of what it saw."""

    total: Array  # float32
    weight: Array  # float32, 1 - decay ** (entries seen)

    @classmethod
    def empty(cls) -> "MovingAverage":
        """Of nothing."""
        return cls(jnp.float32(0), jnp.float32(0))

    def after(self, value: Array, decay: float | Array) -> "MovingAverage":
        """With one more entry."""
        new = 1.0 - decay
        return MovingAverage(decay * self.total + new * value, decay * self.weight + new)

    def mean(self) -> Array:
        """The average; 0 of nothing."""
        return self.total / jnp.where(self.weight > 0, self.weight, 1.0)


def group_ends(rollout: Rollout) -> Array:
    """Steps after which time moves or the episode is over; bool ``[T, B]``."""
    return (rollout.elapsed > 0) | rollout.terminated | rollout.truncated


def step_discounts(
    rollout: Rollout, gamma: float | Array, horizon_s: float | Array | None = None
) -> Array:
    """Discount over each single step, 0 where it terminates; float32 ``[T, B]``.

    Args:
      rollout: leaves ``[T, B, ...]``.
      gamma: discount of a step that ends a group; steps inside a group have 1.
      horizon_s: if given, every step has ``exp(-elapsed / horizon_s)`` and gamma is unused.
    """
    if horizon_s is None:
        discount = jnp.where(group_ends(rollout), gamma, 1.0)
    else:
        discount = jnp.exp(-rollout.elapsed / horizon_s)
    return jnp.where(rollout.terminated, 0.0, discount).astype(jnp.float32)


def group_transitions(rollout: Rollout, discount: Array) -> Groups:
    """Join each step with the rest of its group.

    Args:
      rollout: leaves ``[T, B, ...]``.
      discount: float32 ``[T, B]``, from :func:`step_discounts`.
    """
    ends = group_ends(rollout)
    num_steps, batch = ends.shape
    time = jnp.arange(num_steps, dtype=jnp.int32)[:, None]
    last = jax.lax.cummin(jnp.where(ends, time, num_steps - 1), axis=0, reverse=True)

    def join(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, end = step
        total = reward + jnp.where(end, 0.0, later)
        return total, total

    _, reward = jax.lax.scan(
        join, jnp.zeros(batch, jnp.float32), (rollout.reward, ends), reverse=True
    )
    env = jnp.arange(batch)[None, :]
    return Groups(reward, last, discount[last, env], ends[last, env])


def at_group_end(groups: Groups, tree: PyTree) -> PyTree:
    """For each step the entries of leaves ``[T, B, ...]`` at the row that ends its group."""
    env = jnp.arange(groups.last.shape[1])[None, :]
    return jax.tree.map(lambda x: x[groups.last, env], tree)


def average_group_rewards(
    average: MovingAverage, groups: Groups, decay: float | Array
) -> MovingAverage:
    """Take in the rewards of the complete groups of a rollout, as if all were equally old."""
    ends = groups.last == jnp.arange(groups.last.shape[0])[:, None]
    first = jnp.concatenate([jnp.ones_like(ends[:1]), ends[:-1]]) & groups.complete
    count = jnp.sum(first)
    mean = jnp.sum(jnp.where(first, groups.reward, 0.0)) / jnp.maximum(count, 1)
    keep = jnp.asarray(decay, jnp.float32) ** count
    return MovingAverage(
        keep * average.total + (1 - keep) * mean, keep * average.weight + (1 - keep)
    )


def lambda_returns(
    rollout: Rollout,
    discount: Array,
    next_values: Array,
    lambda_: float | Array,
    step_lambda: float | Array = 1.0,
) -> Array:
    """TD(lambda) returns in which lambda counts groups, not steps; float32 ``[T, B]``.

    With ``V`` the next value and ``G`` the return of the step after,

        G_t = r_t + discount_t * ((1 - l_t) * V_t + l_t * G_{t+1})

    where ``l_t`` is ``step_lambda`` inside a group, lambda at its end, and 0 at the end of an
    episode or of the rollout (Schulman et al., High-Dimensional Continuous Control Using
    Generalized Advantage Estimation, 2016, for groups of one step). Lambda 0 gives the target of
    the module's heading, lambda 1 the sum of all rewards that follow.

    Args:
      rollout: leaves ``[T, B, ...]``.
      discount: float32 ``[T, B]``, from :func:`step_discounts`.
      next_values: float32 ``[T, B]``, values of ``rollout.next_observation``.
      lambda_: weight of what follows the next group.
      step_lambda: weight of what follows the next step inside a group. At 1 all decisions of a
        group share its return; below, each is credited with the values it leads to.
    """
    done = rollout.terminated | rollout.truncated
    weight = jnp.where(group_ends(rollout), lambda_, step_lambda)
    weight = jnp.where(done, 0.0, weight).at[-1].set(0.0)

    def back(later: Array, step: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        reward, discount, value, weight = step
        total = reward + discount * ((1 - weight) * value + weight * later)
        return total, total

    steps = (rollout.reward, discount, next_values, weight)
    _, returns = jax.lax.scan(back, jnp.zeros(done.shape[1], jnp.float32), steps, reverse=True)
    return returns


def span_returns(
    rollout: Rollout, discount: Array, next_values: Array, return_span_s: float | Array
) -> Array:
    """Discounted rewards of the next ``return_span_s`` simulated seconds; float32 ``[T, B]``.

    With ``s_t`` the simulated time at which step t begins,

        G_t = sum over steps u >= t of the episode with s_u - s_t <= return_span_s of
              (discount_t * ... * discount_{u-1}) * r_u

    (MLFS, CoNEXT '20, the cumulative reward up to t_m; specification of MLFS, section 6). A reward
    counts at the instant at which its step begins; that of a step which crosses several slots is
    not split. Decisions at one instant therefore share their return, up to rewards between them.

    Where the episode is cut or the rollout stops within the span, the value there is added. It
    stands for a whole span from there on, so such returns look further than the others. Nothing
    is added where the span ends before that, or after a termination.

    Sums over 1, 2, 4, ... steps make up those of any length, in ``O(T log T)`` and without
    differences of large sums. The borders of spans are exact while elapsed times are whole
    seconds and add up to less than ``2**24`` of them.

    Args:
      rollout: leaves ``[T, B, ...]``.
      discount: float32 ``[T, B]``, from :func:`step_discounts`.
      next_values: float32 ``[T, B]``, values of ``rollout.next_observation``.
      return_span_s: length of the span, simulated seconds; a reward exactly so much later counts.
    """
    done = rollout.terminated | rollout.truncated
    num_steps, batch = done.shape
    row, env = jnp.arange(num_steps, dtype=jnp.int32)[:, None], jnp.arange(batch)[None, :]
    last = jax.lax.cummin(jnp.where(done, row, num_steps - 1), axis=0, reverse=True)

    begins = jnp.cumsum(rollout.elapsed, axis=0, dtype=jnp.float32)
    begins = jnp.concatenate([jnp.zeros_like(begins[:1]), begins])
    search = jax.vmap(partial(jnp.searchsorted, side="right"), in_axes=1, out_axes=1)
    beyond = search(begins, begins[:-1] + return_span_s).astype(jnp.int32)
    length = jnp.minimum(beyond, last + 1) - row

    sums, factors = rollout.reward, discount  # of the next 1, 2, 4, ... steps
    at = jnp.broadcast_to(row, done.shape)
    total, factor = jnp.zeros_like(discount), jnp.ones_like(discount)
    for level in range(num_steps.bit_length()):
        size = 1 << level
        taken, here = (length & size) > 0, jnp.minimum(at, num_steps - 1)
        total = total + jnp.where(taken, factor * sums[here, env], 0.0)
        factor = jnp.where(taken, factor * factors[here, env], factor)
        at = at + jnp.where(taken, size, 0)
        sums = sums + factors * _later(sums, size)
        factors = factors * _later(factors, size)
    return total + jnp.where(beyond > last + 1, factor * next_values[last, env], 0.0)


def _later(rows: Array, steps: int) -> Array:
    """Rows so many steps later, zeros past the end; ``[T, B]``."""
    return jnp.pad(rows[steps:], ((0, min(steps, len(rows))), (0, 0)))
