"""The form of gymnax: what it returns, its ends, and a learner written for it."""

import runpy
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxsched.adapters.gymnax import GymnaxDoneEnv, GymnaxEnv, make
from jaxsched.core.environment import step_and_look
from jaxsched.errors import JaxschedError
from tests import probes
from tests.instances import das, sched2, sched2_tables
from tests.probes import Probe

PARAMS = probes.process(reward=[1, 2, 4], elapsed_s=[10, 20, 30], first=(0, 0))
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_six_results_and_automatic_reset():
    env = GymnaxEnv(Probe(), PARAMS)
    params = env.default_params
    observation, state = env.reset(jax.random.key(0), params)
    seen, rewards = [observation], []
    for step in range(6):
        observation, state, reward, terminated, truncated, info = env.step(
            jax.random.key(step), state, 0, params
        )
        seen.append(observation)
        rewards.append(float(reward))
        assert bool(terminated) == (step % 3 == 2) and not truncated
        assert int(np.argmax(info["final_observation"])) == step % 3 + 1
        assert float(info["elapsed"]) == 10 * (step % 3 + 1)
        np.testing.assert_array_equal(info["action_mask"], env.action_mask(state, params))
    assert [int(np.argmax(one)) for one in seen] == [0, 1, 2, 0, 1, 2, 0]
    assert rewards == [1, 2, 4] * 2


def test_five_results_and_a_time_limit():
    env, six = GymnaxDoneEnv(Probe(), PARAMS), GymnaxEnv(Probe(), PARAMS)
    params = env.default_params.replace(max_steps_in_episode=2)
    assert env.default_params.max_steps_in_episode == Probe().max_steps(PARAMS) == 3
    _, state = env.reset(jax.random.key(0), params)
    for done in (False, True, False, True):
        key = jax.random.key(1)
        wanted = six.step(key, state, 1, params)
        observation, state, reward, ended, info = env.step(key, state, 1, params)
        assert bool(ended) == done == bool(wanted[4]) and not wanted[3]
        assert bool(info["truncated"]) == done and reward == wanted[2]
        np.testing.assert_array_equal(observation, wanted[0])


@pytest.mark.parametrize("mask", ["info", "observation"])
def test_a_batch_is_what_the_environment_does(mask):
    case, batch = sched2(), 5
    env = GymnaxEnv(case.env, case.params, mask=mask)
    params, keys = env.default_params, jax.random.split(jax.random.key(0), batch)

    @jax.jit
    def play(params):
        _, state = jax.vmap(env.reset, (0, None))(keys, params)
        action = jax.vmap(env.action_mask, (0, None))(state, params).argmax(-1)
        native = jax.vmap(lambda k, s, a: step_and_look(case.env, k, s, a, params.inner))
        wrapped = jax.vmap(env.step, (0, 0, 0, None))
        return native(keys, state, action), wrapped(keys, state, action, params)

    (wanted_state, wanted, timestep), (observation, state, reward, *_) = play(params)
    seen = observation["observation"] if mask == "observation" else observation
    np.testing.assert_array_equal(seen, wanted.observation)
    np.testing.assert_array_equal(reward, timestep.reward)
    jax.tree.map(np.testing.assert_array_equal, state, wanted_state)
    if mask == "observation":
        np.testing.assert_array_equal(observation["action_mask"], wanted.mask)


def test_structured_spaces():
    case = das()
    env = GymnaxEnv(case.env, case.params)
    space, action = env.observation_space(env.default_params), env.action_space()
    assert set(space.spaces) == {"jobs", "machines", "real"}
    assert set(action.spaces) == {"priority", "affinity"}
    observation, _ = jax.eval_shape(env.reset, jax.random.key(0))
    assert {name: part.shape for name, part in observation.items()} == {
        name: part.shape for name, part in space.spaces.items()
    }
    with pytest.raises(JaxschedError, match="not one choice of several"):
        _ = env.num_actions
    with pytest.raises(JaxschedError, match="accepted: 'info' or"):
        GymnaxEnv(case.env, case.params, mask="none")


def test_make_takes_a_name():
    options = {"trace": sched2_tables(0), "num_servers": 2, "gpus_per_server": 4, "window": 3}
    env, params = make("sched2", done=True, **options)
    assert isinstance(env, GymnaxDoneEnv) and env.num_actions == 4
    assert params.max_steps_in_episode == env.env.max_steps(params.inner)


def test_a_learner_of_the_style_of_purejaxrl_learns():
    """The best choice pays 1 a step, the others nothing, and one of those is forbidden."""
    example = runpy.run_path(str(EXAMPLES / "purejaxrl_ppo.py"))
    mask = [[True, True, False]] * 3
    params = probes.process(reward=[[0, 1, 5]] * 3, mask=mask, first=(0, 1, 2))
    env = GymnaxEnv(Probe(), params)
    config = example["Config"](num_envs=16, num_steps=8, num_updates=12, learning_rate=4e-3)
    train = jax.jit(lambda key: example["train"](env, env.default_params, config, key))
    _, per_step = train(jax.random.key(0))
    assert float(per_step[0]) < 0.7 and float(per_step[-3:].mean()) > 0.9
