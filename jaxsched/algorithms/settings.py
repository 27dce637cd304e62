"""Settings of a learner in one dataclass that says which of its numbers are traced.

Integers and options are static. A float declared with :func:`traced` becomes a float32 scalar in
the learner's state (:func:`traced_values`), so that changing it compiles nothing and a sweep over
it is a vmap over states that differ in ``hyper``.
"""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import field, fields
from functools import cache
from typing import Any

import jax.numpy as jnp

from jaxsched.types import Array


def traced(default: float | None, *, absent: float | str | Callable[[Any], str] = "") -> Any:
    """A float of a settings dataclass that is traced.

    Args:
      default: its default value.
      absent: what stands for ``None``: a number, the name of the field whose value it takes, or a
        function of the settings that gives that name.
    """
    return field(default=default, metadata={"traced": True, "absent": absent})


def traced_values(settings: Any) -> Any:
    """The traced floats of settings, a named tuple of float32 scalars called as the fields."""
    absent: dict[str, Any] = {
        f.name: f.metadata["absent"] for f in fields(settings) if f.metadata.get("traced")
    }

    def value(name: str) -> float:
        given, instead = getattr(settings, name), absent[name]
        if given is not None:
            return float(given)
        if callable(instead):
            instead = instead(settings)
        return value(instead) if isinstance(instead, str) else float(instead)

    kind = _named_tuple(f"{type(settings).__name__}Traced", tuple(absent))
    return kind(*(jnp.asarray(value(name), jnp.float32) for name in absent))


@cache
def _named_tuple(name: str, names: tuple[str, ...]) -> Any:
    """One type per settings class: trees of different types have different structures."""
    return namedtuple(name, names)  # noqa: PYI024


def linear(start: Array, end: Array, progress: Array) -> Array:
    """A schedule: from ``start`` at progress 0 to ``end`` at 1 and beyond."""
    return start + (end - start) * jnp.clip(progress, 0.0, 1.0)
