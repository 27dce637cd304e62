"""Episodes of 100,000 jobs and more, whose sums of times are taken in three parts, not two."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.environment import start, step_and_reset
from jaxsched.envs.das import rules
from jaxsched.envs.das.rules import SUBMIT, waiting_of_arrivals
from jaxsched.envs.das.rules.dynamics import sums_of
from jaxsched.errors import JaxschedError
from tests.envs.das.tables import ENV, params_of, random_table

MANY, MOST = 100_000, 2**20 - 1
LATEST = 2**30 - 1  # s, of submissions
EXACT = 2**46
"""Below it a sum is rounded once."""
SHOWN = jax.jit(jax.vmap(waiting_of_arrivals, (None, None, 0, 0, 0)))


def long_table(jobs, *, latest=None, duration=20):
    """Small jobs in bursts until about ``latest`` seconds, short enough for the horizon."""
    table = random_table(3, jobs)
    submit = table["submit_time"]
    if latest is not None:
        submit = submit * (latest / submit[-1])
    columns = dict(table.columns) | {
        "submit_time": submit.astype(np.int64),
        "duration": np.minimum(table["duration"], duration),
    }
    return replace(table, columns=columns)


@pytest.mark.parametrize(("jobs", "latest"), [(MANY, LATEST), (MANY, 3600), (MOST, LATEST)])
def test_waiting_of_arrivals(jobs, latest):
    """Against int64, of few and of all jobs, up to the end of time."""
    params = ENV.params([long_table(jobs, latest=latest, duration=300 if jobs == MANY else 5)])
    submit = np.asarray(params.rows)[:-1, SUBMIT].astype(np.int64)
    sums, rng = np.concatenate([[0], np.cumsum(submit)]), np.random.default_rng(0)
    first = np.concatenate([[0, 0, jobs], rng.integers(0, jobs, 300)])
    count = np.concatenate([[0, jobs, 0], rng.integers(0, 2 ** rng.integers(1, 21, 300))])
    end = np.minimum(first + count, jobs)
    least = submit[np.maximum(end - 1, 0)]
    time = rng.integers(least, 2**31 - 1)
    time[1] = 2**31 - 2  # of all jobs, as late as can be
    exact = (end - first) * time - (sums[end] - sums[first])
    found = SHOWN(params, jnp.int32(0), *(jnp.asarray(x, jnp.int32) for x in (first, end, time)))
    np.testing.assert_allclose(found, exact, rtol=2.0**-23)
    once = exact < EXACT
    assert once.sum() > 50
    np.testing.assert_array_equal(np.asarray(found)[once], exact[once].astype(np.float32))


def walk(env, params):
    """Time steps of three copies under random actions."""

    def step(current, key):
        def one(key, current):
            spec = env.action_spec(params)
            action = jax.tree.map(lambda leaf: jax.random.normal(key, leaf.shape), spec)
            return step_and_reset(env, key, current, action, params)

        return jax.vmap(one)(jax.random.split(key, 3), current)

    def play(keys):
        first = jax.vmap(lambda key: start(env, key, params))(keys[:3])
        return jax.lax.scan(step, first, keys)[1]

    return jax.tree.map(np.asarray, jax.jit(play)(jax.random.split(jax.random.key(1), 60)))


@pytest.mark.parametrize("options", [{}, {"sampling": "random"}], ids=["first", "random"])
def test_both_forms_play_the_same_episodes(options, monkeypatch):
    env = replace(ENV, **options)
    usual = walk(env, params_of(env, 2))
    monkeypatch.setattr(rules, "MOST_IN_TWO", 1)
    params = params_of(env, 2)
    assert params.submitted_sum.shape[-1] == 3
    long = walk(env, params)
    assert np.any(usual.reward != 0)
    jax.tree.map(np.testing.assert_array_equal, long, usual)


def test_sums_of_drawn_submissions():
    """``resample_future`` takes them as the host does."""
    params = ENV.params([long_table(MANY, latest=LATEST, duration=300)])
    submit = jnp.append(params.rows[:-1, SUBMIT], 0)
    np.testing.assert_array_equal(
        jax.jit(sums_of, static_argnums=1)(submit, 3), params.submitted_sum
    )


def test_a_hundred_thousand_jobs():
    """As long as the first 300 are not all submitted the rest makes no difference."""
    table = long_table(MANY)
    few, many = (ENV.params([table.take(np.arange(jobs))]) for jobs in (300, MANY))
    assert (few.submitted_sum.shape[-1], many.submitted_sum.shape[-1]) == (2, 3)
    policy = np.random.default_rng(2)
    states = [
        jax.jit(ENV.reset)(jax.random.key(0), params, jnp.int32(0))[0] for params in (few, many)
    ]
    step = jax.jit(ENV.step)
    for _ in range(60):
        action = jax.tree.map(lambda leaf: policy.normal(size=leaf.shape), ENV.action_spec(few))
        one, other = (
            step(jax.random.key(0), state, action, params)
            for state, params in zip(states, (few, many), strict=True)
        )
        states = [one[0], other[0]]
        assert int(one[0].submitted) == int(other[0].submitted) < 300
        np.testing.assert_allclose(one[1].reward * 300, other[1].reward * MANY, rtol=1e-6)
        np.testing.assert_array_equal(one[0].window.job, other[0].window.job)
    assert int(one[0].finished) > 20


def test_longer_episodes_are_refused(monkeypatch):
    monkeypatch.setattr(rules, "MAX_EPISODE_JOBS", 5)
    with pytest.raises(JaxschedError, match="has 6 jobs; accepted: at most 5"):
        ENV.params([random_table(0, 6)])
