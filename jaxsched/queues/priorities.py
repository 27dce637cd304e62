"""The fewest changes of priorities that put waiting jobs into an order."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from jaxsched.errors import JaxschedError
from jaxsched.queues.jobs import Priorities

STEP = 1000
"""Between priorities that are all given anew, where there is room."""


def changes(
    wanted: Sequence[str], priorities: Mapping[str, int], accepted: Priorities
) -> dict[str, int]:
    """New priorities, of as few jobs as give the order; none where it is there.

    As many jobs as possible stay as they are: those of a longest falling sequence. The others come
    between them. Where there is no room between, all get priorities anew, from the highest one
    downwards.

    Args:
      wanted: jobs, first in line first.
      priorities: of these jobs, higher first in line.
      accepted: the priorities that there are.

    Raises:
      JaxschedError: more jobs than there are priorities.
    """
    floor, largest = accepted.lowest - 1, accepted.largest
    if len(wanted) >= largest - floor:
        raise JaxschedError(f"{len(wanted)} jobs wait; accepted: fewer than {largest - floor}")
    kept = _falling([priorities[job] for job in wanted])
    found: dict[str, int] = {}
    above = min(max(priorities.values(), default=1) + STEP * (len(wanted) + 1), largest + 1)
    is_top, block = True, list[str]()
    for place, job in enumerate([*wanted, None]):
        if job is not None and place not in kept:
            block.append(job)
            continue
        below, count = floor if job is None else priorities[job], len(block)
        if above - below <= count:
            return _anew(wanted, priorities, floor, largest)
        gap = min((above - below) // (count + 1), STEP)
        first = below + gap * count if is_top else above - gap
        found |= {each: first - gap * k for k, each in enumerate(block)}
        above, is_top, block = below, False, []
    return found


def _anew(
    wanted: Sequence[str], priorities: Mapping[str, int], floor: int, largest: int
) -> dict[str, int]:
    top = max(max(priorities.values()), min(STEP * (len(wanted) + 1), largest))
    gap = max(min(STEP, (top - floor) // (len(wanted) + 1)), 1)
    top = max(top, floor + gap * (len(wanted) + 1))
    given = {job: top - gap * k for k, job in enumerate(wanted)}
    return {job: value for job, value in given.items() if priorities[job] != value}


def _falling(values: Sequence[int]) -> set[int]:
    """Places of a longest strictly falling subsequence."""
    ends: list[int] = []  # of sequences by length, minus the value
    last: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_left(ends, -value)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [-value]
        last[length : length + 1] = [place]
    found, place = set(), last[-1] if last else -1
    while place >= 0:
        found.add(place)
        place = before[place]
    return found
