"""The richer rule: it begins as what it comes from, and reads what it says it reads."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from jaxsched.core.training import init
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import weighted
from jaxsched.envs.das.heuristics.weighted import decide_linear, found_rule, linear_policy
from jaxsched.envs.das.jobs import CLUSTERS, GROUP, MOST_GPUS, USER, contended_tables, gang_tables
from jaxsched.envs.das.learn.presets import PRESETS, SIZES
from jaxsched.envs.das.show import log
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, registry
from jaxsched.systems.stages import stages_of
from jaxsched.traces import registry as traces

KEY = jax.random.key(0)
ENV = DAS(window=8)
SHOWN = replace(ENV, estimates=True)


@pytest.fixture(scope="module")
def tables():
    return contended_tables(2, 3, num_jobs=200, load=2.0)


def test_it_begins_as_the_linear_rule(tables):
    """With its priorities and affinities, scaled by powers of two, in every state of an episode."""
    params, rule = ENV.params(tables), found_rule(ENV)
    begun = weighted.start_at(ENV, rule)

    def step(carry, key):
        state, seen = carry
        action = decide_linear(ENV, rule, seen)
        state, timestep = ENV.step(key, state, action, params)
        return (state, timestep.observation), (
            action,
            weighted.decide_scored(ENV, begun, seen),
            seen.real,
        )

    state, first = ENV.reset(KEY, params, 0)
    keys = jax.random.split(KEY, 120)
    run = jax.jit(lambda: jax.lax.scan(step, (state, first.observation), keys)[1])
    expected, found, real = jax.tree.map(np.asarray, run())
    assert real.sum() > 300
    for part, scale in (("priority", weighted.ORDER_SCALE), ("affinity", weighted.PLACE_SCALE)):
        np.testing.assert_allclose(found[part][real], scale * expected[part][real], atol=1e-5)


def test_least_estimated_gpu_time_goes_first(tables):
    params = SHOWN.params(tables)
    rule = weighted.shortest(SHOWN)
    state, timestep = SHOWN.reset(KEY, params, 0)
    seen = timestep.observation
    step = jax.jit(lambda s, o: SHOWN.step(KEY, s, weighted.decide_scored(SHOWN, rule, o), params))
    for _ in range(100):
        state, timestep = step(state, seen)
        seen = timestep.observation
    real = np.asarray(seen.real)
    jobs = np.asarray(seen.jobs)[real]
    gpus = np.round(jobs[:, 0] * 64) * np.round(jobs[:, 1] * 8)
    estimate = 2.0 ** (jobs[:, 5] * 18) * gpus**weighted.GPUS_POWER
    order = np.asarray(weighted.decide_scored(SHOWN, rule, seen)["priority"])[real]
    assert len(jobs) >= 4
    np.testing.assert_array_equal(np.argsort(-order), np.argsort(estimate))
    with pytest.raises(JaxschedError, match="set env.estimates"):
        weighted.shortest(ENV)


def test_knowing_groups_and_users_pays(tables):
    """Completion times: an oracle of durations, the rule that reads estimates, the linear rule."""
    params = SHOWN.params(tables)
    rules = (
        weighted.oracle_policy(SHOWN),
        weighted.scored_policy(SHOWN, weighted.shortest(SHOWN)),
        linear_policy(SHOWN, found_rule(SHOWN)),
    )
    found = [log.play(SHOWN, policy, params)["avg_jct"].mean() for policy in rules]
    assert found == sorted(found)


@pytest.mark.parametrize("recipes", [PRESETS, SIZES["medium"].recipes], ids=["small", "medium"])
def test_the_search_begins_there(recipes):
    recipe = recipes["contended"]
    (search,) = recipe.stages
    small = replace(search.learner, members=4, episodes=2)
    loop = replace(search.loop, num_envs=8, num_random_streams=2, rollout_length=80)
    search = replace(search, learner=small, loop=loop, adjust=None)
    recipe = replace(recipe, stages=(search,))
    drawn = traces.get(recipe.traces.train, num_traces=2, num_jobs=20)
    (stage,) = stages_of(registry.get("das"), recipe, drawn)
    carry = init(stage.env, stage.learner, stage.loop, jax.random.key(0), stage.params_at(0.0))
    begins = search.network_options["begins"]
    begun = weighted.beginning(recipe.env, begins)
    jax.tree.map(np.testing.assert_array_equal, carry.learner_state.averaged, begun)
    assert stage.variants == (f"a rule found by search over whole episodes from {begins}",)


def test_users_and_groups_tell_run_times():
    """Most of the spread of the logarithm is between groups, and groups recur."""
    for table in contended_tables(4, 3):
        log = np.log(table["duration"])
        _, group, count = np.unique(table[GROUP], return_inverse=True, return_counts=True)
        within = log - (np.bincount(group, log) / count)[group]
        assert within.var() < 0.25 * log.var()
        assert count[group][count[group] >= 5].size > 0.65 * len(table)
        for name in ("num_instances", "gpus_per_instance", "cpus_per_instance", USER):
            assert len(np.unique(np.stack([group, table[name]]), axis=1).T) == len(count)
        assert (table["num_instances"] * table["gpus_per_instance"]).max() <= MOST_GPUS


@pytest.mark.parametrize(("cluster", "servers"), CLUSTERS.items())
def test_the_load_is_the_clusters(cluster, servers):
    """To a second; jobs are the same for every cluster, and traces are registered."""
    suffix = "" if cluster == "small" else f"-{cluster}"
    (table,) = traces.get(f"das-contended{suffix}", seed=3, num_traces=1, num_jobs=300)
    work = np.sum(table["num_instances"] * table["gpus_per_instance"] * table["duration"])
    np.testing.assert_allclose(work / table["submit_time"][-1] / (8 * servers), 0.9, rtol=1e-4)
    (other,) = contended_tables(3, 1, num_jobs=300)
    np.testing.assert_array_equal(table["duration"], other["duration"])


def test_loads_are_checked():
    for load in (0.0, float("nan"), float("inf")):
        with pytest.raises(JaxschedError, match="accepted: a number above 0"):
            contended_tables(0, 1, load=load)


def test_the_rule_is_listed_and_plays_with_estimates():
    system = registry.get("das")
    found = functions.heuristic(system, "shortest", ENV, 10, {})
    assert found.env.estimates and found.policy.name == "shortest"
    assert gang_tables(0, 1, num_jobs=5)[0].columns.keys().isdisjoint({GROUP, USER})
