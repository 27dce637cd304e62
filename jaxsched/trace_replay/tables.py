"""From job tables to the arrays that replays work on (host side).

Axes: ``n`` jobs in order of submission; the arrays have a row ``n`` more, of no job, so that masked
writes have somewhere to go. ``B`` blocks of ``W`` places, ``K`` classes (see ``waiting``), ``Q``
thresholds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, Column, Integers, JobTable, validate
from jaxsched.jobs.shares import GPU_MILLI
from jaxsched.trace_replay import history
from jaxsched.trace_replay.cluster import Cluster, counts_alone
from jaxsched.trace_replay.demands import DEMANDS, check_demands, holds, per_gpu
from jaxsched.trace_replay.fragmentation import check_weights
from jaxsched.trace_replay.gittins import sample_levels
from jaxsched.trace_replay.gpu_types import (
    Typed,
    check_types,
    columns_of,
    speeds_of,
    typed,
)
from jaxsched.trace_replay.history import EDGES, Known
from jaxsched.trace_replay.outages import Events, Outages, Windows, as_events
from jaxsched.trace_replay.policies import FAIR, FITTED_SHARE, QUEUED, Locality, Policy, Share
from jaxsched.trace_replay.queues import QUEUE
from jaxsched.trace_replay.shares import SHARE, check_shares, in_slots, looks_at_gpus
from jaxsched.trace_replay.speeds import Speeds, with_speeds
from jaxsched.traces.details import parts_of_gpus, rounded_up
from jaxsched.traces.trace import Trace, known
from jaxsched.traces.usable import job_rows
from jaxsched.types import Array

NEVER = 2**31 - 1
LARGEST_PENALTY = 2**30
MILLI = 1000
MOST_CLASSES = 1024  # of jobs whose GPUs, owners, speeds and demands are equal
CLASS_STEP = 8  # classes and blocks are padded to multiples, to compile less often

COLUMNS = tuple(column for column in RIGID_JOBS if column.name != "model")
"""Columns that a replay needs; ``group`` (whole numbers from 0) is optional."""

OPTIONAL = {
    column.name: column
    for column in (
        Column("estimate", 1, 2**30, "s", "run time as known at submission"),
        Column("time_to_deadline", 0, NEVER, "s", "from submission; 2**31 - 1: none"),
        Column("priority", 0, 2**15, "", "larger goes first"),
    )
}
"""Columns that some policies need (``Policy.needs``)."""


class Jobs(NamedTuple):
    """A table as a replay sees it, int32.

    Attributes:
      submit: ``[n + 1]``, seconds; padding and the last are never submitted.
      duration: ``[n + 1]``, seconds.
      expected: ``[n + 1]``, the run time that the policy goes by.
      num_gpus: ``[n + 1]``.
      key: ``[n + 1]``, the order's fixed key, lower first; ties go to the lower job number.
      place: ``[n + 1]``, where the job waits.
      job_at: ``[B * W]``, the job of each place; n where there is none.
      block_class: ``[B]``; K for blocks of no class.
      class_gpus: ``[K]``, GPUs of each class's jobs; more than any cluster has for padding.
      class_group: ``[K]``.
      quota: ``[groups]``, GPUs; of the policies that share GPUs among groups.
      submit_at: ``[B * W]``, submission of the job of each place; empty unless the order needs it.
      gpus_at: ``[B, W]``, its GPUs; empty unless all jobs wait in one line.
      crossing: ``[n + 1, Q]``, seconds of service after which a job changes queue.
      levels: ``[n + 1, Q + 1]``, its place in the order after so many changes; no rows where the
        order has none that are known in advance.
      known: what ``history`` needs; no rows without.
      align_unit: scalar, of tetris' alignment.
      typed: what each class is on each kind of servers, ``[K, kinds]``; None where GPUs have no
        types.
      events: outages of servers, with reservations; None where there are none.
      demand: ``[K, D]``, what each class needs of the cluster's ``demands`` for a GPU; where it
        matters which GPU a slot is on, ``[K, D + 1]`` with ``shares.SHARE`` behind; None where
        neither is so.
      amount: ``[K]``, jobs of each class; None unless placement goes by it (``fragmentation``).
    """

    submit: Array
    duration: Array
    expected: Array
    num_gpus: Array
    key: Array
    place: Array
    job_at: Array
    block_class: Array
    class_gpus: Array
    class_group: Array
    quota: Array
    submit_at: Array
    gpus_at: Array
    crossing: Array
    levels: Array
    known: Known
    align_unit: Array
    typed: Typed | None = None
    events: Events | None = None
    demand: Array | None = None
    amount: Array | None = None

    @property
    def windows(self) -> Windows | None:
        """Reservations of servers; None where there are none."""
        return None if self.events is None else self.events.windows


class Shape(NamedTuple):
    """Static sizes that tables of one batch share."""

    num_jobs: int
    num_blocks: int
    width: int
    num_classes: int
    num_groups: int
    num_scopes: int  # rows of history


def as_table(
    jobs: JobTable | Mapping[str, Any],
    cluster: Cluster,
    locality: Locality = "strict",
    speeds: Speeds | None = None,
) -> JobTable:
    """A table that can be replayed on the cluster.

    Args:
      jobs: a job table or columns ``submit_time``, ``num_gpus``, ``duration`` (s) and, where jobs
        have owners, ``group`` (numbers or names).
      cluster: the cluster.
      locality: what fits.
      speeds: of types of jobs, in place of the table's, where GPUs have types.

    Raises:
      JaxschedError: one line with the job and what is accepted.
    """
    by_type = columns_of(cluster)
    if isinstance(jobs, JobTable):
        table = jobs
    elif isinstance(jobs, Mapping):
        names = (*_names(), *(column.name for column in by_type), *cluster.demands, GPU_MILLI.name)
        columns = {name: jobs[name] for name in names if name in jobs}
        if "group" in columns:
            columns["group"] = _numbered(columns["group"])
        table = JobTable(columns, schema=COLUMNS)
    else:
        raise JaxschedError(
            f"rigid: jobs are a {type(jobs).__name__}; accepted: a JobTable or a mapping with "
            f"{', '.join(_names())} (those from group on are optional)"
        )
    limited = (DEMANDS[name] for name in cluster.demands)
    optional = (*OPTIONAL.values(), *by_type, *limited, GPU_MILLI)
    schema = (*COLUMNS, *(column for column in optional if column.name in table.columns))
    validate(table, schema=schema, max_gpus=cluster.largest_job(locality), from_zero=False)
    check_demands(table, cluster, locality)
    if speeds is not None:
        table = with_speeds(table, speeds, cluster.gpu_types, able=holds(table, cluster))
    check_types(table, cluster, locality)
    return table


def lacking(table: JobTable, policy: Policy, *, reserved: bool = False) -> tuple[str, ...]:
    """The columns that a policy needs, where servers are reserved or not, and a table has not."""
    names = policy.needs
    if reserved and policy.run_times == "estimates":
        names = tuple(dict.fromkeys(("estimate", *names)))
    return tuple(name for name in names if name not in table.columns)


def from_trace(trace: Trace) -> JobTable:
    """A published trace as it is: every row that is a job, in order of submission.

    Jobs need GPUs and have a run time above 0 (``jaxsched.traces.usable``); others never ran.

    Times count from the first submission and are rounded down to whole seconds; run times and
    shares of GPUs are rounded up, to at least 1. ``jaxsched.traces.mapping.import_trace`` rescales
    and clips instead.

    ``estimate`` is there where users gave run times (``requested_time``), at least 1; a job without
    one has the longest of the trace, as a queue's limit would give it. ``time_to_deadline`` is
    there where jobs have deadlines, at least 0. ``priority`` is there where all jobs have one: its
    rank among the trace's priorities, from 0. ``cpus`` and ``memory_gb`` of the whole job are there
    where all jobs have them. ``gpu_milli`` is there where some job has less than a GPU: thousandths
    of one, rounded up, at least 1, and 1000 for all others.

    Raises:
      JaxschedError: no row is a job.
    """
    kept = job_rows(trace)
    gpus, duration, times = (trace[name] for name in ("num_gpus", "duration", "submit_time"))
    submit = times[kept]
    columns = {
        "submit_time": np.floor(submit - submit[0]).astype(np.int64),
        "num_gpus": np.maximum(rounded_up(gpus[kept]), 1),
        "duration": np.maximum(np.ceil(duration[kept]), 1).astype(np.int64),
    }
    if "group" in trace:
        columns["group"] = _numbered(trace["group"][kept])
    if np.any(gpus[kept] < 1):
        columns[GPU_MILLI.name] = parts_of_gpus(gpus[kept])
    if np.any(known(trace, "requested_time")[kept]):
        asked = trace["requested_time"][kept]
        longest = OPTIONAL["estimate"].maximum
        asked = np.ceil(np.where(np.isnan(asked), np.nanmax(asked), asked))
        columns["estimate"] = np.clip(asked, 1, longest).astype(np.int64)
    if np.any(known(trace, "deadline")[kept]):
        left = np.floor(trace["deadline"][kept] - submit)
        left = np.where(np.isnan(left), NEVER, np.clip(left, 0, NEVER - 1))
        columns["time_to_deadline"] = left.astype(np.int64)
    if np.all(known(trace, "priority")[kept]):
        columns["priority"] = _numbered(trace["priority"][kept])
    for name in DEMANDS:
        if np.all(known(trace, name)[kept]):
            columns[name] = rounded_up(trace[name][kept])
    return JobTable(columns, trace.name, schema=COLUMNS)


def groups_of(table: JobTable) -> Integers:
    """The group of each job, numbered from 0 without gaps; one group if the table has none."""
    if "group" not in table.columns:
        return np.zeros(len(table), np.int64)
    return _numbered(table["group"])


def quotas(table: JobTable, cluster: Cluster, share: Share, *, isolated: bool = False) -> Integers:
    """GPUs of the cluster that each group is entitled to, ``[groups]``, at least 1.

    Args:
      table: the jobs.
      cluster: the cluster.
      share: ``equal``, or in proportion to the GPU-seconds of the group's jobs (``work``). What
        division leaves goes to the largest remainders, ties to the lower group.
      isolated: raise quotas to the largest job of the group, which could never run otherwise; they
        may then add up to more than the cluster has.
    """
    group = groups_of(table)
    count = int(group.max()) + 1
    parts = [1] * count
    if share == "work":  # Python's numbers: products of these exceed int64
        work = (table["num_gpus"] * table["duration"]).astype(object)
        parts = [int(work[group == number].sum()) for number in range(count)]
    total = sum(parts)
    shared = [divmod(part * cluster.num_gpus, total) for part in parts]
    most = sorted(range(count), key=lambda number: (-shared[number][1], number))
    spare = cluster.num_gpus - sum(whole for whole, _ in shared)
    found = np.array([whole for whole, _ in shared], np.int64)
    found[most[:spare]] += 1
    if isolated:
        np.maximum.at(found, group, table["num_gpus"])
    return np.maximum(found, 1)


def run_times(table: JobTable, policy: Policy, *, reserved: bool = False) -> Integers:
    """The run times that a policy goes by, where servers are reserved or not; ``[n]``."""
    estimates = policy.knows == "estimates" or (reserved and policy.run_times == "estimates")
    return table["estimate" if estimates else "duration"]


def prepare(
    tables: Sequence[JobTable],
    cluster: Cluster,
    policy: Policy,
    outages: Sequence[Outages | None] = (),
) -> tuple[list[Jobs], Shape]:
    """The arrays of tables, padded to the same shape, with the outages of each if there are any.

    Raises:
      JaxschedError: a table lacks a column that the policy needs, or outages do not go with it.
    """
    events = events_of(outages, len(tables), cluster, policy)
    cluster, tables = counted_in_slots(cluster, tables, policy)
    reserved = events[0] is not None and events[0].windows is not None
    for table in tables:
        for name in lacking(table, policy, reserved=reserved):
            raise JaxschedError(
                f"table '{table.name}' has no column '{name}' ({OPTIONAL[name].meaning}), which "
                f"the policy goes by; accepted: a table with it"
            )
    lined = in_line(cluster, policy, reserved=reserved)
    grouping = [_classes(table, cluster, policy, lined=lined) for table in tables]
    num_jobs = max(len(table) for table in tables)
    width = 1 << max(3, (num_jobs.bit_length() + 1) // 2)
    num_classes = _padded(max(len(classes) for classes, _ in grouping))
    num_groups = _padded(max(int(classes[:, 1].max()) + 1 for classes, _ in grouping))
    used = [int(np.sum(-(-np.bincount(of_job) // width))) for _, of_job in grouping]
    known = [_known(table, policy) for table in tables]
    num_scopes = max(int(each.scopes.max(initial=-1)) + 1 for each in known)
    shape = Shape(
        num_jobs,
        _padded(max(used) + 1),
        width,
        num_classes,
        num_groups,
        _padded(num_scopes + len(history.SCOPES)) if policy.learns else 0,
    )
    return [
        _arrays(
            table, cluster, policy, classes, of_job, shape, lined=lined, reserved=reserved
        )._replace(known=_padded_known(each, shape), events=own)
        for table, (classes, of_job), each, own in zip(tables, grouping, known, events, strict=True)
    ], shape


def counted_in_slots(
    cluster: Cluster, tables: Sequence[JobTable], policy: Policy
) -> tuple[Cluster, Sequence[JobTable]]:
    """Cluster and tables with slots in place of GPUs, where it matters which GPU a job is on.

    Raises:
      JaxschedError: a table or the policy does not go with slots.
    """
    if not looks_at_gpus(cluster, policy):
        return cluster, tables
    for table in tables:
        check_shares(table, cluster, policy)
        if policy.placement == "fgd":
            check_weights(table, cluster)
    return cluster.in_slots, [in_slots(table, cluster) for table in tables]


def events_of(
    outages: Sequence[Outages | None], count: int, cluster: Cluster, policy: Policy
) -> Sequence[Events | None]:
    """The outages of each table, padded to the same length; None for all where there are none.

    Raises:
      JaxschedError: they do not go with the policy or the cluster.
    """
    given = [each for each in outages if each is not None]
    if not given:
        return [None] * count
    most = max(int(each.reserved.sum()) for each in given)
    if not policy.takes_outages:
        what = "reservations" if most else "outages"
        raise JaxschedError(
            f"rigid: {what} with order {policy.order} and mode {policy.mode}; accepted: an order "
            "that neither suspends jobs nor learns nor goes by fairness, and no mode commit"
        )
    length, windows = _padded(max(map(len, given))), _padded(most)
    nothing = np.zeros(0, np.int64)
    none = Outages(nothing, nothing, nothing, nothing)
    return [as_events(each or none, cluster, length, windows) for each in outages]


def in_line(cluster: Cluster, policy: Policy, *, reserved: bool = False) -> bool:
    """Whether jobs wait in one fixed order, and those fit for which enough GPUs are free."""
    fixed = not (policy.keeps_accounts or policy.shares_groups or reserved)
    fixed &= policy.order not in ("tetris", "fairness", "slowdown")
    fixed &= not looks_at_gpus(cluster, policy)
    return fixed and counts_alone(cluster, policy.locality)


def thresholds_of(policy: Policy) -> tuple[int, ...]:
    """Where jobs change level: GPU-seconds, or seconds for ``learned``."""
    if policy.order == "learned":
        return EDGES
    return policy.thresholds if policy.order in QUEUED else ()


def crossing_times(num_gpus: Integers, thresholds: tuple[int, ...]) -> Integers:
    """Seconds after which jobs of so many GPUs have got these GPU-seconds, int64 ``[n, Q]``."""
    return -(-np.array(thresholds, np.int64)[None, :] // num_gpus[:, None])


def _per_job(levels: Integers, count: int) -> Integers:
    """Levels of each job, ``[n + 1, Q + 1]``, of those that all have or of those that some have."""
    if len(levels) == 1:
        return np.repeat(levels, count, axis=0)
    return np.pad(levels, [(0, count - len(levels) if len(levels) else 0), (0, 0)])


def _levels(table: JobTable, policy: Policy, key: Integers) -> Integers:
    """Levels ``[1, Q + 1]`` that all jobs have, ``[n, 1]`` of each job, or none."""
    if policy.order == "spot":
        return key[:, None]
    count = len(policy.thresholds) + 1
    if policy.order == "las":
        return np.arange(count)[None, :]
    if policy.order == "tiresias":
        return QUEUE * np.arange(count)[None, :]
    if policy.order == "gittins":
        fitted = max(1, int(FITTED_SHARE * len(table)))
        services = (table["num_gpus"] * table["duration"])[:fitted]
        return sample_levels(services, policy.thresholds)[None, :]
    return np.zeros((0, count), np.int64)


def _known(table: JobTable, policy: Policy) -> Known:
    if policy.learns:
        submit, gpus, duration = (table[name] for name in ("submit_time", "num_gpus", "duration"))
        return history.known(submit, gpus, duration, groups_of(table))
    nothing = np.zeros((0, len(history.SCOPES)), np.int64)
    return Known(nothing, nothing, nothing, nothing[:, 0])


def _padded_known(known: Known, shape: Shape) -> Known:
    """With rows of no job, which have scopes of their own."""
    if not shape.num_scopes:
        return Known(*(column.astype(np.int32) for column in known))
    count = shape.num_jobs + 1 - len(known.steps)
    columns = [np.pad(column, [(0, count), *[(0, 0)] * (column.ndim - 1)]) for column in known]
    found = Known(*(column.astype(np.int32) for column in columns))
    rows = len(history.SCOPES)
    found.scopes[len(known.steps) :] = np.arange(shape.num_scopes - rows, shape.num_scopes)
    return found


def fixed_key(table: JobTable, policy: Policy) -> Integers:
    """The order's fixed key of each job (``[n]``), lower first; ties by job number."""
    gpus, duration = table["num_gpus"], run_times(table, policy)
    match policy.order:
        case "sjf":
            return duration
        case "lrf":
            return gpus
        case "priority" | "spot":
            return table["priority"].max() - table["priority"]
        case "edf":
            left = table["time_to_deadline"]
            return _numbered(np.where(left < NEVER, table["submit_time"] + left, 2 * NEVER))
        case "lifo":
            return _numbered(-table["submit_time"])
        case "sjf-narrow":
            return np.unique(np.stack([duration, gpus], 1), axis=0, return_inverse=True)[1].reshape(
                -1
            )
        case "lpf":
            return _numbered(-duration)
        case "f1":
            run, since = (np.where(n > 0, n, 0.1) for n in (duration, table["submit_time"]))
            return _numbered(np.log10(run) * gpus + 870 * np.log10(since))
        case "spf":
            return _numbered(gpus * duration)  # ranks: the products exceed int32
        case "tetris":
            work = (gpus * duration).tolist()  # Python's numbers: the products exceed int64
            scale, total = MILLI * len(work), sum(work)
            shares = [min(scale * each // total, LARGEST_PENALTY) for each in work]
            return np.array(shares, np.int64)
        case _:
            return np.zeros(len(table), np.int64)


def _names() -> tuple[str, ...]:
    return (*(column.name for column in COLUMNS), "group", *OPTIONAL)


def _numbered(values: Any) -> Integers:
    """Numbers from 0 for the distinct values, in sorted order."""
    return np.unique(np.asarray(values), return_inverse=True)[1].astype(np.int64).reshape(-1)


def _padded(count: int) -> int:
    return -(-count // CLASS_STEP) * CLASS_STEP


def _classes(
    table: JobTable, cluster: Cluster, policy: Policy, *, lined: bool
) -> tuple[Integers, Integers]:
    """The distinct ``(num_gpus, group)`` ``[K, 2]`` and the class of each job; one of a line.

    Where GPUs have types, rows have the speeds on each kind besides.
    """
    if lined:
        return np.zeros((1, 2), np.int64), np.zeros(len(table), np.int64)
    group = groups_of(table) if policy.shares_groups else np.zeros(len(table), np.int64)
    pairs = np.stack([table["num_gpus"], group], axis=1)
    if cluster.gpu_types:
        pairs = np.concatenate([pairs, speeds_of(table, cluster)], axis=1)
    if cluster.demands:
        pairs = np.concatenate([pairs, per_gpu(table, cluster)], axis=1)
    if SHARE in table.columns:
        pairs = np.concatenate([pairs, table[SHARE][:, None]], axis=1)
    classes, of_job = np.unique(pairs, axis=0, return_inverse=True)
    if pairs.shape[1] > 2 and len(classes) > MOST_CLASSES:
        raise JaxschedError(
            f"table '{table.name}': {len(classes)} different jobs by GPUs, owner, speeds and "
            f"demands; accepted: at most {MOST_CLASSES} (round them)"
        )
    return classes, of_job.reshape(-1)


def _needs(table: JobTable, cluster: Cluster, classes: Integers) -> Integers:
    """``Jobs.demand`` of classes, ``[K, D]`` or ``[K, D + 1]``, of which there may be none."""
    count = len(cluster.demands) + (SHARE in table.columns)
    return classes[:, classes.shape[1] - count :]


def typical_tasks(table: JobTable, cluster: Cluster) -> tuple[Integers, Integers, Integers]:
    """The fields of ``fragmentation.Tasks``, of a table and a cluster that count in slots.

    Raises:
      JaxschedError: more than ``MOST_CLASSES`` classes.
    """
    classes, of_job = _classes(table, cluster, Policy(), lined=False)
    return classes[:, 0], _needs(table, cluster, classes), np.bincount(of_job)


def _typed(cluster: Cluster, policy: Policy, classes: Integers, shape: Shape) -> Typed | None:
    """What each class is on each kind; padding runs nowhere."""
    if not cluster.gpu_types:
        return None
    found = typed(
        classes[:, 2 : 2 + len(cluster.kinds)], policy.type_choice, policy.least_speed_percent
    )
    padding = Typed(*(np.int32(each) for each in (1, len(cluster.kinds), NEVER)))  # type: ignore[arg-type]
    more = [(0, shape.num_classes - len(classes)), (0, 0)]
    return Typed(
        *(
            np.pad(column, more, constant_values=filler)  # type: ignore[arg-type]
            for column, filler in zip(found, padding, strict=True)
        )
    )


def _arrays(
    table: JobTable,
    cluster: Cluster,
    policy: Policy,
    classes: Integers,
    of_job: Integers,
    shape: Shape,
    *,
    lined: bool,
    reserved: bool,
) -> Jobs:
    count = len(table)
    key = fixed_key(table, policy)
    order = np.lexsort((np.arange(count), key, of_job))
    sizes = np.bincount(of_job, minlength=len(classes))
    blocks = -(-sizes // shape.width)
    first_place = (np.cumsum(blocks) - blocks) * shape.width
    rank_in_class = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.full(shape.num_jobs + 1, (shape.num_blocks - 1) * shape.width)
    place[order] = first_place[of_job[order]] + rank_in_class
    job_at = np.full(shape.num_blocks * shape.width, shape.num_jobs)
    job_at[place[:count]] = np.arange(count)
    block_class = np.full(shape.num_blocks, shape.num_classes)
    block_class[: blocks.sum()] = np.repeat(np.arange(len(classes)), blocks)
    gpus = _extended(table["num_gpus"], shape.num_jobs + 1, 1)
    by_time = policy.order == "learned"
    levels = _levels(table, policy, key)
    quota = np.zeros(0, np.int64)
    if policy.shares_groups:
        quota = quotas(table, cluster, policy.share, isolated=policy.isolated)
        quota = _extended(quota, shape.num_groups, 1)
    submit = _extended(table["submit_time"], shape.num_jobs + 1, NEVER)
    unit = max(1, round(cluster.gpus_per_server * float(table["num_gpus"].mean())))
    arrays: dict[str, Any] = dict(
        submit=submit,
        duration=_extended(table["duration"], shape.num_jobs + 1, 1),
        expected=_extended(run_times(table, policy, reserved=reserved), shape.num_jobs + 1, 1),
        num_gpus=gpus,
        key=_extended(key, shape.num_jobs + 1, 0),
        place=place,
        job_at=job_at,
        block_class=block_class,
        class_gpus=_extended(classes[:, 0], shape.num_classes, NEVER),
        class_group=_extended(classes[:, 1], shape.num_classes, 0),
        quota=quota,
        submit_at=submit[job_at] if policy.order in FAIR else np.zeros(0),
        gpus_at=gpus[job_at].reshape(-1, shape.width) if lined else np.zeros(0),
        crossing=crossing_times(np.ones_like(gpus) if by_time else gpus, thresholds_of(policy)),
        levels=_per_job(levels, shape.num_jobs + 1),
        align_unit=np.int64(unit),
    )
    whole: dict[str, Any] = {name: np.asarray(values, np.int32) for name, values in arrays.items()}
    nothing = Known(*(np.zeros(0, np.int32) for _ in Known._fields))
    demand: Any = None
    amount: Any = None
    needs = _needs(table, cluster, classes)
    if needs.shape[1]:
        more = [(0, shape.num_classes - len(classes)), (0, 0)]
        demand = np.pad(needs, more).astype(np.int32)
    if policy.placement == "fgd":
        amount = np.bincount(of_job, minlength=shape.num_classes).astype(np.int32)
    own = _typed(cluster, policy, classes, shape)
    return Jobs(**whole, known=nothing, typed=own, demand=demand, amount=amount)


def _extended(values: Integers, length: int, filler: int) -> Integers:
    result = np.full(length, filler, np.int64)
    result[: len(values)] = values
    return result
