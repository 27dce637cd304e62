"""What the paper's text leaves open: actions without a mask, slowdowns beyond two servers."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.rules import SLOWDOWN_TENTHS
from jaxsched.jobs import JobTable

ENV = Sched2(num_servers=4, gpus_per_server=2, window=2)
TABLE = JobTable(
    {
        "submit_time": [0, 0, 5],
        "num_gpus": [8, 2, 4],
        "duration": [100, 50, 200],
        "model": [5, 4, 3],
    }
)
START, VOID = 0, 2


def played(env, actions):
    params, key = env.params([TABLE]), jax.random.key(0)
    state, timestep = env.reset(key, params)
    seen = [timestep]
    for action in actions:
        state, timestep = jax.jit(env.step)(key, state, np.int32(action), params)
        seen.append(timestep)
    return seen


def test_without_a_mask_what_cannot_be_carried_out_is_void():
    """Job 0 takes all GPUs; job 1 then does not fit, and asking for it moves to the next instant.

    At 100 s the cluster is idle with nothing to come: void cannot be carried out, the oldest goes.
    """
    actions = (START, START, START, VOID)
    masked, free = played(ENV, actions), played(replace(ENV, free_choice=True), actions)
    assert all(np.all(seen.action_mask) for seen in free)
    assert [seen.action_mask.tolist() for seen in masked[:2]] == [
        [True, True, True],
        [False, False, True],
    ]
    for left, right in zip(masked, free, strict=True):
        np.testing.assert_array_equal(left.observation, right.observation)
        assert left.reward == right.reward and left.elapsed == right.elapsed
        assert left.metrics.invalid == right.metrics.invalid
    assert [float(seen.elapsed) for seen in free[1:]] == [0.0, 5.0, 95.0, 0.0]
    assert [bool(seen.metrics.invalid) for seen in free[1:]] == [False, True, True, True]
    assert bool(free[-1].metrics.start.started) and int(free[-1].metrics.start.job) == 1


def test_saturating_slowdowns_are_those_of_one_server_more():
    growing, saturating = ENV.params([TABLE]).jobs, replace(ENV, saturating=True).params([TABLE])
    times = np.asarray(saturating.jobs.run_time[0, :3])
    at_two = SLOWDOWN_TENTHS[TABLE["model"], 1]
    # 8 GPUs need all four servers; 2 and 4 may be on one and two servers more than they need.
    split = (TABLE["duration"] * at_two + 5) // 10
    np.testing.assert_array_equal(times, [[100] * 4, [50, *[split[1]] * 3], [200, *[split[2]] * 3]])
    np.testing.assert_array_equal(growing.run_time[0, :3, :2], times[:, :2])
    assert int(growing.run_time[0, 2, 2]) > int(split[2])
    np.testing.assert_array_equal(saturating.jobs.shown[0, :3, :4], times)


@pytest.mark.parametrize("saturating", [False, True])
def test_slowdowns_in_the_observation_are_those_of_the_run_times(saturating):
    env = replace(ENV, saturating=saturating, profile="slowdown")
    observed = np.asarray(played(env, ())[0].observation)
    shown = observed[8 : 8 + 2 * 6].reshape(2, 6)[:, :4]
    times = np.asarray(env.params([TABLE]).jobs.run_time[0, :2])
    np.testing.assert_allclose(shown, times / times[:, :1], rtol=1e-6)
