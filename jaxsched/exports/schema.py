"""Checks documents against the JSON Schemas that come with the package.

The schemas keep to the words below, a small part of JSON Schema 2020-12, so that no further package
is needed to check what a stranger handed over.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.exports.folder import read_file, reason_of

MOST_BYTES = 2**26  # of a document

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda x: isinstance(x, dict),
    "array": lambda x: isinstance(x, list),
    "string": lambda x: isinstance(x, str),
    "integer": lambda x: isinstance(x, int) and not isinstance(x, bool),
    "number": lambda x: (
        (isinstance(x, int) and not isinstance(x, bool))
        or (isinstance(x, float) and math.isfinite(x))
    ),
    "null": lambda x: x is None,
}
_LEAST: dict[str, Callable[[Any], Any]] = {
    "minimum": lambda x: x,
    "minItems": len,
    "minLength": len,
}
_MOST: dict[str, Callable[[Any], Any]] = {"maximum": lambda x: x, "maxItems": len, "maxLength": len}


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema of that name: ``policy_1``, ``policy_2`` or ``environment_1``."""
    text = (resources.files("jaxsched.exports") / f"{name}.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def read_json(file: Path) -> Any:
    """A JSON file of a stranger.

    Raises:
      JaxschedError: it cannot be read, is too long, or no JSON.
    """
    data = read_file(file, MOST_BYTES)
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise JaxschedError(f"{file}: cannot be read: {reason_of(error)}") from error


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def check_document(document: Any, name: str) -> None:
    """Refuse a document that is not as a schema says.

    Args:
      document: as read from JSON.
      name: of the schema.

    Raises:
      JaxschedError: the first thing that differs, and where.
    """
    whole = schema(name)
    _check(document, whole, whole, "")


def _check(x: Any, rule: Mapping[str, Any], whole: Mapping[str, Any], where: str) -> None:
    if "$ref" in rule:
        rule = whole["$defs"][rule["$ref"].rpartition("/")[2]]
    here = where or "the document"
    kinds = rule.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](x) for kind in kinds):
        raise JaxschedError(f"{here} is {_shown(x)}; accepted: {' or '.join(kinds)}")
    if "const" in rule and (x != rule["const"] or isinstance(x, bool)):
        raise JaxschedError(f"{here} is {_shown(x)}; accepted: {rule['const']!r}")
    if "enum" in rule and x not in rule["enum"]:
        raise JaxschedError(f"{here} is {_shown(x)}; accepted: {', '.join(rule['enum'])}")
    for word, size in _LEAST.items():
        if word in rule and size(x) < rule[word]:
            raise JaxschedError(f"{here} is {_shown(x)}; its {word} is {rule[word]}")
    for word, size in _MOST.items():
        if word in rule and size(x) > rule[word]:
            raise JaxschedError(f"{here} is {_shown(x)}; its {word} is {rule[word]}")
    if "pattern" in rule and not re.search(rule["pattern"], x):
        raise JaxschedError(f"{here} is {_shown(x)}; accepted: {rule['pattern']}")
    if isinstance(x, dict):
        _check_object(x, rule, whole, where)
    elif isinstance(x, list) and "items" in rule:
        for index, item in enumerate(x):
            _check(item, rule["items"], whole, f"{where}[{index}]")


def _check_object(
    x: Mapping[str, Any], rule: Mapping[str, Any], whole: Mapping[str, Any], where: str
) -> None:
    for name in rule.get("required", ()):
        if name not in x:
            raise JaxschedError(f"{where or 'the document'} lacks {name!r}")
    described, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    for name, value in x.items():
        place = f"{where}.{name[:60]}" if where else name[:60]
        if name in described:
            _check(value, described[name], whole, place)
        elif others is False:
            known = ", ".join(described)
            raise JaxschedError(f"{place} is not accepted here; accepted: {known}")
        elif others is not True:
            _check(value, others, whole, place)


def _shown(x: Any) -> str:
    """A value in few words."""
    if isinstance(x, dict | list):
        return f"{'an object' if isinstance(x, dict) else 'a list'} of {len(x)} entries"
    text = ascii(x)
    return text if len(text) <= 60 else f"{text[:57]}..."
