"""Every policy that can act on rigid jobs, on common workloads, beside what no schedule can beat.

``workloads`` -> a job table and a cluster; ``board`` -> replays, bounds and figures; ``coverage``
-> what intervals are worth; ``text`` and ``picture`` -> what people read.
"""

from benchmarks.leaderboard.board import Standing, Standings, play
from benchmarks.leaderboard.workloads import WORKLOADS, Prepared, Workload, prepare

__all__ = ["WORKLOADS", "Prepared", "Standing", "Standings", "Workload", "play", "prepare"]
