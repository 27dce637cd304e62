"""The cluster as a registered system: its rules, jobs, metrics, networks and pictures."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.trajectory import Trajectory, record_trajectory
from jaxsched.envs.cluster.heuristics import (
    COMMITTED_RULES,
    RULES,
    SUSPENDING_RULES,
    TYPED_RULES,
)
from jaxsched.envs.cluster.system import BEST, SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.sources import resolve
from jaxsched.jobs import JobTable
from jaxsched.results.comparison import Learned
from jaxsched.runs.policies import on_cluster
from jaxsched.systems import functions, presets
from jaxsched.systems.stages import stages_of
from jaxsched.trace_replay import POLICIES, TYPED, Cluster, Policy, replay
from jaxsched.trace_replay.records import summary
from jaxsched.traces import Trace
from jaxsched.traces import registry as traces
from jaxsched.traces.describe import offered_load

TABLE = {
    "submit_time": [0, 0, 10, 20, 30, 50],
    "num_gpus": [8, 2, 4, 1, 6, 3],
    "duration": [100, 400, 60, 30, 10, 90],
}


@pytest.fixture(scope="module")
def suspended():
    """A short play under ``srtf`` with its moments: environment, parameters, trajectory."""
    env = functions.environment(
        SYSTEM, num_servers=2, gpus_per_server=4, suspends=True, restart_s=5
    )
    params = env.params([JobTable(TABLE)])
    played = functions.heuristic(SYSTEM, "srtf", env, 6, {})
    how = SYSTEM.log.recording(played.env)
    trajectory = record_trajectory(
        played.env, played.policy, how.recorder, params, how.moment, clock=how.clock
    )
    return played.env, params, trajectory


def test_every_rule_has_its_name_and_words():
    assert set(SYSTEM.policies) == {*RULES, *SUSPENDING_RULES, *COMMITTED_RULES, *TYPED_RULES}
    suspends = functions.environment(SYSTEM, suspends=True)
    commits = functions.environment(SYSTEM, commits=True)
    assert set(functions.usual_policies(SYSTEM)) == set(RULES)
    assert set(functions.usual_policies(SYSTEM, suspends)) == {*RULES, *SUSPENDING_RULES}
    once = {*RULES, *COMMITTED_RULES} - {"fifo-skip", "sjf-block"}  # those are fifo and sjf
    assert set(functions.usual_policies(SYSTEM, commits)) == once
    for env in (functions.environment(SYSTEM), suspends, commits):
        for name in functions.usual_policies(SYSTEM, env):
            assert functions.heuristic(SYSTEM, name, env, 5, {}).policy.name == name
    told = {name for name, rule in SYSTEM.policies.items() if rule.clairvoyant}
    board = (
        dict(POLICIES) | dict(TYPED) | {name: Policy(*how) for name, how in COMMITTED_RULES.items()}
    )
    knowing = {name for name in SYSTEM.policies if board[name].clairvoyant}
    assert told == knowing
    with pytest.raises(JaxschedError, match="'las', which suspends jobs; accepted: env.sus"):
        functions.heuristic(SYSTEM, "las", functions.environment(SYSTEM), 5, {})


def test_the_best_rule_is_one_that_plays():
    suspending, starting, committing = BEST
    assert functions.best_rule(SYSTEM, [*COMMITTED_RULES, "fifo"]) == committing
    assert functions.best_rule(SYSTEM, SYSTEM.policies) == suspending
    assert functions.best_rule(SYSTEM, RULES) == starting
    assert functions.best_rule(SYSTEM, ["fifo"]) == ""


def test_rules_see_all_jobs_unless_told_otherwise():
    env = functions.environment(SYSTEM, window=3, may_wait=False)
    played = functions.heuristic(SYSTEM, "fifo", env, 50, {})
    assert (played.env.window, played.env.may_wait) == (50, True)
    assert functions.heuristic(SYSTEM, "fifo", env, 50, {"window": 7}).env.window == 7


def test_jobs_have_the_owners_that_their_trace_names():
    table = traces.get("cluster-philly", num_traces=1, num_jobs=20)[0]
    assert table["group"].max() > 0
    assert (np.unique(table["kind"]).size, table["group"].min()) == (table["group"].max() + 1, 0)
    bare = JobTable({**TABLE, "model": [0] * 6})
    assert SYSTEM.jobs.adapted([bare]) == [bare]


def test_pieces_of_a_draw_do_not_depend_on_their_number():
    one, two = (traces.get("cluster-philly", seed=3, num_traces=n, num_jobs=40) for n in (2, 3))
    assert [table.digest() for table in one] == [table.digest() for table in two[:2]]


def test_a_workload_has_the_usual_load_on_any_cluster():
    for servers in (2, 16):
        env = functions.environment(SYSTEM, num_servers=servers)
        options = TraceOptions(num_traces=1, num_jobs=200)
        episodes = resolve("philly-like", SYSTEM, options, env)
        assert offered_load(episodes.tables, servers * 8) == pytest.approx(0.9, rel=0.01)


def test_metrics_are_those_of_the_engine(suspended):
    env, params, trajectory = suspended
    records = jax.tree.map(lambda leaf: np.asarray(leaf)[None], trajectory.records)
    found = SYSTEM.log.metrics(env, params, np.arange(1), records)
    assert set(SYSTEM.metrics.shown) <= set(found)
    engine = replay(TABLE, Cluster(2, 4), replace(POLICIES["srtf"], restart_s=5))
    expected = summary(engine, Cluster(2, 4))
    assert expected["preemptions"] > 0
    assert {name: found[name][0] for name in expected} == pytest.approx(expected)
    slowdown = np.maximum(engine.jct / np.maximum(engine.duration, 10), 1)
    assert found["bounded_slowdown"] == pytest.approx(slowdown.mean())


def test_pictures_show_who_held_which_gpus(suspended):
    env, params, trajectory = suspended
    drawn = SYSTEM.log.recording(env).schedule(env, params, 0, trajectory)
    assert [band.rows for band in drawn.bands] == [4, 4]
    pieces = drawn.pieces
    held = np.zeros(6)
    np.add.at(held, pieces.job, pieces.rows * (pieces.end - pieces.start))
    stops = np.asarray(trajectory.records["preemptions"])
    expected = np.multiply(TABLE["num_gpus"], np.add(TABLE["duration"], 5 * stops))
    np.testing.assert_array_equal(held, expected)
    for row in range(8):
        here = (pieces.row <= row) & (row < pieces.row + pieces.rows)
        start, end = pieces.start[here], pieces.end[here]
        order = np.argsort(start)
        assert (end[order][:-1] <= start[order][1:]).all()
    coarse = SYSTEM.log.recording(env).schedule(env, params, 0, Trajectory(trajectory.records))
    assert (drawn.unit, coarse.unit) == ("GPU", "job")  # of an evaluation, which keeps no moments


def test_a_policy_of_four_servers_plays_on_sixteen():
    recipe = presets.preset(SYSTEM, "ppo")
    env = recipe.env
    params = env.params([JobTable(TABLE)])
    weights = functions.init_weights(SYSTEM, env, recipe.network, params)
    learned = Learned("mine", env, recipe.network, [weights], "greedy")
    larger = functions.environment(SYSTEM, num_servers=16, window=9, may_wait=False)
    assert on_cluster(learned, SYSTEM, larger).env == larger
    network = functions.network(SYSTEM, larger, recipe.network)
    seen = larger.observation_spec(params).zeros()
    assert network.apply(weights, jnp.asarray(seen)).shape == (10,)
    with pytest.raises(JaxschedError, match="suspends False, not True; accepted: its own"):
        on_cluster(learned, SYSTEM, functions.environment(SYSTEM, suspends=True))


@pytest.mark.parametrize("name", SYSTEM.recipes.presets)
def test_recipes_learn_from_their_tables(name):
    """Sizes, networks and learner fit together; nothing is compiled."""
    recipe = presets.preset(SYSTEM, name)
    (stage,) = stages_of(SYSTEM, recipe, traces.get(recipe.traces.train, num_traces=2))
    assert recipe.traces.validation == recipe.traces.train
    params = stage.params_at(0.0)
    state = jax.eval_shape(
        lambda key: stage.learner.init(key, stage.env.specs(params)), jax.random.key(0)
    )
    assert jax.tree.leaves(state)


def test_windows_as_rltune_takes_them():
    one, two = (traces.get("cluster-rltune", seed=3, num_traces=n, num_jobs=64) for n in (2, 3))
    assert [table.digest() for table in one] == [table.digest() for table in two[:2]]
    assert one[1]["submit_time"][0] >= one[0]["submit_time"][-1], "one clock for all"
    assert set(np.unique(one[0]["num_gpus"])) <= {1, 2, 4, *range(8, 161, 8)}


@pytest.mark.parametrize(("locality", "widest"), [("strict", 24), ("any", 32)])
def test_jobs_of_a_log_are_capped_at_the_largest_that_can_run(locality, widest):
    env = functions.environment(SYSTEM, servers="4x2:4,3x8", locality=locality)
    hours = 3600.0 * np.arange(60)
    log = Trace({
        "submit_time": hours, "num_gpus": np.tile([1.0, 28.0, 32.0], 20),
        "duration": np.full(60, 600.0),
    })  # fmt: skip
    found = resolve(log, SYSTEM, TraceOptions(num_traces=1, num_jobs=30, cut=True), env)
    assert set(found.tables[0]["num_gpus"].tolist()) == {1, min(28, widest), widest}
    assert f"capped at {widest} GPUs" in found.summary or locality == "any"
    env.params(found.tables)


def test_servers_of_one_size_hold_every_job():
    assert functions.environment(SYSTEM).largest_job() is None
