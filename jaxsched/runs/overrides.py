"""Overrides of a recipe as ``path=value`` each: ``loop.num_envs=128``."""

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from jaxsched.arguments import LARGEST, argument, change_of_environment, entry_of
from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.systems.paths import full_path, holder_of, names_of, parts_of, value_of

Recipe = TypeVar("Recipe")
Env = TypeVar("Env")


def _of_recipe(path: str) -> str:
    return entry_of("set", path)


def override(
    recipe: Recipe, assignments: Sequence[str], called: Callable[[str], str] = _of_recipe
) -> Recipe:
    """A copy of a tree of frozen dataclasses and named tuples with some leaves changed.

    Args:
      recipe: a frozen dataclass whose fields are numbers, strings, flags or such trees.
      assignments: ``path=value`` each, the path dotted, the value a number, ``true``, ``false``,
        ``null`` (also for a group that may be absent), a word, or a list as ``[1, 2]``.
      called: what messages call a change, by its path.

    Raises:
      JaxschedError: no such field, or a value of the wrong type or out of range.
    """
    changes: dict[str, Any] = {}
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator or not path:
            raise JaxschedError(f"{called(assignment)}: expected path=value")
        path = path.strip()
        _collect(recipe, path.split("."), text.strip(), path, called(path), changes)
    return _replace(recipe, changes)


def changed(system: Any, recipe: Recipe, assignments: Sequence[str]) -> Recipe:
    """``override`` of a system's recipe; an error names the present word for a former one.

    Raises:
      JaxschedError: a former word, or what ``override`` refuses.
    """
    for assignment in assignments:
        path = assignment.partition("=")[0].strip()
        for former, present in system.recipes.former_settings.items():
            inner = path.startswith(f"{former}.") and holder_of(recipe, path) is None
            if path == former or inner:
                words = present + path.removeprefix(former)
                raise JaxschedError(f"{_of_recipe(path)}: is no more; accepted: {words}")
    return override(recipe, assignments)


class _Holder(NamedTuple):
    """A recipe that holds only the environment of an evaluation."""

    env: Any


def change_environment(env: Env, assignments: Sequence[str]) -> Env:
    """An environment with other options.

    Args:
      env: a frozen dataclass.
      assignments: ``env.NAME=VALUE`` each, as ``override`` takes them.

    Raises:
      JaxschedError: no such option, or a value that it does not take.
    """
    changed: Env = override(_Holder(env), assignments, change_of_environment).env
    return changed


def environment_settings(options: Mapping[str, Any]) -> list[str]:
    """Options of an environment as ``env.NAME=VALUE`` each."""
    return [f"env.{name}={json.dumps(value)}" for name, value in options.items()]


def read_options(assignments: Sequence[str]) -> dict[str, Any]:
    """Options of an environment or of heuristics, ``name=value`` each; values as in JSON, or words.

    Raises:
      JaxschedError: one is not of that form.
    """
    options = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or not name:
            raise JaxschedError(f"{argument('options')} {assignment}: expected name=value")
        options[name] = value = _value(text)
        if _is_number(value) and not _fits(value, float):
            raise JaxschedError(f"{entry_of('options', name)}: {describe_value(text)} is too large")
    return options


def _collect(
    node: Any, path: list[str], text: str, whole: str, called: str, changes: dict[str, Any]
) -> None:
    """Check one assignment and note it in the tree of changes."""
    name, *rest = full_path(node, path)
    if name not in names_of(node):
        last = [*parts_of(node).values()][-1:]
        known = ", ".join(dict.fromkeys(one for group in (node, *last) for one in names_of(group)))
        raise JaxschedError(f"{called}: no field {name!r}; known are {known}")
    value = value_of(node, name)
    if names_of(value):
        if not rest and text == "null" and _fits(None, _hint(node, name)):
            changes[name] = None
            return
        if not rest and text == "null" and name in parts_of(node):
            raise JaxschedError(f"{called}: a stage is left out by {whole}.skip=true")
        if not rest:
            inner = ", ".join(f"{whole}.{inner}" for inner in names_of(value))
            raise JaxschedError(f"{called}: is a group; set one of {inner}")
        _collect(value, rest, text, whole, called, changes.setdefault(name, {}))
        return
    if rest:
        raise JaxschedError(f"{called}: {name!r} has no fields")
    changes[name] = _parse(text, _hint(node, name), called)


def _hint(node: Any, name: str) -> Any:
    """The type that a field accepts; of a mapping that of its value."""
    if isinstance(node, Mapping):
        return type(node[name])
    return typing.get_type_hints(type(node)).get(name)


def _replace(node: Any, changes: dict[str, Any]) -> Any:
    """All changes of a dataclass at once, since they may only fit together."""
    values = {
        name: _replace(value_of(node, name), change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    parts = parts_of(node)
    if parts:
        values[node.named_parts] = tuple(values.pop(name, part) for name, part in parts.items())
    if isinstance(node, Mapping):
        return {**node, **values}
    if hasattr(node, "_replace"):
        return node._replace(**values)
    return dataclasses.replace(node, **values)


def _parse(text: str, accepted: Any, called: str) -> Any:
    value = _value(text)
    if _fits(value, accepted):
        if typing.get_origin(accepted) is tuple:
            return tuple(value)
        return float(value) if accepted is float else value
    raise JaxschedError(f"{called}: {describe_value(text)} is not {_describe(accepted)}")


def _value(text: str) -> Any:
    """The text's value in JSON; the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:  # no JSON, or a number with too many digits
        return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(value: Any, accepted: Any) -> bool:
    if typing.get_origin(accepted) is typing.Literal:
        return value in typing.get_args(accepted)
    if isinstance(accepted, types.UnionType) or typing.get_origin(accepted) is typing.Union:
        return any(_fits(value, option) for option in typing.get_args(accepted))
    if typing.get_origin(accepted) is tuple:  # any number of one type
        member = typing.get_args(accepted)[0]
        return isinstance(value, list) and all(_fits(entry, member) for entry in value)
    if accepted is float:
        return _is_number(value) and abs(value) <= sys.float_info.max  # NaN is not
    if accepted is int:
        return _is_number(value) and isinstance(value, int) and abs(value) <= LARGEST
    return accepted in (str, bool, type(None)) and isinstance(value, accepted)


def _describe(accepted: Any) -> str:
    if typing.get_origin(accepted) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(accepted)))
    if isinstance(accepted, types.UnionType):
        return " or ".join(_describe(option) for option in typing.get_args(accepted))
    if typing.get_origin(accepted) is tuple:
        return f"a list as [1, 2], each {_describe(typing.get_args(accepted)[0])}"
    words = {
        int: f"a whole number from {-LARGEST} to {LARGEST}",
        float: "a number",
        bool: "true or false",
        str: "a word",
    }
    return words.get(accepted, "null")
