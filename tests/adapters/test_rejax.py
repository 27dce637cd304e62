"""gymnax' own wrappers around our forms, and rejax, a learner for them that trains as it is."""

import runpy
from pathlib import Path

import jax
import numpy as np
import pytest

WHY = "brings gymnax, which caps jax: pip install rejax"
spaces = pytest.importorskip("gymnax.environments.spaces", reason=WHY)
pytest.importorskip("rejax", reason=WHY)

from gymnax import wrappers  # noqa: E402

from jaxsched.adapters.gymnax import GymnaxDoneEnv, GymnaxEnv  # noqa: E402
from tests.instances import das, sched2  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_spaces_are_those_of_gymnax_where_it_is_loaded():
    case = sched2()
    env = GymnaxDoneEnv(case.env, case.params)
    assert isinstance(env.action_space(), spaces.Discrete)
    assert isinstance(env.observation_space(env.default_params), spaces.Box)
    case = das()
    env = GymnaxDoneEnv(case.env, case.params)
    assert isinstance(env.observation_space(env.default_params), spaces.Dict)


def test_wrappers_of_gymnax_fit_around():
    case = sched2()
    ours = GymnaxEnv(case.env, case.params)
    five = GymnaxDoneEnv(case.env, case.params)
    legacy = wrappers.LegacyStepAPIWrapper(ours)
    logged = wrappers.LogWrapper(wrappers.FlattenObservationWrapper(ours))
    params, key = ours.default_params, jax.random.key(0)
    _, state = ours.reset(key, params)
    _, log_state = logged.reset(key, params)
    total = 0.0
    for step in range(2 * params.max_steps_in_episode):
        key = jax.random.key(step)
        action = ours.action_mask(state, params).argmax()
        found, wanted = (env.step(key, state, action, params) for env in (five, legacy))
        jax.tree.map(np.testing.assert_array_equal, found, wanted)
        *_, terminated, truncated, info = logged.step(key, log_state, action, params)
        log_state = logged.step(key, log_state, action, params)[1]
        total += float(found[2])
        state = found[1]
        if terminated | truncated:
            assert float(info["returned_episode_returns"]) == pytest.approx(total, rel=1e-5)
            return
    raise AssertionError("no episode ended")


@pytest.mark.slow
def test_ppo_learns():
    example = runpy.run_path(str(EXAMPLES / "rejax_ppo.py"))
    curve = [point["effectiveness"] for point in example["train"](65_536, seed=0)]
    assert len(curve) == 9
    assert sum(curve[-2:]) / 2 > curve[0] + 0.02
