"""The linear rule of DAS, and the whole numbers that it reads off the observation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import baseline, weighted
from jaxsched.envs.das.heuristics.weighted import (
    LinearParams,
    decide_linear,
    init_linear,
    linear_policy,
)
from jaxsched.envs.das.rules.observation import Observation, recover
from jaxsched.envs.das.show import log
from jaxsched.errors import JaxschedError
from tests.envs.das.tables import ENV, params_of, random_table

N, M = ENV.window, ENV.num_servers
SHAPES = ((len(weighted.LOADS), len(weighted.JOB_FEATURES)),
          (len(weighted.SPLITS), len(weighted.PLACE_FEATURES)))  # fmt: skip


def random_weights(seed):
    random = np.random.default_rng(seed)
    return LinearParams(*(random.normal(size=shape).astype("f4") for shape in SHAPES))


@pytest.fixture(scope="module")
def states():
    """States of a played episode, before the steps, and what was seen there."""
    params = params_of(ENV, 1, jobs=20)

    @jax.jit
    def play(key):
        def step(state, key):
            seen, _ = ENV.observe(state, params)
            action = {
                "priority": jax.random.normal(key, (N,)),
                "affinity": jax.random.normal(key, (N, M)),
            }
            return ENV.step(key, state, action, params)[0], (state, seen)

        state, _ = ENV.reset(key, params, jnp.int32(0))
        return jax.lax.scan(step, state, jax.random.split(key, 12))[1]

    return play(jax.random.key(2))


def test_recovered_numbers_are_those_of_the_state(states):
    state, seen = states
    got = jax.jit(jax.vmap(partial(recover, ENV)))(seen)
    demand = jax.vmap(lambda state: state.window.demand)(state)
    real = np.asarray(seen.real)
    assert real.sum() > 20 and not real.all()
    for mine, theirs in [
        (got.instances, demand.instances),
        *zip(np.moveaxis(got.requests, -1, 0), demand.requests, strict=True),
    ]:
        np.testing.assert_array_equal(mine, np.where(real, theirs, 0))
    free = jax.jit(jax.vmap(ENV.free))(state.used)
    np.testing.assert_array_equal(np.moveaxis(got.free, -1, 0), jnp.stack(free))
    for step, position in np.argwhere(real):
        requests = np.asarray(got.requests[step, position])
        room = np.asarray(got.free[step])[:, requests > 0] // requests[requests > 0]
        np.testing.assert_array_equal(got.fit[step, position], room.min(axis=-1))
    assert not np.asarray(got.fit)[~real].any()
    submitted = np.asarray(seen.jobs[..., 4], np.float64) * 86400
    np.testing.assert_allclose(np.where(real, got.wait_s, 0), submitted, atol=0.05)
    assert np.max(got.wait_s) > 0


@pytest.mark.parametrize(
    "size", [{}, {"gpus_per_server": 15, "cpus_per_server": 255, "mem_per_server": 4095}]
)
def test_whole_numbers_survive_the_scaling(size):
    env = DAS(num_servers=1, window=1, **size)
    caps = env.capacity
    amounts = np.arange(max(caps) + 1)
    parts = [np.minimum(amounts, cap).astype("f4") / np.float32(cap) for cap in caps]
    waits = np.arange(len(amounts)) * 977  # up to 56 days

    @jax.jit
    @jax.vmap
    def unbatched(gpus, cpus, mem, instances, wait):
        jobs = jnp.stack([instances / 64, gpus, cpus, mem, wait / 86400])[None]
        machines = jnp.stack([cpus, gpus, mem, 0 * cpus, 1 - gpus])[None]
        return recover(env, Observation(jobs, machines, jnp.ones(1, bool)))

    got = unbatched(
        *map(jnp.asarray, parts), *(jnp.asarray(x, jnp.float32) for x in (amounts, waits))
    )
    for index, cap in enumerate(caps):
        np.testing.assert_array_equal(got.free[:, 0, index], np.minimum(amounts, cap))
        np.testing.assert_array_equal(got.requests[:, 0, index], np.minimum(amounts, cap))
    np.testing.assert_array_equal(got.instances[:, 0], amounts)
    np.testing.assert_array_equal(got.wait_s[:, 0], waits)


def test_the_search_starts_from_fifo_loadbalance():
    """The same schedule where a decision is about one job; the observation suffices for it."""
    env = DAS(num_servers=M, window=1)
    params = env.params([random_table(seed, 25) for seed in range(3)])
    weights = init_linear(jax.random.key(0), None)
    episodes, key = jnp.arange(3), jax.random.key(0)
    recorder = log.recorder(env, machines=True)
    played = [
        run_episodes(env, policy, recorder, params, episodes, key, weights).records
        for policy in (linear_policy(env), baseline("fifo_loadbalance", env))
    ]
    jax.tree.map(np.testing.assert_array_equal, *played)
    assert len(np.unique(np.asarray(played[0].start))) > 10


def test_the_start_orders_by_position_and_prefers_free_machines(states):
    _, seen = states
    action = decided(init_linear(jax.random.key(0), None), seen)
    assert (np.diff(action["priority"]) < 0).all()
    expected = np.broadcast_to(seen.machines[:, None, :, 1], action["affinity"].shape)
    np.testing.assert_allclose(action["affinity"], expected, atol=1e-6)


def test_the_other_start_takes_jobs_of_fewest_gpus_first(states):
    _, seen = states
    weights = init_linear(jax.random.key(0), None, "fewest_gpus")
    action = decided(weights, seen)
    gpus = jax.jit(jax.vmap(lambda o: recover(ENV, o).num_gpus))(seen)
    np.testing.assert_allclose(action["priority"], -gpus / 64.0, atol=1e-6)
    assert len(np.unique(np.asarray(gpus))) > 3


@jax.jit
@partial(jax.vmap, in_axes=(None, 0))
def decided(weights, seen):
    return decide_linear(ENV, weights, seen)


def test_machines_may_come_in_any_order(states):
    _, seen = states
    order = np.array([2, 0, 1])
    weights = random_weights(0)
    action = decided(weights, seen)
    other = decided(weights, seen._replace(machines=seen.machines[:, order]))
    np.testing.assert_allclose(other["priority"], action["priority"], atol=1e-5)
    np.testing.assert_allclose(other["affinity"], action["affinity"][..., order], atol=1e-5)
    assert np.std(action["affinity"], axis=-1).max() > 0.1


@pytest.mark.parametrize("junk", [9.0, np.nan])
def test_dummy_positions_do_not_matter(states, junk):
    _, seen = states
    dirty = seen._replace(jobs=jnp.where(seen.real[..., None], seen.jobs, junk))
    weights, real = random_weights(1), np.asarray(seen.real)
    clean, other = decided(weights, seen), decided(weights, dirty)
    np.testing.assert_array_equal(clean["priority"][real], other["priority"][real])
    np.testing.assert_array_equal(clean["affinity"][real], other["affinity"][real])
    assert all(np.isfinite(part).all() for part in other.values())


def test_every_weight_matters(states):
    """No feature is constant, or the copy of another, over a played episode."""
    _, seen = states

    @jax.jit
    @jax.vmap
    def features(seen):
        known = recover(ENV, seen)
        return (
            jnp.stack(weighted.load_features(ENV, known)),
            jnp.stack(weighted.job_features(ENV, known), -1),
            jnp.stack(weighted.place_features(ENV, known, seen.machines[..., 3]), -1),
        )

    loads, jobs, place = map(np.asarray, features(seen))
    real = np.asarray(seen.real)
    loads, jobs = loads[real.any(axis=-1)], jobs[real]
    place = place[real].reshape(-1, len(weighted.PLACE_FEATURES))
    for names, rows in (
        (weighted.LOADS, loads),
        (weighted.JOB_FEATURES, jobs),
        (weighted.PLACE_FEATURES, place),
    ):
        assert rows.shape[-1] == len(names)
        assert np.abs(rows).max() <= 1.5
        assert np.linalg.matrix_rank(np.asarray(rows)) == len(names)


def test_the_fewest_machines_of_a_job():
    """Against the definition: the fullest fits first."""
    machines = np.array([[1, 5 / 8, 1, 1, 3 / 8], [1, 1, 1, 1, 0], [1, 2 / 8, 1, 1, 6 / 8]], "f4")
    jobs = np.array([[c / 64, 1 / 8, 0, 0, 0] for c in (8, 9, 13, 14)], "f4")
    env = DAS(num_servers=3, window=4)
    seen = Observation(jnp.asarray(jobs), jnp.asarray(machines), jnp.ones(4, bool))
    spread = weighted.job_features(env, recover(env, seen))[weighted.JOB_FEATURES.index("spread")]
    np.testing.assert_allclose(spread * 3, [1, 2, 2, 3], rtol=1e-6)


def test_found_rules_are_of_this_form():
    for size, rule in weighted.known_rules().items():
        assert size >= 1
        assert (rule.order.shape, rule.place.shape) == SHAPES
        assert all(np.isfinite(part).all() for part in rule)


def test_the_rule_of_the_nearest_size_is_taken(monkeypatch):
    rules = {8: random_weights(8), 32: random_weights(32)}
    monkeypatch.setattr(weighted, "known_rules", lambda: rules)
    for size, chosen in ((3, 8), (8, 8), (19, 8), (21, 32), (64, 32)):
        assert weighted.found_rule(DAS(num_servers=size)) is rules[chosen]
    monkeypatch.setattr(weighted, "known_rules", dict)
    with pytest.raises(JaxschedError, match="holds no rule; train one"):
        weighted.found_rule(ENV)


def test_given_weights_take_the_place_of_the_network(states):
    _, seen = states
    one = jax.tree.map(lambda x: x[3], seen)
    weights = random_weights(4)
    view = View(one, one.real, None, None)
    fixed, _ = linear_policy(ENV, weights).act((), (), view, jax.random.key(0))
    learnt, memory = linear_policy(ENV).act(weights, (), view, jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, fixed, learnt)
    assert memory == ()
