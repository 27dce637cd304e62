"""``jaxsched simulate``: golden cases of any kind."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxsched.cli.options import OUTPUT
from jaxsched.cli.output import BAD_INPUT, STDOUT, check_writable
from jaxsched.errors import JaxschedError
from jaxsched.files import write_json


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
    from jaxsched.systems.case_files import run_file

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
            result, refusals = run_file(path, policy)
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
