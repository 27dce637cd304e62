"""Environments of Gymnasium: ``Env``, ``VectorEnv`` and their ids.

Importing this module registers an id for every system, such as ``jaxsched/Sched2-v0``, for
``gymnasium.make`` and ``gymnasium.make_vec``. Versions count from 0 where a system's
``behaviour_version`` counts from 1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxsched.adapters.containers import observation_spec, to_containers
from jaxsched.adapters.copies import Copies, row
from jaxsched.adapters.spaces import action_space_of, space_of
from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError, needed
from jaxsched.systems import registry
from jaxsched.systems.make import make

gymnasium = needed("gymnasium", "adapters")
gymnasium_vector = needed("gymnasium.vector", "adapters")
AutoresetMode = gymnasium_vector.AutoresetMode
Env: Any = gymnasium.Env
VectorEnv: Any = gymnasium_vector.VectorEnv

NAMESPACE = "jaxsched"
SAME_STEP_SINCE = (1, 4)
"""Before it ``gymnasium.wrappers.vector.RecordEpisodeStatistics`` loses the first step, and its
reward, of every episode but the first of a copy where episodes begin in the step that ends one."""


class JaxschedEnv(Env):
    """One copy of an environment as a ``gymnasium.Env``.

    ``reset(seed=, options={"episode": i})`` begins episode ``i``, or one drawn with the seed; a
    reset without a seed goes on with the last one. ``info`` has ``elapsed``, the simulated seconds
    of the step, and ``action_mask`` (int8), which ``action_space.sample`` takes.

    Attributes:
      env: the environment.
      params: its parameters.

    Args:
      env: the environment.
      params: its parameters.
      mask: ``info``, or ``observation``: observations are dictionaries with an ``action_mask``.
      output: arrays of ``numpy`` or of ``jax``.

    Raises:
      JaxschedError: a choice is not accepted, or there is no such episode.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self, env: Environment, params: Any, *, mask: str = "info", output: str = "numpy"
    ) -> None:
        self._copies = Copies(env, params, 1, mask=mask, output=output)
        self.env, self.params = env, params
        self.observation_space = space_of(observation_spec(env, params, mask))
        self.action_space = action_space_of(env.action_spec(params))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: ``options["episode"]``, or one that is drawn."""
        super().reset(seed=seed)
        episode = (options or {}).get("episode")
        if seed is None and self._copies.seeded:
            self._copies.renew(np.array([True]), episode)
        else:
            drawn = int(self.np_random.integers(2**32)) if seed is None else seed
            self._copies.begin([drawn], episode)
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an action; an illegal one does what the system's rules say."""
        self._copies.step(to_containers(action, lambda part: np.asarray(part)[None]))
        now = self._copies.now
        observation, info = self._seen()
        return (
            observation,
            float(now.reward[0]),
            bool(now.terminated[0]),
            bool(now.truncated[0]),
            info,
        )

    def action_masks(self) -> Any:
        """Legal actions, bool ``[A]``, as sb3-contrib asks for them."""
        return row(self._copies.action_masks())

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        return row(self._copies.observation()), row(self._copies.info())


