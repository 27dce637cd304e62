"""``jaxsched traces fetch`` and ``list``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxsched.cli.output import check_writable, console

OWN_LICENCE = "Apache-2.0"
_COLUMNS = ("name", "what", "jobs", "format", "licence", "citation")


def fetch(
    name: Annotated[str, typer.Argument(help="Published trace, as 'jaxsched traces list' has it.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write into.", show_default="one of the trace's name"),
    ] = None,
    url_base: Annotated[
        str | None,
        typer.Option(
            help="Mirror that has the files under their names.", show_default="the trace's source"
        ),
    ] = None,
) -> None:
    """Download a published trace from its source; goes on where it was cut off."""
    from jaxsched.traces import catalogue

    entry = catalogue.get(name)
    folder = out or Path(name)
    for original in entry.files:
        check_writable(folder / original.file)
    screen = console()
    screen.print(f"{entry.description}; {entry.licence} ({entry.licence_url})", highlight=False)
    for original in entry.files:
        _fetch(screen, original, folder, url_base)
    screen.print(f"cite: {entry.citation}", highlight=False)
    if entry.then:
        screen.print(f"next: cd {folder} && {entry.then}", highlight=False)
    screen.print(
        f"then: jaxsched traces import FILE --out TRACE.parquet  (format {entry.format})",
        highlight=False,
    )


def _fetch(screen: Any, original: Any, folder: Path, url_base: str | None) -> None:
    """Fetch one file with a display of its progress."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from jaxsched.traces import catalogue

    url = catalogue.address(original, url_base)
    size = "size not known" if original.num_bytes is None else f"{original.num_bytes:,} bytes"
    screen.print(f"{original.file} ({size}) from {url}", highlight=False)
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=screen, transient=True, disable=not screen.is_terminal
    ) as progress:
        task = progress.add_task(original.file, total=original.num_bytes)
        fetched = catalogue.fetch(
            original,
            folder,
            url_base=url_base,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    how = "was there" if fetched.was_there else "fetched"
    if fetched.resumed_from:
        how += f", the first {fetched.resumed_from:,} bytes earlier"
    checked = "as expected" if original.sha256 else "not known beforehand: keep it to compare"
    screen.print(
        f"  {how}: {fetched.num_bytes:,} bytes, SHA-256 {fetched.sha256} ({checked})",
        highlight=False,
    )


def list_traces(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Published traces, named traces and generators."""
    rows = _rows()
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, justify="right" if column == "jobs" else "left")
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in _COLUMNS))
    console().print(table, highlight=False)


def _rows() -> list[dict[str, Any]]:
    """A row for each trace: published (``fetchable``), ``shipped`` or ``generated``."""
    from jaxsched.traces import catalogue, clusters, registry

    published = {entry.sample: entry for entry in catalogue.entries() if entry.sample}
    rows = [
        {
            "name": entry.name,
            "what": "fetchable",
            "jobs": entry.jobs,
            "format": entry.format,
            "licence": entry.licence,
            "citation": entry.citation,
            "description": entry.description,
            "licence_url": entry.licence_url,
            "homepage": entry.homepage,
            "files": [original._asdict() for original in entry.files],
        }
        for entry in catalogue.entries()
    ]
    for named in registry.entries():
        source = published.get(named.name)
        rows.append(
            {
                "name": named.name,
                "what": "generated" if named.seeded and source is None else "shipped",
                "jobs": named.num_jobs or None,
                "format": "jobs",
                "licence": source.licence if source else OWN_LICENCE,
                "citation": source.citation if source else "",
                "description": named.description,
            }
        )
    rows += [
        {
            "name": name,
            "what": "generated",
            "jobs": None,
            "format": "trace",
            "licence": OWN_LICENCE,
            "citation": "",
            "description": clusters.describe(name),
        }
        for name in clusters.names()
    ]
    return rows
