"""Job tables of an experiment: a named trace, a workload, or a file of any format."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from jaxsched.arguments import argument
from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.experiment.options import TraceOptions
from jaxsched.jobs import JobTable, first_of
from jaxsched.jobs.notes import notes_of
from jaxsched.systems import functions
from jaxsched.systems import registry as systems
from jaxsched.systems.system import System
from jaxsched.traces import ImportSummary, Trace, clusters, import_trace, registry
from jaxsched.traces.formats import Loaded, load
from jaxsched.traces.rescaling import rescale_tables

NUM_TRACES = 30  # made of a published trace, unless asked otherwise
Read = Callable[..., Loaded]
Source = str | PathLike[str] | Trace | Sequence[JobTable]
"""A named trace, a workload, a file of any known format, a loaded log, or job tables."""
SHOWN_DIGITS = 12  # of a digest


class Episodes(NamedTuple):
    """Job tables for an evaluation or a training.

    Attributes:
      tables: the tables.
      source: description of the tables, with the digest of the trace that they were made of.
      summary: changes by an import; empty if there are none.
      digest: of that trace (``Trace.digest``); empty for traces that are job tables themselves.
      fixed: whether the tables are given, not drawn or cut by the options.
    """

    tables: list[JobTable]
    source: str
    summary: str
    digest: str = ""
    fixed: bool = False

    @property
    def notes(self) -> list[str]:
        """Changes when the trace became tables, one sentence each."""
        return notes_of(self.tables)

    def made_with(
        self, options: TraceOptions, system: System, env: Environment | None = None
    ) -> "Episodes":
        """These episodes with the options applied.

        Of fixed tables the first ones, or their first jobs; then job tables are rescaled.

        Args:
          options: what is wanted.
          system: whose jobs they are.
          env: whose cluster an offered load refers to; the system's usual one if absent.

        Raises:
          JaxschedError: job tables were to be cut, have not so many tables or jobs, or cannot be
            rescaled.
        """
        if not self.digest and options.cut:
            raise JaxschedError(
                f"{self.source}: holds job tables; accepted: {argument('cut')} with published "
                "traces and workloads"
            )
        return self._first(options).rescaled(options, system, env)

    def rescaled(
        self, options: TraceOptions, system: System, env: Environment | None = None
    ) -> "Episodes":
        """Job tables at the mean gap or load of the options, if they have one.

        Published traces and workloads have been rescaled as they were made into tables.

        Raises:
          JaxschedError: both are given, one has a bad value, or the tables cannot be rescaled.
        """
        asked = {"mean_gap_s": options.mean_gap_s, "load": options.load}
        if self.digest or not any(value is not None for value in asked.values()):
            return self
        mapping = functions.mapping(system, env or functions.environment(system), **asked)
        tables, scale = rescale_tables(self.tables, mapping, self.source)
        return self._replace(tables=tables, source=f"{self.source} (times x {scale:.6g})")

    def _first(self, options: TraceOptions) -> "Episodes":
        if not self.fixed:
            return self
        tables = first_of(
            self.tables,
            options.num_traces,
            options.num_jobs,
            source=self.source,
        )
        notes = []
        if options.num_traces is not None:
            notes.append(f"first {len(tables)} of {len(self.tables)} tables")
        if options.num_jobs is not None:
            notes.append(f"first {options.num_jobs} jobs of each")
        source = f"{self.source} ({', '.join(notes)})" if notes else self.source
        return self._replace(tables=tables, source=source)


def is_file(source: Source) -> bool:
    """Whether a source is an existing file."""
    return isinstance(source, str | PathLike) and Path(source).exists()


def resolve(
    source: Source,
    system: System,
    options: TraceOptions,
    env: Environment | None = None,
    *,
    read: Read = load,
) -> Episodes:
    """Tables of a named trace, workload or file of any known format, as jobs of the system.

    Published traces are resampled or, with ``options.cut``, cut into consecutive pieces; the
    workloads of ``jaxsched.traces.clusters`` are always cut, so that their bursts and hours stay.

    Args:
      source: source of the episodes.
      system: whose jobs are wanted.
      options: how the trace becomes episodes.
      env: whose cluster the jobs are for; the system's usual one if absent.
      read: reads files; a caller that resolves one file several times may cache it.

    Raises:
      JaxschedError: unknown name, unreadable file, or nothing usable in it.
    """
    if isinstance(source, Trace):
        return _episodes(source, source.name, system, options, env)
    if not isinstance(source, str | PathLike):
        tables = system.jobs.adapted(list(source))
        return Episodes(tables, f"{len(tables)} job tables", "", fixed=True)
    name_or_path = fspath(source)
    named = name_or_path in registry.names() or name_or_path in clusters.names()
    asked = [name for name, value in options.reading().items() if value is not None]
    if named and asked:
        raise JaxschedError(
            f"{name_or_path}: is a name; accepted: {argument(asked[0])} with a file"
        )
    if name_or_path in registry.names():
        tables = registry.get(
            name_or_path,
            seed=options.seed,
            num_traces=options.num_traces,
            num_jobs=options.num_jobs,
        )
        entry = next(entry for entry in registry.entries() if entry.name == name_or_path)
        return Episodes(system.jobs.adapted(tables), name_or_path, "", fixed=not entry.seeded)
    if name_or_path in clusters.names():
        wanted = (options.num_traces or NUM_TRACES) * (options.num_jobs or system.jobs.num_jobs)
        trace = clusters.usable_jobs(name_or_path, options.seed, wanted)
        return _episodes(trace, name_or_path, system, options._replace(cut=True), env)
    if not Path(name_or_path).exists():
        raise JaxschedError(
            f"'{name_or_path}' is neither a file nor a known trace; accepted: a trace file, or "
            f"{registry.nearest(name_or_path, clusters.names())}"
        )
    loaded = read(name_or_path, **options.reading())
    if not isinstance(loaded, Trace):
        return Episodes(system.jobs.adapted(loaded), Path(name_or_path).name, "", fixed=True)
    return _episodes(loaded, name_or_path, system, options, env)


def system_of_trace(name_or_path: str) -> str:
    """Name of the system that a named trace belongs to.

    Raises:
      JaxschedError: a file or a workload, which any system may play, or nothing that is known.
    """
    for name, workload in zip(systems.names(), systems.workloads(), strict=True):
        if name_or_path in (trace.name for trace in workload.traces):
            return name
    known = name_or_path in clusters.names() or Path(name_or_path).exists()
    if not known:
        nearest = registry.nearest(name_or_path, clusters.names())
        raise JaxschedError(
            f"{name_or_path!r} is no folder, file or known trace; accepted: the folder of a "
            f"trained policy, a case, a trace file, or {nearest}"
        )
    raise JaxschedError(
        f"{name_or_path}: name the system that plays it with {argument('system')}; known are "
        f"{', '.join(systems.names())}"
    )


def _episodes(
    trace: Trace,
    name_or_path: str,
    system: System,
    options: TraceOptions,
    env: Environment | None,
) -> Episodes:
    num_jobs = options.num_jobs or system.jobs.num_jobs
    digest = trace.digest()
    trace = _part(trace, options.part)
    asked = {"mean_gap_s": options.mean_gap_s, "load": options.load}
    env = env or functions.environment(system)
    config = functions.mapping(system, env, **asked)
    share_gpus = any(kind.busy_gpu_seconds is not None for kind in system.jobs.workload.jobs)
    anew = options.load is not None and share_gpus  # the load is that of the system's own jobs
    imported = import_trace(
        trace,
        mode="cut" if options.cut else "sample",
        seed=options.seed,
        num_traces=options.num_traces or NUM_TRACES,
        num_jobs=num_jobs,
        config=replace(config, load=None) if anew else config,
    )
    how = "consecutive pieces" if options.cut else f"resampled, seed {options.seed}"
    if not imported.tables:
        raise JaxschedError(f"{name_or_path}: has fewer than {num_jobs} usable jobs")
    tables = [env.fitted(table) for table in system.jobs.adapted(imported.tables)]
    if anew:
        tables = rescale_tables(tables, config, name_or_path).tables
    return Episodes(
        tables,
        f"{trace.name} ({how}; SHA-256 {digest[:SHOWN_DIGITS]})",
        f"{imported.summary}\n{_demand(imported.summary)}\n  digest of the trace: {digest}",
        digest,
    )


def _part(trace: Trace, part: tuple[float, float]) -> Trace:
    """The jobs of a trace between two shares, in order of submission."""
    if part == (0.0, 1.0):
        return trace
    first, last = (round(share * len(trace)) for share in part)
    note = f"jobs {first} to {last} of {len(trace)} in order of submission"
    return trace.by_submission().take(slice(first, last), note=note)


def _demand(summary: ImportSummary) -> str:
    counts: dict[str, Any] = summary.traces["demand"]
    total = sum(counts.values())
    shares = (f"{gpus}: {100 * count / total:.1f} %" for gpus, count in counts.items())
    return f"  GPUs of the traces' jobs: {', '.join(shares)}"
