"""Compares what ``simulate`` returns with the ``expect`` of a golden case, for every system."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent / "golden"


def golden_files(system: str) -> list[Path]:
    """The golden files of a system, in order."""
    return sorted((GOLDEN / system).glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    """One golden file."""
    return json.loads(path.read_text(encoding="utf-8"))


def differences(
    expected: Any, got: Any, rtol: float = 1e-5, atol_by_key: Mapping[str, float] | None = None
) -> list[str]:
    """What is wrong with ``got``, one line each; empty if it agrees.

    Every key of ``expected`` must be in ``got``, which may have more. Lists have equal lengths.
    Whole numbers, booleans, strings and null must be equal; other numbers agree to ``rtol``, and
    those below a key of ``atol_by_key`` to that absolute tolerance as well.

    Args:
      expected: what a JSON file holds.
      got: what came out.
      rtol: relative tolerance.
      atol_by_key: absolute tolerance by the innermost key; 0 for other keys.
    """
    return _walk(expected, got, "", 0.0, rtol, atol_by_key or {})


def _walk(
    expected: Any, got: Any, where: str, atol: float, rtol: float, atols: Mapping[str, float]
) -> list[str]:
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return [_line(where, expected, got)]
        found = []
        for key, value in expected.items():
            path = f"{where}.{key}" if where else key
            if key not in got:
                found.append(f"{path}: missing")
            else:
                found += _walk(value, got[key], path, atols.get(key, 0.0), rtol, atols)
        return found
    if isinstance(expected, list):
        if not isinstance(got, list):
            return [_line(where, expected, got)]
        if len(got) != len(expected):
            return [f"{where}: {len(expected)} entries expected, got {len(got)}"]
        found = []
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            found += _walk(one, other, f"{where}[{index}]", atol, rtol, atols)
        return found
    same = _same_number if _is_number(expected) and _is_number(got) else _identical
    return [] if same(expected, got, rtol, atol) else [_line(where, expected, got)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same_number(expected: float, got: float, rtol: float, atol: float) -> bool:
    if isinstance(expected, int):
        return got == expected
    return math.isfinite(got) and abs(got - expected) <= atol + rtol * abs(expected)


def _identical(expected: Any, got: Any, rtol: float, atol: float) -> bool:
    del rtol, atol
    return type(expected) is type(got) and expected == got


def _line(where: str, expected: Any, got: Any) -> str:
    return f"{where}: expected {str(expected)[:80]}, got {str(got)[:80]}"
