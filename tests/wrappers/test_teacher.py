"""The teacher's choice is shown where it belongs; data sets replay as they were recorded."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.core.policies import Policy, greedy_scores
from jaxsched.wrappers.recorded import Recorded, RecordedParams
from jaxsched.wrappers.teacher import TaughtEnvironment
from tests import probes
from tests.probes import NUM_ACTIONS, Probe


def counting_teacher():
    """Its nth choice of an episode in state s is ``n + s`` (mod 3): needs memory and the state."""

    def act(weights, memory, view, key):
        return (memory + view.state) % NUM_ACTIONS, memory + 1

    return Policy("counting", lambda params: jnp.int32(0), act, privileged=True)


ENV = TaughtEnvironment(Probe(), counting_teacher())
PARAMS = probes.process(reward=[[0, 1, 2]], elapsed_s=5.0, first=(0, 1))
NO_RECORDS = Recorder(lambda params: (), lambda records, timestep, playing: ())


def test_labels_follow_state_and_memory_whatever_is_executed():
    for episode, labels in ((0, [0, 2, 1]), (1, [1, 0])):
        for action in range(NUM_ACTIONS):
            state, timestep = ENV.reset(jax.random.key(0), PARAMS, jnp.int32(episode))
            for label in labels:
                seen, mask = ENV.observe(state, PARAMS)
                assert int(seen.label) == int(timestep.observation.label) == label
                np.testing.assert_array_equal(seen.observation, timestep.observation.observation)
                np.testing.assert_array_equal(mask, timestep.action_mask)
                state, timestep = ENV.step(jax.random.key(1), state, jnp.int32(action), PARAMS)
                assert float(timestep.reward) == action
                assert float(timestep.elapsed) == 5
            assert timestep.terminated


def test_a_finished_taught_state_absorbs():
    state, _ = ENV.reset(jax.random.key(0), PARAMS, jnp.int32(1))
    for _ in range(2):
        state, timestep = ENV.step(jax.random.key(1), state, jnp.int32(0), PARAMS)
    after, again = ENV.step(jax.random.key(2), state, jnp.int32(2), PARAMS)
    assert jax.tree.map(int, after) == jax.tree.map(int, state)
    assert float(again.reward) == 0
    assert bool(again.terminated)


def test_specs_describe_the_taught_observation():
    spec = ENV.observation_spec(PARAMS)
    _, timestep = ENV.reset(jax.random.key(0), PARAMS)
    shapes = jax.tree.map(
        lambda s, x: s.shape == x.shape and s.dtype == x.dtype, spec, (timestep.observation)
    )
    assert all(jax.tree.leaves(shapes))
    assert ENV.num_episodes(PARAMS) == 2
    assert ENV.max_steps(PARAMS) == 3


ROWS = 7
DATA = RecordedParams(
    observation=jnp.arange(ROWS * 2, dtype=jnp.uint8).reshape(ROWS, 2),
    mask=jnp.ones((ROWS, 3), bool).at[2, 0].set(False),
    label=jnp.array([0, 1, 2, 0, 1, 2, 0], jnp.int32),
)


def test_recorded_rows_are_drawn_uniformly_and_kept_as_they_are():
    env, draws = Recorded(), 7000
    keys = jax.random.split(jax.random.key(0), draws)
    state, timestep = jax.vmap(lambda k: env.reset(k, DATA))(keys)
    count = np.bincount(state.row, minlength=ROWS)
    assert np.all(np.abs(count - 1000) < 5 * np.sqrt(1000))
    assert timestep.observation.observation.dtype == jnp.uint8
    np.testing.assert_array_equal(timestep.observation.observation, DATA.observation[state.row])
    np.testing.assert_array_equal(timestep.observation.label, DATA.label[state.row])
    np.testing.assert_array_equal(timestep.action_mask, DATA.mask[state.row])


def test_a_recorded_episode_is_one_decision():
    env = Recorded()
    state, timestep = env.reset(jax.random.key(0), DATA, jnp.int32(5))
    assert not bool(timestep.done)
    for action, reward in ((2, 1.0), (1, 0.0)):
        after, timestep = env.step(jax.random.key(1), state, jnp.int32(action), DATA)
        assert float(timestep.reward) == reward
        assert bool(timestep.terminated)
        _, again = env.step(jax.random.key(1), after, jnp.int32(2), DATA)
        assert float(again.reward) == 0


def test_evaluation_on_a_data_set_is_the_share_of_agreement():
    policy = greedy_scores("last", lambda weights, seen: jnp.array([0.0, 0.0, 1.0]))
    episodes = jnp.arange(ROWS)
    outcome = run_episodes(Recorded(), policy, NO_RECORDS, DATA, episodes, jax.random.key(0))
    np.testing.assert_array_equal(outcome.episode_return, DATA.label == 2)
    assert bool(jnp.all(outcome.finished))


def fixed_dials(weights, memory, view, key):
    """Labels of other dtypes than the action's."""
    return {"left": np.array([1, 2]), "right": np.full((2, 2), memory)}, memory + 1


def test_labels_of_several_numbers_take_the_form_of_the_action():
    params = probes.dials(length=3)
    teacher = Policy("dials", lambda params: jnp.int32(0), fixed_dials)
    env = TaughtEnvironment(probes.Dial(), teacher)
    spec = env.observation_spec(params)
    assert spec.label == env.action_spec(params)
    state, timestep = env.reset(jax.random.key(0), params)
    for count in range(3):
        label = timestep.observation.label
        jax.tree.map(lambda s, x: np.testing.assert_equal(x.dtype, s.dtype), spec.label, label)
        np.testing.assert_array_equal(label["left"], [1, 2])
        np.testing.assert_array_equal(label["right"], np.full((2, 2), count))
        state, timestep = env.step(jax.random.key(1), state, label, params)
    assert bool(timestep.terminated)
    after, _ = env.step(jax.random.key(1), state, label, params)
    jax.tree.map(np.testing.assert_array_equal, after, state)
