"""DAS where JAX computes in 64 bits by default: the same types, and the same schedules."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.envs.das.heuristics import NAMES, baseline
from jaxsched.envs.das.learn import derived_features
from jaxsched.envs.das.rules.observation import recover
from jaxsched.envs.das.show import log
from jaxsched.systems import functions, registry
from tests.instances import INSTANCES

SYSTEM = registry.get("das")
PLAIN = [name for name in NAMES if name != "lazy"]  # that one needs an environment of its own
SIZES = "width=8,heads=2,history=2,walk_length=4"
NETWORKS = [
    f"das:variant=DA,{SIZES}",
    f"das:variant=DA+MC,{SIZES},extra_features=True",
    f"das:variant=DA+RWGP,{SIZES},kernel=graph",
    f"das:variant=DA+RWGP,{SIZES},basis=walk,product=kronecker,mean=zero",
    f"das:variant=DAS,{SIZES}",
    f"das:variant=DAS,{SIZES},extra_features=True",
]


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def described(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


def dtypes(tree):
    return {str(leaf.dtype) for leaf in jax.tree.leaves(tree)}


def first_view(env, params):
    state, seen = jax.eval_shape(env.reset, jax.random.key(0), params, jnp.int32(0))
    return View(seen.observation, seen.action_mask, state, params)


def decided(env, params, policy, *weights):
    """Shapes of a policy's first action and memory, and of its memory before."""

    def act(view, *weights):
        memory = policy.init(params)
        return *policy.act(*(weights or ((),)), memory, view, jax.random.key(0)), memory

    return jax.eval_shape(act, first_view(env, params), *weights)


def assert_reals(env, action):
    assert described(action) == described(
        {name: spec.zeros() for name, spec in env.action_spec().items()}
    )
    assert dtypes(action) == {"float32"}


@pytest.mark.parametrize("kind", INSTANCES["das"])
def test_states_and_time_steps_keep_their_types(kind, x64):
    _, env, params, *_ = INSTANCES["das"][kind]()
    action = {name: spec.zeros() for name, spec in env.action_spec().items()}
    view = first_view(env, params)
    seen = described(jax.tree.map(lambda spec: spec.zeros(), env.observation_spec(params)))
    assert described(view.observation) == seen
    after, timestep = jax.eval_shape(env.step, jax.random.key(0), view.state, action, params)
    assert described(after) == described(view.state)
    assert described(timestep.observation) == described(view.observation)
    wide = {"int64", "uint64", "float64"}
    assert not wide & (dtypes(after._replace(draws=None)) | dtypes(timestep) | dtypes(params))


@pytest.mark.parametrize("name", [*PLAIN, *(n for n in SYSTEM.policies if n not in NAMES)])
def test_heuristics_give_single_precision(name, x64):
    _, env, params, *_ = INSTANCES["das"]["paper"]()
    policy = (
        baseline(name, env)
        if name in NAMES
        else functions.heuristic(SYSTEM, name, env, 7, {}).policy
    )
    if name not in NAMES and functions.heuristic(SYSTEM, name, env, 7, {}).env.estimates:
        _, env, params, *_ = INSTANCES["das"]["shown"]()
    action, _, _ = decided(env, params, policy)
    assert_reals(env, action)


@pytest.mark.parametrize("kind", ["linear", "dl2", "rifling", *NETWORKS])
def test_networks_stay_in_single_precision(kind, x64):
    _, env, params, *_ = INSTANCES["das"]["paper"]()
    weights = jax.eval_shape(lambda: functions.init_weights(SYSTEM, env, kind, params))
    assert dtypes(weights) == {"float32"}
    for play in ("greedy", "sampled"):
        policy = functions.network_policy(SYSTEM, env, kind, "mine", play)
        action, memory, before = decided(env, params, policy, weights)
        assert_reals(env, action)
        assert described(memory) == described(before)


def single_and_double(function):
    """What a function gives in both settings."""
    found = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            found.append(jax.tree.map(np.asarray, function()))
    return found


def test_features_are_those_of_single_precision():
    _, env, params, *_ = INSTANCES["das"]["paper"]()

    @jax.jit
    def features():
        _, seen = env.reset(jax.random.key(0), params, jnp.int32(0))
        return recover(env, seen.observation), derived_features(env, seen.observation)

    single, double = single_and_double(features)
    jax.tree.map(np.testing.assert_array_equal, single, double)
    assert described(single) == described(double)


def test_schedules_are_those_of_single_precision():
    _, env, params, *_ = INSTANCES["das"]["random"]()
    policy = baseline("fifo_firstfit", env)
    single, double = single_and_double(lambda: log.play(env, policy, params))
    jax.tree.map(np.testing.assert_array_equal, single, double)
