"""Plays golden cases for their results; pictures are made from the same ``Episode``."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from jaxsched.core.trajectory import Trajectory, record_trajectory
from jaxsched.errors import JaxschedError
from jaxsched.systems.cases import Content, Episode
from jaxsched.systems.system import System


def simulate(system: System, case: Mapping[str, Any]) -> dict[str, Any]:
    """Run a golden case; the result has the layout of its ``expect``.

    Raises:
      JaxschedError: a bad case, or the system has none.
    """
    with precision(system):
        return result(system, _read(system, case))


def episode_of(system: System, case: Mapping[str, Any]) -> Episode:
    """A golden case that is an episode, ready to be played in ``precision(system)``.

    Of several episodes the first.

    Raises:
      JaxschedError: a bad case, one that is no episode, or the system has none.
    """
    with precision(system):
        content: Content | None = _read(system, case)
    while isinstance(content, Mapping):
        content = next(iter(content.values()), None)
    if not isinstance(content, Episode):
        kind = case.get("kind")
        raise JaxschedError(
            f"{system.name}: a case of kind {kind!r} has no schedule; accepted: episode"
        )
    return content


def precision(system: System) -> AbstractContextManager[Any]:
    """Precision of the system's cases: float64 where they ask for it."""
    return jax.enable_x64(True) if system.cases.double else nullcontext()


def play(system: System, episode: Episode) -> Trajectory:
    """The trajectory of an episode, with the moments that its result needs."""
    return record_trajectory(
        episode.env,
        episode.policy,
        system.log.recording(episode.env).recorder,
        episode.params,
        episode.kept,
        weights=episode.weights,
        most_steps=episode.most_steps,
        past_end=episode.past_end,
        state=episode.state,
    )


def result(
    system: System, content: Content, found: dict[int, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The result of a case; an episode under several names is played once.

    Args:
      system: of the case.
      content: the case as the system's reader returns it.
      found: results of episodes that were played before, by identity.
    """
    found = {} if found is None else found
    if isinstance(content, Mapping):
        return {name: result(system, part, found) for name, part in content.items()}
    if not isinstance(content, Episode):
        return content()
    if id(content) not in found:
        trajectory = play(system, content)
        found[id(content)] = content.result(
            trajectory, _metrics(system, content, trajectory.records)
        )
    return found[id(content)]


def _read(system: System, case: Mapping[str, Any]) -> Content:
    if system.cases.read is None:
        raise JaxschedError(f"{system.name}: runs no cases")
    return system.cases.read(case)


def _metrics(system: System, episode: Episode, records: Any) -> dict[str, Any]:
    """Metrics of the only episode, by name."""
    batched = jax.tree.map(lambda leaf: np.asarray(leaf)[None], records)
    values = system.log.metrics(episode.env, episode.params, np.zeros(1, int), batched)
    whole = system.cases.whole
    return {name: (int if name in whole else float)(value[0]) for name, value in values.items()}
