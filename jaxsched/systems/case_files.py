"""Golden cases in files, played; results have the layout of the case's ``expect``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.files import read_json
from jaxsched.systems import golden, registry
from jaxsched.systems.cases import under_policy, with_table
from jaxsched.systems.system import System


def run_file(path: Path, policy: str | None) -> tuple[dict[str, Any] | None, list[str]]:
    """Play a case file: one case, several under ``cases``, or under ``reject`` tables to refuse.

    Args:
      path: of the file.
      policy: rule that plays the cases, ``RULE`` or ``SYSTEM/RULE``; None: as each case says.

    Returns:
      The result in the layout of the case's ``expect``, and a line for each table that is refused.

    Raises:
      JaxschedError: no case file, or the one case is refused.
    """
    case = read_json(path)
    if not isinstance(case, Mapping) or not isinstance(case.get("system"), str):
        raise JaxschedError('is not a case: expected an object with "system"')
    system = registry.get(case["system"])
    for key in ("cases", "reject"):
        if key in case:
            return _run_each(system, case[key], key, path.parent, policy)
    return _simulated(system, case, path.parent, policy), []


def _simulated(
    system: System, case: Mapping[str, Any], folder: Path, policy: str | None
) -> dict[str, Any]:
    """The result of one case, under the policy that is asked for if there is one."""
    played = under_policy(case, system.name, policy)
    return in_layout(golden.simulate(system, with_table(played, folder)), played.get("expect"))


def _run_each(
    system: System, entries: Any, key: str, folder: Path, policy: str | None
) -> tuple[dict[str, Any], list[str]]:
    """The same of a file that lists cases, or tables that must be refused, under ``key``."""
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise JaxschedError(f"{key!r} must be a list of objects")
    verdict = "refused" if key == "reject" else "reject"
    results: list[dict[str, Any]] = []
    refusals = []
    for index, entry in enumerate(entries):
        actions: dict[str, Any] = {} if "policy" in entry else {"actions": []}
        try:
            result = _simulated(system, {**actions, **entry}, folder, policy)
        except JaxschedError as error:
            results.append({verdict: True, "error": str(error)})
            refusals.append(f"{key}[{index}]: {error}")
        else:
            results.append({verdict: False} if key == "reject" else result)
    return {key: results}, refusals


def in_layout(result: dict[str, Any], expect: Any) -> dict[str, Any]:
    """The result with those entries of its lists of steps that the case's ``expect`` lists.

    Cases record the first steps and later only some. Entries are chosen by their ``step`` where
    they have one, else by their ``slot``, else from the start; values are untouched. Everything is
    kept where ``expect`` is absent or lists something else.
    """
    if not isinstance(expect, Mapping):
        return result
    chosen = dict(result)
    for name, rows in expect.items():
        found = result.get(name)
        if name == "jobs" or found is None or not (_is_rows(rows) and _is_rows(found)):
            continue
        both = [*rows, *found]
        key = next((key for key in ("step", "slot") if all(key in row for row in both)), None)
        if key is None:
            chosen[name] = found[: len(rows)]
        else:
            wanted = {row[key] for row in rows}
            chosen[name] = [row for row in found if row[key] in wanted]
    return chosen


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
