"""Functions whose compiled programs do not pile up."""

from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any, TypeVar

import jax

from jaxsched.ops import target

Result = TypeVar("Result")

MOST_PROGRAMS = 2
"""Compiled programs of a function that are kept; calls that share one come one after the other."""


def bounded_programs(
    num_static: int = 1, most: int = MOST_PROGRAMS
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """``jax.jit`` of which only the last few programs of a function stay in memory.

    Args:
      num_static: so many of the function's first arguments are static (and hashable), such as the
        environment; all others are trees of arrays. All are given by position.
      most: programs that are kept. Other static arguments, shapes or dtypes are another program.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        @lru_cache(maxsize=most)
        def compiled(static: tuple[Any, ...], layout: Any, traced_for: str) -> Callable[..., Any]:
            del layout, traced_for
            return jax.jit(partial(function, *static))

        @wraps(function)
        def call(*arguments: Any) -> Result:
            static, traced = arguments[:num_static], arguments[num_static:]
            leaves, structure = jax.tree.flatten(traced)
            shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
            result: Result = compiled(static, (structure, shapes), target.platform())(*traced)
            return result

        return call

    return decorate
