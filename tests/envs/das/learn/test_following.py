"""A history that follows jobs: what was done with a job counts where the job is now."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.policies import View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.learn import DASNetwork
from jaxsched.envs.das.learn.agents import Sequence, das_agents, evidence_of, with_history
from jaxsched.envs.das.learn.policies import das_policy
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.errors import JaxschedError
from tests.envs.das.tables import ENV as SMALL
from tests.envs.das.tables import random_table

M, N, T, TAU = SMALL.num_servers, SMALL.window, 16, 2
ENV = DAS(num_servers=M, window=N, numbers=True)
SIZES = {"width": 8, "heads": 2, "history": TAU, "walk_length": 4}
POSITION, JOB = (DASNetwork(**SIZES, follows=which) for which in ("position", "job"))
TABLE = random_table(5, 30, gap=3, longest=2000)  # jobs queue, and move up
KEY = jax.random.key(0)
jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})  # compiles fast


@pytest.fixture(scope="module")
def played():
    """Weights, and an episode's observations with history, actions and log densities, [T, 1]."""
    env, agents = with_history(ENV, JOB), das_agents(ENV, JOB)
    params = ENV.params([TABLE])
    weights = agents.init(KEY, env.specs(params))
    leaves, structure = jax.tree.flatten(weights)
    random = np.random.default_rng(0)
    weights = structure.unflatten(
        [x + 0.3 * random.normal(size=x.shape).astype("f4") for x in leaves]
    )

    def step(carry, key):
        state, seen = carry
        one = jax.tree.map(lambda x: x[None], seen)
        action, log_prob = agents.sample(weights, one, None, key)
        flat = jax.tree.map(lambda x: x[0], action)
        state, timestep = env.step(key, state, flat, params)
        return (state, timestep.observation), (one, action, log_prob)

    state, first = env.reset(KEY, params, jnp.int32(0))
    keys = jax.random.split(KEY, T)
    _, steps = jit(lambda: jax.lax.scan(step, (state, first.observation), keys))()
    return weights, *steps


def test_jobs_move_between_positions(played):
    """The episode is one in which it matters which is followed."""
    number = np.asarray(played[1].observation.number[:, 0])
    real = np.asarray(played[1].observation.real[:, 0])
    places = [{n: i for i, n in enumerate(row[is_real])}
              for row, is_real in zip(number, real, strict=True)]  # fmt: skip
    moved = [
        n
        for before, after in zip(places, places[1:], strict=False)
        for n in before
        if after.get(n, before[n]) != before[n]
    ]
    assert len(moved) >= 3


def test_sequences_are_evaluated_as_they_were_sampled(played):
    weights, seen, action, log_prob = played
    agents = das_agents(ENV, JOB)
    result = jit(lambda: agents.evaluate(weights, seen, None, action))()
    for agent, expected in log_prob.items():
        np.testing.assert_allclose(result.log_prob[agent], expected, atol=2e-4)


def test_it_matters_which_is_followed(played):
    """To affinities of jobs that have moved, and to nothing else."""
    weights, seen, _, _ = played
    by_job, by_position = (
        jit(lambda s, network=network: das_agents(ENV, network).greedy(weights, s, None))
        for network in (JOB, POSITION)
    )
    differs = 0
    for step in range(T):
        now = jax.tree.map(lambda x, step=step: x[step], seen)
        followed, plain = by_job(now), by_position(now)
        np.testing.assert_array_equal(followed["priority"], plain["priority"])
        past, valid = now.history.observation, now.history.valid
        stayed = (past.number == now.observation.number[:, None]) | ~past.real
        stayed = np.asarray(jnp.all(stayed | ~valid[..., None], axis=1) & now.observation.real)
        moved = np.asarray(now.observation.real) & ~stayed
        gap = np.abs(followed["affinity"] - plain["affinity"]).max(axis=-1)
        assert (gap[stayed] < 1e-5).all()
        differs += (gap[moved] > 1e-3).any()
    assert differs >= 2


def test_evidence_is_that_of_the_same_job():
    """Summed over the decisions that are looked at, wherever the job was; brute force."""
    random = np.random.default_rng(2)
    steps, decisions, jobs = 3, 5, 6
    number = np.stack([random.permutation(jobs)[:N] for _ in range(2 * decisions)])
    number, real = number.reshape(2, decisions, N), random.random((2, decisions, N)) < 0.7
    weight = random.random((2, steps, decisions)) < 0.6
    evidence = random.normal(size=(2, decisions, N, 2, 3)).astype("f4")
    nothing = jnp.zeros((2, decisions, N, 5)), jnp.zeros((2, decisions, M, 5))
    sequence = Sequence(
        Observation(*nothing, jnp.asarray(real), jnp.asarray(number, jnp.int32)),
        jnp.zeros((2, decisions, N, M)),
        jnp.asarray(weight, jnp.float32),
    )
    found = evidence_of(sequence, jnp.asarray(evidence), True)
    expected = np.zeros((2, steps, N, 2, 3))
    for b, t, s, i, p in np.ndindex(2, steps, decisions, N, N):
        now = decisions - steps + t
        both = real[b, now, i] and real[b, s, p] and number[b, now, i] == number[b, s, p]
        expected[b, t, i] += evidence[b, s, p] * (weight[b, t, s] and both)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(expected).sum() > 0


def test_the_policy_of_one_environment_acts_as_the_agents(played):
    """Keeping what earlier decisions tell, with the numbers of their jobs."""
    weights, seen, _, _ = played
    env, agents, policy = with_history(ENV, JOB), das_agents(ENV, JOB), das_policy(ENV, JOB)
    params = ENV.params([TABLE])
    act = jit(lambda now, memory: policy.act(weights, memory, View(now, None, None, None), KEY))
    greedy = jit(lambda now: agents.greedy(weights, now, None))
    state, timestep = env.reset(KEY, params, jnp.int32(0))
    memory = policy.init(None)
    step = jit(env.step)
    for _ in range(T):
        now = timestep.observation
        expected = greedy(jax.tree.map(lambda x: x[None], now))
        action, memory = act(now.observation, memory)
        real = np.asarray(now.observation.real)
        for part, value in expected.items():
            np.testing.assert_allclose(action[part][real], value[0][real], atol=1e-4)
        state, timestep = step(KEY, state, jax.tree.map(lambda x: x[0], expected), params)


def test_numbers_are_asked_for():
    for make in (das_agents, das_policy, with_history):
        with pytest.raises(JaxschedError, match="needs env.numbers"):
            make(DAS(num_servers=M, window=N), JOB)
