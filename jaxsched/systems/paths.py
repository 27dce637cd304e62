"""Fields of a recipe by their dotted paths, as ``--set`` spells them.

A stage is reached by its name; without one, a field that only stages have is that of the last
stage.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def parts_of(node: Any) -> dict[str, Any]:
    """Parts that are reached by their names: a recipe's stages; nothing else has any."""
    return {part.name: part for part in getattr(node, getattr(node, "named_parts", ""), ())}


def names_of(node: Any) -> list[str]:
    """Fields and named parts of a dataclass, a named tuple or a mapping; none of anything else."""
    if is_dataclass(node):
        own = [field.name for field in fields(node) if field.init]
        return [name for name in own if name != getattr(node, "named_parts", "")] + [
            *parts_of(node)
        ]
    return list(node if isinstance(node, Mapping) else getattr(node, "_fields", ()))


def value_of(node: Any, name: str) -> Any:
    """The value of one of ``names_of``."""
    if isinstance(node, Mapping):
        return node[name]
    return parts_of(node).get(name) or getattr(node, name)


def full_path(node: Any, path: list[str]) -> list[str]:
    """The path, through the last stage if only stages have its first name."""
    parts = parts_of(node)
    if not parts or path[0] in names_of(node):
        return path
    last = next(reversed(parts))
    return [last, *path] if path[0] in names_of(parts[last]) else path


def holder_of(recipe: Any, path: str) -> tuple[Any, str] | None:
    """The object that holds a field, and the field's name in it; None without such a field."""
    node, names = recipe, path.split(".")
    while names:
        name, *names = full_path(node, names)
        if name not in names_of(node):
            return None
        if not names:
            return node, name
        node = value_of(node, name)
    return None


def value_at(recipe: Any, path: str) -> Any:
    """The value of a field; None where there is no such field."""
    found = holder_of(recipe, path)
    return None if found is None else value_of(*found)
