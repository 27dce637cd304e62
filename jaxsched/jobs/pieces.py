"""Short episodes cut from long job tables."""

from collections.abc import Sequence

from jaxsched.jobs.table import JobTable


def piece_starts(num_jobs: int, length: int, every: int) -> range:
    """First rows of the pieces of ``length`` jobs that a table has, one in every ``every`` rows."""
    return range(0, num_jobs - length + 1, every)


def pieces(tables: Sequence[JobTable], length: int, every: int) -> list[JobTable]:
    """Short tables as they are, of longer ones consecutive jobs from every start.

    Args:
      tables: the tables.
      length: jobs of a piece.
      every: rows from one start to the next.
    """
    cut = []
    for table in tables:
        if len(table) <= length:
            cut.append(table)
        else:
            starts = piece_starts(len(table), length, every)
            cut += [table.window(start, length) for start in starts]
    return cut
