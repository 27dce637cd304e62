"""MLFS where JAX computes in 64 bits by default: the same types, the same decisions, and bounds.

But for one play, programs are traced, not compiled: their arrays are those of 32 bits. (Python's
own numbers are scalars of 64 bits until they meet an array.)
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.systems import functions, registry
from tests.instances import INSTANCES

SYSTEM = registry.get("mlfs")
STEPS = 120
WIDE = re.compile(r"\b[iuf]64\[\d")  # arrays in the text of a program


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def described(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)


def dtypes(tree):
    return {str(leaf.dtype) for leaf in jax.tree.leaves(tree)}


@pytest.mark.parametrize("kind", INSTANCES["mlfs"])
def test_states_and_time_steps_keep_their_types(kind, x64):
    _, env, params, *_ = INSTANCES["mlfs"][kind]()
    state, seen = jax.eval_shape(env.reset, jax.random.key(0), params, jnp.int32(0))
    step, (after, later) = jax.make_jaxpr(env.step, return_shape=True)(
        jax.random.key(0), state, jnp.int32(0), params
    )
    assert set(WIDE.findall(str(step))) == set()
    assert described(after) == described(state) and described(later) == described(seen)
    spec = env.observation_spec(params)
    assert (seen.observation.shape, seen.observation.dtype) == (spec.shape, spec.dtype)
    assert np.isfinite([spec.minimum, spec.maximum]).all()
    assert not {"int64", "uint64", "float64"} & (dtypes(state) | dtypes(seen) | dtypes(params))


@pytest.mark.parametrize("name", SYSTEM.policies)
def test_heuristics_compute_in_32_bits(name, x64):
    _, env, params, *_ = INSTANCES["mlfs"]["paper"]()
    heuristic = functions.heuristic(SYSTEM, name, env, 5, {})
    first_action(heuristic.env, heuristic.policy, params, ())


@pytest.mark.parametrize("kind", ["servers", "rl"])
def test_networks_compute_in_32_bits(kind, x64):
    _, env, params, *_ = INSTANCES["mlfs"]["paper"]()
    weights = jax.eval_shape(lambda: functions.init_weights(SYSTEM, env, kind, params))
    assert dtypes(weights) == {"float32"}
    for play in ("greedy", "sampled"):
        first_action(
            env, functions.network_policy(SYSTEM, env, kind, "mine", play), params, weights
        )


def first_action(env, policy, params, weights):
    """Trace the first slot of an episode in the policy's order, and its first action."""

    def act(params, weights):
        state, seen = env.reset(jax.random.key(0), params, jnp.int32(0))
        view = View(seen.observation, seen.action_mask, state, params)
        return policy.act(weights, (), view, jax.random.key(0))[0]

    program, action = jax.make_jaxpr(act, return_shape=True)(params, weights)
    assert set(WIDE.findall(str(program))) == set()
    assert action.shape == () and jnp.issubdtype(action.dtype, jnp.integer)


def played(params, env, policy):
    """What is seen and done in the first steps of an episode, and the slots in which it is."""

    @jax.jit
    def play(params, ranks):
        def step(carry, ranks):
            state, timestep = carry
            view = View(timestep.observation, timestep.action_mask, state, params)
            chosen, _ = policy.act((), (), view, jax.random.key(0))
            drawn = jnp.argmax(jnp.where(timestep.action_mask, ranks[1:], -1.0))
            action = jnp.where(ranks[0] < 0.5, chosen, drawn).astype(jnp.int32)
            carry = env.step(jax.random.key(0), state, action, params)
            return carry, (timestep.observation, timestep.action_mask, action, state.slot)

        first = env.reset(jax.random.key(0), params, jnp.int32(0))
        return jax.lax.scan(step, first, ranks)[1]

    ranks = np.random.default_rng(3).random((STEPS, env.num_servers + 2), np.float32)
    return jax.tree.map(np.asarray, play(params, ranks))


@pytest.mark.slow  # compiles two programs; the others see that both compute alike
def test_decisions_are_those_of_single_precision_and_within_the_bounds():
    found = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            _, env, params, *_ = INSTANCES["mlfs"]["paper"]()
            heuristic = functions.heuristic(SYSTEM, "mlf_h", env, 5, {})
            found.append(played(params, heuristic.env, heuristic.policy))
            spec = env.observation_spec(params)
    single, double = found
    jax.tree.map(np.testing.assert_array_equal, single, double)
    seen, _, action, slot = single
    assert described(single) == described(double)
    assert slot[-1] > slot[0] and len(set(action.tolist())) == env.num_servers + 1
    assert np.isfinite([spec.minimum, spec.maximum]).all()
    assert seen.min() >= spec.minimum and seen.max() <= spec.maximum


def test_bounds_are_open_where_the_tables_are_not_known():
    _, env, params, *_ = INSTANCES["mlfs"]["paper"]()
    seen = []
    jax.eval_shape(lambda params: seen.append(env.observation_spec(params).maximum), params)
    assert seen == [float("inf")] == [env.observation_spec().maximum]
