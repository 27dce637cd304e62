"""Segments of long job tables: consecutive jobs, each segment an episode of its own."""

from collections.abc import Sequence

from jaxsched.jobs.table import JobTable


def segment_starts(num_jobs: int, length: int, every: int) -> range:
    """First rows of a table's segments of ``length`` jobs, one in every ``every`` rows."""
    return range(0, num_jobs - length + 1, every)


def segments(tables: Sequence[JobTable], length: int, every: int) -> list[JobTable]:
    """The segments of each table; a table of at most ``length`` jobs is one segment.

    Args:
      tables: the tables.
      length: jobs of a segment.
      every: rows from one segment's start to the next.
    """
    cut = []
    for table in tables:
        if len(table) <= length:
            cut.append(table)
        else:
            starts = segment_starts(len(table), length, every)
            cut += [table.window(start, length) for start in starts]
    return cut
