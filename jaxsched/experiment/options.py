"""Options by which traces become episodes. Importing it imports no JAX."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError

LOAD = "offered load"
"""Name of the fact with the offered load of the tables, at best locality."""


class TraceOptions(NamedTuple):
    """Options by which a trace becomes episodes; absent ones are the trace's own.

    Attributes:
      seed: of all draws.
      num_traces: traces to draw or to generate.
      num_jobs: jobs of each.
      cut: cut a published trace into consecutive pieces, do not resample it.
      mean_gap_s: rescale to this mean gap; the tables of a set of job tables all by one factor,
        so that their differences stay.
      load: rescale to this offered load of the system's cluster, likewise: the mean of a set.
      format: of trace files; None: told by their content.
      part: first and last share of a published trace's jobs, in order of submission.
      columns: of a table of one's own, as ``jaxsched.traces.load`` takes them.
      timezone: of times in a trace file that say none.
    """

    seed: int = 0
    num_traces: int | None = None
    num_jobs: int | None = None
    cut: bool = False
    mean_gap_s: float | None = None
    load: float | None = None
    format: str | None = None
    part: tuple[float, float] = (0.0, 1.0)
    columns: str | Mapping[str, str] | None = None
    timezone: str | None = None

    def reading(self) -> dict[str, Any]:
        """Arguments of ``jaxsched.traces.load`` for a file."""
        return {"format": self.format, "columns": self.columns, "timezone": self.timezone}

    def without_reading(self) -> "TraceOptions":
        """The options for a named trace, which is no file."""
        return self._replace(format=None, columns=None, timezone=None)


def read_part(given: str | Sequence[float] | None) -> tuple[float, float]:
    """Two shares, or a text with a colon between them; the whole if absent.

    Raises:
      JaxschedError: not two numbers from 0 to 1, the first one smaller.
    """
    if given is None:
        return 0.0, 1.0
    words = given.split(":") if isinstance(given, str) else given
    try:
        start, end = (float(word) for word in words)
    except (TypeError, ValueError):
        start, end = 1.0, 0.0
    if not 0 <= start < end <= 1:
        raise JaxschedError(
            f"{argument('part')} is {given!r}; accepted: START:END with 0 <= START < END <= 1"
        )
    return start, end
