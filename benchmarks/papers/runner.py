"""Runs the rows of a paper, one after the other, and keeps each as it is finished."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jaxsched
from benchmarks.papers import figures, text
from benchmarks.papers.lab import Changes, Lab, shipped_by
from benchmarks.papers.outcome import Outcome
from benchmarks.papers.settings import Settings, key_of
from benchmarks.papers.store import Store, write
from jaxsched.errors import JaxschedError
from jaxsched.experiment.names import assignments
from jaxsched.json_values import json_value
from jaxsched.provenance import facts
from jaxsched.systems import registry


@dataclass(frozen=True)
class Row:
    """One table or figure of a paper.

    Attributes:
      name: as the specification counts them.
      title: what it is about.
      run: makes the outcome.
    """

    name: str
    title: str
    run: Callable[[Lab], Outcome]


@dataclass(frozen=True)
class Paper:
    """A paper's rows.

    Attributes:
      system: name of the system.
      title: of the paper.
      rows: in order.
      quick_changes: of every recipe in a quick run.
      quick_sizes: of ``Settings`` in a quick run, where they are not given.
    """

    system: str
    title: str
    rows: Sequence[Row]
    quick_changes: Changes
    quick_sizes: Mapping[str, int]

    def chosen(self, names: Sequence[str] | None) -> list[Row]:
        """The rows of these names, all if None.

        Raises:
          JaxschedError: there is no such row.
        """
        known = {row.name: row for row in self.rows}
        for name in names or ():
            if name not in known:
                raise JaxschedError(f"unknown row {name!r}; known are {', '.join(known)}")
        return [row for row in self.rows if names is None or row.name in names]


def run(
    paper: Paper,
    settings: Settings,
    names: Sequence[str] | None = None,
    *,
    show: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Run rows; finished ones of the same settings are read back.

    Args:
      paper: which.
      settings: sizes, seeds, changes, folder.
      names: of the rows; all if None.
      show: called with the text of each row and of the summary.

    Returns:
      What is in the rows' files, in order.

    Raises:
      JaxschedError: no such row, or some failed; the others are finished then.
    """
    chosen = paper.chosen(names)
    system, store = registry.get(paper.system), Store(settings.out)
    lab = Lab(system, settings, store, paper.quick_changes)
    documents, failed = [], []
    for number, row in enumerate(chosen, 1):
        key = row_key(paper, settings, row)
        document = store.read_row(row.name, key)
        state = "found" if document else "running"
        print(f"[{row.name}] row {number} of {len(chosen)}: {state}", file=sys.stderr, flush=True)
        if document is None:
            try:
                document = _run_row(lab, row, key)
            except JaxschedError as error:  # the other rows need not wait for this one
                failed.append(f"{row.name} ({error})")
                lab.say(f"failed: {error}")
                continue
        documents.append(document)
        show(text.format_row(document))
    show(text.format_summary(documents))
    write(
        settings.out / "summary.json",
        [{name: d[name] for name in ("row", "title", "quick", "checks")} for d in documents],
    )
    if failed:
        raise JaxschedError(f"rows failed: {'; '.join(failed)}")
    return documents


def row_key(paper: Paper, settings: Settings, row: Row) -> str:
    """What a finished row is found again by: all that decides its results but the code."""
    system = registry.get(paper.system)
    return key_of(
        row=row.name,
        system=system.name,
        behaviour_version=system.environment.behaviour_version,
        **shipped_by(system),
        version=jaxsched.__version__,
        presets=system.recipes.every,
        settings=settings.deciding(),
        quick=assignments(paper.quick_changes) if settings.quick else [],
    )


def _run_row(lab: Lab, row: Row, key: str) -> dict[str, Any]:
    lab.begin(row.name)
    began = time.monotonic()
    outcome = row.run(lab)
    tables = [
        {"title": t.title, "columns": list(t.columns), "rows": t.texts()} for t in outcome.tables
    ]
    document = {
        "row": row.name,
        "title": row.title,
        "system": lab.system.name,
        "quick": lab.quick,
        "settings": lab.settings.deciding(),
        "facts": facts(),
        "trace_digests": lab.digests,
        "trained": lab.trained,
        "tables": tables,
        "checks": [json_value(check) for check in outcome.checks],
        "notes": list(outcome.notes),
        "values": outcome.values,
        "wall_s": round(time.monotonic() - began, 1),
    }
    if outcome.figure is not None:
        path = lab.store.path / f"{row.name}.png"
        figures.save(path, outcome.figure, lab.settings.pictures)
    lab.store.write_row(row.name, key, document)
    plain: dict[str, Any] = json_value(document)
    return plain
