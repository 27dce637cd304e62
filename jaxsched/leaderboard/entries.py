"""Entries of a leaderboard: policies of the library, and users' own.

A user's own policy is ``module:name``, where the name stands for

- a ``Policy``;
- a function of a job table and a cluster that returns a number for each job, lower first: the
  first in order that fits starts, and no job is suspended;
- a function of the same two that returns ``Records``: a schedule from any source. It is
  checked (``check_schedule``).

Attributes of the function say what it is: ``knows`` (one of ``KNOWLEDGE``), ``suspends``,
``learned``.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.schedule import most_at_once
from jaxsched.leaderboard.workloads import Prepared
from jaxsched.trace_replay import FURTHER, POLICIES, Cluster, Policy, Records, replay
from jaxsched.trace_replay.gavel import Goal, replay_in_rounds
from jaxsched.trace_replay.gpu_types import shortest_run_times
from jaxsched.trace_replay.policies import LEARNED, Locality
from jaxsched.trace_replay.tables import lacking
from jaxsched.types import Knowledge

KNOWLEDGE: tuple[Knowledge, ...] = get_args(Knowledge)
"""All policies of the library."""

Play = Callable[[JobTable, Cluster], Records]

_COLUMN_WORDS = {
    "estimate": "users' estimates of run times",
    "time_to_deadline": "deadlines",
    "priority": "priorities",
}

_BY_ESTIMATE = Policy("sjf", "skip", run_times="estimates")
"""Replays any priority in the column of estimates."""


class Entry(NamedTuple):
    """A row of the board.

    Attributes:
      name: of the policy.
      play: a job table and a cluster -> the records of the replay.
      knows: what it knows of run times.
      suspends: whether running jobs are suspended for others.
      learned: whether it was trained.
      locality: ``any``: jobs may be split over servers at will, which is another cluster.
      shares: whether it shares GPUs among owners, so that jobs need owners.
      policy: the replayed policy, if it is one of the library.
      recorded: whether the row is no policy, but the log's own schedule.
    """

    name: str
    play: Play
    knows: Knowledge
    suspends: bool
    learned: bool = False
    locality: Locality = "strict"
    shares: bool = False
    policy: Policy | None = None
    recorded: bool = False

    def misses(self, prepared: Prepared) -> str:
        """What the policy needs and a workload lacks; empty: it can be replayed."""
        if self.shares and not prepared.has_owners:
            return "owners"
        if prepared.cluster.gpu_types and self.policy is not None and not self.policy.takes_types:
            return "GPUs of one type"
        takes = self.name not in GAVEL if self.policy is None else self.policy.takes_types
        if prepared.cluster.demands and not takes:
            return "servers without limits of CPUs and memory"
        if prepared.cluster.slots > 1 and (self.policy is None or not self.policy.takes_shares):
            return "whole GPUs"
        if (
            self.policy is not None
            and self.policy.placement == "fgd"
            and prepared.cluster.gpu_types
        ):
            return "GPUs of one type"
        outages = prepared.outages
        if outages is not None and (self.policy is None or not self.policy.takes_outages):
            fails = prepared.failures is not None
            return f"servers that {'never fail' if fails else 'are never reserved'}"
        reserved = prepared.has_reservations
        names = (
            () if self.policy is None else lacking(prepared.table, self.policy, reserved=reserved)
        )
        return " and ".join(_COLUMN_WORDS.get(name, name) for name in names)

    def marks(self, *, reserved: bool = False) -> dict[str, Any]:
        """Values by which readers may filter rows, where servers are reserved or not."""
        knows = self.knows
        if reserved and self.policy is not None and knows == "nothing":
            knows = self.policy.knows_if_reserved
        return {
            "knows": knows,
            "suspends": self.suspends,
            "learned": self.learned,
            "recorded": self.recorded,
        }


def of_policy(name: str, policy: Policy) -> Entry:
    """A policy of the library as an entry."""
    return Entry(
        name,
        lambda table, cluster: replay(table, cluster, policy),
        knows="prediction" if policy.learns or policy.order == "gittins" else policy.knows,
        suspends=policy.preemptive,
        learned=policy.order in LEARNED,
        locality=policy.locality,
        shares=policy.shares_groups,
        policy=policy,
    )


GAVEL: Mapping[str, Goal] = MappingProxyType(
    {"gavel-maxmin": "max-min", "gavel-makespan": "makespan"}
)
"""Gavel's linear programs in rounds, by the goal of each; replayed only if named."""


