"""What must hold in every DL2 episode, under random play and under every policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import uniform_legal
from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.elastic.models import PS_NEEDS, WORKER_NEEDS
from jaxsched.envs.dl2 import DL2, DL2Slots
from jaxsched.envs.dl2.heuristics import Allocation
from jaxsched.envs.dl2.heuristics.baselines import baseline, plan_rule
from jaxsched.envs.dl2.jobs import dl2_tables
from jaxsched.envs.dl2.rules.dynamics import parameter_servers, workers
from jaxsched.envs.dl2.show import log as rec
from jaxsched.envs.dl2.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.ops import bit_sets as bits
from jaxsched.systems import functions

ENV = DL2(num_servers=4, window=3, max_slots=300)
TABLES = dl2_tables(5, 3, num_jobs=7, peak=1.0, variation=0.2)


@pytest.fixture(scope="module")
def params():
    return ENV.params(TABLES)


@pytest.fixture(scope="module")
def walk(params):
    """States before 600 steps of uniform legal play of three episodes, and the time steps."""

    def one(episode, key):
        def step(state, key):
            _, mask = ENV.observe(state, params)
            action = jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
            after, timestep = ENV.step(key, state, action.astype(jnp.int32), params)
            return after, (state, timestep)

        state, _ = ENV.reset(key, params, episode)
        return jax.lax.scan(step, state, jax.random.split(key, 600))[1]

    keys = jax.random.split(jax.random.key(0), 3)
    rows = jax.jit(jax.vmap(one))(jnp.arange(3, dtype=jnp.int32), keys)
    return jax.tree.map(np.asarray, rows)


def test_capacity_is_never_exceeded_and_all_tasks_are_somewhere(walk, params):
    state, _ = walk
    layout = ENV.cluster.layout
    free = np.asarray(layout.unpack(jnp.asarray(state.servers.free)))  # [E, T, S, R]
    assert (free >= 0).all()
    used = (np.array(layout.capacity) - free).sum(axis=2)
    model = np.minimum(np.asarray(params.jobs.model), len(WORKER_NEEDS) - 1)[:, None]
    w, p = workers(state.tasks)[..., None], parameter_servers(state.tasks)[..., None]
    needed = (w * WORKER_NEEDS[model] + p * PS_NEEDS[model]).sum(axis=2)
    np.testing.assert_array_equal(used, needed)
    assert used.max() > 0


def test_cached_numbers_are_those_of_the_servers(walk):
    """Load order, hosts of each PS need, and what fits."""
    state, _ = walk
    cluster = ENV.cluster
    free = np.asarray(cluster.layout.unpack(jnp.asarray(state.servers.free)))
    used = np.array(cluster.layout.capacity) - free
    load = used @ np.array([24, 6, 1])
    order = load * ENV.num_servers + np.arange(ENV.num_servers)
    np.testing.assert_array_equal(state.servers.order, order)
    for index, need in enumerate(cluster.ps_needs):
        amounts = np.asarray(cluster.layout.unpack(jnp.int32(int(need))))
        fits = (amounts <= free).all(axis=-1).sum(axis=-1)
        np.testing.assert_array_equal(state.servers.hosts[..., index], fits)


def test_rewards_add_up_to_the_number_of_jobs(walk):
    _, timestep = walk
    assert timestep.terminated[:, -1].all()
    np.testing.assert_allclose(timestep.reward.sum(axis=1), 7.0, rtol=1e-5)
    ended = timestep.metrics.slot_ended
    assert (timestep.reward[~ended] == 0).all()
    assert (timestep.reward[ended] > 0).any()
    np.testing.assert_allclose(timestep.reward, timestep.metrics.job_reward.sum(-1), rtol=1e-5)
    assert ((timestep.elapsed > 0) == ended).all()


def test_records_agree_with_the_steps(walk, params):
    outcome = run_episodes(
        ENV,
        uniform_legal(),
        rec.recorder(ENV),
        params,
        jnp.arange(3, dtype=jnp.int32),
        jax.random.key(0),
    )
    metrics = rec.summarise(ENV, params, np.arange(3), outcome.records)
    assert (metrics["finished"] == 7).all()
    np.testing.assert_array_equal(metrics["decisions"], outcome.length)
    np.testing.assert_allclose(metrics["total_reward"], outcome.episode_return, rtol=1e-5)
    assert (metrics["makespan"] >= metrics["avg_jct"]).all()
    assert (metrics["utilization"] <= 1).all()
    (shown,) = functions.schedules(SYSTEM, ENV, params, np.arange(3), outcome.records, [1])
    assert len(shown.pieces.job) == 7
    assert np.all((shown.submit <= shown.start) & (shown.start < shown.finish))


@pytest.mark.parametrize("name", ["drf", "tetris", "optimus", "optimus_fill", "probe"])
def test_plans_list_their_increments_and_fit(name):
    """The increments add up to the allocation, and each task is on a server with room for it."""
    env = DL2Slots(num_servers=4, max_workers=6, max_ps=5)
    params = env.params(TABLES)
    rule = plan_rule(name, env, log=True)

    @jax.jit
    def play(episode):
        def slot(carry, _):
            state, memory = carry
            made, memory = rule.plan(memory, state, params)
            after, _ = env.step(jax.random.key(0), state, Allocation(made.workers, made.ps), params)
            return (after, memory), made

        state, _ = env.reset(jax.random.key(0), params, episode)
        return jax.lax.scan(slot, (state, rule.init(params)), length=12)[1]

    made = jax.tree.map(np.asarray, play(jnp.int32(0)))
    model = np.asarray(params.jobs.model)[0]
    for t in range(12):
        used = np.zeros((4, 3), int)
        w, p = np.zeros_like(made.workers[t]), np.zeros_like(made.ps[t])
        for i in range(made.count[t]):
            job, (first, second) = made.job[t, i], made.servers[t, i]
            assert (first >= 0) == (made.kind[t, i] != 1)
            assert (second >= 0) == (made.kind[t, i] != 0)
            if first >= 0:
                used[first] += WORKER_NEEDS[model[job]]
                w[job] += 1
            if second >= 0:
                used[second] += PS_NEEDS[model[job]]
                p[job] += 1
        assert (used <= env.cluster.layout.capacity).all()
        np.testing.assert_array_equal(made.workers[t], w)
        np.testing.assert_array_equal(made.ps[t], p)
        assert (made.job[t, made.count[t] :] == params.jobs.empty_row).all()
    assert made.count.max() > 2


def test_bit_sets():
    rng = np.random.default_rng(0)
    flags = rng.random(96) < 0.4
    words = bits.to_words(jnp.asarray(flags))
    members = np.flatnonzero(flags)
    assert (np.asarray(bits.to_flags(words)) == flags).all()
    which = jnp.arange(-1, len(members) + 3)
    expected = [99, *members, 99, 99, 99]
    assert bits.nth(words, which, 99).tolist() == expected
    for index in (0, 1, 31, 32, 33, 63, 64, 95):
        assert int(bits.rank(words, jnp.int32(index))) == (members < index).sum()
        later = members[members >= index]
        assert int(bits.first_from(words, jnp.int32(index), 99)) == (later[0] if later.size else 99)
        assert bool(bits.contains(words, jnp.int32(index))) == flags[index]
    nothing = jnp.zeros(3, jnp.uint32)
    assert int(bits.first_from(nothing, jnp.int32(0), 99)) == 99
    assert bits.nth(nothing, jnp.arange(2), 99).tolist() == [99, 99]


def test_tables_are_sorted_by_submission_and_need_not_start_at_zero():
    columns = {"submit_time": [5000, 1300, 5000], "model": [1, 2, 3], "epochs": [4.0, 5.0, 6.0]}
    params = ENV.params([JobTable(columns, schema=DL2_JOBS)])
    assert params.jobs.model[0, :3].tolist() == [2, 1, 3]
    state, _ = ENV.reset(jax.random.key(0), params, jnp.int32(0))
    assert int(state.slot) == 2
    assert params.jobs.true_epochs[0, :4].tolist() == [5.0, 4.0, 6.0, 0.0]


def test_parameters_are_checked():
    with pytest.raises(JaxschedError, match="speed_mode"):
        ENV.params(TABLES, speed_mode="fast")
    with pytest.raises(JaxschedError, match="8 x 5"):
        ENV.params(TABLES, coefficients=[[1.0] * 5])
    with pytest.raises(JaxschedError, match="max_workers"):
        DL2(max_workers=256)
    with pytest.raises(JaxschedError, match="known are"):
        baseline("sjf", DL2Slots())
    faster = ENV.params(TABLES, coefficients=np.full((8, 5), 2.0))
    assert float(faster.speed.seconds[0, 1, 1]) == pytest.approx(10 - 4 / 3)
