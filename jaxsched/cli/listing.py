"""``jaxsched list``."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.cli.completion import complete_system
from jaxsched.cli.output import console

if TYPE_CHECKING:
    from rich.console import Console


def list_all(
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SYSTEM]...",
            help="Say all of these systems: policies, presets, traces, trained policies.",
            autocompletion=complete_system,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """The systems in short; of those named: policies, presets, traces and trained policies."""
    from jaxsched.runs.catalogue import catalogue

    names = [name for name in systems or () if not (as_json and name == "-")]
    found = catalogue(names)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    out = console()
    if names:
        for system in found["systems"]:
            _show_system(out, system)
    else:
        _show_all(out, found)


def _show_all(out: "Console", found: dict[str, Any]) -> None:
    """One line for each system, the learners, and where the rest is."""
    _table(
        out,
        ("system", "decides", "policies", "presets", "traces", "trained"),
        [
            (
                system["name"],
                system["decides"] or system["title"],
                *(len(system[part]) for part in ("policies", "presets", "traces", "pretrained")),
            )
            for system in found["systems"]
        ],
    )
    _table(out, ("learner", "what it is"), list(found["learners"].items()))
    out.print(
        "jaxsched list SYSTEM: its policies, presets, traces and trained policies by name\n"
        f"jaxsched traces list: all traces, those to download and {len(found['workloads'])} "
        "workloads like a real cluster's included",
        highlight=False,
    )


def _show_system(out: "Console", system: dict[str, Any]) -> None:
    name = system["name"]
    out.print(f"{system['title'] or name}. {system['source']}".strip(), highlight=False)
    out.print(f"decides: {system['decides']}; judged by {system['metric']}\n", highlight=False)
    _table(
        out,
        ("policy", "kind", "what it does", "what it knows"),
        [
            (
                policy["name"],
                policy["kind"] + (", slow: by name only" if policy["slow"] else ""),
                policy["description"],
                policy["knows"] or "not said",
            )
            for policy in system["policies"]
        ],
    )
    if system["pretrained"]:
        _table(
            out,
            ("trained policy", "cluster", "made by", "how"),
            [
                (
                    trained["name"],
                    trained["cluster"],
                    f"--preset {trained['preset']}" if trained["preset"] else "several stages",
                    "; ".join(trained["description"]),
                )
                for trained in system["pretrained"]
            ],
        )
    _table(
        out,
        ("preset", "what it is for", "one training took", "steps of a seed"),
        [
            (
                preset["name"],
                preset["purpose"] or f"trains on {preset['trained_on']}",
                preset["takes"] or "not timed",
                f"{preset['env_steps']:,}",
            )
            for preset in system["presets"]
        ],
    )
    for size, cluster in system["sizes"].items():
        usual = system["presets"][0]["name"]
        out.print(f"the same for {cluster}: NAME-{size}, as {usual}-{size}", highlight=False)
    if system["sizes"]:
        out.print()
    _table(
        out,
        ("trace", "what it holds", "origin"),
        [(trace["name"], trace["description"], trace["origin"]) for trace in system["traces"]],
    )
    out.print(
        f"jaxsched doctor {name} --preset PRESET: what a training takes on this machine",
        highlight=False,
    )


def _table(out: "Console", columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """A table without lines; numbers to the right, names whole."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, column in enumerate(columns):
        right = bool(rows) and str(rows[0][place]).replace(",", "").isdigit()
        table.add_column(
            column, justify="right" if right else "left", no_wrap=not place, overflow="fold"
        )
    for row in rows:
        table.add_row(*map(str, row))
    out.print(table, highlight=False)
    out.print()
