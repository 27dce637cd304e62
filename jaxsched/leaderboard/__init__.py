"""Every policy that can act on rigid jobs, on common workloads, beside lower bounds.

``workloads`` -> a job table and a cluster; ``window`` -> the measured jobs; ``entries`` -> the
policies; ``board`` -> replays, bounds and figures; ``cells`` -> all of it, in parallel, resumable;
``text`` and ``picture`` -> output to read. The page is ``jaxsched.report.leaderboard``'s.
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
