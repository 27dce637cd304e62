"""Unrolling many environments with automatic reset."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.environment import look, start, step_and_look
from jaxsched.core.rollout import play_ahead, start_batch, unroll
from tests import probes
from tests.probes import CONSTANT, END, STEPS, Probe

ENV = Probe()


def legal(observation, mask, key):
    """A random legal action; reports what it saw."""
    action = jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
    return action, {"seen": observation}


@partial(jax.jit, static_argnames=("length", "time_limit", "batch"))
def run(params, length, time_limit=None, batch=4):
    key = jax.random.key(0)
    current, running = start_batch(ENV, key, params, batch)
    return unroll(ENV, legal, key, current, running, params, length=length, time_limit=time_limit)


def test_walks_and_resets_to_the_first_state():
    params = probes.process(reward=[1, 2, 4])
    current, running, rollout, ended = run(params, 7)
    states = [0, 1, 2, 0, 1, 2, 0]
    for b in range(4):
        np.testing.assert_array_equal(rollout.observation[:, b], STEPS[states])
        np.testing.assert_array_equal(rollout.reward[:, b], [1, 2, 4, 1, 2, 4, 1])
        np.testing.assert_array_equal(rollout.terminated[:, b], [0, 0, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(rollout.extras["seen"], rollout.observation)
    assert not rollout.truncated.any()
    np.testing.assert_array_equal(current.state, 1)
    np.testing.assert_array_equal(running.episode_return, 1)
    np.testing.assert_array_equal(running.episode_length, 1)
    assert [float(x) for x in ended] == [8, 8 * 7, 8 * 3]


def test_next_observation_is_the_one_before_the_reset():
    _, _, rollout, _ = run(probes.process(), 4)
    np.testing.assert_array_equal(rollout.next_observation[:, 0], STEPS[[1, 2, END, 1]])
    np.testing.assert_array_equal(rollout.observation[:, 0], STEPS[[0, 1, 2, 0]])


def test_masks_belong_to_their_observations():
    params = probes.forbidden_best()
    _, _, rollout, _ = run(params, 4)
    np.testing.assert_array_equal(rollout.mask[:, 0], params.mask[jnp.array([1, 2, 1, 2])])
    np.testing.assert_array_equal(rollout.next_mask[:, 0], params.mask[jnp.array([2, END] * 2)])
    chosen = np.take_along_axis(
        np.asarray(rollout.mask), np.asarray(rollout.action)[..., None], axis=-1
    )
    assert chosen.all()


@pytest.mark.parametrize(
    ("limit", "terminated", "truncated"),
    [(2, [0, 0, 0, 0], [0, 1, 0, 1]), (3, [0, 0, 1, 0], [0, 0, 0, 0])],
)
def test_time_limit_truncates_but_not_what_terminated(limit, terminated, truncated):
    _, _, rollout, ended = run(probes.ending(), 4, time_limit=limit)
    np.testing.assert_array_equal(rollout.terminated[:, 0], terminated)
    np.testing.assert_array_equal(rollout.truncated[:, 0], truncated)
    assert float(ended.length_sum / ended.episodes) == limit


def test_truncation_by_the_environment():
    params = probes.endless()
    _, _, rollout, ended = run(params, 4)
    np.testing.assert_array_equal(rollout.truncated[:, 0], [0, 1, 0, 1])
    assert not rollout.terminated.any()
    np.testing.assert_array_equal(rollout.next_observation, np.tile(CONSTANT[0], (4, 4, 1)))
    assert float(ended.return_sum / ended.episodes) == 2


def test_elapsed_is_reported():
    _, _, rollout, _ = run(probes.timed_reward(), 3)
    np.testing.assert_array_equal(rollout.elapsed[:, 0], [3600, 0, 99])


def test_episodes_are_drawn_anew():
    _, _, rollout, _ = run(probes.observed_reward(), 30, batch=8)
    assert 60 < float(jnp.sum(rollout.observation[..., 1])) < 180
    assert rollout.terminated.all()


def test_what_is_seen_after_a_reset_is_the_new_episode():
    params = probes.process()
    current = start(ENV, jax.random.key(0), params)
    for state in (1, 2, 0, 1):
        current, seen, timestep = step_and_look(
            ENV, jax.random.key(0), current, jnp.int32(0), params
        )
        assert timestep.observation[END if state == 0 else state] == 1
        np.testing.assert_array_equal(seen.observation, STEPS[state])
        np.testing.assert_array_equal(seen.mask, params.mask[state])
        np.testing.assert_array_equal(look(ENV, current, params).observation, seen.observation)


def test_nothing_ended_gives_zeros():
    _, running, _, ended = run(probes.ending(), 2)
    assert [float(x) for x in ended] == [0, 0, 0]
    np.testing.assert_array_equal(running.episode_length, 2)


def test_environments_of_one_stream_draw_the_same():
    params = probes.process(first=(0, 1, 2))
    for streams, differing in ((2, 2), (None, 3)):
        current, running = start_batch(ENV, jax.random.key(1), params, 64, streams)
        _, _, rollout, _ = unroll(
            ENV,
            legal,
            jax.random.key(2),
            current,
            running,
            params,
            length=9,
            num_random_streams=streams,
        )
        columns = {column.tobytes() for column in np.asarray(rollout.observation).swapaxes(0, 1)}
        assert len(columns) <= differing if streams else len(columns) > differing


@pytest.mark.parametrize(
    ("length", "streams", "steps"),
    [(6, None, [0, 1, 2, 3, 4, 5]), (5, None, [0, 0, 1, 2, 3, 4]), (6, 3, [0, 2, 4, 0, 2, 4])],
)
def test_environments_are_played_ahead_by_their_number(length, streams, steps):
    params = probes.process(reward=[1, 2, 4])
    current, running = start_batch(ENV, jax.random.key(0), params, 6, streams)
    current, running = play_ahead(
        ENV,
        legal,
        jax.random.key(1),
        current,
        running,
        params,
        length=length,
        num_random_streams=streams,
    )
    place = np.array(steps) % 3
    np.testing.assert_array_equal(current.state, place)
    np.testing.assert_array_equal(running.episode_length, place)
    np.testing.assert_array_equal(running.episode_return, np.array([0, 1, 3])[place])


def test_playing_ahead_depends_on_its_key_alone():
    params = probes.process(first=(0, 1, 2))
    current, running = start_batch(ENV, jax.random.key(0), params, 64)
    ahead = [
        play_ahead(ENV, legal, jax.random.key(seed), current, running, params, length=64)[0].state
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(ahead[0], ahead[1])
    assert (ahead[0] != ahead[2]).any()
