"""Recipes as data: stages by their names, words of before, learners of a program's own."""

from dataclasses import dataclass, replace

import jax
import pytest

from jaxsched import traces
from jaxsched.algorithms.cross_entropy import CrossEntropyConfig, cross_entropy
from jaxsched.algorithms.dqn import DQNConfig
from jaxsched.core import training
from jaxsched.core.training import LoopConfig
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import changed, override
from jaxsched.systems import functions, learners, presets, registry
from jaxsched.systems.departures import Departures
from jaxsched.systems.paths import holder_of, value_at
from jaxsched.systems.recipe import Episodes, Recipe, Stage
from jaxsched.systems.stages import stages_of

CHIC = registry.get("chic")
SEARCH = presets.preset(CHIC, "search")


def test_stages_are_reached_by_their_names_and_the_last_one_without():
    words = ["imitation.loop.num_updates=3", "loop.num_updates=7", "imitation.params.p1=2"]
    first, last = override(SEARCH, words).stages
    assert (first.loop.num_updates, last.loop.num_updates) == (3, 7)
    assert first.params == {"p1": 2.0, "p2": 0.0} and isinstance(first.params["p1"], float)
    assert last.params == SEARCH.stages[1].params
    assert override(SEARCH, ["search.loop.num_updates=7"]).stages[1] == last
    assert value_at(SEARCH, "imitation.teacher") == "search"
    assert holder_of(SEARCH, "learner.members") == (SEARCH.stages[1].learner, "members")
    assert holder_of(SEARCH, "learner.rho") is None


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("learner.rho=0.1", "no field 'rho'; known are members"),
        ("imitation=1", "is a group; set one of imitation.name"),
        ("imitation=null", r"a stage is left out by imitation\.skip=true"),
        ("episodes=null", r"is a group; set one of episodes\.jobs"),
        ("stages=1", "no field 'stages'; known are env, traces, network, .*imitation, search"),
        ("params.p3=1", "no field 'p3'; known are p1, p2"),
        ("params.p1=many", "is not a number"),
    ],
)
def test_settings_that_no_stage_has_are_refused(word, says):
    with pytest.raises(JaxschedError, match=says):
        override(SEARCH, [word])


@pytest.mark.parametrize(
    ("system", "preset", "word", "present"),
    [
        ("chic", "quick", "hidden=[8]", r"hidden.*: is no more; accepted: network, as mlp-64-64"),
        ("chic", "quick", "punish_empty=0", r"accepted: params\.p1"),
        ("chic", "search", "imitation_loop.num_envs=8", r"accepted: imitation\.loop\.num_envs"),
        ("chic", "search", "imitation.batch_size=8", r"accepted: imitation\.learner\.batch_size"),
        ("sched2", "paper", "max_backlog=8", r"accepted: params\.max_backlog"),
        ("sched2", "search", "search.delay_weight=1", r"accepted: params\.delay_weight"),
        ("sched2", "paper", "curriculum.fraction=1", r"accepted: episodes\.until"),
        ("dl2", "paper", "actor_critic.capacity=0", r"accepted: actor_critic\.learner\.capacity"),
        ("dl2", "quick", "supervised.num_tables=4", r"accepted: supervised\.data\.tables"),
        ("dl2", "quick", "simulator.contention=0", r"accepted: params\.contention, and superv"),
        ("das", "quick", "relative_to=tetris", r"accepted: adjust\.heuristic, and imitation"),
        ("das", "quick", "critic=whole", r"accepted: value_network .* mappo\.critic"),
        ("mlfs", "quick", "reinforcement=false", r"accepted: ppo\.skip, true where that was false"),
        ("mlfs", "search", "search.members=4", r"accepted: search\.learner\.members"),
        ("mlfs", "search", "search.episodes=4", r"accepted: search\.learner\.episodes"),
    ],
)
def test_words_of_before_are_refused_with_those_of_today(system, preset, word, present):
    chosen = registry.get(system)
    with pytest.raises(JaxschedError, match=present):
        changed(chosen, presets.preset(chosen, preset), [word])


@pytest.mark.parametrize("name", ["chic", "das", "dl2", "mlfs", "sched2"])
def test_every_word_of_today_is_one(name):
    system = registry.get(name)
    recipes = system.recipes.presets.values()
    for present in system.recipes.former_settings.values():
        path = present.partition(",")[0].partition(" ")[0]
        assert any(holder_of(recipe, path) for recipe in recipes), present


def test_a_word_of_today_that_begins_with_one_of_before_is_taken():
    mlfs = registry.get("mlfs")
    recipe = changed(mlfs, presets.preset(mlfs, "search"), ["search.episodes.shared=true"])
    assert recipe.stages[0].episodes.shared


def test_stages_are_left_out():
    tables = traces.get("chic-1.80", num_traces=1, num_jobs=2)
    recipe = override(SEARCH, ["imitation.skip=true"])
    (setup,) = stages_of(CHIC, recipe, tables)
    assert setup.name == "search" and recipe.loops == [setup.loop]
    with pytest.raises(JaxschedError, match="accepted: one of imitation, search that is not"):
        stages_of(CHIC, override(recipe, ["search.skip=true"]), tables)


def test_mappings_of_presets_cannot_be_changed_in_place():
    with pytest.raises(TypeError):
        SEARCH.stages[0].params["p1"] = 1.0


@dataclass(frozen=True)
class Repeats:
    """Settings of a learner from outside the package."""

    num_trajectories: int = 7


