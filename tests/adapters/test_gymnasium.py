"""Gymnasium's forms against Gymnasium's own vector environment, and against the environment."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from jaxsched.adapters import gymnasium as ours
from jaxsched.adapters.gymnasium import JaxschedEnv, JaxschedVectorEnv
from jaxsched.errors import JaxschedError
from jaxsched.systems import registry
from tests import probes
from tests.example_system import registered
from tests.instances import das, sched2, sched2_tables
from tests.probes import Probe

MASK = [[True, False, True], [False, True, True], [True, True, False]]
PARAMS = probes.process(reward=[[1, 2, 3], [4, 5, 6], [7, 8, 9]], mask=MASK, first=(0, 1, 2))
CLUSTER = {"num_servers": 2, "gpus_per_server": 4, "window": 3}
SEED, COPIES, STEPS = 5, 4, 25


def same(found, wanted):
    """Equal values, dtypes and dictionaries, through arrays of objects."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            same(found[name], wanted[name])
    elif isinstance(wanted, np.ndarray) and wanted.dtype.kind == "O":
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif wanted is not None:
        np.testing.assert_array_equal(found, wanted)
        assert found.shape == wanted.shape


def compare(vector, sync, actions):
    """Step both and compare all that they return."""
    same(vector.reset(seed=SEED)[0], sync.reset(seed=SEED)[0])
    ended = 0
    for action in actions:
        found, wanted = vector.step(action), sync.step(action)
        for one, other in zip(found[:4], wanted[:4], strict=True):
            same(one.astype(other.dtype), other)
        told, should = ({**infos} for infos in (found[4], wanted[4]))
        final, last = (infos.pop("final_info", {}) for infos in (told, should))
        same(told, should)
        over = wanted[2] | wanted[3]
        ended += over.sum()
        if "final_obs" in wanted[4]:
            for name in ("action_mask", "elapsed"):
                same(final[f"_{name}"], last[f"_{name}"])
                np.testing.assert_array_equal(final[name][over], last[name][over])
    assert ended > COPIES  # several episodes of each


def actions_of(space, steps=STEPS):
    """Random actions, the same at each call."""
    space.seed(1)
    return [space.sample() for _ in range(steps)]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_vector_is_what_gymnasium_makes_of_single_ones(mode):
    vector = JaxschedVectorEnv(Probe(), PARAMS, COPIES, autoreset_mode=mode.value)
    sync = SyncVectorEnv([lambda: JaxschedEnv(Probe(), PARAMS)] * COPIES, autoreset_mode=mode)
    assert vector.metadata["autoreset_mode"] is mode
    assert vector.observation_space == sync.observation_space
    assert vector.action_space == sync.action_space
    compare(vector, sync, actions_of(vector.action_space))


def test_vector_of_a_system_with_cut_episodes():
    case, limit = sched2(), 4

    def limited():
        return TimeLimit(JaxschedEnv(case.env, case.params, mask="observation"), limit)

    vector = JaxschedVectorEnv(
        case.env, case.params, COPIES, max_episode_steps=limit, mask="observation"
    )
    sync = SyncVectorEnv([limited] * COPIES, autoreset_mode="SameStep")
    assert vector.single_observation_space == sync.single_observation_space
    same(vector.reset(seed=SEED)[0], sync.reset(seed=SEED)[0])
    cut = 0
    for action in actions_of(vector.action_space):
        found, wanted = vector.step(action), sync.step(action)
        same(found[0], wanted[0])
        for one, other in zip(found[1:4], wanted[1:4], strict=True):
            np.testing.assert_array_equal(one, other)
        if wanted[3].any():
            same(found[4]["final_obs"], wanted[4]["final_obs"])
        cut += wanted[3].sum()
    assert cut > COPIES


def test_single_follows_the_environment():
    """Rewards, masks and ends are those of the same actions in the environment itself."""
    single = JaxschedEnv(Probe(), PARAMS)
    rng = np.random.default_rng(0)
    for episode in range(3):
        observation, info = single.reset(seed=episode, options={"episode": episode})
        state, timestep = Probe().reset(jax.random.key(0), PARAMS, jnp.int32(episode))
        while True:
            np.testing.assert_array_equal(observation, timestep.observation)
            np.testing.assert_array_equal(info["action_mask"], timestep.action_mask)
            np.testing.assert_array_equal(single.action_masks(), timestep.action_mask)
            assert info["action_mask"].dtype == np.int8 and single.action_masks().dtype == bool
            if timestep.done:
                break
            action = rng.choice(np.flatnonzero(single.action_masks()))
            observation, reward, terminated, truncated, info = single.step(action)
            state, timestep = Probe().step(jax.random.key(0), state, action, PARAMS)
            assert reward == timestep.reward
            assert (terminated, truncated) == (timestep.terminated, timestep.truncated)


