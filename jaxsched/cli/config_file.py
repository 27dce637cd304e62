"""Options in a TOML file: read with ``--config``, written beside every run so that it repeats it.

    command = "train"
    system = "NAME"
    preset = "plain-ppo"
    num-seeds = 5

    [set]
    "loop.num_envs" = 256

Keys are the names of arguments and of long options; an option that may be repeated takes a list,
or a table where its values are ``name=value``.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError


def expand(command: Any, path: str | Path, typed: list[str], num_typed: int) -> list[str]:
    """The words of a command line that a file and what was typed make together.

    Args:
      command: the command, with its parameters.
      path: the file.
      typed: what was typed after the command, which wins over the file; options that may be
        repeated add to it.
      num_typed: arguments among them; the file gives those that are left.

    Raises:
      JaxschedError: the file cannot be read, is for another command, or has a key or a value that
        the command does not.
    """
    entries = _read(path)
    named = entries.pop("command", command.name)
    if named != command.name:
        raise JaxschedError(f"{path}: is for the command {named!r}, not for {command.name!r}")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = {_key(p): p for p in command.params if p.param_type_name == "option"}
    positional = [entries.pop(_key(p), None) for p in arguments]
    words: list[str] = []
    for key, value in entries.items():
        if key not in options:
            known = ", ".join(["command", *map(_key, arguments), *options])
            raise JaxschedError(f"{path}: no option {key!r}; known are {known}")
        words += _words(options[key], value, f"{path}: {key}")
    rest = [str(value) for value in positional[num_typed:] if value is not None]
    return [*words, *typed, *rest]


def as_toml(command: str, given: list[tuple[Any, Any]]) -> str:
    """A file that repeats a command.

    Args:
      command: its name.
      given: parameters and their values, those that are not at their defaults.
    """
    lines, tables = [f"command = {json.dumps(command)}"], []
    for parameter, value in given:
        pairs = _pairs(value)
        if pairs is None:
            lines.append(f"{_key(parameter)} = {_value(value)}")
        else:
            tables += ["", f"[{_key(parameter)}]"]
            tables += [f"{json.dumps(name)} = {json.dumps(text)}" for name, text in pairs.items()]
    return "\n".join([*lines, *tables]) + "\n"


def _read(path: str | Path) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise JaxschedError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise JaxschedError(f"{path}: is not TOML: {error}") from error


def _key(parameter: Any) -> str:
    """Name in a file: the first long option without its dashes, or the argument's name."""
    if parameter.param_type_name == "argument":
        return str(parameter.name)
    return next(word[2:] for word in parameter.opts if word.startswith("--"))


def _words(option: Any, value: Any, where: str) -> list[str]:
    """What one would type for a value."""
    name = f"--{_key(option)}"
    if option.is_flag:
        if not isinstance(value, bool):
            raise JaxschedError(f"{where} is {value!r}; accepted: true, false")
        return [name] if value else list(option.secondary_opts[:1])
    if isinstance(value, dict) and option.multiple:
        value = [f"{path}={_typed(entry, where)}" for path, entry in _leaves(value, "")]
    several = value if isinstance(value, list) else [value]
    if len(several) != 1 and not option.multiple:
        raise JaxschedError(f"{where} is a list; accepted: one value")
    return [word for one in several for word in (name, _typed(one, where))]


def _leaves(table: dict[str, Any], before: str) -> list[tuple[str, Any]]:
    """Dotted paths and values; ``[set.loop]`` with ``num_envs = 2`` is ``loop.num_envs``."""
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        inner = isinstance(value, dict)
        found += _leaves(value, f"{before}{name}.") if inner else [(f"{before}{name}", value)]
    return found


def _typed(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | list):
        return json.dumps(value)
    raise JaxschedError(f"{where}: {type(value).__name__} is no value of an option")


def _pairs(value: Any) -> dict[str, str] | None:
    """``name=value`` each, as a table; None where that is not what the values are."""
    if not isinstance(value, list | tuple) or not value:
        return None
    parts = [str(entry).partition("=") for entry in value]
    names = {name for name, _, _ in parts}
    if len(names) < len(parts) or not all(name and sign for name, sign, _ in parts):
        return None
    return {name: text for name, _, text in parts}


def _value(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(str(value))
