"""Critics that see what policies do not: the luck of an episode leaves the advantages."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxsched
from jaxsched.algorithms.ppo import ppo
from jaxsched.algorithms.ppo_settings import PPOConfig
from jaxsched.core import training
from jaxsched.core.policies import View, uniform_legal, uniform_reals
from jaxsched.envs.sched2.rules.observation import COMING
from jaxsched.errors import JaxschedError
from jaxsched.networks.mlp import ValueMLP
from jaxsched.systems import presets, registry
from jaxsched.systems.stages import stages_of
from jaxsched.wrappers.privileged_state import (
    PrivilegedState,
    Reads,
    everything,
    playing_inside,
    seen,
)
from tests import probes
from tests.algorithms.test_common_sequences import Lottery
from tests.algorithms.test_ppo import POLICY
from tests.instances import sched2_tables

UPDATES = 80
LUCK = 50.0


class Told(Lottery):
    """The lottery, whose critics are told the luck."""

    name = "told"

    def privileged_state(self, state, params):
        """1 where the episode is a lucky one."""
        return (params.prize[state[1]] > LUCK / 2).astype(jnp.float32)[None]


@cache
def trained(whole):
    env = PrivilegedState(Told()) if whole else Told()
    network = ValueMLP((32,))
    policy = Reads(POLICY, seen) if whole else POLICY
    value = Reads(network, everything) if whole else network
    config = PPOConfig(
        UPDATES, num_minibatches=2, learning_rate=0.02, normalise_targets=True, gamma=1.0
    )
    loop = training.LoopConfig(num_envs=16, rollout_length=8, num_updates=UPDATES)
    params = probes.wager((-1000.0, 1004.0, -998.0, 1006.0), sure=1.0)
    learner = ppo(policy, value, config)
    carry = training.init(env, learner, loop, jax.random.key(0), params)
    carry, metrics = training.chunk(env, learner, loop, carry, params, num_updates=UPDATES)
    return learner.policy_params(carry.learner_state), jax.device_get(metrics)


def test_luck_is_explained_by_who_sees_it_and_the_policy_does_not():
    weights, metrics = trained(True)
    assert metrics["explained_variance"][-10:].mean() > 0.9
    _, blind = trained(False)
    assert blind["explained_variance"][-10:].mean() < 0.7
    # What is learnt plays on the plain observation, without the wrapper.
    jax.tree.map(
        lambda x, y: np.testing.assert_array_equal(x.shape, y.shape),
        weights,
        POLICY.init(jax.random.key(0), jnp.eye(3)),
    )


@pytest.mark.parametrize("name", ["sched2", "dl2", "chic", "das", "mlfs"])
def test_systems_tell_their_state(name):
    env, params = jaxsched.make(name)
    told = PrivilegedState(env)
    assert told.has_privileged_state == env.has_privileged_state
    spec = told.observation_spec(params)
    draw = uniform_reals("random", env.action_spec()) if name == "das" else uniform_legal()
    policy = playing_inside(draw)

    def play(key):
        state, timestep = told.reset(key, params, jnp.int32(0))

        def step(state, key):
            observation, mask = told.observe(state, params)
            action, _ = policy.act((), (), View(observation, mask, state, params), key)
            state, timestep = told.step(key, state, action, params)
            return state, timestep.observation

        return jax.lax.scan(step, state, jax.random.split(key, 40))[1], timestep.observation

    later, first = jax.jit(play)(jax.random.key(0))
    assert first.rest.shape == spec.rest.shape
    assert first.rest.dtype == jnp.float32
    assert bool(jnp.all(jnp.isfinite(later.rest)))
    assert bool(jnp.any(later.rest != first.rest))
    if name != "das":  # whose observation has several parts
        assert everything(first).shape == (spec.observation.shape[0] + spec.rest.shape[0],)


def test_what_sched2_tells():
    """An idle cluster with the whole table ahead: the next submissions, as the table has them."""
    env, params = jaxsched.make("sched2")
    table = params.jobs
    state, _ = env.reset(jax.random.key(0), params, jnp.int32(0))
    told = np.asarray(env.privileged_state(state, params))
    arrived = int(state.arrived)
    coming = told[4:].reshape(3, COMING)
    rows = slice(arrived, arrived + COMING)
    hours = np.asarray(table.submit_time[0, rows]) / 3600
    np.testing.assert_allclose(coming[0], np.minimum(hours, 24), rtol=1e-6)
    np.testing.assert_allclose(coming[2], np.asarray(table.num_gpus[0, rows]) / 8)
    assert told[0] == told[2] == 0  # nobody waits beyond the window, nothing runs
    np.testing.assert_allclose(told[3], 1 - arrived / int(table.num_jobs[0]), rtol=1e-6)


def test_what_does_not_fit_is_refused():
    with pytest.raises(JaxschedError, match="lottery: has no privileged state"):
        PrivilegedState(Lottery())
    with pytest.raises(JaxschedError, match="lottery: has no privileged state"):
        Lottery().privileged_state((jnp.int32(0), jnp.int32(0)), probes.wager([1.0]))
    from jaxsched.runs.overrides import override

    system = registry.get("sched2")
    blind = override(presets.preset(system, "plain-dqn"), ["critic=state"])
    with pytest.raises(JaxschedError, match="critic is 'state'; accepted: observation, for a le"):
        stages_of(system, blind, sched2_tables(0))
    with pytest.raises(JaxschedError, match="critic"):
        override(presets.preset(system, "plain-ppo"), ["critic=everything"])
