"""Copies of an environment that a program outside JAX plays, one call per step.

What Gymnasium, Stable-Baselines3, PettingZoo and dm_env are shown is made here: one compiled
program takes a step of all copies, another begins new episodes where asked for, so that steps at
which nothing ends pay for no reset.

Axes: ``B`` copies.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.adapters.containers import (
    ACTION_MASK,
    check_choices,
    number,
    structured,
    to_containers,
    with_mask,
)
from jaxsched.core.environment import Environment, check_action
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.ops.batching import select
from jaxsched.runtime import check_not_forked
from jaxsched.types import Array, PRNGKey, PyTree

NO_LIMIT = 2**31 - 1  # of steps; one program serves with and without


class CopyStates(NamedTuple):
    """The states of copies, leaves ``[B, ...]``.

    Attributes:
      state: of the environment.
      key: of the copy's seed.
      begun: int32, episodes since it was seeded.
      steps: int32, of this episode.
    """

    state: PyTree
    key: PRNGKey
    begun: Array
    steps: Array


class Shown(NamedTuple):
    """Results of a step of the copies, leaves ``[B, ...]``; truth values of trees are int8."""

    observation: Any
    mask: Any
    elapsed: Array
    reward: Array
    terminated: Array
    truncated: Array


class Copies:
    """``num`` copies of an environment, played from outside.

    A copy's episodes are drawn with its seed alone: the n-th episode since it was seeded and its
    steps are the same in any number of copies.

    Attributes:
      num: B.
      now: what is known of the copies now.

    Args:
      env: the environment.
      params: its parameters.
      num: B.
      time_limit: cut episodes after so many steps; none by default.
      mask: whether masks go to ``info`` or into the ``observation``.
      output: arrays of ``numpy``, writable and nobody else's, or of ``jax``.

    Raises:
      JaxschedError: a choice or a count is not accepted.
    """

    def __init__(
        self,
        env: Environment,
        params: Any,
        num: int,
        *,
        time_limit: int | None = None,
        mask: str = "info",
        output: str = "numpy",
    ) -> None:
        check_counts(num_envs=num)
        check_counts(optional=True, max_episode_steps=time_limit)
        check_choices(mask, output)
        self.env, self.params, self.num = env, params, num
        self._limit = np.int32(min(time_limit or NO_LIMIT, NO_LIMIT))
        self._mask, self._numpy = mask, output == "numpy"
        self._action_spec = env.action_spec(params)
        self._copies: CopyStates | None = None
        self.now: Shown

    @property
    def seeded(self) -> bool:
        """Whether the copies have been given seeds."""
        return self._copies is not None

    def begin(self, seeds: Sequence[int], episode: Any = None) -> None:
        """Seed all copies and begin their first episodes: ``episode``, or such as are drawn.

        Raises:
          JaxschedError: as ``renew``.
        """
        check_not_forked()
        words = np.array([int(seed) % 2**32 for seed in seeds], np.uint32)
        keys, zeros = jax.vmap(jax.random.key)(words), np.zeros(self.num, np.int32)
        begun = _begin(self.env, self.params, keys, zeros, self._episodes(episode))
        self._copies, self.now = begun

    def renew(self, where: Any, episode: Any = None) -> None:
        """Begin new episodes in the copies where ``where`` (bool ``[B]``) holds.

        Args:
          where: which copies.
          episode: number of the episode, or numbers ``[B]``; drawn if absent.

        Raises:
          JaxschedError: there is no such episode.
        """
        copies = self._copies
        assert copies is not None, "begin comes first"
        check_not_forked()
        fresh = _begin(self.env, self.params, copies.key, copies.begun + 1, self._episodes(episode))
        self._copies, self.now = _chosen(where, fresh, copies, self.now)

    def step(self, action: Any) -> None:
        """A step of all copies; ``action`` has the layout of the action space, ``[B, ...]``.

        Raises:
          JaxschedError: no episode has begun.
        """
        if not self.seeded:
            raise JaxschedError(f"{self.env.name}: reset comes before the first step")
        check_not_forked()
        check_action(self.env.name, self._action_spec, action)
        action = structured(self._action_spec, action)
        self._copies, self.now = _step(self.env, self.params, self._copies, action, self._limit)

    @property
    def done(self) -> np.ndarray:
        """Where the last step ended an episode, bool ``[B]``."""
        return np.asarray(self.now.terminated) | np.asarray(self.now.truncated)

    def observation(self) -> Any:
        """What is seen now, leaves ``[B, ...]``."""
        seen = self.out(self.now.observation)
        return with_mask(seen, self.out(self.now.mask)) if self._mask == "observation" else seen

    def info(self) -> dict[str, Any]:
        """What else is told, leaves ``[B, ...]``: simulated seconds of the step, and the mask."""
        told = {"elapsed": self.out(self.now.elapsed)}
        return (
            told if self._mask == "observation" else {ACTION_MASK: self.out(self.now.mask), **told}
        )

    def action_masks(self) -> Any:
        """Legal actions, bool ``[B, A]``."""
        return to_containers(self.now.mask, lambda leaf: np.asarray(leaf) != 0)

    def out(self, tree: Any) -> Any:
        """Arrays as the program wants them."""
        return to_containers(tree, np.array) if self._numpy else tree

    def _episodes(self, episode: Any) -> np.ndarray | None:
        if episode is None:
            return None
        numbers, most = np.asarray(episode), self.env.num_episodes(self.params)
        whole = numbers.dtype.kind in "iu" and numbers.shape in ((), (1,), (self.num,))
        if not whole or np.any(numbers < 0) or np.any(numbers >= most):
            raise JaxschedError(
                f"episode is {episode!r}; accepted: a whole number from 0 to {most - 1}, "
                "or one of each environment"
            )
        return np.broadcast_to(numbers.astype(np.int32), (self.num,))


def row(tree: Any, index: int = 0) -> Any:
    """One copy's part of leaves ``[B, ...]``."""
    return to_containers(tree, lambda leaf: leaf[index])


