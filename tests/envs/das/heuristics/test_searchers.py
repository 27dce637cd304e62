"""The meta-heuristics of DAS: never worse than where they start, and blind to dummy positions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.envs.das.heuristics import (
    SEARCHERS,
    baseline,
    first_candidate,
    malo,
    mosa,
    neighbour,
    searcher,
    surrogate,
)
from jaxsched.envs.das.rules.dynamics import real_positions
from jaxsched.errors import JaxschedError
from tests.envs.das.tables import ENV, params_of

N, M = ENV.window, ENV.num_servers
PARAMS = params_of(ENV, 4, jobs=16)
SMALL = {"mosa": partial(mosa, iterations=15), "malo": partial(malo, iterations=5, population=6)}


@pytest.fixture(scope="module")
def states():
    """Some decisions into each table, played by random actions; leaves ``[12, ...]``."""

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0))
    def some(episode, key):
        state, _ = ENV.reset(key, PARAMS, episode)

        def step(state, key):
            action = {
                "priority": jax.random.normal(key, (N,)),
                "affinity": jax.random.normal(key, (N, M)),
            }
            return ENV.step(key, state, action, PARAMS)[0], state

        return jax.lax.scan(step, state, jax.random.split(key, 3))[1]

    found = some(jnp.arange(4), jax.random.split(jax.random.key(0), 4))
    return jax.tree.map(lambda x: x.reshape(12, *x.shape[2:]), found)


@pytest.fixture(scope="module", params=SEARCHERS)
def searched(request, states):
    """The search as a function of a key, at every state."""
    search = SMALL[request.param]
    at_all = jax.vmap(lambda state, key: search(ENV, state, PARAMS, key))
    return jax.jit(lambda key: at_all(states, jax.random.split(key, 12)))


@jax.jit
@jax.vmap
def cost_of(state, action):
    return jnp.stack(surrogate(ENV, state, PARAMS, action))


def starts(states):
    return jax.jit(jax.vmap(lambda state: first_candidate(ENV, real_positions(state))))(states)


def test_the_start_is_first_come_first_served_first_fit(states):
    rule = baseline("fifo_firstfit", ENV)
    act = jax.vmap(lambda state: rule.act((), (), View(None, None, state, PARAMS), None)[0])
    start = starts(states)
    np.testing.assert_array_equal(cost_of(states, start), cost_of(states, jax.jit(act)(states)))
    assert all(part.min() >= -4 and part.max() <= 0 for part in jax.tree.leaves(start))
    real = np.asarray(jax.vmap(real_positions)(states))
    assert (np.asarray(start["priority"])[real] > -1).all()


def test_searches_are_never_worse_than_their_start(searched, states):
    start = cost_of(states, starts(states))[:, 2]
    found = cost_of(states, searched(jax.random.key(0)))[:, 2]
    assert (found <= start).all()
    assert (found < start).any()


def test_searches_are_functions_of_the_key(searched):
    one, same, other = (searched(jax.random.key(seed)) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert not np.array_equal(one["affinity"], other["affinity"])
    for part in jax.tree.leaves(one):
        assert np.isfinite(part).all() and np.abs(part).max() <= N


def test_only_real_positions_are_priced(searched, states):
    """What a search leaves in dummy positions neither costs nor does anything."""
    real = np.asarray(jax.vmap(real_positions)(states))
    assert not real.all()
    action = searched(jax.random.key(3))
    junk = {
        "priority": jnp.where(real, action["priority"], jnp.nan),
        "affinity": jnp.where(real[..., None], action["affinity"], 9.0),
    }
    np.testing.assert_array_equal(cost_of(states, action), cost_of(states, junk))


def test_a_neighbour_differs_in_one_real_position():
    real = jnp.array([True, True, True, False])
    start = first_candidate(ENV, real)
    keys = jax.random.split(jax.random.key(0), 400)
    drawn = jax.jit(jax.vmap(partial(neighbour, real), (0, None)))(keys, start)
    moved = {
        name: np.asarray(drawn[name] != start[name]).reshape(400, N, -1).any(-1) for name in start
    }
    either = moved["priority"] | moved["affinity"]
    assert (either.sum(axis=-1) == 1).all()
    assert not either[:, 3].any()
    np.testing.assert_allclose(either.mean(axis=0)[:3], 1 / 3, atol=0.1)
    np.testing.assert_allclose(moved["priority"].any(-1).mean(), 0.5, atol=0.1)
    assert all(np.abs(part).max() <= 1 for part in jax.tree.leaves(drawn))


def test_policies_read_the_state(states):
    state = jax.tree.map(lambda x: x[1], states)
    key = jax.random.key(5)
    policy = searcher("mosa", ENV)
    action, memory = jax.jit(policy.act)((), (), View(None, None, state, PARAMS), key)
    expected = jax.jit(partial(mosa, ENV))(state, PARAMS, key)
    jax.tree.map(np.testing.assert_array_equal, action, expected)
    assert policy.privileged and memory == ()


def test_unknown_searchers_are_refused():
    with pytest.raises(JaxschedError, match="unknown searcher 'ants'; known are mosa, malo"):
        searcher("ants", ENV)
