"""Rules as programs for a GPU write them are the same rules: golden cases and random play."""

import jax
import numpy as np
import pytest

from jaxsched.core.environment import start, step_and_reset
from jaxsched.ops import target
from jaxsched.systems import golden, registry
from jaxsched.systems.case_files import in_layout
from tests.golden_check import GOLDEN, differences, load
from tests.instances import INSTANCES

CASES = {
    "sched2": ("08_random_obs", "12_dsif_150"),
    "chic": ("random_pair", "optimus_crowded"),
    "dl2": ("invalid_actions", "noise_and_epoch_error"),
    "das": ("hash_actions_small", "random100_tetris"),
    "mlfs": ("05_overload_migration", "10_random_actions"),
}
LANES, STEPS = 6, 60


@pytest.fixture(scope="module", autouse=True)
def for_gpu():
    """Nothing that was traced for a processor is used here, nor what is traced here elsewhere."""
    jax.clear_caches()
    with target.tracing_for("gpu"):
        yield
    jax.clear_caches()


@pytest.mark.parametrize("name", CASES)
def test_golden_cases(name):
    for stem in CASES[name]:
        case = load(GOLDEN / name / f"{stem}.json")
        got = in_layout(golden.simulate(registry.get(name), case), case["expect"])
        assert differences(case["expect"], got) == []


@pytest.mark.parametrize("name", registry.names())
def test_random_play(name):
    """Side by side and alone, from reset to reset, as on a processor."""
    env, params = (case := INSTANCES[name]["paper"]()).env, case.params
    keys = jax.random.split(jax.random.key(0), LANES)

    def played():
        step = jax.jit(jax.vmap(lambda *x: step_and_reset(env, *x, params)))
        observe = jax.jit(jax.vmap(lambda state: env.observe(state, params)))
        current = jax.vmap(lambda key: start(env, key, params))(keys)
        seen = []
        for number in range(STEPS):
            mask = observe(current.state)[1]
            drawn = jax.random.split(jax.random.key(number), LANES)
            action = jax.vmap(lambda key, mask: legal(env.action_spec(params), key, mask))(
                drawn, mask
            )
            current, timestep = step(drawn, current, action)
            seen.append((current.state, timestep.reward, timestep.done))
        return jax.device_get(seen)

    there = played()
    with target.tracing_for("cpu"):
        here = played()
    for one, other in zip(jax.tree.leaves(there), jax.tree.leaves(here), strict=True):
        if np.issubdtype(one.dtype, np.floating):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)
    assert any(done.any() for _, _, done in there)


def legal(spec, key, mask):
    """A legal action drawn at random; of real numbers any."""
    if hasattr(spec, "num_actions"):
        return jax.random.categorical(key, jax.numpy.where(mask, 0.0, -jax.numpy.inf))
    leaves, tree = jax.tree.flatten(spec, is_leaf=lambda leaf: hasattr(leaf, "shape"))
    return jax.tree.unflatten(tree, [jax.random.uniform(key, leaf.shape) for leaf in leaves])