def _of_name(name: str) -> Entry:
    if name not in GAVEL:
        return of_policy(name, {**POLICIES, **FURTHER}[name])
    goal = GAVEL[name]
    return Entry(
        name,
        lambda table, cluster: replay_in_rounds(table, cluster, goal),
        knows="nothing" if goal == "max-min" else "run times",
        suspends=True,
    )


def entries_of(names: Sequence[str] | None, own: Sequence[str] = ()) -> list[Entry]:
    """Entries by name (None: ``POLICIES``; others only if named), and of ``module:name``.

    Raises:
      JaxschedError: an unknown name, or one that stands for no policy.
    """
    known = {**POLICIES, **FURTHER, **GAVEL}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise JaxschedError(f"unknown policy {unknown[0]!r}; accepted: {', '.join(known)}")
    found = [_of_name(name) for name in (POLICIES if names is None else names)]
    found += [_own(spec) for spec in own]
    twice = [entry.name for k, entry in enumerate(found) if entry.name in _names(found[:k])]
    if twice:
        raise JaxschedError(f"two policies are called {twice[0]!r}; accepted: different names")
    return found


def _names(entries: Sequence[Entry]) -> set[str]:
    return {entry.name for entry in entries}


def _own(spec: str) -> Entry:
    module_name, _, name = spec.partition(":")
    if not module_name or not name.isidentifier():
        raise JaxschedError(f"--policy is {spec!r}; accepted: module:name")
    found = getattr(_module(spec, module_name), name, None)
    if isinstance(found, Policy):
        return of_policy(name, found)
    if not callable(found):
        raise JaxschedError(
            f"{spec}: is {describe_value(found)}; accepted: a Policy, or a function of a job "
            "table and a cluster"
        )
    knows = getattr(found, "knows", "unstated")
    if knows not in KNOWLEDGE:
        raise JaxschedError(
            f"{spec}: knows is {describe_value(knows)}; accepted: {', '.join(KNOWLEDGE)}"
        )
    return Entry(
        name,
        lambda table, cluster: _play_own(spec, found, table, cluster),
        knows=knows,
        suspends=bool(getattr(found, "suspends", False)),
        learned=bool(getattr(found, "learned", False)),
    )


def _module(spec: str, name: str) -> Any:
    """A module that is installed or in the working folder."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise JaxschedError(f"{spec}: cannot be imported: {_what(error)}") from error


def _play_own(spec: str, function: Any, table: JobTable, cluster: Cluster) -> Records:
    try:
        found = function(table, cluster)
    except JaxschedError as error:
        raise JaxschedError(f"{spec}: {error}") from error
    except Exception as error:
        raise JaxschedError(f"{spec}: {_what(error)}") from error
    if isinstance(found, Records):
        check_schedule(spec, found, table, cluster)
        return found
    try:
        priority = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        priority = np.zeros(0)
    if priority.shape != (len(table),) or np.isnan(priority).any():
        raise JaxschedError(
            f"{spec}: returned {describe_value(found)}; accepted: a number for each of the "
            f"{len(table)} jobs, or Records"
        )
    return by_priority(table, cluster, priority)


def by_priority(table: JobTable, cluster: Cluster, priority: np.ndarray) -> Records:
    """A replay in which the first in order that fits starts, and no job is suspended.

    Args:
      table: jobs, ``n`` of them.
      cluster: where they run.
      priority: float64 ``[n]``, lower first; ties go to the earlier submission.
    """
    rank = np.unique(priority, return_inverse=True)[1].astype(np.int64).reshape(-1)
    return replay(table.with_columns(estimate=rank + 1), cluster, _BY_ESTIMATE)


def _what(error: Exception) -> str:
    """An error of a user's code, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def check_schedule(spec: str, records: Records, table: JobTable, cluster: Cluster) -> None:
    """Refuse an impossible schedule.

    It must have the table's own columns; no job may start before its submission or run shorter than
    its run time; and jobs that were never suspended may never hold more GPUs together
    than there are.

    Raises:
      JaxschedError: one line with the first job that is wrong.
    """
    wrong = {
        "has another submission, size or run time": (records.submit != table["submit_time"])
        | (records.num_gpus != table["num_gpus"])
        | (records.duration != table["duration"]),
        "starts before its submission": records.start < records.submit,
        "runs shorter than it must": records.end - records.start
        < shortest_run_times(table, cluster),
    }
    for what, jobs in wrong.items():
        if np.any(jobs):
            raise JaxschedError(f"{spec}: job {int(np.argmax(jobs))} {what}")
    whole = records.preemptions == 0
    held = most_at_once(records.start[whole], records.end[whole], records.num_gpus[whole])
    if held > cluster.num_gpus:
        raise JaxschedError(f"{spec}: jobs hold more than {cluster.num_gpus} GPUs together")
