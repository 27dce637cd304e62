"""The environment protocol and the transforms around it.

An environment is a frozen, hashable object that holds static integers and options only. Values that
may vary without recompiling (job tables, reward weights, scales) live in ``params``, a
pytree of arrays that is shared by every copy of the environment.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched import options
from jaxsched.errors import JaxschedError
from jaxsched.ops.batching import apply_if, select
from jaxsched.types import Array, DiscreteSpec, Feature, Knowledge, PRNGKey, PyTree, Specs, TimeStep

_SERVERS = {"num_servers", "gpus_per_server"}


def check_action(name: str, spec: PyTree, action: PyTree) -> None:
    """Refuse an action of the wrong dtype; its values are not checked.

    Args:
      name: of the environment, for the message.
      spec: tree of ``ArraySpec`` and ``DiscreteSpec``.
      action: a tree of arrays or numbers, traced or not, with any leading axes.

    Raises:
      JaxschedError: a choice is no whole number, or a number is not real; a part is missing.
    """
    if hasattr(spec, "_asdict"):
        parts = {key: part for key, part in spec._asdict().items() if part is not None}
        given = action._asdict() if hasattr(action, "_asdict") else action
    elif isinstance(spec, Mapping):
        parts, given = dict(spec), action
    elif isinstance(spec, tuple | list):
        parts, given = dict(enumerate(spec)), action
    else:
        _check_number(name, spec, action)
        return
    for key, part in parts.items():
        try:
            one = given[key]
        except (KeyError, IndexError, TypeError):
            wanted = ", ".join(map(str, parts))
            raise JaxschedError(
                f"{name}: an action without {key!r}; accepted: one with {wanted}"
            ) from None
        check_action(name, part, one)


def _check_number(name: str, spec: Any, action: Any) -> None:
    real = not isinstance(spec, DiscreteSpec) and jnp.issubdtype(spec.dtype, jnp.floating)
    dtype: Any = getattr(action, "dtype", None)
    try:
        dtype = jnp.result_type(action)
        accepted = jnp.issubdtype(dtype, jnp.integer) or (
            real and jnp.issubdtype(dtype, jnp.floating)
        )
    except (TypeError, ValueError):
        accepted = False
    if not accepted:
        raise JaxschedError(
            f"{name}: an action of {type(action).__name__ if dtype is None else dtype}; accepted: "
            f"{'real numbers (float32)' if real else 'whole numbers (int32)'}"
        )


def _checking(step: Callable[..., Any]) -> Callable[..., Any]:
    """The method ``step`` with ``check_action`` before it."""

    @wraps(step)
    def checked(self: Any, key: PRNGKey, state: PyTree, action: PyTree, params: PyTree) -> Any:
        check_action(self.name, self.action_spec(params), action)
        return step(self, key, state, action, params)

    return checked


def _warn_of_former(former: str, name: str) -> None:
    words = f"Environment.{former} is called {name} and goes with the next version"
    warnings.warn(words, DeprecationWarning, stacklevel=3)


class Environment(ABC):
    """Base class of all systems; subclasses are frozen dataclasses.

    ``step`` never resets. A finished state absorbs: further steps change nothing, give reward 0
    and keep a valid mask. Actions of another dtype than the spec's are refused when
    ``step`` is traced (:func:`check_action`), in every subclass.
    """

    name: str
    behaviour_version: int
    params: Callable[..., PyTree]
    """A function from job tables to parameters with an episode for each table."""
    reset_on_demand: ClassVar[bool] = False
    """Whether a step resets only if some copy needs it, which pays where creating or copying a
    state takes longer than a step."""
    former_options: ClassVar[Mapping[str, str]] = {}
    """Former names of options -> present names."""
    cuts_tables: ClassVar[bool] = False
    """Whether ``params`` takes ``starts`` and ``episode_jobs``: rows of one table at which episodes
    begin, and their number of jobs, so that the table is not copied."""

    def __post_init__(self) -> None:
        """Refuse options that their declarations do not accept (:mod:`jaxsched.options`)."""
        options.check(self, f"{self.name}: ")

    def __init_subclass__(cls, **options: Any) -> None:
        """Have the subclass' own ``step`` check its action's dtypes."""
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = _checking(cls.step)  # type: ignore[method-assign]
        if "whole_state" in vars(cls):
            _warn_of_former("whole_state", "privileged_state")
            cls.privileged_state = vars(cls)["whole_state"]  # type: ignore[method-assign]

    @abstractmethod
    def reset(
        self, key: PRNGKey, params: PyTree, episode: Array | None = None
    ) -> tuple[PyTree, TimeStep]:
        """Start an episode: ``episode`` (int32 scalar) if given, else one drawn with ``key``."""

    @abstractmethod
    def step(
        self, key: PRNGKey, state: PyTree, action: PyTree, params: PyTree
    ) -> tuple[PyTree, TimeStep]:
        """Apply ``action``; any value is accepted, illegal ones as the system's rules say.

        Raises:
          JaxschedError: the action's dtypes are not those of its spec; when traced.
        """

    @abstractmethod
    def observe(self, state: PyTree, params: PyTree) -> tuple[PyTree, PyTree]:
        """Observation and action mask of a state, as ``reset`` and ``step`` report them."""

    def decides(self, state: PyTree) -> Array:
        """Whether the action of the next step has an effect, bool scalar; here always.

        Environments with steps between decisions override it.
        """
        del state
        return jnp.bool_(True)

    def resample_future(self, key: PRNGKey, state: PyTree, params: PyTree) -> tuple[PyTree, PyTree]:
        """Draw anew what a policy cannot know in ``state``, from what it could expect.

        The past stays: submitted jobs and their progress. Later jobs, and hidden facts about
        submitted ones (such as run times), are drawn with ``key``.

        Args:
          key: of the draw.
          state: a state of the episode.
          params: environment parameters.

        Returns:
          The state, and parameters of one episode, number 0, that go with it.

        Raises:
          JaxschedError: the environment has no such draw (see ``can_resample_future``).
        """
        del key, state, params
        raise JaxschedError(f"{self.name}: does not redraw futures")

    @property
    def can_resample_future(self) -> bool:
        """Whether the environment has a ``resample_future`` of its own."""
        return type(self).resample_future is not Environment.resample_future

    def privileged_state(self, state: PyTree, params: PyTree) -> Array:
        """Features of a state and its future hidden from policies, float32 ``[F]``, for critics.

        Raises:
          JaxschedError: the environment has none (see ``has_privileged_state``).
        """
        del state, params
        raise JaxschedError(f"{self.name}: has no privileged state")

    @property
    def has_privileged_state(self) -> bool:
        """Whether the environment has a ``privileged_state`` of its own."""
        return type(self).privileged_state is not Environment.privileged_state

    def whole_state(self, state: PyTree, params: PyTree) -> Array:
        """``privileged_state`` by its former name."""
        _warn_of_former("whole_state", "privileged_state")
        return self.privileged_state(state, params)

    @property
    def tells_whole_state(self) -> bool:
        """``has_privileged_state`` by its former name."""
        _warn_of_former("tells_whole_state", "has_privileged_state")
        return self.has_privileged_state

    @property
    def redraws_futures(self) -> bool:
        """``can_resample_future`` by its former name."""
        _warn_of_former("redraws_futures", "can_resample_future")
        return self.can_resample_future

    @abstractmethod
    def num_episodes(self, params: PyTree) -> int:
        """Number of different episodes in ``params`` (static: read off the shapes)."""

    @abstractmethod
    def max_steps(self, params: PyTree) -> int:
        """A static bound on the number of steps of any episode in ``params``.

        A method of the environment, not of ``params``: leaves of ``params`` are arrays that may be
        traced, and the bound is an int that also depends on the environment's options.
        """

    @abstractmethod
    def observation_spec(self, params: PyTree) -> PyTree:
        """Pytree of ``ArraySpec`` of one observation."""

    @abstractmethod
    def action_spec(self, params: PyTree) -> PyTree:
        """Pytree of ``DiscreteSpec`` (or ``ArraySpec``) of one action."""

    def facts(self) -> dict[str, str]:
        """The ``cluster`` and its rules in words, shown with results; by default all options."""
        options: Any = self
        named = ((field.name, getattr(self, field.name)) for field in fields(options))
        return {"cluster": ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in named)}

    def knows(self) -> Knowledge:
        """What observations reveal of run times; by default unstated."""
        return "unstated"

    def features(self) -> dict[str, Feature]:
        """Meaning of observation entries, by name with ``*`` for a number; by default none."""
        return {}

    def further_columns(self) -> dict[str, int]:
        """What tables must have of jobs besides, with a value that this cluster can always hold."""
        return {}

    def fitted(self, table: Any) -> Any:
        """A job table of a log, jobs cut that no server could hold; by default as it is."""
        return table

    def largest_job(self) -> int | None:
        """GPUs of the largest job that can run, if fewer than the cluster's; else None."""
        return None

    def server_gpus(self) -> tuple[int, ...]:
        """GPUs of each server of the cluster; a single number for one pool.

        By default from the options ``num_servers`` and ``gpus_per_server``; empty without them.
        """
        options: Any = self
        if not {option.name for option in fields(options)} >= _SERVERS:
            return ()
        return (options.gpus_per_server,) * options.num_servers

    def gpu_slots(self) -> int:
        """Slots of each GPU of the cluster, which jobs can share; 1: they have whole GPUs."""
        return 1

    @classmethod
    def of_servers(
        cls,
        num_servers: int,
        gpus_per_server: int,
        kinds: tuple[Any, ...] = (),
        slots: int = 1,
    ) -> dict[str, Any]:
        """The options of a cluster of these servers.

        Args:
          num_servers: servers.
          gpus_per_server: GPUs of each; where they differ, of the largest.
          kinds: servers by their size (``jaxsched.jobs.servers.Kind``), where they differ.
          slots: of each GPU.

        Raises:
          JaxschedError: the options cannot say so.
        """
        if slots > 1:
            raise JaxschedError(
                f"{cls.name}: its environment has no slots of GPUs; accepted: servers x GPUs of "
                "each, such as 40x8"
            )
        if kinds:
            raise JaxschedError(
                f"{cls.name}: its environment has no servers of different sizes, types or limits; "
                "accepted: servers x GPUs of each, such as 40x8"
            )
        options: Any = cls
        known = [option.name for option in fields(options)]
        if not set(known) >= _SERVERS:
            raise JaxschedError(
                f"{cls.name}: its environment has no numbers of servers and of their GPUs; "
                f"accepted: its options, which are {', '.join(known)}"
            )
        return {"num_servers": num_servers, "gpus_per_server": gpus_per_server}

    def specs(self, params: PyTree) -> Specs:
        """Observation and action specs together."""
        return Specs(self.observation_spec(params), self.action_spec(params))


