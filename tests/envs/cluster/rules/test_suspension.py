"""What suspension promises: two instances by hand, and what holds whatever the scores are."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.rules.dynamics import account_of, waits
from jaxsched.envs.cluster.rules.suspension import decide
from jaxsched.errors import JaxschedError
from jaxsched.trace_replay.suspension import Account
from tests.envs.cluster.seen import seen_alike
from tests.trace_replay.cases import random_columns

ENV = ClusterJobs(3, 4, window=14, suspends=True)
LENGTHS = (24, 16, 24)
RESTART_S = 2
STEPS = 700
JUNK = (np.nan, np.inf, -np.inf, 3e38, -0.0)


# By hand


@cache
def tiny():
    """One server of two GPUs and two jobs: reset and step, compiled."""
    env = ClusterJobs(1, 2, window=2, suspends=True)
    reset = jax.jit(lambda given: env.reset(jax.random.key(0), given))
    step = jax.jit(
        lambda state, given, *scores: env.step(
            jax.random.key(0), state, jnp.stack([jnp.float32(score) for score in scores]), given
        )
    )
    return env, reset, step


def account(state, row):
    return Account(*(int(value) for value in account_of(state, jnp.int32(row))))


def test_a_short_job_takes_the_place_of_a_long_one():
    """Job 0 takes both GPUs for 10 s, job 1 comes at 3 s, wants one for 2 s and goes first."""
    env, reset, step = tiny()
    table = {"submit_time": [0, 3], "num_gpus": [2, 1], "duration": [10, 2]}
    given = env.params([table], restart_s=4, scale_s=1.0, thresholds=(6, 40))
    state, timestep = reset(given)
    assert int(state.time) == 0 and state.window.tolist() == [0, 2]
    assert timestep.action_mask.tolist() == [True, False, True]

    state, timestep = step(state, given, 0, 0, -9)  # job 0 starts; the next choice is at 3 s
    assert int(timestep.metrics.started) == 0 and int(timestep.metrics.of_finished["finish"]) == 10
    assert (float(timestep.reward), float(timestep.elapsed)) == (-1.5, 3)
    assert int(state.time) == 3 and state.window.tolist() == [0, 1]
    assert (int(state.running), state.held.tolist(), state.queued.tolist()) == (1, [2], [1])
    assert account(state, 0) == Account(0, 10, 1, 0, 0, 0, 10, 0)
    assert timestep.action_mask.tolist() == [True, True, True]
    seen = dict(zip(env.observation_spec(given).names, timestep.observation.tolist(), strict=True))
    assert [seen[f"position{q}.runs"] for q in (0, 1)] == [1, 0]
    logarithm = [np.log2(1 + value) / 16 for value in (4, 3, 6, 3)]
    names = ("restart", "position0.attained", "position0.service", "position0.run")
    np.testing.assert_allclose([seen[name] for name in names], logarithm, rtol=1e-6)

    state, timestep = step(state, given, 0, 1, -9)  # job 1 is chosen, job 0 is to make way
    assert int(timestep.metrics.started) == -1 and float(timestep.elapsed) == 0
    assert account(state, 0) == Account(0, 10, 1, 0, 0, 0, 10, 0)

    state, timestep = step(state, given, 0, 1, -9)  # job 0 is suspended
    assert int(timestep.metrics.started) == -1 and float(timestep.elapsed) == 0
    assert account(state, 0) == Account(0, 0, 1, 0, 1, 0, 7 + 4, 3)
    assert (int(state.running), state.held.tolist(), state.queued.tolist()) == (0, [0], [2])
    assert state.free_from.ravel().tolist() == [3, 3] and state.is_known.all()

    state, timestep = step(state, given, 0, 1, -9)  # job 1 starts; at its end job 0 fits
    assert int(timestep.metrics.started) == 1 and int(timestep.metrics.of_finished["finish"]) == 5
    assert (float(timestep.reward), float(timestep.elapsed)) == (-2.0, 2)
    assert int(state.time) == 5 and state.window.tolist() == [0, 2]
    assert int(state.history[0, 0]) == 1  # one job has ended, job 0 has not

    state, timestep = step(state, given, 0, 0, -9)  # job 0 goes on to 5 + 11 s
    assert timestep.terminated and not timestep.truncated
    events = timestep.metrics
    assert {name: int(value) for name, value in events.of_started.items()} == {
        "submit": 0,
        "start": 0,
        "num_servers": 1,
        "first_server": 0,
        "preemptions": 1,
    }
    assert int(events.of_finished["finish"]) == 16 and int(state.time) == 16
    assert (float(timestep.reward), float(timestep.elapsed)) == (-5.5, 11)
    assert account(state, 0) == Account(0, 16, 1, 0, 1, 5, 11, 3)


def test_thresholds_of_service_are_instants_of_decision():
    """After 6 GPU-seconds job 0 makes way for job 1, which waits from 1 s on."""
    env, reset, step = tiny()
    table = {"submit_time": [0, 1], "num_gpus": [2, 1], "duration": [10, 10]}
    given = env.params([table], thresholds=(6, 40))
    state, _ = reset(given)
    state, _ = step(state, given, 0, 0, -9)
    assert int(state.time) == 1
    state, timestep = step(state, given, 1, 0, -9)  # nothing changes before the threshold
    assert int(timestep.metrics.started) == -1 and int(state.time) == 3
    for _ in ("chosen", "suspended"):
        state, _ = step(state, given, 0, 1, -9)
    state, timestep = step(state, given, 0, 1, -9)
    assert int(timestep.metrics.started) == 1 and int(state.time) == 9  # its own threshold
    state, timestep = step(state, given, 0, 1, 2)  # no job starts below the score of waiting
    assert int(state.time) == 13 and int(state.window[0]) == 0
    state, timestep = step(state, given, 0, 1, 2)  # unless nothing else would ever happen
    assert int(timestep.metrics.started) == 0 and timestep.terminated and int(state.time) == 20


def test_a_job_that_keeps_its_gpus_never_stops():
    """At 3 jobs 0 and 1 come after job 2, which wants one GPU: only the last in order stops."""
    env = ClusterJobs(1, 4, window=3, suspends=True)
    table = {"submit_time": [0, 0, 3], "num_gpus": [3, 1, 1], "duration": [10, 20, 2]}
    given = env.params([table], restart_s=5)
    state, _ = env.reset(jax.random.key(0), given)
    step = jax.jit(lambda state, scores: env.step(jax.random.key(0), state, scores, given))
    scores, ends = jnp.array([1.0, 0.0, 2.0, -9.0]), jnp.array([0.0, 1.0, 2.0, -9.0])
    for _ in range(2):
        state, _ = step(state, scores)
    assert int(state.time) == 3
    for _ in range(3):  # chosen, suspended, starts
        state, _ = step(state, ends)
    stops = [int(account_of(state, jnp.int32(row)).preemptions) for row in range(3)]
    assert stops == [1, 0, 0]


# Whatever the scores are


@cache
def params():
    tables = [random_columns(seed, n, 12) for seed, n in enumerate(LENGTHS)]
    return ENV.params(tables, restart_s=RESTART_S, thresholds=(10, 40))


def play(episode, junk_share):
    """Random scores, some of them no numbers; states, time steps ``[T, ...]``."""
    given = params()

    def step(state, key):
        act_key, wild_key, junk_key = jax.random.split(key, 3)
        scores = jax.random.normal(act_key, (ENV.window + 1,))
        junk = jax.random.choice(junk_key, jnp.array(JUNK, jnp.float32), scores.shape)
        wild = jax.random.uniform(wild_key, scores.shape) < junk_share
        after, timestep = ENV.step(key, state, jnp.where(wild, junk, scores), given)
        return after, (state, timestep)

    keys = jax.random.split(jax.random.fold_in(jax.random.key(1), episode), STEPS)
    state, first = ENV.reset(keys[0], given, episode)
    last, rows = jax.lax.scan(step, state, keys)
    return first, last, rows


@cache
def play_all():
    params()  # made outside the traced function
    return jax.jit(jax.vmap(play, (0, None), out_axes=(0, 0, 1)))


@cache
def plays(junk_share):
    return jax.device_get(play_all()(jnp.arange(len(LENGTHS)), jnp.float32(junk_share)))


def ends(steps):
    return [int(np.argmax(column)) for column in steps.terminated.T]


@pytest.mark.parametrize("junk_share", [0.0, 0.5])
def test_random_play_ends_and_absorbs(junk_share):
    first, last, (states, steps) = plays(junk_share)
    assert ENV.max_steps(params()) > STEPS
    assert first.action_mask.any(axis=-1).all() and steps.action_mask.any(axis=-1).all()
    assert steps.terminated[-1].all() and not steps.truncated.any()
    assert (steps.elapsed >= 0).all() and (np.diff(states.time, axis=0) >= 0).all()
    assert np.isfinite(steps.reward).all() and np.isfinite(steps.observation).all()
    for episode, end in enumerate(ends(steps)):
        assert (steps.reward[end + 1 :, episode] == 0).all()
        assert (steps.metrics.started[end + 1 :, episode] == -1).all()
        for before, after in zip(jax.tree.leaves(states), jax.tree.leaves(last), strict=True):
            np.testing.assert_array_equal(before[end + 1, episode], after[episode])


@pytest.mark.parametrize("junk_share", [0.0, 0.5])
def test_work_is_conserved_and_every_job_ends_once(junk_share):
    _, last, (_, steps) = plays(junk_share)
    table = jax.device_get(params().jobs)
    for episode, count in enumerate(LENGTHS):
        found = Account(*last.accounts[episode, :count].T)
        duration = table.duration[episode, :count]
        held = found.served + found.end - found.last_start
        np.testing.assert_array_equal(held, duration + RESTART_S * found.preemptions)
        assert (found.end >= table.submit[episode, :count] + held).all()
        assert found.preemptions.sum() > 5
        started = steps.metrics.started[:, episode]
        runs = np.bincount(started[started >= 0], minlength=count)
        np.testing.assert_array_equal(runs, found.preemptions + 1)  # all but the last cut short
        jct = found.end - table.submit[episode, :count]
        total = -steps.reward[:, episode].sum() * 3600
        np.testing.assert_allclose(total, jct.mean(), rtol=1e-4)


def test_no_gpu_holds_two_jobs_and_counters_agree():
    _, _, (states, steps) = plays(0.0)
    given = params()
    gpus = np.asarray(given.jobs.num_gpus)
    waiting = jax.jit(jax.vmap(lambda state: waits(state, given.jobs.of_episode(state.episode))))
    for episode, end in enumerate(ends(steps)):
        these = jax.tree.map(lambda leaf: leaf[: end + 1, episode], states)  # noqa: B023
        busy = these.free_from > these.time[:, None, None]
        wait = np.asarray(waiting(these))
        inside = these.window < gpus.shape[1] - 1
        behind = these.arrived - these.entered
        np.testing.assert_array_equal(these.running, (inside & ~wait).sum(axis=1))
        np.testing.assert_array_equal(these.held.sum(axis=1), busy.sum(axis=(1, 2)))
        np.testing.assert_array_equal(these.queued.sum(axis=1), wait.sum(axis=1) + behind)
        for step in range(end + 1):
            rows, counts = np.unique(these.job[step][busy[step]], return_counts=True)
            np.testing.assert_array_equal(counts, gpus[episode][rows])
            running = these.window[step][inside[step] & ~wait[step]]
            np.testing.assert_array_equal(rows, np.sort(running))


def test_vectorised_play_is_that_of_each_alone():
    _, last, (_, steps) = plays(0.5)
    alone = jax.device_get(jax.jit(play)(jnp.int32(1), jnp.float32(0.5)))
    for one, other in zip(jax.tree.leaves(alone[1]), jax.tree.leaves(last), strict=True):
        np.testing.assert_array_equal(one, other[1])
    np.testing.assert_array_equal(alone[2][1].metrics.started, steps.metrics.started[:, 1])
    np.testing.assert_array_equal(alone[2][1].observation, steps.observation[:, 1])


def test_compiling_changes_nothing():
    given, (_, _, (states, _)) = params(), plays(0.0)
    at = int(np.argmax(states.accounts[:, 0, :, 4].sum(axis=1) > 0))  # somebody was suspended
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[at, 0]), states)
    rising = jnp.linspace(-1.0, 1.0, ENV.window + 1).at[-1].set(-2.0)
    equal = jnp.where(jnp.arange(ENV.window + 1) % 2, 0.0, -0.0)

    def decided(state, scores):
        return decide(ENV.rules, state, given.jobs.of_episode(state.episode), scores)[1]

    for scores in (rising, equal):
        plain, compiled = decided(state, scores), jax.jit(decided)(state, scores)
        assert min(plain) < ENV.window or scores is equal
        np.testing.assert_array_equal(plain, compiled)


def test_run_times_of_jobs_that_have_not_ended_are_not_seen():
    given, (_, _, (states, _)) = params(), plays(0.0)
    more = 1000
    longer = given._replace(jobs=given.jobs._replace(duration=given.jobs.duration + more))
    accounts = states.accounts.copy()
    running = accounts[..., 1] > states.time[..., None]
    accounts[..., 1] += more * running
    accounts[..., 6] += more
    busy = states.free_from > states.time[..., None, None]
    assert busy.any(axis=(-1, -2)).sum() > 50 and (accounts[..., 4] > 0).any()
    later = states._replace(
        free_from=np.where(busy, states.free_from + more, states.free_from), accounts=accounts
    )

    seen = seen_alike(ENV, (states, given), (later, longer))
    assert seen.shape[-1:] == ENV.observation_spec(given).shape
    assert np.abs(seen).max() < 3


def test_refused_options():
    table = random_columns(0, 5, 12)
    for options in ({"restart_s": -1}, {"restart_s": 1.5}, {"thresholds": (3, 2)}):
        with pytest.raises(JaxschedError, match=next(iter(options))):
            ENV.params([table], **options)
    with pytest.raises(JaxschedError, match="restart_s without suspension"):
        ClusterJobs(3, 4).params([table], restart_s=5)
    with pytest.raises(JaxschedError, match="thresholds without suspension"):
        ClusterJobs(3, 4).params([table], thresholds=(5,))
