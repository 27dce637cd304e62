"""From job tables to the arrays that the environment reads (host side).

Axes: ``E`` tables, ``n`` jobs of the longest, in order of submission; every array has one more row,
``n``, that stands for no job. ``Q`` thresholds of service.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import Integers, JobTable
from jaxsched.ops.arrays import to_device
from jaxsched.trace_replay import Cluster, history
from jaxsched.trace_replay.demands import per_gpu
from jaxsched.trace_replay.fragmentation import Tasks
from jaxsched.trace_replay.gpu_types import Typed, speeds_of, typed
from jaxsched.trace_replay.history import Known
from jaxsched.trace_replay.outages import Events, Outages, Windows
from jaxsched.trace_replay.policies import Policy, Share
from jaxsched.trace_replay.shares import SHARE
from jaxsched.trace_replay.speeds import Speeds
from jaxsched.trace_replay.tables import (
    NEVER,
    as_table,
    counted_in_slots,
    crossing_times,
    events_of,
    fixed_key,
    groups_of,
    lacking,
    quotas,
    run_times,
    typical_tasks,
)
from jaxsched.types import Array

F1 = Policy("f1")
LEAST_SIZES = 16


class Jobs(NamedTuple):
    """Tables as episodes, int32 ``[E, n + 1]``; of one episode, without the axis ``E``.

    Attributes:
      submit: seconds; padding is never submitted.
      duration: seconds.
      num_gpus: GPUs requested.
      group: the job's owner (user or virtual cluster).
      priority: larger goes first; 0 where a table has none.
      crossing: ``[E, n + 1, Q]``, seconds of holding GPUs after which a job reaches each threshold
        of GPU-seconds; a decision is due then.
      known: inputs of ``trace_replay.history``.
      num_jobs: ``[E]``, jobs of the table.
      owners: bool ``[G]``, all true: its length is the number of owners of any table.
      scopes: bool ``[R]``, all true: its length is the number of rows of history.
      sizes: ``[K]``, the numbers of GPUs that jobs of any table request.
      f1: the job's rank in the order of F1 (``trace_replay.policies``); None unless choices
        commit.
      quota: ``[E, G]``, GPUs that each owner may hold; None where owners have no quotas.
      typed: the job's speed and rank of each kind of servers, ``[E, n + 1, kinds]``
        (``trace_replay.gpu_types``); None where GPUs have no types.
      demand: ``[E, n + 1, D]``, what the job needs for each GPU of what servers have limits of
        (``trace_replay.demands``); where it matters which GPU a slot is on ``[E, n + 1, D + 1]``,
        the share behind (``trace_replay.shares.SHARE``); None where neither is so.
      events: ``[E, F + 1]``, outages of servers, with reservations; None where there are none.
      expected: the run time that is known beforehand (s); None where no server is reserved.
      tasks: ``[E, K]``, the table's jobs by class, where placement goes by fragmentation; else
        None.
    """

    submit: Array
    duration: Array
    num_gpus: Array
    group: Array
    priority: Array
    crossing: Array
    known: Known
    num_jobs: Array
    owners: Array
    scopes: Array
    sizes: Array
    f1: Array | None = None
    quota: Array | None = None
    typed: Typed | None = None
    demand: Array | None = None
    tasks: Tasks | None = None
    events: Events | None = None
    expected: Array | None = None

    @property
    def windows(self) -> Windows | None:
        """Reservations of servers; None where there are none."""
        return None if self.events is None else self.events.windows

    @property
    def empty_row(self) -> int:
        """The row of no job."""
        return self.submit.shape[-1] - 1

    def of_episode(self, episode: Array) -> "Jobs":
        """The table of one episode."""
        return self._of_tables(lambda column: column[episode])

    def alone(self) -> "Jobs":
        """The table of one episode as a stack of one."""
        return self._of_tables(lambda column: column[None])

    def _of_tables(self, change: Callable[[Array], Array]) -> "Jobs":
        """With ``change`` applied to the arrays that have an axis ``E``."""
        shared = {"owners": self.owners, "scopes": self.scopes, "sizes": self.sizes}
        own = self._replace(owners=(), scopes=(), sizes=())  # type: ignore[arg-type]
        return jax.tree.map(change, own)._replace(**shared)


def build_jobs(
    tables: Sequence[JobTable],
    cluster: Cluster,
    policy: Policy,
    *,
    length: int = 0,
    thresholds: tuple[int, ...] = (),
    ranks_f1: bool = False,
    speeds: Speeds | None = None,
    share: Share | None = None,
    outages: Sequence[Outages | None] | Callable[[JobTable], Outages | None] = (),
) -> Jobs:
    """Job tables as episodes.

    Args:
      tables: job tables as ``trace_replay.replay`` takes them.
      cluster: the cluster; every job must fit.
      policy: how the replay engine places jobs.
      length: pad the tables to at least this many jobs.
      thresholds: GPU-seconds, ``Q`` of them.
      ranks_f1: whether to compute the jobs' ranks in the order of F1.
      speeds: where GPUs have types, speeds of types of jobs; None: tables have them.
      share: what owners' quotas are in proportion to; None: owners have none.
      outages: of the servers in the episode of each table, or a function that tells them; none:
        there are none.

    Raises:
      JaxschedError: there are none, or one cannot be replayed on the cluster.
    """
    if not tables:
        raise JaxschedError("cluster: there are no job tables; accepted: at least one")
    checked: Sequence[JobTable]
    checked = [as_table(table, cluster, policy.locality, speeds) for table in tables]
    away = [outages(table) for table in checked] if callable(outages) else outages
    events = events_of(away, len(checked), cluster, policy)
    reserved = events[0] is not None and events[0].windows is not None
    cluster, checked = counted_in_slots(cluster, checked, policy)
    count = max(length, *(len(table) for table in checked)) + 1
    groups = [groups_of(table) for table in checked]
    known = [
        history.known(table["submit_time"], table["num_gpus"], table["duration"], group)
        for table, group in zip(checked, groups, strict=True)
    ]
    rows = max(int(each.scopes.max()) for each in known) + 1

    def padded(columns: Sequence[Integers], filler: int) -> Integers:
        wider = [
            np.pad(
                column,
                [(0, count - len(column)), *[(0, 0)] * (column.ndim - 1)],
                constant_values=filler,
            )
            for column in columns
        ]
        return np.stack(wider).astype(np.int32)

    def stacked(columns: Sequence[Integers], filler: int) -> Array:
        return to_device(padded(columns, filler))

    history_of = Known(*(stacked(columns, 0) for columns in zip(*known, strict=True)))
    padding = padded([np.ones_like(each.scopes) for each in known], 0) == 0
    own_rows = rows + np.arange(len(history.SCOPES))  # of no job
    scopes = np.where(padding, own_rows, padded([each.scopes for each in known], 0))
    return Jobs(
        submit=stacked([table["submit_time"] for table in checked], NEVER),
        duration=stacked([table["duration"] for table in checked], 1),
        num_gpus=stacked([table["num_gpus"] for table in checked], 1),
        group=stacked(groups, 0),
        priority=stacked([_priority(table) for table in checked], 0),
        crossing=stacked(
            [crossing_times(table["num_gpus"], thresholds) for table in checked], NEVER
        ),
        known=history_of._replace(scopes=to_device(scopes, jnp.int32)),
        num_jobs=to_device([len(table) for table in checked], jnp.int32),
        owners=to_device(np.ones(max(int(group.max()) for group in groups) + 1, bool)),
        scopes=to_device(np.ones(rows + len(history.SCOPES), bool)),
        sizes=to_device(
            np.unique(np.concatenate([table["num_gpus"] for table in checked])), jnp.int32
        ),
        f1=stacked([fixed_key(table, F1) for table in checked], 0) if ranks_f1 else None,
        quota=_quotas(checked, cluster, share) if share else None,
        typed=_typed(checked, cluster, policy, stacked) if cluster.gpu_types else None,
        demand=_demand(checked, cluster, stacked),
        tasks=_tasks(checked, cluster) if policy.placement == "fgd" else None,
        events=None if events[0] is None else jax.tree.map(_on_device, *events),
        expected=stacked([_expected(table, policy) for table in checked], 1) if reserved else None,
    )


def with_room(jobs: Jobs) -> Jobs:
    """The same tables with as many owners and scopes as so many jobs can have at most.

    So tables of one length share programs, whoever owns their jobs. Room for the numbers of GPUs
    that jobs request is a power of two.
    """
    count, sizes = jobs.empty_row, np.asarray(jobs.sizes)
    most_sizes = max(LEAST_SIZES, 1 << (len(sizes) - 1).bit_length())
    scopes = 1 + (len(history.SCOPES) - 1) * count  # one holds all jobs
    return jobs._replace(
        owners=to_device(np.ones(count, bool)),
        scopes=to_device(np.ones(scopes + len(history.SCOPES), bool)),
        sizes=to_device(np.pad(sizes, (0, most_sizes - len(sizes)))),  # no job requests 0
    )


def _quotas(tables: Sequence[JobTable], cluster: Cluster, share: Share) -> Array:
    """GPUs that owners may hold, ``[E, G]``; no limit for owners that a table does not have."""
    found = [quotas(table, cluster, share, isolated=True) for table in tables]
    count = max(map(len, found))
    padded = [np.pad(each, (0, count - len(each)), constant_values=NEVER) for each in found]
    return to_device(np.stack(padded), jnp.int32)


def _on_device(*columns: Integers) -> Array:
    return to_device(np.stack(columns))


def _expected(table: JobTable, policy: Policy) -> Integers:
    for name in lacking(table, policy, reserved=True):
        raise JaxschedError(
            f"table '{table.name}' has no column '{name}', by which jobs start before servers are "
            "reserved; accepted: a table with it, or run_times true"
        )
    return run_times(table, policy, reserved=True)


def _demand(
    tables: Sequence[JobTable],
    cluster: Cluster,
    stacked: Callable[[Sequence[Integers], int], Array],
) -> Array | None:
    """``Jobs.demand``."""
    has_shares = SHARE in tables[0].columns
    if not cluster.demands and not has_shares:
        return None
    found = [per_gpu(table, cluster) for table in tables]
    if has_shares:
        columns = zip(tables, found, strict=True)
        found = [np.append(needs, table[SHARE][:, None], axis=1) for table, needs in columns]
    return stacked(found, 0)


def _tasks(tables: Sequence[JobTable], cluster: Cluster) -> Tasks:
    """``Jobs.tasks``; of padding there are none."""
    found = [typical_tasks(table, cluster) for table in tables]
    count = max(len(amount) for *_, amount in found)

    def stacked(columns: Sequence[Integers]) -> Array:
        wider = [
            np.pad(column, [(0, count - len(column)), *[(0, 0)] * (column.ndim - 1)])
            for column in columns
        ]
        return to_device(np.stack(wider), jnp.int32)

    return Tasks(*(stacked(columns) for columns in zip(*found, strict=True)))


def _typed(
    tables: Sequence[JobTable],
    cluster: Cluster,
    policy: Policy,
    stacked: Callable[[Sequence[Integers], int], Array],
) -> Typed:
    """Jobs' speeds and ranks of each kind; padding fits all kinds, and is never submitted."""
    found = [
        typed(speeds_of(table, cluster), policy.type_choice, policy.least_speed_percent)
        for table in tables
    ]
    columns = zip(*(each for each in found), strict=True)
    return Typed(
        *(
            stacked([np.asarray(column, np.int64) for column in each], filler)
            for each, filler in zip(columns, (1, 0, 1), strict=True)
        )
    )


def _priority(table: JobTable) -> Integers:
    if "priority" in table.columns:
        return table["priority"]
    return np.zeros(len(table), np.int64)
