"""What rooms above hand down to rooms below, which do not know who offers it.

Reading and naming traces takes the kinds of jobs and the named traces that there are. The rooms
that make those are made of traces themselves, so they offer them here, and readers ask here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

Source = Callable[[], Iterable[Any]]

_sources: dict[str, Source] = {}


def offer_workloads(name: str, source: Source) -> None:
    """Have workloads known to everyone who reads or names traces.

    Args:
      name: whose they are; a later offer of the same name takes the place of the earlier one.
      source: gives them; called whenever they are asked for, so that it may load what makes them.
        A workload has ``jobs``, kinds of jobs (``jaxsched.jobs.kinds.JobKind``), and ``traces``
        (``jaxsched.traces.named.NamedTrace``).
    """
    _sources[name] = source


def workloads() -> Iterator[Any]:
    """All workloads that are offered, in the order of the offers."""
    for source in tuple(_sources.values()):
        yield from source()