def test_a_learner_is_registered_from_outside(monkeypatch):
    monkeypatch.setattr(learners, "_KNOWN", dict(learners._KNOWN))
    recipe = Recipe(
        env=functions.environment(CHIC),
        traces=SEARCH.traces,
        stages=(Stage("repeats", Repeats(), LoopConfig(8, 16, 2)),),
        network="mlp-8",
        policy="repeats",
        departures=("network {network}, {learner.num_trajectories} trajectories",),
    )
    tables = traces.get("chic-1.80", num_traces=1, num_jobs=2)
    with pytest.raises(JaxschedError, match="learner is Repeats; accepted: DQNConfig, PPOConfig"):
        stages_of(CHIC, recipe, tables)

    def make(parts):
        return cross_entropy(parts.network, CrossEntropyConfig(parts.config.num_trajectories))

    learners.register(Repeats, "repeats", make)
    (setup,) = stages_of(CHIC, recipe, tables)
    assert setup.learner.needs.whole_episodes and setup.env.length == 16
    assert setup.variants == ("network 8, 7 trajectories",)
    assert (setup.gradient_steps, setup.evaluate_every) == (0, 250)
    with pytest.raises(JaxschedError, match="there is a learner with DQNConfig already"):
        learners.register(DQNConfig, "dqn", make)


def test_loads_take_turns_and_shared_tables_too():
    sched2 = registry.get("sched2")
    recipe = presets.preset(sched2, "paper")
    (stage,) = recipe.stages
    tables = traces.get("sched2-68", num_traces=2, num_jobs=6)

    def draws(**episodes):
        changes = replace(stage, episodes=Episodes(**episodes), loop=LoopConfig(64, 8, 10))
        (setup,) = stages_of(sched2, replace(recipe, stages=(changes,)), tables)
        return [setup.params_at(at).draw.tolist() for at in (0.0, 0.3, 0.5, 1.0)]

    assert draws() == [[0, 2]] * 4
    assert draws(scales=(1.5, 1.0)) == [[0, 2], [0, 2], [2, 2], [2, 2]]
    assert draws(jobs=3) == [[0, 4]] * 4
    assert draws(shared=True) == [[0, 1], [1, 1], [1, 1], [0, 1]]


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_exploration_is_the_learners_own_or_biased(bias):
    """Traced, not compiled."""
    sched2 = registry.get("sched2")
    recipe = override(presets.preset(sched2, "paper"), [f"explore.bias={bias}"])
    (setup,) = stages_of(sched2, recipe, traces.get("sched2-68", num_traces=1, num_jobs=6))
    parts = setup.env, setup.learner, setup.loop

    def train(key, params):
        carry = training.init(*parts, key, params)
        return training.chunk(*parts, carry, params, num_updates=1)

    _, metrics = jax.eval_shape(train, jax.random.key(0), setup.params_at(0.0))
    assert "reward_mean" in metrics
    assert any("biased to void" in line for line in setup.variants) == (bias > 0)


def test_a_critic_may_see_the_state():
    """Traced, not compiled; exploration and policy see what they always see."""
    dl2 = registry.get("dl2")
    small = ["env.num_servers=3", "env.window=3", "network=mlp-8", "loop.num_envs=2"]
    small += ["learner.held=0", "supervised.skip=true", "actor_critic.critic=state"]
    recipe = override(presets.preset(dl2, "paper"), small)
    tables = traces.get("dl2-sim", num_traces=1, num_jobs=3)
    (setup,) = stages_of(dl2, recipe, tables)
    params, parts = setup.params_at(0.0), (setup.env, setup.learner, setup.loop)

    def train(key):
        carry = training.init(*parts, key, params)
        return training.chunk(*parts, carry, params, num_updates=1)

    carry, _ = jax.eval_shape(train, jax.random.key(0))
    plain = functions.weights_spec(dl2, recipe.env, recipe.network, params)
    weights = setup.learner.policy_params(carry.learner_state)
    assert jax.tree.map(lambda x: x.shape, weights) == jax.tree.map(lambda x: x.shape, plain)
    with pytest.raises(JaxschedError, match="accepted with a teacher: observation"):
        taught = override(presets.preset(dl2, "artefact"), ["supervised.critic=state"])
        stages_of(dl2, taught, tables)


def test_checkpoints_are_the_recipes_or_the_stages_own():
    dl2 = registry.get("dl2")
    tables = traces.get("dl2-artefact", num_traces=1, num_jobs=3)
    words = ["supervised.loop.num_updates=7", "checkpoint_every=5"]
    both = stages_of(dl2, override(presets.preset(dl2, "artefact"), words), tables)
    assert [setup.checkpoint_every for setup in both] == [7, 5]
    words = ["search.loop.num_updates=9", "supervised.skip=true"]
    (last,) = stages_of(dl2, override(presets.preset(dl2, "artefact-search"), words), tables)
    assert last.checkpoint_every == 9 and last.play_env.reward == "progress"


def test_departures_are_those_that_differ():
    paper = presets.preset(CHIC, "paper")
    words = {"play": {"greedy": "sure"}, "network": "of {}", "learner.rho": "share {:g}"}
    said = Departures(paper, words)
    assert said.of(paper) == ()
    other = override(paper, ["play=greedy", "network=mlp-9", "learner.rho=0.5"])
    assert said.of(other) == ("sure", "of 9", "share 0.5")
    assert Departures().of(other) == ()


def test_nothing_is_said_of_a_stage_that_is_left_out():
    said = Departures(
        SEARCH, {"search.skip": {True: "no search"}, "learner.averaging": "kept {:g}"}
    )
    other = override(SEARCH, ["learner.averaging=0.5"])
    assert said.of(replace(other, departures=None)) == ("kept 0.5",)
    left = override(other, ["search.skip=true"])
    assert said.of(replace(left, departures=None)) == ("no search",)
