"""Networks that score each job by itself: the same weights play every cluster and window.

Axes: ``W`` positions, ``C`` and ``F`` as in ``observation``.
"""

from jaxsched.envs.cluster.observation import unbatched
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule

WIDTHS = {"jobs": ((32, 32), (32,)), "linear": ((), ())}
"""Kinds of networks that score jobs: ``hidden`` and ``wait`` of ``JobScorer``."""


class JobScorer(ExportableModule):
    """A score of each position, and one of waiting.

    The same layers read every position beside the state of the cluster; waiting is scored from that
    state and the oldest job. No weight depends on the cluster, the window or the table.

    Attributes:
      window: W.
      hidden: widths of the layers that positions share.
      wait: widths of the layers that score waiting.
      suspends: the environment's option; positions say more then.
      sees_run_times: likewise.
    """

    window: int
    hidden: tuple[int, ...] = (32, 32)
    wait: tuple[int, ...] = (32,)
    suspends: bool = False
    sees_run_times: bool = False

    def describe(self) -> list[nd.Step]:
        """Positions beside the cluster; the oldest job beside the cluster; joined."""
        job = nd.last_of("jobs", "job", self.hidden)
        sizes = _sizes(suspends=self.suspends, sees_run_times=self.sees_run_times)
        return [
            *_jobs_steps(self.window, sizes),
            *nd.dense_stack("jobs", "job", self.hidden),
            nd.dense(job, "job_score", 1, activation="linear"),
            nd.reshape("job_score", "job_scores", (self.window,)),
            nd.take(nd.OBSERVATION, "oldest", stop=sum(sizes)),
            *nd.dense_stack("oldest", "wait", self.wait),
            nd.dense(nd.last_of("oldest", "wait", self.wait), "wait_score", 1, activation="linear"),
            nd.concat(("job_scores", "wait_score"), nd.SCORES),
        ]


class ClusterValue(ExportableModule):
    """The value of a state, for training: what all positions say on average, and the cluster.

    Its weights fit every window, but the average is over all positions, empty ones included.

    Attributes:
      window: W.
      hidden: widths of the layers that positions share.
      head: widths of the layers behind the average.
      suspends: as of ``JobScorer``.
      sees_run_times: likewise.
    """

    single = True
    window: int
    hidden: tuple[int, ...] = (32,)
    head: tuple[int, ...] = (32,)
    suspends: bool = False
    sees_run_times: bool = False

    def describe(self) -> list[nd.Step]:
        """Positions averaged, beside the cluster."""
        sizes = _sizes(suspends=self.suspends, sees_run_times=self.sees_run_times)
        return [
            *_jobs_steps(self.window, sizes),
            *nd.dense_stack("jobs", "job", self.hidden),
            nd.mean(nd.last_of("jobs", "job", self.hidden), "average"),
            nd.concat(("cluster", "average"), "joined"),
            *nd.dense_stack("joined", "head", self.head),
            nd.dense(
                nd.last_of("joined", "head", self.head),
                "value",
                1,
                activation="linear",
                output=nd.SCORES,
            ),
        ]


def _sizes(*, suspends: bool, sees_run_times: bool) -> tuple[int, int]:
    """C and F."""
    cluster, position = unbatched(suspends=suspends, sees_run_times=sees_run_times)
    return len(cluster), len(position)


def _jobs_steps(window: int, sizes: tuple[int, int]) -> list[nd.Step]:
    """Steps up to ``cluster`` ``[C]`` and ``jobs`` ``[W, F + C]``; ``sizes`` are C and F."""
    num_cluster, num_position = sizes
    return [
        nd.take(nd.OBSERVATION, "cluster", stop=num_cluster),
        nd.take(nd.OBSERVATION, "flat", start=num_cluster),
        nd.reshape("flat", "positions", (window, num_position)),
        nd.repeat("cluster", "clusters", window),
        nd.concat(("positions", "clusters"), "jobs"),
    ]
