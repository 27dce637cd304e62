"""Trees of named tuples as trees of dictionaries, which other projects know, and back."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.types import ArraySpec, DiscreteSpec, PyTree

MaskHome = Literal["info", "observation"]
Output = Literal["numpy", "jax"]

ACTION_MASK = "action_mask"


def check_choices(mask: str, output: str = "numpy") -> None:
    """Refuse options that are not among the choices.

    Raises:
      JaxschedError: one of them is not.
    """
    for name, value, choices in (("mask", mask, MaskHome), ("output", output, Output)):
        if value not in get_args(choices):
            accepted = " or ".join(map(repr, get_args(choices)))
            raise JaxschedError(f"{name} is {value!r}; accepted: {accepted}")


def to_containers(
    tree: PyTree, leaf: Callable[[Any], Any], node: Callable[[Any], Any] = lambda parts: parts
) -> Any:
    """A tree with dictionaries in place of named tuples, without fields that are None.

    Args:
      tree: of arrays or of specs.
      leaf: applied to each leaf.
      node: applied to each dictionary and tuple, leaves first.
    """
    if hasattr(tree, "_asdict"):
        tree = {name: part for name, part in tree._asdict().items() if part is not None}
    if isinstance(tree, Mapping):
        return node({name: to_containers(part, leaf, node) for name, part in tree.items()})
    if isinstance(tree, tuple | list):
        return node(tuple(to_containers(part, leaf, node) for part in tree))
    return leaf(tree)


def structured(spec: PyTree, value: Any) -> PyTree:
    """What ``to_containers`` made of an action, as the environment takes it: the tree of its spec.

    Arrays have the dtypes of the spec, and any leading axes.
    """
    if hasattr(spec, "_asdict"):
        parts = spec._asdict().items()
        return type(spec)(**{n: p if p is None else structured(p, value[n]) for n, p in parts})
    if isinstance(spec, Mapping):
        return {name: structured(part, value[name]) for name, part in spec.items()}
    if isinstance(spec, tuple | list):
        return tuple(structured(part, one) for part, one in zip(spec, value, strict=True))
    dtype = jnp.int32 if isinstance(spec, DiscreteSpec) else spec.dtype
    return value.astype(dtype) if hasattr(value, "astype") else np.asarray(value, dtype)


def number(leaf: Any) -> Any:
    """An array whose truth values are int8, as samplers of other projects want masks."""
    return leaf.astype(jnp.int8) if leaf.dtype == jnp.bool_ else leaf


def number_spec(leaf: ArraySpec) -> ArraySpec:
    """The spec of :func:`number`."""
    if leaf.dtype != jnp.bool_:
        return leaf
    return ArraySpec(leaf.shape, jnp.int8, 0, 1, leaf.names)


def with_mask(observation: Any, mask: Any) -> dict[str, Any]:
    """Observation and mask in one dictionary: the entry ``action_mask`` beside the others.

    An observation that is not a dictionary is the entry ``observation``.
    """
    parts = observation if isinstance(observation, dict) else {"observation": observation}
    return {**parts, ACTION_MASK: mask}


def mask_spec(env: Environment, params: Any) -> Any:
    """Spec of the mask as ``to_containers`` and ``number`` make it; the reset is traced for it."""

    def first_mask() -> Any:
        _, timestep = env.reset(jax.random.key(0), params)
        return to_containers(timestep.action_mask, number)

    shapes = jax.eval_shape(first_mask)
    return to_containers(shapes, lambda leaf: ArraySpec(leaf.shape, leaf.dtype, 0, 1))


def observation_spec(env: Environment, params: Any, mask: str) -> Any:
    """Spec of what an adapter shows, the mask among it if ``mask`` is ``observation``."""
    spec = to_containers(env.observation_spec(params), number_spec)
    return with_mask(spec, mask_spec(env, params)) if mask == "observation" else spec


def bounds(spec: ArraySpec) -> tuple[Any, Any]:
    """Least and largest value of an entry, in the range of its dtype."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return dtype.type(spec.minimum), dtype.type(spec.maximum)
    limits = np.iinfo(dtype)
    return (
        dtype.type(max(spec.minimum, limits.min)),
        dtype.type(min(spec.maximum, limits.max)),
    )
