"""DAS as the rest of the library sees it: kinds of networks, teachers, critics, rules, claims."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import NAMES, baseline
from jaxsched.envs.das.learn import DASNetwork, kind_of, policies, read_kind
from jaxsched.envs.das.learn.agents import is_decision, with_history
from jaxsched.envs.das.learn.policies import (
    ActionValue,
    StateValue,
    critic_features,
    fits_now,
    squeezed,
    teacher_of,
)
from jaxsched.envs.das.learn.presets import RelativeTo
from jaxsched.envs.das.rules import NEVER
from jaxsched.envs.das.rules.observation import Observation
from jaxsched.envs.das.rules.placement import MOST_COMPARED, inverse_of, rank_of
from jaxsched.envs.das.show import log
from jaxsched.envs.das.show.paper import HEURISTICS, paper_rows
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, registry
from jaxsched.systems.claims import DIRECTION, NOT_REPRODUCED, REPRODUCED
from jaxsched.systems.parts import Played
from jaxsched.types import ArraySpec, action_names
from jaxsched.wrappers.history import Remembered
from tests.envs.das.tables import ENV, params_of, random_table

SYSTEM = registry.get("das")
N, M = ENV.window, ENV.num_servers
TABLES = 4
PARAMS = params_of(ENV, TABLES, jobs=16)
SMALL = DASNetwork(width=8, heads=2, history=2, walk_length=4)
KEY = jax.random.key(0)
reset = jax.jit(ENV.reset)


# Kinds


@pytest.mark.parametrize(
    "network",
    [
        DASNetwork(),
        SMALL,
        DASNetwork(variant="DA+MC", mean="zero", product="kronecker", extra_features=True),
        DASNetwork(kernel="graph", basis="walk", history=3),
        DASNetwork(initial_std=0.125),
    ],
    ids=str,
)
def test_a_kind_says_which_network(network):
    kind = kind_of("das", network)
    assert read_kind(kind) == ("das", network)
    assert (kind == "das") == (network == DASNetwork())
    for rival in ("dl2", "rifling", "linear"):
        assert kind_of(rival, network) == rival
        assert read_kind(rival) == (rival, DASNetwork())


def test_the_papers_network_is_the_default():
    assert read_kind("paper") == read_kind("das") == ("das", DASNetwork())
    assert read_kind("das:extra_features=False") == ("das", DASNetwork())


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("transformer", "unknown network 'transformer'; known are das, dl2"),
        ("dl2:width=8", "unknown network 'dl2:width=8'"),
        ("das:depth=3", "unknown network option 'depth'; known are variant, width"),
        ("das:heads", "heads is ''; accepted: a whole number"),
        ("das:initial_std=wide", "initial_std is 'wide'; accepted: a number"),
        ("das:initial_std=nan", "initial_std is nan; accepted: a number above 0.001 below 1"),
        ("das:heads=many", "heads is 'many'; accepted: a whole number"),
        ("das:extra_features=yes", "extra_features is 'yes'; accepted: True or False"),
        ("das:variant=MC", "variant is 'MC'; accepted: DA, DA"),
    ],
)
def test_unknown_kinds_are_refused(kind, says):
    with pytest.raises(JaxschedError, match=says):
        read_kind(kind)


@pytest.mark.parametrize("kind", ["linear", "dl2", "das:variant=DA,width=8,heads=2"])
def test_policies_play_the_plain_environment(kind):
    weights = jax.jit(lambda: functions.init_weights(SYSTEM, ENV, kind, PARAMS))()
    policy = functions.network_policy(SYSTEM, ENV, kind, "mine", "greedy")
    state, seen = reset(KEY, PARAMS, jnp.int32(0))
    view = View(seen.observation, seen.action_mask, state, PARAMS)
    action, _ = jax.jit(policy.act)(weights, policy.init(PARAMS), view, KEY)
    assert policy.name == "mine" and not policy.privileged
    assert {name: part.shape for name, part in action.items()} == {
        "priority": (N,),
        "affinity": (N, M),
    }


# Teachers


def test_squeezed_actions_order_and_place_alike():
    random = np.random.default_rng(0)
    values = np.array([-np.inf, -3, -1, 0, 0, 2, 7, 1e9, np.nan], "f4")
    priority = jnp.asarray(random.choice(values, (300, 6)))
    affinity = jnp.asarray(random.choice(values, (300, 6, 4)))
    real = jnp.asarray(random.random((300, 6)) < 0.7)
    got = jax.jit(jax.vmap(lambda p, a, r: squeezed({"priority": p, "affinity": a}, r)))(
        priority, affinity, real
    )
    order = jax.vmap(lambda p, r: inverse_of(rank_of(p, r)))
    np.testing.assert_array_equal(order(got["priority"], real), order(priority, real))
    everywhere = jnp.ones(4, bool)
    rows = jax.vmap(jax.vmap(lambda row: inverse_of(rank_of(row, everywhere))))
    np.testing.assert_array_equal(rows(got["affinity"]), rows(affinity))
    assert all(np.abs(part).max() < 1 for part in got.values())
    assert not np.asarray(got["priority"])[~np.asarray(real)].any()


def test_many_positions_are_sorted_as_few_are_compared():
    random = np.random.default_rng(1)
    values = np.array([-np.inf, -3, -0.0, 0, 2, 7, 1e9, np.inf, np.nan], "f4")
    priority, member = random.choice(values, MOST_COMPARED + 2), random.random(MOST_COMPARED + 2)
    member = member < 0.7
    last = np.where(np.isnan(priority), -np.inf, priority)
    order = sorted(
        range(len(member)), key=lambda i: (not member[i], -last[i] if member[i] else 0, i)
    )
    rank = rank_of(jnp.asarray(priority), jnp.asarray(member))
    np.testing.assert_array_equal(inverse_of(rank), order)
    np.testing.assert_array_equal(np.asarray(rank)[order], np.arange(len(order)))


def test_squeezed_priorities_are_evenly_spaced_and_ties_stay_equal():
    action = {
        "priority": jnp.array([5.0, 9.0, 5.0, 100.0]),
        "affinity": jnp.broadcast_to(jnp.array([3.0, 1.0, 3.0, 8.0]), (4, 4)),
    }
    got = squeezed(action, jnp.array([True, True, True, False]))
    np.testing.assert_allclose(got["priority"], [0, 2 / 3, -2 / 3, 0], atol=1e-6)
    np.testing.assert_allclose(got["affinity"][0], [0, -3 / 4, 0, 3 / 4], atol=1e-6)


def played(env, policy, recorder):
    return run_episodes(env, policy, recorder, PARAMS, jnp.arange(TABLES), KEY).records


@cache
def schedule_of(rule):
    recorder = log.recorder(ENV, machines=True)
    return jax.tree.map(np.asarray, played(ENV, baseline(rule, ENV), recorder))


@pytest.mark.parametrize(
    ("rule", "remembers"),
    [
        ("fifo_loadbalance", False),
        ("tetris", True),
        pytest.param("fifo_loadbalance", True, marks=pytest.mark.slow),
        pytest.param("tetris", False, marks=pytest.mark.slow),
    ],
)
def test_labels_are_what_the_rule_does(rule, remembers):
    network = SMALL if remembers else DASNetwork(variant="DA")
    env = with_history(ENV, network)
    assert remembers == (env is not ENV)
    teacher = teacher_of(rule, "das", ENV, network)
    labelled = played(env, teacher, log.recorder(ENV, machines=True))
    jax.tree.map(np.testing.assert_array_equal, labelled, schedule_of(rule))


def test_jobs_that_can_be_placed():
    """Free GPUs are (3, 1, 0, ...): the first job fits on two machines, the second one nowhere."""
    state, seen = reset(KEY, PARAMS, jnp.int32(1))
    observation = seen.observation
    size, machines = observation.real.size, observation.machines.shape[0]
    rows = np.zeros((size, 5), "f4")
    rows[:4, 0] = np.array([4, 1, 1, 5]) / 64
    rows[:4, 1] = np.array([1, 4, 3, 1]) / ENV.gpus_per_server
    free = np.zeros((machines, 5), "f4")
    free[:, [0, 2]] = 1
    free[:2, 1] = np.array([3, 1]) / ENV.gpus_per_server
    given = observation._replace(
        jobs=jnp.asarray(rows), machines=jnp.asarray(free), real=jnp.arange(size) < 4
    )
    np.testing.assert_array_equal(fits_now(ENV, given)[:4], [True, False, True, False])


def test_teachers_of_first_come_first_served_give_the_papers_priorities():
    state, seen = reset(KEY, PARAMS, jnp.int32(1))
    view = View(seen.observation, seen.action_mask, state, PARAMS)
    for rule, expected in (("fifo_firstfit", -np.arange(N) / N), ("drf_firstfit", None)):
        teacher = teacher_of(rule, "dl2", ENV, DASNetwork())
        action, _ = jax.jit(teacher.act)((), (), view, KEY)
        plain, _ = jax.jit(baseline(rule, ENV).act)((), (), view, KEY)
        wanted = squeezed(plain, seen.observation.real)
        np.testing.assert_array_equal(action["affinity"], wanted["affinity"])
        wanted = wanted["priority"] if expected is None else expected
        np.testing.assert_allclose(action["priority"], wanted)


def test_unknown_teachers_are_refused():
    with pytest.raises(JaxschedError, match="unknown policy 'nobody'"):
        teacher_of("nobody", "das", ENV, SMALL)


# What learners see


def observations(*lead):
    random = np.random.default_rng(3)
    real = np.arange(N) < random.integers(0, N, (*lead, 1))
    jobs = np.where(real[..., None], random.random((*lead, N, 5)), 0)
    machines = random.random((*lead, M, 5))
    return Observation(jnp.asarray(jobs, "f4"), jnp.asarray(machines, "f4"), jnp.asarray(real))


def actions(*lead):
    random = np.random.default_rng(4)
    return {
        "priority": jnp.asarray(4 * random.normal(size=(*lead, N)), "f4"),
        "affinity": jnp.asarray(4 * random.normal(size=(*lead, N, M)), "f4"),
    }


def remembered(seen):
    return Remembered(seen, None)


def test_critic_features_are_the_papers_row():
    seen, action = observations(6), actions(6)
    got = critic_features(seen, action)
    real = np.asarray(seen.real)
    assert got.shape == (6, 5 * N + 5 * M + N + N * M)
    for row in range(6):
        expected = [
            *np.asarray(seen.jobs[row]).ravel(),
            *np.asarray(seen.machines[row]).ravel(),
            *np.where(real[row], np.clip(action["priority"][row], -3, 3), 0),
            *np.where(real[row][:, None], np.clip(action["affinity"][row], -3, 3), 0).ravel(),
        ]
        np.testing.assert_array_equal(got[row], np.asarray(expected, "f4"))
    np.testing.assert_array_equal(critic_features(remembered(seen), action), got)


@pytest.mark.parametrize("junk", [7.0, np.nan, np.inf])
def test_critics_are_blind_to_dummies(junk):
    seen, action = observations(6), actions(6)
    real = seen.real
    dirty = seen._replace(jobs=jnp.where(real[..., None], seen.jobs, junk))
    bad = {
        "priority": jnp.where(real, action["priority"], junk),
        "affinity": jnp.where(real[..., None], action["affinity"], junk),
    }
    clean = critic_features(seen, action)
    np.testing.assert_array_equal(critic_features(dirty, bad), clean)
    critics = (
        (ActionValue(), clean, critic_features(dirty, bad)),
        (StateValue(ENV), seen, remembered(dirty)),
    )
    for network, one, other in critics:
        weights = jax.jit(network.init)(KEY, one)
        value = jax.jit(jax.value_and_grad(lambda w, x, n=network: jnp.sum(n.apply(w, x) ** 2)))
        (a, gradient), (b, same) = value(weights, one), value(weights, other)
        assert a == b and np.isfinite(a)
        jax.tree.map(np.testing.assert_array_equal, gradient, same)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_the_state_critic_does_not_know_machines_apart():
    seen = observations(6)
    network = StateValue(ENV)
    weights, apply = jax.jit(network.init)(KEY, seen), jax.jit(network.apply)
    value = apply(weights, seen)
    other = apply(weights, seen._replace(machines=seen.machines[:, ::-1]))
    assert value.shape == (6,) and np.ptp(value) > 1e-4
    np.testing.assert_allclose(value, other, atol=1e-5)


def test_agents_wait_for_decisions():
    seen = observations(6)
    due = policies.decision_due(seen, None)
    np.testing.assert_array_equal(due, seen.real.any(axis=-1))
    np.testing.assert_array_equal(policies.decision_due(remembered(seen), None), due)
    assert [bool(is_decision(jax.tree.map(lambda x, i=i: x[i], seen))) for i in range(6)] == [
        *map(bool, due)
    ]
    for policy in ("das", "dl2", "rifling"):
        agents = policies.agents_of(policy, ENV, SMALL)
        assert set(agents.parts(actions())) == {"ordering", "placement"}
        np.testing.assert_array_equal(agents.due(seen, None), due)


@pytest.mark.parametrize("fee_weight", [1.0, 3.0])
def test_the_reference_rule_returns_minus_the_weights(fee_weight):
    """On each episode, whatever its length and load."""
    tables = [random_table(seed, jobs) for seed, jobs in enumerate((16, 5, 16, 9))]
    params = RelativeTo("fifo_loadbalance", fee_weight)(ENV, ENV.params(tables))()
    assert np.ptp(params.jct_ref_min) > 0.1
    play = partial(run_episodes, ENV)
    recorder, episodes = log.recorder(ENV), jnp.arange(TABLES)
    records = play(baseline("fifo_loadbalance", ENV), recorder, params, episodes, KEY).records
    np.testing.assert_allclose(records.total_reward, -100.0 * (1 + fee_weight), rtol=1e-4)
    found = log.summarise(ENV, params, episodes, records)
    other = play(baseline("drf_firstfit", ENV), recorder, params, episodes, KEY).records
    theirs = log.summarise(ENV, params, episodes, other)
    ratio = theirs["avg_jct"] / found["avg_jct"] + fee_weight * theirs["avg_fee"] / found["avg_fee"]
    np.testing.assert_allclose(other.total_reward, -100.0 * ratio, rtol=1e-4)


# Rules, claims


def test_every_policy_that_is_listed_is_there(monkeypatch):
    monkeypatch.setattr("jaxsched.envs.das.system.found_rule", lambda env: None)
    for name in SYSTEM.policies:
        heuristic = functions.heuristic(SYSTEM, name, DAS(num_servers=3, window=5), 10, {})
        assert heuristic.policy.name == name
        assert heuristic.env.lazy == (name == "lazy")
    assert set(NAMES) - set(SYSTEM.policies) == {"eager"}  # the same as fifo_firstfit


def test_rules_refuse_what_they_do_not_know():
    with pytest.raises(JaxschedError, match="unknown policy 'sjf'; known are fifo_firstfit"):
        functions.heuristic(SYSTEM, "sjf", ENV, 10, {})
    with pytest.raises(JaxschedError, match="'mode'"):
        functions.heuristic(SYSTEM, "tetris", ENV, 10, {"mode": "block"})
    with pytest.raises(JaxschedError, match="chooses priorities and affinities"):
        functions.network(SYSTEM, ENV, "das")


def test_names_go_with_what_they_name():
    specs = ENV.specs(PARAMS)
    leaves = [specs.action["priority"], specs.action["affinity"]]
    assert len(action_names(ENV.action_spec())) == sum(int(np.prod(leaf.shape)) for leaf in leaves)
    assert action_names(ENV.action_spec())[N + 1] == "position0.machine1.affinity"
    kinds_of_entries = {name.split(".")[0] for name in ENV.features()}
    assert kinds_of_entries == {"position*", "machine*"}
    assert functions.facts(SYSTEM, ENV, {})["cluster"] == "3 machines of 8 GPUs, 96 CPUs, 384 GB"


def test_spaces_are_bounded():
    """Random play stays inside; that observations do is in the contract of all environments."""
    specs = ENV.specs(PARAMS)
    for spec in jax.tree.leaves(specs, is_leaf=lambda spec: isinstance(spec, ArraySpec)):
        assert np.isfinite([spec.minimum, spec.maximum]).all()
    latest = np.float32(NEVER - 1) / np.float32(86400)
    assert specs.observation.jobs.maximum >= latest >= ENV.num_servers * ENV.gpus_per_server / 64
    act = functions.heuristic(SYSTEM, "random", ENV, 10, {}).policy.act
    drawn = jax.vmap(lambda key: act((), (), None, key)[0])(jax.random.split(KEY, 500))
    for name, spec in specs.action.items():
        assert (spec.minimum, spec.maximum) == (-1.0, 1.0)
        assert drawn[name].shape == (500, *spec.shape)
        assert spec.minimum <= drawn[name].min() < -0.9 < 0.9 < drawn[name].max() <= spec.maximum


def test_scores_weigh_one_per_cent_of_fee_like_three_of_completion_time():
    def score(jct, fee):
        metrics = {"avg_jct_min": np.asarray(jct), "avg_fee": np.asarray(fee)}
        return functions.score(SYSTEM, Played(metrics, {}, []), [])

    assert score([100.0], [50.0]) == pytest.approx(100.0)
    assert score([50.0, 200.0], [50.0, 50.0]) == pytest.approx(100.0)
    assert score([100.0], [50.5]) == pytest.approx(100.0 * 1.01**3)


@pytest.mark.parametrize(
    ("servers", "jct", "verdict"),
    [(8, 0.89, REPRODUCED), (16, 0.99, DIRECTION), (32, 1.009, NOT_REPRODUCED), (9, 0.9, None)],
)
def test_claims_are_those_of_the_cluster(servers, jct, verdict):
    summary = {name: {"avg_jct_min": 200.0, "avg_fee": 50.0} for name in (*HEURISTICS, "random")}
    summary["tetris"] = {"avg_jct_min": 150.0, "avg_fee": 51.0}
    summary["das"] = {"avg_jct_min": 200.0 * jct, "avg_fee": 49.0}
    first, fee, best, _, chance = paper_rows(summary, "das", servers)
    assert first["verdict"] == verdict and chance["verdict"] is None
    assert fee["here"] == 0.98 and (fee["paper"] is None) is (servers == 9)
    assert "tetris" in best["item"] and best["here"] == pytest.approx(jct / 0.75, abs=1e-4)
    del summary["random"]
    assert len(paper_rows(summary, "das", servers)) == 4