class JaxschedVectorEnv(VectorEnv):
    """Many copies of an environment as a ``gymnasium.vector.VectorEnv``, stepped by one program.

    Copy ``i`` with seed ``s`` plays the episodes of a ``JaxschedEnv`` with seed ``s``; one seed for
    all means ``seed + i``. ``reset`` takes ``options={"episode": i}``, a number or one of each
    copy, and ``{"reset_mask": bool [num_envs]}`` for some copies alone. With ``SAME_STEP`` the last
    observation and info of an episode are in ``final_obs`` and ``final_info``.

    Attributes:
      env: the environment.
      params: its parameters.

    Args:
      env: the environment.
      params: its parameters.
      num_envs: copies.
      autoreset_mode: a ``gymnasium.vector.AutoresetMode`` or its value: ``SameStep``, ``NextStep``
        or ``Disabled``.
      max_episode_steps: cut episodes after so many steps (``truncated``); none by default.
      mask: ``info``, or ``observation``: observations are dictionaries with an ``action_mask``.
      output: arrays of ``numpy``, which belong to the caller, or of ``jax``.

    Raises:
      JaxschedError: a choice or a count is not accepted, there is no such episode, or this version
        of Gymnasium counts wrongly with ``SameStep``.
    """

    def __init__(
        self,
        env: Environment,
        params: Any,
        num_envs: int = 1,
        *,
        autoreset_mode: Any = AutoresetMode.SAME_STEP,
        max_episode_steps: int | None = None,
        mask: str = "info",
        output: str = "numpy",
    ) -> None:
        self._mode = _checked_mode(autoreset_mode)
        self._copies = Copies(
            env, params, num_envs, time_limit=max_episode_steps, mask=mask, output=output
        )
        self._over = np.zeros(num_envs, bool)
        self.env, self.params, self.num_envs = env, params, num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": self._mode}
        self.single_observation_space = space_of(observation_spec(env, params, mask))
        self.single_action_space = action_space_of(env.action_spec(params))
        batched = gymnasium_vector.utils.batch_space
        self.observation_space = batched(self.single_observation_space, num_envs)
        self.action_space = action_space_of(env.action_spec(params), num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes in all copies, or in those of ``options["reset_mask"]``."""
        options = options or {}
        super().reset(seed=int(seed) if isinstance(seed, int | np.integer) else None)
        where = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)))
        if where.shape != (self.num_envs,) or where.dtype != np.bool_:
            raise JaxschedError(
                f"reset_mask is {where.dtype} {list(where.shape)}; accepted: bool [{self.num_envs}]"
            )
        if seed is None and self._copies.seeded:
            self._copies.renew(where, options.get("episode"))
        elif where.all():
            self._copies.begin(self._seeds(seed), options.get("episode"))
        else:
            raise JaxschedError("reset_mask is of some copies; accepted: without a seed, later on")
        self._over = self._over & ~where
        return self._copies.observation(), self._infos(self._copies.info(), where)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Apply an action of each copy; what happens to ended ones is the mode's word."""
        copies, final = self._copies, {}
        copies.step(actions)
        ended = copies.now
        if self._mode is AutoresetMode.NEXT_STEP and self._over.any():
            copies.renew(self._over)
            ended = copies.now
        self._over = copies.done
        if self._mode is AutoresetMode.SAME_STEP and self._over.any():
            final = self._final(self._over)
            copies.renew(self._over)
        outcome = (ended.reward, ended.terminated, ended.truncated)
        infos = self._infos(copies.info(), np.ones(self.num_envs, bool))
        return (copies.observation(), *copies.out(outcome), {**infos, **final})

    def action_masks(self) -> Any:
        """Legal actions, bool ``[num_envs, A]``."""
        return self._copies.action_masks()

    def _seeds(self, seed: int | Sequence[int] | None) -> Sequence[int]:
        if seed is not None and np.ndim(seed) > 0:
            numbers = np.asarray(seed)
            if numbers.shape != (self.num_envs,) or numbers.dtype.kind not in "iu":
                raise JaxschedError(
                    f"seed is {seed!r}; accepted: a whole number, or {self.num_envs} of them"
                )
            return numbers.tolist()
        first = int(self.np_random.integers(2**32)) if seed is None else int(np.asarray(seed))
        return range(first, first + self.num_envs)

    def _final(self, done: np.ndarray) -> dict[str, Any]:
        """The last observations and infos, laid out as Gymnasium's own vector environments do."""
        seen, last = self._copies.observation(), np.full(self.num_envs, None, object)
        for index in np.flatnonzero(done):
            last[index] = row(seen, int(index))
        return {
            **{"final_obs": last, "_final_obs": done.copy()},
            **{"final_info": self._infos(self._copies.info(), done), "_final_info": done.copy()},
        }

    @staticmethod
    def _infos(info: dict[str, Any], told: np.ndarray) -> dict[str, Any]:
        """Beside each entry, under its name with ``_``, which copies it is about."""
        return {**info, **{f"_{name}": told.copy() for name in info}}


def _checked_mode(mode: Any) -> Any:
    try:
        found = AutoresetMode(mode)
    except ValueError:
        accepted = ", ".join(repr(known.value) for known in AutoresetMode)
        raise JaxschedError(f"autoreset_mode is {mode!r}; accepted: {accepted}") from None
    version = gymnasium.__version__
    old = tuple(int(part) for part in version.split(".")[:2]) < SAME_STEP_SINCE
    if found is AutoresetMode.SAME_STEP and old:
        raise JaxschedError(
            f"autoreset_mode is 'SameStep', with which statistics of Gymnasium {version} lose a "
            "step of each episode; accepted: Gymnasium 1.4 or newer, or 'NextStep' or 'Disabled'"
        )
    return found


def single(
    system: str, *, mask: str = "info", output: str = "numpy", **options: Any
) -> JaxschedEnv:
    """What ``gymnasium.make`` makes of an id.

    Args:
      system: its name.
      mask: see ``JaxschedEnv``.
      output: see ``JaxschedEnv``.
      **options: of ``jaxsched.make``.
    """
    return JaxschedEnv(*make(system, **options), mask=mask, output=output)


def vector(
    system: str,
    num_envs: int = 1,
    *,
    autoreset_mode: Any = AutoresetMode.SAME_STEP,
    max_episode_steps: int | None = None,
    mask: str = "info",
    output: str = "numpy",
    **options: Any,
) -> JaxschedVectorEnv:
    """What ``gymnasium.make_vec`` makes of an id; ``options`` are those of ``jaxsched.make``."""
    env, params = make(system, **options)
    return JaxschedVectorEnv(
        env,
        params,
        num_envs,
        autoreset_mode=autoreset_mode,
        max_episode_steps=max_episode_steps,
        mask=mask,
        output=output,
    )


def id_of(system: str) -> str:
    """The id of a system: its name, and how often its results have changed."""
    changes = registry.get(system).environment.behaviour_version - 1
    return f"{NAMESPACE}/{system.capitalize()}-v{changes}"


def register() -> None:
    """Register the systems that have no id yet, such as were added after the import."""
    for system in registry.names():
        if id_of(system) not in gymnasium.registry:
            gymnasium.register(
                id_of(system),
                entry_point=f"{__name__}:single",
                vector_entry_point=f"{__name__}:vector",
                kwargs={"system": system},
            )


register()
