"""The plain-Python simulators as they are timed: every system plays on, decision by decision."""

from itertools import islice

import pytest

from benchmarks.peers.plain import PLAYS, episodes


@pytest.mark.parametrize("name", PLAYS)
def test_every_system_plays_on(name):
    assert len(list(islice(episodes(name, jobs=3), 200))) == 200