def test_a_disabled_reset_is_by_mask():
    vector = JaxschedVectorEnv(Probe(), PARAMS, 3, autoreset_mode="Disabled")
    observation, _ = vector.reset(seed=0, options={"episode": [0, 1, 2]})
    np.testing.assert_array_equal(observation.argmax(-1), [0, 1, 2])
    *_, terminated, truncated, infos = vector.step(np.zeros(3, int))
    np.testing.assert_array_equal(terminated, [False, False, True])
    assert not truncated.any() and "final_obs" not in infos
    observation, reward, terminated, _, _ = vector.step(np.zeros(3, int))
    np.testing.assert_array_equal(reward, [4, 7, 0])  # an ended episode stays as it is
    options = {"episode": 1, "reset_mask": terminated}
    observation, infos = vector.reset(options=options)
    np.testing.assert_array_equal(observation.argmax(-1), [2, 1, 1])
    np.testing.assert_array_equal(infos["_action_mask"], terminated)


def test_ids_make_single_and_vector_environments():
    assert {ours.id_of(name) for name in registry.names()} <= set(gymnasium.registry)
    options = {"trace": sched2_tables(0), **CLUSTER}
    single = gymnasium.make("jaxsched/Sched2-v0", mask="observation", **options)
    vector = gymnasium.make_vec(
        "jaxsched/Sched2-v0", num_envs=2, autoreset_mode="NextStep", max_episode_steps=3, **options
    )
    assert isinstance(single.unwrapped, JaxschedEnv)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observation, info = single.reset(seed=0, options={"episode": 1})
    assert single.observation_space.contains(observation) and "action_mask" not in info
    np.testing.assert_array_equal(
        single.get_wrapper_attr("action_masks")(), observation["action_mask"] != 0
    )
    seen, infos = vector.reset(seed=0, options={"episode": [1, 0]})
    np.testing.assert_array_equal(seen[0], observation["observation"])
    np.testing.assert_array_equal(vector.action_masks(), infos["action_mask"] != 0)
    assert vector.observation_space.contains(seen)
    single.close()
    vector.close()


def test_the_version_of_an_id_is_that_of_the_behaviour():
    for name in registry.names():
        changes = registry.get(name).environment.behaviour_version - 1
        assert f"jaxsched/{name.capitalize()}-v{changes}" in gymnasium.registry
    assert "jaxsched/Sched2-v0" in gymnasium.registry and "jaxsched/Mlfs-v1" in gymnasium.registry
    with pytest.raises(gymnasium.error.Error, match="Mlfs-v1"):
        gymnasium.make("jaxsched/Mlfs-v0")


def test_systems_from_outside_get_ids():
    with registered():
        ours.register()
        try:
            assert "jaxsched/Weighted-v0" in gymnasium.registry
        finally:
            gymnasium.registry.pop("jaxsched/Weighted-v0")


def test_statistics_of_a_wrapper():
    vector = JaxschedVectorEnv(Probe(), PARAMS, 2)
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector)
    recorded.reset(seed=0, options={"episode": [0, 2]})
    *_, infos = recorded.step(np.array([2, 1]))
    np.testing.assert_array_equal(infos["episode"]["r"], [0, 8])
    np.testing.assert_array_equal(infos["episode"]["l"], [0, 1])


def test_statistics_count_every_step_of_every_episode():
    vector = JaxschedVectorEnv(Probe(), PARAMS, 2)  # SameStep
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector)
    recorded.reset(seed=0)
    length, total, told = np.zeros(2, int), np.zeros(2), 0
    for _ in range(12):
        _, reward, terminated, truncated, infos = recorded.step(np.array([2, 1]))
        length, total = length + 1, total + reward
        for index in np.flatnonzero(terminated | truncated):
            assert infos["episode"]["l"][index] == length[index]
            assert infos["episode"]["r"][index] == total[index]
            length[index] = total[index] = 0
            told += 1
    assert told > 4


