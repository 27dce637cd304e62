"""What became of every job of a comparison, as rows of a file of job times."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxsched.jobs import JobTable
from jaxsched.jobs.schedule import Schedule
from jaxsched.results.comparison import Contest
from jaxsched.results.job_times import times_of
from jaxsched.systems.parts import Played
from jaxsched.traces.describe import has_load
from jaxsched.traces.job_kinds import kind_of


class PlayedTimes:
    """Collects the times of jobs while a comparison plays: its ``on_played``.

    Attributes:
      parts: columns of each policy on each table (``jaxsched.results.job_times.times_of``), with
        the number of the ``trace``, its ``name``, and the index of the training ``seed``, 0 where
        there is one.

    Args:
      contest: what is compared on what.
    """

    def __init__(self, contest: Contest) -> None:
        self.parts: list[Mapping[str, Any]] = []
        self._contest = contest

    def __call__(self, name: str, runs: Sequence[Played]) -> None:
        """Note the schedules of one policy, of each of its training seeds."""
        for seed, played in enumerate(runs):
            for trace, schedule in enumerate(played.schedule):
                table = self._contest.tables[trace]
                labels = {"trace": trace, "name": table.name, "seed": seed}
                self.parts.append(_part(name, table, schedule, labels))


def _part(
    policy: str, table: JobTable, schedule: Schedule, labels: Mapping[str, Any]
) -> Mapping[str, Any]:
    """One policy on one table; jobs that can have any number of GPUs have neither it nor times."""
    start, finish = np.asarray(schedule.start), np.asarray(schedule.finish)
    unknown = np.ma.masked_all(len(table), np.int64)
    rigid = kind_of(table).as_rigid(table) if has_load(table) else None
    return times_of(
        policy=policy,
        submit=np.asarray(schedule.submit),
        start=start,
        end=finish,
        num_gpus=unknown if rigid is None else rigid["num_gpus"],
        duration=unknown if rigid is None else rigid["duration"],
        started=start >= 0,
        ended=finish >= 0,
        **labels,
    )
