"""Job tables from the ``--trace`` option: a named trace, or a file of any known format."""

from pathlib import Path
from typing import NamedTuple

from jaxsched.cli.options import TraceOptions
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.system import System
from jaxsched.traces import Trace, import_trace, load, registry

NUM_TRACES = 30  # made of a real trace, unless asked otherwise


class Episodes(NamedTuple):
    """Job tables, what they are, and what an import dropped or changed (empty if nothing was)."""

    tables: list[JobTable]
    source: str
    summary: str


def resolve(name_or_path: str, system: System, options: TraceOptions) -> Episodes:
    """Tables of a named trace or of a file of any known format, as jobs of the system.

    Raises:
      JaxschedError: unknown name, unreadable file, or nothing usable in it.
    """
    if name_or_path in registry.names() or not Path(name_or_path).exists():
        tables = registry.resolve(
            name_or_path,
            seed=options.seed,
            num_traces=options.num_traces,
            num_jobs=options.num_jobs,
        )
        return Episodes(system.adapt(tables), name_or_path, "")
    loaded = load(name_or_path)
    if not isinstance(loaded, Trace):
        return Episodes(system.adapt(loaded), Path(name_or_path).name, "")
    num_jobs = options.num_jobs or system.num_jobs
    imported = import_trace(
        loaded,
        mode="cut" if options.cut else "sample",
        seed=options.seed,
        num_traces=options.num_traces or NUM_TRACES,
        num_jobs=num_jobs,
        config=system.mapping(mean_gap_s=options.mean_gap_s, load=options.load),
    )
    how = "consecutive pieces" if options.cut else f"resampled, seed {options.seed}"
    if not imported.tables:
        raise JaxschedError(f"{name_or_path}: has fewer than {num_jobs} usable jobs")
    tables = system.adapt(imported.tables)
    return Episodes(tables, f"{loaded.name} ({how})", str(imported.summary))
