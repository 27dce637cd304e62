"""Paired evaluation on processes whose returns are known."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.policies import Policy, greedy_scores, no_memory, one_of, uniform_legal
from tests.probes import NUM_ACTIONS, Probe, process

ENV = Probe()
FIRST = (0, 1, 2, 0)  # episode -> where it starts; 3, 2, 1 and 3 steps long
# Reward of action a in state s: 10 ** s * (a + 1), so a return tells which actions were taken.
PARAMS = process(reward=[[1, 2, 3], [10, 20, 30], [100, 200, 300]], first=FIRST)


def init(params):
    del params
    return {"rewards": jnp.zeros(3), "steps": jnp.int32(0)}


def update(records, timestep, playing):
    """Rewards in order, while the episode lasts."""
    rewards = records["rewards"].at[records["steps"]].set(timestep.reward, mode="drop")
    return {
        "rewards": jnp.where(playing, rewards, records["rewards"]),
        "steps": records["steps"] + playing,
    }


RECORDER = Recorder(init, update)
TIMED = PARAMS._replace(elapsed_s=jnp.array([1.0, 1.0, 1.0, 0.0]))


def constant(action):
    def act(weights, memory, view, key):
        return jnp.int32(action), memory

    return Policy(f"always {action}", no_memory, act)


def count(weights, memory, view, key):
    """Actions 0, 1, 2, ... by how often it was asked in this episode."""
    return memory % NUM_ACTIONS, memory + 1


COUNTING = Policy("counting", lambda params: jnp.int32(0), count)
ALWAYS = [constant(action) for action in range(NUM_ACTIONS)]
RANDOM = uniform_legal()


def evaluate(policy, episodes, key=0, params=TIMED, weights=(), **options):
    numbers = jnp.asarray(episodes, jnp.int32)
    outcome = run_episodes(
        ENV, policy, RECORDER, params, numbers, jax.random.key(key), weights, **options
    )
    return jax.tree.map(np.asarray, outcome)


def test_returns_lengths_and_records():
    outcome = evaluate(ALWAYS[1], range(4))
    np.testing.assert_array_equal(outcome.episode_return, [222, 220, 200, 222])
    np.testing.assert_array_equal(outcome.length, [3, 2, 1, 3])
    assert outcome.finished.all()
    np.testing.assert_array_equal(
        outcome.records["rewards"], [[2, 20, 200], [20, 200, 0], [200, 0, 0], [2, 20, 200]]
    )
    np.testing.assert_array_equal(outcome.records["steps"], outcome.length)


@pytest.mark.parametrize("policy", [ALWAYS[1], COUNTING], ids=lambda policy: policy.name)
def test_results_follow_their_episodes(policy):
    straight = evaluate(policy, range(4))
    order = np.array([2, 0, 3, 1])
    shuffled = evaluate(policy, order)
    expected = jax.tree.map(lambda leaf: leaf[order], straight)
    jax.tree.map(np.testing.assert_array_equal, shuffled, expected)


def test_an_episode_may_be_asked_for_twice_or_alone():
    np.testing.assert_array_equal(evaluate(ALWAYS[0], [1, 1, 2]).episode_return, [110, 110, 100])
    np.testing.assert_array_equal(evaluate(ALWAYS[0], [2]).episode_return, [100])


def test_policies_meet_the_same_episodes():
    for key in range(3):
        returns = [evaluate(policy, range(4), key).episode_return for policy in ALWAYS]
        np.testing.assert_array_equal(returns[1], 2 * returns[0])
        np.testing.assert_array_equal(returns[2], 3 * returns[0])


def test_memory_belongs_to_an_episode():
    """It starts anew in each and counts that episode's decisions only."""
    outcome = evaluate(COUNTING, range(4))
    np.testing.assert_array_equal(outcome.episode_return, [321, 210, 100, 321])


