"""Recipes of DAS, its rivals and the linear rule: every stage runs, and learns what it should."""

from dataclasses import replace
from functools import cache, partial

import jax
import numpy as np
import pytest

from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.algorithms.regression import RegressionConfig
from jaxsched.core import training
from jaxsched.core.training import LoopConfig
from jaxsched.envs.das.learn import DASNetwork, changed_kind, kind_of
from jaxsched.envs.das.learn.policies import imitation_losses
from jaxsched.envs.das.learn.presets import RelativeTo
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.parts import TraceSet
from jaxsched.systems.recipe import Episodes, Recipe, Stage
from jaxsched.systems.stages import stages_of
from tests.envs.das.tables import ENV, random_table

SYSTEM = registry.get("das")
PRESETS = SYSTEM.recipes.every
DEPARTURES = SYSTEM.recipes.departures.of
SMALL = kind_of("das", DASNetwork(width=8, heads=2, history=2, walk_length=4))
LOOP = LoopConfig(num_envs=2, rollout_length=8, num_updates=2)
PPO = PPOConfig(
    total_updates=2,
    epochs=1,
    num_minibatches=1,
    sequence_length=4,
    gamma_per="decision",
    gamma=0.98,
    learning_rate=1e-2,
)
EPISODES = Episodes(jobs=12, every=1)
FIFO = RelativeTo("fifo_loadbalance")
MAPPO = Stage("mappo", PPO, LOOP, episodes=EPISODES, value_network="state", adjust=FIFO)


def imitation(policy):
    learner = RegressionConfig(
        total_updates=2,
        losses=imitation_losses(policy),
        gradient_steps=4,
        batch_size=4,
        sequence_length=4,
        learning_rate=2e-2,
    )
    return Stage(
        "imitation", learner, LOOP, episodes=EPISODES, teacher="fifo_loadbalance", adjust=FIFO
    )


def recipe(policy, *stages, network="", env=ENV):
    return Recipe(env, TraceSet("das-train", "das-test"), stages, network or policy, policy)


BRANCHING = replace(
    MAPPO,
    name="branching",
    learner=BranchingConfig(
        total_updates=2, alternatives=3, max_steps=4, capacity=8, batch_size=4, critic=True
    ),
    critic="state",
    rivals=("tetris",),
)
SEARCH = Stage(
    "search",
    EvolutionConfig(members=4, episodes=2, elite_share=0.5),
    LoopConfig(num_envs=8, rollout_length=18, num_updates=2, num_random_streams=2),
    env={"events_per_step": 2},
    episodes=EPISODES,
    adjust=FIFO,
)
RECIPES = {
    "DAS": recipe("das", imitation("das"), MAPPO, network=SMALL),
    "DA": recipe(
        "das",
        replace(MAPPO, env={"sampling": "random"}, value_network="action", adjust=None),
        network=changed_kind(SMALL, variant="DA"),
        env=replace(ENV, reward="paper"),
    ),
    "dl2": recipe("dl2", imitation("dl2"), replace(MAPPO, critic="state")),
    "rifling": recipe("rifling", imitation("rifling"), replace(MAPPO, value_network="action")),
    "branching": recipe("das", BRANCHING, network=changed_kind(SMALL, variant="DA+MC")),
    "linear": recipe("linear", SEARCH),
}


@cache
def by_name(name):
    return {stage.name: stage for stage in stages_of(SYSTEM, RECIPES[name], [random_table(0, 14)])}


def first_policy(stage, key, params):
    """The parameters that a policy has when its stage begins."""
    carry = training.init(stage.env, stage.learner, stage.loop, key, params)
    return stage.learner.policy_params(carry.learner_state)


@cache
def updated(name, stage_name, updates=1):
    """Metrics of so many updates, and the policy's parameters before and after."""
    stage = by_name(name)[stage_name]
    params = stage.params_at(0.0)
    carry = training.init(stage.env, stage.learner, stage.loop, jax.random.key(0), params)
    before = jax.tree.map(np.array, stage.learner.policy_params(carry.learner_state))
    rows = []
    for _ in range(updates):
        carry, metrics = training.chunk(
            stage.env, stage.learner, stage.loop, carry, params, num_updates=1
        )
        rows.append(jax.tree.map(lambda x: float(x[0]), metrics))
    return rows, before, stage.learner.policy_params(carry.learner_state)


slow = pytest.mark.slow
STAGES = [
    pytest.param("DAS", "imitation", marks=slow),  # imitates as RIFLING does
    ("DAS", "mappo"),
    pytest.param("DA", "mappo", marks=slow),  # the first agent of DAS
    pytest.param("dl2", "imitation", marks=slow),  # imitates as RIFLING does, updates with MAPPO
    ("dl2", "mappo"),
    ("rifling", "imitation"),
    pytest.param("rifling", "mappo", marks=slow),  # with the critic of DA
    pytest.param("branching", "branching", marks=slow),  # compiles for half a minute
    ("linear", "search"),
]


@pytest.mark.parametrize(("name", "stage"), STAGES)
def test_a_stage_updates_its_policy(name, stage):
    (metrics,), before, after = updated(name, stage)
    assert all(np.isfinite(value) for value in metrics.values()), metrics
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))
    moved = [
        bool((a != b).any()) for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True)
    ]
    assert any(moved)


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("DAS", ["imitation", "mappo"]),
        ("DA", ["mappo"]),
        ("dl2", ["imitation", "mappo"]),
        ("rifling", ["imitation", "mappo"]),
        ("branching", ["branching"]),
        ("linear", ["search"]),
    ],
)
def test_the_stages_of_a_recipe(name, stages):
    found = by_name(name)
    assert list(found) == stages
    recipe = RECIPES[name]
    for stage in found.values():
        assert stage.play_env == recipe.env and recipe.env.sampling == "first"
        assert stage.network == recipe.network and stage.variants == DEPARTURES(recipe)
    # Later stages go on from the parameters of earlier ones, and the policy plays them.
    params = stage.params_at(0.0)
    assert all(stage.params_at(0.5) is params for stage in found.values())
    expected = jax.eval_shape(
        lambda: functions.init_weights(SYSTEM, recipe.env, stage.network, params)
    )
    for stage in found.values():
        assert jax.eval_shape(partial(first_policy, stage), jax.random.key(0), params) == expected


