"""DAS with random windows: uniform sorted subsets of the pending jobs, drawn at every event."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.das import DAS, GANG_JOBS
from jaxsched.envs.das.rules.dynamics import Draws, as_set, draw_window, without
from jaxsched.jobs import JobTable

SIZE, JOBS = 3, 70
ENV = DAS(num_servers=2, window=SIZE, sampling="random")


def table(submit):
    ones = np.ones(len(submit), int)
    columns = {
        "submit_time": submit,
        "num_instances": 1 + np.arange(len(submit)) % 5,
        "gpus_per_instance": 1 + np.arange(len(submit)) % 2,
        "cpus_per_instance": ones,
        "mem_per_instance": ones,
        "duration": 20 + 13 * (np.arange(len(submit)) % 7),
    }
    return JobTable(columns, schema=GANG_JOBS)


@pytest.fixture(scope="module")
def params():
    return ENV.params([table(np.arange(JOBS) // 8 * 9)])


def test_sets(params):
    pending = as_set(params, jnp.int32(5), jnp.int32(69))
    members = np.unpackbits(np.asarray(pending).view(np.uint8), bitorder="little")
    assert np.flatnonzero(members).tolist() == list(range(5, 69))
    left = without(pending, jnp.array([7, 40, 68]), jnp.array([True, False, True]))
    members = np.unpackbits(np.asarray(left).view(np.uint8), bitorder="little")
    assert np.flatnonzero(members).tolist() == [*range(5, 7), *range(8, 68)]


@pytest.mark.parametrize("pending", [[4, 33, 34, 63, 69], [0, 31], [2, 32, 64]])
def test_windows_are_uniform_sorted_subsets(params, pending):
    draws = 4000
    words = np.zeros(3, np.uint32)
    for job in pending:
        words[job // 32] |= np.uint32(1) << np.uint32(job % 32)

    @jax.jit
    @jax.vmap
    def draw(events):
        state = Draws(jax.random.key(7), events, jnp.int32(JOBS), jnp.asarray(words))
        window = draw_window(params, jnp.int32(0), state, SIZE)
        return window.job, window.submit

    jobs, submit = (np.asarray(x) for x in draw(jnp.arange(draws)))
    count = min(SIZE, len(pending))
    assert (np.diff(jobs[:, :count]) > 0).all()
    assert (submit[:, :count] == jobs[:, :count] // 8 * 9).all()
    assert (submit[:, count:] == 2**31 - 1).all()
    subsets, times = np.unique(jobs[:, :count], axis=0, return_counts=True)
    assert set(subsets.ravel()) == set(pending)
    if len(pending) == 5:
        assert len(subsets) == 10  # 5 over 3
        assert np.abs(times - draws / 10).max() < 5 * np.sqrt(draws * 0.09)
    else:
        assert len(subsets) == 1


@pytest.mark.parametrize("events", [0, 1])
def test_episodes_end_and_windows_hold_pending_jobs(params, events):
    """With more jobs than positions; at each decision one that fits is placed."""
    env = DAS(num_servers=2, window=SIZE, sampling="random", events_per_step=events)
    action = {"priority": jnp.zeros(SIZE), "affinity": jnp.zeros((SIZE, 2))}

    @jax.jit
    @jax.vmap
    def play(key):
        def step(state, _):
            after, timestep = env.step(key, state, action, params)
            real = env.observe(state, params)[0].real
            return after, (timestep.metrics, real, timestep.done, state.time)

        return jax.lax.scan(step, env.reset(key, params)[0], length=env.max_steps(params))[1]

    metrics, real, done, time = jax.tree.map(
        np.asarray, play(jax.random.split(jax.random.key(0), 3))
    )
    assert done[:, -1].all()
    for k in range(3):
        step = jax.tree.map(lambda x, k=k: x[k], metrics)
        started = step.window[step.placed]
        assert sorted(started) == list(range(JOBS))
        ended = step.running[step.finish >= 0]
        assert sorted(ended) == list(range(JOBS))
        window = step.window[step.decides]
        there = window >= 0
        assert (there == real[k][step.decides]).all()
        submit = window // 8 * 9
        assert (
            submit[there] <= np.broadcast_to(time[k][step.decides][:, None], there.shape)[there]
        ).all()
        assert (np.diff(window, axis=1)[there[:, 1:]] > 0).all()
        assert (step.placed[step.decides].sum(axis=1) >= 1).all()
        lowest = np.array([row[row >= 0].min() for row in window])
        assert (np.diff(lowest) < 0).any()  # not the first pending jobs
    assert len({tuple(metrics.finish[k].max(axis=-1)) for k in range(3)}) == 3  # keys matter
