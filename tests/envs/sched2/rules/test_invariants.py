"""What must hold in every SCHED2 episode: random legal play at the paper's size, shipped trace."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.systems import functions, registry

pytestmark = pytest.mark.optimised  # loops of thousands of steps

SYSTEM = registry.get("sched2")
EPISODES = 3
TABLES = traces.get("sched2-test-68")[:EPISODES]
SERVERS, GPUS, WINDOW, LEVELS = 15, 8, 10, 4
TIME_SCALE = 3600.0


@partial(jax.jit, static_argnames="env")
def play(env, params, key):
    """Random legal play of every episode for its step bound; rows ``[T, E]`` and records.

    Each row tells of the state before the action and of what the step reported.
    """
    recorder = SYSTEM.log.recorder(env)

    def one(episode, key):
        state, timestep = env.reset(key, params, episode)

        def step(carry, key):
            state, seen, records, time = carry
            logits = jnp.where(seen.action_mask, 0.0, -jnp.inf)
            action = jax.random.categorical(key, logits)
            state, timestep = env.step(key, state, action, params)
            jobs = seen.observation[SERVERS * GPUS :][: WINDOW * (LEVELS + 2)]
            beyond = seen.observation[SERVERS * GPUS + WINDOW * (LEVELS + 2)] * WINDOW
            gpus = seen.observation[: SERVERS * GPUS]
            row = {
                "time": time,
                "any_legal": seen.action_mask.any(),
                "busy": jnp.sum(gpus > 0),
                "gpu_seconds_left": jnp.sum(gpus) * TIME_SCALE,
                "waiting": jnp.sum(jobs.reshape(WINDOW, -1)[:, LEVELS] > 0) + jnp.round(beyond),
                "started": timestep.metrics.start.started,
                "invalid": timestep.metrics.invalid,
                "reward": timestep.reward,
                "elapsed": timestep.elapsed,
                "done": timestep.terminated,
                "finite": jnp.isfinite(timestep.observation).all() & jnp.isfinite(timestep.reward),
                "smallest": timestep.observation.min(),
            }
            records = recorder.update(records, timestep, True)
            return (state, timestep, records, time + timestep.elapsed), row

        carry = (state, timestep, recorder.init(params), jnp.float32(0))
        carry, rows = jax.lax.scan(step, carry, jax.random.split(key, env.max_steps(params)))
        return rows, carry[2]

    episodes = jnp.arange(EPISODES)
    return jax.vmap(one)(episodes, jax.random.split(key, EPISODES))


def played(**options):
    env = functions.environment(SYSTEM, **options)
    params = env.params(TABLES)
    return jax.tree.map(np.asarray, play(env, params, jax.random.key(7)))


@pytest.fixture(scope="module")
def literal():
    return played()


@pytest.fixture(scope="module")
def dense():
    return played(reward="dense")


def live(rows):
    """Steps taken before the end."""
    return ~np.pad(rows["done"], ((0, 0), (1, 0)))[:, :-1]


def test_every_episode_ends_within_its_bound(literal):
    rows, _ = literal
    assert rows["done"].shape[1] == 3000
    assert rows["done"][:, -1].all()
    assert (np.diff(rows["done"].astype(int), axis=1) >= 0).all()


def test_reports_are_sane(literal):
    rows, _ = literal
    assert rows["any_legal"].all()
    assert rows["finite"].all()
    assert (rows["smallest"] >= 0).all()
    assert not rows["invalid"].any()


def test_clock_never_goes_back(literal):
    """It stands still while jobs are started, moves on at every void and stops at the end."""
    rows, _ = literal
    assert (rows["elapsed"][live(rows) & ~rows["started"]] > 0).all()
    assert (rows["elapsed"][rows["started"]] == 0).all()
    assert (rows["elapsed"][~live(rows)] == 0).all()
    assert (rows["reward"][~live(rows)] == 0).all()


def test_every_job_is_started_exactly_once(literal):
    rows, records = literal
    assert (rows["started"].sum(axis=1) == 1000).all()
    assert (np.sort(records.order, axis=1) == np.arange(1000)).all()
    for table, start in zip(TABLES, records.start, strict=True):
        assert (start >= table["submit_time"]).all()


def test_jobs_are_conserved(literal):
    """Submitted so far = started so far + waiting, at every step."""
    rows, _ = literal
    for k, table in enumerate(TABLES):
        submitted = np.searchsorted(table["submit_time"], rows["time"][k], side="right")
        started = np.cumsum(rows["started"][k]) - rows["started"][k]
        np.testing.assert_array_equal(submitted, started + rows["waiting"][k])


def test_capacity_is_never_exceeded(literal):
    rows, records = literal
    assert (rows["busy"] <= SERVERS * GPUS).all()
    for k, table in enumerate(TABLES):
        moments = np.unique(records.start[k])
        held = (records.start[k] <= moments[:, None]) & (moments[:, None] < records.finish[k])
        busy = held @ table["num_gpus"]
        assert busy.max() <= SERVERS * GPUS
        assert busy.max() > 100  # the cluster was tried


def test_no_gpu_is_held_by_two_jobs(literal):
    _, records = literal
    gpu = np.arange(GPUS)
    for k, table in enumerate(TABLES):
        taken = ((records.gpus[k][:, :, None] >> gpu) & 1).astype(bool)  # [n, S, G]
        np.testing.assert_array_equal(taken.sum(axis=(1, 2)), table["num_gpus"])
        for holders in taken.reshape(1000, -1).T:
            jobs = np.flatnonzero(holders)
            jobs = jobs[np.argsort(records.start[k][jobs])]
            assert (records.finish[k][jobs][:-1] <= records.start[k][jobs][1:]).all()


def test_run_time_follows_from_the_placement(literal):
    """Section 2, from the GPUs that the records name."""
    tenths = np.array(
        [
            [10, 40, 70, 100],
            [10, 14, 18, 22],
            [10, 15, 20, 25],
            [10, 59, 108, 157],
            [10, 16, 22, 28],
            [10, 27, 44, 61],
        ]
    )
    _, records = literal
    for k, table in enumerate(TABLES):
        extra = (records.gpus[k] > 0).sum(axis=1) - np.ceil(table["num_gpus"] / GPUS).astype(int)
        level = np.array([0, 1, 2, 2, 3])[np.minimum(extra, 4)]
        np.testing.assert_array_equal(records.level[k], level)
        run = (table["duration"] * tenths[table["model"], level] + 5) // 10
        np.testing.assert_array_equal(records.finish[k] - records.start[k], run)


def test_work_is_conserved(literal):
    """GPU seconds seen to pass, plus those left at the end, are those of the jobs' runs."""
    rows, records = literal
    for k, table in enumerate(TABLES):
        last = int(np.argmax(rows["done"][k])) + 1  # the first row that sees the final state
        passed = (rows["busy"][k].astype(float) * rows["elapsed"][k]).sum()
        owed = (table["num_gpus"] * (records.finish[k] - records.start[k])).sum()
        left = float(rows["gpu_seconds_left"][k, last])
        assert passed + left == pytest.approx(float(owed), rel=1e-6)


def test_rewards_are_the_effectiveness_of_the_records(literal):
    rows, records = literal
    for k, table in enumerate(TABLES):
        effectiveness = table["duration"] / (records.finish[k] - table["submit_time"])
        got = rows["reward"][k][rows["started"][k]]
        np.testing.assert_allclose(got, effectiveness[records.order[k]], rtol=1e-6)
        assert (rows["reward"][k][~rows["started"][k]] == 0).all()


def test_dense_return_is_the_literal_one_minus_n(literal, dense):
    (rows, records), (other, other_records) = literal, dense
    assert rows["waiting"].max() > 200  # far beyond the window
    for mine, theirs in zip(records, other_records, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert (other["reward"] <= 0).all()
    expected = rows["reward"].sum(axis=1, dtype=float) - 1000
    np.testing.assert_allclose(other["reward"].sum(axis=1, dtype=float), expected, rtol=1e-4)
