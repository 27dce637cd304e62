"""What the figures say, in sentences and as a table of text."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxsched.errors import counted
from jaxsched.report.advice import KNOWN, REST, WITHOUT
from jaxsched.report.readable import aligned
from jaxsched.units import TimeUnit, in_unit, readable_time, unit_of

MOST_NAMED = 3
"""Owners who lose that are named in a sentence."""

Row = Mapping[str, Any]
Document = Mapping[str, Any]


def recommended(rows: Sequence[Row]) -> list[str]:
    """Policies worth a second look, the best of each kind, by mean wait.

    The kinds: those that are given no run times and suspend no jobs; those that are given no run
    times, where a suspension costs something if there are such; those that go by users' estimates
    and suspend no jobs. A kind whose best is no better than a policy that asks for less is left
    out.
    """
    dear = any(row["restart_s"] for row in rows)
    kinds = (
        lambda row: row["knows"] in WITHOUT and not row["suspends"],
        lambda row: row["knows"] in WITHOUT and bool(row["restart_s"] or not dear),
        lambda row: row["knows"] in (*WITHOUT, "estimates") and not row["suspends"],
    )
    found: dict[str, float] = {}
    for suits in kinds:
        able = [row for row in rows if not row["recorded"] and suits(row)]
        best = min(able, key=_wait, default=None)
        if best is not None and all(_wait(best) < wait for wait in found.values()):
            found[best["policy"]] = _wait(best)
    return list(found)


def conclusions(document: Document) -> list[str]:
    """What follows, the answer first."""
    rows = {row["policy"]: row for row in document["rows"]}
    reference = rows[document["reference"]]
    advised = sorted((rows[name] for name in document["recommended"]), key=_is_level)
    lines = [_gain(row, reference, document) for row in advised]
    lines += [_wanted(rows[name], reference) for name in document["shadow"]]
    lines.append(_bound(reference, document))
    if document["closest"]:
        lines.append(_closest(rows[document["closest"]], reference))
    lines += [_lost(rows[name]) for name in (*document["recommended"], *document["shadow"])]
    lines += [line for fit in document["capacity"] if (line := _fewer(fit, document))]
    lines += [f"Note: {each['text']}." for each in document["checks"] if each["warns"]]
    return lines


def _gain(row: Row, reference: Row, document: Document) -> str:
    wait, before = readable_time(_wait(row)), readable_time(_wait(reference))
    needs = KNOWN.get(row["knows"], KNOWN["unstated"])
    suspends = "suspends" if row["suspends"] else "never suspends"
    words = f"It {needs} and {suspends} jobs"
    if row["suspends"] and row["restart_s"] is not None:
        cost = readable_time(row["restart_s"]) if row["restart_s"] else "nothing, which is too kind"
        words += f" (a suspension costs {cost} here)"
    words += "."
    if row is reference:
        return f"{row['policy']} itself has the lowest mean wait of its kind, {wait}. {words}"
    ratio = row["over_reference"]
    if _is_level(row):
        return (
            f"{row['policy']}: mean wait {wait}, none of its kind is below the {before} "
            f"{_of(reference)}. {words}"
        )
    change = _change(ratio["estimate"])
    if ratio["low"] is not None:
        change += f" (95 % interval {_change(ratio['low'])} to {_change(ratio['high'])})"
    weeks = counted(document["measured"]["periods"], document["measured"]["period"])
    lower = f"; lower in {row['better_periods']} of {weeks}" if ratio["low"] is not None else ""
    return (
        f"{row['policy']}: mean wait {wait} in place of {before} {_of(reference)}, "
        f"{change}{lower}. {words}"
    )


def _wanted(row: Row, reference: Row) -> str:
    """What the order that was logged in the shadow would have been worth."""
    return (
        f"{row['policy']}: in the order that the policy wanted, mean wait "
        f"{readable_time(_wait(row))} in place of {readable_time(_wait(reference))} "
        f"{_of(reference)}, {_change(row['over_reference']['estimate'])}."
    )


def _is_level(row: Row) -> bool:
    """Whether a mean wait is that of the reference, or longer."""
    ratio = row["over_reference"]["estimate"]
    return ratio is not None and ratio > 1 - REST


def _of(reference: Row) -> str:
    return "as it happened" if reference["recorded"] else f"under {reference['policy']}"


def _change(ratio: float | None) -> str:
    """A ratio of waits as a change in percent; as a factor from 3 on."""
    if ratio is None or math.isnan(ratio):
        return "nothing to compare with"
    if ratio >= 3:
        return f"{ratio:.1f} times as long"
    return f"{100 * (ratio - 1):+.0f} %"


def _bound(reference: Row, document: Document) -> str:
    bound = document["bound"]
    return (
        f"No schedule of these jobs has a mean wait below {readable_time(bound['any_s'])}, none "
        f"without suspension one below {readable_time(bound['non_preemptive_s'])}; "
        f"{_of(reference)} it is {readable_time(_wait(reference))}."
    )


def _closest(row: Row, reference: Row) -> str:
    return (
        f"Of the policies that need not know run times, {row['policy']} comes closest to what "
        f"happened: {readable_time(_wait(row))} against {readable_time(_wait(reference))}. The "
        "difference between them is what a replay does not know (failures, reservations, limits of "
        "users, people), and no policy can be promised it."
    )


def _lost(row: Row) -> str:
    lost = row["losers"]
    if not lost:
        return f"Under {row['policy']} nobody would have waited notably longer."
    named = ", ".join(f"{each['owner']} by {readable_time(each['more_s'])}" for each in lost)
    more = len(lost) - MOST_NAMED
    if more > 0:
        first = ", ".join(
            f"{each['owner']} by {readable_time(each['more_s'])}" for each in lost[:MOST_NAMED]
        )
        named = f"{first} and {more} more"
    return f"Under {row['policy']} would have waited longer on average: {named}."


def _fewer(fit: Mapping[str, Any], document: Document) -> str | None:
    """What a policy's smallest cluster is."""
    whole = document["cluster"]["num_servers"]
    if fit["servers"] is None:
        return None
    if fit["servers"] == whole:
        return f"{fit['policy']} needs all {whole} servers for waits no longer than those."
    return (
        f"{fit['policy']} keeps the mean wait at or below {readable_time(fit['target_s'])} with "
        f"{fit['servers']} of the {whole} servers."
    )


def _wait(row: Row) -> float:
    return float(row["avg_wait"])


def table(document: Document) -> list[str]:
    """All rows as lines of text, the shortest mean wait first."""
    rows = document["rows"]
    unit = unit_of([_wait(row) for row in rows])
    heads = ("policy", f"wait/{unit.short}", "median", "p95", "p99", "busy", "stops", "over",
             f"{document['measured']['period']}s", "knows")  # fmt: skip
    cells = [heads, *(_cells(row, unit, document) for row in rows)]
    return aligned(cells, left=(0, len(heads) - 1))


def _cells(row: Row, unit: TimeUnit, document: Document) -> tuple[str, ...]:
    times = (row[name] for name in ("avg_wait", "median_wait", "p95_wait", "p99_wait"))
    estimate = row["over_reference"]["estimate"]
    return (
        row["policy"],
        *(in_unit(value, unit) for value in times),
        f"{100 * row['utilization']:.1f} %" if row["utilization"] is not None else "-",
        f"{row['suspensions']:.2f}" if row["restart_s"] is not None else "-",
        "-" if estimate is None else f"{estimate:.3f}",
        "-"
        if row["policy"] == document["reference"]
        else f"{row['better_periods']}/{document['measured']['periods']}",
        "(what happened)" if row["recorded"] else row["knows"],
    )
