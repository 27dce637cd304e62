"""What DL2's learner is given: networks, exploration, recorded teachers, the shaped reward."""

from dataclasses import asdict, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core import training
from jaxsched.envs.dl2.environment import DL2
from jaxsched.envs.dl2.heuristics import DL2Slots, Plan
from jaxsched.envs.dl2.jobs import dl2_tables
from jaxsched.envs.dl2.learn import RowPolicy, RowValue, join_rows, policy_network, split_rows
from jaxsched.envs.dl2.learn.hooks import (
    EPOCH_SLOTS,
    ByJob,
    Paid,
    Schedules,
    Shaped,
    epsilon,
    job_aware,
    mending_action,
    own_share,
    queue_of,
    record,
    shuffle_rows,
)
from jaxsched.envs.dl2.rules import BUNDLE, PS, WORKER
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.mlp import MLP
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.learners import with_loop
from jaxsched.systems.stages import stages_of

ROWS = 4
ENV = DL2(num_servers=3, window=ROWS, max_slots=60)
TABLES = dl2_tables(0, 3, num_jobs=7, peak=2.0)
SYSTEM = registry.get("dl2")


@pytest.fixture(scope="module")
def params():
    return ENV.params(TABLES)


@pytest.fixture(scope="module")
def observation():
    return jax.random.uniform(jax.random.key(0), (5, 13 * ROWS))


@pytest.mark.parametrize("network", [RowPolicy(ROWS), MLP(3 * ROWS + 1, (16, 8))])
def test_descriptions_give_the_same_scores(network, observation):
    weights = network.init(jax.random.key(1), observation)
    scores = network.apply(weights, observation)
    flat = {
        ".".join(str(part.key) for part in path[1:]): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(weights)
    }
    for row, expected in zip(observation, scores, strict=True):
        found = nd.evaluate(network.describe(), flat, np.asarray(row))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_rows_share_their_weights(observation):
    """Shuffled rows give shuffled scores, the same void and the same value."""
    policy, value = RowPolicy(ROWS), RowValue(ROWS)
    weights = policy.init(jax.random.key(1), observation)
    value_weights = value.init(jax.random.key(2), observation)
    order = jnp.array([2, 0, 3, 1])
    shuffled = join_rows(split_rows(observation, ROWS)[:, order])
    before, after = policy.apply(weights, observation), policy.apply(weights, shuffled)
    tasks = before[:, :-1].reshape(-1, ROWS, 3)[:, order].reshape(-1, 3 * ROWS)
    np.testing.assert_allclose(after[:, :-1], tasks, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(after[:, -1], before[:, -1], rtol=1e-4, atol=1e-5)
    values = [value.apply(value_weights, seen) for seen in (observation, shuffled)]
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)


def test_rows_are_split_as_the_observation_is_named(params):
    names = np.array(ENV.observation_spec(params).names)
    index = jnp.arange(names.size, dtype=jnp.float32)
    rows = np.asarray(split_rows(index, ROWS)).astype(int)
    for number, row in enumerate(names[rows]):
        assert all(name.startswith(f"row{number}.") for name in row)
    assert [name.split(".")[1] for name in names[rows][0][-5:]] == [
        "slots", "remaining", "share", "workers", "ps"]  # fmt: skip
    assert (join_rows(split_rows(index, ROWS)) == index).all()


@pytest.mark.parametrize(
    ("w", "p", "kind"),
    [(2, 0, 1), (1, 0, None), (0, 2, 0), (11, 1, 1), (10, 1, None), (1, 11, 0), (0, 0, None)],
)
def test_poor_states_and_what_mends_them(w, p, kind):
    """The unit cases of the specification, behind a row that is fine."""
    action, poor = mending_action(jnp.array([4, w]), jnp.array([4, p]))
    assert bool(poor) == (kind is not None)
    if kind is not None:
        assert int(action) == 3 + kind


