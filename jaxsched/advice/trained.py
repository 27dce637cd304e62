"""A trained policy as a row: the whole log is one episode."""

from pathlib import Path
from typing import Any

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.experiment.comparing import evaluate
from jaxsched.experiment.loading import load
from jaxsched.jobs import JobTable
from jaxsched.leaderboard.entries import Entry
from jaxsched.trace_replay import Cluster, Records


def trained_entry(place: str) -> Entry:
    """The row of a trained policy.

    Args:
      place: a run, the folder of one of its policies, a hand-over folder, "SYSTEM/pretrained". Of
        several training seeds the best is used.

    Raises:
      JaxschedError: the place has no such policy.
    """
    policy = load(place)
    env = policy.learned.env
    name = Path(place).name if Path(place).exists() else place

    def play(table: JobTable, cluster: Cluster) -> Records:
        return _played(policy, name, table, cluster)

    return Entry(
        name, play, knows=env.knows(), suspends=bool(getattr(env, "suspends", False)), learned=True
    )


def _played(policy: Any, name: str, table: JobTable, cluster: Cluster) -> Records:
    """Records of the jobs under the policy.

    Raises:
      JaxschedError: the policy cannot act on this cluster, its system changes run times, or it
        left jobs unfinished.
    """
    played = evaluate(policy.system, policy, traces=[table], servers=str(cluster.servers))
    assert played.times is not None
    seed = getattr(policy, "best_seed", 0)
    part = next(each for each in played.times() if each["seed"] == seed)
    start, end = part["start_time"], part["end_time"]
    if np.ma.is_masked(start) or np.ma.is_masked(end):
        raise JaxschedError(f"{name}: left jobs unfinished; accepted: a policy that ends them all")
    start, end = (np.rint(np.ma.getdata(times)).astype(np.int64) for times in (start, end))
    if np.any(end - start < table["duration"]):
        raise JaxschedError(
            f"{name}: jobs of {policy.system} run shorter than the log's; accepted: a policy of "
            "rigid jobs"
        )
    nothing = np.zeros(len(table), np.int64)
    return Records(
        submit=table["submit_time"],
        num_gpus=table["num_gpus"],
        duration=table["duration"],
        start=start,
        end=end,
        num_servers=nothing,
        first_server=nothing,
        preemptions=nothing,
        held=table["duration"],
    )
