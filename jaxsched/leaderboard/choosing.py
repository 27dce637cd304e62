"""From options of the command line to workloads and loads."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.jobs.servers import Servers
from jaxsched.leaderboard.cells import check_loads
from jaxsched.leaderboard.sources import is_name
from jaxsched.leaderboard.workloads import BY_NAME_ONLY, WORKLOADS, Workload
from jaxsched.traces import clusters, registry
from jaxsched.traces.text import stem

LOAD = 0.9
"""The board's load where no cluster is given."""

Reading = tuple[tuple[str, Any], ...]


def loads_of(text: str | None) -> tuple[float, ...]:
    """The loads of a sweep, numbers separated by commas; empty without a sweep.

    Raises:
      JaxschedError: other text.
    """
    try:
        found = () if text is None else tuple(float(word) for word in text.split(","))
    except ValueError:
        raise JaxschedError(f"--loads is {text!r}; accepted: numbers with commas between") from None
    return found


def workloads_of(
    *,
    data: Path | None = None,
    names: str | None = None,
    traces: Sequence[str] = (),
    load: float | None = None,
    servers: Servers | None = None,
    reading: Reading = (),
    loads: Sequence[float] = (),
    speeds: str | None = None,
    failures: str | None = None,
    reservations: str | None = None,
    checkpoint_s: int = 0,
) -> list[Workload]:
    """The chosen workloads; by default the generated ones and those whose files exist.

    Args:
      data: folder of public traces.
      names: of workloads, separated by commas.
      traces: files of any format, named traces, generators.
      load: of the board; 0.9 where neither a load nor servers are given.
      servers: the cluster; None: as large as the load requires.
      reading: options of reading the files, name and value each.
      loads: of the sweep, to be checked.
      speeds: of job types on GPU types, a file or ``gavel``.
      failures: of servers, HOURS:HOURS or a log of outages.
      reservations: of servers, a list of them.
      checkpoint_s: seconds between checkpoints.

    Raises:
      JaxschedError: an unknown name, a load out of range, or options of reading without a
        file.
    """
    board = LOAD if load is None and servers is None else load
    check_loads((*(() if board is None else (board,)), *loads))
    own = [_own(name, source, reading) for name, source in _named(traces)]
    if reading and all(is_name(workload.source) for workload in own):
        option = reading[0][0]
        raise JaxschedError(f"--{option} needs a file; accepted: --{option} with --trace FILE")
    known = [*WORKLOADS, *BY_NAME_ONLY]
    chosen = _chosen(data, names, own, known)
    asked: dict[str, Any] = {} if servers is None else servers._asdict()
    asked |= {"load": board, "speeds": speeds, "failures": failures, "reservations": reservations}
    asked |= {"checkpoint_s": checkpoint_s}
    return [workload._replace(**asked) for workload in chosen]


def _chosen(
    data: Path | None, names: str | None, own: Sequence[Workload], known: Sequence[Workload]
) -> list[Workload]:
    if names is None:
        further = {workload.name for workload in BY_NAME_ONLY}
        return list(own) or [
            workload
            for workload in known
            if workload.name not in further
            and (workload.is_generated or (data and (data / workload.source).exists()))
        ]
    by_name = {workload.name: workload for workload in (*known, *own)}
    unknown = [name for name in names.split(",") if name not in by_name]
    if unknown:
        raise JaxschedError(f"unknown workload {unknown[0]!r}; accepted: {', '.join(by_name)}")
    mine = {workload.name for workload in own}
    return [*own, *(by_name[name] for name in names.split(",") if name not in mine)]


def _own(name: str, source: str, reading: Reading) -> Workload:
    """A workload of ``--trace``: a common one, a generator, a named trace or a file."""
    known = {workload.name: workload for workload in (*WORKLOADS, *BY_NAME_ONLY)}
    if source in clusters.names():
        return known.get(source, Workload(name, source))
    if is_name(source):
        return Workload(name, source)
    return Workload(name, source, reading=reading, own=True)


def _named(traces: Sequence[str]) -> list[tuple[str, str]]:
    """Every source once, under a unique name: the shortest unique end of its path.

    Raises:
      JaxschedError: neither a name nor a file.
    """
    sources: dict[str, None] = {}
    for text in traces:
        if not is_name(text) and not Path(text).exists():
            raise JaxschedError(
                f"{text}: there is no such file, and no trace of that name; accepted: a trace "
                f"file, or {registry.nearest(text, clusters.names())}"
            )
        sources[text if is_name(text) else os.path.abspath(text)] = None
    plain = {source: source if is_name(source) else stem(source) for source in sources}
    groups: dict[str, list[str]] = {}
    for source, name in plain.items():
        groups.setdefault(name, []).append(source)
    apart = {name: _apart(group) for group in groups.values() for name in group}
    return [(apart[source][source], source) for source in sources]


def _apart(group: Sequence[str]) -> dict[str, str]:
    """Different names for sources of equal name: with folders before it, else with the ending."""
    names: dict[str, str] = {}
    for file_name in (stem, lambda path: Path(path).name):
        for depth in range(max(len(Path(source).parts) for source in group)):
            for source in group:
                folders = Path(source).parent.parts[-depth:] if depth else ()
                names[source] = "/".join((*folders, file_name(source)))
                if is_name(source):
                    names[source] = source
            if len(set(names.values())) == len(group):
                return names
    return names
