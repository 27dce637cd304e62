"""Environments for Stable-Baselines3, whose vector environments are not Gymnasium's."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxsched.adapters.gymnasium import JaxschedVectorEnv
from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError, needed
from jaxsched.systems.make import make

PACKAGES = "stable-baselines3 sb3-contrib 'jaxsched[adapters]'"
VecEnv: Any = needed("stable_baselines3.common.vec_env", "adapters", PACKAGES).VecEnv


class JaxschedVecEnv(VecEnv):
    """Copies of an environment as a Stable-Baselines3 ``VecEnv``, stepped by one program.

    Infos of ended episodes have ``terminal_observation`` and ``TimeLimit.truncated``. Legal actions
    are what ``env_method("action_masks")`` returns, which is where sb3-contrib looks. ``seed`` and
    ``set_options({"episode": i})`` take effect at the next ``reset``.

    Args:
      env: the environment.
      params: its parameters.
      num_envs: copies.
      time_limit: cut episodes after so many steps; none by default.

    Raises:
      JaxschedError: a count is not accepted, or there is no such episode.
    """

    def __init__(
        self, env: Environment, params: Any, num_envs: int, *, time_limit: int | None = None
    ) -> None:
        self._inner = JaxschedVectorEnv(env, params, num_envs, max_episode_steps=time_limit)
        spaces = self._inner.single_observation_space, self._inner.single_action_space
        super().__init__(num_envs, *spaces)

    def reset(self) -> Any:
        """Begin an episode in each copy, with the seeds and options that were set."""
        seeds = None if self._seeds[0] is None else [int(seed) for seed in self._seeds]
        episodes = [options.get("episode") for options in self._options]
        options = {} if None in episodes else {"episode": np.array(episodes)}
        observation, _ = self._inner.reset(seed=seeds, options=options)
        self._reset_seeds()
        self._reset_options()
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        """Remember the actions."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Take the step: observation, reward, whether episodes ended, and an info of each copy."""
        observation, reward, terminated, truncated, info = self._inner.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        over = terminated | truncated
        for index in np.flatnonzero(over):
            infos[index]["terminal_observation"] = info["final_obs"][index]
            infos[index]["TimeLimit.truncated"] = bool(truncated[index] and not terminated[index])
        return observation, reward.astype(np.float32), over, infos

    def close(self) -> None:
        """Nothing is open."""

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """What each copy answers; the only method is ``action_masks``."""
        if method_name != "action_masks":
            raise JaxschedError(f"env_method is {method_name!r}; accepted: 'action_masks'")
        masks = self._inner.action_masks()
        return [masks[index] for index in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute, the same of all copies.

        Raises:
          AttributeError: there is none of that name, which is how ``has_attr`` asks.
        """
        value = getattr(self._inner, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Copies have nothing of their own to be set.

        Raises:
          JaxschedError: always.
        """
        raise JaxschedError(f"set_attr {attr_name!r}: copies have no attributes of their own")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Never: wrappers go around all copies together."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[Any]:
        """None: there are no pictures."""
        return [None for _ in range(self.num_envs)]


def make_vec_env(
    system: str, num_envs: int, *, time_limit: int | None = None, **options: Any
) -> JaxschedVecEnv:
    """Copies of a system's environment; ``options`` are those of ``jaxsched.make``."""
    return JaxschedVecEnv(*make(system, **options), num_envs, time_limit=time_limit)
