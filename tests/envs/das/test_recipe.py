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
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learning.networks import DASNetwork
from jaxsched.envs.das.learning.presets import PRESETS
from jaxsched.envs.das.learning.recipe import (
    Imitation,
    Recipe,
    Search,
    imitation_losses,
    variants,
)
from jaxsched.envs.das.learning.stages import params_of, play_env, stretched
from jaxsched.errors import JaxschedError
from jaxsched.systems import registry
from tests.envs.das.tables import ENV, random_table

SYSTEM = registry.get("das")
SMALL = DASNetwork(width=8, heads=2, history=2, walk_length=4)
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


def imitation(policy, teacher):
    learner = RegressionConfig(
        total_updates=30,
        losses=imitation_losses(policy),
        gradient_steps=4,
        batch_size=4,
        sequence_length=4,
        learning_rate=2e-2,
    )
    return Imitation(teacher, LOOP, learner)


TINY = Recipe(
    env=ENV,
    network=SMALL,
    episode_jobs=12,
    loop=LOOP,
    learner=PPO,
    relative_to="fifo_loadbalance",
    critic="state",
)
RECIPES = {
    "DAS": replace(TINY, imitation=imitation("das", "fifo_loadbalance")),
    "DA": replace(
        TINY,
        network=replace(SMALL, variant="DA"),
        env=replace(ENV, sampling="random", reward="paper"),
        relative_to=None,
        critic="action",
    ),
    "dl2": replace(
        TINY, policy="dl2", critic="whole", imitation=imitation("dl2", "fifo_loadbalance")
    ),
    "rifling": replace(
        TINY,
        policy="rifling",
        critic="action",
        imitation=imitation("rifling", "fifo_loadbalance"),
    ),
    "branching": replace(
        TINY,
        network=replace(SMALL, variant="DA+MC"),
        critic="whole",
        learner=BranchingConfig(
            total_updates=2, max_steps=4, capacity=8, batch_size=4, critic=True
        ),
        rivals=("tetris",),
        draws=1,
    ),
    "linear": replace(
        TINY,
        policy="linear",
        search=Search(
            loop=LoopConfig(num_envs=8, rollout_length=18, num_updates=2, num_random_streams=2),
            learner=EvolutionConfig(members=4, episodes=2, elite_share=0.5),
        ),
    ),
}


@cache
def stages_of(name):
    return {stage.name: stage for stage in SYSTEM.training(RECIPES[name], [random_table(0, 14)])}


def first_policy(stage, key, params):
    """The parameters that a policy has when its stage begins."""
    carry = training.init(stage.env, stage.learner, stage.loop, key, params)
    return stage.learner.policy_params(carry.learner_state)


@cache
def updated(name, stage_name, updates=1):
    """Metrics of so many updates, and the policy's parameters before and after."""
    stage = stages_of(name)[stage_name]
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
    found = stages_of(name)
    assert list(found) == stages
    recipe = RECIPES[name]
    for stage in found.values():
        assert stage.play_env == DAS(num_servers=3, window=4, reward=recipe.env.reward)
        assert stage.network == ("das:" + stage.network[4:] if recipe.policy == "das" else name)
        assert stage.variants == variants(recipe)
    # Later stages go on from the parameters of earlier ones, and the policy plays them.
    params = stage.params_at(0.0)
    expected = jax.eval_shape(lambda: SYSTEM.init_weights(play_env(recipe), stage.network, params))
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


def test_long_tables_are_cut_into_episodes():
    table = random_table(3, 30)
    recipe = replace(TINY, relative_to=None, starts_every=4)
    params = params_of(recipe, [table])(0.5)
    assert params.offset.tolist() == list(range(0, 19, 4))
    assert params.num_jobs.tolist() == [12] * 5
    pieces = params_of(replace(recipe, scale_rates=(1.0, 2.0)), [table, random_table(4, 9)])(0.0)
    assert pieces.num_jobs.tolist() == 2 * [*[12] * 5, 9]
    submit = np.asarray(pieces.rows)[:, 0][pieces.offset]
    assert not submit.any()


def test_cut_and_relative_episodes_are_the_same_jobs():
    table = random_table(5, 14)
    recipe = replace(TINY, relative_to=None)
    cut, relative = params_of(recipe, [table])(0.0), params_of(TINY, [table])(0.0)
    count = len(cut.num_jobs)
    assert count == 3 == len(relative.num_jobs)
    for index in range(count):
        rows = [np.asarray(params.rows)[params.offset[index] :][:12] for params in (cut, relative)]
        shift = np.zeros_like(rows[0][0])
        shift[0] = rows[0][0, 0]
        np.testing.assert_array_equal(rows[0] - shift, rows[1])
    assert relative.jct_ref_min.shape == relative.fee_ref.shape == (count,)


@pytest.mark.parametrize("rate", [0.5, 2.0, 3.0])
def test_stretched_tables_arrive_so_much_faster(rate):
    table = random_table(6)
    other = stretched(table, rate)
    np.testing.assert_allclose(other["submit_time"], table["submit_time"] / rate, atol=0.5)
    for name in ("duration", "num_instances"):
        np.testing.assert_array_equal(other[name], table[name])
    assert stretched(table, 1.0) is table


# Settings


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"policy": "linear"}, "only that, is found by a search"),
        ({"search": RECIPES["linear"].search}, "only that, is found by a search"),
        ({"rivals": ("tetris",)}, "one or more for branching, none for another learner"),
        ({"learner": RECIPES["branching"].learner}, "one or more for branching"),
        ({"learner": RECIPES["branching"].learner, "rivals": ("x",)}, "rivals is 'x'; known are"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes, says):
    with pytest.raises(JaxschedError, match=says):
        replace(TINY, **changes)


def test_a_search_plays_members_times_episodes():
    search = replace(RECIPES["linear"].search, loop=LoopConfig(6, 18, 2))
    with pytest.raises(JaxschedError, match="num_envs is 6; accepted: 8"):
        replace(RECIPES["linear"], search=search)


def test_the_papers_recipe_has_no_variants():
    assert variants(Recipe()) == ()
    assert variants(PRESETS["paper"]) == ()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_say_what_is_not_the_papers(name):
    recipe = PRESETS[name]
    lines = variants(recipe)
    assert recipe.env.num_servers in (8, 16, 32)
    assert (not lines) == name.startswith("paper")
    text = "; ".join(lines)
    if recipe.search is not None:
        assert "search" in text
        return
    assert ("dense reward" in text) == (recipe.env.reward == "dense")
    assert ("warm start from" in text) == (recipe.imitation is not None)
    assert ("relative to" in text) == (recipe.relative_to is not None)
    branches = isinstance(recipe.learner, BranchingConfig)
    assert ("critic of states" in text) == (recipe.critic == "state" and not branches)
    assert ("branching over" in text) == branches
    assert ("network: " in text) == (recipe.network != DASNetwork())
