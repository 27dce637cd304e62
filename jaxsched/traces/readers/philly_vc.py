"""Reader for a table of all jobs of four virtual clusters of Microsoft's Philly (2017).

Layout ``vc,submit_time,num_gpus,duration_s,matched_pass``: the jobs that Muri published, with the
absolute times and the success of those that are in the table of successful jobs as well. Whether
the others were killed or failed is not known. Time stamps are naive local times. Two other tables
derived from Philly, of run times alone, are refused by name.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.files import PathLike
from jaxsched.traces.odd_rows import Counts, finished
from jaxsched.traces.readers.fields import NAN, number, renamed
from jaxsched.traces.readers.head import head_of
from jaxsched.traces.readers.layouts import Layout, Layouts
from jaxsched.traces.readers.without_times import refuse
from jaxsched.traces.rows import Rows
from jaxsched.traces.trace import Trace

NAME = "philly-vc"
DESCRIPTION = "Microsoft Philly (2017), all jobs of four virtual clusters"
HEADERS = (("vc", "submit_time", "num_gpus", "duration_s", "matched_pass"),)
RUN_TIMES = (
    ("duration", "scale_factor"),
    ("duration", "scale_factor", "matched_pass"),
    ("runtime",),
)
LAYOUTS = Layouts(Layout(HEADERS[0]))
matches = Layouts(*LAYOUTS, *(Layout(names, is_exact=True) for names in RUN_TIMES)).matches

_NAMES = {"num_gpus": "num_gpus", "duration": "duration_s", "group": "vc"}


def read(path: PathLike) -> Trace:
    """Read such a table; ``group`` is the virtual cluster.

    Raises:
      JaxschedError: one line with file and line number, or that the file has no submission times.
    """
    if head_of(path).header in RUN_TIMES:
        refuse(path, "run times of Philly's jobs")
    counts: Counts = Counter()
    columns = LAYOUTS.read(path, _columns, counts)
    others = int(np.sum(columns["status"] == ""))
    note = f"{others} jobs were killed or failed, their status is left empty"
    notes = (note,) if others else ()
    return finished(path, columns, NAME, "local", counts=counts, notes=notes)


def _columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    passed = number(rows, "matched_pass")
    strange = ~np.isin(passed, (0, 1))
    rows.counts["{} jobs whose matched_pass is neither 0 nor 1"] += int(np.sum(strange))
    return renamed(rows, _NAMES) | {
        "submit_time": rows.stamps("submit_time", absent=NAN),
        "status": np.where(passed == 1, "completed", ""),
    }
