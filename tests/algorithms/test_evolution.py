"""Members are told apart by what they did on the same episodes, and the best ones are followed."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.evolution import EvolutionConfig, evolution, fitness, search_of
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.networks.mlp import MLP
from jaxsched.types import Rollout
from jaxsched.wrappers.fixed_length import FixedLength
from tests import probes
from tests.probes import Grouped

ENV = FixedLength(Grouped(), 8)
PAY = probes.grouped_pay()
SIZES = EvolutionConfig(members=16, episodes=2)
LOOP = training.LoopConfig(num_envs=32, rollout_length=8, num_updates=25, num_random_streams=2)


def zeros(key, specs):
    return {"weights": jnp.zeros((3, 3), jnp.float32)}


def decide(params, observation, mask):
    return jnp.argmax(jnp.where(mask, observation @ params["weights"], -jnp.inf))


@cache
def learner():
    return evolution(zeros, decide, SIZES)


def rollout_of(returns, complete):
    reward = jnp.asarray(returns, jnp.float32)[None]
    return Rollout(
        (), (), (), reward, jnp.asarray(complete)[None], jnp.zeros_like(reward, bool), *[()] * 4
    )


def test_fitness_is_relative_to_the_same_episode():
    easy, hard = [-1.0, -3.0], [-100.0, -100.0]
    found = fitness(jnp.array([easy, hard]).T)
    np.testing.assert_allclose(found, [0.25, -0.25], rtol=1e-6)


@pytest.mark.parametrize("relative", [0.0, 0.5, 0.7])
def test_large_returns_outweigh_small_ones_where_less_relative(relative):
    small, large = [-1.0, 0.0], [-50.0, -150.0]
    found = fitness(jnp.array([small, large]).T, relative)
    by_hand = (-0.5 / 0.5**relative + 50.0 / 100.0**relative) / 2
    np.testing.assert_allclose(found, [by_hand, -by_hand], rtol=1e-5)


def test_members_come_in_mirrored_pairs():
    state = learner().init(jax.random.key(0), ENV.specs(PAY))
    np.testing.assert_allclose(state.members[0::2], -state.members[1::2], rtol=1e-6)
    assert float(jnp.std(state.members)) == pytest.approx(SIZES.initial_std, rel=0.2)


def test_follows_the_elites_only():
    state = learner().init(jax.random.key(0), ENV.specs(PAY))
    best = np.array([3, 8, 9, 14])
    returns = np.full((16, 2), -10.0)
    returns[best] = -1.0
    after, metrics = probes.update(
        learner(), state, rollout_of(returns.reshape(-1), [True] * 32), jax.random.key(1)
    )
    moved = np.asarray(after.mean["weights"]).reshape(-1)
    elites = np.asarray(state.members)[best]
    weight = np.log(4.5) - np.log(1 + np.arange(4))
    expected = 0.5 * (weight / weight.sum()) @ elites
    np.testing.assert_allclose(moved, expected, rtol=1e-5)
    assert metrics["incomplete"] == 0


def test_the_noise_has_a_floor():
    floored = evolution(zeros, decide, replace(SIZES, min_std=0.45))
    state = floored.init(jax.random.key(0), ENV.specs(PAY))
    state = state._replace(members=jnp.zeros_like(state.members))  # no spread among the elites
    after, _ = probes.update(
        floored, state, rollout_of(np.zeros(32), [True] * 32), jax.random.key(1)
    )
    np.testing.assert_allclose(after.std, 0.45)  # half of 0.5 would be less


def test_members_that_did_not_finish_are_never_elite():
    state = learner().init(jax.random.key(0), ENV.specs(PAY))
    returns = np.full((16, 2), -10.0)
    returns[5] = -1.0  # best, but cut
    complete = np.ones((16, 2), bool)
    complete[5, 0] = False
    rollout = rollout_of(returns.reshape(-1), complete.reshape(-1))
    after, metrics = probes.update(learner(), state, rollout, jax.random.key(1))
    best = rollout_of(returns.reshape(-1), [True] * 32)
    followed, _ = probes.update(learner(), state, best, jax.random.key(1))
    assert float(metrics["incomplete"]) == 1 / 16
    assert not np.allclose(after.mean["weights"], followed.mean["weights"])


def test_learns_the_better_action():
    carry = training.init(ENV, learner(), LOOP, jax.random.key(0), PAY)
    carry, metrics = training.chunk(ENV, learner(), LOOP, carry, PAY, num_updates=25)
    mean = learner().policy_params(carry.learner_state)
    for state in range(3):
        observation = jax.nn.one_hot(state, 3)
        assert int(decide(mean, observation, jnp.array([True, True, False]))) == 1
    assert float(metrics["mean_return"][-1]) > float(metrics["mean_return"][0])
    assert float(metrics["std"][-1]) < SIZES.initial_std


GRADIENT = replace(SIZES, follow="gradient", initial_std=0.2, learning_rate=0.1)


def test_the_gradient_is_what_ranks_tell():
    ascending = evolution(zeros, decide, GRADIENT)
    state = ascending.init(jax.random.key(0), ENV.specs(PAY))
    returns = np.arange(16)[:, None] - np.array([[20.0, 40.0]])
    returns[3] = 5  # the best, but cut
    complete = np.ones((16, 2), bool)
    complete[3, 1] = False
    rollout = rollout_of(returns.reshape(-1), complete.reshape(-1))
    after, metrics = probes.update(ascending, state, rollout, jax.random.key(1))
    rank = np.array([1, 2, 3, 0, *range(4, 16)])
    gradient = (rank / 15 - 0.5) @ np.asarray(state.members) / 0.2 / 16
    # The first step of Adam is the sign of the gradient.
    moved = np.asarray(after.mean["weights"]).reshape(-1)
    np.testing.assert_allclose(moved, 0.1 * np.sign(gradient), rtol=1e-3)
    np.testing.assert_array_equal(after.std, state.std)
    falling = replace(GRADIENT, final_learning_rate=0.02, total_updates=4)
    ascending = evolution(zeros, decide, falling)
    state = ascending.init(jax.random.key(0), ENV.specs(PAY))._replace(updates=jnp.int32(3))
    after, _ = probes.update(ascending, state, rollout, jax.random.key(1))
    moved = np.asarray(after.mean["weights"]).reshape(-1)
    np.testing.assert_allclose(moved, 0.04 * np.sign(gradient), rtol=1e-3)
    assert float(metrics["incomplete"]) == 1 / 16


def test_the_gradient_leads_to_the_better_action():
    ascending = evolution(zeros, decide, GRADIENT)
    carry = training.init(ENV, ascending, LOOP, jax.random.key(0), PAY)
    carry, _ = training.chunk(ENV, ascending, LOOP, carry, PAY, num_updates=25)
    mean = ascending.policy_params(carry.learner_state)
    for state in range(3):
        observation = jax.nn.one_hot(state, 3)
        assert int(decide(mean, observation, jnp.array([True, True, False]))) == 1


def test_what_plays_may_be_an_average():
    averaging = evolution(zeros, decide, replace(GRADIENT, averaging=0.75))
    state = averaging.init(jax.random.key(0), ENV.specs(PAY))
    rollout = rollout_of(np.arange(32.0), [True] * 32)
    first, _ = probes.update(averaging, state, rollout, jax.random.key(1))
    second, _ = probes.update(averaging, first, rollout, jax.random.key(2))
    mean = [np.asarray(s.mean["weights"]) for s in (first, second)]
    expected = 0.75 * (0.25 * mean[0]) + 0.25 * mean[1]
    np.testing.assert_allclose(averaging.policy_params(second)["weights"], expected, rtol=1e-5)


@pytest.mark.parametrize("follow", ["elites", "gradient"])
def test_layers_that_are_not_searched_stay(follow):
    sizes = replace(SIZES, follow=follow, layers=("head",))
    searching = search_of(MLP(3, (4,)), sizes)
    state = searching.init(jax.random.key(0), ENV.specs(PAY))
    rollout = rollout_of(np.arange(32.0), [True] * 32)
    after, _ = probes.update(searching, state, rollout, jax.random.key(1))
    before, mean = state.mean["params"], after.mean["params"]
    assert set(before) == {"hidden_0", "head"}
    for name in before:
        for part in before[name]:
            moved = not np.array_equal(before[name][part], mean[name][part])
            assert moved == (name == "head")
    assert np.isfinite(after.members).all()
    assert float((after.std > 0).mean()) == float((state.std > 0).mean()) < 1


def test_search_of_a_network_learns_the_better_action():
    searching = search_of(MLP(3, (4,)), GRADIENT)
    carry = training.init(ENV, searching, LOOP, jax.random.key(0), PAY)
    carry, _ = training.chunk(ENV, searching, LOOP, carry, PAY, num_updates=25)
    mask = jnp.broadcast_to(jnp.array([True, True, False]), (3, 3))
    action, _ = searching.act(carry.learner_state, jnp.eye(3), mask, jax.random.key(0), greedy=True)
    assert action.tolist() == [1, 1, 1]


def test_greedy_is_the_mean():
    state = learner().init(jax.random.key(0), ENV.specs(PAY))
    state = state._replace(averaged={"weights": jnp.eye(3)})
    observation, mask = jnp.eye(3), jnp.ones((3, 3), bool)
    action, _ = learner().act(state, observation, mask, jax.random.key(0), greedy=True)
    np.testing.assert_array_equal(action, [0, 1, 2])


def test_refuses_what_does_not_fit():
    with pytest.raises(JaxschedError, match="members is 5"):
        EvolutionConfig(members=5)
    for name, value, words in (
        ("initial_std", 0.0, "accepted: a number above 0"),
        ("learning_rate", -1.0, "accepted: a number above 0"),
        ("averaging", 1.0, "accepted: a number from 0 below 1"),
        ("relative", 1.5, "accepted: a number from 0 to 1"),
    ):
        with pytest.raises(JaxschedError, match=f"EvolutionConfig.{name} is {value}; {words}"):
            EvolutionConfig(**{name: value})
    with pytest.raises(JaxschedError, match="elite_share"):
        EvolutionConfig(members=4, elite_share=0.25)
    with pytest.raises(JaxschedError, match="num_random_streams is 3"):
        training.LoopConfig(num_envs=32, rollout_length=8, num_updates=1, num_random_streams=3)
    with pytest.raises(JaxschedError, match="num_envs is 4; .* equal to 32 .16 members x 2 episo"):
        loop = training.LoopConfig(num_envs=4, rollout_length=8, num_updates=1)
        training.init(ENV, learner(), loop, jax.random.key(0), PAY)
    with pytest.raises(JaxschedError, match="num_random_streams is 32; .* equal to 2 .16 mem"):
        loop = training.LoopConfig(num_envs=32, rollout_length=8, num_updates=1)
        training.init(ENV, learner(), loop, jax.random.key(0), PAY)
    searching = search_of(MLP(3, (4,)), replace(SIZES, layers=("tail",)))
    with pytest.raises(JaxschedError, match="no layer 'tail'; known are head, hidden_0"):
        searching.init(jax.random.key(0), ENV.specs(PAY))


@pytest.mark.parametrize("settings", [SIZES, GRADIENT])
def test_types_stay_with_64_bit_on(settings):
    """What is carried from update to update is of the same types before and after."""
    with jax.enable_x64(True):
        searching = evolution(zeros, decide, settings)
        state = searching.init(jax.random.key(0), ENV.specs(PAY))
        rollout = rollout_of(np.arange(32.0), [True] * 32)
        after, _ = jax.eval_shape(searching.update, state, rollout, jax.random.key(1))
        before = jax.eval_shape(lambda: state)
        assert jax.tree.map(lambda x: x.dtype, after) == jax.tree.map(lambda x: x.dtype, before)
