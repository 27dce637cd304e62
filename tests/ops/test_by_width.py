"""Functions of decisions by the width they need, on a function that is easy to follow."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops import by_width as widths


def running(width, shared, seen):
    """Sums over the positions so far: those behind the last real one change nothing before it."""
    return {"sum": shared * jnp.cumsum(seen[:, :width], axis=1), "sign": seen[:, :width, None] > 0}


def decisions(num_positions):
    """Observations whose last real position is everywhere once, and one without any."""
    rng = np.random.default_rng(num_positions)
    seen = rng.normal(size=(num_positions + 1, num_positions)).astype("f4")
    last = rng.permutation(num_positions + 1)
    real = np.arange(num_positions) < last[:, None]
    real &= (rng.random(real.shape) < 0.7) | (np.arange(num_positions) == last[:, None] - 1)
    return jnp.asarray(seen), jnp.asarray(real)


def assert_same(found, seen, real, shared=2.0):
    num_positions = real.shape[-1]
    expected = running(num_positions, shared, seen)
    for name, values in found.items():
        assert values.shape == expected[name].shape
        np.testing.assert_allclose(values[real], expected[name][real], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("num_positions", [5, 17, 32])
def test_every_decision_gets_its_own_result(num_positions):
    seen, real = decisions(num_positions)
    assert_same(jax.jit(partial(widths.by_width, running))(2.0, seen, real), seen, real)
    play = partial(widths.play_by_width, running)
    assert_same(jax.jit(jax.vmap(play, (None, 0, 0)))(2.0, seen, real), seen, real)
    one = jax.jit(play)
    alone = [one(2.0, row, there) for row, there in zip(seen, real, strict=True)]
    assert_same(jax.tree.map(lambda *x: jnp.stack(x), *alone), seen, real)


@pytest.mark.parametrize("num_positions", [5, 17])
def test_nested_batches(num_positions):
    """Batches of batches, the inner axis first or last, and one with a number of its own."""
    seen, real = decisions(num_positions)
    play = partial(widths.play_by_width, running)
    inner = jax.vmap(play, (None, 0, 0))
    folded = [x.reshape(3, -1, num_positions) for x in (seen, real)]
    found = jax.jit(jax.vmap(inner, (None, 0, 0)))(2.0, *folded)
    assert_same(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found), seen, real)
    found = jax.jit(jax.vmap(inner, (None, 1, 1), 1))(2.0, *folded)
    assert_same(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found), seen, real)
    found = jax.jit(jax.vmap(inner, (0, None, None)))(jnp.array([2.0, 3.0]), seen, real)
    for index, shared in enumerate((2.0, 3.0)):
        assert_same(jax.tree.map(lambda x, i=index: x[i], found), seen, real, shared)


def test_every_decision_is_computed_at_its_own_width_alone(monkeypatch):
    """The wide ones do not make the narrow ones wide."""
    num_positions, given = 32, []

    def watched(function, shared, decisions, chosen, chunk):
        given.append((function.args[0], np.flatnonzero(chosen)))
        return map_chosen(function, shared, decisions, chosen, chunk)

    map_chosen = widths.map_chosen
    monkeypatch.setattr(widths, "map_chosen", watched)
    seen, real = decisions(num_positions)
    widths.by_width(running, 2.0, seen, real)
    last = np.max(np.where(real, np.arange(1, num_positions + 1), 0), axis=1)
    assert [width for width, _ in given] == [4, 16, 32]
    for (width, rows), below in zip(given, (0, 4, 16), strict=True):
        np.testing.assert_array_equal(rows, np.flatnonzero((last > below) & (last <= width)))
