"""What decisions say taken by width, against the same of all slots."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.networks import DASNetwork, Trunk
from jaxsched.envs.das.observation import Observation
from jaxsched.envs.das.outlook import SPLIT_FROM, outlook_by_width, outlook_of

N, M = SPLIT_FROM, 3
ENV = DAS(num_servers=M, window=N)
REAL = {
    "none": np.zeros(N, bool),
    "one": np.arange(N) < 1,
    "first two": np.arange(N) < 2,
    "half": np.arange(N) < N // 2,
    "all": np.ones(N, bool),
    "with gaps": np.arange(N) % 3 == 1,
}


def decisions(seed=0):
    """One decision for each number of real slots, twice over, ``[2, D, ...]``."""
    rng = np.random.default_rng(seed)
    real = np.stack([np.stack(list(REAL.values()))] * 2)
    jobs = np.where(real[..., None], rng.uniform(size=(*real.shape, 5)), 0)
    machines = rng.uniform(size=(*real.shape[:2], M, 5))
    return Observation(jnp.asarray(jobs, "f4"), jnp.asarray(machines, "f4"), jnp.asarray(real))


@pytest.mark.parametrize("variant", ["DA+MC", "DAS"])
def test_narrow_decisions_say_the_same(variant):
    options = DASNetwork(variant, width=8, heads=2, walk_length=4, extra_features=True)
    trunk, seen = Trunk(ENV, options), decisions()
    params = trunk.init(jax.random.key(0), jax.tree.map(lambda x: x[0, 0], seen))
    random = np.random.default_rng(1)
    params = jax.tree.map(lambda x: x + 0.3 * random.normal(size=x.shape).astype("f4"), params)

    def looked(outlook, params):
        """Where slots are real; and a number that depends on all of it."""
        found = outlook(trunk, params, seen)
        leaves = [
            jnp.where(seen.real.reshape(*seen.real.shape, *[1] * (x.ndim - 3)), x, 0.0)
            for x in jax.tree.leaves(found)
        ]
        return sum(jnp.sum(jnp.sin(3 * x)) for x in leaves), leaves

    results = [
        jax.jit(jax.value_and_grad(partial(looked, outlook), has_aux=True))(params)
        for outlook in (outlook_by_width, outlook_of)
    ]
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_dummy_slots_have_harmless_numbers():
    options = DASNetwork("DA", width=8, heads=2)
    trunk, seen = Trunk(ENV, options), decisions()
    params = trunk.init(jax.random.key(0), jax.tree.map(lambda x: x[0, 0], seen))
    found = outlook_by_width(trunk, params, seen)
    dummy = ~np.asarray(seen.real)
    assert np.all(np.asarray(found.priority_std)[dummy] == 1)
    assert np.all(np.asarray(found.affinity_std)[dummy] == 1)
    assert np.all(np.isfinite(found.affinity_mean))
