"""Schedules over time in print: who held which rows, coloured by what is known of the placement."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxsched.jobs.lanes import runs as adjacent
from jaxsched.jobs.schedule import Line, Pieces, Schedule, server_bands
from jaxsched.jobs.stored_schedule import schedule_of
from jaxsched.report.schema import Gantt
from jaxsched.report.style import LEVELS
from jaxsched.report.svg import Canvas, Scale, tick_labels, ticks, xy
from jaxsched.units import unit_of

WIDE, NARROW = 1120.0, 365.0
MOST_JOBS = 700  # rows of jobs in a picture; of more every second, third, ... is drawn

_ROW = {WIDE: 2.6, NARROW: 2.0}  # height of one GPU
_JOB_ROWS = 420.0  # height of all rows of jobs at the most
_GAP = 2.0  # between bands
LOCALITY = "locality"


def panel(schedules: Sequence[Schedule], index: int, *, width: float) -> str:
    """One policy's episode; all panels share the time axis, so lengths compare.

    Pieces are gathered into one path per colour: a thousand jobs take a few tens of kilobytes and
    follow the page's colours.
    """
    schedule = schedules[index]
    every = _every(schedule)
    row = _ROW.get(width, 2.0)
    if schedule.unit == "job":
        row = min(8.0, _JOB_ROWS / max(schedule.num_rows / every, 1))
    tops = _tops(schedule, row / every)
    left, top, end = 24.0, 2.0, end_of(schedules)
    canvas = Canvas(width, top + tops[-1] + 36)
    unit_s, unit = unit_of([end])
    time = Scale(0.0, end / unit_s, left, width - 8)
    bottom = top + tops[-1]
    _bands(canvas, schedule, tops, left, top, width)
    marks = ticks(0.0, time.high, max(3, int(width / 110)))
    for mark, text in zip(marks, tick_labels(marks), strict=True):
        canvas.line(time(mark), bottom, time(mark), bottom + 4, "axis")
        canvas.text(time(mark), bottom + 17, text, anchor="middle")
    canvas.text((left + width - 8) / 2, bottom + 34, f"time ({unit})", anchor="middle")

    firsts = np.cumsum([0, *(band.rows for band in schedule.bands)])
    paths: dict[str, list[str]] = defaultdict(list)
    for name, first, rows, begin, stop in _drawn(schedule, every):
        band = max(int(np.searchsorted(firsts, first, side="right")) - 1, 0)
        y = top + tops[band] + (first - firsts[band]) * row / every
        x, high = time(begin / unit_s), rows * row / (1 if schedule.unit == "job" else every)
        length = time(stop / unit_s) - x
        paths[name].append(f"M{xy(x)} {xy(y)}h{xy(length)}v{xy(high)}h-{xy(length)}z")
    for name in sorted(paths, key=lambda n: (n != "single", n)):
        canvas.add(f'<path class="job {name}" d="{"".join(paths[name])}"/>')
    return canvas.render(f"{title(schedule)} under {schedule.policy}: {sentence(schedule)}")


def title(schedule: Schedule) -> str:
    """What the rows are, over time."""
    return {"job": "Jobs over time", "task": "Tasks over time"}.get(schedule.unit, "GPUs over time")


def _every(schedule: Schedule) -> int:
    """Of so many jobs one is drawn."""
    return max(1, -(-schedule.num_rows // MOST_JOBS)) if schedule.unit == "job" else 1


def _tops(schedule: Schedule, row: float) -> list[float]:
    """Where each band begins, and where the last one ends."""
    gap = _GAP if len(schedule.bands) > 1 else 0.0
    return np.cumsum([0.0, *(band.rows * row + gap for band in schedule.bands)]).tolist()


def _bands(
    canvas: Canvas, schedule: Schedule, tops: Sequence[float], left: float, top: float, width: float
) -> None:
    """Numbers of the bands at the left, and lines between them; of jobs theirs."""
    if schedule.unit == "job":
        for mark in ticks(0.0, schedule.num_rows - 1.0, 6):
            y = top + (mark + 0.5) * tops[-1] / max(schedule.num_rows, 1)
            canvas.text(left - 6, y + 4, f"{mark:.0f}", anchor="end")
        for y in (top, top + tops[-1]):
            canvas.line(left, y, width - 8, y, "grid")
        return
    pitch = max(tops[-1] / max(len(schedule.bands), 1), 1e-6)
    for band in range(0, len(schedule.bands), max(1, round(14 / pitch))):
        y = top + (tops[band] + tops[band + 1] - _GAP) / 2
        canvas.text(left - 6, y + 4, str(band), anchor="end")
    for y in tops:
        canvas.line(left, top + y - _GAP / 2, width - 8, top + y - _GAP / 2, "grid")


def _drawn(schedule: Schedule, every: int) -> list[tuple[str, float, float, float, float]]:
    """Class, first row, rows, start and end of all that is drawn."""
    pieces = schedule.pieces
    columns = (pieces.row, pieces.rows, pieces.start, pieces.end)
    found: list[tuple[str, float, float, float, float]] = []
    for name, row, rows, start, end in zip(piece_classes(schedule), *columns, strict=True):
        found.append((name, float(row), float(rows), float(start), float(end)))
    if schedule.unit == "job":
        begun = np.where(schedule.start < 0, schedule.end, schedule.start)
        waits = np.flatnonzero(begun > schedule.submit).tolist()
        found += [("single", job, 1.0, schedule.submit[job], begun[job]) for job in waits]
    return [entry for entry in found if entry[1] % every < 1]


def sentence(schedule: Schedule) -> str:
    """What the panel shows, in words."""
    if not len(schedule.pieces.job):
        return "no job was started."
    unit_s, unit = unit_of([schedule.end])
    makespan = f"makespan {float(schedule.pieces.end.max()) / unit_s:.1f}\u00a0{unit}"
    if schedule.unit == "job":
        done = schedule.finish >= 0
        mean = float(np.mean((schedule.finish - schedule.submit)[done])) if done.any() else 0.0
        every = _every(schedule)
        drawn = f"; one of {every} jobs is drawn" if every > 1 else ""
        return f"{makespan}, mean completion time {mean / unit_s:.2f}\u00a0{unit}{drawn}."
    if schedule.level_title != LOCALITY:
        slow = f"{schedule.level_title} above the least"
        return f"{makespan}, {100 * upper_share(schedule):.0f}\u00a0% of the GPU time at {slow}."
    return (
        f"{makespan}, {100 * upper_share(schedule):.0f}\u00a0% of the GPU time held by "
        "jobs without the best locality."
    )


def upper_share(schedule: Schedule) -> float:
    """Share of the time on rows that pieces above level 0 hold."""
    pieces = schedule.pieces
    held = (pieces.end - pieces.start) * pieces.rows
    total = float(held.sum())
    return float(held[pieces.level > 0].sum()) / total if total else 0.0


def piece_classes(schedule: Schedule) -> list[str]:
    """CSS class of each piece's colour."""
    pieces = schedule.pieces
    names = [f"level{min(max(level, 0), LEVELS - 1)}" for level in pieces.level.tolist()]
    if schedule.level_title != LOCALITY:
        return names
    rows = np.zeros(len(schedule.submit))
    np.add.at(rows, pieces.job, pieces.rows)
    return [
        "single" if rows[job] == 1 else name
        for job, name in zip(pieces.job.tolist(), names, strict=True)
    ]


