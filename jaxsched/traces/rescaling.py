"""Job tables at another mean gap or offered load."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.traces.describe import has_load, offered_load
from jaxsched.traces.mapping import MappingConfig, rescaled_in_words, stretch


class Rescaled(NamedTuple):
    """Job tables with other submission times.

    Attributes:
      tables: the tables.
      scale: factor on all submission times.
    """

    tables: list[JobTable]
    scale: float


def rescale_tables(tables: Sequence[JobTable], config: MappingConfig, name: str) -> Rescaled:
    """Multiply the submission times of all tables by one factor, so that their differences stay.

    Args:
      tables: the tables, at least one.
      config: with ``mean_gap_s``, the mean over all gaps of all tables, or with ``load``, the mean
        over the tables (``describe.offered_load``); the cluster that the load refers to.
      name: of the set, for errors.

    Raises:
      JaxschedError: no table has a gap, the jobs have no load of their own, or the times that
        result are too short or too long.
    """
    spans = [float(table["submit_time"][-1] - table["submit_time"][0]) for table in tables]
    if config.mean_gap_s is not None:
        wanted_span = config.mean_gap_s * sum(len(table) - 1 for table in tables)
    else:
        assert config.load is not None and config.max_gpus is not None
        _check_sized(tables, name)
        offered = offered_load(tables, config.max_gpus, config.slots) or 0.0
        wanted_span = sum(spans) * offered / config.load
    scale = stretch(sum(spans), wanted_span, config, name)
    note = rescaled_in_words(scale, config)
    return Rescaled([_rescaled(table, scale, note) for table in tables], scale)


def _rescaled(table: JobTable, scale: float, note: str) -> JobTable:
    return replace(rescale_arrivals(table, scale), notes=(*table.notes, note))


def _check_sized(tables: Sequence[JobTable], name: str) -> None:
    """Refuse jobs whose GPU time is not known before they run."""
    for table in tables:
        if not has_load(table):
            raise JaxschedError(
                f"{name}: its jobs have no number of GPUs of their own and so offer no load; "
                f"accepted: {argument('mean_gap')}"
            )
