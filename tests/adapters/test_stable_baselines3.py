"""The bridge to Stable-Baselines3 against its own vector environment of single ones."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from jaxsched.adapters.gymnasium import JaxschedEnv
from jaxsched.errors import JaxschedError
from tests import probes
from tests.instances import sched2
from tests.probes import Probe

WHY = "heavy (torch): pip install stable-baselines3 sb3-contrib"
vec_env = pytest.importorskip("stable_baselines3.common.vec_env", reason=WHY)
maskable = pytest.importorskip("sb3_contrib.common.maskable.utils", reason=WHY)

from jaxsched.adapters.stable_baselines3 import JaxschedVecEnv  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"
SEED, COPIES, STEPS, LIMIT = 3, 4, 25, 5


def test_it_is_what_stable_baselines3_makes_of_single_environments():
    case = sched2()

    def limited():
        return TimeLimit(JaxschedEnv(case.env, case.params), LIMIT)

    bridge = JaxschedVecEnv(case.env, case.params, COPIES, time_limit=LIMIT)
    dummy = vec_env.DummyVecEnv([limited] * COPIES)
    for venv in (bridge, dummy):
        venv.seed(SEED)
        venv.set_options({"episode": 0})
    np.testing.assert_array_equal(bridge.reset(), dummy.reset())
    rng, kinds = np.random.default_rng(0), []
    for _ in range(STEPS):
        masks = maskable.get_action_masks(bridge)
        np.testing.assert_array_equal(masks, maskable.get_action_masks(dummy))
        action = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        found, wanted = bridge.step(action), dummy.step(action)
        for one, other in zip(found[:3], wanted[:3], strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
        for info, should, over in zip(found[3], wanted[3], wanted[2], strict=True):
            assert ("terminal_observation" in info) == over
            assert info.get("TimeLimit.truncated", False) == should["TimeLimit.truncated"]
            if over:
                last = should["terminal_observation"]
                np.testing.assert_array_equal(info["terminal_observation"], last)
                kinds.append(info["TimeLimit.truncated"])
    assert {True, False} == set(kinds)


def test_masks_of_some_copies_and_what_there_is_not():
    params = probes.process(mask=[[True, False, True]] * 3, first=(0, 1))
    bridge = JaxschedVecEnv(Probe(), params, 3)
    bridge.reset()
    (mask,) = bridge.env_method("action_masks", indices=1)
    np.testing.assert_array_equal(mask, [True, False, True])
    assert bridge.has_attr("action_masks") and not bridge.has_attr("nonsense")
    assert maskable.is_masking_supported(bridge)
    assert bridge.env_is_wrapped(TimeLimit) == [False] * 3
    with pytest.raises(JaxschedError, match="accepted: 'action_masks'"):
        bridge.env_method("render")
    with pytest.raises(JaxschedError, match="no attributes of their own"):
        bridge.set_attr("x", 1)


@pytest.mark.slow
def test_the_example_trains(tmp_path, monkeypatch):
    result = tmp_path / "result.json"
    arguments = ("--steps", "8192", "--json", str(result), "--plot", str(tmp_path / "curve.png"))
    monkeypatch.setattr(sys, "argv", ["sb3_maskable_ppo.py", *arguments])
    runpy.run_path(str(EXAMPLES / "sb3_maskable_ppo.py"), run_name="__main__")
    found = json.loads(result.read_text())
    assert found["curve"][0]["steps"] == 0 and found["curve"][-1]["steps"] >= 8192
    assert 0 < found["fresh"]["maskable_ppo"] <= 1 and (tmp_path / "curve.png").exists()
