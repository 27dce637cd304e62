"""What the outlook says of each waiting job, against a plain look at every server."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.heuristics import baseline
from jaxsched.envs.sched2.rules import SLOWDOWN_TENTHS
from jaxsched.envs.sched2.rules.observation import OUTLOOK, left_over, outlook_names, until_level0
from jaxsched.jobs import JobTable
from jaxsched.systems import functions, registry

SYSTEM = registry.get("sched2")
SERVERS, GPUS, WINDOW, JOBS = 4, 4, 5, 40
ENV = Sched2(SERVERS, GPUS, WINDOW, outlook=True)
PLAIN = Sched2(SERVERS, GPUS, WINDOW)


def table(seed):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 900, JOBS))
    return JobTable({
        "submit_time": submit - submit[0],
        "num_gpus": rng.choice([1, 1, 2, 3, 4, 5, 8, 12, 16], JOBS),
        "duration": rng.integers(5, 200, JOBS),
        "model": rng.integers(0, 6, JOBS),
    })  # fmt: skip


TABLE = table(0)
PARAMS = ENV.params([TABLE], time_scale=100.0)


@pytest.fixture(scope="module")
def states():
    """States and observations of a random legal play."""
    reset, step = jax.jit(ENV.reset), jax.jit(ENV.step)
    state, timestep = reset(jax.random.key(0), PARAMS, jnp.int32(0))
    rng, seen = np.random.default_rng(1), []
    while not timestep.terminated:
        seen.append((state, np.asarray(timestep.observation)))
        action = rng.choice(np.flatnonzero(timestep.action_mask))
        state, timestep = step(jax.random.key(0), state, jnp.int32(action), PARAMS)
    return seen


def first_start_at_level0(remaining, gpus):
    """When as few servers as possible have enough free GPUs, seconds from now."""
    for after in sorted({0, *remaining.reshape(-1).tolist()}):
        free = np.sort((remaining <= after).sum(axis=1))[::-1]
        if free[: -(-gpus // GPUS)].sum() >= gpus:
            return after
    raise AssertionError("an empty cluster has room")


def test_entries_are_what_they_say(states):
    some = 0
    for state, observation in states:
        rows = observation[-WINDOW * len(OUTLOOK) :].reshape(WINDOW, len(OUTLOOK))
        remaining = np.maximum((np.asarray(state.last_job) >> 1) - int(state.time), 0)
        free = (remaining == 0).sum(axis=1)
        for job, row in zip(np.asarray(state.window), rows, strict=True):
            if job >= JOBS:
                assert not row.any()
                continue
            got = dict(zip(OUTLOOK, row, strict=True))
            gpus, duration = int(TABLE["num_gpus"][job]), int(TABLE["duration"][job])
            wait = int(state.time) - int(TABLE["submit_time"][job])
            fits, level0 = gpus <= free.sum(), first_start_at_level0(remaining, gpus) == 0
            assert got["duration"] == pytest.approx(duration / 100)
            assert got["wait"] == pytest.approx(wait / 100)
            assert (got["fits"], got["level0"]) == (fits, level0)
            assert got["split"] == (fits and not level0)
            assert got["demand"] == gpus / GPUS
            slowdown = SLOWDOWN_TENTHS[TABLE["model"][job], 1] / 10
            assert got["sensitivity"] == pytest.approx(slowdown - 1)
            if level0:
                assert got["until"] == got["lost"] == 0
                assert got["effectiveness"] == pytest.approx(duration / (wait + duration))
            elif gpus <= GPUS or gpus % GPUS == 0:
                assert got["until"] == pytest.approx(first_start_at_level0(remaining, gpus) / 100)
                assert (got["lost"] > 0) == fits
            if gpus < GPUS:
                roomy = free[free >= gpus]
                spare = roomy.min() - gpus if len(roomy) else GPUS
                assert got["left_over"] == spare / GPUS
            some += fits and not level0
    assert some > 10


def test_gangs_of_several_servers_wait_for_whole_ones(states):
    """Which is never before they could start at level 0."""
    gpus = jnp.array([5, 6, 7, 9, 16])
    for state, _ in states[::5]:
        remaining = np.maximum((np.asarray(state.last_job) >> 1) - int(state.time), 0)
        whole = np.sort(remaining.max(axis=1))
        found = np.asarray(until_level0(state, gpus))
        assert found.tolist() == [whole[1], whole[1], whole[1], whole[2], whole[3]]
        earliest = [first_start_at_level0(remaining, int(g)) for g in gpus]
        assert (found >= earliest).all()
        assert int(left_over(state, jnp.array([8]))[0]) == 0


def test_it_only_adds_to_the_observation(states):
    names = ENV.observation_spec(PARAMS).names
    assert names[-WINDOW * len(OUTLOOK) :] == tuple(outlook_names(WINDOW))
    assert ENV.observation_spec(PARAMS).shape == (len(names),)
    for state, observation in states[:20]:
        plain, _ = PLAIN.observe(state, PARAMS)
        np.testing.assert_array_equal(observation[: len(plain)], plain)


@pytest.mark.parametrize("kind", ["scoring", "linear"])
def test_the_network_starts_as_the_shortest_job_at_level_0(kind):
    network = functions.network(SYSTEM, ENV, kind)
    weights = network.init(jax.random.key(3), ENV.observation_spec(PARAMS).zeros()[None])
    policy = functions.network_policy(SYSTEM, ENV, kind, "search", "greedy")
    learned = functions.play(SYSTEM, ENV, policy, PARAMS, weights)
    rule = functions.play(SYSTEM, ENV, baseline("strict_sif"), PARAMS)
    for name, values in rule.metrics.items():
        np.testing.assert_array_equal(learned.metrics[name], values, err_msg=name)


def test_lost_is_literal_less_one_and_delay_costs(states):
    del states
    env, lost = PLAIN, Sched2(SERVERS, GPUS, WINDOW, reward="lost")
    weighted = ENV.params([TABLE], delay_weight=0.25)
    state, timestep = env.reset(jax.random.key(0), PARAMS, jnp.int32(0))
    step = jax.jit(Sched2.step, static_argnums=0)
    for _ in range(60):
        action = jnp.argmax(timestep.action_mask)  # the oldest that fits, else void
        _, other = step(lost, jax.random.key(0), state, action, PARAMS)
        _, delayed = step(lost, jax.random.key(0), state, action, weighted)
        state, timestep = step(env, jax.random.key(0), state, action, PARAMS)
        start = timestep.metrics.start
        assert float(other.reward) == pytest.approx(float(timestep.reward) - bool(start.started))
        hours = float(start.wait + start.run - start.duration) / 3600
        expected = float(other.reward) - 0.25 * hours * bool(start.started)
        assert float(delayed.reward) == pytest.approx(expected, abs=1e-6)
