"""Whole slots placed by an order's rule are those of the same rule answering offer by offer."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.mlfs import MLFS
from jaxsched.envs.mlfs.heuristics.baselines import heuristic
from jaxsched.envs.mlfs.rules import div
from jaxsched.systems import functions, registry
from tests.envs.mlfs.heuristics.test_pairs import COUNTED
from tests.envs.mlfs.rules.test_env_oracle import SETTINGS, random_tables, to_params

SYSTEM = registry.get("mlfs")


@pytest.mark.parametrize(
    "order", ["mlf", *(pytest.param(n, marks=pytest.mark.slow) for n in ("tiresias", "gandiva"))]
)
def test_slots_of_a_rule_are_its_offers(order):
    offered = MLFS(**{**SETTINGS["mixed"], "order": order, "decide": "offer"})
    slots = replace(offered, decide="rule")
    params = to_params(offered, random_tables("mixed", offered))
    expected, found = (
        functions.play(SYSTEM, e, heuristic(e), params).metrics for e in (offered, slots)
    )
    for metric in COUNTED:
        np.testing.assert_array_equal(found[metric], expected[metric], err_msg=metric)
    np.testing.assert_allclose(found["return"], expected["return"], rtol=1e-6)
    assert found["steps"].min() > 20


@pytest.mark.parametrize("kind", ["spread", "multiples", "small divisors"])
def test_division_of_vectors_rounds_down(kind):
    draw = np.random.default_rng(0)
    size, most = 2**16, 2**31 - 1
    above, below = (np.int64(2 ** draw.uniform(0, 31, size)) for _ in range(2))
    if kind == "multiples":
        above = below * draw.integers(0, 2**12, size) + draw.integers(-1, 2, size)
    if kind == "small divisors":
        below = draw.integers(1, 50, size)
    above, below = np.clip(above, 0, most), np.clip(below, 1, most)
    above[:3], below[:3] = (most, most, 0), (1, most, 7)
    found = jax.jit(div)(jnp.asarray(above, jnp.int32), jnp.asarray(below, jnp.int32))
    np.testing.assert_array_equal(found, above // below)
