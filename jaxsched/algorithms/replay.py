"""Replay memory: n-step transitions, drawn in proportion to a priority or uniformly.

Priorities are kept in a shallow sum tree of wide nodes: leaf rows of ``BRANCH`` priorities, above
them rows of their sums, up to one root row. A draw walks from the root to a leaf with a fresh
uniform number at each level, so no precision is lost over many items; a change of priority sums
the few touched rows anew, so no rounding error builds up. All functions are pure and update in
place where the caller donates the memory.

Axes: ``T`` time, ``B`` batch of environments, ``N`` items added or drawn at once, ``R`` tree rows.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxsched.core.sharding import split_layout, whole, whole_layout
from jaxsched.types import Array, PRNGKey, PyTree, Rollout

BRANCH = 32  # children per tree node; 64 and 128 need the same time at 4e5 items, 640 needs more


class Transition(NamedTuple):
    """What a value learner needs of ``n`` consecutive steps (leaves ``[N, ...]`` in batches).

    The regression target is ``reward + discount * value(next_observation)``.
    """

    observation: PyTree
    action: Array  # int32
    reward: Array  # float32, discounted sum of the rewards of the steps
    discount: Array  # float32, product of the discounts of the steps; 0 after a termination
    next_observation: PyTree
    next_mask: PyTree


class Replay(NamedTuple):
    """A ring of items and the sum tree over their priorities."""

    items: PyTree  # leaves [capacity, ...]
    tree: tuple[Array, ...]  # float32 [R, BRANCH] each, leaves first, root row last
    position: Array  # int32, where the next item goes
    size: Array  # int32, number of items held
    max_priority: Array  # float32, largest priority ever given, already raised to alpha


def n_step_transitions(rollout: Rollout, discount: Array, n: int) -> Transition:
    """Join each step of a rollout with the up to ``n - 1`` steps that follow it.

    With ``L`` the number of steps until the first of: ``n`` steps, a termination or truncation,
    the end of the rollout,

        reward_t = sum_{k<L} (prod_{j<k} discount_{t+j}) r_{t+k}
        discount_t = prod_{k<L} discount_{t+k} * (1 - terminated_{t+L-1})

    and the next observation is that of step ``t + L - 1``, before any reset. The steps at the
    end of the rollout thus use fewer than ``n`` steps, with the matching bootstrap: every target
    is exact, no experience is dropped or carried, and the mean length is
    ``n - n (n - 1) / (2 T)`` away from episode ends (choose ``T`` well above ``n``).

    Args:
      rollout: leaves ``[T, B, ...]``.
      discount: float32 ``[T, B]``, discount over each single step.
      n: largest number of steps to join, at least 1.

    Returns:
      Transitions with leaves ``[T * B, ...]``, time-major.
    """
    chex.assert_rank([rollout.reward, discount], 2)
    num_steps, batch = rollout.reward.shape
    time = jnp.arange(num_steps)[:, None]
    done = rollout.terminated | rollout.truncated
    total = jnp.zeros_like(rollout.reward)
    product = jnp.ones_like(discount)
    last = jnp.broadcast_to(time, done.shape)
    alive = jnp.ones_like(done)
    for k in range(min(n, num_steps)):
        step = jnp.minimum(jnp.arange(num_steps) + k, num_steps - 1)
        alive &= time + k < num_steps
        total = jnp.where(alive, total + product * rollout.reward[step], total)
        product = jnp.where(alive, product * discount[step], product)
        last = jnp.where(alive, time + k, last)
        alive &= ~done[step]

    env = jnp.arange(batch)[None, :]
    transitions = Transition(
        observation=rollout.observation,
        action=rollout.action,
        reward=total,
        discount=jnp.where(rollout.terminated[last, env], 0.0, product),
        next_observation=jax.tree.map(lambda x: x[last, env], rollout.next_observation),
        next_mask=jax.tree.map(lambda x: x[last, env], rollout.next_mask),
    )
    return jax.tree.map(lambda x: x.reshape(num_steps * batch, *x.shape[2:]), transitions)


def init(example: PyTree, capacity: int) -> Replay:
    """An empty memory.

    Args:
      example: one item (no leading axis); gives shapes and dtypes.
      capacity: number of items held; the oldest is overwritten after that.
    """
    tree: list[jax.Array] = []
    width = capacity
    while not tree or width > 1:
        rows = -(-width // BRANCH)
        tree.append(jnp.zeros((rows, BRANCH), jnp.float32))
        width = rows
    items = jax.tree.map(
        lambda x: jnp.zeros((capacity, *jnp.shape(x)), jnp.result_type(x)), example
    )
    return Replay(
        items, tuple(tree), position=jnp.int32(0), size=jnp.int32(0), max_priority=jnp.float32(1)
    )


def layout(replay: Replay) -> Replay:
    """How a memory lies on several devices: items divided between them, the tree on each."""
    on_each: Replay = whole_layout(replay)
    return on_each._replace(items=split_layout(replay.items, 0))


def add(replay: Replay, items: PyTree, valid: Array | None = None) -> Replay:
    """Insert items at the maximum priority.

    Args:
      replay: a memory.
      items: leaves ``[N, ...]``, ``N <= capacity``.
      valid: bool ``[N]``, which of them are inserted, in their order; all by default.
    """
    capacity = _capacity(replay)
    num_items = jax.tree.leaves(items)[0].shape[0]
    if num_items > capacity:
        raise ValueError(f"{num_items} items do not fit in a replay memory of {capacity}")
    count: Any = num_items
    if valid is None:
        index = (replay.position + jnp.arange(num_items)) % capacity
        bounds: Any = "promise_in_bounds"
    else:
        index = (replay.position + jnp.cumsum(valid, dtype=jnp.int32) - 1) % capacity
        # Past the end, each at another place: what is left out is dropped.
        index = jnp.where(valid, index, replay.tree[0].size + jnp.arange(num_items))
        bounds, count = "drop", jnp.sum(valid, dtype=jnp.int32)
    stored = jax.tree.map(
        lambda store, new: store.at[index].set(
            new.astype(store.dtype), unique_indices=True, mode=bounds
        ),
        replay.items,
        items,
    )
    leaves = replay.tree[0]
    leaves = leaves.at[index // BRANCH, index % BRANCH].set(replay.max_priority)
    # At most this many rows are touched: full ones, partial ones at both ends and at the wrap.
    rows = (replay.position // BRANCH + jnp.arange(num_items // BRANCH + 3)) % leaves.shape[0]
    return replay._replace(
        items=stored,
        tree=_sum_rows((leaves, *replay.tree[1:]), rows),
        position=(replay.position + count) % capacity,
        size=jnp.minimum(replay.size + count, capacity),
    )


def sample(
    key: PRNGKey, replay: Replay, num_items: int, stratified: bool = False
) -> tuple[PyTree, Array, Array]:
    """Draw items with probability proportional to priority, with replacement.

    An item of priority 0 is never drawn as long as some priority is positive.

    Args:
      key: used for the draws.
      replay: a memory that holds at least one item.
      num_items: ``N``.
      stratified: each draw is from another one of ``N`` equal shares of the priorities, as far as
        the root row divides them.

    Returns:
      Items (leaves ``[N, ...]``), their indices int32 ``[N]`` and probabilities float32 ``[N]``.
    """
    uniforms = jax.random.uniform(key, (len(replay.tree), num_items), jnp.float32)
    if stratified:
        first = (jnp.arange(num_items) + uniforms[0]) / num_items
        uniforms = uniforms.at[0].set(jnp.minimum(first, jnp.float32(1) - 2.0**-24))
    row = jnp.zeros(num_items, jnp.int32)
    for level, uniform in zip(reversed(replay.tree), uniforms, strict=True):
        row = whole(row * BRANCH + _pick(level[row], uniform))
    return _take(replay, row), row, priority_of(replay, row) / jnp.sum(replay.tree[-1])


def sample_uniform(key: PRNGKey, replay: Replay, num_items: int) -> tuple[PyTree, Array, Array]:
    """Draw items uniformly with replacement; arguments and results as :func:`sample`."""
    index = whole(jax.random.randint(key, (num_items,), 0, jnp.maximum(replay.size, 1), jnp.int32))
    probability = 1.0 / jnp.maximum(replay.size, 1).astype(jnp.float32)
    return _take(replay, index), index, jnp.broadcast_to(probability, (num_items,))


def set_priorities(replay: Replay, index: Array, priority: Array) -> Replay:
    """Give the items at ``index`` ``[N]`` new priorities ``[N]`` (already raised to alpha).

    Where an index occurs twice, the same priority must be given both times.
    """
    priority = whole(priority)
    leaves = replay.tree[0].at[index // BRANCH, index % BRANCH].set(priority)
    return replay._replace(
        tree=_sum_rows((leaves, *replay.tree[1:]), index // BRANCH),
        max_priority=jnp.maximum(replay.max_priority, jnp.max(priority)),
    )


def priority_of(replay: Replay, index: Array) -> Array:
    """Priorities of the items at ``index``, of its shape."""
    return replay.tree[0][index // BRANCH, index % BRANCH]


def priorities(replay: Replay) -> Array:
    """Priority of each entry, float32 ``[capacity]``; 0 where nothing is held."""
    return replay.tree[0].reshape(-1)[: _capacity(replay)]


def least_probability(replay: Replay) -> Array:
    """Probability of the least likely item held; float32 scalar."""
    leaves = priorities(replay)
    least = jnp.min(jnp.where(leaves > 0, leaves, jnp.inf))
    return least / jnp.sum(replay.tree[-1])


def importance_weights(probability: Array, size: Array, beta: Any) -> Array:
    """``(size * probability) ** -beta``, divided by the largest of the batch.

    Schaul et al., Prioritized Experience Replay, 2016, section 3.4.
    """
    weight = (size.astype(jnp.float32) * probability) ** -beta
    return weight / jnp.max(weight)


def _capacity(replay: Replay) -> int:
    return int(jax.tree.leaves(replay.items)[0].shape[0])


def _take(replay: Replay, index: Array) -> PyTree:
    taken = jax.tree.map(lambda x: x.at[index].get(mode="promise_in_bounds"), replay.items)
    return whole(taken)  # each device gives what it holds


def _pick(weights: Array, uniform: Array) -> Array:
    """One entry of each row of ``[N, BRANCH]`` in proportion to its weight; int32 ``[N]``.

    The first entry whose running sum exceeds the drawn one; if rounding leaves none, the last
    one. Entries of weight 0 are left out by hand, as rounded running sums need not be monotone.
    """
    width = weights.shape[-1]
    # A product with a triangle of ones: a third of the time of ``cumsum`` on a CPU.
    running = jnp.matmul(
        weights, jnp.triu(jnp.ones((width, width), jnp.float32)), precision="highest"
    )
    exceeds = running > uniform[:, None] * running[:, -1:]
    entry = jnp.arange(width, dtype=jnp.int32)
    rank = jnp.where(exceeds, 2 * width - entry, entry)
    best = jnp.max(jnp.where(weights > 0, rank, -1), axis=-1)
    return jnp.where(best > width, 2 * width - best, jnp.maximum(best, 0))


def _sum_rows(tree: tuple[Array, ...], rows: Array) -> tuple[Array, ...]:
    """Bring the sums above the given leaf rows up to date."""
    levels = [tree[0]]
    for above in tree[1:]:
        total = jnp.sum(levels[-1][rows], axis=-1)
        levels.append(above.at[rows // BRANCH, rows % BRANCH].set(total))
        rows = rows // BRANCH
    return tuple(levels)
