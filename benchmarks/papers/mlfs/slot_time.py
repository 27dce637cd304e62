"""Wall time of a slot of one environment, and whose time it is.

One program plays a stretch of an episode, a second one replays the actions that the first has
taken, a third one only runs tasks to the ends of slots. Their differences tell apart the choice of
servers, the rest of the scheduler, and the simulated cluster. Axis: ``T`` steps.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.mlfs.players import Player
from jaxsched.core.policies import Policy, View
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.rules import dynamics
from jaxsched.errors import JaxschedError
from jaxsched.types import Array, PyTree, TimeStep

Carry = tuple[PyTree, TimeStep]
LEAST_ENDS = 64  # ends of slots in one timed call


class Sizes(NamedTuple):
    """How much is timed.

    Attributes:
      steps: T, of the timed stretch.
      warm_ups: such stretches before it.
      repeats: of each program; the median counts.
    """

    steps: int
    warm_ups: int
    repeats: int


class SlotTime(NamedTuple):
    """Milliseconds of a slot, means over the slots of a stretch.

    Attributes:
      slot_ms: all of it.
      running_ms: running the tasks to the slot's end.
      choice_ms: the policy's choice of servers.
      decisions: taken in a slot.
    """

    slot_ms: float
    running_ms: float
    choice_ms: float
    decisions: float

    @property
    def scheduler_ms(self) -> float:
        """Everything but running the tasks."""
        return max(self.slot_ms - self.running_ms, 0.0)


def time_slots(player: Player, params: Any, sizes: Sizes) -> SlotTime:
    """Times of a policy, of the first set of weights, in the first episode.

    Args:
      player: whose environment ends slots at every step.
      params: environment parameters.
      sizes: how much is timed.

    Raises:
      JaxschedError: no slot ended in the timed stretch.
    """
    env, policy, weights = player.env, player.policy, player.weights[0]
    carry = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    met = [carry[0]]
    for _ in range(sizes.warm_ups):
        following, _, (ended, _) = _play(env, policy, sizes.steps, weights, params, carry)
        if int(ended) == 0:  # the episode is over: the stretch before is timed
            break
        carry = following
        met.append(carry[0])
    _, actions, counts = _play(env, policy, sizes.steps, weights, params, carry)
    slots, decisions = (int(count) for count in counts)
    if slots == 0:
        raise JaxschedError(f"{player.name}: no slot ended in {sizes.steps} steps")
    played = _seconds(
        lambda: _play(env, policy, sizes.steps, weights, params, carry), sizes.repeats
    )
    replayed = _seconds(lambda: _replay(env, actions, params, carry), sizes.repeats)
    ends = [met[k % len(met)] for k in range(max(len(met), LEAST_ENDS))]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ends)
    running = _seconds(lambda: _run_tasks(env, params, states), sizes.repeats)
    return SlotTime(
        slot_ms=1e3 * played / slots,
        running_ms=1e3 * running / len(ends),
        choice_ms=1e3 * (played - replayed) / slots,
        decisions=decisions / slots,
    )


@partial(jax.jit, static_argnums=(0, 1, 2))
def _play(
    env: MLFS, policy: Policy, steps: int, weights: PyTree, params: Any, carry: Carry
) -> tuple[Carry, Array, tuple[Array, Array]]:
    """The carry after so many steps, actions ``[T]``, and numbers of slots and decisions."""

    def body(carry: Carry, _: None) -> tuple[Carry, tuple[Array, Array, Array]]:
        state, timestep = carry
        view = View(timestep.observation, timestep.action_mask, state, params)
        action, _ = policy.act(weights, (), view, jax.random.key(0))
        carry = env.step(jax.random.key(0), state, action, params)
        happened = carry[1].metrics
        return carry, (jnp.int32(action), happened.after > happened.slot, happened.decides)

    carry, (actions, ended, decided) = jax.lax.scan(body, carry, None, steps)
    return carry, actions, (jnp.sum(ended), jnp.sum(decided))


@partial(jax.jit, static_argnums=0)
def _replay(env: MLFS, actions: Array, params: Any, carry: Carry) -> Carry:
    """The carry after the actions ``[T]``."""

    def body(carry: Carry, action: Array) -> tuple[Carry, None]:
        return env.step(jax.random.key(0), carry[0], action, params), None

    return jax.lax.scan(body, carry, actions)[0]


@partial(jax.jit, static_argnums=0)
def _run_tasks(env: MLFS, params: Any, states: PyTree) -> Array:
    """Run the tasks of each state to the end of its slot; a number that depends on all of it."""

    def body(total: Array, state: PyTree) -> tuple[Array, None]:
        after, ended, _ = dynamics.end_slot(env.rules, params, state)
        parts = [jnp.sum(leaf, dtype=jnp.int32) for leaf in jax.tree.leaves((after, ended))]
        return total + jnp.sum(jnp.stack(parts)), None

    return jax.lax.scan(body, jnp.int32(0), states)[0]


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median seconds of a call, after one that compiles."""
    jax.block_until_ready(call())
    laps = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        laps.append(time.perf_counter() - began)
    return float(np.median(laps))
