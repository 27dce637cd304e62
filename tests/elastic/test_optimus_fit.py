"""The online fit against brute force on exact arithmetic and against known coefficients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

from jaxsched.elastic import optimus_fit as fit

POINTS = [(1, 1), (2, 2), (4, 4), (8, 8), (2, 1), (1, 2), (8, 4), (4, 8)]  # (w, p)


def total(points, seconds):
    w, p = (jnp.asarray(column) for column in np.array(points).T)
    each = fit.evidence(w, p, 1.0 / jnp.asarray(seconds))
    return each.gram.sum(axis=0), each.moment.sum(axis=0)


def test_supports_by_size_then_in_order():
    every = fit.supports(5)
    assert len(every) == 31
    assert every[:7] == ((0,), (1,), (2,), (3,), (4,), (0, 1), (0, 2))
    assert every[-1] == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_non_negative_least_squares(seed):
    rng = np.random.default_rng(seed)
    points = POINTS + [tuple(rng.integers(1, 17, 2)) for _ in range(20)]
    seconds = rng.uniform(40, 200, len(points))
    with jax.enable_x64(True):
        theta = np.asarray(fit.fit(*total(points, seconds)))
        design = np.asarray(fit.basis(*np.array(points).T)) / seconds[:, None]
    exact, residual = nnls(design, np.ones(len(points)))
    np.testing.assert_allclose(theta, exact, rtol=1e-4, atol=1e-6)
    assert np.linalg.norm(design @ theta - 1) == pytest.approx(residual, rel=1e-9)


def test_recovers_the_model_and_predicts_in_single_precision():
    truth = np.array([185.0, 2.0, 6.0, 1.8, 1.4])
    w, p = np.array(POINTS).T
    x = np.stack([1 / w, np.ones(len(w)), w / p, w, p], axis=-1)
    with jax.enable_x64(True):
        theta = np.asarray(fit.fit(*total(POINTS, x @ truth)))
    np.testing.assert_allclose(theta, truth, rtol=1e-3)  # the ridge is felt
    single = fit.fit(*total(POINTS, (x @ truth).astype(np.float32)))
    assert single.dtype == jnp.float32
    predicted = fit.predict(single, jnp.asarray(w), jnp.asarray(p))
    np.testing.assert_allclose(predicted, x @ truth, rtol=2e-3)


def test_batches_and_no_evidence():
    gram, moment = total(POINTS, np.full(8, 60.0))
    both = fit.fit(jnp.stack([gram, 0 * gram]), jnp.stack([moment, 0 * moment]))
    np.testing.assert_allclose(both[0], fit.fit(gram, moment), rtol=1e-6)
    assert np.asarray(both[1]).tolist() == [0.0] * 5
    assert float(fit.predict(both[1], jnp.int32(3), jnp.int32(2))) == pytest.approx(1e-6)
