"""The other projects' own checkers, on a tiny instance of every system."""

import unittest
import warnings
from functools import cache

import dm_env.test_utils
import pytest
from absl.testing import absltest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

from jaxsched.adapters.dm_env import JaxschedDmEnv
from jaxsched.adapters.gymnasium import JaxschedEnv
from jaxsched.adapters.pettingzoo import JaxschedParallelEnv
from jaxsched.systems import registry
from tests.instances import INSTANCES

CYCLES = 60  # steps of PettingZoo's checks, more than an episode has

SYSTEMS = [name for name in registry.names() if name in INSTANCES]


@cache
def instance(name: str):
    return INSTANCES[name]["paper"]()


@pytest.mark.parametrize("name", SYSTEMS)
def test_gymnasium(name):
    case = instance(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mask in ("info", "observation"):
            check_env(JaxschedEnv(case.env, case.params, mask=mask), skip_render_check=True)


@pytest.mark.parametrize("name", SYSTEMS)
def test_dm_env(name):
    case = instance(name)

    class Check(dm_env.test_utils.EnvironmentTestMixin, absltest.TestCase):
        def make_object_under_test(self):
            return JaxschedDmEnv(case.env, case.params, time_limit=7)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Check).run(result)
    assert result.testsRun == 4
    assert [trace for _, trace in result.failures + result.errors] == []


def test_pettingzoo():
    case = instance("das")

    def make() -> JaxschedParallelEnv:
        return JaxschedParallelEnv(case.env, case.params)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(make(), CYCLES)
        parallel_seed_test(make, CYCLES)