def test_a_gymnasium_that_counts_wrongly_is_refused_with_same_step(monkeypatch):
    monkeypatch.setattr(gymnasium, "__version__", "1.3.0")
    with pytest.raises(JaxschedError, match="Gymnasium 1.3.0 lose a step.*'NextStep'"):
        JaxschedVectorEnv(Probe(), PARAMS, 2)
    JaxschedVectorEnv(Probe(), PARAMS, 2, autoreset_mode="NextStep")


@pytest.mark.parametrize("output", ["numpy", "jax"])
@pytest.mark.parametrize("mask", ["info", "observation"])
@pytest.mark.parametrize("make", [sched2, das])
def test_masks_fit_their_spaces(make, mask, output):
    _, env, params, *_ = make()
    single = JaxschedEnv(env, params, mask=mask, output=output)
    vector = JaxschedVectorEnv(env, params, 3, mask=mask, output=output)
    for program in (single, vector):
        program.action_space.seed(0)
        observation, info = program.reset(seed=1)
        for _ in range(3):
            legal = (info if mask == "info" else observation)["action_mask"]
            action = program.action_space.sample(legal)
            assert program.action_space.contains(action)
            legal = np.asarray(legal)
            if isinstance(action, dict):
                assert not any(part[legal == 0].any() for part in action.values())
                assert all(part[legal == 1].all() for part in action.values())
            else:
                assert np.take_along_axis(legal, np.asarray(action)[..., None], -1).all()
            observation, *_, info = program.step(action)


def test_masks_of_other_shapes_and_actions_of_other_numbers_are_refused():
    _, env, params, *_ = das()
    space = JaxschedEnv(env, params).action_space
    with pytest.raises(JaxschedError, match=r"a mask has the shape \[99\]; accepted: leading axes"):
        space.sample(np.ones(99, np.int8))
    single = JaxschedEnv(Probe(), PARAMS)
    single.reset(seed=0)
    for action in (np.float32(1), True, 1.5, "one"):
        with pytest.raises(JaxschedError, match="probe: an action of .*; accepted: whole numbers"):
            single.step(action)


def test_arrays_of_jax_stay_on_the_device():
    vector = JaxschedVectorEnv(Probe(), PARAMS, 3, output="jax")
    vector.reset(seed=0)
    answer = vector.step(jnp.zeros(3, jnp.int32))
    assert all(isinstance(part, jax.Array) for part in answer[:4])
    assert isinstance(answer[4]["action_mask"], jax.Array)
    copied = JaxschedVectorEnv(Probe(), PARAMS, 3)
    copied.reset(seed=0)
    for one, other in zip(answer[:4], copied.step(np.zeros(3, int))[:4], strict=True):
        np.testing.assert_array_equal(one, other)
        assert other.flags.writeable


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JaxschedEnv(Probe(), PARAMS, mask="nowhere"), "accepted: 'info' or 'obs"),
        (lambda: JaxschedEnv(Probe(), PARAMS, output="torch"), "accepted: 'numpy' or 'jax'"),
        (lambda: JaxschedVectorEnv(Probe(), PARAMS, 0), "num_envs is 0"),
        (lambda: JaxschedVectorEnv(Probe(), PARAMS, max_episode_steps=0), "max_episode_steps is 0"),
        (lambda: JaxschedVectorEnv(Probe(), PARAMS, autoreset_mode="x"), "'SameStep', 'Disabled'"),
        (lambda: JaxschedEnv(Probe(), PARAMS).reset(options={"episode": 3}), "from 0 to 2"),
        (lambda: JaxschedEnv(Probe(), PARAMS).reset(options={"episode": 0.5}), "from 0 to 2"),
        (
            lambda: JaxschedVectorEnv(Probe(), PARAMS, 3).reset(seed=[1, 2]),
            r"\[1, 2\]; accepted: .* or 3",
        ),
        (lambda: JaxschedEnv(Probe(), PARAMS).step(0), "probe: reset comes before"),
        (
            lambda: JaxschedVectorEnv(Probe(), PARAMS, 3).reset(options={"reset_mask": [1, 0, 1]}),
            r"accepted: bool \[3\]",
        ),
        (
            lambda: JaxschedVectorEnv(Probe(), PARAMS, 2).reset(
                seed=0, options={"reset_mask": np.array([True, False])}
            ),
            "accepted: without a seed",
        ),
        (lambda: gymnasium.make("jaxsched/Sched2-v0", servers=3), "unknown environment option"),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    with pytest.raises(JaxschedError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
