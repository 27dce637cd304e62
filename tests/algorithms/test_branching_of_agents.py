"""Branching for actions of several agents: the better of rules and draws is followed."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.agents import gaussian_agents
from jaxsched.algorithms.branching import branching_of_agents
from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.regression import AgentLoss
from jaxsched.core import training
from jaxsched.core.policies import Policy, no_memory
from jaxsched.errors import JaxschedError
from tests import probes
from tests.probes import Always, Dial, Hands, dials

ENV = Dial()
GOAL = np.array([0.9, -0.6], np.float32)
E = np.exp(-1.0)
BEST = GOAL / 3  # of each dial
AGENTS = gaussian_agents(Hands())
LOSSES = (AgentLoss("left", "squared"), AgentLoss("right", "squared"))
UPDATES = 150
CONFIG = BranchingConfig(
    total_updates=UPDATES,
    capacity=64,
    batch_size=32,
    learning_rate=0.02,
    final_learning_rate=0.001,
    temperature=0.1,
)
LOOP = training.LoopConfig(num_envs=16, rollout_length=2, num_updates=UPDATES)


def turned_to(left, right):
    """A policy that always turns the dials so."""
    action = {"left": jnp.asarray(left), "right": jnp.asarray(right)}
    return Policy("rule", no_memory, lambda weights, memory, view, key: (action, memory))


RULE = turned_to(BEST, np.stack([BEST, BEST], axis=-1))
BAD = turned_to(BEST + 3, np.zeros((2, 2), np.float32))


@cache
def learner_of(loss="squared", **given):
    losses = (AgentLoss("left", loss), AgentLoss("right", loss))
    return branching_of_agents(AGENTS, CONFIG, losses, **given)


def trained(learner, updates=UPDATES, **changes):
    """State after some updates, and the metrics of each."""
    params = dials(goal=tuple(GOAL), length=4)
    loop = replace(LOOP, **changes)
    carry = training.init(ENV, learner, loop, jax.random.key(0), params)
    return probes.updated(ENV, learner, loop, carry, params, updates)


def missed(learner, state):
    """How far the greedy dials of the first step are from the best ones, at most."""
    seen = jax.nn.one_hot(jnp.array([0]), 4)
    action, _ = learner.act(state, seen, jnp.ones((1, 2), bool), jax.random.key(0), greedy=True)
    right = np.abs(np.asarray(action["right"][0]) - BEST[:, None])
    return max(np.abs(np.asarray(action["left"][0]) - BEST).max(), right.max())


@pytest.mark.parametrize(
    ("loss", "given"),
    [("squared", {"rivals": (RULE, BAD)}), ("squared", {"draws": 7}), ("nll", {"draws": 7})],
    ids=("rules", "draws", "log density"),
)
def test_it_turns_the_dials_as_the_best_candidates_do(loss, given):
    learner = learner_of(loss, **given)
    before, _ = trained(learner, 1)
    after, metrics = trained(learner)
    assert missed(learner, before) > 0.3
    assert missed(learner, after) < 0.1
    assert float(metrics["gain"][-1]) < float(metrics["gain"][0])


def test_candidates_are_the_own_the_rules_and_the_drawn_actions():
    learner = learner_of(draws=2, rivals=(RULE,))
    state, _ = trained(learner, 1)
    left = np.asarray(state.kept.action["left"])[:16]
    assert left.shape == (16, 4, 2) and state.kept.action["right"].shape == (64, 4, 2, 2)
    np.testing.assert_allclose(left[:, 1], np.broadcast_to(BEST, (16, 2)))
    assert np.abs(left[:, 2] - left[:, 3]).min() > 0  # two draws of the same agents
    own = np.asarray(state.kept.value)[:16]
    assert np.all(own[:, 1] >= own.max(axis=1) - 1e-5)  # the rule knows the goal


def test_the_policy_that_plays_on_may_be_given():
    """One that turns all dials to their best earns nothing less than the least."""
    plain, given = learner_of(rivals=(BAD,)), learner_of(rivals=(BAD,), greedy=RULE)
    values = [np.asarray(trained(each, 1)[0].kept.value)[:16] for each in (plain, given)]
    assert np.all(values[1][:, 0] >= values[0][:, 0])
    assert values[1][:, 0].max() == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("truncates", "changes", "worth"),
    [
        (False, {"max_steps": 1}, 1 + 3 * E),
        (False, {"horizon_s": 5.0}, 1 + 3 * E),
        (False, {"max_steps": 2}, 1 + E),
        (True, {"max_steps": 2}, 1 + E + 3 * E**2),
        (True, {}, 1 + E + 3 * E**2),
    ],
)
def test_what_is_beyond_a_play_is_discounted_and_ends_with_the_episode(truncates, changes, worth):
    """Two steps of 10 s before the end, of reward 1 each; a cut episode would have gone on."""
    config = replace(CONFIG, critic=True, discount_s=10.0, **changes)
    learner = branching_of_agents(AGENTS, config, LOSSES, draws=1, value=Always(3.0))
    params = dials(base=1.0, slope=0.0, elapsed_s=10.0, length=4)
    params = params._replace(truncates=jnp.bool_(truncates))
    carry = training.init(ENV, learner, LOOP, jax.random.key(0), params)
    carry, _ = training.chunk(ENV, learner, LOOP, carry, params, num_updates=1)
    values = np.asarray(carry.learner_state.kept.value)[:16]
    np.testing.assert_allclose(values, worth, rtol=1e-5)


def test_without_candidates_there_is_nothing_to_learn():
    with pytest.raises(JaxschedError, match="0 draws and 0 rivals; accepted: one or more"):
        learner_of()
