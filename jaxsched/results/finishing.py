"""Which policies leave jobs unfinished, so that means over finished jobs say nothing of them."""

from collections.abc import Mapping

FINISHED = "finished"
"""The metric that counts the jobs that finish."""
NEARLY_ALL = 0.999
"""Share of the jobs that must finish for means over finished jobs to be compared."""


def shares(counts: Mapping[str, float]) -> dict[str, float]:
    """Share of the jobs that finish under each policy, 0 where none ever does.

    Args:
      counts: policy -> mean number of jobs that finish. All jobs are those that finish under the
        policy under which most do.
    """
    most = max(counts.values(), default=0.0)
    return {name: count / most if most else 0.0 for name, count in counts.items()}


def unfinished(counts: Mapping[str, float]) -> dict[str, float]:
    """The :func:`shares` of policies under which not (nearly) all jobs finish."""
    return {name: share for name, share in shares(counts).items() if share < NEARLY_ALL}
