"""Reader for the traces of Microsoft's ITP clusters (2021), published with ElasticFlow (ASPLOS'23).

Two layouts: ``job_id,submission_time,duration,num_gpu``, and the one with generated models and
deadlines, of which only the same four columns are read.
"""

from jaxsched.traces.raw import RawTrace
from jaxsched.traces.rows import PathLike, Rows, read_rows, stem

NAME = "itp"
HEADERS = (
    ("job_id", "submission_time", "duration", "num_gpu"),
    (
        "job_id",
        "submission_time",
        "num_iteration",
        "model_name",
        "deadline",
        "batch_size",
        "num_gpu",
        "duration",
    ),
)


def read(path: PathLike) -> RawTrace:
    """Read an ITP table; ``submit_s`` counts from the start of the collection.

    Raises:
      JaxschedError: one line with file and line number.
    """
    return from_rows(read_rows(path, HEADERS))


def from_rows(rows: Rows) -> RawTrace:
    """The trace in a file that has been split into cells."""
    submit = rows.numbers("submission_time")
    num_gpus = rows.whole_numbers("num_gpu", absent=0)
    duration = rows.numbers("duration", absent=float("nan"))
    rows.not_negative("submission_time", submit)
    rows.not_negative("num_gpu", num_gpus)
    rows.not_negative("duration", duration)
    return RawTrace(stem(rows.path), NAME, submit, num_gpus, duration)
