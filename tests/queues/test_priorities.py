"""Priorities give the order, and as few as possible change."""

from itertools import combinations

import numpy as np
import pytest

from jaxsched.queues import priorities
from jaxsched.queues.kueue import Kueue
from jaxsched.queues.slurm import Slurm

LARGEST = Slurm.priorities.largest


def changes(wanted, before, accepted=Slurm.priorities):
    return priorities.changes(wanted, before, accepted)


def in_order(wanted, priorities):
    values = [priorities[job] for job in wanted]
    return all(a > b for a, b in zip(values, values[1:], strict=False))


def most_kept(values):
    """Length of a longest falling subsequence, by trying all."""
    for size in range(len(values), 0, -1):
        for places in combinations(range(len(values)), size):
            picked = [values[k] for k in places]
            if all(a > b for a, b in zip(picked, picked[1:], strict=False)):
                return size
    return 0


@pytest.mark.parametrize("seed", range(20))
def test_the_order_comes_and_no_fewer_changes_give_it(seed):
    draw = np.random.default_rng(seed)
    wanted = draw.permutation(8).tolist()
    values = draw.integers(1, 12, 8) * 5000
    before = dict(enumerate(values.tolist()))
    found = changes(wanted, before)
    after = before | found
    assert in_order(wanted, after)
    assert all(1 <= value <= LARGEST for value in after.values())
    assert len(found) == 8 - most_kept([before[job] for job in wanted])
    assert changes(wanted, after) == {}


def test_priorities_below_zero():
    """Kueue's are 0 for everybody who has no class, and there is room on both sides."""
    accepted = Kueue.priorities
    wanted, before = [3, 1, 2, 0], dict.fromkeys(range(4), 0)
    found = changes(wanted, before, accepted)
    assert in_order(wanted, before | found)
    assert len(found) == 3
    for value in (accepted.lowest, accepted.largest):
        after = dict.fromkeys(range(4), value)
        after |= changes(wanted, after, accepted)
        assert in_order(wanted, after)
        assert all(accepted.lowest <= each <= accepted.largest for each in after.values())


@pytest.mark.parametrize("top", [1, 3, 20, LARGEST])
def test_where_there_is_no_room_all_are_given_anew(top):
    before = {job: max(top - job, 1) for job in range(6)}  # neighbours, as priority/basic has them
    wanted = [5, 4, 3, 2, 1, 0]
    after = before | changes(wanted, before)
    assert in_order(wanted, after)
    assert all(1 <= value <= LARGEST for value in after.values())


def test_one_newcomer_is_one_change():
    before = {1: 5000, 2: 4000, 3: 3000}
    before[4] = 10
    assert set(changes([4, 1, 2, 3], before)) == {4}
    assert set(changes([1, 4, 2, 3], before)) == {4}
    assert changes([1, 2, 3, 4], before) == {}
    assert changes([], {}) == {}
