"""Every policy that can act on rigid jobs, on common workloads, beside what no schedule can beat.

``workloads`` -> a job table and a cluster; ``window`` -> the jobs that count; ``entries`` -> who
plays; ``board`` -> replays, bounds and figures; ``plays`` -> all of it, side by side and resumed;
``text`` and ``picture`` -> what people read. The page is ``jaxsched.report.leaderboard``'s.
"""

from jaxsched.leaderboard.board import Standing, Standings, play
from jaxsched.leaderboard.entries import Entry, entries_of
from jaxsched.leaderboard.workloads import WORKLOADS, Prepared, Workload, at_load, prepare

__all__ = [
    "WORKLOADS",
    "Entry",
    "Prepared",
    "Standing",
    "Standings",
    "Workload",
    "at_load",
    "entries_of",
    "play",
    "prepare",
]
