"""Windows of many rows, one block of arrays: the same episodes as row by row, up to 1,000."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.simulators import chic as oracle
from jaxsched.core.policies import View
from jaxsched.envs.chic import Chic
from jaxsched.envs.chic.heuristics import baseline
from jaxsched.envs.chic.rules import dynamics as rows
from jaxsched.errors import JaxschedError
from tests.envs.chic.rules.test_oracle import PLAYED, both, play_library, to_tables

WIDE, NUM_JOBS, STEPS = 60, 110, 120


@pytest.fixture(scope="module")
def in_one_block():
    """Windows of any size are one block of arrays."""
    jax.clear_caches()  # programs of the other form
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "MOST_APART", 0)
        yield
    jax.clear_caches()


@pytest.mark.parametrize("setting", [PLAYED[k] for k in (0, 1, 3, 4, 8, 10)], ids=str)
def test_one_block_plays_as_the_oracle_does(setting, in_one_block):
    """The independent simulator, whose plays reach everything (``test_oracle.py``)."""
    state, _ = Chic(**setting.static).reset(jax.random.key(0), params_of(setting), jnp.int32(0))
    assert len(state.rows) == 1 and state.rows[0].job.ndim == 1
    expected, _, found, *_ = both.__wrapped__(setting)
    for name in ("mask", "terminal", "terminated", "truncated"):
        np.testing.assert_array_equal(found[name], [e[name] for e in expected], err_msg=name)
    for name in ("time", "observation", "reward", "elapsed"):
        np.testing.assert_allclose(
            found[name], [e[name] for e in expected], rtol=1e-6, atol=1e-7, err_msg=name
        )


def params_of(setting):
    return Chic(**setting.static).params(to_tables([[(0.0, 0, 5)]]), **setting.scalars)


def burst(seed, num_jobs=NUM_JOBS):
    """Workloads of which most wait from the beginning on."""
    rng = random.Random(seed)
    come = sorted(rng.choice([0.0, 0.0, 0.0, rng.uniform(0, 9000)]) for _ in range(num_jobs))
    return [(round(at, 2), rng.randrange(3), rng.randint(1, 40)) for at in come]


@pytest.mark.parametrize("pair", [False, True])
def test_many_rows_are_played_as_by_the_oracle(pair):
    static = {"window": WIDE, "pair": pair, "capacity": (60, 700, 3500), "max_decisions": 40}
    table, rng = burst(pair), random.Random(7)
    sim, expected = oracle.Chic(table, **static), []
    for _ in range(STEPS):
        legal = [action for action, is_legal in enumerate(sim.mask()) if is_legal]
        action = rng.choice(legal if rng.random() < 0.9 else legal[-1:])
        seen = (sim.observation(), sim.mask(), sim.time, action)
        expected.append((*seen, *sim.step(action)))
    observation, mask, time, actions, reward, elapsed = map(np.array, zip(*expected, strict=True))
    with jax.enable_x64(True):
        env = Chic(**static)
        params = env.params(to_tables([table]))
        found, _ = play_library(env, params, jnp.asarray(actions, jnp.int32)[None])
    assert observation[:, -1].max() > 0 and (time[1:] > time[:-1]).sum() > 5
    np.testing.assert_array_equal(found["mask"][0], mask)
    for name, value in {
        "observation": observation,
        "time": time,
        "reward": reward,
        "elapsed": elapsed,
    }.items():
        np.testing.assert_allclose(found[name][0], value, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("name", "least"), [("random", 0), ("round_robin", 0), ("optimus_event", 5)]
)
def test_rules_take_wide_windows(name, least):
    """With 1,000 rows to give to, rules that give everybody something finish nobody soon."""
    env = Chic(window=1000)
    params = env.params(to_tables([burst(3, 1500)]))
    policy = baseline(name, env)

    def step(state, key):
        view = View(*env.observe(state, params), state, params)
        action, _ = policy.act((), (), view, key)
        state, timestep = env.step(key, state, action, params)
        return state, (view.mask[action], timestep.metrics.finishes.sum())

    state, _ = env.reset(jax.random.key(0), params, jnp.int32(0))
    keys = jax.random.split(jax.random.key(1), 200)
    _, (legal, finishes) = jax.jit(lambda s: jax.lax.scan(step, s, keys))(state)
    assert legal.all() and finishes.sum() >= least


def test_search_refuses_wide_windows():
    with pytest.raises(JaxschedError, match="search would compare .* .a smaller cluster or window"):
        baseline("search", Chic(window=40))
