"""What several of the commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxsched.arguments import LARGEST_SEED
from jaxsched.errors import JaxschedError, counted

if TYPE_CHECKING:
    from jaxsched.traces.trace import Trace

Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed.")]


def check_ending(path: Path, endings: Sequence[str]) -> None:
    """Refuse an output file whose name does not say a layout that can be written."""
    if not path.name.endswith(tuple(endings)):
        raise JaxschedError(f"{path}: expected a name that ends in {' or '.join(endings)}")


def print_trace(out: Any, trace: "Trace") -> None:
    """What was read or drawn: rows, what was dropped or imputed, what is not known, the digest."""
    from jaxsched.traces.trace import known

    rows, jobs = counted(trace.rows_read, "row"), counted(len(trace), "job")
    out.print(f"{trace.name} ({trace.source}): {rows}, {jobs}")
    for note in trace.notes:
        out.print(f"  {note}", highlight=False)
    for column, words in (("num_gpus", "number of GPUs"), ("duration", "run time")):
        missing = len(trace) - int(known(trace, column).sum())
        out.print(f"  {counted(missing, 'job')} without a known {words}", highlight=False)
    cpu_jobs = int((trace["num_gpus"] == 0).sum())
    out.print(f"  {counted(cpu_jobs, 'job')} with no GPU; clock: {trace.clock}", highlight=False)
    out.print(f"  columns: {', '.join(trace.columns)}", highlight=False)
    out.print(f"  digest: {trace.digest()}", highlight=False)
