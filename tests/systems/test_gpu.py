"""The recipe for a GPU: its sizes fit, and products in bfloat16 lose nothing."""

from dataclasses import replace
from functools import cache, partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms.ppo import PPOConfig, ppo
from jaxsched.core import training
from jaxsched.core.policies import View
from jaxsched.envs.das.learn import DASNetwork, Trunk
from jaxsched.envs.das.learn.policies import ActionValue, StateValue
from jaxsched.envs.dl2.learn import RowPolicy
from jaxsched.errors import JaxschedError
from jaxsched.exports.weights import named_weights
from jaxsched.networks import description as nd
from jaxsched.networks.mlp import MLP, ValueMLP
from jaxsched.ops import target
from jaxsched.runs import checkpoints
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.stages import budget, stages_of
from jaxsched.traces import registry as traces
from tests import probes
from tests.instances import das as das_instance

UPDATES = 60
LOOP = training.LoopConfig(num_envs=8, rollout_length=4, num_updates=UPDATES)
SMALL = ("loop.num_envs=16", "loop.rollout_length=8", "loop.num_updates=4", "value_network=mlp-8")


@cache
def chic():
    system = registry.get("chic")
    return system, system.jobs.adapted(traces.get("chic-1.80", num_traces=2, num_jobs=4))


def stage_of(*changes, **networks):
    system, tables = chic()
    system = replace(system, networks=system.networks._replace(**networks))
    return stages_of(system, override(presets.preset(system, "gpu-ppo"), changes), tables)[0]


def start(stage):
    params, key = stage.params_at(0.0), jax.random.key(0)
    return params, training.init(stage.env, stage.learner, stage.loop, key, params)


@pytest.mark.parametrize("name", ["sched2", "dl2", "chic"])
def test_one_definition_serves_every_system(name):
    system = registry.get(name)
    assert list(presets.all_recipes(system))[-1] == "gpu-ppo"
    recipe, source = presets.preset(system, "gpu-ppo"), presets.preset(system, "plain-ppo")
    (stage,), (plain,) = recipe.stages, source.stages
    assert stage.precision == "bfloat16" and plain.precision == "float32"
    assert (recipe.env, recipe.network) == (source.env, source.network)
    assert stage.loop.steps_per_update % (stage.learner.epochs * stage.learner.num_minibatches) == 0
    assert budget(recipe) == 32_768 * 16 * 400


def das_stage(*changes, preset="gpu-ppo"):
    system = registry.get("das")
    recipe = override(presets.preset(system, preset), changes)
    tables = system.jobs.adapted(traces.get(recipe.traces.train, num_traces=1, num_jobs=12))
    return stages_of(system, recipe, tables)[-1]


def test_das_has_one_of_its_own():
    recipe = presets.preset(registry.get("das"), "gpu-ppo")
    (stage,) = recipe.stages
    assert stage.precision == "bfloat16" and stage.env["events_per_step"] == 1
    assert stage.loop.steps_per_update % (stage.learner.epochs * stage.learner.num_minibatches) == 0
    assert budget(recipe) == 32_768 * 16 * 400


def test_a_gpu_knows_the_rounds_of_all_loops_of_das():
    """Traced, not compiled: rollout and update have no loop that goes on while something holds."""
    with target.tracing_for("gpu"):
        stage = das_stage("loop.num_envs=8")
        params = stage.params_at(0.0)
        carry = training.abstract(stage.env, stage.learner, stage.loop, jax.random.key(0), params)
        traced = training.chunk.trace(
            stage.env, stage.learner, stage.loop, carry, params, num_updates=1
        )
    text = str(traced.jaxpr)
    assert "while[" not in text and "scan[" in text
    assert "pallas_call[" in text and "bf16" in text
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(traced.out_info[0].learner_state)}
    assert dtypes == {"float32", "int32"}


def test_das_learns_in_bfloat16():
    """An update at small sizes moves the policy and is finite; what plays is float32."""
    small = ("loop.num_envs=4", "loop.rollout_length=16", "loop.num_updates=1")
    stage = das_stage(*small, "network=das:variant=DA+MC,width=8,heads=2,extra_features=True")
    params, carry = start(stage)
    before = jax.tree.map(np.array, stage.learner.policy_params(carry.learner_state))
    carry, metrics = training.chunk(
        stage.env, stage.learner, stage.loop, carry, params, num_updates=1
    )
    assert all(np.isfinite(value).all() for value in jax.tree.leaves(metrics))
    after = stage.learner.policy_params(carry.learner_state)
    moved = jax.tree.map(lambda a, b: float(abs(a - b).max()), before, after)
    assert max(jax.tree.leaves(moved)) > 0
    assert {leaf.dtype.name for leaf in jax.tree.leaves(after)} == {"float32"}


def das_seen():
    """Observations of an episode's first decisions, ``[8, ...]``."""
    env, params = das_instance().env, das_instance().params
    states, _ = jax.vmap(lambda key, n: env.reset(key, params, n))(
        jax.random.split(jax.random.key(0), 3), jnp.arange(3)
    )
    return env, jax.vmap(lambda state: env.observe(state, params)[0])(states)


@pytest.mark.parametrize("variant", ["DA+MC", "DAS"])
@pytest.mark.parametrize("product", ["hadamard", "kronecker"])
def test_networks_of_das_are_rounded_alike(variant, product):
    env, seen = das_seen()
    options = DASNetwork(variant, width=16, heads=2, extra_features=True, product=product)
    exact, rounded = Trunk(env, options), Trunk(env, options, "bfloat16")
    weights = rounded.init(jax.random.key(0), seen)
    jax.tree.map(np.testing.assert_array_equal, weights, exact.init(jax.random.key(0), seen))
    weights = jax.tree.map(lambda x: x + 0.1, weights)  # heads begin near 0
    (wanted, _), (found, _) = exact.apply(weights, seen), rounded.apply(weights, seen)
    for one, other in zip(wanted, found, strict=True):
        assert one.dtype == other.dtype == jnp.float32
        np.testing.assert_allclose(other, one, atol=0.04, rtol=0.02)
    assert any(np.any(one != other) for one, other in zip(wanted, found, strict=True))


