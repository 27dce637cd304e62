"""Slots whose tasks and servers are paired by weights: which pair, and what the rules still say."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core import training
from jaxsched.core.policies import Policy, no_memory
from jaxsched.envs.mlfs import MLFS
from jaxsched.envs.mlfs import heuristics as pairs
from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.learn import QUICK as QUICK_RECIPE
from jaxsched.envs.mlfs.learn import SEARCH, TUNED
from jaxsched.envs.mlfs.rules import dynamics
from jaxsched.envs.mlfs.rules import offers as off
from jaxsched.envs.mlfs.rules.state import NONE, WAITING
from jaxsched.envs.mlfs.rules.tables import jobs_at
from jaxsched.errors import JaxschedError
from jaxsched.exports.golden import golden_rows
from jaxsched.networks import description as nd
from jaxsched.runs import saved_policies
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, registry
from jaxsched.systems.stages import stages_of
from jaxsched.types import action_names
from tests.envs.mlfs.rules.test_env_oracle import SETTINGS, TIGHT, random_tables, to_params

SYSTEM = registry.get("mlfs")
NUM_WEIGHTS = len(pairs.WEIGHTS)
RULE = np.zeros(NUM_WEIGHTS, np.float32)
"""Weights under which every server is as good: the first one, and the order of the rules."""
for _name in ("communication", "move"):
    RULE[pairs.WEIGHTS.index(_name)] = -1.0
COUNTED = (
    *("avg_jct", "makespan", "avg_wait", "deadline_ratio", "avg_accuracy", "bandwidth_mb"),
    *("overloads", "migrations", "evictions", "iterations", "steps", "finished"),
)
LENGTH = 120


def constant(weights):
    """The policy that always gives these weights."""

    def act(given, memory, view, key):
        return given, memory

    return Policy("constant", no_memory, act), jnp.asarray(weights)


def first_valid(name="first"):
    """The first server that can take the task."""

    def act(weights, memory, view, key):
        return jnp.argmax(view.mask).astype(jnp.int32), memory

    return Policy(name, no_memory, act)


@pytest.mark.parametrize(
    "name", ["mixed", *(pytest.param(n, marks=pytest.mark.slow) for n in ("tight", "window"))]
)
@pytest.mark.parametrize("weights", [pytest.param({}, marks=pytest.mark.slow), TUNED])
def test_without_terms_of_pairs_schedules_are_those_of_the_rules(name, weights):
    offered = MLFS(**{**SETTINGS[name], **weights})
    slots = replace(offered, decide="slot")
    params = to_params(offered, random_tables(name, offered))
    policy, given = constant(RULE)
    expected = functions.play(SYSTEM, offered, first_valid(), params).metrics
    found = functions.play(SYSTEM, slots, policy, params, given).metrics
    for metric in COUNTED:
        np.testing.assert_array_equal(found[metric], expected[metric], err_msg=metric)
    np.testing.assert_allclose(found["return"], expected["return"], rtol=1e-6)
    assert found["steps"].min() > 20


ENV = MLFS(**{**TIGHT, "cpus_per_server": 16, "mem_per_server": 64}, decide="slot")


@cache
def crowded():
    """A state in which a slot begins, many tasks waiting, some running."""
    params = to_params(ENV, random_tables("crowded", ENV, count=1))
    weights = jnp.asarray(random_weights(0))
    state, _ = ENV.reset(jax.random.key(0), params, jnp.int32(0))
    step = jax.jit(ENV.step)
    states, worth = [], []
    for _ in range(60):
        following, timestep = step(None, state, weights, params)
        running = int(jnp.sum(state.running.task != NONE))
        states.append(state)
        worth.append(int(timestep.metrics.decides) * int(state.waiting) * min(running, 3))
        state = following
    best = int(np.argmax(worth))
    assert int(states[best].waiting) > 4
    return params, states[best]


def random_weights(seed, spread=0.3):
    return np.random.default_rng(seed).normal(0, spread, NUM_WEIGHTS).astype(np.float32)


def test_communication_of_all_tasks_is_that_of_each():
    params, state = crowded()
    jobs = jobs_at(params, state.episode, state.active.job)
    total, local = pairs.all_communication(ENV.rules, jobs, state)
    checked = 0
    for place, task in np.argwhere(np.asarray(state.tasks.state) == WAITING):
        job = jax.tree.map(lambda field, at=place: field[at], jobs)
        alone = off.communication(ENV.rules, state, job, jnp.int32(place), jnp.int32(task))
        assert int(total[place, task]) == int(alone.total_mb)
        np.testing.assert_array_equal(local[:, place, task], alone.local_mb)
        checked += 1
    assert checked > 4


@pytest.mark.parametrize("seed", range(3))
def test_the_best_pair_goes_first(seed):
    """Every placement has the highest score of all pairs that are possible then."""
    params, state = crowded()
    rules = ENV.rules._replace(max_offers=64)
    weights = jnp.abs(jnp.asarray(random_weights(seed)))  # scores only fall as servers fill
    state = dynamics.open_slot(rules, params, state)
    jobs = jobs_at(params, state.episode, state.active.job)
    worth = pairs.worth_of(weights, jobs, state, state.tasks.priority)
    pairing = pairs.pairing_of(rules, state, worth, weights)
    turn, step = pairs.opened(rules, params, state, pairing)
    step = jax.jit(step)
    scores_of = jax.jit(partial(pairs.all_scores, rules, jobs))
    placed, passed = 0, 0
    while int((state := turn[0]).offers.place) != NONE:
        scores = scores_of(state, pairing)
        following = step(turn)
        if int(following[0].offers.made) > int(state.offers.made):
            place, task = int(state.offers.place), int(state.offers.task)
            server = int(following[0].tasks.server[place, task])
            assert float(scores[server, place, task]) == pytest.approx(float(scores.max()), 1e-6)
            placed += 1
        passed += 1
        turn = following
    assert passed > placed > 1  # some were found anew
    assert float(scores_of(state, pairing).max()) == -1.0  # nothing more has room


@pytest.mark.parametrize("at_once", [2, 64])
def test_scores_of_tasks_on_offer_are_the_largest_of_their_pairs(monkeypatch, at_once):
    """What many servers compute, a few tasks at once, copies side by side included."""
    monkeypatch.setattr(pairs, "AT_ONCE", at_once)
    params, state = crowded()
    weights = jnp.asarray(random_weights(4))
    state = dynamics.open_slot(ENV.rules, params, state)
    jobs = jobs_at(params, state.episode, state.active.job)
    worth = pairs.worth_of(weights, jobs, state, state.tasks.priority)
    pairing = pairs.pairing_of(ENV.rules, state, worth, weights)
    status = off.status_of(ENV.rules, cl.all_servers(ENV.rules.cluster, state.loads))
    expected = jnp.max(pairs.all_scores(ENV.rules, jobs, state, pairing), axis=0)
    found = pairs.best_scores(ENV.rules, params, state, pairing, status)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.sum(found > 0) > 4 and np.any(np.asarray(found) == -1)
    nothing = state._replace(tasks=state.tasks._replace(state=jnp.zeros_like(state.tasks.state)))
    both = jax.tree.map(lambda *x: jnp.stack(x), state, nothing)
    side_by_side = jax.vmap(lambda one: pairs.best_scores(ENV.rules, params, one, pairing, status))
    np.testing.assert_array_equal(side_by_side(both)[0], found)
    assert np.all(side_by_side(both)[1] == -1)


def test_slots_of_many_pairs_are_those_of_few(monkeypatch):
    policy, given = constant(random_weights(5))
    params = to_params(ENV, random_tables("crowded", ENV, count=2))
    few = functions.play(SYSTEM, ENV, policy, params, given).metrics
    monkeypatch.setattr(pairs, "MOST_PAIRS", 0)
    jax.clear_caches()
    many = functions.play(SYSTEM, ENV, policy, params, given).metrics
    jax.clear_caches()
    for metric in COUNTED:
        np.testing.assert_array_equal(many[metric], few[metric], err_msg=metric)


def test_order_of_bits():
    values = np.sort(np.abs(np.random.default_rng(0).normal(size=100)).astype(np.float32))
    assert np.all(np.diff(np.asarray(pairs.ordered(jnp.asarray(values)))) > 0)
    assert int(pairs.ordered(jnp.float32(1e-30))) > off.NONE


def test_service_counts_hours_and_missed_deadlines():
    env = replace(ENV, max_active=8, reward="service")
    tables = random_tables("service", env, count=4)
    for index, row in enumerate(row for table in tables for row in table):
        row["deadline"] = row["submit_time"] + 240 * (1 + index % 5)
    params = to_params(env, tables)

    def step(state, _):
        state, timestep = jax.vmap(lambda s: env.step(None, s, jnp.zeros(NUM_WEIGHTS), params))(
            state
        )
        return state, (timestep.reward, timestep.terminated)

    @jax.jit
    def play(episodes):
        state, _ = jax.vmap(lambda e: env.reset(jax.random.key(0), params, e))(episodes)
        return jax.lax.scan(step, state, None, 1500)[1]

    reward, over = play(jnp.arange(4))
    assert np.asarray(over)[-1].all()
    policy, given = constant(np.zeros(NUM_WEIGHTS, np.float32))
    metrics = functions.play(SYSTEM, env, policy, params, given).metrics
    # Time counts from the slot in which a job can be admitted.
    submit = np.asarray(params.submit_s)[:-1].reshape(4, -1)
    late_start = (-submit % 60).mean(axis=1)
    hours = (metrics["avg_jct"] - late_start) / 3600
    missed = 1 - metrics["deadline_ratio"]
    assert missed.max() > 0
    np.testing.assert_allclose(-np.asarray(reward).sum(axis=0), hours + 4 * missed, rtol=1e-5)


def test_options_and_networks_go_together():
    with pytest.raises(JaxschedError, match="accepted with order 'mlf' only"):
        MLFS(decide="slot", order="fifo")
    with pytest.raises(JaxschedError, match="known are pairs"):
        functions.network(SYSTEM, ENV, "servers")
    by_network = replace(QUICK_RECIPE, env=ENV, network="pairs")
    for recipe in (by_network, override(by_network, ["imitation.skip=true"])):
        with pytest.raises(JaxschedError, match="learned by search"):
            stages_of(SYSTEM, recipe, random_tables("service", ENV, count=1))
    spec = ENV.action_spec()
    assert spec.names == action_names(spec) == pairs.WEIGHTS


SMALL = override(
    replace(SEARCH, env=replace(ENV, reward="service")),
    [
        *(f"loop.rollout_length={LENGTH}", "loop.num_envs=8", "loop.num_random_streams=2"),
        *("loop.num_updates=2", "learner.members=4", "learner.episodes=2"),
    ],
)


def test_search_plays_stretches_and_moves_the_weights():
    tables = traces.get("mlfs-small-x3", seed=2, num_traces=2, num_jobs=12)
    (setup,) = stages_of(SYSTEM, SMALL, tables)
    params = setup.params_at(0.0)
    carry = training.init(setup.env, setup.learner, setup.loop, jax.random.key(0), params)
    start = setup.learner.policy_params(carry.learner_state)["params"]["weights"]["bias"]
    assert not np.any(start)
    carry, metrics = training.chunk(
        setup.env, setup.learner, setup.loop, carry, params, num_updates=2
    )
    assert not np.any(metrics["incomplete"]) and np.all(metrics["mean_return"] < 0)
    weights = setup.learner.policy_params(carry.learner_state)
    assert np.all(np.asarray(weights["params"]["weights"]["bias"]) != 0)
    played = functions.play(SYSTEM, setup.play_env, setup.policy, params, weights)
    assert played.metrics["finished"].tolist() == [12, 12]


def test_the_description_gives_the_weights():
    params = to_params(ENV, random_tables("golden", ENV, count=2))
    network = functions.network(SYSTEM, ENV, "pairs")
    weights = functions.init_weights(SYSTEM, ENV, "pairs", params)
    weights["params"]["weights"]["bias"] = jnp.asarray(random_weights(4))
    rows = golden_rows(ENV, params, network.apply, weights, jax.random.key(0))
    np.testing.assert_array_equal(rows.scores, np.tile(random_weights(4), (8, 1)))
    assert len(np.unique(rows.observation, axis=0)) == 8
    named = {
        f"weights.{name}": np.asarray(leaf) for name, leaf in weights["params"]["weights"].items()
    }
    nd.check_parity(network.describe(), named, rows)


def test_the_pretrained_policy_plays_on_any_cluster():
    learned, (saved,) = saved_policies.load("pretrained", SYSTEM)
    network = functions.network(SYSTEM, learned.env, learned.network)
    for row in saved.meta["golden"]["rows"]:
        scores = network.apply(saved.weights, jnp.asarray(row["observation"], jnp.float32))
        np.testing.assert_allclose(scores, row["scores"], rtol=1e-6)
    assert saved.meta["actions"]["choice"].startswith("the scores are the action")
    env = replace(learned.env, gpus=(2, 8, 4), max_active=16)
    policy = functions.network_policy(SYSTEM, env, learned.network, learned.name, learned.play)
    tables = traces.get("mlfs-small-x3", seed=5, num_traces=2, num_jobs=20)
    played = functions.play(SYSTEM, env, policy, env.params(tables), learned.weights[0]).metrics
    assert played["finished"].tolist() == [20, 20]
    start = jax.tree.map(jnp.zeros_like, learned.weights[0])
    other = functions.play(SYSTEM, env, policy, env.params(tables), start).metrics
    assert not np.array_equal(played["avg_jct"], other["avg_jct"])
