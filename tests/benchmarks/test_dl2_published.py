"""Judging the published learner's seeds: ``python -m benchmarks.dl2_published``."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.dl2_published import CASES, COARSE, DRF, FINE, PRESET, judge_of, rule
from jaxsched import traces
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.stages import stages_of

SEEDS, SEQUENCES = 2, 2
SETTINGS = ("learner.held=16", "loop.rollout_length=16", "learner.capacity=64")


def test_each_seed_is_judged_on_each_sequence():
    system = registry.get("dl2")
    recipe = override(presets.preset(system, "artefact"), SETTINGS)
    tables = traces.get("dl2-artefact", num_traces=SEQUENCES, num_jobs=3)
    setup = stages_of(system, recipe, tables)[-1]
    params = setup.play_env.params(tables)
    spec = functions.weights_spec(system, setup.play_env, setup.network, params)
    weights = jax.tree.map(lambda leaf: jnp.zeros((SEEDS, *leaf.shape), leaf.dtype), spec)
    judged = judge_of(system, setup, tables)(weights, 0)
    assert set(judged) == {COARSE, FINE}
    known = rule(system, setup.play_env, DRF, tables)
    for metric, values in judged.items():
        assert values.shape == (SEEDS, SEQUENCES) and (values > 0).all()
        assert np.shape(known[metric]) == (SEQUENCES,)


def test_each_case_leaves_out_what_it_says():
    system = registry.get("dl2")
    whole = presets.preset(system, PRESET)
    cases = {name: override(whole, case.settings).stages[-1] for name, case in CASES.items()}
    assert cases[PRESET] == cases["restored"] == cases["once"] == whole.stages[-1]
    assert cases["moments"] == cases["none"]

    def ways(stage):
        config, wrap = stage.learner, stage.wrap
        return {
            "gradient": config.gradient_at == "stored",
            "priorities": (config.importance, config.priority_most) == ("memory", 4),
            "failed": not wrap.failed,
            "counted": wrap.counted,
        }

    assert all(ways(cases[PRESET]).values())
    assert not any(ways(cases["none"]).values())
    for name, inside in ways(cases[PRESET]).items():
        assert inside
        assert [way for way, found in ways(cases[name]).items() if found] == [name]
