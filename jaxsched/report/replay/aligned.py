"""Schedules beside each other, drawn to one scale."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxsched.jobs.schedule import Floats, Schedule


def aligned(schedules: Sequence[Schedule]) -> list[Schedule]:
    """The same schedules, bands of the same names as high as the highest, so that heights compare.

    Those whose bands have other names than the first one's stay as they are.
    """
    names = [band.name for band in schedules[0].bands] if schedules else []
    alike = [[band.name for band in schedule.bands] == names for schedule in schedules]
    rows = [schedule.bands for schedule, same in zip(schedules, alike, strict=True) if same]
    bands = tuple(max(column, key=lambda band: band.rows) for column in zip(*rows, strict=True))
    begins = np.cumsum([0, *(band.rows for band in bands)])
    found = []
    for schedule, same in zip(schedules, alike, strict=True):
        if not same or schedule.bands == bands:
            found.append(schedule)
            continue
        own = np.cumsum([0, *(band.rows for band in schedule.bands)])
        shift = (begins - own)[:-1]

        def moved(row: Floats, own: Any = own, shift: Any = shift) -> Floats:
            at: Floats = row + shift[np.searchsorted(own[1:-1], row, side="right")]
            return at

        pieces = replace(schedule.pieces, row=moved(schedule.pieces.row))
        marks = tuple(replace(m, row=moved(m.row)) for m in schedule.marks)
        found.append(replace(schedule, bands=bands, pieces=pieces, marks=marks))
    return found
