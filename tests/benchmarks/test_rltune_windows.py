"""Which windows of a log a policy of RLTune's environment is trained and compared on."""

import numpy as np
import pytest

from benchmarks.rltune_windows import rounds_of
from jaxsched.envs.cluster.jobs import RLTUNE_JOBS
from jaxsched.errors import JaxschedError

PHILLY_JOBS = 82240


@pytest.fixture(scope="module")
def rounds():
    return rounds_of(PHILLY_JOBS)


def jobs_of(firsts):
    return [row for first in firsts for row in range(first, first + RLTUNE_JOBS)]


def test_a_round_is_tested_on_jobs_that_no_choice_saw(rounds):
    for number, chosen in enumerate(rounds[1:], 1):
        test = jobs_of(chosen.test)
        assert len(test) == len(set(test)) == 100 * RLTUNE_JOBS
        assert min(test) >= 0 and max(test) < PHILLY_JOBS
        earlier = [first for before in rounds[:number] for first in before.test]
        seen = [*chosen.train, *chosen.validation, *earlier]
        assert not set(test) & set(jobs_of(seen))


def test_the_last_round_is_chosen_on_jobs_that_it_was_not_trained_on(rounds):
    last = rounds[-1]
    assert (len(last.train), len(last.validation)) == (160, 40)
    assert not set(jobs_of(last.train)) & set(jobs_of(last.validation))
    assert {*last.train, *last.validation} == {*rounds[0].test, *rounds[1].test}


def test_rounds_are_always_the_same(rounds):
    assert rounds_of(PHILLY_JOBS) == rounds
    train = np.random.default_rng(0).integers(0, int(0.7 * PHILLY_JOBS) - RLTUNE_JOBS, 96)
    assert rounds[0].train == rounds[1].train == train.tolist()


@pytest.mark.parametrize("num_jobs", [400, 20_000])
def test_a_log_that_is_too_short_is_refused(num_jobs):
    with pytest.raises(JaxschedError, match=f"has {num_jobs} jobs; accepted: more"):
        rounds_of(num_jobs)
