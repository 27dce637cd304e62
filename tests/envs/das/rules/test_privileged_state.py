"""What critics of DAS are told: counted again in plain Python from what steps report."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxsched
from jaxsched.core.policies import View, uniform_reals
from jaxsched.envs.das.rules import DURATION, NUM_GPUS, SUBMIT
from jaxsched.envs.das.rules.observation import CLASSES, JOBS, WITHIN_S

STEPS = 60
HOUR_S = 3600.0


def class_of(work):
    """Below one GPU-hour, below two, four, ..."""
    return int(np.clip(1 + np.floor(np.log2(max(work, 1.0) / HOUR_S)), 0, CLASSES - 1))


def least_first(works):
    """Mean time until done, class by class, those of a class being of its mean size."""
    by_class = [[w for w in works if class_of(w) == k] for k in range(CLASSES)]
    sizes = [np.mean(each) for each in by_class for _ in each]
    return np.mean(np.cumsum(sizes)) if sizes else 0.0


@pytest.fixture(scope="module", params=["first", "random"])
def played(request):
    """Environment, parameters, states of the steps, what they tell and what happened in them."""
    env, params = jaxsched.make("das", sampling=request.param)
    policy = uniform_reals("random", env.action_spec())

    def step(state, key):
        observation, mask = env.observe(state, params)
        action, _ = policy.act((), (), View(observation, mask, state, params), key)
        after, timestep = env.step(key, state, action, params)
        return after, (
            state._replace(draws=None),
            env.privileged_state(state, params),
            timestep.metrics,
        )

    state = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))[0]
    keys = jax.random.split(jax.random.key(1), STEPS)
    found = jax.jit(lambda s: jax.lax.scan(step, s, keys))(state)[1]
    return env, params, *jax.tree.map(np.asarray, found)


def test_all_work_is_told(played):
    env, params, states, told, metrics = played
    count = int(params.num_jobs[0])
    rows = np.asarray(params.rows)[:count]
    num_gpus = env.num_servers * env.gpus_per_server
    hours = HOUR_S * num_gpus
    work = rows[:, DURATION].astype(float) * rows[:, NUM_GPUS]
    submit = rows[:, SUBMIT] - rows[0, SUBMIT]
    started, seen_waiting, seen_running = set(), 0, 0
    for step in range(STEPS):
        state = jax.tree.map(lambda x, step=step: x[step], states)
        waiting = [j for j in range(count) if submit[j] <= state.time and j not in started]
        running = state.running
        rows_of_running = np.flatnonzero(running.job >= 0)
        left = {  # seconds at full speed, from when the job would end at the speed it has
            row: (running.end[row] - state.time) * running.speed[row] / 100
            for row in rows_of_running
        }
        remaining = [left[row] * running.num_gpus[row] for row in rows_of_running]
        number, amount = np.zeros(CLASSES), np.zeros(CLASSES)
        for job in waiting:
            number[class_of(work[job])] += 1
            amount[class_of(work[job])] += work[job]
        whole = told[step]
        np.testing.assert_allclose(whole[:CLASSES], number / JOBS, rtol=1e-6)
        np.testing.assert_allclose(whole[CLASSES : 2 * CLASSES], amount / hours, rtol=1e-5)
        rest = whole[2 * CLASSES :]
        np.testing.assert_allclose(
            rest[0], least_first([work[j] for j in waiting]) / hours, rtol=1e-4
        )
        if all(class_of(0.999 * r) == class_of(1.001 * r) for r in remaining):
            both = [*(work[j] for j in waiting), *remaining]
            np.testing.assert_allclose(rest[1], least_first(both) / hours, rtol=1e-3)
        assert rest[2] * JOBS == len(rows_of_running)
        later = [j for j in range(count) if submit[j] > state.time]
        np.testing.assert_allclose(rest[3], len(later) / count, rtol=1e-6)
        for at, within in enumerate(WITHIN_S):
            near = [left[row] <= within + d for row in rows_of_running for d in (-1, 1)]
            if all(a == b for a, b in zip(near[::2], near[1::2], strict=True)):
                freed = sum(running.num_gpus[row] for row in left if left[row] <= within)
                np.testing.assert_allclose(rest[4 + at], freed / num_gpus, rtol=1e-6)
            comes = [j for j in later if submit[j] - state.time <= within]
            np.testing.assert_allclose(rest[10 + at] * JOBS, len(comes), rtol=1e-6)
            np.testing.assert_allclose(rest[16 + at], sum(work[comes]) / hours, rtol=1e-5)
        started |= set(metrics.running[step][metrics.running[step] >= 0].tolist())
        seen_waiting, seen_running = seen_waiting + len(waiting), seen_running + len(left)
    assert min(seen_waiting, seen_running) >= 2 * STEPS
