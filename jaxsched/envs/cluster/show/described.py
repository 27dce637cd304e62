"""Clusters of rigid jobs in JSON as job tables and the numbers of a state (host side).

A table holds the jobs that have ended, in order of their ends; those that run or wait, as the
window lists them; and one that is to come. Axes: ``n`` rows of the table (one more stands for no
job), ``M`` GPUs per server, ``S`` servers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxsched.envs.cluster.environment import ClusterJobs
from jaxsched.envs.cluster.show.listed import (
    ESTIMATES,
    LONGEST_S,
    RUNNING,
    WAITING,
    Listed,
    estimates_of,
    listed,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import MAX_DURATION_S, Integers, JobTable
from jaxsched.systems.cluster_estimates import assumed, seconds
from jaxsched.systems.cluster_reader import Cluster, clock, field, passed, shown, whole
from jaxsched.trace_replay.cluster import MAX_GPUS
from jaxsched.trace_replay.demands import MOST, UNIT, holds, limits_of, per_gpu
from jaxsched.trace_replay.gpu_types import PREFIX, speeds_of
from jaxsched.trace_replay.tables import COLUMNS, NEVER, OPTIONAL

DIGITS = 10


class Snapshot(NamedTuple):
    """What is told of a cluster beside its table; int32, columns ``[n + 1]``.

    Attributes:
      episode: scalar, index of the table.
      time: scalar, now (s).
      first: scalar, row of the first job that the window may hold.
      arrived: scalar, the row behind the last job that runs or waits.
      committed: scalar, row of the job to which an earlier choice commits; n: there is none.
      job: ``[M, S]``, the running job on each GPU; n where it is free.
      runs: bool column, whether the job runs.
      run: seconds of its present run.
      served: seconds for which it held GPUs before.
      suspensions: how often it was suspended.
      left: seconds of work that it has left.
      expected: mean run time of its stream at its submission, s; -1: of those that had ended.
      unknown: scalar, the same before any job has ended.
      event_row: ``[n]``, jobs in the order in which they ended or were submitted, then n.
      event_ends: bool ``[n]``, whether it ended.
    """

    episode: Any
    time: Any
    first: Any
    arrived: Any
    committed: Any
    job: Any
    runs: Any
    run: Any
    served: Any
    suspensions: Any
    left: Any
    expected: Any
    unknown: Any
    event_row: Any
    event_ends: Any


class Part(NamedTuple):
    """One cluster."""

    table: JobTable
    snapshot: Snapshot  # of NumPy arrays
    quota: Integers | None  # int64 [n], GPUs of each owner; None where owners have none


def read(env: ClusterJobs, cluster: Cluster, length: int, episode: int) -> Part:
    """One cluster, in a table of ``length`` rows at most (n), which is the ``episode``-th.

    Raises:
      JaxschedError: one line with what is wrong and its place.
    """
    seen = listed(env, cluster)
    base, time = len(seen.finished), _time(cluster, seen)
    held = [_held(env, seen, row) for row in range(len(seen.active))]
    rows = [_of_finished(env, job, before) for job, before in seen.finished]
    rows += [_of_active(env, seen, row, held[row], time) for row in range(len(held))]
    arrived = len(rows)
    more = cluster.get("more_to_come", True)
    if not isinstance(more, bool):
        raise JaxschedError(f"more_to_come is {shown(more)}; accepted: true or false")
    if more or not rows:
        rows.append(_row(env, time + 1, 1, 1))
    owners: dict[str, int] = {}
    group = [owners.setdefault(repr(row.pop("owner", None)), len(owners)) for row in rows]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    columns["group"] = group
    table = JobTable(columns, "cluster", schema=COLUMNS)
    _check_fits(env, seen, table)
    _check_servers(env, held, per_gpu(table, env.cluster)[base:arrived])
    snapshot = Snapshot(
        episode=episode,
        time=time,
        first=base + seen.first(env),
        arrived=arrived,
        committed=_committed(env, cluster, seen, length),
        job=_grid(env, held, base, length),
        unknown=_unknown(env, cluster),
        **_accounts(env, seen, length),
        **_events(env, seen, length),
    )
    return Part(table, snapshot, _quota(env, cluster, owners, length))


def _unknown(env: ClusterJobs, cluster: Cluster) -> int:
    """The run time that is expected before any job has ended, s."""
    expected = assumed(cluster, estimates_of(env))["expected"]
    found: int = ESTIMATES["expected"].read(expected, "assume.expected")
    return found


def _row(env: ClusterJobs, submit_s: int, num_gpus: int, duration: int) -> dict[str, Any]:
    """A row of the table that runs anywhere."""
    further = {name: 0 for name in env.cluster.demands}
    speeds = {PREFIX + name: UNIT for name in dict.fromkeys(env.cluster.gpu_types)}
    own = {"submit_time": submit_s, "num_gpus": num_gpus, "duration": duration, "priority": 0}
    return {**own, **further, **speeds}


def _of_finished(env: ClusterJobs, job: Mapping[str, Any], before: str) -> dict[str, Any]:
    """The row of a job that has ended."""
    gpus = whole(job, "num_gpus", 1, env.cluster.largest_job(env.locality), before)
    run_time = seconds(job.get("run_time"), f"{before}run_time", MAX_DURATION_S)
    return {**_row(env, 0, gpus, run_time), "owner": job.get("owner")}


def _of_active(
    env: ClusterJobs, seen: Listed, row: int, held: Mapping[int, int], time: int
) -> dict[str, Any]:
    """The row of a job that runs or waits; ``held``: GPUs of a running one by server."""
    (name, place), job, wait = seen.active[row], seen.job(row), seen.waits[row]
    before = f"{name}[{place}]."
    gpus, most = sum(held.values()), env.cluster.largest_job(env.locality)
    if name == WAITING:
        gpus = whole(job, "num_gpus", 1, most, before)
    elif gpus > most:
        raise JaxschedError(f"{before}servers has {gpus} GPUs; accepted: up to {most} for a job")
    found = _row(env, 0 if wait is None else time - wait, gpus, job["duration"])
    found["owner"] = job.get("owner")
    if job.get("priority") is not None:
        found["priority"] = whole(job, "priority", 0, int(OPTIONAL["priority"].maximum), before)
    for demand in env.cluster.demands:
        found[demand] = whole(job, demand, 0, MOST, before)
    if env.cluster.gpu_types and name == WAITING:
        found |= _speeds_by_type(env, job["speeds"], before)
    return found


def _speeds_by_type(env: ClusterJobs, told: Any, before: str) -> dict[str, int]:
    """Columns of a job's speeds, thousandths."""
    found = {}
    given = {str(name).lower(): x for name, x in told.items()} if isinstance(told, Mapping) else {}
    for name in dict.fromkeys(env.cluster.gpu_types):
        if isinstance(told, Mapping) and name not in given:
            raise JaxschedError(
                f"{before}speeds has no {name}; accepted: a speed for each of "
                f"{', '.join(dict.fromkeys(env.cluster.gpu_types))}, or one for all"
            )
        found[PREFIX + name] = round(UNIT * given.get(name, told if not given else 0))
    return found


