"""What the systems that run golden cases share: checks on a case, and programs kept in memory."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import jax

from jaxsched.errors import JaxschedError
from jaxsched.ops import target

Result = TypeVar("Result")

INT32_END = 2**31
MOST_PROGRAMS = 2
"""Compiled programs of a function that are kept; cases that share one come one after the other."""


def keyed(value: Any, name: str, known: Sequence[str]) -> Mapping[str, Any]:
    """``value`` itself, if it is an object with known keys only.

    Raises:
      JaxschedError: it is not; the message calls it ``name``.
    """
    if not isinstance(value, Mapping):
        raise JaxschedError(f"{name!r} must be an object, not {type(value).__name__}")
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise JaxschedError(f"{name}: unknown key {unknown[0]!r}; known are {', '.join(known)}")
    return value


def list_of(case: Mapping[str, Any], key: str) -> list[Any]:
    """The list under ``key``.

    Raises:
      JaxschedError: there is none.
    """
    value = case.get(key)
    if not isinstance(value, list):
        raise JaxschedError(f"{key!r} must be a list, not {type(value).__name__}")
    return value


def actions_of(case: Mapping[str, Any], *, end: int | None = INT32_END) -> list[int]:
    """The list of actions.

    Args:
      case: the case.
      end: whole numbers from here on, and their negatives, are refused; None: none are.

    Raises:
      JaxschedError: not a list, or an entry is no such number.
    """
    actions = list_of(case, "actions")
    for index, action in enumerate(actions):
        whole = isinstance(action, int) and not isinstance(action, bool)
        if not whole or (end is not None and abs(action) >= end):
            raise JaxschedError(f"actions: entry {index} must be a whole number, not {action!r}")
    return actions


def with_table(case: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The case with its ``table``, if it names one, as the path of that file in ``folder``.

    The file may stand there with or without ``.gz``.

    Raises:
      JaxschedError: ``table`` is no name of a file there.
    """
    if "table" not in case:
        return case
    name = case["table"]
    if not isinstance(name, str) or name != os.path.basename(name):
        raise JaxschedError(f"table is {name!r}; accepted: the name of a file beside the case")
    other = name.removesuffix(".gz") if name.endswith(".gz") else f"{name}.gz"
    for candidate in (name, other):
        path = folder.resolve() / candidate
        if os.path.isfile(path):
            return {**case, "table": str(path)}
    raise JaxschedError(f"table: neither {name!r} nor {other!r} lies beside the case")


DECIDED = ("actions", "after_actions", "policy", "expect", "expect_by_policy")
"""What a case says of its decisions and results."""


def under_policy(case: Mapping[str, Any], system: str, word: str | None = None) -> dict[str, Any]:
    """A case whose policy, if it has one, is the rule's own name.

    Args:
      case: the case; its ``policy`` may be ``RULE`` or ``SYSTEM/RULE``.
      system: name of its system.
      word: policy that plays in place of what the case decides; None: as the case says.

    Raises:
      JaxschedError: the policy is of another system, or a trained one, which cases do not play.
    """
    if word is not None:
        case = {key: value for key, value in case.items() if key not in DECIDED}
        case["policy"] = word
    typed = case.get("policy")
    if not isinstance(typed, str):
        return dict(case)
    head, slash, name = typed.partition("/")
    if slash and head != system:
        raise JaxschedError(f"policy is {typed!r}; accepted: {system}/RULE, or RULE alone")
    rule = name if slash else typed
    if rule == "pretrained" or rule.startswith("pretrained-"):
        raise JaxschedError(
            f"policy is {typed!r}; accepted: a rule, since trained policies play job tables "
            "(evaluate, compare, replay)"
        )
    return {**case, "policy": rule}


def moment(time_s: Any) -> float | None:
    """A time of a result (s); None for what never happened, which records have below 0."""
    return float(time_s) if time_s >= 0 else None


def whole_moment(time_s: Any) -> int | None:
    """The same of times that are whole numbers."""
    return int(time_s) if time_s >= 0 else None


def shared_length(num_jobs: int) -> int:
    """Length to pad a table to, so that few lengths serve all: 64, 256, 1024, ... jobs."""
    length = 64
    while length < num_jobs:
        length *= 4
    return length


def bounded_programs(
    num_static: int = 1, most: int = MOST_PROGRAMS
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """``jax.jit`` for runners of cases: only the last few programs of a function stay in memory.

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
