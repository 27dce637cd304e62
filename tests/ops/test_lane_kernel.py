"""Steps in one kernel are the steps, in Pallas' interpreter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.ops.lane_kernel import kernel_of

BATCH, STEPS, BLOCK = 16, 7, 8
TABLE = jnp.arange(12, dtype=jnp.int32) * 5 % 7
RNG = np.random.default_rng(0)
WEIGHTS = {
    "hidden": jnp.asarray(RNG.normal(size=(3, 4)), jnp.float32),
    "out": jnp.asarray(RNG.normal(size=(4, 2)), jnp.float32),
}
BEGUN = {
    "held": jax.ShapeDtypeStruct((2,), jnp.int32),
    "bits": jax.ShapeDtypeStruct((), jnp.uint32),
    "open": jax.ShapeDtypeStruct((), jnp.bool_),
    "load": jax.ShapeDtypeStruct((), jnp.float32),
}
SUM = jax.ShapeDtypeStruct((), jnp.float32)


def step(shared, state, draw):
    """A small network chooses between two rows, whose number a table gives; flags, bits, powers."""
    table, weights = shared
    seen = jnp.concatenate([state["held"].astype(jnp.float32), state["load"][None]])
    scores = jnp.tanh(seen @ weights["hidden"]) @ weights["out"]
    chosen = jnp.argmax(scores)
    added = table[(state["held"][chosen] + draw % 5).astype(jnp.int32) % 12]
    held = jnp.where(jnp.arange(2) == chosen, added, state["held"])
    bits = (state["bits"] << 1) ^ draw
    few = jax.lax.population_count(bits) < 16
    load = state["load"] * 0.5 + jnp.sign(held[0] - 3) + (few & state["open"]).astype(jnp.float32)
    following = {"held": held, "bits": bits, "open": ~few, "load": load**2 / 8}
    return following, (jnp.float32(added), load)


def states():
    return {
        "held": jnp.asarray(RNG.integers(0, 9, (2, BATCH)), jnp.int32),
        "bits": jnp.asarray(RNG.integers(0, 99, BATCH), jnp.uint32),
        "open": jnp.asarray(RNG.integers(0, 2, BATCH), bool),
        "load": jnp.asarray(RNG.normal(size=BATCH), jnp.float32),
    }


def test_steps_in_one_kernel_are_the_steps():
    begun = states()
    draws = jax.random.bits(jax.random.key(0), (STEPS, BATCH), jnp.uint32)
    run = kernel_of(step, (TABLE, WEIGHTS), BEGUN, (SUM, SUM), block=BLOCK)
    ended, sums = jax.jit(run)(begun, draws)
    many = jax.vmap(step, (None, -1, 0), (-1, 0))
    expected, seen = jax.lax.scan(lambda s, draw: many((TABLE, WEIGHTS), s, draw), begun, draws)
    for name, leaf in expected.items():
        assert ended[name].dtype == leaf.dtype and ended[name].shape == leaf.shape
        np.testing.assert_allclose(ended[name], leaf, rtol=1e-5)
    for one, other in zip(sums, seen, strict=True):
        np.testing.assert_allclose(one, other.sum(0), rtol=1e-5)
    assert len(np.unique(ended["held"])) > 2  # the network chose, and differently


def test_whole_blocks_only():
    run = kernel_of(step, (TABLE, WEIGHTS), BEGUN, (SUM, SUM), block=5)
    with pytest.raises(JaxschedError, match="16 lanes are no multiple of the block of 5"):
        run(states(), jnp.zeros((STEPS, BATCH), jnp.uint32))


def test_numbers_of_other_types_are_refused():
    def halve(shared, state, draw):
        return {"x": state["x"] / 2}, jnp.float32(0)

    with pytest.raises(JaxschedError, match="no kernel for numbers of bfloat16"):
        kernel_of(halve, (), {"x": jax.ShapeDtypeStruct((), jnp.bfloat16)}, SUM)


def test_is_written_for_a_gpu():
    run = kernel_of(step, (TABLE, WEIGHTS), BEGUN, (SUM, SUM), block=BLOCK)
    traced = jax.jit(run).trace(states(), jnp.zeros((STEPS, BATCH), jnp.uint32))
    assert "triton" in traced.lower(lowering_platforms=("cuda",)).as_text()