def _held(env: ClusterJobs, seen: Listed, row: int) -> dict[int, int]:
    """GPUs of a running job by server; none of a waiting one."""
    name, place = seen.active[row]
    if name == WAITING:
        return {}
    before = f"{name}[{place}]."
    if env.suspends and row >= env.window:
        raise JaxschedError(
            f"{name}[{place}] is number {row + 1} in order of submission of the jobs that run or "
            f"wait; accepted: one of the {env.window} oldest (env.window)"
        )
    told = field(seen.job(row), "servers", Mapping, "an object of servers and GPUs", before)
    sizes, found = env.server_gpus(), {}
    for server in told:
        text = str(server)
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < DIGITS else -1
        if not 0 <= number < len(sizes) or text != str(number):
            raise JaxschedError(
                f"{before}servers has {shown(server)}; accepted: servers from 0 to {len(sizes) - 1}"
            )
        found[number] = whole(told, server, 1, sizes[number], f"{before}servers.")
    if not found:
        raise JaxschedError(f"{before}servers is empty; accepted: the servers of its GPUs")
    return found


def _time(cluster: Cluster, seen: Listed) -> int:
    """The time of the state, s; 0 is the first submission."""
    longest = max((wait for wait in seen.waits if wait is not None), default=0)
    if cluster.get("first_submission") is None:
        return longest
    first, now = clock(cluster, "first_submission"), clock(cluster, "time")
    time = passed(first, now, "first_submission", LONGEST_S)
    if time < longest:
        raise JaxschedError(
            f"first_submission is {shown(first)}, and a job was submitted {longest - time} s "
            "before; accepted: up to the first submit_time"
        )
    return time


def _check_fits(env: ClusterJobs, seen: Listed, table: JobTable) -> None:
    """Refuse jobs that no servers of one kind could ever hold."""
    cluster, base = env.cluster, len(seen.finished)
    if cluster.gpu_types:
        able = speeds_of(table, cluster) > 0
    elif cluster.demands:
        able = holds(table, cluster)
    else:
        return
    stuck = np.flatnonzero(~able.any(axis=1))
    if stuck.size:
        row = int(stuck[0])
        name, place = seen.active[row - base]
        needs = [f"{int(table['num_gpus'][row])} GPUs"]
        needs += [f"{int(table[demand][row])} {demand}" for demand in cluster.demands]
        needs += ["speeds of 0"] if cluster.gpu_types else []
        raise JaxschedError(
            f"{name}[{place}]: {', '.join(needs)} go with no servers of {cluster.servers}; "
            "accepted: a job that servers of one kind can hold"
        )


