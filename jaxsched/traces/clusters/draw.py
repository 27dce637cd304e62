"""Traces drawn from the parameters of a workload.

Axes: ``n`` jobs, ``C`` size classes.
"""

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.draws import generator, pick
from jaxsched.memory import check_jobs_fit
from jaxsched.traces.clusters.arrivals import MONDAY_S, draw_times
from jaxsched.traces.clusters.workload import SizeClass, Workload, workload
from jaxsched.traces.trace import Clock, Trace, Values
from jaxsched.traces.usable import is_job

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BYTES_EACH = 1000  # of memory, for a job while it is drawn and written

# Branches of the seed; 0-2 are those of arrivals.
_SIZE_BRANCH, _USER_BRANCH, _GROUP_BRANCH, _TYPE_BRANCH = 3, 4, 5, 6
_RUN_BRANCH, _STATUS_BRANCH, _DURATION_BRANCH = 7, 8, 9


def generate_trace(
    name: str,
    seed: int,
    num_jobs: int,
    *,
    num_gpus: int | None = None,
    load: float | None = None,
) -> Trace:
    """Draw a trace of jobs like those of a cluster.

    The first ``n`` jobs of a seed are the same for every ``num_jobs >= n``. Jobs are in order of
    submission; times are whole seconds. Where the source has a daily or weekly profile the clock
    is local and starts on Monday, 1970-01-05, 00:00; elsewhere it starts at 0.

    Args:
      name: one of ``names()``.
      seed: whole number from 0 on.
      num_jobs: jobs to draw.
      num_gpus: GPUs of the cluster that ``load`` refers to; the documented cluster's by default.
      load: offered load, expected GPU time over the GPU time of the cluster; arrivals come faster
        or slower for it, their hours and weekdays stay. None: as published. It holds in
        expectation: with heavy tails the load of a short trace may be far from it
        (``MappingConfig.load`` fixes that of the trace itself).

    Returns:
      A trace of submit_time, num_gpus, duration and, where known, status, priority, user, group,
      gpu_type.

    Raises:
      JaxschedError: an unknown name, an unusable number, or more jobs than fit into memory.
    """
    return draw(workload(name), seed, num_jobs, num_gpus=num_gpus, load=load)


