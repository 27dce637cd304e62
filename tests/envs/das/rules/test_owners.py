"""What is shown of a job's group and user: the run times of their finished jobs, and no more."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.das.learn import DASNetwork, derived_features, read
from jaxsched.envs.das.rules import DURATION, owners_of
from jaxsched.envs.das.rules.observation import ESTIMATE_NAMES, JOB_NAMES, LOG2_SCALE, PRIOR_LOG2
from tests.envs.das.tables import ENV, random_table

N, M, JOBS = ENV.window, ENV.num_servers, 40
SHOWN = replace(ENV, estimates=True)
KEY = jax.random.key(4)


def owned(seed, jobs=JOBS):
    random = np.random.default_rng(seed)
    group = random.integers(0, 6, jobs)
    return random_table(seed, jobs, gap=20).with_columns(group=group, user=group // 3)


TABLES = [owned(1), owned(2)]


def played(env, episode=1):
    """Observations and steps of an episode in random play; the actions do not depend on env."""
    params = env.params(TABLES)
    length = env.max_steps(params)

    def step(carry, key):
        state, timestep, decisions = carry
        at = jax.random.fold_in(KEY, decisions)
        action = {
            "priority": jax.random.normal(at, (N,)),
            "affinity": jax.random.normal(jax.random.fold_in(at, 1), (N, M)),
        }
        decided = env.decides(state)
        state, following = env.step(key, state, action, params)
        carry = state, following, decisions + decided
        return carry, (timestep.observation, decided, following.metrics)

    @jax.jit
    def run():
        state, first = env.reset(KEY, params, jnp.int32(episode))
        keys = jax.random.split(KEY, length)
        return jax.lax.scan(step, (state, first, jnp.int32(0)), keys)[1]

    return jax.tree.map(np.asarray, run())


@pytest.fixture(scope="module")
def episode():
    return played(SHOWN)


def _expected(table, start, finish, job, now):
    """The entries of one job from what had finished by now."""
    done = np.flatnonzero((finish >= 0) & (finish <= now))
    log2 = np.log2(np.maximum(finish - start, 1)[done])

    def drawn_towards(member, mean):
        return (log2[member].sum() + mean) / (member.sum() + 1)

    same = [table[name][done] == table[name][job] for name in ("user", "group")]
    by_user = drawn_towards(same[0], drawn_towards(np.ones(len(done), bool), PRIOR_LOG2))
    by_group = drawn_towards(same[1], by_user)
    shares = [s.sum() / (s.sum() + 1) for s in reversed(same)]
    return [by_group / LOG2_SCALE, by_user / LOG2_SCALE, *shares]


def test_estimates_are_those_of_finished_jobs(episode):
    seen, decided, metrics = episode
    table = TABLES[1]
    start, finish = (np.full(JOBS, -1) for _ in range(2))
    compared = 0
    for step in np.flatnonzero(decided):
        now, real = metrics.time[step], seen.real[step]
        shown = seen.jobs[step][:, len(JOB_NAMES) :]
        for position in np.flatnonzero(real):
            expected = _expected(table, start, finish, metrics.window[step][position], now)
            np.testing.assert_allclose(shown[position], expected, rtol=1e-5)
            compared += (finish >= 0).any()
        assert not shown[~real].any()
        placed = metrics.window[step][metrics.placed[step]]
        start[placed] = now
        ended = metrics.finish[step] >= 0
        finish[metrics.running[step][ended]] = metrics.finish[step][ended]
    assert (finish >= 0).all() and compared > 20


def test_nothing_else_changes(episode):
    seen, decided, metrics = episode
    plain, plain_decided, plain_metrics = played(ENV)
    np.testing.assert_array_equal(seen.jobs[..., : len(JOB_NAMES)], plain.jobs)
    np.testing.assert_array_equal(seen.machines, plain.machines)
    np.testing.assert_array_equal(decided, plain_decided)
    jax.tree.map(np.testing.assert_array_equal, metrics, plain_metrics)


def test_networks_read_them_beside_what_is_derived(episode):
    seen = jax.tree.map(lambda x: x[:50], episode[0])
    plain = seen._replace(jobs=seen.jobs[..., : len(JOB_NAMES)])
    derived = derived_features(ENV, plain)
    jax.tree.map(np.testing.assert_array_equal, derived_features(SHOWN, seen), derived)
    jobs, _, _ = read(SHOWN, DASNetwork(extra_features=True), seen)
    np.testing.assert_array_equal(jobs, np.concatenate([seen.jobs, derived.jobs], axis=-1))


def test_steps_of_events_show_the_same(episode):
    seen, decided, _ = episode
    other, due, _ = played(replace(SHOWN, events_per_step=2))
    np.testing.assert_allclose(other.jobs[due], seen.jobs[decided], rtol=1e-6)


def test_tables_without_owners_are_of_one():
    table = random_table(3)
    np.testing.assert_array_equal(owners_of([table])[:-1], [[1, 2]] * len(table))
    numbered = owners_of(TABLES)
    assert numbered[:-1].min() == 1 and not numbered[-1].any()
    groups = np.concatenate([table["group"] for table in TABLES])
    np.testing.assert_array_equal(numbered[:-1, 0] - 1, groups)  # all six occur in both


def test_the_spec_has_the_entries():
    params = SHOWN.params(TABLES)
    assert SHOWN.observation_spec(params).jobs.shape == (N, len(JOB_NAMES) + len(ESTIMATE_NAMES))
    assert ENV.observation_spec(ENV.params(TABLES)).jobs.shape == (N, len(JOB_NAMES))
    assert ENV.params(TABLES).owners is None


def test_redrawn_durations_are_of_the_same_group():
    """Of pending and running jobs; those of later jobs go with whoever arrives."""
    params = SHOWN.params(TABLES)
    table = TABLES[0]

    @jax.jit
    def resampled(key):
        state, _ = SHOWN.reset(KEY, params, jnp.int32(0))
        action = {"priority": jnp.zeros(N), "affinity": jnp.zeros((N, M))}
        step = lambda _, state: SHOWN.step(KEY, state, action, params)[0]  # noqa: E731
        state = jax.lax.fori_loop(0, 8, step, state)
        return SHOWN.resample_future(key, state, params)[1]

    own = {group: set(table["duration"][table["group"] == group]) for group in range(6)}
    changed = 0
    for seed in range(5):
        drawn = resampled(jax.random.key(seed))
        duration = np.asarray(drawn.rows)[:-1, DURATION]
        group = np.asarray(drawn.owners)[:-1, 0] - 1
        assert all(d in own[g] for d, g in zip(duration.tolist(), group.tolist(), strict=True))
        changed += (duration != table["duration"]).sum()
    assert changed > 20
