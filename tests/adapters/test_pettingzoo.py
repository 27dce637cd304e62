"""Agents of PettingZoo play what the environment plays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.adapters.pettingzoo import JaxschedParallelEnv
from jaxsched.errors import JaxschedError
from tests import probes
from tests.instances import das
from tests.probes import Probe

AGENTS = {"ordering": "priority", "placement": "affinity"}


def test_both_agents_play_one_episode():
    case = das()
    parallel = JaxschedParallelEnv(case.env, case.params, agents=AGENTS)
    begin, native = jax.jit(case.env.reset), jax.jit(case.env.step)
    observations, infos = parallel.reset(seed=0, options={"episode": 1})
    state, timestep = begin(jax.random.key(0), case.params, jnp.int32(1))
    rng, ended = np.random.default_rng(0), False
    while not ended:
        assert parallel.agents == ["ordering", "placement"]
        for agent in parallel.agents:
            seen = observations[agent]
            assert parallel.observation_space(agent).contains(seen)
            np.testing.assert_array_equal(seen["jobs"], timestep.observation.jobs)
            np.testing.assert_array_equal(infos[agent]["action_mask"], timestep.action_mask)
        shapes = {agent: parallel.action_space(agent).shape for agent in AGENTS}
        actions = {a: rng.uniform(-1, 1, shape).astype("f4") for a, shape in shapes.items()}
        observations, rewards, terminated, truncated, infos = parallel.step(actions)
        action = {part: actions[agent] for agent, part in AGENTS.items()}
        state, timestep = native(jax.random.key(0), state, action, case.params)
        assert set(rewards.values()) == {float(timestep.reward)}
        assert set(truncated.values()) == {False}
        ended = bool(timestep.terminated)
        assert set(terminated.values()) == {ended}
    assert parallel.agents == []
    parallel.reset()
    assert parallel.agents == ["ordering", "placement"]


def test_agents_are_of_the_parts_of_an_action():
    case = das()
    plainly = JaxschedParallelEnv(case.env, case.params, mask="observation")
    assert plainly.possible_agents == ["priority", "affinity"]
    observations, infos = plainly.reset(seed=0)
    assert "action_mask" in observations["priority"] and "action_mask" not in infos["priority"]
    for agent in plainly.agents:
        space, mask = plainly.action_space(agent), observations[agent]["action_mask"]
        action = space.sample(mask)
        assert space.contains(action) and not action[mask == 0].any()
    with pytest.raises(JaxschedError, match="one for each of priority, affinity"):
        JaxschedParallelEnv(case.env, case.params, agents={"only": "priority"})
    with pytest.raises(JaxschedError, match="an action has no parts"):
        JaxschedParallelEnv(Probe(), probes.process())
