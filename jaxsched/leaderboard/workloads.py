"""The common workloads: real traces as published, and generated ones where logs are not public.

A cluster is as large as the load asks for, or has a given size, and then the time between
submissions is stretched to give the load; so it is for the other loads of a sweep.
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.trace_replay import Cluster, from_trace
from jaxsched.trace_replay.tables import groups_of
from jaxsched.traces import Trace, load_trace
from jaxsched.traces.clusters import generate_trace, names

GPUS_PER_SERVER = 8
DAY_S = 86400


class Workload(NamedTuple):
    """Which jobs arrive, and on what cluster.

    Attributes:
      name: the workload's name.
      source: file below the folder of public traces, or name of a generator.
      load: GPU-seconds asked for over GPU-seconds there are between first and last submission.
      from_day: days at the trace's beginning that are left out (too few jobs).
      num_servers: servers of 8 GPUs; None: as few as give no more than the load.
      num_jobs: rows to generate, some without GPUs; ignored for files.
      longest_days: jobs that run longer are left out: services that hold their GPUs for good, which
        are as good as no part of the cluster.
    """

    name: str
    source: str
    load: float = 0.9
    from_day: float = 0
    num_servers: int | None = None
    num_jobs: int = 60_000
    longest_days: float = math.inf

    @property
    def is_generated(self) -> bool:
        """Whether it needs no file."""
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
"""ITP cluster 9 has one-GPU jobs only, 1, 5, 6 and 10 have few; 8 and 9 ask for little."""

BY_NAME_ONLY = (Workload("spot-gpu-like", "spot-gpu-like", num_jobs=30_000, longest_days=3),)
"""Workloads that are played when they are asked for: this one is about priorities."""


class Prepared(NamedTuple):
    """A workload ready to be replayed.

    Attributes:
      name: the workload's name.
      table: its jobs, with a ``group`` column where they have owners.
      cluster: the cluster.
      load: the load that results, between first and last submission.
      digest: of the trace that it was made of.
      notes: what was changed, one sentence each.
    """

    name: str
    table: JobTable
    cluster: Cluster
    load: float
    digest: str
    notes: tuple[str, ...]

    @property
    def has_owners(self) -> bool:
        """Whether jobs belong to more than one virtual cluster, tenant or user."""
        return bool(groups_of(self.table).max() > 0)


def prepare(
    workload: Workload, data: Path | None, *, seed: int = 0, num_jobs: int | None = None
) -> Prepared:
    """The jobs and the cluster of a workload.

    Args:
      workload: which one.
      data: folder of public traces, for those that need it.
      seed: of generated ones.
      num_jobs: keep no more than so many, from the first on; None: all.

    Raises:
      JaxschedError: no such file or generator, nothing usable in it, or numbers out of range.
    """
    if not 0 < workload.load < math.inf:
        raise JaxschedError(
            f"workload '{workload.name}': load is {workload.load:g}; accepted: a number above 0"
        )
    if num_jobs is not None and num_jobs < 2:
        raise JaxschedError(f"num_jobs is {num_jobs}; accepted: two or more, or none for all")
    trace = _trace(workload, data, seed)
    notes = list(trace.notes)
    table = from_trace(trace)
    if len(table) < trace.rows_read:
        notes.append(f"{trace.rows_read - len(table)} rows without GPUs or run time dropped")
    if workload.longest_days < math.inf:
        brief = trace.take(~(trace["duration"] > workload.longest_days * DAY_S))
        notes.append(
            f"{len(trace) - len(brief)} jobs of more than {workload.longest_days:g} days left out"
        )
        table = from_trace(brief)
    notes += _rounding(trace)
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
    table = table.window(first, num_jobs or len(table))
    return _on_cluster(workload, table, trace.digest(), notes)


def at_load(prepared: Prepared, load: float) -> Prepared:
    """The same jobs on the same cluster, submission times multiplied so as to give a load."""
    factor = prepared.load / load
    table = _stretched(prepared.table, factor)
    span = int(table["submit_time"][-1])
    if span <= 0:
        raise JaxschedError(
            f"workload '{prepared.name}': at a load of {load:g} all jobs come at once; accepted: "
            "a lower load"
        )
    work = float(np.sum(table["num_gpus"] * table["duration"]))
    notes = (*prepared.notes, f"submission times multiplied by {factor:.4g}")
    return prepared._replace(table=table, load=work / prepared.cluster.num_gpus / span, notes=notes)


def _stretched(table: JobTable, factor: float) -> JobTable:
    times = np.floor(table["submit_time"] * factor).astype(np.int64)
    return table.with_columns(submit_time=times)


def _rounding(trace: Trace) -> list[str]:
    """A note on shares of a GPU, which become whole ones."""
    gpus = np.asarray(trace["num_gpus"], np.float64)
    kept = (gpus > 0) & ~np.isnan(trace["duration"])
    shared = float(np.mean((gpus % 1 > 0)[kept])) if kept.any() else 0.0
    return [f"shares of a GPU rounded up in {shared:.1%} of the jobs"] if shared else []


def _trace(workload: Workload, data: Path | None, seed: int) -> Trace:
    if workload.is_generated:
        return generate_trace(workload.source, seed, workload.num_jobs)
    path = Path(workload.source) if data is None else data / workload.source
    return load_trace(path)


def _on_cluster(workload: Workload, table: JobTable, digest: str, notes: list[str]) -> Prepared:
    """Choose the size of the cluster, or stretch the times, so that the load is as asked."""
    span = int(table["submit_time"][-1])
    if span <= 0:
        raise JaxschedError(
            f"workload '{workload.name}': all jobs come at once; accepted: two or more times"
        )
    servers = workload.num_servers
    if servers is None:
        busy = float(np.sum(table["num_gpus"] * table["duration"])) / span
        servers = max(1, math.ceil(busy / workload.load / GPUS_PER_SERVER))
    cluster = Cluster(servers, GPUS_PER_SERVER)
    capped = int(np.sum(table["num_gpus"] > cluster.num_gpus))
    if capped:
        notes.append(f"{capped} jobs capped at {cluster.num_gpus} GPUs")
        table = table.with_columns(num_gpus=np.minimum(table["num_gpus"], cluster.num_gpus))
    work = float(np.sum(table["num_gpus"] * table["duration"]))
    if workload.num_servers is not None:
        factor = work / cluster.num_gpus / workload.load / span
        notes.append(f"submission times multiplied by {factor:.4g}")
        table = _stretched(table, factor)
        span = int(table["submit_time"][-1])
    load = work / cluster.num_gpus / max(span, 1)
    return Prepared(workload.name, table, cluster, load, digest, tuple(notes))
