"""Sizes of the loop that a learner cannot learn from are refused before anything is compiled."""

import jax
import pytest

from jaxsched.core import training
from jaxsched.core.learner import Learner, Needs, Size
from jaxsched.errors import JaxschedError
from jaxsched.types import DiscreteSpec
from tests import probes
from tests.probes import Probe


def untraceable(*_, **__):
    raise AssertionError("traced")


def learner(*sizes, whole_episodes=False):
    needs = Needs(whole_episodes, sizes)
    return Learner(untraceable, untraceable, untraceable, untraceable, needs)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (Size("num_envs", "equal to", 5, "why"), r"num_envs is 4; .* equal to 5 \(why\)"),
        (Size("rollout_length", "a multiple of", 2, "why"), "rollout_length is 3; .* of 2"),
        (Size("decisions", "at most", 11, "why"), r"num_envs \* rollout_length is 12; .* at most"),
    ],
)
def test_sizes(size, words):
    loop = training.LoopConfig(num_envs=4, rollout_length=3, num_updates=1)
    with pytest.raises(JaxschedError, match=words):
        training.init(Probe(), learner(size), loop, jax.random.key(0), probes.ending())


def test_whole_episodes():
    loop = training.LoopConfig(num_envs=4, rollout_length=2, num_updates=1)
    words = "rollout_length is 2; the learner needs whole episodes, whose length here is 3"
    with pytest.raises(JaxschedError, match=words):
        training.init(
            Probe(), learner(whole_episodes=True), loop, jax.random.key(0), probes.ending()
        )


def test_whole_episodes_begin_at_their_beginning():
    loop = training.LoopConfig(num_envs=4, rollout_length=3, num_updates=1, head_start=6)
    with pytest.raises(JaxschedError, match="head_start is 6; the learner needs whole episodes"):
        training.init(
            Probe(), learner(whole_episodes=True), loop, jax.random.key(0), probes.ending()
        )


@pytest.mark.parametrize(
    ("rule", "fitting"),
    [("equal to", [6]), ("a multiple of", [6, 12]), ("at most", [1, 5, 6])],
)
def test_rules(rule, fitting):
    size = Size("num_envs", rule, 6, "")
    assert [number for number in (1, 5, 6, 7, 12) if size.holds(number)] == fitting


def test_bounds_of_discrete_actions():
    spec = DiscreteSpec(5)
    assert (spec.minimum, spec.maximum) == (0, 4)