def test_imitation_learns():
    rows, _, _ = updated("DAS", "imitation", 30)
    for agent in ("ordering", "placement"):
        losses = [row[f"{agent}_loss"] for row in rows]
        assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_a_search_needs_whole_episodes():
    (metrics,), before, after = updated("linear", "search")
    assert metrics["episodes"] == 8
    assert after.order.shape == before.order.shape


# Where episodes come from


def params_of(tables, adjust=None, **episodes):
    """Parameters that a stage draws from."""
    stage = replace(MAPPO, episodes=Episodes(jobs=12, **episodes), adjust=adjust)
    (setup,) = stages_of(SYSTEM, recipe("rifling", stage), tables)
    return setup.params_at(0.5)


def test_long_tables_are_cut_into_episodes():
    table = random_table(3, 30)
    params = params_of([table], every=4)
    assert params.offset.tolist() == list(range(0, 19, 4))
    assert params.num_jobs.tolist() == [12] * 5
    pieces = params_of([table, random_table(4, 9)], every=4, scales=(1.0, 0.5), until=0.0)
    assert pieces.num_jobs.tolist() == 2 * [*[12] * 5, 9]
    submit = np.asarray(pieces.rows)[:, 0][pieces.offset]
    assert not submit.any()


def test_cut_and_relative_episodes_are_the_same_jobs():
    table = random_table(5, 14)
    cut, relative = params_of([table], every=1), params_of([table], FIFO, every=1)
    count = len(cut.num_jobs)
    assert count == 3 == len(relative.num_jobs)
    for index in range(count):
        rows = [np.asarray(params.rows)[params.offset[index] :][:12] for params in (cut, relative)]
        shift = np.zeros_like(rows[0][0])
        shift[0] = rows[0][0, 0]
        np.testing.assert_array_equal(rows[0] - shift, rows[1])
    assert relative.jct_ref_min.shape == relative.fee_ref.shape == (count,)


# Settings


def changed(name, **changes):
    *before, last = RECIPES[name].stages
    return replace(RECIPES[name], stages=(*before, replace(last, **changes)))


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        (changed("linear", learner=PPO), "PPOConfig; accepted: for agents, .* found by search"),
        (changed("DA", learner=SEARCH.learner), "EvolutionConfig; accepted: for a rule"),
        (changed("DA", rivals=("tetris",)), "rivals is .*'tetris'.*accepted: none but for branch"),
        (changed("branching", learner=BranchingConfig(2), rivals=()), "0 draws and 0 rivals"),
        (changed("branching", rivals=("x",)), "unknown policy 'x'; known are"),
        (changed("DA", value_network="x"), "value_network is 'x'; accepted: action, state"),
        (changed("DA", adjust=FIFO), "env.reward is 'paper'; accepted: 'dense'"),
        (changed("DAS", adjust=RelativeTo("x")), "unknown policy 'x'; known are"),
        (
            changed("DA", episodes=Episodes(shared=True)),
            "das draws among all tables; accepted: epis",
        ),
        (changed("linear", loop=LoopConfig(6, 18, 2)), "num_envs is 6; .* equal to 8"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(recipe, says):
    with pytest.raises(JaxschedError, match=says):
        stages_of(SYSTEM, recipe, [random_table(0, 14)])


def test_presets_of_other_clusters_are_named_by_their_size():
    names = presets.preset_names(SYSTEM)
    assert names[:4] == ("quick", "quick-medium", "quick-large", "paper") and len(names) == 27
    assert list(presets.all_recipes(SYSTEM)) == list(names[::3])
    info = presets.preset_info(SYSTEM, "contended-mappo-medium")
    assert info.purpose.endswith("at load 0.9, 16 machines") and "41 min" in info.takes
    known = "known are quick, paper, .*; for other clusters NAME-SIZE, of the sizes medium, large"
    for unknown in ("quick-huge", "plain-medium"):
        with pytest.raises(JaxschedError, match=f"unknown preset '{unknown}'; {known}"):
            presets.preset(SYSTEM, unknown)


def test_the_papers_recipe_has_no_departures():
    assert DEPARTURES(PRESETS["paper"]) == ()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_say_what_is_not_the_papers(name):
    recipe = PRESETS[name]
    lines = DEPARTURES(recipe)
    assert recipe.env.num_servers in (8, 16, 32)
    assert (not lines) == name.startswith("paper")
    text, last = "; ".join(lines), recipe.stages[-1]
    if last.name == "search":
        assert "search" in text
        return
    assert ("dense reward" in text) == (recipe.env.reward == "dense")
    assert ("warm start from" in text) == (len(recipe.stages) == 2)
    assert ("relative to" in text) == (last.adjust is not None)
    branches, state = last.name == "branching", last.value_network == "state"
    assert ("critic of states" in text) == (state and last.critic != "state" and not branches)
    assert ("branching over shortest, drf_loadbalance, 2 draws" in text) == branches
    assert ("network: " in text) == recipe.network.startswith("das:")
    assert ("arrival rates 1, 1.3" in text) == (last.episodes.scales != (1.0,))
