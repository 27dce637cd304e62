"""Redrawn futures: what has happened stays, what is to come is a bootstrap of the table."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View, uniform_legal
from tests.instances import INSTANCES

CASES = [("sched2", "learner"), ("dl2", "paper"), ("chic", "paper"), ("mlfs", "paper")]
STEPS = (0, 3, 9)
DRAWS = 64


class Table:
    """Submissions and jobs of one episode, however a system stores them; rows that are jobs."""

    def __init__(self, name, params, episode):
        jobs = params if name == "mlfs" else params.jobs
        first = int(jobs.offset[episode]) if name == "mlfs" else 0
        rows = slice(first, first + int(jobs.num_jobs[episode]))
        read = lambda column: np.asarray(column[rows] if name == "mlfs" else column[episode][rows])  # noqa: E731
        if name == "mlfs":
            self.submit = read(params.submit_s)
            own = np.delete(read(params.rows), [0, 1, 2], axis=1)  # all but the times
        elif name == "sched2":
            self.submit = read(jobs.submit_time)
            own = np.column_stack([read(jobs.num_gpus), read(jobs.model), read(jobs.run_time)])
        elif name == "chic":
            self.submit, own = read(jobs.submit_time), read(jobs.workload)[:, None]
        else:
            self.submit = read(jobs.submit_time)
            own = np.column_stack([read(jobs.model), read(jobs.info) & 4095, read(jobs.epochs)])
        self.jobs = [tuple(row) for row in own.tolist()]


def known_and_now(name, env, state, table):
    """How many jobs of an episode were submitted, and the time (s)."""
    now = {"mlfs": lambda: 60 * state.slot, "dl2": lambda: env.slot_seconds * state.slot}
    seconds = float(now.get(name, lambda: state.time)())
    return int(np.sum(table.submit <= seconds)), seconds


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0])
def case(request):
    """Name, environment, parameters, what redraws many futures, and states of the first episode."""
    name, kind = request.param
    made = INSTANCES[name][kind]()
    env, policy = made.env, uniform_legal()

    @jax.jit
    def advance(key, state):
        observation, mask = env.observe(state, made.params)
        view = View(observation, mask, state, made.params)
        action, _ = policy.act((), (), view, key)
        return env.step(key, state, action, made.params)[0]

    redraw = jax.jit(jax.vmap(env.resample_future, (0, None, None)))
    state, states = jax.jit(env.reset)(jax.random.key(0), made.params, jnp.int32(0))[0], []
    for step in range(max(STEPS) + 1):
        if step in STEPS:
            states.append(state)
        state = advance(jax.random.key(step), state)
    return name, env, made.params, redraw, states


def futures(case, state):
    name, env, params, redraw, _ = case
    after, drawn = redraw(jax.random.split(jax.random.key(1), DRAWS), state, params)
    pick = lambda tree, place: jax.tree.map(lambda leaf: leaf[place], tree)  # noqa: E731
    return [(pick(after, place), pick(drawn, place)) for place in range(DRAWS)]


def test_the_past_stays_and_the_future_is_of_the_table(case):
    name, env, params, _, states = case
    for state in states:
        true = Table(name, params, int(state.episode))
        known, now = known_and_now(name, env, state, true)
        for after, drawn in futures(case, state):
            found = Table(name, drawn, 0)
            assert env.num_episodes(drawn) == 1 and env.max_steps(drawn) == env.max_steps(params)
            assert len(found.submit) == len(true.submit)
            assert np.array_equal(found.submit[:known], true.submit[:known])
            assert found.jobs[:known] == true.jobs[:known]
            assert np.all(np.diff(found.submit) >= 0) and np.all(found.submit[known:] > now)
            assert set(found.jobs) <= set(true.jobs)
            same = after._replace(episode=state.episode)
            assert all(map(np.array_equal, jax.tree.leaves(same), jax.tree.leaves(state)))


def test_gaps_and_jobs_are_drawn_independently(case):
    name, env, params, _, states = case
    true = Table(name, params, 0)
    known, now = known_and_now(name, env, states[0], true)
    drawn = [Table(name, drawn, 0) for _, drawn in futures(case, states[0])]
    assert known < len(true.submit) - 1, "the instance leaves nothing to draw"
    gaps = np.diff(true.submit)
    new = np.concatenate([np.diff(table.submit[known:]) for table in drawn])
    assert np.all(np.isclose(new[:, None], gaps, atol=0.01).any(axis=1))
    assert abs(new.mean() - gaps.mean()) < 4 * gaps.std() / len(new) ** 0.5 + 1e-9
    first = np.array([table.submit[known] for table in drawn]) - true.submit[known - 1]
    longer = gaps[gaps > now - true.submit[known - 1]]
    assert set(np.round(first)) == set(np.round(longer))
    counts = {job: sum(table.jobs[known:].count(job) for table in drawn) for job in true.jobs}
    share = np.array(list(counts.values())) / len(new)
    assert share.min() > 0.3 / len(true.jobs)


def test_futures_play_to_their_end(case):
    name, env, params, redraw, states = case
    policy = uniform_legal()

    @partial(jax.jit, static_argnames="most")
    def play(key, state, params, most):
        def step(carry, key):
            state, over = carry
            observation, mask = env.observe(state, params)
            action, _ = policy.act((), (), View(observation, mask, state, params), key)
            state, timestep = env.step(key, state, action, params)
            return (state, over | timestep.done), mask[action] & jnp.isfinite(timestep.reward)

        carry, legal = jax.lax.scan(step, (state, jnp.bool_(False)), jax.random.split(key, most))
        return carry[1], legal.all()

    after, drawn = redraw(jax.random.split(jax.random.key(2), 8), states[1], params)
    keys, most = jax.random.split(jax.random.key(3), 8), min(env.max_steps(params), 1500)
    ended, legal = jax.vmap(play, (0, 0, 0, None))(keys, after, drawn, most)
    assert np.all(ended) and np.all(legal)


@pytest.mark.parametrize("case", [("dl2", "paper")], indirect=True, ids=["dl2"])
def test_hidden_epochs_are_redrawn_so_that_unfinished_jobs_stay_unfinished(case):
    name, env, params, redraw, states = case
    state, jobs = states[-1], params.jobs
    count = int(jobs.num_jobs[0])
    true, estimate = np.asarray(jobs.true_epochs[0]), np.asarray(jobs.epochs[0])
    progress = np.zeros_like(true)
    progress[:3] = [true[0], 0.95 * estimate[1], 0.5 * estimate[2]]  # the first one has finished
    _, drawn = redraw(
        jax.random.split(jax.random.key(4), DRAWS),
        state._replace(progress=jnp.asarray(progress)),
        params,
    )
    found, given = np.asarray(drawn.jobs.true_epochs[:, 0]), np.asarray(drawn.jobs.epochs[:, 0])
    assert np.all(found[:, 0] == true[0]) and np.all(found[:, 1:count] > progress[1:count])
    errors = true[:count] / estimate[:count]
    shares = found[:, 1:count] / given[:, 1:count]
    assert np.all(np.isclose(shares[..., None], errors, rtol=1e-5).any(axis=-1))
    assert len(np.unique(np.round(shares[:, 1], 5))) == count  # half trained: any is possible
    late = np.unique(np.round(shares[:, 0], 5))
    assert np.allclose(late, np.sort(errors[errors > 0.95]), atol=1e-4)
