"""The example of a new learner: known values, a policy that it must learn, truncation."""

import importlib.util
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core import training
from jaxsched.types import DiscreteSpec, Specs
from tests import probes
from tests.example_system import EXAMPLES
from tests.probes import NUM_ACTIONS, Probe

CONFIG = {"learning_rate": 0.02, "discount": 0.5, "entropy_weight": 0.0, "hidden": 16}


@pytest.fixture(scope="module")
def example():
    """The example's module."""
    spec = importlib.util.spec_from_file_location("new_learner", EXAMPLES / "new_learner.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["new_learner"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["new_learner"]


@pytest.fixture(scope="module")
def learner(example):
    """Of the probes; one object, so that the loop is compiled once."""
    specs = Specs(None, DiscreteSpec(NUM_ACTIONS))
    return example.reinforce(specs, example.ReinforceConfig(**CONFIG))


def trained(learner, process, updates=60):
    """The learner's state after some updates on a process of one to three steps."""
    loop = training.LoopConfig(num_envs=32, rollout_length=6, num_updates=updates)
    carry = training.init(Probe(), learner, loop, jax.random.key(0), process)
    carry, _ = training.chunk(Probe(), learner, loop, carry, process, num_updates=updates)
    return carry.learner_state


def values(example, state):
    """Of the four states."""
    network = example.PolicyAndValue(NUM_ACTIONS, CONFIG["hidden"])
    return np.asarray(network.apply(state.params, jnp.asarray(probes.STEPS))[1])


def test_values_of_known_processes(example, learner):
    found = values(example, trained(learner, probes.process(reward=1.0)))
    np.testing.assert_allclose(found[:3], [1.75, 1.5, 1.0], atol=0.1)


def test_a_cut_is_bootstrapped(example, learner):
    """One state that always pays 1 and is only ever cut: 1 / (1 - 0.5)."""
    cut = probes.process(observation=probes.CONSTANT, reward=1.0, first=(1, 1), truncates=True)
    found = values(example, trained(learner, cut, updates=120))
    np.testing.assert_allclose(found[0], 2.0, atol=0.15)


def test_it_learns_which_action_pays_and_keeps_to_the_mask(learner):
    reward = np.zeros((3, NUM_ACTIONS), np.float32)
    reward[:, 0], reward[:, 2] = 2.0, 1.0
    mask = np.ones((3, NUM_ACTIONS), bool)
    mask[:, 0] = False  # what pays most is forbidden
    process = probes.process(reward=reward, mask=mask)
    state = trained(learner, process)
    legal = jnp.asarray(np.vstack([mask, np.ones((1, NUM_ACTIONS), bool)]))
    keys = jax.random.split(jax.random.key(1), 50)
    greedy, _ = learner.act(state, jnp.asarray(probes.STEPS), legal, keys[0], True)
    assert np.asarray(greedy)[:3].tolist() == [2, 2, 2]
    for key in keys:
        drawn, _ = learner.act(state, jnp.asarray(probes.STEPS), legal, key, False)
        assert np.all(np.asarray(drawn)[:3] != 0)
