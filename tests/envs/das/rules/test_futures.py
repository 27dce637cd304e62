"""DAS: redrawn durations agree with what has been seen, and the past stays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View, uniform_reals
from jaxsched.envs.das.rules import DURATION, SUBMIT, build_params
from tests.instances import INSTANCES, das_tables

DRAWS = 32
STEPS = 6


@pytest.fixture(scope="module", params=["paper", "random"])
def case(request):
    """Environment, parameters, futures of the states of an episode, those states."""
    made = INSTANCES["das"][request.param]()
    env, params = made.env, made.params
    policy = uniform_reals("random", env.action_spec())

    def step(state, key):
        observation, mask = env.observe(state, params)
        action, _ = policy.act((), (), View(observation, mask, state, params), key)
        after = env.step(key, state, action, params)[0]
        return after, (state, jax.vmap(env.resample_future, (0, None, None))(
            jax.random.split(key, DRAWS), state, params
        ))  # fmt: skip

    state = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))[0]
    _, found = jax.jit(lambda s: jax.lax.scan(step, s, jax.random.split(jax.random.key(1), STEPS)))(
        state
    )
    states, (after, drawn) = found  # keys of random windows are none of numpy's business
    return env, params, states, after, drawn


def without_keys(state):
    return state._replace(draws=None)


def at(tree, *index):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)


def test_running_jobs_go_on_and_the_past_stays(case):
    env, params, states, after, drawn = case
    states, after = without_keys(states), without_keys(after)
    count, true = int(params.num_jobs[0]), np.asarray(params.rows[: int(params.num_jobs[0])])
    changed = 0
    for step in range(STEPS):
        state = at(states, step)
        known = int(np.sum(true[:, SUBMIT] <= state.time))
        for draw in range(DRAWS):
            new, own = at(after, step, draw), at(drawn, step, draw)
            rows = own.rows[:count]
            assert np.all(np.diff(rows[:, SUBMIT]) >= 0)
            assert np.array_equal(np.delete(rows[:known], DURATION, 1),
                                  np.delete(true[:known], DURATION, 1))  # fmt: skip
            assert np.all(rows[known:, SUBMIT] > state.time)
            assert set(rows[:, DURATION]) <= set(true[:, DURATION])
            running = state.running.job >= 0
            job = state.running.job[running]
            assert np.array_equal(new.running.job, state.running.job)
            assert np.all(new.running.end[running] > state.time)
            unlike = 100 * (rows[job, DURATION] - true[job, DURATION])
            assert np.array_equal((new.running.left - state.running.left)[running], unlike)
            changed += np.sum(unlike != 0)
            there = state.window.job < count
            shown = own.rows[state.window.job[there]].T
            assert np.array_equal(new.window.rows[:, there], shown)
    assert changed > DRAWS


def test_sums_of_submissions_are_those_of_the_host(case):
    env, params, _, _, drawn = case
    table = das_tables(0)[0]
    for step in (0, STEPS - 1):
        own = at(drawn, step, 0)
        columns = dict(table.columns) | {"submit_time": own.rows[: len(table), SUBMIT]}
        built = build_params(
            [type(table)(columns, schema=table.schema)],
            env.capacity,
            env.num_servers,
            slowest=env.slowest,
            starts=None,
            episode_jobs=None,
            scalars={},
        )
        assert np.array_equal(built.submitted_sum, own.submitted_sum)


def test_futures_play_to_their_end(case):
    env, params, _, after, drawn = case
    policy = uniform_reals("random", env.action_spec())

    def play(state, params, key):
        def step(carry, key):
            state, over = carry
            observation, mask = env.observe(state, params)
            action, _ = policy.act((), (), View(observation, mask, state, params), key)
            state, timestep = env.step(key, state, action, params)
            return (state, over | timestep.terminated), timestep.elapsed

        keys = jax.random.split(key, 3 * env.max_steps(params))
        (_, over), elapsed = jax.lax.scan(step, (state, jnp.bool_(False)), keys)
        return over, elapsed.min()

    pick = lambda tree: jax.tree.map(lambda leaf: leaf[STEPS // 2], tree)  # noqa: E731
    keys = jax.random.split(jax.random.key(5), DRAWS)
    over, least = jax.jit(jax.vmap(play))(pick(after), pick(drawn), keys)
    assert np.all(over) and np.all(least >= 0)
