"""Comparisons of trained policies with heuristics."""

from jaxsched.results.comparison import Learned, distinct


def test_trained_policies_have_names_of_their_own():
    """A run called as a heuristic neither overwrites it nor makes the report refuse both."""
    runs = [Learned(name, None, "mlp-8", []) for name in ("fifo", "new", "fifo", "new")]
    names = [policy.name for policy in distinct(runs, ["fifo", "srtf"])]
    assert names == ["fifo, trained", "new", "fifo, trained 2", "new, trained"]
    assert [policy.name for policy in runs] == ["fifo", "new", "fifo", "new"]
