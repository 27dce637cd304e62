"""The common workloads: real traces as published, and generated ones where logs are not public.

A cluster is as large as the load requires, or has a given size. On a given cluster jobs arrive as
they were submitted, or, if a load is given, the time between submissions is stretched to
reach it; so it is for the other loads of a sweep.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.servers import Kind
from jaxsched.jobs.shares import slots_of
from jaxsched.leaderboard.sources import ROUNDED, Drawn, Log, of_trace, read
from jaxsched.trace_replay import Cluster
from jaxsched.trace_replay.demands import capped, holds
from jaxsched.trace_replay.gpu_types import check_types
from jaxsched.trace_replay.outages import Outages, outages_told
from jaxsched.trace_replay.speeds import read_speeds, with_speeds
from jaxsched.trace_replay.tables import groups_of
from jaxsched.traces.clusters import names
from jaxsched.traces.trace import Trace

GPUS_PER_SERVER = 8
DAY_S = 86400


class Workload(NamedTuple):
    """The source of jobs, and their cluster.

    Attributes:
      name: the workload's name.
      source: file below the folder of public traces, or name of a generator or named trace.
      load: requested GPU-seconds over those of the cluster between first and last submission;
        None: that of the jobs as they were submitted, which needs ``num_servers``.
      from_day: days at the trace's beginning that are left out (too few jobs).
      num_servers: servers; None: the fewest whose load is no higher than ``load``.
      num_jobs: rows to generate, some without GPUs; ignored for files.
      longest_days: jobs that run longer are left out: services that hold their GPUs for good, so
        that these count as no part of the cluster.
      gpus_per_server: GPUs of a server; where they differ, of the largest.
      kinds: servers by their size and type, where they differ and are given.
      slots: of each GPU.
      speeds: where GPUs have types, how fast jobs run on each (``speeds.read_speeds``); None: job
        tables have it.
      failures: how servers fail (``outages.outages_of``); None: they never do.
      reservations: a list of when servers are reserved (``outages.read_reservations``); None: they
        never are.
      checkpoint_s: seconds between checkpoints, from which jobs go on after a failure; 0: none.
      reading: options of ``jaxsched.traces.load``, name and value each.
      own: whether it is a user's log, whose own schedule is compared with policies.
    """

    name: str
    source: str
    load: float | None = 0.9
    from_day: float = 0
    num_servers: int | None = None
    num_jobs: int = 60_000
    longest_days: float = math.inf
    gpus_per_server: int = GPUS_PER_SERVER
    reading: tuple[tuple[str, Any], ...] = ()
    own: bool = False
    kinds: tuple[Kind, ...] = ()
    slots: int = 1
    speeds: str | None = None
    failures: str | None = None
    reservations: str | None = None
    checkpoint_s: int = 0

    @property
    def is_generated(self) -> bool:
        """Whether its source is a generator, with any seed."""
        return self.source in names()


WORKLOADS = (
    Workload("philly", "philly/philly.csv.gz", from_day=20),
    Workload("philly-4vc", "philly/vc_jobs_all_status_4vc.csv.gz"),
    *(Workload(f"itp-{k:02}", f"itp/raw/cluster{k:02}.csv.gz") for k in (2, 3, 4, 7)),
    Workload("openb", "alibaba/gpu-v2023/openb_pod_list_default.csv.gz", 0.9, 115, 4),
    *(
        Workload(f"helios-{cluster}", f"helios-{cluster}-like")
        for cluster in ("venus", "earth", "saturn", "uranus")
    ),
    Workload("philly-like", "philly-like"),
)
"""Without ITP's clusters 1, 5, 6, 10 (few jobs), 8 (low load), 9 (low load, one-GPU jobs)."""

BY_NAME_ONLY = (Workload("spot-gpu-like", "spot-gpu-like", num_jobs=30_000, longest_days=3),)
"""Workloads that run only if named: this one is about priorities."""


