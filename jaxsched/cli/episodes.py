"""Job tables from the ``--trace`` option: a named trace, or a file of any known format."""

from pathlib import Path
from typing import NamedTuple

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.system import System
from jaxsched.traces import RawTrace, import_trace, load, registry


class TraceOptions(NamedTuple):
    """How a trace becomes episodes (options of several commands)."""

    seed: int = 0
    num_traces: int = 30
    num_jobs: int = 1000
    cut: bool = False
    mean_gap_s: float | None = None
    load: float | None = None


class Episodes(NamedTuple):
    """Job tables, what they are, and what an import dropped or changed (empty if nothing was)."""

    tables: list[JobTable]
    source: str
    summary: str


def resolve(name_or_path: str, system: System, options: TraceOptions) -> Episodes:
    """Tables of a named trace or of a file of any known format.

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
        return Episodes(tables, name_or_path, "")
    loaded = load(name_or_path)
    if not isinstance(loaded, RawTrace):
        return Episodes(loaded, Path(name_or_path).name, "")
    config = system.mapping(mean_gap_s=options.mean_gap_s, load=options.load)
    imported = import_trace(
        loaded,
        mode="cut" if options.cut else "sample",
        seed=options.seed,
        num_traces=options.num_traces,
        num_jobs=options.num_jobs,
        config=config,
    )
    how = "consecutive pieces" if options.cut else f"resampled, seed {options.seed}"
    if not imported.tables:
        raise JaxschedError(f"{name_or_path}: has fewer than {options.num_jobs} usable jobs")
    return Episodes(imported.tables, f"{loaded.name} ({how})", str(imported.summary))