def test_exploration_mends_as_often_as_epsilon_says():
    assert float(epsilon(jnp.int32(0))) == pytest.approx(0.6)
    assert float(epsilon(jnp.int32(5000))) == pytest.approx(0.1)
    rows = jnp.zeros((2000, ROWS, 13)).at[:, 1, -2].set(3 / 16)  # three workers, no server
    mask = jnp.ones((2000, 3 * ROWS + 1), bool)
    explore = jax.jit(job_aware(ROWS, 16, 16))
    void = jnp.full(2000, 3 * ROWS, jnp.int32)
    key = jax.random.key(0)
    action = explore(key, join_rows(rows), mask, void, jnp.int32(0))
    assert set(np.unique(action)) == {4, 3 * ROWS}
    assert float((action == 4).mean()) == pytest.approx(0.6, abs=0.04)
    blocked = explore(key, join_rows(rows), mask.at[:, 4].set(False), void, jnp.int32(0))
    assert (blocked == void).all()


def test_shuffling_moves_observation_mask_and_label_together():
    types = jnp.eye(ROWS, 13)  # row r is of type r
    observation = join_rows(types)
    mask = jnp.arange(3 * ROWS + 1) % 4 != 3
    augment = jax.jit(shuffle_rows(ROWS))
    seen = set()
    for seed in range(20):
        for label in (0, 5, 7, 3 * ROWS):
            result = augment(jax.random.key(seed), observation, mask, jnp.int32(label))
            order = np.argmax(split_rows(result[0], ROWS)[:, :8], axis=-1)
            seen.add(tuple(order.tolist()))
            tasks = np.asarray(mask[:-1]).reshape(ROWS, 3)[order].reshape(-1)
            assert (np.asarray(result[1][:-1]) == tasks).all() and bool(result[1][-1])
            moved = int(result[2])
            if label == 3 * ROWS:
                assert moved == label
            else:
                assert order[moved // 3] == label // 3 and moved % 3 == label % 3
    assert len(seen) > 5


def test_recorded_decisions_are_legal_and_reach_the_teacher(params):
    """Imitating the record exactly gives the teacher's JCT where nothing is regrouped."""
    env = DL2(num_servers=3, window=8, max_slots=60)
    wide = env.params(TABLES)
    for teacher in ("drf", "optimus_oracle"):
        data = record(env, teacher, wide, [0, 1, 2])
        rows = np.arange(len(data.label))
        assert np.asarray(data.mask)[rows, np.asarray(data.label)].all()
        heuristic = functions.heuristic(SYSTEM, teacher, env, 7, {})
        played = functions.play(SYSTEM, heuristic.env, heuristic.policy, wide)
        slots = played.metrics["slots"].sum()
        # A slot's record ends with a void unless nothing fits any more.
        assert 0 < (np.asarray(data.label) == 24).sum() <= slots
        replayed = replay(env, wide, data)
        np.testing.assert_allclose(replayed, played.metrics["avg_jct"], rtol=1e-5)


@cache
def programs(env):
    """What a replay calls."""
    recorder = SYSTEM.log.recorder(env)
    return recorder, jax.jit(env.reset), jax.jit(env.step), jax.jit(recorder.update)


def replay(env, params, data):
    """Average JCT of the first three episodes under the recorded labels, looked up by state."""
    known, labels = np.asarray(data.observation), np.asarray(data.label)
    recorder, reset, step, update = programs(env)
    all_records = []
    for episode in range(3):
        state, timestep = reset(jax.random.key(0), params, jnp.int32(episode))
        records = recorder.init(params)
        while not bool(timestep.done):
            distance = np.abs(known - np.asarray(timestep.observation)).max(axis=1)
            assert distance.min() < 1e-4
            label = labels[np.argmin(distance)]
            state, timestep = step(jax.random.key(0), state, jnp.int32(label), params)
            records = update(records, timestep, True)
        all_records.append(records)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *all_records)
    return SYSTEM.log.metrics(env, params, np.arange(3), stacked)["avg_jct"]


