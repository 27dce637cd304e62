"""SCHED2, DL2 and Chic with JAX's 64-bit types switched on: dtypes stay what they are said to be.

Programs are traced, not compiled: loops refuse a state whose dtypes change from step to step.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core.evaluation import run_episodes
from jaxsched.systems import functions, registry

SMALL = {
    "sched2": {"window": 3, "extras": True, "auto_advance": True},
    "dl2": {"num_servers": 3, "window": 3, "max_slots": 30},
    "chic": {"window": 2, "capacity": (4, 30, 150)},
}
TRACES = {"sched2": "sched2-68", "dl2": "dl2-sim", "chic": "chic-1.80"}
HEURISTICS = [(name, policy) for name in SMALL for policy in registry.get(name).policies]
NETWORKS = {"sched2": "paper", "dl2": "mlp-8", "chic": "mlp-8"}


def system_and_env(name):
    system = registry.get(name)
    return system, functions.environment(system, **SMALL[name])


def small_params(system, env):
    tables = traces.get(TRACES[system.name], num_traces=2, num_jobs=5)
    return env.params(tables)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("wide", [False, True])
def test_states_and_observations_keep_their_dtypes(name, wide):
    with jax.enable_x64(wide):
        system, env = system_and_env(name)
        params = small_params(system, env)
        key, zero = jax.random.key(0), jnp.int32(0)
        state, first = jax.eval_shape(env.reset, key, params, zero)
        after, later = jax.eval_shape(env.step, key, state, zero, params)
        for one, other in ((state, after), (first, later)):
            assert jax.tree.map(describe, one) == jax.tree.map(describe, other)
        spec = env.observation_spec(params)
        assert (first.observation.shape, first.observation.dtype) == (spec.shape, spec.dtype)
        assert np.isfinite([spec.minimum, spec.maximum]).all()


def describe(leaf):
    return leaf.shape, str(leaf.dtype)


@pytest.mark.parametrize(("name", "policy"), HEURISTICS)
def test_heuristics_play(name, policy):
    with jax.enable_x64(True):
        system, env = system_and_env(name)
        rule = functions.heuristic(system, policy, env, 5, {})
        params = small_params(system, rule.env)
        recorder = system.log.recorder(rule.env)
        outcome = jax.eval_shape(
            lambda params, episodes: run_episodes(
                rule.env, rule.policy, recorder, params, episodes, jax.random.key(0)
            ),
            params,
            jnp.arange(2, dtype=jnp.int32),
        )
    assert outcome.finished.shape == (2,)


@pytest.mark.parametrize("name", SMALL)
def test_learned_policies_play(name):
    with jax.enable_x64(True):
        system, env = system_and_env(name)
        params = small_params(system, env)
        kind = NETWORKS[name]
        weights = jax.eval_shape(lambda: functions.init_weights(system, env, kind, params))
        policy = functions.network_policy(system, env, kind, "learned", "greedy")
        outcome = jax.eval_shape(
            lambda params, weights: run_episodes(
                env,
                policy,
                system.log.recorder(env),
                params,
                jnp.arange(2, dtype=jnp.int32),
                jax.random.key(0),
                weights,
            ),
            params,
            weights,
        )
    assert outcome.finished.shape == (2,)
