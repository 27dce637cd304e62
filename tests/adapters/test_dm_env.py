"""Ends of episodes as dm_env tells them apart."""

import numpy as np

from jaxsched.adapters.dm_env import JaxschedDmEnv
from tests import probes
from tests.instances import das
from tests.probes import Probe

PARAMS = probes.process(reward=[1, 2, 4], mask=[[True, False, True]] * 3, first=(0, 1))


def test_discounts_tell_ends_from_cuts():
    whole, cut = JaxschedDmEnv(Probe(), PARAMS), JaxschedDmEnv(Probe(), PARAMS, time_limit=2)
    for env, discounts in ((whole, [1, 1, 0]), (cut, [1, 1])):
        first = env.reset(episode=0)
        assert first.first() and first.reward is None
        np.testing.assert_array_equal(first.observation["action_mask"], [1, 0, 1])
        steps = [env.step(0) for _ in discounts]
        assert [step.discount for step in steps] == discounts
        assert [step.last() for step in steps] == [False] * (len(discounts) - 1) + [True]
        assert [step.reward for step in steps] == [1, 2, 4][: len(discounts)]
        assert env.step(0).first()


def test_specs_of_structured_observations_and_actions():
    case = das()
    env = JaxschedDmEnv(case.env, case.params)
    spec, seen = env.observation_spec(), env.reset().observation
    assert set(spec) == set(seen) == {"jobs", "machines", "real", "action_mask"}
    for name, part in spec.items():
        part.validate(seen[name])
    assert {name: part.shape for name, part in env.action_spec().items()} == {
        "priority": (4,),
        "affinity": (4, 2),
    }
    assert spec["real"].name == "real"