@pytest.mark.parametrize("by_task", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_bundle_is_recorded_as_worker_and_server(by_task, params):
    """Where bundles are off, or where it is asked for; the slot's end stays a label."""
    env = DL2(num_servers=3, window=ROWS, max_slots=60, bundle_action=by_task)
    data = record(env, "drf", env.params(TABLES), [0], by_task)
    kinds = np.asarray(data.label)[np.asarray(data.label) < 3 * ROWS] % 3
    assert set(kinds) == {0, 1} and abs((kinds == 0).sum() - (kinds == 1).sum()) <= 30


def test_a_slot_can_be_paid_by_its_epochs(params):
    """The same play pays Eq. 1 in one environment and epochs over 60 in the other."""
    paid = {}
    for reward in ("progress", "epochs"):
        env = replace(ENV, reward=reward)
        state, timestep = env.reset(jax.random.key(0), params, jnp.int32(1))
        step, rewards, epochs = jax.jit(env.step), [], []
        for _ in range(40):
            bundle = jnp.argmax(timestep.action_mask).astype(jnp.int32)
            state, timestep = step(jax.random.key(0), state, bundle, params)
            rewards.append(float(timestep.reward))
            epochs.append(float(timestep.metrics.report.trained.sum()))
        paid[reward] = rewards
    np.testing.assert_allclose(paid["epochs"], np.array(epochs) / 60, rtol=1e-5)
    assert np.count_nonzero(paid["epochs"]) and paid["epochs"] != paid["progress"]


@pytest.mark.parametrize(("unit", "urgency"), [("shares", 0.0), ("epochs", 0.0), ("epochs", 0.6)])
def test_the_shaped_reward_adds_up_slot_by_slot(unit, urgency, params):
    shaped = Shaped(ENV, unit, urgency)

    def play(key):
        state, timestep = shaped.reset(key, params, jnp.int32(1))

        def step(carry, key):
            state, mask = carry
            action = jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
            worth = shaped.worth(state.inner, params)
            after, timestep = shaped.step(key, state, action, params)
            happened = timestep.metrics
            earned = jnp.sum(happened.report.trained * worth)
            return (after, timestep.action_mask), (timestep.reward, earned, happened.slot_ended)

        keys = jax.random.split(key, 400)
        return jax.lax.scan(step, (state, timestep.action_mask), keys)[1]

    rewards, earned, ended = map(np.asarray, jax.jit(play)(jax.random.key(3)))
    slot = np.cumsum(ended) - ended
    last = slot < ended.sum()  # the steps of whole slots
    sums = np.bincount(slot[last], rewards[last])
    np.testing.assert_allclose(sums, earned[ended.astype(bool)], rtol=1e-4, atol=1e-5)
    assert (np.abs(rewards) > 1e-4).sum() > 3 * ended.sum()  # paid by inference, not by slot
    if unit == "epochs" and not urgency:
        total = float(np.sum(TABLES[1]["epochs"])) * EPOCH_SLOTS
        assert rewards.sum() <= total * (1 + 1e-5)


def test_an_inference_is_paid_the_share_of_its_own_job(params):
    env = ByJob(ENV)

    def play(key):
        def step(state, key):
            before, mask = env.observe(state, params)
            action = jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
            after, timestep = env.step(key, state, action, params)
            told = timestep.metrics
            kept = before, action, timestep.observation, told.slot_ended, told.job_reward
            return after, (kept, state.inner.rows)

        state, _ = env.reset(key, params, jnp.int32(1))
        return jax.lax.scan(step, state, jax.random.split(key, 300))[1]

    (before, action, after, ended, shares), rows = jax.jit(play)(jax.random.key(3))
    ends = np.flatnonzero(ended)
    steps = np.arange(ends[-1] + 1)
    end = ends[np.searchsorted(ends, steps)]
    paid = jax.vmap(own_share)(*jax.tree.map(lambda x: x[steps], (before, action)),
                               jax.tree.map(lambda x: x[end], after))  # fmt: skip
    shares, rows, action = map(np.asarray, (shares, rows, action))
    for step, last, found in zip(steps, end, paid, strict=True):
        earned = shares[last]
        wanted = earned.sum() / max(np.count_nonzero(earned), 1)
        if action[step] < 3 * ROWS:
            wanted = np.append(earned, 0.0)[rows[step, action[step] // 3]]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
    assert len(np.unique(np.round(paid, 5))) > len(ends)  # inferences of a slot differ


def test_a_learner_that_pays_by_job_learns_and_others_refuse_to():
    recipe = replace(presets.preset(SYSTEM, "paper"), env=ENV)
    settings = ["wrap.unit=own", "supervised.skip=true", "loop.num_envs=2", "loop.num_updates=2"]
    settings += ["learner.held=40", "learner.capacity=256", "learner.batch_size=16"]
    recipe = override(recipe, settings)
    (setup,) = stages_of(SYSTEM, recipe, TABLES)
    params = setup.params_at(0.0)
    carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    before = jax.device_get(setup.learner.policy_params(carry.learner_state))
    carry, _ = training.chunk(setup.env, setup.learner, setup.loop, carry, params, num_updates=2)
    stored = carry.learner_state.replay.items
    own = np.asarray(stored.observation.rest.rows)[0]
    size = int(carry.learner_state.replay.size[0])
    assert size and len(np.unique(own[:size])) > 3
    rewards = np.asarray(stored.reward)[0, :size]
    assert ((rewards >= 0) & (rewards <= 1)).all() and len(np.unique(rewards)) > 3
    after = jax.device_get(setup.learner.policy_params(carry.learner_state))
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    assert all(np.any(one != other) for one, other in pairs)
    assert "its own job's share" in " ".join(setup.variants)
    with pytest.raises(
        JaxschedError, match="accepted where single decisions are paid, left out or counted: Actor"
    ):
        stages_of(SYSTEM, override(recipe, ["critic=state"]), TABLES)
    with pytest.raises(JaxschedError, match="capacity above 0"):
        stages_of(SYSTEM, override(recipe, ["learner.capacity=0", "learner.held=0"]), TABLES)


SEARCHED = (
    "search.learner.members=8",
    "search.learner.episodes=2",
    'search.learner.layers=["score_0", "tasks"]',
    "search.loop.num_envs=16",
    "search.loop.num_random_streams=2",
    "search.loop.rollout_length=300",
    "search.loop.num_updates=2",
)


def test_a_search_may_follow():
    recipe = override(replace(presets.preset(SYSTEM, "search"), env=ENV), SEARCHED)
    stages = stages_of(SYSTEM, recipe, TABLES[:2])
    assert [stage.name for stage in stages] == ["supervised", "search"]
    setup = stages[-1]
    params = setup.params_at(0.0)
    carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    before = jax.tree.map(np.asarray, setup.learner.policy_params(carry.learner_state)["params"])
    carry, metrics = training.chunk(
        setup.env, setup.learner, setup.loop, carry, params, num_updates=2
    )
    after = setup.learner.policy_params(carry.learner_state)["params"]
    moved = {
        name for name in before if not np.array_equal(before[name]["bias"], after[name]["bias"])
    }
    assert moved <= {"score_0", "tasks"} and not np.isnan(metrics["mean_return"]).any()
    assert "score_0, tasks" in " ".join(setup.variants)


def test_stages_are_what_a_recipe_names_and_does_not_leave_out():
    search = presets.preset(SYSTEM, "search")
    recipe = replace(search, play="sampled")
    with pytest.raises(JaxschedError, match="play is 'sampled'; accepted with a search: greedy"):
        stages_of(SYSTEM, recipe, TABLES)
    first, last = search.stages
    three = (first, presets.preset(SYSTEM, "quick").stages[1], last)
    stages = stages_of(SYSTEM, replace(search, env=ENV, stages=three), TABLES)
    assert [stage.name for stage in stages] == ["supervised", "ppo", "search"]
    alone = override(presets.preset(SYSTEM, "quick"), ["supervised.skip=true"])
    (stage,) = stages_of(SYSTEM, alone, TABLES)
    assert stage.name == "ppo" and "no imitation" in stage.variants
    assert not any("teacher" in line for line in stage.variants)


def test_what_is_paid_while_learning():
    assert Paid()(ENV) == ENV
    assert Paid("slot_epochs")(ENV) == replace(ENV, reward="epochs")
    assert Paid("own")(ENV) == ByJob(ENV) and Paid("own").credit is own_share
    with pytest.raises(JaxschedError, match="accepted with urgency: 'epochs'"):
        Paid("slot_epochs", 0.6)
    assert Paid("epochs", 0.6)(ENV) == Shaped(ENV, "epochs", 0.6)


def test_schedules_are_recorded_when_they_are_asked_for(params):
    asked = Schedules(tables=2)(ENV, "fifo", params)
    assert len(asked.args[-2]) == 2 and asked.args[1] == "fifo"
    with pytest.raises(JaxschedError, match="unknown policy 'drf_actions'"):
        Schedules()(ENV, "drf_actions", params)
    with pytest.raises(JaxschedError, match="env.rows is 'window'; accepted: 'batches'"):
        Schedules()(replace(ENV, rows="window"), "drf", params)


RATE = (
    "supervised rate 0.002 to 0.0001 (the paper: 0.005)",
    "3,000 supervised updates (the paper: hundreds)",
)
OFTEN = "an update every 512 decisions (the paper: every slot)"
MENDED = (
    *RATE,
    "no job-aware exploration",
    "discount 0 per slot",
    OFTEN,
    "reward: epochs trained in a slot, not shares of each job's (Eq. 1)",
)


@pytest.mark.parametrize(
    ("preset", "changes", "said"),
    [
        ("paper", (), (*RATE, OFTEN)),
        ("paper-testbed", (), (*RATE, OFTEN)),
        (
            "paper",
            ("learner.entropy_per_action=false", "learner.held=0"),
            (
                *RATE,
                "a slot that a rollout cuts is bootstrapped at the cut, not held until it ends",
                "the entropy is summed over the actions, not their mean",
                OFTEN,
            ),
        ),
        ("paper-mended", (), MENDED),
        (
            "paper-mended-testbed",
            (),
            (
                "labels: a worker and then a PS for each bundle",
                *MENDED[:3],
                "batches of 1024 decisions",
                "the learning rate falls to 1e-05",
                *MENDED[3:],
            ),
        ),
    ],
)
def test_recipes_of_the_papers_learner_say_what_differs(preset, changes, said):
    assert SYSTEM.recipes.departures.of(override(presets.preset(SYSTEM, preset), changes)) == said


def test_recipes_say_what_differs_from_the_paper():
    variants = SYSTEM.recipes.departures.of
    words = " ".join(variants(presets.preset(SYSTEM, "quick")))
    for word in ("optimus", "PPO", "discount 0", "epochs trained", "share weights"):
        assert word in words
    left_out = ["learner.capacity=0", "learner.held=0", "explore.kind=none"]
    changed = override(presets.preset(SYSTEM, "paper"), left_out)
    assert len(variants(changed)) == len(variants(presets.preset(SYSTEM, "paper"))) + 3


@pytest.mark.parametrize("preset", ["paper", "paper-testbed", "paper-mended"])
def test_slots_are_held_whole(preset):
    """Whatever the number of environments; and a window of jobs fits into what is held."""
    recipe = override(presets.preset(SYSTEM, preset), ["loop.num_envs=4"])
    stage = recipe.stages[-1]
    config = with_loop(stage.learner, stage.loop)
    assert config.held_envs == 4 and config.total_updates == stage.loop.num_updates
    tasks = recipe.env.num_servers * recipe.env.gpus_per_server
    assert config.held > tasks + recipe.env.window


def test_labels_by_task_are_a_worker_and_then_a_server(params):
    """Of a bundle, though one action could place both; other increments stay as they are."""
    slots = DL2Slots(**asdict(ENV))
    state, _ = slots.reset(jax.random.key(0), params, jnp.int32(0))
    job, kind = jnp.zeros(3, jnp.int32), jnp.array([BUNDLE, WORKER, BUNDLE])
    plan = Plan(job, job, job, kind, servers=None, count=jnp.int32(2))
    for by_task, first in ((False, [BUNDLE]), (True, [WORKER, PS])):
        queue = queue_of(slots, plan, state.cluster, by_task)
        assert queue.action[queue.waiting].tolist() == [*first, WORKER]


def test_unknown_networks_are_refused():
    with pytest.raises(JaxschedError, match="unknown network 'deep'"):
        policy_network(ENV, "deep")
    assert policy_network(ENV, "mlp-16-8").hidden == (16, 8)
