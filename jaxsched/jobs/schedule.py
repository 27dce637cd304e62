"""A recorded schedule: who held what and when, and what went on beside it, for pictures.

One policy on one episode. The layout is the same for every system, so that what draws it knows no
system: rows (GPUs, or the stacked workers of a cluster without places), pieces of jobs on them,
facts of each job, and curves over time. Axes: ``n`` pieces, ``J`` jobs, ``T`` moments of a line,
``D`` decisions. Times are seconds from the start of the episode.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs.numbers import json_numbers

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NEVER = -1.0
"""In place of a start or finish that did not happen."""


@dataclass(frozen=True)
class Band:
    """Rows drawn together, such as the GPUs of a server.

    Attributes:
      name: of the band.
      rows: how many it has; bands lie one below the other.
    """

    name: str
    rows: int


def server_bands(gpus: Iterable[int], word: str = "server") -> tuple[Band, ...]:
    """A band for each server, of so many GPUs."""
    return tuple(Band(f"{word} {number}", count) for number, count in enumerate(gpus))


@dataclass(frozen=True)
class Pieces:
    """Times at which jobs held rows; arrays ``[n]``.

    Attributes:
      job: int, index of the job.
      row: first row held, from the top of the first band on; fractions where jobs share a row.
      rows: rows held.
      start: s.
      end: s.
      level: int, what ``Schedule.levels`` says of it.
    """

    job: Integers
    row: Floats
    rows: Floats
    start: Floats
    end: Floats
    level: Integers

    @staticmethod
    def of(entries: Any) -> "Pieces":
        """Pieces of rows ``(job, row, rows, start, end, level)``, sorted by their start."""
        table = np.array(entries, np.float64).reshape(-1, 6)
        table = table[np.argsort(table[:, 3], kind="stable")]
        job, row, rows, start, end, level = table.T
        return Pieces(job.astype(np.int64), row, rows, start, end, level.astype(np.int64))


@dataclass(frozen=True)
class Fact:
    """Something known of each job.

    Attributes:
      name: what it is called.
      values: ``[J]``, numbers (NaN: not known) or words.
      unit: of the numbers.
    """

    name: str
    values: Sequence[float] | Sequence[str]
    unit: str = ""


@dataclass(frozen=True)
class Line:
    """A quantity over time; each value holds until the next one.

    Attributes:
      name: of the quantity.
      chart: title of the chart that it is drawn in, with others of the same title.
      times: ``[T]`` s, not decreasing.
      values: ``[T]``.
      unit: of the values.
      stacked: the lines of the chart add up, and are drawn on top of each other.
    """

    name: str
    chart: str
    times: Floats
    values: Floats
    unit: str = ""
    stacked: bool = False

    def at(self, times: Any) -> Floats:
        """Its values at some times (s), 0 before the first."""
        place = np.searchsorted(self.times, times, side="right") - 1
        found: Floats = np.where(place < 0, 0.0, self.values[np.maximum(place, 0)])
        return found


@dataclass(frozen=True)
class Marks:
    """Moments worth a mark on a row, such as migrations; arrays ``[n]``."""

    name: str
    times: Floats
    job: Integers
    row: Floats


@dataclass(frozen=True)
class Decisions:
    """What a network saw and how it scored its choices, decision by decision.

    Attributes:
      times: ``[D]`` s.
      inputs: names of what was seen.
      seen: ``[D, len(inputs)]``.
      choices: names of the choices.
      scores: ``[D, len(choices)]``; NaN where a choice was not legal.
      chosen: int ``[D]``, index of the choice; -1 where the scores themselves are the action.
      every: so many decisions were taken for each that is kept.
    """

    times: Floats
    inputs: Sequence[str]
    seen: Floats
    choices: Sequence[str]
    scores: Floats
    chosen: Integers
    every: int = 1


@dataclass(frozen=True)
class Schedule:
    """One policy on one episode.

    Attributes:
      system: name of the system.
      policy: name of the policy.
      episode: name of the episode.
      unit: what a row is: "GPU", or "task" where bands are stacks.
      bands: the rows.
      pieces: who held them.
      level_title: what the level of a piece says, such as "locality"; empty: nothing.
      levels: names of the levels, the best first.
      submit: ``[J]`` s.
      start: ``[J]`` s, ``NEVER`` where it did not happen.
      finish: ``[J]`` s, likewise.
      model: int ``[J]``, index into ``models``.
      models: names of kinds of jobs.
      facts: further facts of jobs; words of few different values can colour the jobs.
      deadline: ``[J]`` s; None: jobs have none.
      lines: curves over time.
      marks: moments on rows.
      decisions: of a network; None for other policies.
    """

    system: str
    policy: str
    episode: str
    unit: str
    bands: tuple[Band, ...]
    pieces: Pieces
    submit: Floats
    start: Floats
    finish: Floats
    model: Integers
    models: tuple[str, ...]
    level_title: str = ""
    levels: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    deadline: Floats | None = None
    lines: tuple[Line, ...] = ()
    marks: tuple[Marks, ...] = ()
    decisions: Decisions | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def num_rows(self) -> int:
        """Rows of all bands."""
        return sum(band.rows for band in self.bands)

    @property
    def end(self) -> float:
        """The last moment of which something is known, s."""
        times = [self.pieces.end, self.submit, self.finish, *(line.times for line in self.lines)]
        return max((float(np.max(t)) for t in times if len(t)), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """The schedule as an object of lists, which ``schedule_of`` reads again.

        Whole numbers are written without a fraction, others with 6 digits (decisions: 4), NaN and
        never as null.
        """
        decisions = self.decisions
        return {
            "system": self.system,
            "policy": self.policy,
            "episode": self.episode,
            "unit": self.unit,
            "bands": [[band.name, band.rows] for band in self.bands],
            "pieces": {name: json_numbers(getattr(self.pieces, name)) for name in PIECE_COLUMNS},
            "level_title": self.level_title,
            "levels": list(self.levels),
            "submit": json_numbers(self.submit),
            "start": json_numbers(_or_nan(self.start)),
            "finish": json_numbers(_or_nan(self.finish)),
            "model": json_numbers(self.model),
            "models": list(self.models),
            "facts": [
                {"name": fact.name, "unit": fact.unit, "values": _plain_fact(fact.values)}
                for fact in self.facts
            ],
            "deadline": None if self.deadline is None else json_numbers(self.deadline),
            "lines": [
                {
                    "name": line.name,
                    "chart": line.chart,
                    "unit": line.unit,
                    "stacked": line.stacked,
                    "times": json_numbers(line.times),
                    "values": json_numbers(line.values),
                }
                for line in self.lines
            ],
            "marks": [
                {
                    "name": m.name,
                    "times": json_numbers(m.times),
                    "job": json_numbers(m.job),
                    "row": json_numbers(m.row),
                }
                for m in self.marks
            ],
            "decisions": None if decisions is None else _plain_decisions(decisions),
            "notes": list(self.notes),
        }


PIECE_COLUMNS = ("job", "row", "rows", "start", "end", "level")


def _or_nan(times: Floats) -> Floats:
    return np.where(times < 0, np.nan, times)


def _plain_fact(values: Sequence[float] | Sequence[str]) -> list[Any]:
    words = any(isinstance(value, str) for value in values)
    return [str(value) for value in values] if words else json_numbers(values)


def _plain_decisions(decisions: Decisions) -> dict[str, Any]:
    return {
        "times": json_numbers(decisions.times),
        "inputs": list(decisions.inputs),
        "seen": json_numbers(decisions.seen, 4),
        "choices": list(decisions.choices),
        "scores": json_numbers(decisions.scores, 4),
        "chosen": json_numbers(decisions.chosen),
        "every": decisions.every,
    }


def steps(times: Any, values: Any) -> tuple[Floats, Floats]:
    """A quantity that changes at some times, as few moments as say the same.

    Args:
      times: ``[n]`` s, in any order; of several values at one time the last one counts.
      values: ``[n]``.

    Returns:
      Times and values of a ``Line``.
    """
    times, values = np.asarray(times, np.float64), np.asarray(values, np.float64)
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    times, values = times[last], values[last]
    changed = np.append(True, values[1:] != values[:-1])[: len(times)]
    changed[-1:] = True
    return times[changed], values[changed]


def counted(starts: Any, ends: Any, weights: Any = None) -> tuple[Floats, Floats]:
    """How many intervals are open at each time, or the sum of their weights.

    Args:
      starts: ``[n]`` s.
      ends: ``[n]`` s; negative or NaN: they stay open.
      weights: ``[n]``, 1 each by default.
    """
    starts, ends = np.asarray(starts, np.float64), np.asarray(ends, np.float64)
    weights = np.ones(len(starts)) if weights is None else np.asarray(weights, np.float64)
    closed = np.isfinite(ends) & (ends >= 0)
    times = np.concatenate([starts, ends[closed]])
    change = np.concatenate([weights, -weights[closed]])
    order = np.argsort(times, kind="stable")
    total = np.cumsum(change[order])
    return steps(times[order], np.where(np.abs(total) < 1e-9, 0.0, total))


def most_at_once(starts: Any, ends: Any, weights: Any = None) -> float:
    """The most intervals that are open together, or the largest sum of their weights; 0 of none.

    One that ends when another begins makes room for it.

    Args:
      starts: ``[n]`` s, by any clock.
      ends: ``[n]`` s, by that clock.
      weights: ``[n]``, 1 each by default.
    """
    starts, ends = np.asarray(starts, np.float64), np.asarray(ends, np.float64)
    first = starts.min(initial=np.inf)
    return float(np.max(counted(starts - first, ends - first, weights)[1], initial=0.0))


def usual_lines(
    submit: Floats, start: Floats, finish: Floats, pieces: Pieces, rows: Mapping[str, int]
) -> tuple[Line, ...]:
    """Jobs that wait and run, and the share of the rows that are held.

    Args:
      submit: ``[J]`` s.
      start: ``[J]`` s, ``NEVER`` likewise.
      finish: ``[J]`` s.
      pieces: what was held.
      rows: under the name of each quantity how many rows there are from the first on.
    """
    begun = start >= 0
    lines = [
        Line("waiting", "jobs", *counted(submit, start), stacked=False),
        Line("running", "jobs", *counted(start[begun], finish[begun])),
    ]
    for name, count in rows.items():
        held = pieces.row < count
        times, busy = counted(pieces.start[held], pieces.end[held], pieces.rows[held])
        lines.append(Line(name, "utilisation", times, busy / max(count, 1)))
    return tuple(lines)


def by_job(
    system: str,
    submit: Floats,
    start: Floats,
    finish: Floats,
    *,
    level: Any = 0,
    lines: tuple[Line, ...] = (),
    **parts: Any,
) -> Schedule:
    """A schedule that knows when jobs ran but not where: a row for each job, from start to finish.

    Args:
      system: name of the system.
      submit: ``[J]`` s.
      start: ``[J]`` s, ``NEVER`` likewise.
      finish: ``[J]`` s; of jobs that started and did not finish there is no piece.
      level: int ``[J]``.
      lines: beside those of jobs that wait and run.
      **parts: further fields of ``Schedule``; by default jobs are of one kind.
    """
    ran = np.flatnonzero((start >= 0) & (finish >= start))
    levels = np.broadcast_to(np.asarray(level), submit.shape)
    columns = [ran, ran, np.ones(len(ran)), start[ran], finish[ran], levels[ran]]
    pieces = Pieces.of(np.stack(columns, axis=-1))
    fields = {"model": np.zeros(len(submit), np.int64), "models": ("job",), **parts}
    return Schedule(
        system=system,
        policy="",
        episode="",
        unit="job",
        bands=(Band("jobs", max(len(submit), 1)),),
        pieces=pieces,
        submit=submit,
        start=start,
        finish=finish,
        lines=(*usual_lines(submit, start, finish, pieces, {}), *lines),
        **fields,
    )


def check_pieces(schedule: Schedule) -> None:
    """Refuse pieces outside the rows, of no job, or that end before they start.

    Raises:
      JaxschedError: naming the first one.
    """
    pieces, jobs = schedule.pieces, len(schedule.submit)
    bad = (pieces.job < 0) | (pieces.job >= jobs)
    bad |= (pieces.row < 0) | (pieces.row + pieces.rows > schedule.num_rows + 1e-6)
    bad |= pieces.end < pieces.start
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        found = {name: getattr(pieces, name)[first].item() for name in PIECE_COLUMNS}
        raise JaxschedError(
            f"piece {first} is {found}; accepted: jobs below {jobs}, rows within "
            f"{schedule.num_rows}, an end that is not before the start"
        )
