"""Tables of many jobs: the same episodes as word by word, and 100,000 jobs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.environment import start, step_and_reset
from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.envs.dl2 import DL2
from jaxsched.envs.dl2.jobs import dl2_tables
from jaxsched.envs.dl2.rules import dynamics, tables, turns
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops import bit_sets as bits
from tests.envs.dl2.rules.forms import few_words

SMALL = {"num_servers": 4, "window": 3, "max_slots": 60}
PUBLISHED = {"bundle_servers": "one", "demand_table": "artefact", "gpus_per_server": 8}
OPTIONS = {
    "paper": {},
    "backlog": {"reward": "backlog", "bundle_action": False},
    "window": {"rows": "window", "max_workers": 2, "max_ps": 2, "reward": "presence"},
    "ends": {"rows": "window", "misfit": "end_slot", "placement": "least_used"},
    "bundles": {"assign_bundle": True},
    "alone": {"assign_bundle": True, "comm": "ps", **PUBLISHED},
    "all-reduce": {"assign_bundle": True, "comm": "allreduce"},
}
NUM_COPIES, NUM_STEPS = 3, 400


def walk(env: DL2):
    """States and time steps of some copies, played side by side by chance."""
    params = env.params(dl2_tables(3, 2, num_jobs=70, peak=9.0, variation=0.2))

    def step(current, key):
        def one(key, current):
            _, mask = env.observe(current.state, params)
            action = jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
            return step_and_reset(env, key, current, action.astype(jnp.int32), params)

        current, timestep = jax.vmap(one)(jax.random.split(key, NUM_COPIES), current)
        return current, (current, timestep)

    def play(keys):
        first = jax.vmap(lambda key: start(env, key, params))(keys[:NUM_COPIES])
        return jax.lax.scan(step, first, keys)[1]

    keys = jax.random.split(jax.random.key(5), NUM_STEPS)
    return jax.tree.map(np.asarray, jax.jit(play)(keys))


@pytest.mark.parametrize("name", OPTIONS)
def test_both_forms_play_the_same_episodes(name):
    env = DL2(**(SMALL | OPTIONS[name]))
    usual = walk(env)
    with few_words(1):
        many = walk(env)
    assert usual[1].metrics.slot_ended.any()
    assert usual[1].reward.any()
    jax.tree.map(np.testing.assert_array_equal, many, usual)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.4, 1.0])
@pytest.mark.parametrize("most", [1, 16, 32])
def test_sets_of_many_words(most, share):
    flags = np.random.default_rng(0).random(32 * 17) < share
    members = np.flatnonzero(flags)
    asked = np.arange(-3, len(flags) + 3)

    @jax.jit
    def looked_up(flags):
        words = bits.to_words(flags)
        return (
            bits.nth(words, jnp.asarray(asked).reshape(1, -1), -7),
            bits.members(words, jnp.asarray(asked)),
            jax.vmap(lambda index: bits.rank(words, index))(jnp.asarray(asked)),
            jax.vmap(lambda index: bits.first_from(words, index, -7))(jnp.asarray(asked)),
        )

    with few_words(most):
        nth, inside, rank, first = looked_up(jnp.asarray(flags))
    expected = np.full(len(asked), -7)
    expected[3 : 3 + len(members)] = members
    assert nth.tolist() == [expected.tolist()]
    assert inside.tolist() == np.pad(flags, 3).tolist()
    assert rank.tolist() == np.searchsorted(members, asked).tolist()
    later = np.append(members, -7)[np.searchsorted(members, asked)]
    assert first.tolist() == later.tolist()


def test_a_hundred_thousand_jobs():
    """The first are seen first; where only the last five are left, these finish."""
    env, number = DL2(), np.arange(100_000)
    columns = {"submit_time": number // 200 * 1200, "model": number % 8, "epochs": 2.0 + number % 3}
    params = env.params([JobTable(columns, schema=DL2_JOBS)])
    state, _ = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    assert state.rows.tolist() == list(range(10))
    assert np.sum(bits.count(state.active)) == 200

    none, last = params.jobs.empty_row, np.arange(99_995, 100_000)
    progress = params.jobs.true_epochs[0].at[last].set(0.0)
    state = dynamics.next_slot(env.rules, state, params.jobs, progress, jnp.bool_(True))
    state = state._replace(rows=turns.rows_of(env.rules, state, none))
    assert int(state.slot) == 499
    assert state.rows.tolist() == [*last, *[none] * 5]
    step, finished = jax.jit(env.step), set()
    while not dynamics.is_finished(state):
        _, mask = env.observe(state, params)
        action = np.flatnonzero(mask)[0]
        state, timestep = step(jax.random.key(0), state, jnp.int32(action), params)
        finished |= set(np.flatnonzero(timestep.metrics.report.finished >= 0).tolist())
    assert bool(timestep.terminated)
    assert finished == set(last.tolist())


def test_longer_tables_are_refused(monkeypatch):
    monkeypatch.setattr(tables, "MAX_JOBS", 5)
    with pytest.raises(JaxschedError, match="has 6 jobs; accepted: at most 5"):
        DL2().params(dl2_tables(0, 1, num_jobs=6))
