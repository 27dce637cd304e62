"""The recipe that imitates and then searches, and the workload of all rates."""

import jax
import numpy as np
import pytest

from jaxsched.core import training
from jaxsched.envs.chic.jobs import RATES_PER_HOUR, chic_tables
from jaxsched.envs.chic.learn import PRESETS
from jaxsched.envs.chic.system import SYSTEM
from jaxsched.runs.overrides import override
from jaxsched.systems.stages import budget, stages_of
from jaxsched.traces import registry as traces

SMALL = (
    "network=mlp-8",
    "imitation.learner.batch_size=64",
    "imitation.loop.num_envs=8",
    "imitation.loop.rollout_length=8",
    "imitation.loop.num_updates=3",
    "learner.members=4",
    "learner.episodes=2",
    "learner.initial_std=0.3",
    "loop.num_envs=8",
    "loop.num_random_streams=2",
    "loop.rollout_length=256",
    "loop.num_updates=2",
)


def test_the_mixed_workload_takes_the_rates_in_turn():
    tables = traces.get("chic-mixed", seed=3, num_traces=7, num_jobs=9)
    assert [t.name.split("-")[1] for t in tables] == [
        f"{RATES_PER_HOUR[i % 5]:g}" for i in range(7)
    ]
    assert (
        tables[6].digest()
        == chic_tables(3, 7, num_jobs=9, rate_per_hour=RATES_PER_HOUR[1])[6].digest()
    )
    longer = traces.get("chic-mixed", seed=3, num_traces=9, num_jobs=9)
    assert [t.digest() for t in longer[:7]] == [t.digest() for t in tables]


@pytest.mark.parametrize("preset", ["search", pytest.param("search-pair", marks=pytest.mark.slow)])
def test_both_stages_learn(preset):
    recipe = override(PRESETS[preset], SMALL)
    tables = traces.get("chic-mixed", num_traces=2, num_jobs=4)
    stages = stages_of(SYSTEM, recipe, tables)
    assert [stage.name for stage in stages] == ["imitation", "search"]
    assert budget(recipe) == 3 * 64 + 2 * 8 * 256
    weights = None
    for stage in stages:
        params = stage.params_at(0.0)
        assert float(params.p1) == float(params.p2) == 0.0
        sizes = stage.env, stage.learner, stage.loop
        carry = training.init(*sizes, jax.random.key(0), params, weights)
        before = jax.tree.map(np.array, stage.learner.policy_params(carry.learner_state))
        if weights is not None:
            jax.tree.map(np.testing.assert_array_equal, before, weights)
        carry, _ = training.chunk(*sizes, carry, params, num_updates=stage.loop.num_updates)
        weights = jax.tree.map(np.array, stage.learner.policy_params(carry.learner_state))
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(weights))
        moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), before, weights)
        assert max(jax.tree.leaves(moved)) > 0


def test_the_teacher_is_a_heuristic():
    recipe = override(PRESETS["search"], [*SMALL, "imitation.teacher=round_robin"])
    tables = traces.get("chic-mixed", num_traces=1, num_jobs=2)
    assert "imitation of round_robin" in " ".join(stages_of(SYSTEM, recipe, tables)[0].variants)
    with pytest.raises(Exception, match="unknown policy 'best'"):
        stages_of(SYSTEM, override(recipe, ["imitation.teacher=best"]), tables)
