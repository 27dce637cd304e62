"""One call for every trace: named ones, workloads, files of any format, data frames."""

from collections.abc import Mapping

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.files import PathLike
from jaxsched.traces import clusters, formats, registry
from jaxsched.traces.formats import Loaded
from jaxsched.traces.from_frames import TableOfRows

GENERATED_JOBS = 10_000
"""Of a workload like a cluster's that is not cut into episodes, unless asked otherwise."""


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
    """The job tables of a named trace, a log like a cluster's, or what a file or a frame holds.

    Args:
      source: a named trace (``jaxsched.traces.names()``), a workload like a cluster's
        (``jaxsched.traces.clusters.names()``, such as ``philly-like``), a file, plain or gzip, a
        folder for formats of several files, or a data frame (pandas, Arrow, polars), which is read
        as a table of one's own.
      format: of a file, its name; None: told by the content.
      columns: the file is a table of one's own with these columns, names in the file to names in a
        trace: a mapping, or ``NAME=submit_time,OTHER=num_gpus`` (``own_names.read_given``).
      timezone: the zone of times that do not say theirs, such as ``Europe/Berlin``; times are then
        universal.
      seed: of a named trace or workload that is drawn.
      num_traces: of a named trace, how many; its own number if absent.
      num_jobs: of a named trace, jobs of each, its own number if absent; of a workload, all jobs,
        10,000 if absent.

    Returns:
      Job tables of a named trace or of the project's own format, else a ``Trace``, which
      ``jaxsched.traces.import_trace`` turns into job tables.

    Raises:
      JaxschedError: one line that says what is wrong and what is accepted.
    """
    read = {"format": format, "columns": columns, "timezone": timezone}
    if isinstance(source, str) and source in clusters.names():
        _refuse({**read, "num_traces": num_traces}, f"{source}, which is one log that is drawn")
        check_counts(optional=True, num_jobs=num_jobs)
        return clusters.generate_trace(source, seed, num_jobs or GENERATED_JOBS)
    if isinstance(source, str) and registry.is_name(source, "a file", clusters.names()):
        _refuse(read, f"the named trace {source}")
        return registry.get(source, seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    drawn = {"seed": seed or None, "num_traces": num_traces, "num_jobs": num_jobs}
    _refuse(drawn, "a file or frame")
    return formats.load(source, format=format, columns=columns, timezone=timezone)


def _refuse(given: Mapping[str, object], source: str) -> None:
    """Refuse arguments that do not go with a source, None where they are not given.

    Raises:
      JaxschedError: one was given.
    """
    for name, value in given.items():
        if value is not None:
            raise JaxschedError(f"{argument(name)} does not go with {source}")