def legend(schedules: Sequence[Schedule]) -> dict[str, str]:
    """Key to the colours that occur: their CSS classes and what they stand for."""
    first = schedules[0]
    words = list(first.levels) or ["runs"]
    present = {name for schedule in schedules for name in piece_classes(schedule)}
    last = " and more" if len(words) > LEVELS else ""
    names = {f"level{i}": text for i, text in enumerate(words[:LEVELS])}
    if last:
        names[f"level{LEVELS - 1}"] += last
    if first.unit == "job":
        return {"single": "waits", **{name: names[name] for name in names if name in present}}
    if first.level_title == LOCALITY:
        names = {
            "single": "one-GPU job",
            "level0": "best locality",
            **{f"level{i}": f"locality level {i}" for i in range(1, LEVELS)},
        }
    return {name: text for name, text in names.items() if name in present}


def shared_lines(schedules: Sequence[Schedule]) -> list[tuple[str, list[Line]]]:
    """Titles of the quantities that all schedules follow over time, and their lines."""
    found = []
    for line in schedules[0].lines:
        others = [
            next((o for o in s.lines if (o.name, o.chart) == (line.name, line.chart)), None)
            for s in schedules
        ]
        kept = [other for other in others if other is not None and len(other.times)]
        if len(kept) == len(schedules):
            words = line.chart if line.chart == line.name else f"{line.chart}: {line.name}"
            found.append((words + (f" ({line.unit})" if line.unit else ""), kept))
    return found


def schedules_of(gantt: Gantt) -> list[Schedule]:
    """Schedules of comparisons that were stored before there was a layout for all systems."""
    bands = server_bands([gantt["gpus_per_server"]] * gantt["num_servers"])
    made = []
    for entry in gantt["panels"]:
        jobs = entry["jobs"]
        pieces = Pieces.of(
            [
                (number, first, count, job["start"], job["finish"], job["level"])
                for number, job in enumerate(jobs)
                for first, count in runs(job["gpus"], gantt["gpus_per_server"])
            ]
        )
        start = np.array([job["start"] for job in jobs], np.float64)
        finish = np.array([job["finish"] for job in jobs], np.float64)
        made.append(
            Schedule(
                system="",
                policy=entry["policy"],
                episode=gantt["episode"],
                unit="GPU",
                bands=bands,
                pieces=pieces,
                submit=start,
                start=start,
                finish=finish,
                model=np.zeros(len(jobs), np.int64),
                models=("job",),
                level_title=LOCALITY,
                levels=tuple(f"level {i}" for i in range(LEVELS)),
            )
        )
    return made


def runs(gpus: Sequence[int], per_server: int) -> list[tuple[int, int]]:
    """Runs of adjacent GPU ids within a server, as (first id, count)."""
    by_server: dict[int, list[int]] = {}
    for gpu in sorted(gpus):
        by_server.setdefault(gpu // per_server, []).append(gpu)
    return [run for own in by_server.values() for run in adjacent(own)]


def end_of(schedules: Sequence[Schedule]) -> float:
    """Where the time axis of all of them ends, s."""
    ends = [float(s.pieces.end.max()) for s in schedules if len(s.pieces.end)]
    return max(ends, default=1.0) or 1.0


def stored(comparison: Mapping[str, Any]) -> list[Schedule]:
    """The schedules of a checked comparison, of either layout."""
    entries = comparison.get("schedules")
    if entries:
        return [schedule_of(entry, f"schedules[{i}]") for i, entry in enumerate(entries)]
    return schedules_of(comparison["gantt"]) if comparison.get("gantt") else []
