"""Tables at the limits of the integers are refused or reported, never silently wrong."""

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.systems import golden, registry


def simulate(jobs, servers=1, gpus=1, policy="fifo"):
    rows = [
        {"submit_time": submit, "num_gpus": g, "duration": d, "model": 0} for submit, g, d in jobs
    ]
    config = {"num_servers": servers, "gpus_per_server": gpus}
    system = registry.get("sched2")
    return golden.simulate(system, {"config": config, "policy": policy, "jobs": rows})


def test_a_schedule_that_outlives_the_clock_is_reported():
    with pytest.raises(JaxschedError, match="clock|did not end"):
        simulate([(0, 1, 5)] + [(2**30 - 2000, 1, 1000)] * 3)


def test_a_long_queue_of_legal_jobs_that_outlives_the_clock_is_reported():
    with pytest.raises(JaxschedError, match="clock|did not end"):
        simulate([(0, 1, 2**23)] * 140)


def test_a_submission_after_the_end_of_the_clock_is_refused():
    with pytest.raises(JaxschedError, match="job 1: submit_time"):
        simulate([(0, 1, 5), (2**30 - 1, 1, 5)])


def test_gpu_time_that_the_rules_cannot_rank_is_refused():
    with pytest.raises(JaxschedError, match="GPU seconds"):
        simulate([(0, 512, 2**23), (0, 1, 100)], servers=64, gpus=8, policy="spf")


def test_the_last_second_of_the_clock_can_be_used():
    result = simulate([(0, 1, 5), (2**30 - 2000, 1, 1000)])
    assert result["jobs"][1] == {
        "start": 2**30 - 2000,
        "finish": 2**30 - 1000,
        "level": 0,
        "servers": [0],
        "counts": [1],
        "reused": False,
    }
