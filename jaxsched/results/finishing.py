"""Which policies leave jobs unfinished, so that means over finished jobs say nothing of them."""

from collections.abc import Mapping

FINISHED = "finished"
"""The metric that counts the jobs that finish."""
NEARLY_ALL = 0.999
"""Share of the jobs that must finish for means over finished jobs to be compared."""


def unfinished(counts: Mapping[str, float]) -> dict[str, float]:
    """Share of the jobs that finish, of each policy under which not (nearly) all do.

    Args:
      counts: policy -> mean number of jobs that finish. All jobs are those that finish under the
        policy under which most do.
    """
    most = max(counts.values(), default=0.0)
    return {name: count / most for name, count in counts.items() if count < NEARLY_ALL * most}