def test_critics_of_das_are_rounded_alike():
    env, seen = das_seen()
    features = jax.random.uniform(jax.random.key(1), (8, 30))
    for kind, given in ((partial(StateValue, env), seen), (ActionValue, features)):
        weights = kind("bfloat16").init(jax.random.key(0), given)
        jax.tree.map(np.testing.assert_array_equal, weights, kind().init(jax.random.key(0), given))
        exact, rounded = (kind(p).apply(weights, given) for p in ("float32", "bfloat16"))
        assert rounded.dtype == jnp.float32 and np.any(exact != rounded)
        np.testing.assert_allclose(rounded, exact, atol=0.05)


def test_the_loop_takes_its_sizes():
    """Traced, not compiled: what is kept is float32, whatever products are."""
    stage = stage_of()
    params = stage.params_at(0.0)
    carry = training.abstract(stage.env, stage.learner, stage.loop, jax.random.key(0), params)
    traced = training.chunk.trace(
        stage.env, stage.learner, stage.loop, carry, params, num_updates=1
    )
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(traced.out_info[0].learner_state)}
    assert dtypes == {"float32", "int32"}
    assert "bf16" in str(traced.jaxpr)


@pytest.mark.parametrize("network", [MLP(4, (16,)), RowPolicy(3), ValueMLP((8,))])
def test_products_are_rounded_and_the_rest_is_not(network):
    size = 39 if isinstance(network, RowPolicy) else 5
    seen = 3 * jax.random.uniform(jax.random.key(1), (64, size))
    low = network.clone(precision="bfloat16")
    weights = low.init(jax.random.key(0), seen)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(weights)} == {"float32"}
    jax.tree.map(np.testing.assert_array_equal, weights, network.init(jax.random.key(0), seen))
    exact, rounded = network.apply(weights, seen), low.apply(weights, seen)
    assert "bf16" in str(jax.make_jaxpr(low.apply)(weights, seen))
    assert "bf16" not in str(jax.make_jaxpr(network.apply)(weights, seen))
    assert rounded.dtype == jnp.float32
    missed = float(jnp.abs(exact - rounded).max() / jnp.abs(exact).max())
    assert 0 < missed < 2.0**-6
    gradient = jax.grad(lambda w: jnp.sum(low.apply(w, seen) ** 2))(weights)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(gradient)} == {"float32"}


def learnt(precision, *lengths, kept=None):
    """What PPO makes of the better action of each decision of a group.

    With ``kept``, a folder, the run stops after each length, and goes on from what it left there.
    """
    policy = MLP(probes.NUM_ACTIONS, (16,), precision=precision)
    config = PPOConfig(UPDATES, num_minibatches=2, learning_rate=0.02, entropy_end=0.0)
    learner = ppo(policy, ValueMLP((16,), precision=precision), config)
    env, params = probes.Grouped(), probes.grouped_pay()
    carry = training.init(env, learner, LOOP, jax.random.key(0), params)
    for number, length in enumerate(lengths):
        if kept is not None:
            checkpoints.save(kept, number, carry, {})
            carry, _ = checkpoints.restore(kept, carry)
        carry, metrics = training.chunk(env, learner, LOOP, carry, params, num_updates=length)
    return carry.learner_state, float(metrics["reward_mean"][-1])


def test_bfloat16_learns_what_float32_learns():
    (_, exact), (state, rounded) = learnt("float32", UPDATES), learnt("bfloat16", UPDATES)
    assert exact > 0.9 and rounded > 0.9
    assert abs(exact - rounded) < 0.1
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state.params)} == {"float32"}


def test_a_resumed_run_in_bfloat16_has_the_same_bits(tmp_path):
    whole, parts = learnt("bfloat16", 4), learnt("bfloat16", 2, 2, kept=tmp_path)
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


def test_what_learnt_in_bfloat16_plays_and_is_described_in_float32():
    system, _ = chic()
    stage = stage_of(*SMALL)
    params, carry = start(stage)
    carry, _ = training.chunk(stage.env, stage.learner, stage.loop, carry, params, num_updates=2)
    weights = stage.learner.policy_params(carry.learner_state)
    seen, mask = jax.vmap(lambda s: stage.env.observe(s, params))(carry.current.state)
    network = functions.network(system, stage.play_env, stage.network)
    scores = network.apply(weights, seen)
    action, _ = jax.vmap(
        lambda o, m: stage.policy.act(weights, (), View(o, m, None, None), jax.random.key(0))
    )(seen, mask)
    golden = nd.GoldenRows(*map(np.asarray, (seen, mask, scores, action)))
    nd.check_parity(network.describe(), named_weights(weights), golden)


def test_what_cannot_be_is_refused():
    recipe = presets.preset(chic()[0], "gpu-ppo")
    with pytest.raises(JaxschedError, match="'half' is not one of float32, bfloat16"):
        override(recipe, ["precision=half"])
    with pytest.raises(JaxschedError, match="accepted: float32, for an ExportableModule"):
        stage_of(policy=lambda *given: nn.Dense(7))
    with pytest.raises(JaxschedError, match="accepted: float32, as this policy has no other"):
        das_stage("precision=bfloat16", preset="dl2")
