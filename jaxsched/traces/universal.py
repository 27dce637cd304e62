"""Traces whose times are those of a clock on the wall, brought to universal time."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np

from jaxsched.traces.times import END, START, SUBMIT, Moments, settle
from jaxsched.traces.trace import Trace


def in_universal_time(trace: Trace, zone: ZoneInfo) -> Trace:
    """A trace in universal time, without what changes of the clock do to the times between.

    Run times that were those from start to end by the clock, or that are not known though start and
    end are, are those between the two in universal time.

    Args:
      trace: with times of a local clock; others are as they were, and a note says so.
      zone: of that clock.
    """
    if trace.clock != "local":
        note = f"its clock is {trace.clock}, so that the zone {zone.key} changes nothing"
        return replace(trace, notes=(*trace.notes, note))
    duration = trace["duration"]
    written = {}
    for name in (SUBMIT, START, END, "deadline"):
        if name in trace:
            times = trace[name]
            written[name] = Moments(times, np.full(len(times), np.nan), ~np.isnan(times))
    settled = settle(written, zone=zone, duration=None if END in written else duration)
    columns = {**trace.columns, **settled.columns}
    if START in written and END in written:
        span = settled.columns[END] - settled.columns[START]
        by_clock = np.abs(duration - (trace[END] - trace[START])) < 1
        taken = (by_clock | np.isnan(duration)) & (span >= 0)
        columns["duration"] = np.where(taken, span, duration)
    return replace(
        trace, columns=columns, clock=settled.clock, notes=(*trace.notes, *settled.notes)
    )
