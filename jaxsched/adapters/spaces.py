"""Specs as the spaces of Gymnasium, which PettingZoo and Stable-Baselines3 take as well.

Spaces of actions are Gymnasium's own, except that ``sample(mask)`` takes the masks that the
environments give (:func:`action_space_of`): Gymnasium wants a tuple of arrays for the actions of a
vector environment, and knows no masks of continuous actions.
"""

from typing import Any

import numpy as np

from jaxsched.adapters.containers import bounds, to_containers
from jaxsched.errors import JaxschedError, needed
from jaxsched.types import ArraySpec, DiscreteSpec, PyTree

spaces: Any = needed("gymnasium.spaces", "adapters")


def space_of(spec: PyTree) -> Any:
    """The space of a tree of specs: ``Dict`` and ``Tuple`` of ``Discrete`` and ``Box``.

    A row of truth values is ``MultiBinary`` (int8).
    """
    return to_containers(spec, _leaf, _node)


def action_space_of(spec: PyTree, num_envs: int | None = None) -> Any:
    """The space of actions, or of those of ``num_envs`` copies; ``sample`` takes our masks.

    Args:
      spec: of an action.
      num_envs: copies of a vector environment; one environment if absent.
    """
    space = space_of(spec)
    if num_envs is not None:
        batch_space = needed("gymnasium.vector.utils", "adapters").batch_space
        space = batch_space(space, num_envs)
    return _masked(space)


class MaskedDiscrete(spaces.Discrete):
    """``Discrete`` whose ``sample`` takes a mask ``[A]`` of numbers or truth values."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """An action; of those whose entry of the mask is not 0, if there is one."""
        given = None if mask is None else _truth(mask)
        return super().sample(given, **_probability(probability))


class MaskedMultiDiscrete(spaces.MultiDiscrete):
    """``MultiDiscrete`` whose ``sample`` takes masks ``[num_envs, A]`` as one array, too."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """An action of each copy; of those whose entry of the mask is not 0, if there is one."""
        given = None if mask is None else tuple(_truth(one) for one in mask)
        return super().sample(given, **_probability(probability))


class MaskedBox(spaces.Box):
    """``Box`` whose ``sample`` takes a mask of its leading axes: of the jobs that are there."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Numbers within the bounds; 0, or the bound next to it, where the mask is 0.

        Raises:
          JaxschedError: the mask is not of leading axes.
        """
        drawn = super().sample(**_probability(probability))
        if mask is None:
            return drawn
        given = _truth(mask)
        if given.shape != self.shape[: given.ndim]:
            raise JaxschedError(
                f"a mask has the shape {list(given.shape)}; accepted: leading axes of "
                f"{list(self.shape)}"
            )
        counts = given.reshape(given.shape + (1,) * (drawn.ndim - given.ndim)) != 0
        return np.where(counts, drawn, np.clip(0, self.low, self.high)).astype(self.dtype)


class MaskedDict(spaces.Dict):
    """``Dict`` whose ``sample`` takes one mask for all parts, too."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Each part, drawn with the mask, or with its own one of a dictionary."""
        if mask is not None and not isinstance(mask, dict):
            mask = dict.fromkeys(self.spaces, mask)
        return super().sample(mask, **_probability(probability))


def _masked(space: Any) -> Any:
    """The same space of ours; others, which have no masks, as they are."""
    if type(space) is spaces.Dict:
        return MaskedDict({name: _masked(part) for name, part in space.spaces.items()})
    if type(space) is spaces.Discrete:
        return MaskedDiscrete(int(space.n))
    if type(space) is spaces.MultiDiscrete:
        return MaskedMultiDiscrete(space.nvec, space.dtype)
    if type(space) is spaces.Box:
        return MaskedBox(space.low, space.high, space.shape, space.dtype)
    return space


def _truth(mask: Any) -> np.ndarray:
    """A mask as Gymnasium wants it."""
    return (np.asarray(mask) != 0).astype(np.int8)


def _probability(probability: Any) -> dict[str, Any]:
    """The argument that Gymnasium has had since 1.1, where it is given."""
    return {} if probability is None else {"probability": probability}


def _node(parts: Any) -> Any:
    return spaces.Dict(parts) if isinstance(parts, dict) else spaces.Tuple(parts)


def _leaf(spec: ArraySpec | DiscreteSpec) -> Any:
    if isinstance(spec, DiscreteSpec):
        return spaces.Discrete(spec.num_actions)
    dtype = np.dtype(spec.dtype)
    if dtype == np.int8 and (spec.minimum, spec.maximum) == (0, 1) and len(spec.shape) == 1:
        return spaces.MultiBinary(*spec.shape)  # a number: TorchRL knows no shapes of it
    low, high = bounds(spec)
    return spaces.Box(low, high, spec.shape, dtype)