class Current(NamedTuple):
    """State of an automatically reset environment.

    The policy's observation is ``env.observe(current.state, params)``, computed at the start of
    the next step: compilers then read the state from memory and do not recompute it.
    """

    state: PyTree
    steps: Array  # int32, steps since the last reset


class Observed(NamedTuple):
    """A policy's inputs: observation and mask."""

    observation: PyTree
    mask: PyTree


def look(env: Environment, current: Current, params: Any) -> Observed:
    """The inputs of the next decision."""
    return Observed(*env.observe(current.state, params))


def drawn_episode(key: PRNGKey, draw: Array, episode: Array | None) -> Array:
    """``episode`` if given, else one of ``draw[1]`` episodes from ``draw[0]`` on; int32 scalar.

    Args:
      key: of the draw; one number is drawn, where ``randint`` would draw three.
      draw: int32 ``[2]``.
      episode: None: draw one.
    """
    if episode is not None:
        return episode
    share = jax.random.uniform(key, dtype=jnp.float32)
    return draw[0] + (share * draw[1]).astype(jnp.int32)


def start(env: Environment, key: PRNGKey, params: Any, episode: Array | None = None) -> Current:
    """Reset into a ``Current``."""
    state, _ = env.reset(key, params, episode)
    return Current(state, jnp.int32(0))