class Prepared(NamedTuple):
    """A workload ready to be replayed.

    Attributes:
      name: the workload's name.
      table: its jobs, with a ``group`` column where they have owners.
      cluster: the cluster.
      load: the load that results, between first and last submission.
      digest: of its trace, and of the jobs if speeds were added to them.
      notes: changes to the jobs, one sentence each.
      log: further facts about the jobs, row by row.
      failures: of the workload.
      reservations: of the workload.
      checkpoint_s: of the workload.
      outages: when servers are down or reserved; drawn ones depend on the jobs.
      recorded: whether the log's own schedule can be compared with policies: it is a user's
        log, submission times are its own, GPUs have no types (on which run times
        would differ) and no slots, and servers fail as they did.
    """

    name: str
    table: JobTable
    cluster: Cluster
    load: float
    digest: str
    notes: tuple[str, ...]
    log: Log = Log()
    recorded: bool = False
    failures: str | None = None
    reservations: str | None = None
    checkpoint_s: int = 0
    outages: Outages | None = None

    @property
    def has_reservations(self) -> bool:
        """Whether servers are reserved at times."""
        return self.outages is not None and bool(self.outages.reserved.any())

    @property
    def has_owners(self) -> bool:
        """Whether jobs belong to more than one virtual cluster, tenant or user."""
        return bool(groups_of(self.table).max() > 0)


def prepare(
    workload: Workload, data: Path | None, *, seed: int = 0, num_jobs: int | None = None
) -> Prepared:
    """The jobs and the cluster of one draw; see ``prepare_draws``."""
    return prepare_draws(workload, data, seed=seed, num_jobs=num_jobs)[0]


def prepare_draws(
    workload: Workload,
    data: Path | None,
    *,
    seed: int = 0,
    draws: int = 1,
    num_jobs: int | None = None,
) -> list[Prepared]:
    """The jobs of each draw of a workload, and the cluster that all draws share.

    Generated draws are stretched in time to the load of the first one, unless no load is given.
    For job tables the cluster has the fewest servers whose load over all tables is no higher than
    ``load``; on a given cluster one factor stretches all tables, so that their differences stay.

    Args:
      workload: the workload.
      data: folder of public traces, if it is needed.
      seed: first seed of generated draws.
      draws: most draws; a recorded trace has one.
      num_jobs: keep at most this many first jobs; None: all.

    Raises:
      JaxschedError: no such file or generator, no usable jobs in it, or numbers out of range.
    """
    _check(workload, num_jobs)
    found = read(
        workload.source,
        data,
        seed=seed,
        draws=draws,
        num_jobs=workload.num_jobs,
        reading=workload.reading,
        longest_s=workload.longest_days * DAY_S,
    )
    jobs = [_kept(workload, drawn, num_jobs) for drawn in found]
    if not workload.is_generated:
        return _on_cluster(workload, jobs)
    first = _on_cluster(workload, jobs[:1])[0]
    same = workload._replace(num_servers=first.cluster.num_servers)
    if workload.load is not None:
        same = same._replace(load=first.load)
    return [first, *(_on_cluster(same, [draw])[0] for draw in jobs[1:])]


def prepare_log(trace: Trace, cluster: Cluster, *, num_jobs: int | None = None) -> Prepared:
    """A log on a given cluster, its jobs as they were submitted.

    Args:
      trace: a user's log.
      cluster: the cluster.
      num_jobs: keep at most this many first jobs; None: all.

    Raises:
      JaxschedError: the log has no jobs, or all are submitted at once.
    """
    workload = Workload(
        trace.name,
        trace.source,
        None,
        num_servers=cluster.num_servers,
        gpus_per_server=cluster.gpus_per_server,
        kinds=cluster.kinds,
        slots=cluster.slots,
        own=True,
    )
    _check(workload, num_jobs)
    return _on_cluster(workload, [_kept(workload, of_trace(trace), num_jobs)])[0]


