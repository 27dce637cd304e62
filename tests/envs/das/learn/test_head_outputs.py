"""What decisions say taken by width, against the same of all positions."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.das import learn
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learn import DASNetwork, Trunk, derived_features, policies
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.errors import JaxschedError
from jaxsched.networks import walk_process as wp
from jaxsched.ops import by_width
from jaxsched.ops.by_width import SPLIT_FROM, play_by_width

N, M = SPLIT_FROM, 3
ENV = DAS(num_servers=M, window=N)
jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})  # compiles fast
REAL = {
    "none": np.zeros(N, bool),
    "one": np.arange(N) < 1,
    "first two": np.arange(N) < 2,
    "half": np.arange(N) < N // 2,
    "all": np.ones(N, bool),
    "with gaps": np.arange(N) % 3 == 1,
}


def decisions(seed=0):
    """One decision per number of real positions, twice over, ``[2, D, ...]``, and affinities."""
    rng = np.random.default_rng(seed)
    real = np.stack([np.stack(list(REAL.values()))] * 2)
    lead = real.shape[:2]
    jobs = np.stack(
        [
            rng.integers(1, 9, (*lead, N)) / 64,
            rng.integers(1, 5, (*lead, N)) / 8,
            rng.integers(1, 40, (*lead, N)) / 96,
            rng.integers(1, 99, (*lead, N)) / 384,
            rng.integers(1, 9000, (*lead, N)) / 86400,
        ],
        axis=-1,
    )
    machines = rng.integers(0, 9, size=(*lead, M, 5)) / 8
    seen = np.where(real[..., None], jobs, 0).astype("f4"), machines.astype("f4"), real
    return Observation(*map(jnp.asarray, seen)), jnp.asarray(rng.normal(size=(*lead, N, M)), "f4")


slow = pytest.mark.slow  # the other variant, and ``test_widths`` for every way of calling


@pytest.mark.parametrize("variant", [pytest.param("DA+MC", marks=slow), "DAS"])
def test_narrow_decisions_say_the_same(variant, monkeypatch):
    """Of two copies of the weights, one of which meets no wide decision."""
    monkeypatch.setattr(by_width, "CHUNK_POSITIONS", 4)
    monkeypatch.setattr(by_width, "CHUNKS", 4)
    options = DASNetwork(variant, width=8, heads=2, walk_length=4, extra_features=True)
    trunk, (seen, affinity) = Trunk(ENV, options), decisions()
    params = jit(trunk.init)(jax.random.key(0), jax.tree.map(lambda x: x[0, 0], seen))
    random = np.random.default_rng(1)
    params = jax.tree.map(
        lambda x: x + 0.3 * random.normal(size=(2, *x.shape)).astype("f4"), params
    )
    narrow = jax.tree.map(lambda x: x.at[:, 2:].set(x[:, :1]), seen)
    seen = jax.tree.map(lambda *x: jnp.stack(x), seen, narrow)

    def looked(look, params, seen):
        """Where positions are real; and a number that depends on all of it."""
        executed = jnp.where(seen.real[..., None], affinity, 0.0) if options.remembers else None
        found = look(trunk, params, seen, executed)
        leaves = [
            jnp.where(seen.real.reshape(*seen.real.shape, *[1] * (x.ndim - 3)), x, 0.0)
            for x in jax.tree.leaves(found)
        ]
        return sum(jnp.sum(jnp.sin(3 * x)) for x in leaves), leaves

    results = [
        jit(jax.vmap(jax.value_and_grad(partial(looked, look), has_aux=True)))(params, seen)
        for look in (learn.outlook_by_width, learn.outlook_of)
    ]
    assert len(results[0][0][1]) == (7 if options.remembers else 4)
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("variant", "way"),
    [
        ("DA+MC", "alone"),
        ("DAS", "side by side"),
        *(
            pytest.param(variant, way, marks=slow)
            for variant, way in [
                ("DA+MC", "side by side"),
                ("DAS", "alone"),
                *product(("DA+MC", "DAS"), ("weights of their own", "each weights side by side")),
            ]
        ),
    ],
)
def test_choices_alone_and_side_by_side(variant, way, monkeypatch):
    """Of one decision, of many, and of many with other weights each, as of whole windows."""
    monkeypatch.setattr(by_width, "CHUNK_POSITIONS", 4)
    options = DASNetwork(variant, width=8, heads=2, walk_length=4, extra_features=True)
    trunk, seen = Trunk(ENV, options), jax.tree.map(lambda x: x[0], decisions()[0])
    params = jit(trunk.init)(jax.random.key(0), jax.tree.map(lambda x: x[0], seen))
    size, rng = len(REAL), np.random.default_rng(2)
    params = jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape).astype("f4"), params)
    known: object = ()
    if options.remembers:
        features = jnp.asarray(rng.normal(size=(size, N, M, policies.num_features(options))), "f4")
        known = wp.evidence(features, jnp.asarray(rng.normal(size=(size, N, M)), "f4"))
    narrow, given = partial(policies.choices, trunk), (seen, known)
    play = partial(play_by_width, narrow)
    several = jax.tree.map(lambda x: jnp.stack([x] * size), params)
    together = jax.vmap(play, (None, 0, 0))
    if way == "alone":
        one = jit(play)
        rows = [
            one(params, jax.tree.map(lambda x, i=i: x[i], given), seen.real[i]) for i in range(size)
        ]
        found = jax.tree.map(lambda *x: jnp.stack(x), *rows)
    elif way == "side by side":
        found = jit(together)(params, given, seen.real)
    elif way == "weights of their own":
        found = jit(jax.vmap(play))(several, given, seen.real)
    else:
        many = jit(jax.vmap(together, (0, None, None)))(several, given, seen.real)
        found = jax.tree.map(lambda x: x[-1], many)
    whole = jit(partial(narrow, N))(params, given)
    real = np.asarray(seen.real)
    assert len(jax.tree.leaves(whole)) == (4 if options.remembers else 2)
    for a, b in zip(*map(jax.tree.leaves, (found, whole)), strict=True):
        assert a.shape == b.shape
        a, b = np.asarray(a)[real], np.asarray(b)[real]
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_policies_at_play_cannot_be_differentiated():
    """They say so, rather than give gradients that lack the part of what is observed."""

    def narrow(width, shared, seen):
        return shared * seen[:, :width]

    def total(shared, seen):
        play = jax.vmap(partial(play_by_width, narrow), (None, 0, 0))
        return jnp.sum(play(shared, seen, seen > 0))

    seen = jnp.ones((2, N))
    assert float(total(2.0, seen)) == 4 * N
    for argument in (0, 1):
        with pytest.raises(JaxschedError, match="cannot be differentiated"):
            jax.grad(total, argument)(2.0, seen)


def test_dummy_positions_have_harmless_numbers():
    options = DASNetwork("DA", width=8, heads=2)
    trunk, (seen, _) = Trunk(ENV, options), decisions()
    params = jit(trunk.init)(jax.random.key(0), jax.tree.map(lambda x: x[0, 0], seen))
    found = jit(partial(learn.outlook_by_width, trunk))(params, seen)
    dummy = ~np.asarray(seen.real)
    assert np.all(np.asarray(found.priority_std)[dummy] == 1)
    assert np.all(np.asarray(found.affinity_std)[dummy] == 1)
    assert np.all(np.isfinite(found.affinity_mean))


def test_derived_features_of_pairs():
    """A job of 3 x (2 GPUs, 8 CPUs) on machines with (7 GPUs, 96 CPUs), (4, 10) and (2, 8) free."""
    jobs = np.zeros((N, 5), "f4")
    jobs[0] = [3 / 64, 2 / 8, 8 / 96, 1 / 384, 0]
    jobs[1] = [3 / 64, 2 / 8, 30 / 96, 1 / 384, 0]  # fits on one machine only where CPUs are free
    machines = np.zeros((M, 5), "f4")
    machines[:, 0] = np.array([96, 10, 8]) / 96
    machines[:, 1] = np.array([7, 4, 2]) / 8
    machines[:, 2] = 1
    seen = Observation(jnp.asarray(jobs), jnp.asarray(machines), jnp.arange(N) < 2)
    derived = jit(partial(derived_features, ENV))
    pairs = np.asarray(derived(seen).pairs)
    first = [[1, 1, 1 / 8, 72 / 96], [1 / 3, 0, 2 / 8, 2 / 96], [1 / 3, 0, 0, 0]]
    second = [[1, 1, 1 / 8, 6 / 96], [0, 0, 4 / 8, 10 / 96], [0, 0, 2 / 8, 8 / 96]]
    np.testing.assert_allclose(pairs[:2, :, :4], [first, second], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(pairs[:2, :, 4:], pairs[:2, :, :4])
    narrow = seen._replace(machines=seen.machines.at[0, 1].set(4 / 8))
    alone = np.asarray(derived(narrow).pairs)
    assert np.all(alone[:2, :, 4:] == 0) and np.any(alone[:2, :, :4] != 0)
