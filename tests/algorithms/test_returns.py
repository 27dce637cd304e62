"""Returns over groups agree with sums written out by hand and with a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms import returns
from jaxsched.types import Rollout

GAMMA = 0.5


def rollout_of(reward, elapsed, terminated=None, truncated=None):
    """One environment; ``[T]`` lists."""
    steps = len(reward)

    def column(values, dtype):
        values = np.zeros(steps) if values is None else values
        return jnp.asarray(np.asarray(values).reshape(steps, -1), dtype)

    return Rollout(
        observation=(),
        mask=(),
        action=(),
        reward=column(reward, jnp.float32),
        terminated=column(terminated, bool),
        truncated=column(truncated, bool),
        elapsed=column(elapsed, jnp.float32),
        next_observation=jnp.arange(100.0, 100 + steps)[:, None],
        next_mask=(),
        extras=(),
    )


# Two groups (steps 0-2 and 3-4), then a group that the rollout cuts (step 5).
TWO_GROUPS = rollout_of([0, 0, 6, 0, 4, 0], [0, 0, 60, 0, 30, 0])
NEXT = jnp.array([10.0, 20, 30, 40, 50, 60])[:, None]


def targets(rollout, lambda_, next_values=NEXT, **discounting):
    discount = returns.step_discounts(rollout, GAMMA, **discounting)
    return np.asarray(returns.lambda_returns(rollout, discount, next_values, lambda_))[:, 0]


def test_discounts_act_at_the_end_of_groups():
    discount = returns.step_discounts(TWO_GROUPS, GAMMA)[:, 0]
    np.testing.assert_allclose(discount, [1, 1, 0.5, 1, 0.5, 1])
    timed = returns.step_discounts(TWO_GROUPS, GAMMA, 60.0)[:, 0]
    np.testing.assert_allclose(timed, [1, 1, np.exp(-1), 1, np.exp(-0.5), 1], rtol=1e-6)


def test_decisions_of_a_group_share_its_reward_and_what_follows():
    discount = returns.step_discounts(TWO_GROUPS, GAMMA)
    groups = returns.group_transitions(TWO_GROUPS, discount)
    np.testing.assert_allclose(groups.reward[:, 0], [6, 6, 6, 4, 4, 0])
    np.testing.assert_array_equal(groups.last[:, 0], [2, 2, 2, 4, 4, 5])
    np.testing.assert_allclose(groups.discount[:, 0], [0.5, 0.5, 0.5, 0.5, 0.5, 1])
    np.testing.assert_array_equal(groups.complete[:, 0], [1, 1, 1, 1, 1, 0])
    following = returns.at_group_end(groups, TWO_GROUPS.next_observation)
    np.testing.assert_array_equal(following[:, 0], [102, 102, 102, 104, 104, 105])


def test_lambda_zero_is_the_target_of_one_group():
    expected = [6 + 15, 6 + 15, 6 + 15, 4 + 25, 4 + 25, 60]
    np.testing.assert_allclose(targets(TWO_GROUPS, 0.0), expected)


def test_lambda_one_is_the_sum_of_all_that_follows():
    second = 4 + 0.5 * 60
    first = 6 + 0.5 * second
    np.testing.assert_allclose(targets(TWO_GROUPS, 1.0), [first] * 3 + [second] * 2 + [60])


def test_lambda_counts_groups_not_steps():
    second = 4 + 0.5 * (0.75 * 50 + 0.25 * 60)
    first = 6 + 0.5 * (0.75 * 30 + 0.25 * second)
    np.testing.assert_allclose(targets(TWO_GROUPS, 0.25), [first] * 3 + [second] * 2 + [60])


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 1.0])
def test_termination_has_no_value_and_truncation_has(lambda_):
    # Both in the middle of a group, and both stop what follows from leaking back.
    reward, elapsed = [1, 2, 50], [0, 0, 60]
    ended = rollout_of(reward, elapsed, terminated=[0, 1, 0])
    np.testing.assert_allclose(targets(ended, lambda_, NEXT[:3])[:2], [3, 2])
    cut = rollout_of(reward, elapsed, truncated=[0, 1, 0])
    np.testing.assert_allclose(targets(cut, lambda_, NEXT[:3])[:2], [3 + 10, 2 + 10])
    # Discounted by time, a cut between two instants costs nothing.
    timed = targets(cut, lambda_, NEXT[:3], horizon_s=60.0)
    np.testing.assert_allclose(timed[:2], [3 + 20, 2 + 20])


def random_rollout(seed, steps=9, batch=6):
    rng = np.random.default_rng(seed)
    ends = rng.choice(3, size=(steps, batch), p=[0.7, 0.15, 0.15])
    elapsed = rng.choice(2, size=(steps, batch)) * rng.uniform(1, 90, (steps, batch))
    reward = rng.normal(size=(steps, batch))
    rollout = rollout_of(reward, elapsed, ends == 1, ends == 2)
    return rollout, jnp.asarray(rng.normal(size=(steps, batch)), jnp.float32)


@pytest.mark.parametrize("lambda_", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("horizon_s", [None, 50.0])
def test_equal_to_a_plain_loop(lambda_, horizon_s):
    rollout, values = random_rollout(3)
    discount = returns.step_discounts(rollout, GAMMA, horizon_s)
    found = np.asarray(returns.lambda_returns(rollout, discount, values, lambda_))
    steps, batch = found.shape
    for b in range(batch):
        later = 0.0
        for t in reversed(range(steps)):
            end, cut = bool(rollout.terminated[t, b]), bool(rollout.truncated[t, b])
            seconds, value = float(rollout.elapsed[t, b]), float(values[t, b])
            closes = end or cut or seconds > 0
            factor = np.exp(-seconds / horizon_s) if horizon_s else (GAMMA if closes else 1.0)
            if t == steps - 1 or cut or end:
                following = 0.0 if end else value
            elif closes:
                following = (1 - lambda_) * value + lambda_ * later
            else:
                following = later
            later = float(rollout.reward[t, b]) + factor * following
            np.testing.assert_allclose(found[t, b], later, rtol=1e-4, atol=1e-5)


def test_lambda_zero_equals_group_transitions():
    rollout, values = random_rollout(5)
    discount = returns.step_discounts(rollout, GAMMA)
    groups = returns.group_transitions(rollout, discount)
    joined = groups.reward + groups.discount * returns.at_group_end(groups, values)
    found = returns.lambda_returns(rollout, discount, values, 0.0)
    np.testing.assert_allclose(found, joined, rtol=1e-5, atol=1e-6)


def test_moving_average_of_group_rewards():
    discount = returns.step_discounts(TWO_GROUPS, GAMMA)
    groups = returns.group_transitions(TWO_GROUPS, discount)
    average = returns.MovingAverage.empty()
    assert float(average.mean()) == 0
    average = returns.average_group_rewards(average, groups, 0.9)
    np.testing.assert_allclose(average.mean(), 5, rtol=1e-6)  # of 6 and 4; the cut group is out
    np.testing.assert_allclose(average.weight, 1 - 0.81, rtol=1e-5)
    single = rollout_of([100.0], [60])
    groups = returns.group_transitions(single, returns.step_discounts(single, GAMMA))
    average = returns.average_group_rewards(average, groups, 0.9)
    expected = (0.9 * 0.19 * 5 + 0.1 * 100) / (0.9 * 0.19 + 0.1)
    np.testing.assert_allclose(average.mean(), expected, rtol=1e-5)
    nothing = jax.tree.map(lambda x: x, groups._replace(complete=jnp.zeros((1, 1), bool)))
    same = returns.average_group_rewards(average, nothing, 0.9)
    np.testing.assert_allclose(same.mean(), expected, rtol=1e-5)


def span_by_hand(rollout, discount, values, return_span_s):
    """The definition of span returns, one reward at a time in double precision."""
    reward, seconds, factors, values = (
        np.asarray(x, np.float64) for x in (rollout.reward, rollout.elapsed, discount, values)
    )
    done = np.asarray(rollout.terminated | rollout.truncated)
    steps, batch = done.shape
    found = np.zeros((steps, batch))
    for b in range(batch):
        for t in range(steps):
            later, factor, u = 0.0, 1.0, t
            while later <= return_span_s:
                found[t, b] += factor * reward[u, b]
                factor *= factors[u, b]
                later += seconds[u, b]
                if done[u, b] or u == steps - 1:
                    found[t, b] += factor * values[u, b] * (later <= return_span_s)
                    break
                u += 1
    return found


@jax.jit
def within_span(rollout, values, return_span_s, horizon_s):
    discount = returns.step_discounts(rollout, GAMMA, horizon_s)
    return returns.span_returns(rollout, discount, values, return_span_s), discount


def random_slots(seed, steps=37, batch=12):
    """Steps that mostly take no time, else some slots of a minute; episodes of several lengths."""
    rng = np.random.default_rng(seed)
    ends = rng.choice(3, size=(steps, batch), p=[0.9, 0.05, 0.05])
    ends[:, 0] = 0
    elapsed = 60 * rng.choice([0, 0, 0, 1, 1, 2, 7], size=(steps, batch))
    rollout = rollout_of(rng.normal(size=(steps, batch)), elapsed, ends == 1, ends == 2)
    return rollout, jnp.asarray(rng.normal(size=(steps, batch)), jnp.float32)


@pytest.mark.parametrize("return_span_s", [0.0, 60.0, 300.0, 1e9, np.inf])
@pytest.mark.parametrize("horizon_s", [100.0, 1e4])
def test_span_returns_are_their_definition(return_span_s, horizon_s):
    rollout, values = random_slots(1)
    found, discount = within_span(rollout, values, return_span_s, horizon_s)
    assert found.dtype == jnp.float32
    expected = span_by_hand(rollout, discount, values, return_span_s)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_windows_by_hand():
    # Rewards at 0, 0, 60, 60, 120 s, the rollout ends at 180 s; gamma per group.
    rollout = rollout_of([1, 2, 4, 8, 16], [0, 60, 0, 60, 60])
    values = jnp.array([0.0, 0, 0, 0, 100])[:, None]
    discount = returns.step_discounts(rollout, GAMMA)

    def found(return_span_s):
        return returns.span_returns(rollout, discount, values, return_span_s)[:, 0]

    np.testing.assert_allclose(found(59.0), [3, 2, 12, 8, 16])
    np.testing.assert_allclose(found(60.0), [3 + 6, 2 + 6, 12 + 8, 8 + 8, 16 + 50])
    np.testing.assert_allclose(found(119.0), [3 + 6, 2 + 6, 12 + 8, 8 + 8, 16 + 50])
    np.testing.assert_allclose(found(120.0), [3 + 6 + 4, 2 + 6 + 4, 12 + 8 + 25, 8 + 8 + 25, 66])


def test_windows_end_with_episodes():
    reward, elapsed, values = [1, 2, 50, 3], [60, 60, 60, 60], jnp.array([[7.0], [10], [20], [30]])
    for cut, kind in ((0, "terminated"), (10, "truncated")):
        rollout = rollout_of(reward, elapsed, **{kind: [0, 1, 0, 0]})
        discount = returns.step_discounts(rollout, GAMMA)
        wide = returns.span_returns(rollout, discount, values, 3600.0)[:, 0]
        np.testing.assert_allclose(
            wide, [1 + (2 + cut / 2) / 2, 2 + cut / 2, 50 + (3 + 15) / 2, 18]
        )
        narrow = returns.span_returns(rollout, discount, values, 60.0)[:, 0]
        np.testing.assert_allclose(narrow, [1 + 2 / 2, 2 + cut / 2, 50 + 3 / 2, 18])


def test_decisions_at_one_instant_share_their_span_return():
    rollout, values = random_slots(2)
    found, _ = within_span(rollout, values, 300.0, 100.0)
    found, reward = np.asarray(found), np.asarray(rollout.reward)
    same = ~np.asarray(returns.group_ends(rollout))[:-1]
    assert same.sum() > 100
    np.testing.assert_allclose(
        found[:-1][same], (reward[:-1] + found[1:])[same], rtol=1e-5, atol=1e-5
    )


def test_a_window_beyond_the_rollout_gives_the_returns_of_lambda_one():
    rollout, values = random_slots(3)
    found, discount = within_span(rollout, values, np.inf, 100.0)
    full = returns.lambda_returns(rollout, discount, values, 1.0)
    np.testing.assert_allclose(found, full, rtol=1e-5, atol=1e-5)


def test_large_rewards_outside_the_window_leave_no_trace():
    reward = np.full(64, 0.1)
    reward[40:] = 1e7
    rollout = rollout_of(reward, np.full(64, 60.0))
    found, _ = within_span(rollout, jnp.zeros((64, 1)), 300.0, 1e4)
    expected = 0.1 * np.sum(np.exp(-60 * np.arange(6) / 1e4))
    np.testing.assert_allclose(found[:35, 0], expected, rtol=1e-5)
