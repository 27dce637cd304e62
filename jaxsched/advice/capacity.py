"""The smallest cluster on which jobs wait no longer under a policy than in the log."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxsched.advice.what_if import wait_of
from jaxsched.leaderboard.entries import Entry
from jaxsched.leaderboard.window import Window
from jaxsched.leaderboard.workloads import Prepared
from jaxsched.trace_replay import Cluster


class Fit(NamedTuple):
    """The smallest cluster for one policy.

    Attributes:
      policy: its name.
      target_s: the longest allowed mean wait, s.
      servers: the smallest number of tried servers that keeps it; None: the whole cluster does not.
      tried: servers and mean wait (s) of each replay, by size.
    """

    policy: str
    target_s: float
    servers: int | None
    tried: tuple[tuple[int, float], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**self._asdict(), "tried": [list(each) for each in self.tried]}


def smallest(
    entry: Entry,
    ready: Prepared,
    window: Window,
    target_s: float,
    whole_s: float,
    say: Callable[[str], object] = lambda line: None,
) -> Fit:
    """Bisect between the largest job's servers and the whole cluster.

    Bisection assumes that the mean wait falls with every added server, which need not hold.

    Args:
      entry: the policy.
      ready: the jobs and the cluster.
      window: the measured jobs.
      target_s: the longest allowed mean wait, s.
      whole_s: mean wait on the whole cluster, s.
      say: called with a line after each replay.
    """
    size, width = ready.cluster.num_servers, ready.cluster.gpus_per_server
    tried = {size: whole_s}
    if whole_s > target_s:
        return Fit(entry.name, target_s, None, tuple(tried.items()))
    high = size
    low = -(-int(ready.table["num_gpus"].max()) // width) - 1  # cannot hold the largest job
    while high - low > 1:
        middle = (low + high) // 2
        records = entry.play(ready.table, Cluster(middle, width))
        tried[middle] = float(wait_of(records)[window.jobs].mean())
        say(f"{entry.name} on {middle} servers: mean wait {tried[middle]:.0f} s")
        if tried[middle] <= target_s:
            high = middle
        else:
            low = middle
    return Fit(entry.name, target_s, high, tuple(sorted(tried.items())))
