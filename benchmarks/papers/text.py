"""Tables and checks as plain text."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers.verdicts import Judged, judged_check
from jaxsched.systems.claims import NOT_TESTED, VERDICTS

QUICK = "quick run: small sizes, verdicts say that it works, not what the paper's claim is worth"
CHECK_COLUMNS = ("claim", "paper", "measured", "reproduced if", "verdict")
LONGEST = 64  # characters of a cell before it is broken


def format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; all but the first flush right where they are numbers."""
    broken = [[_break(str(cell)) for cell in row] for row in [columns, *rows]]
    widths = [
        max((len(part) for row in broken for part in row[i]), default=0)
        for i in range(len(columns))
    ]
    right = [
        i > 0 and all(_numeric(str(row[i])) for row in rows) and bool(rows)
        for i in range(len(columns))
    ]
    lines = []
    for number, row in enumerate(broken):
        for height in range(max(len(cell) for cell in row)):
            parts = [cell[height] if height < len(cell) else "" for cell in row]
            padded = [
                part.rjust(width) if flush else part.ljust(width)
                for part, width, flush in zip(parts, widths, right, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines)


def format_row(document: Mapping[str, Any]) -> str:
    """A finished row: its tables, its checks and how it was measured."""
    parts = [f"{document['row']}: {document['title']}"]
    if document["quick"]:
        parts[0] += "  (quick)"
    parts[0] = f"{parts[0]}\n{'=' * len(parts[0])}"
    for table in document["tables"]:
        parts.append(f"{table['title']}\n\n{format_table(table['columns'], table['rows'])}")
    if document["checks"]:
        rows = [
            [c.item, c.paper, c.measured, c.accepted, _verdict(c, document["quick"])]
            for c in _judged(document)
        ]
        parts.append(format_table(CHECK_COLUMNS, rows))
    parts += [f"note: {note}" for note in document["notes"]]
    return "\n\n".join(parts) + "\n"


def format_summary(documents: Sequence[Mapping[str, Any]]) -> str:
    """One line per row and how many of its claims have each verdict."""
    rows = []
    for document in documents:
        verdicts = [check.verdict for check in _judged(document)]
        counts = [str(verdicts.count(name)) for name in VERDICTS]
        minutes = f"{document['wall_s'] / 60:.1f}"
        rows.append([document["row"], document["title"], *counts, minutes])
    columns = ("row", "what", *VERDICTS, "minutes")
    text = f"summary\n=======\n\n{format_table(columns, rows)}\n"
    if any(document["quick"] for document in documents):
        text += f"\n{QUICK}\n"
    return text


def _judged(document: Mapping[str, Any]) -> list[Judged]:
    return [
        judged_check(document["system"], document["row"], check) for check in document["checks"]
    ]


def _verdict(check: Judged, quick: bool) -> str:
    """The verdict, marked in a quick run, with its reason."""
    if not check.verdict:
        return check.reason
    marked = quick and check.verdict != NOT_TESTED
    words = f"{check.verdict}{' (quick)' if marked else ''}"
    return f"{words}: {check.reason}" if check.reason else words


def _numeric(text: str) -> bool:
    return text in ("-", "") or text.lstrip("+-")[:1].isdigit()


def _break(text: str) -> list[str]:
    """Lines of at most ``LONGEST`` characters, broken at spaces."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > LONGEST:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]
