"""Redrawn futures: what has happened stays, what is to come is what the table leads to expect."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.heuristics import rule
from jaxsched.envs.cluster.rules.futures import ENOUGH
from jaxsched.trace_replay.suspension import Account
from jaxsched.trace_replay.tables import NEVER
from tests.trace_replay.cases import random_columns

ENVS = {
    "starts": ClusterJobs(3, 4, window=5),  # less than the jobs that wait
    "suspends": ClusterJobs(3, 4, window=36, suspends=True),
}
LENGTHS = (36, 24)
RESTART_S = 2
DRAWS = 512
PLAYED = 4  # of them


def tables():
    found = [random_columns(seed, n, 12) for seed, n in zip((1, 5), LENGTHS, strict=True)]
    return [
        table | {"submit_time": 5 * table["submit_time"], "priority": table["duration"] % 3}
        for table in found
    ]


@cache
def case(name):
    """Environment, parameters, states of a random play of the first table, and their futures."""
    env = ENVS[name]
    more = {"restart_s": RESTART_S, "thresholds": (10, 40)} if env.suspends else {}
    given = env.params(tables(), scale_s=1.0, **more)

    def act(key, state):
        scores = jax.random.normal(key, (env.window + 1,))
        _, mask = env.observe(state, given)
        return scores if env.suspends else jnp.argmax(jnp.where(mask, scores, -jnp.inf))

    @jax.jit
    def advance(key, state):
        return env.step(key, state, act(key, state), given)[0]

    state, states = jax.jit(env.reset)(jax.random.key(0), given, jnp.int32(0))[0], []
    every = 16 if env.suspends else 5
    for step in range(3 * every + 1):
        if step % every == 0:
            states.append(state)
        state = advance(jax.random.key(step), state)
    redraw = jax.jit(jax.vmap(env.resample_future, (0, None, None)))
    keys = jax.random.split(jax.random.key(1), DRAWS)
    futures = [jax.device_get(redraw(keys, state, given)) for state in states]
    return env, given, jax.device_get(states), futures, redraw


def cases():
    for name in ENVS:
        env, given, states, futures, _ = case(name)
        own = jax.device_get(given.jobs.of_episode(jnp.int32(0)))
        for state, (after, drawn) in zip(states, futures, strict=True):
            yield env, own, state, after, drawn.jobs._replace(owners=(), scopes=(), sizes=())


def running_of(state):
    """Running jobs: row to end."""
    busy = state.free_from > state.time
    return dict(zip(state.job[busy].tolist(), state.free_from[busy].tolist(), strict=True))


def unended_of(state, own):
    """Seconds of work done by each job that was submitted and has not ended; row to seconds."""
    running, waiting = running_of(state), set(state.window.tolist()) - {own.empty_row}
    waiting |= set(range(int(state.entered), int(state.arrived)))
    done = dict.fromkeys(waiting, 0)
    for row in waiting | running.keys():
        if state.accounts is None:
            if row in running:
                done[row] = int(state.time) - (running[row] - int(own.duration[row]))
            continue
        account = Account(*state.accounts[row].tolist())
        run = state.time - account.last_start if row in running else 0
        done[row] = account.served + run - account.preemptions * RESTART_S
        if account.preemptions:
            done[row] = max(done[row], account.served - (account.preemptions - 1) * RESTART_S)
    return {row: int(seconds) for row, seconds in done.items()}


def expected(own, row, done):
    """The run times that a job may have, from the docstring of ``futures``."""
    count, (owner, gpus) = int(own.num_jobs), (own.group[row], own.num_gpus[row])
    others = [j for j in range(count) if j != row and own.duration[j] > done]
    for alike in (
        lambda j: own.group[j] == owner and own.num_gpus[j] == gpus,
        lambda j: own.num_gpus[j] == gpus,
        lambda j: own.group[j] == owner,
        lambda j: True,
    ):
        found = [j for j in others if alike(j)]
        if len(found) >= ENOUGH:
            return [int(own.duration[j]) for j in found]
    return [int(own.duration[j]) for j in [*others, row]]


def test_the_past_stays():
    for env, own, state, after, drawn in cases():
        known, count = int(state.arrived), int(own.num_jobs)
        assert 1 <= known < count
        fixed = ("submit", "num_gpus", "group", "priority", "crossing")
        for name in fixed:
            was, found = getattr(own, name), getattr(drawn, name)[:, 0]
            assert found.shape[1:] == was.shape and found.dtype == was.dtype
            assert (found[:, :known] == was[:known]).all()
            assert (found[:, count:] == was[count:]).all()
        ended = sorted(set(range(known)) - unended_of(state, own).keys())
        assert (drawn.duration[:, 0, ended] == own.duration[ended]).all()
        for was, found in zip(own.known[:3], drawn.known[:3], strict=True):
            assert (found[:, 0, :known] == was[:known]).all()
        kept = ("episode", "free_from", "accounts")
        for name in set(state._fields) - set(kept):
            pair = jax.tree.leaves(getattr(after, name)), jax.tree.leaves(getattr(state, name))
            assert all((found == was).all() for found, was in zip(*pair, strict=True)), name
        assert (after.episode == 0).all() and (drawn.num_jobs == count).all()
        idle = state.free_from <= state.time
        assert (after.free_from[:, idle] == state.free_from[idle]).all()
        if env.suspends:
            columns = list(Account._fields)
            changes = [columns.index("end"), columns.index("remaining")]
            same = np.delete(after.accounts, changes, -1) == np.delete(state.accounts, changes, -1)
            assert same.all() and (after.accounts[:, ended] == state.accounts[ended]).all()


def test_arrivals_are_later_and_in_order():
    for _, own, state, _, drawn in cases():
        known, count = int(state.arrived), int(own.num_jobs)
        submit = drawn.submit[:, 0]
        assert (submit[:, known:count] > state.time).all()
        assert (np.diff(submit[:, :count]) >= 0).all() and (submit[:, count:] == NEVER).all()
        assert (np.ptp(submit[:, known:count], axis=0) > 0).all()


def test_running_jobs_go_on_to_the_end_of_their_new_run_time():
    changed = 0
    for _, own, state, after, drawn in cases():
        for row, end in running_of(state).items():
            on = (state.job == row) & (state.free_from > state.time)
            ends = after.free_from[:, on]
            more = drawn.duration[:, 0, row] - own.duration[row]
            assert (ends > state.time).all() and (ends == (end + more)[:, None]).all()
            changed += (more != 0).sum()
        if state.accounts is not None:
            account, now = (Account(*s.accounts.T) for s in (after, state))
            later = drawn.duration[:, 0] - own.duration
            assert (account.remaining.T - now.remaining == later).all()
            rows = list(running_of(state))
            assert (account.end[rows] == (account.last_start + account.remaining)[rows]).all()
    assert changed > DRAWS


def test_run_times_are_those_of_other_jobs_like_it_that_are_longer():
    sets = []
    for _, own, state, _, drawn in cases():
        for row, done in unended_of(state, own).items():
            seconds = drawn.duration[:, 0, row]
            allowed = expected(own, row, done)
            assert set(seconds.tolist()) == set(allowed) and seconds.min() > done
            spread = np.std(allowed) / DRAWS**0.5
            assert abs(seconds.mean() - np.mean(allowed)) < 5 * spread + 1e-9
            sets.append(len(allowed))
    assert len(sets) > 40 and min(sets) < 8 < max(sets)


def test_jobs_to_come_and_gaps_are_on_average_those_of_the_table():
    for _, own, state, _, drawn in cases():
        known, count = int(state.arrived), int(own.num_jobs)
        columns = ("num_gpus", "group", "priority", "duration")
        true = np.stack([getattr(own, name)[:count] for name in columns], axis=-1)
        new = np.stack([getattr(drawn, name)[:, 0, known:count] for name in columns], axis=-1)
        new = new.reshape(-1, len(columns))
        assert {tuple(job) for job in new.tolist()} == {tuple(job) for job in true.tolist()}
        spread = true.std(axis=0) / len(new) ** 0.5
        assert (np.abs(new.mean(axis=0) - true.mean(axis=0)) < 5 * spread).all()
        gaps = np.diff(own.submit[:count])
        found = np.diff(drawn.submit[:, 0, known:count]).reshape(-1)
        assert len(found) > 1000 and set(found.tolist()) == set(gaps.tolist())
        assert abs(found.mean() - gaps.mean()) < 5 * gaps.std() / len(found) ** 0.5


def test_what_is_known_of_the_jobs_is_what_the_host_makes_of_the_table():
    names = {"submit_time": "submit", "group": "group", "priority": "priority"}
    names |= {"num_gpus": "num_gpus", "duration": "duration"}
    for env, own, _, _, drawn in cases():
        count = int(own.num_jobs)
        for draw in range(3):
            columns = {name: getattr(drawn, of)[draw, 0, :count] for name, of in names.items()}
            more = {"thresholds": (10, 40)} if env.suspends else {}
            built = env.params([columns], length=own.empty_row, **more).jobs
            for name in ("number", "traits", "steps"):
                was, found = (getattr(jobs.known, name) for jobs in (built, drawn))
                np.testing.assert_array_equal(was[0], found[draw, 0], name)
            np.testing.assert_array_equal(built.crossing[0], drawn.crossing[draw, 0])


@pytest.mark.parametrize("name", ENVS)
def test_the_policy_sees_no_difference_and_keys_decide(name):
    env, given, states, futures, redraw = case(name)
    seen = jax.jit(env.observe)
    for state, future in zip(states, futures, strict=True):
        for draw in range(3):
            after, drawn = jax.tree.map(lambda leaf: leaf[draw], future)  # noqa: B023
            for was, found in zip(seen(state, given), seen(after, drawn), strict=True):
                np.testing.assert_array_equal(was, found)
    again = redraw(jax.random.split(jax.random.key(1), DRAWS), states[-1], given)
    assert all(map(np.array_equal, jax.tree.leaves(futures[-1]), jax.tree.leaves(again)))
    other = redraw(jax.random.split(jax.random.key(2), DRAWS), states[-1], given)
    assert not np.array_equal(futures[-1][1].jobs.duration, other[1].jobs.duration)
    assert env.num_episodes(jax.tree.map(lambda leaf: leaf[0], futures[0][1])) == 1


@pytest.mark.parametrize("name", ENVS)
def test_futures_play_to_their_end_and_cost_what_their_jobs_take(name):
    """From a state on, minus the rewards are the seconds in the system of each job, over ``n``."""
    env, given, states, futures, _ = case(name)
    policy = rule(env, "srtf" if env.suspends else "lrf")

    def play(state, params):
        def step(carry, key):
            state, finish = carry
            view = View(*env.observe(state, params), state, params)
            action, _ = policy.act((), (), view, key)
            state, timestep = env.step(key, state, action, params)
            row = timestep.metrics.started
            row = jnp.where(row < 0, given.jobs.empty_row, row)
            finish = finish.at[row].set(timestep.metrics.of_finished["finish"])
            held = jnp.sum(state.held) == jnp.sum(state.free_from > state.time)
            return (state, finish), (timestep.reward, timestep.done, held)

        busy = state.free_from > state.time
        row = jnp.where(busy, state.job, given.jobs.empty_row)
        finish = jnp.zeros(given.jobs.empty_row + 1, jnp.int32).at[row].max(state.free_from)
        steps = 400 if env.suspends else env.max_steps(params)
        keys = jax.random.split(jax.random.key(0), steps)
        (_, finish), (reward, done, held) = jax.lax.scan(step, (state, finish), keys)
        return finish, reward.sum(), done, held

    played = jax.jit(jax.vmap(play))
    for state, future in zip(states, futures, strict=True):
        after, drawn = jax.tree.map(lambda leaf: leaf[:PLAYED], future)
        finish, cost, done, held = jax.device_get(played(after, drawn))
        assert done[:, -1].all() and (held | done).all()
        count = int(drawn.jobs.num_jobs[0, 0])
        begun = np.maximum(drawn.jobs.submit[:, 0, :count], state.time)
        spent = np.maximum(finish[:, :count] - begun, 0).sum(axis=1)
        np.testing.assert_allclose(-cost * count, spent, rtol=1e-5)


TINY = ClusterJobs(1, 2, window=2)


@jax.jit
def tiny_draws(keys, given, time):
    """The state at a time before and after job 0 starts, and futures of both ``[D, 2]``."""
    opened, _ = TINY.reset(keys[0], given)
    opened = opened._replace(time=time)
    begun, _ = TINY.step(keys[0], opened, jnp.int32(0), given)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), opened, begun)
    one = jax.vmap(TINY.resample_future, (None, 0, None))
    return both, jax.vmap(one, (0, None, None))(keys, both, given)


KEYS = jax.random.split(jax.random.key(1), 16)


def test_the_last_state_and_a_table_of_one_job_have_nothing_to_draw():
    table = {"submit_time": [3], "num_gpus": [1], "duration": [7]}
    given = TINY.params([table], length=2)
    states, (after, drawn) = tiny_draws(KEYS, given, 3)
    assert states.time.tolist() == [3, 10] and states.arrived.tolist() == [1, 1]
    for was, now in zip(jax.tree.leaves(states), jax.tree.leaves(after), strict=True):
        assert (now == was).all()
    for was, now in zip(jax.tree.leaves(given), jax.tree.leaves(drawn), strict=True):
        assert (now == was).all()


def test_a_run_time_that_would_end_beyond_int32_is_not_drawn():
    late = NEVER - 100
    table = {"submit_time": [0, 0], "num_gpus": [1, 1], "duration": [5, 2**23]}
    _, (after, drawn) = tiny_draws(KEYS, TINY.params([table]), late)
    waiting, runs = np.moveaxis(drawn.jobs.duration[:, :, 0, :2], 1, 0)
    assert (runs[:, 0] == 5).all() and set(waiting[:, 0].tolist()) == {5, 2**23}
    assert set(runs[:, 1].tolist()) == {5, 2**23}
    assert (after.free_from[:, 1].max(axis=(1, 2)) == late + 5).all()