def _check_servers(env: ClusterJobs, held: Sequence[Mapping[int, int]], each: Integers) -> None:
    """Refuse running jobs that hold more than their servers have.

    Args:
      env: the environment.
      held: GPUs of each job by server.
      each: what each job needs for a GPU, thousandths, ``[jobs, demands]``.
    """
    cluster = env.cluster
    names = ("GPUs", *cluster.demands)
    limits = [np.array(env.server_gpus()) * UNIT, *limits_of(cluster)]
    needs = np.column_stack([np.full(len(held), UNIT), each])
    used = np.zeros((len(names), cluster.num_servers), np.int64)
    for servers, need in zip(held, needs, strict=True):
        for server, count in servers.items():
            used[:, server] += need * count
    for name, own, limit in zip(names, used, limits, strict=True):
        over = np.flatnonzero((own > limit) & (limit > 0))
        if over.size:
            server = int(over[0])
            raise JaxschedError(
                f"running: the jobs on server {server} hold {own[server] / UNIT:g} {name}; "
                f"accepted: at most {limit[server] // UNIT}"
            )


def _grid(env: ClusterJobs, held: Sequence[Mapping[int, int]], base: int, length: int) -> Integers:
    """``Snapshot.job``: on each server running jobs take the first GPUs that are left."""
    found = np.full((env.cluster.gpus_per_server, env.cluster.num_servers), length)
    used = [0] * env.cluster.num_servers
    for row, servers in enumerate(held, base):
        for server, count in servers.items():
            found[used[server] : used[server] + count, server] = row
            used[server] += count
    return found


def _accounts(env: ClusterJobs, seen: Listed, length: int) -> dict[str, Integers]:
    """The columns of ``Snapshot`` that have a number for each job."""
    names = ("runs", "run", "served", "suspensions", "left", "expected")
    found = {name: np.zeros(length + 1, np.int64) for name in names}
    for row, (name, place) in enumerate(seen.active):
        job, wait, at = seen.job(row), seen.waits[row], row + len(seen.finished)
        left = job["duration"]
        if env.suspends and wait is not None:
            run = min(job["run"], wait)
            found["run"][at] = run
            found["served"][at] = min(job["attained"], wait) - run
            found["suspensions"][at] = job["suspensions"]
            left += job["suspensions"] * env.restart_s - job["attained"]
        found["runs"][at] = name == RUNNING
        found["left"][at] = min(max(left, 1), LONGEST_S)
        guessed = "expected" in seen.guessed[name][place]
        found["expected"][at] = -1 if guessed else job["expected"]
    return found


def _events(env: ClusterJobs, seen: Listed, length: int) -> dict[str, Integers]:
    """``event_row`` and ``event_ends``, in the environment's order.

    At one instant ends come before submissions, where choices commit after them.
    """
    first, second = (1, 0) if env.commits else (0, 1)
    found = [(-age, first, row) for row, age in enumerate(seen.ages)]
    found += [
        (-wait, second, row)
        for row, wait in enumerate(seen.waits, len(seen.finished))
        if wait is not None
    ]
    found.sort()
    rows, ends = np.full(length, length), np.zeros(length, bool)
    rows[: len(found)] = [row for _, _, row in found]
    ends[: len(found)] = [kind == first for _, kind, _ in found]
    return {"event_row": rows, "event_ends": ends}


def _committed(env: ClusterJobs, cluster: Cluster, seen: Listed, length: int) -> int:
    """The row of the job that was chosen before; ``length`` if there is none."""
    told = cluster.get("committed")
    if told is None:
        return length
    if not env.commits:
        raise JaxschedError(
            f"committed is {shown(told)}; accepted: null, as choices do not commit (env.commits)"
        )
    for row in range(seen.first(env), len(seen.active)):
        if seen.name(row) == told:
            return len(seen.finished) + row
    raise JaxschedError(f"committed is {shown(told)}; accepted: the id of a waiting job, null")


def _quota(
    env: ClusterJobs, cluster: Cluster, owners: Mapping[str, int], length: int
) -> Integers | None:
    """GPUs that each owner may hold, ``[n]``; without limit where none is told."""
    if env.quotas == "none":
        return None
    accepted = "a list of objects with owner and gpus"
    found = np.full(length, NEVER)
    for place, entry in enumerate(field(cluster, "quotas", list, accepted)):
        if not isinstance(entry, Mapping):
            raise JaxschedError(f"quotas[{place}] is {shown(entry)}; accepted: {accepted}")
        gpus = whole(entry, "gpus", 0, MAX_GPUS, f"quotas[{place}].")
        owner = repr(entry.get("owner"))
        if owner in owners:
            found[owners[owner]] = gpus
    return found