def step_and_reset(
    env: Environment,
    key: PRNGKey,
    current: Current,
    action: PyTree,
    params: Any,
    *,
    time_limit: int | Array | None = None,
    episode: Array | None = None,
) -> tuple[Current, TimeStep]:
    """One step with same-step automatic reset.

    Args:
      env: the environment.
      key: used for the step and for the episode drawn at a reset.
      current: the environment's state.
      action: the action to apply.
      params: environment parameters.
      time_limit: cut episodes (``truncated``) after this many steps; none by default.
      episode: int32 scalar, the episode to start at a reset; drawn with ``key`` if absent.

    Returns:
      The next ``Current`` (of a new episode where this one ended) and the ``TimeStep`` of the
      transition itself, whose observation is the one before the reset.
    """
    step_key, reset_key = jax.random.split(key)
    state, timestep = env.step(step_key, current.state, action, params)
    steps = current.steps + 1
    if time_limit is not None:
        cut = (steps >= time_limit) & ~timestep.terminated
        timestep = timestep._replace(truncated=timestep.truncated | cut)
    if env.reset_on_demand:

        def reset(_: PyTree, given: tuple) -> PyTree:
            return env.reset(*given)[0]

        state = apply_if(timestep.done, reset, state, (reset_key, params, episode), heavy=True)
    else:
        fresh_state, _ = env.reset(reset_key, params, episode)
        state = select(timestep.done, fresh_state, state)
    return Current(state, jnp.where(timestep.done, 0, steps)), timestep


def step_and_look(
    env: Environment,
    key: PRNGKey,
    current: Current,
    action: PyTree,
    params: Any,
    *,
    time_limit: int | Array | None = None,
    episode: Array | None = None,
) -> tuple[Current, Observed, TimeStep]:
    """:func:`step_and_reset` and the next inputs, those of the new episode after a reset.

    For loops that act on the last step's outputs, as clients do. A loop inside a scan is faster
    if it calls :func:`look` at the start of the next step, see :class:`Current`.
    """
    current, timestep = step_and_reset(
        env, key, current, action, params, time_limit=time_limit, episode=episode
    )
    return current, look(env, current, params), timestep
