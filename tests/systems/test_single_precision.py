"""Trainings of the systems with JAX' 64 bits on, as a program beside them may have it."""

import jax
import pytest

from jaxsched.core import training
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.splits import sets_of
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry
from jaxsched.systems.stages import stages_of

FEW = ["loop.num_envs=4", "loop.rollout_length=3"]


@pytest.mark.parametrize(
    ("name", "preset", "settings"),
    [
        ("chic", "plain-ppo", FEW),  # an environment that follows JAX' precision
        pytest.param("sched2", "plain-ppo", FEW, marks=pytest.mark.slow),
        pytest.param("dl2", "paper", [], marks=pytest.mark.slow),  # a replay of what is observed
        pytest.param("das", "contended-mappo", [], marks=pytest.mark.slow),
        pytest.param("mlfs", "quick", [], marks=pytest.mark.slow),
    ],
)
def test_learners_see_and_keep_32_bits(name, preset, settings):
    system = registry.get(name)
    with jax.enable_x64(True):
        recipe = override(presets.preset(system, preset), settings)
        tables = sets_of(system, recipe, None, None, TraceOptions(0, 1, 5)).train.tables
        for stage in stages_of(system, recipe, tables):
            params, parts = stage.params_at(0.0), (stage.env, stage.learner, stage.loop)
            carry = training.abstract(*parts, jax.random.key(0), params)
            after, metrics = jax.eval_shape(
                lambda carry, params, parts=parts: training.chunk.__wrapped__(
                    *parts, carry, params, num_updates=1
                ),
                carry,
                params,
            )
            assert types(after) == types(carry)
            for tree in (after.learner_state, after.running, metrics):
                assert not set(types(tree)) & {"float64", "int64", "uint64"}


def types(tree):
    return [str(leaf.dtype) for leaf in jax.tree.leaves(tree)]