def usable_jobs(name: str, seed: int, num_jobs: int) -> Trace:
    """The shortest trace of a workload with so many jobs that have GPUs and a run time.

    Args:
      name: one of ``names()``.
      seed: whole number from 0 on.
      num_jobs: such jobs.

    Raises:
      JaxschedError: as ``generate_trace``.
    """
    drawn = num_jobs
    while True:
        trace = generate_trace(name, seed, drawn)
        usable = np.flatnonzero(is_job(trace))
        if len(usable) >= num_jobs:
            return trace.take(slice(0, int(usable[num_jobs - 1]) + 1))
        drawn = int(drawn * num_jobs / max(len(usable), num_jobs // 10, 1) * 1.05) + 1


def draw(
    source: Workload,
    seed: int,
    num_jobs: int,
    *,
    num_gpus: int | None = None,
    load: float | None = None,
) -> Trace:
    """``generate_trace`` for parameters in hand, such as those that ``fit`` gives."""
    if not _is_number(num_jobs, int) or num_jobs < 1:
        raise JaxschedError(
            f"num_jobs is {describe_value(num_jobs)}; accepted: a whole number from 1 on"
        )
    check_jobs_fit(num_jobs, BYTES_EACH, f"num_jobs is {num_jobs:,}")
    gap_s = _mean_gap(source, num_gpus, load)
    times = np.floor(draw_times(source.arrivals, seed, num_jobs, gap_s))
    origin = MONDAY_S if source.arrivals.has_calendar else 0
    first = _first_of_run(source, seed, times)
    sizes = np.asarray([gpus for gpus, _ in source.sizes])
    size = pick(_uniforms(seed, _SIZE_BRANCH, num_jobs), [w for _, w in source.sizes])[first]
    classes = np.asarray([source.class_of(gpus) for gpus in sizes])[size]
    columns: dict[str, Values] = {
        "submit_time": origin + times,
        "num_gpus": sizes[size],
        **_ends(source, seed, classes),
        **_owners(source, seed, first, classes),
    }
    if source.gpu_types:
        kinds = np.asarray(list(source.gpu_types))
        shares = list(source.gpu_types.values())
        kind = kinds[pick(_uniforms(seed, _TYPE_BRANCH, num_jobs), shares)[first]]
        columns["gpu_type"] = np.where(columns["num_gpus"] > 0, kind, "")
    clock: Clock = "local" if source.arrivals.has_calendar else "relative"
    return Trace(columns, f"{source.name}[{seed}]", "generated", clock)


def _mean_gap(source: Workload, num_gpus: int | None, load: float | None) -> float:
    """Mean time between submissions (s) for the wanted load."""
    if load is None:
        if num_gpus is not None:
            raise JaxschedError(
                f"num_gpus is {describe_value(num_gpus)} and no load is given; "
                "accepted: num_gpus together with load"
            )
        return source.arrivals.mean_gap_s
    capacity = source.num_gpus if num_gpus is None else num_gpus
    if not _is_number(capacity, int) or capacity < 1:
        found = "not stated for this cluster" if num_gpus is None else describe_value(num_gpus)
        raise JaxschedError(f"num_gpus is {found}; accepted: a whole number from 1 on")
    if not _is_number(load, float) or not 0 < load < float("inf"):
        raise JaxschedError(f"load is {describe_value(load)}; accepted: a number above 0")
    return source.gpu_seconds_per_job() / (capacity * load)


def _first_of_run(source: Workload, seed: int, times: Floats) -> Integers:
    """For each job, the job whose user, group and demand it has (itself if it starts a run)."""
    jobs = np.arange(len(times))
    if source.runs is None:
        return jobs
    near = np.diff(times, prepend=-np.inf) <= source.runs.gap_s
    goes_on = near & (_uniforms(seed, _RUN_BRANCH, len(times)) < source.runs.reuse)
    first: Integers = np.maximum.accumulate(np.where(goes_on, 0, jobs))
    return first


def _ends(source: Workload, seed: int, classes: Integers) -> dict[str, Values]:
    """Run time, status and priority of each job; what no job has is left out."""
    n = len(classes)
    status_uniforms = _uniforms(seed, _STATUS_BRANCH, n)
    duration_uniforms = _uniforms(seed, _DURATION_BRANCH, n)
    duration, status, priority = np.zeros(n), np.full(n, "", "U9"), np.zeros(n)
    for k, size_class in enumerate(source.classes):
        members = np.flatnonzero(classes == k)
        outcome = pick(status_uniforms[members], [o.share for o in size_class.outcomes])
        for index, entry in enumerate(size_class.outcomes):
            jobs = members[outcome == index]
            duration[jobs] = entry.duration.quantiles(duration_uniforms[jobs])
            status[jobs] = entry.status
            priority[jobs] = entry.priority or 0
    columns: dict[str, Values] = {"duration": np.maximum(np.ceil(duration), 1.0)}
    if any(o.status for c in source.classes for o in c.outcomes):
        columns["status"] = status
    if source.classes[0].outcomes[0].priority is not None:
        columns["priority"] = priority
    return columns


def _owners(source: Workload, seed: int, first: Integers, classes: Integers) -> dict[str, Values]:
    """Users and groups of jobs, those of the first job of each run."""
    columns: dict[str, Values] = {}
    if source.num_users:
        shares = 1 / np.arange(1, source.num_users + 1)
        user = pick(_uniforms(seed, _USER_BRANCH, len(first)), shares.tolist())[first]
        columns["user"] = np.char.add("u", (user + 1).astype("U"))
    if any(c.groups for c in source.classes):
        uniforms = _uniforms(seed, _GROUP_BRANCH, len(first))[first]
        group = np.full(len(first), "", "U64")
        for k, size_class in enumerate(source.classes):
            members = classes == k
            if size_class.groups:
                group[members] = _pick_group(size_class, uniforms[members])
        columns["group"] = group
    return columns


def _pick_group(size_class: SizeClass, uniforms: Floats) -> Values:
    chosen: Values = np.asarray(list(size_class.groups))[
        pick(uniforms, list(size_class.groups.values()))
    ]
    return chosen


def _uniforms(seed: int, branch: int, num_jobs: int) -> Floats:
    return generator(seed, branch).random(num_jobs)


def _is_number(value: object, kind: type[int] | type[float]) -> bool:
    """Whether a value is a whole number, or any number for ``float``."""
    accepted = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
    return isinstance(value, accepted) and not isinstance(value, bool)
