"""Rows for jobs whose GPUs have no identity: who is drawn where.

Axes: ``n`` intervals or stacks, ``J`` jobs.
"""

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

Piece = tuple[float, float, float, float, float, float]
"""Job, row, rows, start, end, level, as ``Pieces.of`` takes them."""


def runs(places: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of adjacent whole numbers, as (first, count)."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and place == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((place, 1))
    return found


class Lanes:
    """The rows of one band, handed out lowest first and taken back when they are free again."""

    def __init__(self, first: int, rows: int) -> None:
        """``rows`` free rows from ``first`` on."""
        self._free = list(range(first, first + rows))
        self._held: list[tuple[float, tuple[int, ...]]] = []

    def take(self, count: int, start: float, end: float) -> list[tuple[int, int]]:
        """Runs of ``count`` rows that are free at ``start`` and taken until ``end``.

        Starts must not decrease from call to call. What does not fit is left out.
        """
        while self._held and self._held[0][0] <= start:
            for row in heapq.heappop(self._held)[1]:
                heapq.heappush(self._free, row)
        rows = [heapq.heappop(self._free) for _ in range(min(count, len(self._free)))]
        if rows:
            heapq.heappush(self._held, (end, tuple(rows)))
        return runs(rows)


def stacks(
    times: Sequence[tuple[float, float]], amounts: Sequence[dict[int, int]], first: int
) -> tuple[list[Piece], int]:
    """Jobs on top of each other, in order of their numbers, interval by interval.

    A job that holds as much on the same rows in an interval that begins where the last one ended
    goes on in one piece.

    Args:
      times: ``[n]`` start and end of the intervals, in order.
      amounts: ``[n]`` job -> rows that it holds.
      first: row of the bottom.

    Returns:
      The pieces, and the most rows that were held at once.
    """
    open_pieces: dict[tuple[int, int, int], tuple[float, float]] = {}
    pieces: list[Piece] = []
    most = 0
    for (start, end), held in zip(times, amounts, strict=True):
        row, following = first, {}
        for job in sorted(held):
            count = held[job]
            if not count:
                continue
            place = (job, row, count)
            before = open_pieces.pop(place, None)
            begun = before[0] if before and abs(before[1] - start) < 1e-6 else start
            if before and begun == start:
                pieces.append((job, row, count, *before, 0))
            following[place] = (begun, end)
            row += count
        pieces += [(*place, *when, 0) for place, when in open_pieces.items()]
        open_pieces = following
        most = max(most, row - first)
    pieces += [(*place, *when, 0) for place, when in open_pieces.items()]
    return pieces, most


def shared_rows(
    rows: np.ndarray, heights: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Where on its row each of several intervals lies that share rows, float ``[n]``.

    Each gets the lowest place of its height that is free on its row during it; where none is, the
    row is overloaded, and it is drawn over others at the row's end.

    Args:
      rows: int ``[n]``, the row of each.
      heights: ``[n]``, share of the row, up to 1.
      starts: ``[n]`` s.
      ends: ``[n]`` s.
    """
    placed = np.zeros(len(rows))
    taken: dict[int, list[tuple[float, float, float]]] = {}  # row -> (end, bottom, top)
    for index in np.argsort(starts, kind="stable").tolist():
        row, height, start = int(rows[index]), min(float(heights[index]), 1.0), starts[index]
        there = [entry for entry in taken.get(row, []) if entry[0] > start]
        place = 0.0
        for _, bottom, top in sorted(there, key=lambda entry: entry[1]):
            if bottom - place >= height - 1e-9:
                break
            place = max(place, top)
        place = min(place, 1.0 - height)
        taken[row] = [*there, (float(ends[index]), place, place + height)]
        placed[index] = row + place
    return placed