def at_load(draws: Sequence[Prepared], load: float) -> list[Prepared]:
    """The same jobs on the same cluster, submission times scaled by one factor to reach a load.

    Args:
      draws: of one workload; their mean load becomes ``load``.
      load: the load.

    Raises:
      JaxschedError: all jobs of a draw would be submitted at once.
    """
    cluster = draws[0].cluster
    gpus = cluster.num_gpus
    spans = [int(draw.table["submit_time"][-1]) for draw in draws]
    factor = sum(_work(draw.table, cluster) for draw in draws) / gpus / max(sum(spans), 1) / load
    note = f"submission times multiplied by {factor:.4g}"
    found = []
    for draw in draws:
        table = _stretched(draw.table, factor)
        span = int(table["submit_time"][-1])
        if span <= 0:
            raise JaxschedError(
                f"workload '{draw.name}': at a load of {load:g} all jobs come at once; accepted: "
                "a lower load"
            )
        real = _work(table, cluster) / gpus / span
        notes = (*draw.notes, note)
        moved = draw._replace(table=table, load=real, notes=notes, recorded=False)
        found.append(_with_outages(moved))
    return found


def _check(workload: Workload, num_jobs: int | None) -> None:
    """Refuse settings out of range, or that contradict each other."""
    load = workload.load
    if load is None and workload.num_servers is None:
        raise JaxschedError(
            f"workload '{workload.name}': has neither a load nor servers; accepted: one of them"
        )
    if load is not None and not 0 < load < math.inf:
        raise JaxschedError(
            f"workload '{workload.name}': load is {load:g}; accepted: a number above 0"
        )
    if workload.speeds is not None and not any(kind.gpu_type for kind in workload.kinds):
        raise JaxschedError(
            f"{argument('speeds')} goes with {argument('servers')} that have types of GPUs; "
            "accepted: such as 4x8@v100,8x8@k80"
        )
    if workload.checkpoint_s and workload.failures is None and workload.reservations is None:
        raise JaxschedError(
            f"{argument('checkpoint_s')} goes with {argument('failures')} or "
            f"{argument('reservations')}; accepted: one of them, or neither"
        )
    if num_jobs is not None and num_jobs < 2:
        raise JaxschedError(f"num_jobs is {num_jobs}; accepted: two or more, or none for all")


def _kept(workload: Workload, drawn: Drawn, num_jobs: int | None) -> Drawn:
    """The jobs of a draw that the workload keeps."""
    table, notes = drawn.table, list(drawn.notes)
    first = int(np.searchsorted(table["submit_time"], workload.from_day * DAY_S))
    if first >= len(table) - 1:
        raise JaxschedError(
            f"workload '{workload.name}': {len(table) - first} jobs are left after day "
            f"{workload.from_day:g}; accepted: two or more"
        )
    if first:
        notes.append(f"the first {workload.from_day:g} days left out ({first} jobs)")
    if num_jobs is not None and num_jobs < len(table) - first:
        notes.append(f"the first {num_jobs} jobs of {len(table) - first}")
    count = min(num_jobs or len(table), len(table) - first)
    part = table.window(first, count)
    if int(part["submit_time"][-1]) <= 0:
        raise JaxschedError(
            f"workload '{workload.name}': all jobs come at once; accepted: two or more times"
        )
    log = drawn.log.part(slice(first, first + count))
    return Drawn(part, drawn.digest, tuple(notes), log)


def _work(table: JobTable, cluster: Cluster | None = None) -> float:
    """GPU-seconds of all jobs; without a cluster as if GPUs had no slots."""
    held = table["num_gpus"] if cluster is None else slots_of(table, cluster.slots)
    return float(np.sum(held * table["duration"])) / (1 if cluster is None else cluster.slots)


def _stretched(table: JobTable, factor: float) -> JobTable:
    times = np.floor(table["submit_time"] * factor).astype(np.int64)
    return table.with_columns(submit_time=times)


def _on_cluster(workload: Workload, jobs: Sequence[Drawn]) -> list[Prepared]:
    """Choose the size of the cluster, or stretch the times, to reach the load."""
    span = sum(int(draw.table["submit_time"][-1]) for draw in jobs)
    servers, load = workload.num_servers, workload.load
    if servers is None:
        assert load is not None
        busy = sum(_work(draw.table) for draw in jobs) / span
        servers = max(1, math.ceil(busy / load / workload.gpus_per_server))
    cluster = Cluster(servers, workload.gpus_per_server, workload.kinds, workload.slots)
    capped = [_with_speeds(workload, _capped(draw, cluster), cluster) for draw in jobs]
    if workload.num_servers is None or load is None:
        found = [_prepared(workload, draw, cluster) for draw in capped]
        return found if load is not None else [_with_load_note(each) for each in found]
    factor = sum(_work(draw.table, cluster) for draw in capped) / cluster.num_gpus / load / span
    note = f"submission times multiplied by {factor:.4g}"
    stretched = [
        draw._replace(table=_stretched(draw.table, factor), notes=(*draw.notes, note))
        for draw in capped
    ]
    return [_prepared(workload, draw, cluster)._replace(recorded=False) for draw in stretched]


