"""Comparisons of trained policies with heuristics."""

import pytest

from jaxsched.envs.mlfs.show.paper import SHORT
from jaxsched.results.comparison import Learned, claimed, distinct
from jaxsched.systems import functions, registry


def test_trained_policies_have_names_of_their_own():
    """A run called as a heuristic neither overwrites it nor makes the report refuse both."""
    runs = [Learned(name, None, "mlp-8", []) for name in ("fifo", "new", "fifo", "new")]
    names = [policy.name for policy in distinct(runs, ["fifo", "srtf"])]
    assert names == ["fifo, trained", "new", "fifo, trained 2", "new, trained"]
    assert [policy.name for policy in runs] == ["fifo", "new", "fifo", "new"]


@pytest.mark.parametrize(("count", "rows"), [(100, True), (0, False)])
def test_claims_are_of_policies_that_finish_their_jobs(count, rows):
    """One that finishes nothing has a mean completion time of 0, which meets any claim."""
    system = registry.get("mlfs")
    names = [*functions.policy_names(system, "baseline"), "network"]
    figures = dict.fromkeys([*system.metrics.shown, SHORT], 1.0) | {"finished": 100.0}
    means = dict.fromkeys(names, figures) | {"network": figures | {"finished": float(count)}}
    assert bool(claimed(system, functions.environment(system), means, "network")) is rows
