"""Checks on what a golden case holds, shared by the systems that run it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError

INT32_END = 2**31


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