def _capped(draw: Drawn, cluster: Cluster) -> Drawn:
    """The draw, its jobs capped to fit the cluster."""
    gpus, most = draw.table["num_gpus"], cluster.largest_job("strict")
    table, notes = draw.table, list(draw.notes)
    if count := int(np.sum(gpus > most)):
        table = table.with_columns(num_gpus=np.minimum(gpus, most))
        notes.append(f"{count} jobs capped at {most} GPUs")
    table, count = capped(table, cluster)
    if count:
        notes.append(f"{count} jobs capped at the {' and '.join(cluster.demands)} of servers")
    if cluster.slots > 1:
        notes = [note for note in notes if not note.startswith(ROUNDED)]
        notes.append(f"shares of a GPU count in slots, {cluster.slots} to a GPU")
    return draw._replace(table=table, notes=tuple(notes))


def _with_speeds(workload: Workload, draw: Drawn, cluster: Cluster) -> Drawn:
    """The draw with a speed of each job on each type of GPU, where GPUs have types."""
    if workload.speeds is None:
        check_types(draw.table, cluster, "strict")
        return draw
    bare = replace(draw.table, notes=())
    speeds = read_speeds(workload.speeds)
    able = holds(bare, cluster)
    table = with_speeds(bare, speeds, cluster.gpu_types, draw.log.job_type, able=able)
    check_types(table, cluster, "strict")
    both = hashlib.sha256(f"{draw.digest} {table.digest()}".encode()).hexdigest()
    return draw._replace(table=table, digest=both, notes=(*draw.notes, *table.notes))


def _prepared(workload: Workload, draw: Drawn, cluster: Cluster) -> Prepared:
    load = (
        _work(draw.table, cluster) / cluster.num_gpus / max(int(draw.table["submit_time"][-1]), 1)
    )
    recorded = workload.own and draw.log.wait is not None
    recorded &= not cluster.gpu_types and cluster.slots == 1
    found = Prepared(
        workload.name, draw.table, cluster, load, draw.digest, draw.notes, draw.log, recorded
    )
    names = ("failures", "reservations", "checkpoint_s")
    found = _with_outages(found._replace(**{name: getattr(workload, name) for name in names}))
    outages = found.outages
    if outages is None:
        return found
    again = f"are saved every {workload.checkpoint_s} s" if workload.checkpoint_s else "start over"
    reserved, drains = int(outages.reserved.sum()), int(outages.drains.sum())
    parts = []
    if workload.failures is not None:
        fails = len(outages) - reserved - drains
        parts.append(f"{fails} failures and {drains} drains of servers ({workload.failures})")
    if workload.reservations is not None:
        parts.append(f"{reserved} reservations of a server ({workload.reservations})")
    late = int(np.sum(outages.begin > draw.table["submit_time"][-1]))
    note = f"{' and '.join(parts)}, {late} of them after the last submission; stopped jobs {again}"
    if reserved:
        note += "; of a reservation all policies know, by run times, which jobs would reach into it"
    return found._replace(notes=(*found.notes, note), recorded=False)


def _with_outages(ready: Prepared) -> Prepared:
    """The workload with the outages of its servers, if they fail or are reserved."""
    return ready._replace(
        outages=outages_told(
            ready.failures,
            ready.reservations,
            ready.table,
            ready.cluster,
            checkpoint_s=ready.checkpoint_s,
        )
    )


def _with_load_note(ready: Prepared) -> Prepared:
    """The workload with a note on its load on the given cluster."""
    note = (
        f"cluster of {ready.cluster.size} GPUs as given: "
        f"a load of {ready.load:.3f} between the first and the last submission"
    )
    return ready._replace(notes=(*ready.notes, note))
