"""A function over chosen rows, against the same over all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops.masked_map import map_chosen

SIZE = 7


def function(shared, rows):
    """Something of every leaf, row by row, of two shapes."""
    weight, (shift, scale) = shared
    values, counts = rows
    hidden = jnp.tanh(values @ weight + shift)
    return {"row": hidden, "number": scale * jnp.sum(hidden, -1) * counts.astype(jnp.float32)}


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    shared = (
        jnp.asarray(rng.normal(size=(3, 2)), jnp.float32),
        (jnp.asarray(rng.normal(size=2), jnp.float32), jnp.float32(1.5)),
    )
    rows = (
        jnp.asarray(rng.normal(size=(SIZE, 3)), jnp.float32),
        jnp.asarray(rng.integers(0, 9, SIZE), jnp.int32),
    )
    return shared, rows


def masked(shared, rows, chosen):
    """All rows computed, then set to zero."""
    return jax.tree.map(
        lambda x: jnp.where(chosen.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0), function(shared, rows)
    )


def total(results):
    """Some number that depends on every entry."""
    return sum(jnp.sum(jnp.sin(x) * jnp.arange(1, x.size + 1).reshape(x.shape)) for x in results)


def check_equal(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


CHOICES = {
    "none": [],
    "one": [4],
    "ends": [0, 6],
    "a chunk": [1, 2, 5],
    "all": list(range(SIZE)),
}


@pytest.mark.parametrize("chunk", [1, 3, SIZE])
@pytest.mark.parametrize("rows_chosen", CHOICES.values(), ids=CHOICES)
def test_values_and_gradients(rows_chosen, chunk):
    shared, rows = inputs()
    chosen = jnp.zeros(SIZE, bool).at[jnp.array(rows_chosen, int)].set(True)
    check_equal(
        jax.jit(map_chosen, static_argnums=(0, 4))(function, shared, rows, chosen, chunk),
        masked(shared, rows, chosen),
    )
    found = jax.jit(
        jax.grad(lambda s: total(map_chosen(function, s, rows, chosen, chunk).values()))
    )(shared)
    check_equal(found, jax.grad(lambda s: total(masked(s, rows, chosen).values()))(shared))


def test_copies_that_choose_differently():
    shared, rows = inputs()
    weights = jax.tree.map(lambda x: jnp.stack([x, -2 * x]), shared)
    chosen = jnp.array([[True] * SIZE, [False] * (SIZE - 1) + [True]])

    def loss(shared, chosen):
        return total(map_chosen(function, shared, rows, chosen, 2).values())

    def plain(shared, chosen):
        return total(masked(shared, rows, chosen).values())

    found = jax.jit(jax.vmap(jax.value_and_grad(loss)))(weights, chosen)
    check_equal(found, jax.vmap(jax.value_and_grad(plain))(weights, chosen))


def test_rows_that_are_not_chosen_may_hold_anything():
    shared, (values, counts) = inputs()
    chosen = jnp.arange(SIZE) < 3
    junk = jnp.where(chosen[:, None], values, jnp.nan)

    def loss(shared, values):
        return total(map_chosen(function, shared, (values, counts), chosen, 2).values())

    check_equal(jax.grad(loss)(shared, junk), jax.grad(loss)(shared, values))


def test_a_copy_that_chooses_nothing_reads_nothing():
    shared, (values, counts) = inputs()
    chosen = jnp.array([[False, *[True] * (SIZE - 2), False], [False] * SIZE])
    junk = values.at[jnp.array([0, SIZE - 1])].set(jnp.nan)

    def loss(shared, chosen):
        return total(map_chosen(function, shared, (junk, counts), chosen, 2).values())

    gradients = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(shared, chosen)
    for leaf in jax.tree.leaves(gradients):
        assert np.all(np.isfinite(leaf)) and np.any(leaf[0] != 0) and np.all(leaf[1] == 0)


def test_rounds_are_common_to_all_copies():
    """However often it is vectorised, the loop's end stays a scalar."""
    shared, rows = inputs()

    def run(chosen):
        return map_chosen(function, shared, rows, chosen, 2)

    chosen = jnp.zeros((2, 3, SIZE), bool)
    program = str(jax.make_jaxpr(jax.vmap(jax.vmap(run)))(chosen))
    assert "while" in program and "reduce_or" not in program


def test_work_follows_the_number_of_chosen_rows():
    calls = []

    def counted(shared, rows):
        jax.debug.callback(lambda: calls.append(1))
        return function(shared, rows)

    shared, rows = inputs()
    for count, expected in ((0, 0), (1, 1), (4, 2), (SIZE, 4)):
        calls.clear()
        jax.block_until_ready(map_chosen(counted, shared, rows, jnp.arange(SIZE) < count, 2))
        jax.effects_barrier()
        assert len(calls) == expected
