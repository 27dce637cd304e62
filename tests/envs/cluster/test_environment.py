"""What the environment promises to learners: legal actions, ends, resets, nothing told early."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.environment import start, step_and_reset
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.errors import JaxschedError
from tests.envs.cluster.seen import seen_alike
from tests.trace_replay.cases import random_columns

ENV = ClusterJobs(3, 4, window=5)  # less than the jobs that wait
LENGTHS = (24, 16, 24)
JUNK = (-1, -(2**31), 2**31 - 1, 6)


@cache
def params():
    return ENV.params([random_columns(seed, n, 12) for seed, n in enumerate(LENGTHS)])


@cache
def plays(junk_share):
    """Random play of each episode for its step bound: states, time steps; ``[T, E, ...]``."""
    given = params()
    bound = ENV.max_steps(given)

    def step(state, key):
        act_key, wild_key, junk_key = jax.random.split(key, 3)
        _, mask = ENV.observe(state, given)
        legal = jax.random.categorical(act_key, jnp.where(mask, 0.0, -jnp.inf))
        junk = jax.random.choice(junk_key, jnp.array(JUNK, jnp.int32))
        action = jnp.where(jax.random.uniform(wild_key) < junk_share, junk, legal)
        after, timestep = ENV.step(key, state, action, given)
        return after, (state, timestep)

    def play(episode):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), episode), bound)
        state, first = ENV.reset(keys[0], given, episode)
        last, rows = jax.lax.scan(step, state, keys)
        return first, last, rows

    episodes = jnp.arange(len(LENGTHS))
    return jax.device_get(jax.jit(jax.vmap(play, out_axes=(0, 0, 1)))(episodes))


@pytest.mark.parametrize("junk_share", [0.0, 0.7])
def test_random_play_ends_and_absorbs(junk_share):
    first, last, (states, steps) = plays(junk_share)
    assert first.action_mask.any(axis=-1).all() and steps.action_mask.any(axis=-1).all()
    assert steps.terminated[-1].all() and not steps.truncated.any()
    starts = steps.metrics.started
    for episode, count in enumerate(LENGTHS):
        rows = starts[:, episode]
        assert sorted(rows[rows >= 0]) == list(range(count))  # each job once
        end = int(np.argmax(steps.terminated[:, episode]))
        assert (steps.reward[end + 1 :, episode] == 0).all()
        assert (steps.elapsed[end + 1 :, episode] == 0).all()
        for before, after in zip(jax.tree.leaves(states), jax.tree.leaves(last), strict=True):
            np.testing.assert_array_equal(before[end + 1, episode], after[episode])


def test_no_gpu_holds_two_jobs_and_counters_agree():
    _, _, (states, steps) = plays(0.0)
    table = jax.device_get(params().jobs)
    for episode, count in enumerate(LENGTHS):
        metrics = jax.tree.map(lambda leaf: leaf[:, episode], steps.metrics)  # noqa: B023
        kept = metrics.started >= 0
        row, begun = metrics.started[kept], metrics.of_started["start"][kept]
        ended = metrics.of_finished["finish"][kept]
        np.testing.assert_array_equal(ended - begun, table.duration[episode][row])
        assert (begun >= table.submit[episode][row]).all() and len(row) == count
        gpus = table.num_gpus[episode][row]
        for moment in begun:
            assert gpus[(begun <= moment) & (moment < ended)].sum() <= 12
        end = int(np.argmax(steps.terminated[:, episode]))
        busy = states.free_from > states.time[..., None, None]
        held = states.held[: end + 1, episode].sum(axis=-1)
        np.testing.assert_array_equal(held, busy[: end + 1, episode].sum(axis=(-1, -2)))
        inside = (states.window[: end + 1, episode] < table.submit.shape[1] - 1).sum(axis=-1)
        behind = (states.arrived - states.entered)[: end + 1, episode]
        queued = states.queued[: end + 1, episode].sum(axis=-1)
        np.testing.assert_array_equal(queued, inside + behind)


def test_run_times_of_jobs_that_have_not_ended_are_not_seen():
    given, (_, _, (states, _)) = params(), plays(0.0)
    longer = given._replace(jobs=given.jobs._replace(duration=given.jobs.duration + 1000))
    busy = states.free_from > states.time[..., None, None]
    assert busy.any(axis=(-1, -2)).sum() > 50
    later = states._replace(free_from=np.where(busy, states.free_from + 1000, states.free_from))

    seen = seen_alike(ENV, (states, given), (later, longer))
    assert seen.shape[-1:] == ENV.observation_spec(given).shape
    assert np.isfinite(seen).all() and np.abs(seen).max() < 3


def test_without_waiting_every_step_starts_a_job():
    env, given = ClusterJobs(3, 4, window=5, may_wait=False), params()
    assert env.max_steps(given) == max(LENGTHS)

    def step(state, key):
        _, mask = env.observe(state, given)
        after, timestep = env.step(key, state, jnp.int32(env.window), given)  # refused
        return after, (mask, timestep)

    state, _ = env.reset(jax.random.key(0), given, jnp.int32(0))
    keys = jax.random.split(jax.random.key(0), env.max_steps(given))
    _, (masks, steps) = jax.jit(lambda: jax.lax.scan(step, state, keys))()
    assert (steps.metrics.started >= 0).all() and not masks[:, -1].any()
    assert steps.terminated[-1] and steps.action_mask[-1, -1]


def test_automatic_reset_starts_anew():
    given = params()

    def step(current, key):
        _, mask = ENV.observe(current.state, given)
        current, timestep = step_and_reset(
            ENV, key, current, jnp.argmax(mask), given, episode=jnp.int32(1)
        )
        return current, (current, timestep)

    begun = start(ENV, jax.random.key(0), given, jnp.int32(1))
    keys = jax.random.split(jax.random.key(2), 80)
    _, (currents, steps) = jax.jit(lambda: jax.lax.scan(step, begun, keys))()
    ends = np.flatnonzero(steps.done)
    assert len(ends) >= 2
    for fresh, later in zip(
        jax.tree.leaves(begun.state), jax.tree.leaves(currents.state), strict=True
    ):
        np.testing.assert_array_equal(fresh, later[ends[0]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": 0}, "window"),
        ({"num_servers": 0}, "num_servers"),
        ({"locality": "near"}, "locality"),
        ({"placement": "best"}, "placement"),
    ],
)
def test_refused_options(options, words):
    with pytest.raises(JaxschedError, match=words):
        ClusterJobs(**options)


def test_refused_tables():
    with pytest.raises(JaxschedError, match="at least one"):
        ENV.params([])
    with pytest.raises(JaxschedError, match="scale_s"):
        ENV.params([random_columns(0, 5, 12)], scale_s=0.0)
    with pytest.raises(JaxschedError):
        ENV.params([random_columns(0, 5, 12) | {"num_gpus": [13] * 5}])


def test_a_schedule_beyond_int32_truncates():
    env = ClusterJobs(1, 1, window=2)
    longest = 2**23  # that a job may take: the 256th would end at 2**31
    count, ones = 258, np.ones(258, int)
    table = {"submit_time": 0 * ones, "num_gpus": ones, "duration": longest * ones}
    given = env.params([table])

    def step(state, _):
        after, timestep = env.step(jax.random.key(0), state, 0, given)
        return after, timestep

    state, _ = env.reset(jax.random.key(0), given)
    _, steps = jax.jit(lambda state: jax.lax.scan(step, state, length=count))(state)
    assert not steps.terminated.any()
    assert not steps.truncated[:255].any() and steps.truncated[255:].all()
    assert (steps.reward[:255] < 0).all() and (steps.reward[256:] == 0).all()
    assert (steps.metrics.started[:256] == np.arange(256)).all()
    assert (steps.metrics.started[256:] < 0).all()
