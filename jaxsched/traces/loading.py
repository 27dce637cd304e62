"""One call for every trace: named ones, files of any format, data frames."""

from collections.abc import Mapping

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.traces import formats, registry
from jaxsched.traces.formats import Loaded
from jaxsched.traces.from_frames import TableOfRows


def load(
    source: PathLike | TableOfRows,
    *,
    format: str | None = None,  # noqa: A002  (the command's word)
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
) -> Loaded:
    """The job tables of a named trace, or what a file or a data frame holds.

    Args:
      source: a name (``jaxsched.traces.names()``), a file, plain or gzip, a folder for formats of
        several files, or a data frame (pandas, Arrow, polars), which is read as a table of one's
        own.
      format: of a file, its name; None: told by the content.
      columns: the file is a table of one's own with these columns, names in the file to names in a
        trace: a mapping, or ``NAME=submit_time,OTHER=num_gpus`` (``own_names.read_given``).
      timezone: the zone of times that do not say theirs, such as ``Europe/Berlin``; times are then
        universal.
      seed: of a named trace that is drawn.
      num_traces: of a named trace, how many; its own number if absent.
      num_jobs: of a named trace, jobs of each; its own number if absent.

    Returns:
      Job tables of a named trace or of the project's own format, else a ``Trace``, which
      ``jaxsched.traces.import_trace`` turns into job tables.

    Raises:
      JaxschedError: one line that says what is wrong and what is accepted.
    """
    if isinstance(source, str) and registry.is_name(source, "a file"):
        return registry.get(source, seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    drawn = {"seed": seed or None, "num_traces": num_traces, "num_jobs": num_jobs}
    for name, value in drawn.items():
        if value is not None:
            raise JaxschedError(f"{name} is given with a file or frame; accepted: a named trace")
    return formats.load(source, format=format, columns=columns, timezone=timezone)
