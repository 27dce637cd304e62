"""GPUs of different types: how fast jobs run on each, and which they prefer.

A job table has a column ``speed_<type>`` for every type of the cluster: the job's speed there in
thousandths of that at which its run time was taken; 0: it cannot run there. A job of ``d`` seconds
runs ``ceil(1000 d / speed)`` seconds on servers of that type.

Axes: ``n`` jobs, ``K`` kinds of servers, each with a type.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs import Column, Integers, JobTable
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.demands import holds
from jaxsched.trace_replay.policies import Locality, TypeChoice
from jaxsched.types import Array

UNIT = 1000
"""The speed at which run times were taken."""
MOST_SPEED = 100_000
PREFIX = "speed_"
LONGEST_RUN = 2**31 - 1
"""Seconds; a run that would be longer makes a schedule run past what times hold."""


class Typed(NamedTuple):
    """What jobs, or classes of equal jobs, are on each kind of servers; int32 ``[..., K]``.

    Attributes:
      speed: thousandths, at least 1.
      rank: the place of the kind in the job's order of kinds, from 0; ``K`` where it cannot run.
      slowdown: speed on the best kind over the speed there, in thousandths, rounded up.
    """

    speed: Array
    rank: Array
    slowdown: Array


def columns_of(cluster: Cluster) -> tuple[Column, ...]:
    """The columns that a table must have for the cluster, one for each of its types."""
    return tuple(
        Column(
            PREFIX + name, 0, MOST_SPEED, "thousandths", f"speed on a {name}; 0: cannot run there"
        )
        for name in dict.fromkeys(cluster.gpu_types)
    )


def check_types(table: JobTable, cluster: Cluster, locality: Locality) -> None:
    """Refuse tables that cannot be played on the cluster's types of GPUs.

    Raises:
      JaxschedError: a column is missing, GPUs of a job may be anywhere, or a job can run nowhere.
    """
    if not cluster.gpu_types:
        return
    if locality == "any":
        raise JaxschedError(
            "rigid: GPUs of different types with locality any: a job has GPUs of one type; "
            "accepted: strict"
        )
    names = [column.name for column in columns_of(cluster)]
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise JaxschedError(
            f"table '{table.name}' has no column '{missing[0]}' (speed on GPUs of that type, "
            f"{UNIT}: as fast as its run time says); accepted: a table with {', '.join(names)}, "
            f"or {argument('speeds')}"
        )
    stuck = np.flatnonzero(~np.any(_can_run(table, cluster), axis=1))
    if stuck.size:
        raise JaxschedError(
            f"table '{table.name}', job {int(stuck[0])}: it cannot run on any type of GPU that has "
            f"{int(table['num_gpus'][stuck[0]])} of them for one job"
            f"{' with its CPUs and memory' if cluster.demands else ''}; accepted: a speed above 0 "
            "on one that has"
        )


def speeds_of(table: JobTable, cluster: Cluster) -> Integers:
    """The speed of each job on each kind, int64 ``[n, K]``; 0: it cannot run there."""
    speeds = np.stack([table[PREFIX + name] for name in cluster.gpu_types], axis=1)
    return np.where(_can_run(table, cluster), speeds, 0)


def typed(speeds: Integers, type_choice: TypeChoice, least_percent: int) -> Typed:
    """What jobs are on each kind, as numpy arrays.

    Args:
      speeds: int64 ``[n, K]``, 0 where a job cannot run.
      type_choice: how kinds are ordered; ties of equal speeds go to the first in the list.
      least_percent: kinds below so many percent of the best speed are left out.
    """
    best = speeds.max(axis=1, keepdims=True)
    may = (speeds > 0) & (100 * speeds >= least_percent * best)
    order = np.zeros_like(speeds) if type_choice == "listed" else -speeds
    sequence = np.argsort(np.where(may, order, 1), axis=1, kind="stable")
    rank = np.empty_like(sequence)
    np.put_along_axis(rank, sequence, np.arange(speeds.shape[1])[None, :], axis=1)
    speed = np.maximum(speeds, 1)
    found = speed, np.where(may, rank, speeds.shape[1]), -(-UNIT * best // speed)
    return Typed(*(np.minimum(each, LONGEST_RUN).astype(np.int32) for each in found))  # type: ignore[arg-type]


def shortest_run_times(table: JobTable, cluster: Cluster) -> Integers:
    """Run times (s) on the fastest GPUs that can hold each job, int64 ``[n]``."""
    if not cluster.gpu_types:
        return table["duration"]
    return -(-UNIT * table["duration"] // speeds_of(table, cluster).max(axis=1))


def run_time_at(duration: Array, speed: Array) -> Array:
    """Seconds that so many seconds of work take at a speed, rounded up; cut at ``LONGEST_RUN``."""
    whole, rest = duration // speed, duration % speed
    most = LONGEST_RUN // UNIT - 1
    more = -(-UNIT * rest // speed)
    return jnp.where(whole < most, UNIT * whole + more, LONGEST_RUN)


def work_within(seconds: Array, speed: Array, most: int) -> Array:
    """The longest run time (s) that takes no more than so many seconds at a speed, up to ``most``.

    ``run_time_at(d, speed) <= seconds`` where ``d <= work_within(seconds, speed)``.
    """
    whole, rest = seconds // UNIT, seconds % UNIT
    holds = whole < most // speed - 1
    return jnp.where(holds, whole * speed + rest * speed // UNIT, most)


def _can_run(table: JobTable, cluster: Cluster) -> np.ndarray:
    """Whether a job can run on servers of each kind, bool ``[n, K]``."""
    fast = np.stack([table[PREFIX + name] > 0 for name in cluster.gpu_types], axis=1)
    return fast & holds(table, cluster)
