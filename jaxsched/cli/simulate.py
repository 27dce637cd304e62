"""``jaxsched simulate``: golden cases of any kind."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.cli.options import OUTPUT
from jaxsched.cli.output import BAD_INPUT, STDOUT, check_writable, read_json, write_json
from jaxsched.errors import JaxschedError

if TYPE_CHECKING:
    from jaxsched.systems.base import System


def simulate(
    cases: Annotated[list[Path], typer.Argument(help="Case files (JSON).")],
    policy: Annotated[
        str | None,
        typer.Option(
            help="Play the cases under this rule of their system: RULE or SYSTEM/RULE.",
            show_default="as each case says",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", help="Write the result of the one case here.", rich_help_panel=OUTPUT
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write one result per case into this folder.")
    ] = None,
) -> int:
    """Run cases and write for each an object in the layout of its ``expect``.

    A file may hold one case, or several under "cases". A table that must be refused gives one line
    and exit status 2; the other cases still run.
    """
    if json_file is not None and (out is not None or len(cases) > 1):
        raise JaxschedError("--json takes the result of one case; use --out DIR for several")
    if json_file is not None:
        check_writable(json_file)
    if out is not None:
        check_writable(out / "result.json")
        names = [case.name for case in cases]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise JaxschedError(
                f"two cases are called {twice}; --out would write one over the other"
            )
    status = 0
    for path in cases:
        try:
            result, refusals = _run(path, policy)
        except JaxschedError as error:
            result, refusals = None, [str(error).removeprefix(f"{path}: ")]
        for line in refusals:
            print(f"jaxsched: {path}: {' '.join(line.split())}", file=sys.stderr)
            status = BAD_INPUT
        if result is not None:
            _deliver(result, path, json_file, out, len(cases) > 1)
    return status


def _deliver(
    result: dict[str, Any], path: Path, json_file: Path | None, out: Path | None, several: bool
) -> None:
    if json_file not in (None, STDOUT):
        write_json(json_file, result)
    elif out is not None:
        write_json(out / path.name, result)
    else:
        json.dump({path.name: result} if several else result, sys.stdout)
        print()


def _run(path: Path, policy: str | None) -> tuple[dict[str, Any] | None, list[str]]:
    """The result of one case file, and the lines that say which tables were refused."""
    from jaxsched.systems import registry

    case = read_json(path)
    if not isinstance(case, Mapping) or not isinstance(case.get("system"), str):
        raise JaxschedError('is not a case: expected an object with "system"')
    system = registry.get(case["system"])
    for key in ("cases", "reject"):
        if key in case:
            return _run_each(system, case[key], key, path.parent, policy)
    return _simulated(system, case, path.parent, policy), []


def _simulated(
    system: "System", case: Mapping[str, Any], folder: Path, policy: str | None
) -> dict[str, Any]:
    """The result of one case, under the policy that is asked for if there is one."""
    from jaxsched.systems.cases import under_policy, with_table

    played = under_policy(case, system.name, policy)
    return in_layout(system.simulate(with_table(played, folder)), played.get("expect"))


def _run_each(
    system: "System", entries: Any, key: str, folder: Path, policy: str | None
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
