"""The loss of pairs against a computation by hand and against one of all rows at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.algorithms import ranking as module
from jaxsched.algorithms.ranking import ranking


def test_pairs_by_hand():
    found, wanted = jnp.array([[0.5, 1.0, 0.0, 9.0]]), jnp.array([[2.0, 1.0, 1.0, 5.0]])
    pairs = ranking(found, wanted, jnp.array([[True, True, True, False]]), 2.0)
    # Pairs 0 > 1 (wrong, by 0.5) and 0 > 2 (right, by 0.5); 1 and 2 tie.
    expected = (np.log1p(np.exp(1.0)) + np.log1p(np.exp(-1.0))) / 2
    np.testing.assert_allclose(pairs.loss, [[expected]], rtol=1e-6)
    np.testing.assert_allclose(pairs.agreement, [[0.5]])
    assert bool(pairs.active[0, 0])

    rows = jnp.array([[0.0, 1.0], [3.0, 3.0], [1.0, 0.0]])
    pairs = ranking(rows, jnp.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]]), jnp.ones(3, bool))
    np.testing.assert_array_equal(pairs.active, [True, False, True])
    np.testing.assert_array_equal(pairs.agreement, [1, 0, 0])
    np.testing.assert_allclose(pairs.loss, np.log1p(np.exp([-1.0, -np.inf, 1.0])) * [1, 0, 1])
    assert not bool(ranking(rows, rows, jnp.zeros(3, bool)).active.any())


def direct(found, wanted, active, scale):
    """Loss per unit of ``[R, U, D]``, pair by pair, and its gradient by NumPy."""
    loss, slope = np.zeros(active.shape), np.zeros(found.shape)
    for at in zip(*np.nonzero(active), strict=True):
        pairs = [
            (i, j)
            for i in range(found.shape[-1])
            for j in range(found.shape[-1])
            if wanted[at][i] > wanted[at][j]
        ]
        for i, j in pairs:
            apart = found[at][i] - found[at][j]
            loss[at] += np.log1p(np.exp(-scale * apart)) / len(pairs)
            push = scale / (1 + np.exp(scale * apart)) / len(pairs)
            slope[(*at, i)] -= push
            slope[(*at, j)] += push
    return loss, slope


@pytest.mark.parametrize("chunk_pairs", [1, 64, 2**18])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_values_and_gradients_of_units(monkeypatch, chunk_pairs, share):
    monkeypatch.setattr(module, "CHUNK_PAIRS", chunk_pairs)
    random = np.random.default_rng(0)
    found = random.normal(size=(7, 3, 4)).astype(np.float32)
    wanted = random.integers(0, 3, size=(7, 3, 4)).astype(np.float32)
    active = random.random((7, 3)) < share
    found[~active] = np.nan  # what is not active may hold anything
    weights = jnp.asarray(random.normal(size=(7, 3)), jnp.float32)

    def total(found):
        pairs = ranking(found, wanted, active, 1.5)
        return jnp.sum(weights * pairs.loss), pairs

    slope, pairs = jax.jit(jax.grad(total, has_aux=True))(found)
    loss, expected = direct(found, wanted, active, 1.5)
    np.testing.assert_allclose(pairs.loss, loss, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(slope, np.asarray(weights)[..., None] * expected, atol=1e-5)
    assert not np.asarray(pairs.active)[~active].any()


def test_gradients_of_steps_and_copies():
    random = np.random.default_rng(1)
    found, wanted = random.normal(size=(2, 5, 6)).astype(np.float32), random.normal(size=(5, 6))
    active = random.random((2, 5, 6)) < 0.5
    found[~active] = np.nan
    scales = jnp.array([0.5, 2.0])

    def total(found, active, scale):
        return jnp.sum(ranking(found, wanted, active, scale).loss)

    together = jax.vmap(jax.grad(total))(found, active, scales)
    for copy, scale in enumerate(scales.tolist()):
        for step in range(5):
            there = np.nonzero(active[copy, step])[0]
            _, slope = direct(
                found[copy, step, there][None, None],
                wanted[step, there][None, None],
                np.ones((1, 1), bool),
                scale,
            )
            expected = np.zeros(6)
            expected[there] = slope[0, 0]
            np.testing.assert_allclose(together[copy, step], expected, atol=1e-5)
