"""How long drawing and writing many jobs will take, timed on a few of them."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SAMPLE = 50_000
MANY = 20 * SAMPLE
"""Jobs from which on a sample is timed first."""


class Pace(NamedTuple):
    """Seconds that a job takes: drawn, and written."""

    draw_s: float
    write_s: float


def pace(
    out: Path, make: Callable[[int], Any], write: Callable[[Path, Any], object], num_jobs: int
) -> Pace | None:
    """The pace of a sample; None for so few jobs that no progress is shown.

    Args:
      out: the file; its ending matters.
      make: draws so many jobs.
      write: writes them.
      num_jobs: that are to be drawn.
    """
    if num_jobs < MANY:
        return None
    begin = time.perf_counter()
    made = make(SAMPLE)
    drawn = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / f"sample{''.join(out.suffixes[-2:])}", made)
    return Pace((drawn - begin) / SAMPLE, (time.perf_counter() - drawn) / SAMPLE)