@partial(jax.jit, static_argnames="env")
def _begin(
    env: Environment, params: Any, keys: PRNGKey, begun: Array, episode: Array | None
) -> tuple[CopyStates, Shown]:
    def one(key: PRNGKey, begun: Array, episode: Array | None) -> tuple[CopyStates, Shown]:
        state, timestep = env.reset(_key(key, begun, jnp.int32(0)), params, episode)
        return CopyStates(state, key, begun, jnp.int32(0)), _shown(timestep)

    return jax.vmap(one)(keys, begun, episode)


@partial(jax.jit, donate_argnames="copies")
def _chosen(
    where: Array, fresh: tuple[CopyStates, Shown], copies: CopyStates, shown: Shown
) -> tuple[CopyStates, Shown]:
    return jax.vmap(select)(where, fresh, (copies, shown))


@partial(jax.jit, static_argnames="env", donate_argnames="copies")
def _step(
    env: Environment, params: Any, copies: CopyStates, action: PyTree, limit: Array
) -> tuple[CopyStates, Shown]:
    def one(copies: CopyStates, action: PyTree) -> tuple[CopyStates, Shown]:
        steps = copies.steps + 1
        key = _key(copies.key, copies.begun, steps)
        state, timestep = env.step(key, copies.state, action, params)
        cut = (steps >= limit) & ~timestep.terminated
        timestep = timestep._replace(truncated=timestep.truncated | cut)
        return copies._replace(state=state, steps=steps), _shown(timestep)

    return jax.vmap(one)(copies, action)


def _key(key: PRNGKey, begun: Array, step: Array) -> PRNGKey:
    return jax.random.fold_in(jax.random.fold_in(key, begun), step)


def _shown(timestep: Any) -> Shown:
    return Shown(
        observation=to_containers(timestep.observation, number),
        mask=to_containers(timestep.action_mask, number),
        elapsed=timestep.elapsed,
        reward=timestep.reward,
        terminated=timestep.terminated,
        truncated=timestep.truncated,
    )
