"""Units of an action that have an effect: what changes alone changes the schedule."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.agents import unit_mean
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learn import DASNetwork
from jaxsched.envs.das.learn.agents import ORDERING, PLACEMENT, effective_units
from jaxsched.envs.das.learn.policies import agents_of
from jaxsched.envs.das.rules import dynamics
from tests.envs.das.tables import ENV, params_of

N, M = ENV.window, ENV.num_servers
BLOCK = replace(ENV, on_no_fit="block")


@pytest.fixture(scope="module", params=[ENV, BLOCK], ids=["skip", "block"])
def decisions(request):
    """Environment, and states with an action each, met in random play."""
    env = request.param
    params = params_of(env, 1, jobs=30)

    def step(state, key):
        one, two = jax.random.split(key)
        action = {
            "priority": jax.random.normal(one, (N,)),
            "affinity": jax.random.normal(two, (N, M)),
        }
        return env.step(key, state, action, params)[0], (state, action)

    @jax.jit
    def play(key):
        state, _ = env.reset(key, params, jnp.int32(0))
        _, (states, actions) = jax.lax.scan(step, state, jax.random.split(key, 24))
        seen = jax.vmap(lambda s: env.observe(s, params)[0])(states)
        return states, actions, effective_units(env, seen, actions)

    return (env, *jax.tree.map(np.asarray, play(jax.random.key(3))))


@cache
def _decide(env):
    def one(state, priority, affinity):
        found = dynamics.decide(env, state, priority, affinity)
        return found.counts[found.rank]

    return jax.jit(jax.vmap(one))


def _allocations(env, states, actions):
    """Instances by position and machine that the decisions place, int8 ``[24, N, M]``."""
    return np.asarray(_decide(env)(states, actions["priority"], actions["affinity"]))


@pytest.mark.parametrize(("agent", "part"), [(ORDERING, "priority"), (PLACEMENT, "affinity")])
def test_units_without_effect_change_no_schedule(decisions, agent, part):
    """Whatever they hold; and there are both kinds among the real positions."""
    env, states, actions, active = decisions
    real = np.asarray(jax.vmap(dynamics.real_positions)(states))
    assert active[agent].sum() >= 5 and (real & ~active[agent]).sum() >= 5
    assert not (active[agent] & ~real).any()
    usual = _allocations(env, states, actions)
    for position in range(N):
        changed = {name: values.copy() for name, values in actions.items()}
        other = np.random.default_rng(position).normal(size=changed[part][:, position].shape)
        changed[part][:, position] = other
        idle = ~active[agent][:, position]
        found = _allocations(env, states, changed)
        np.testing.assert_array_equal(found[idle], usual[idle])


def test_rows_with_effect_change_where_their_job_goes(decisions):
    """Some other row does, for each of them."""
    env, states, actions, active = decisions
    moved = np.zeros_like(active[PLACEMENT])
    usual = _allocations(env, states, actions)
    for position in range(N):
        for machine in range(M):
            changed = {name: values.copy() for name, values in actions.items()}
            changed["affinity"][:, position] = np.eye(M)[machine]
            found = _allocations(env, states, changed)
            moved[:, position] |= (found != usual).any(axis=(1, 2))
    assert moved[active[PLACEMENT]].all()


def test_agents_leave_units_without_effect_out():
    """Their log densities, entropies and flags, and so the means over units."""
    env = DAS(num_servers=ENV.num_servers, window=N)
    params = params_of(env, 1, jobs=30)
    network = DASNetwork(variant="DA", width=8, heads=2)
    plain, thrifty = (agents_of("das", env, network, units) for units in ("real", "effective"))

    @jax.jit
    def found():
        _, first = env.reset(jax.random.key(0), params, jnp.int32(0))
        seen = jax.tree.map(lambda x: x[None], first.observation)
        weights = plain.init(jax.random.key(1), env.specs(params))
        action, _ = plain.sample(weights, seen, None, jax.random.key(2))
        seen, action = jax.tree.map(lambda x: x[None], (seen, action))
        both = [agents.evaluate(weights, seen, None, action) for agents in (plain, thrifty)]
        return effective_units(env, seen, action), both

    active, (whole, part) = found()
    for name in (ORDERING, PLACEMENT):
        np.testing.assert_array_equal(part.active[name], whole.active[name] & active[name])
        for values, masked in zip(whole[:2], part[:2], strict=True):
            expected = np.where(active[name], values[name], 0.0)
            np.testing.assert_array_equal(masked[name], expected)
    assert float(unit_mean(whole.log_prob, whole.active)[0, 0]) != float(
        unit_mean(part.log_prob, part.active)[0, 0]
    )
