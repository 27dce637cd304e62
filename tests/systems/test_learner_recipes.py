"""Plain recipes: every learner on every system whose action is one choice of several."""

from dataclasses import replace

import jax
import pytest

from jaxsched.core import training
from jaxsched.envs.das import DAS
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry
from jaxsched.systems.learner_recipes import STEPS, with_learner
from jaxsched.systems.stages import budget, stages_of, steps_per_update
from jaxsched.systems.system import System
from jaxsched.traces import registry as traces

STEPWISE = ["plain-dqn", "plain-ppo", "plain-actor-critic", "plain-branching"]
BY_EPISODE = ["plain-search", "plain-cross-entropy"]
SYSTEMS = {"sched2": 15, "dl2": 15, "chic": 15, "mlfs": 20}
PAIRS = [
    (name, preset)
    for name in SYSTEMS
    for preset in STEPWISE + (BY_EPISODE if name != "mlfs" else [])
]


def stage_of(name, preset, *changes):
    """The stage of a preset on two small tables."""
    system = registry.get(name)
    source = presets.recipe_traces(system, presets.preset(system, preset)).train
    tables = traces.get(source, num_traces=2, num_jobs=SYSTEMS[name])
    return stages_of(
        system, override(presets.preset(system, preset), changes), system.jobs.adapted(tables)
    )[0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_learner_has_a_recipe_of_one_budget(name):
    system = registry.get(name)
    recipes = dict(presets.default_recipes(system))
    assert recipes.pop("gpu-ppo")
    assert [(name, p) for p in recipes] == [pair for pair in PAIRS if pair[0] == name]
    for recipe in recipes.values():
        assert STEPS <= budget(recipe) < STEPS + steps_per_update(recipe.stages[-1])


@pytest.mark.parametrize(("name", "preset"), PAIRS)
def test_the_loop_takes_every_pair(name, preset):
    """Traced, not compiled: sizes, masks, networks and rewards fit."""
    stage = stage_of(name, preset)
    assert stage.env_steps == budget(presets.preset(registry.get(name), preset))
    key, params = jax.random.key(0), stage.params_at(0.0)

    def train(key, params):
        carry = training.init(stage.env, stage.learner, stage.loop, key, params)
        return training.chunk(stage.env, stage.learner, stage.loop, carry, params, num_updates=1)

    carry, metrics = jax.eval_shape(train, key, params)
    assert carry.update.shape == () and "reward_mean" in metrics
    assert all(leaf.shape == (1,) for leaf in jax.tree.leaves(metrics))


@pytest.mark.parametrize(
    ("preset", "steps"), [("plain-ppo", 16), ("plain-search", 0), ("plain-cross-entropy", 10)]
)
def test_gradient_steps_of_an_update_are_told(preset, steps):
    assert stage_of("chic", preset).gradient_steps == steps


def test_plays_without_a_bound_of_their_own_have_that_of_the_environment():
    stage = stage_of("dl2", "plain-branching", "learner.max_steps=null", "learner.futures=0")
    own = stage.loop.num_envs * 4 * stage.env.max_steps(stage.params_at(0.0))
    assert stage.steps_per_update == stage.loop.steps_per_update + own


@pytest.mark.parametrize("preset", ["plain-ppo", "plain-search"])
def test_chic_learns_from_plain_recipes(preset):
    """The loss of a few updates moves the policy, and its name says who learnt it."""
    small = {
        "plain-ppo": ("loop.num_envs=8", "loop.rollout_length=16", "loop.num_updates=2"),
        "plain-search": (
            "loop.num_envs=8",
            "loop.rollout_length=512",
            "loop.num_updates=2",
            "learner.members=4",
        ),
    }
    stage = stage_of("chic", preset, "network=mlp-8", "value_network=mlp-8", *small[preset])
    params = stage.params_at(0.0)
    carry = training.init(stage.env, stage.learner, stage.loop, jax.random.key(0), params)
    before = jax.tree.map(lambda x: x.copy(), stage.learner.policy_params(carry.learner_state))
    carry, _ = training.chunk(stage.env, stage.learner, stage.loop, carry, params, num_updates=2)
    after = stage.learner.policy_params(carry.learner_state)
    moved = jax.tree.map(lambda a, b: float(abs(a - b).max()), before, after)
    assert max(jax.tree.leaves(moved)) > 0
    assert stage.policy.name == stage.name == {"plain-ppo": "ppo"}.get(preset, "search")


def test_systems_with_several_actions_have_no_plain_recipes():
    assert presets.default_recipes(registry.get("das")) == {}
    bare = System("bare", DAS, "avg_jct")
    assert presets.all_recipes(bare) == {}
    with pytest.raises(JaxschedError, match="bare: unknown preset 'quick'; known are"):
        presets.preset(bare, "quick")


def test_the_type_of_the_settings_chooses_the_learner():
    system = registry.get("chic")
    (ppo,) = presets.preset(system, "plain-ppo").stages
    other = with_learner(
        presets.preset(system, "plain-dqn"), replace(ppo.learner, num_minibatches=8)
    )
    tables = traces.get("chic-1.80", num_traces=1, num_jobs=3)
    assert stages_of(system, other, tables)[0].name == "ppo"