@pytest.mark.parametrize(("bound", "finished"), [(1, [0, 0, 1, 0]), (2, [0, 1, 1, 0])])
def test_step_bound(bound, finished):
    outcome = evaluate(ALWAYS[0], range(4), max_steps=bound)
    np.testing.assert_array_equal(outcome.finished, np.array(finished, bool))
    np.testing.assert_array_equal(outcome.length, np.minimum([3, 2, 1, 3], bound))
    capped = [[1, 11][bound - 1], [10, 110][bound - 1], 100, [1, 11][bound - 1]]
    np.testing.assert_array_equal(outcome.episode_return, capped)


def test_the_default_bound_is_the_environments():
    """A process that never ends stops there and is reported as unfinished."""
    endless = TIMED._replace(following=jnp.zeros(4, jnp.int32))
    outcome = evaluate(ALWAYS[0], [0, 0], params=endless)
    assert not outcome.finished.any()
    np.testing.assert_array_equal(outcome.length, [3, 3])
    np.testing.assert_array_equal(outcome.episode_return, [3, 3])


def test_truncation_ends_an_episode_too():
    outcome = evaluate(ALWAYS[0], range(4), params=TIMED._replace(truncates=jnp.bool_(True)))
    assert outcome.finished.all()
    np.testing.assert_array_equal(outcome.length, [3, 2, 1, 3])


def test_the_key_decides_random_policies():
    many = [0] * 200
    one, same, other = (evaluate(RANDOM, many, key).episode_return for key in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert len(Counter(one.tolist())) > 20  # of 27: copies of an episode draw for themselves
    assert set(np.unique(one % 10)) == {1, 2, 3}


def test_random_policy_is_uniform_over_legal_actions():
    mask = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 1]], bool)
    legal = TIMED._replace(mask=TIMED.mask.at[:3].set(mask))
    returns = evaluate(RANDOM, [0] * 3000, params=legal).episode_return.astype(int)
    digits = [Counter((returns // 10**state % 10).tolist()) for state in range(3)]
    assert set(digits[0]) == {2, 3}
    assert set(digits[1]) == {1}
    assert set(digits[2]) == {1, 2, 3}
    assert all(abs(digits[0][digit] / 3000 - 1 / 2) < 0.05 for digit in (2, 3))
    assert all(abs(digits[2][digit] / 3000 - 1 / 3) < 0.05 for digit in (1, 2, 3))


def test_greedy_policy_takes_the_best_legal_action_of_its_weights():
    policy = greedy_scores("linear", lambda weights, observation: observation @ weights)
    weights = jnp.array([[0, 5, 1], [9, 0, 1], [1, 1, 1], [0, 0, 0]], jnp.float32)
    mask = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 1]], bool)
    legal = TIMED._replace(mask=TIMED.mask.at[:3].set(mask))
    outcome = evaluate(policy, [0, 1, 2], params=legal, weights=weights)
    np.testing.assert_array_equal(outcome.episode_return, [232, 230, 200])
    other = evaluate(policy, [0], params=legal, weights=weights[:, ::-1])
    np.testing.assert_array_equal(other.episode_return, [2 + 30 + 200])


def test_new_episodes_weights_and_keys_compile_nothing():
    policy = greedy_scores("linear once", lambda weights, observation: observation @ weights)
    before = run_episodes._cache_size()
    for episodes in ([0, 1], [2, 3]):
        for seed in range(2):
            evaluate(policy, episodes, seed, weights=jnp.full((4, 3), float(seed)))
    assert run_episodes._cache_size() == before + 1


def test_policies_as_one_play_as_they_do_alone():
    policies = (COUNTING, *ALWAYS, RANDOM)
    before = run_episodes._cache_size()
    for index, policy in enumerate(policies):
        together = evaluate(one_of(policies), range(4), key=3, weights=jnp.int32(index))
        assert run_episodes._cache_size() <= before + 1 + index  # one for all, one for each alone
        jax.tree.map(np.testing.assert_array_equal, together, evaluate(policy, range(4), key=3))
    assert one_of(policies) is one_of(policies)
    assert not one_of(policies).privileged
    assert one_of((RANDOM, RANDOM._replace(privileged=True))).privileged
