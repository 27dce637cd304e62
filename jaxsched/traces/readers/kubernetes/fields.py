"""Members of Kubernetes' objects, as the API writes them in JSON."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jaxsched.jobs.columns import describe_value
from jaxsched.traces.readers.json_records import Fail
from jaxsched.traces.trace import LARGEST

_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
    "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(
    r"\+?(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE]([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE])?)",
    re.ASCII,
)
_LONGEST_DATE = 40


def objects(owner: Mapping[str, Any], name: str, fail: Fail) -> list[dict[str, Any]]:
    """A member that is a list of objects; empty where there is none."""
    found = owner.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        fail(f"{name} is {describe_value(found)}; accepted: a list of objects")
    return found


def whole(owner: Mapping[str, Any], name: str, fail: Fail, *, default: int, lowest: int = 0) -> int:
    """A member that is a whole number of 32 bits, from ``lowest`` on."""
    found = owner.get(name)
    if found is None:
        return default
    if (
        isinstance(found, bool)
        or not isinstance(found, int | float)
        or not lowest <= found < 2**31
        or found != int(found)
    ):
        fail(f"{name} is {describe_value(found)}; accepted: a whole number of 32 bits")
    return int(found)


def moment(owner: Mapping[str, Any], name: str, fail: Fail) -> float:
    """A member that is a date with a zone (RFC 3339), as Unix time; NaN: there is none."""
    found = owner.get(name)
    if found is None:
        return float("nan")
    try:
        if not isinstance(found, str) or len(found) > _LONGEST_DATE:
            raise ValueError
        date = datetime.fromisoformat(found)
        if date.tzinfo is None:
            raise ValueError
        return date.timestamp()
    except (ValueError, OverflowError):
        fail(f"{name} is {describe_value(found)}; accepted: a date such as 2026-10-01T09:30:00Z")


def quantity(value: Any, name: str, fail: Fail) -> float:
    """An amount of a resource, such as ``500m``, ``1Ti`` or ``2``; 0 where there is none.

    Args:
      value: text or number.
      name: of the resource, for messages.
      fail: called with what is wrong.
    """
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(min(value, 2 * LARGEST)) if value >= 0 else -1.0  # also of a NaN
    else:
        match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            fail(f"{name} is {describe_value(value)}; accepted: an amount such as 2, 500m or 1Ti")
        number, exponent, suffix = match.groups()
        found = float(f"{number}e{exponent or 0}") * _SUFFIXES[suffix or ""]
    if not 0 <= found <= LARGEST:
        fail(f"{name} is {describe_value(value)}; accepted: an amount from 0 to {LARGEST:g}")
    return found
