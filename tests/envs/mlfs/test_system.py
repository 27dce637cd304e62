"""MLFS as the rest of the library sees it: rules, options, scores, claims, mapping."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.envs.mlfs import MLFS, TASK_JOBS
from jaxsched.envs.mlfs.environment import CLUSTERS
from jaxsched.envs.mlfs.heuristics.baselines import heuristic, linear_host
from jaxsched.envs.mlfs.learn import HIDDEN_FROM_RL, PAPER, RL, TUNED
from jaxsched.envs.mlfs.rules import ORDERS
from jaxsched.envs.mlfs.show.log import PLAY_PACE
from jaxsched.envs.mlfs.show.paper import RIVALS, paper_rows
from jaxsched.errors import JaxschedError
from jaxsched.exports.layout import feature_groups
from jaxsched.jobs import digest_tables
from jaxsched.runs import saved_policies
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.claims import DIRECTION, NOT_REPRODUCED, REPRODUCED
from jaxsched.systems.parts import Played
from jaxsched.systems.stages import budget, stages_of
from jaxsched.types import action_names
from tests.instances import mlfs, mlfs_tables, sched2_tables

SYSTEM = registry.get("mlfs")
ENV = mlfs().env
SMALL = functions.environment(SYSTEM, **CLUSTERS["small"])
OLD = ("quick", "search")
"""Presets with weights that were found with the wait in hours."""


@pytest.fixture(scope="module")
def played():
    """MLF-H on three tiny tables."""
    heuristic = functions.heuristic(SYSTEM, "mlf_h", ENV, 5, {})
    return functions.play(
        SYSTEM, heuristic.env, heuristic.policy, heuristic.env.params(mlfs_tables(0))
    )


# Rules


@pytest.mark.parametrize("name", SYSTEM.policies)
def test_rules_play_in_their_own_environment(name):
    heuristic = functions.heuristic(SYSTEM, name, ENV, 5, {})
    order = name if SYSTEM.policies[name].kind == "baseline" and name != "mlf_h" else "mlf"
    tuned = TUNED if name == "linear_tuned" else {}
    assert heuristic.env == replace(ENV, order=order, use_mlfc=name == "mlf_hc", **tuned)
    assert heuristic.policy.name == name
    assert heuristic.policy.privileged == (name not in ("linear", "linear_tuned", "random"))
    assert functions.heuristic(SYSTEM, name, replace(ENV), 9, {"mlfc": False}) == heuristic
    controlled = functions.heuristic(SYSTEM, name, ENV, 5, {"mlfc": True})
    assert controlled.env == replace(heuristic.env, use_mlfc=True)
    learners = replace(ENV, use_mlfc=True, use_bandwidth=False, remaining_weight=100)
    assert functions.heuristic(SYSTEM, name, learners, 5, {}).env == replace(
        heuristic.env, use_bandwidth=False
    )
    in_hours = replace(ENV, waiting_unit="hour")
    assert functions.heuristic(SYSTEM, name, in_hours, 5, {}).env == heuristic.env
    own = functions.heuristic(SYSTEM, name, learners, 5, {"weights": "own"})
    weights = {"remaining_weight": 100} | tuned
    assert own.env == replace(heuristic.env, use_bandwidth=False, **weights)


def test_what_was_found_with_the_wait_in_hours_keeps_it():
    assert MLFS().waiting_unit == PAPER.env.waiting_unit == "day"
    kept = [preset.env for name, preset in SYSTEM.recipes.presets.items() if name in OLD]
    kept.append(saved_policies.load("pretrained", SYSTEM)[0].env)
    kept.append(functions.heuristic(SYSTEM, "linear_tuned", ENV, 5, {}).env)
    assert {env.waiting_unit for env in kept} == {"hour"} and len(kept) == 4


def test_every_order_is_a_rule():
    assert set(ORDERS) - {"mlf"} < set(SYSTEM.policies)
    assert set(RIVALS) | {"graphene", "mlf_h"} == set(functions.policy_names(SYSTEM, "baseline"))
    assert functions.policy_names(SYSTEM, "reference") == (
        "mlf_hc",
        "linear",
        "linear_tuned",
        "random",
    )


def test_the_best_rule_known_is_linear_under_the_weights_found():
    """Whatever weights the cluster has, and whatever weights rules are asked to have."""
    asked = functions.heuristic(SYSTEM, "linear", replace(SMALL, **TUNED), 5, {"weights": "own"})
    for options in ({}, {"weights": "own"}):
        named = functions.heuristic(SYSTEM, "linear_tuned", SMALL, 5, options)
        assert named.env == asked.env and named.policy.name == "linear_tuned"
    assert functions.heuristic(SYSTEM, "linear", SMALL, 5, {}).env != asked.env
    assert functions.best_rule(SYSTEM, SYSTEM.policies) == "linear_tuned"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: functions.heuristic(SYSTEM, "sjf", ENV, 5, {}),
            "unknown policy 'sjf'; known are fair, slaq",
        ),
        (
            lambda: functions.heuristic(SYSTEM, "fair", ENV, 5, {"window": 3}),
            "no option 'window'; known: mlfc",
        ),
        (
            lambda: functions.heuristic(SYSTEM, "fair", ENV, 5, {"weights": 3}),
            "weights is 3; accepted: paper, own",
        ),
        (
            lambda: functions.heuristic(SYSTEM, "fair", ENV, 5, {"mlfc": "yes"}),
            "mlfc is 'yes'; accepted: True",
        ),
        (lambda: functions.facts(SYSTEM, ENV, {"mlfc": 1}), "mlfc is 1; accepted: True"),
        (
            lambda: functions.network(SYSTEM, ENV, "deep"),
            "unknown network 'deep'; known are servers",
        ),
        (lambda: functions.environment(SYSTEM, servers=3), "unknown environment option 'servers'"),
        (lambda: presets.preset(SYSTEM, "huge"), "unknown preset 'huge'"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_bad_input_is_refused(call, says):
    with pytest.raises(JaxschedError) as refusal:
        call()
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


# Play and scores


def test_metrics_are_those_that_are_listed(played):
    assert set(SYSTEM.metrics.shown) <= set(played.metrics)
    assert functions.metric(SYSTEM, SYSTEM.metrics.primary).better == "lower"
    assert played.metrics["finished"].tolist() == [5, 3, 1]


@pytest.mark.parametrize("pace", [0, 1, 16])
def test_everything_is_played_at_one_pace(pace):
    """Then policies that draw see as many steps alone as beside others."""
    paced = SYSTEM.log.evaluation(replace(ENV, slot_every=pace))
    assert paced == replace(ENV, slot_every=PLAY_PACE)


def test_draws_do_not_depend_on_companions():
    heuristic, tables = (
        functions.heuristic(SYSTEM, "random", ENV, 5, {}),
        (mlfs_tables(0), mlfs_tables(1)),
    )
    first, second = (
        functions.play(
            SYSTEM, heuristic.env, heuristic.policy, heuristic.env.params([tables[0][0], *others])
        )
        for others in (tables[0][1:], tables[1][1:])
    )
    for name in SYSTEM.metrics.shown:
        assert first.metrics[name][0] == second.metrics[name][0]
    assert first.metrics["avg_jct"][1] != second.metrics["avg_jct"][1]


def test_the_score_of_what_finished_is_its_completion_time(played):
    tables = mlfs_tables(0)
    assert functions.score(SYSTEM, played, tables) == played.metrics["avg_jct"].mean()


def test_unfinished_jobs_count_as_whole_episodes():
    metrics = {"avg_jct": np.array([600.0, 900.0]), "finished": np.array([5.0, 0.0])}
    tables = [mlfs_tables(0)[0], mlfs_tables(0)[1]]
    longest = 60.0 * MLFS().max_slots
    assert SYSTEM.metrics.unfinished == longest
    assert functions.score(SYSTEM, Played(metrics, {}, []), tables) == (600.0 + longest) / 2


# Networks and names


@pytest.mark.parametrize(
    ("kind", "hidden"), [("servers", ()), ("paper", ()), ("rl", HIDDEN_FROM_RL)]
)
def test_networks_score_servers_and_queue(kind, hidden):
    network = functions.network(SYSTEM, ENV, kind)
    assert network.hidden_inputs == hidden
    weights = functions.init_weights(SYSTEM, ENV, kind, None)
    seen = jax.numpy.ones((3, *ENV.observation_spec().shape))
    scores = network.apply(weights, seen)
    assert scores.shape == (3, ENV.num_servers + 1)
    assert functions.network_policy(SYSTEM, ENV, kind, "mine", "greedy").name == "mine"


@pytest.mark.parametrize(
    ("recipe", "network", "name"), [(PAPER, "servers", "mlf_rl"), (RL, "rl", "rl")]
)
def test_recipes_learn_policies_of_the_papers_names(recipe, network, name):
    assert recipe.network == network
    recipe = replace(recipe, env=replace(ENV, order=recipe.env.order))
    stages = stages_of(SYSTEM, recipe, mlfs_tables(0))
    assert [stage.name for stage in stages] == ["imitation", "ppo"]
    assert {stage.policy.name for stage in stages} == {name}
    steps = [stage.loop.num_updates * stage.loop.steps_per_update for stage in stages]
    assert budget(recipe) == sum(steps) > 0
    alone = override(recipe, ["ppo.skip=true"])
    (imitation,) = stages_of(SYSTEM, alone, mlfs_tables(0))
    assert budget(alone) == steps[0]
    assert "imitation only" in imitation.variants
    assert not any("discounted" in line for line in imitation.variants)
    with pytest.raises(JaxschedError, match="left out; accepted: one of imitation, ppo that is"):
        stages_of(SYSTEM, override(alone, ["imitation.skip=true"]), mlfs_tables(0))


@pytest.mark.parametrize("order", ["mlf", "fifo"])
def test_teachers_keep_the_environments_order(order):
    env = replace(ENV, order=order, use_mlfc=True)
    assert functions.teacher(SYSTEM, "heuristic", env) is heuristic(env)
    assert functions.teacher(SYSTEM, "linear", env) is linear_host(env)
    with pytest.raises(JaxschedError, match="teacher is 'fair'; accepted: heuristic, linear"):
        functions.teacher(SYSTEM, "fair", env)


@pytest.mark.parametrize("kind", ["servers", "rl"])
def test_values_see_what_the_policy_sees(kind):
    value = SYSTEM.networks.value(ENV, kind)
    assert value.hidden_inputs == functions.network(SYSTEM, ENV, kind).hidden_inputs
    assert value == SYSTEM.networks.value(ENV, "paper" if kind == "servers" else kind)


def test_names_go_with_what_they_name():
    for options in (*CLUSTERS.values(), {"gpus": (1,)}):
        env = functions.environment(SYSTEM, **options)
        names = action_names(env.action_spec())
        assert len(names) == env.action_spec().num_actions
        assert (names[0], names[-1]) == ("server0", "queue")
    spec = SMALL.observation_spec()
    groups = feature_groups(spec.names, SMALL.features())
    assert {group["pattern"] for group in groups} == set(SMALL.features())


def test_facts_tell_cluster_and_control():
    assert functions.facts(SYSTEM, SMALL, {})["cluster"].startswith(
        "5 servers of 4 GPUs, each with 32 CPUs"
    )
    large = functions.environment(SYSTEM, **CLUSTERS["large"])
    assert (
        "321 servers of 2 GPUs and 229 servers of 8 GPUs"
        in functions.facts(SYSTEM, large, {})["cluster"]
    )
    told = [
        functions.facts(SYSTEM, SMALL, {"mlfc": on})["MLF-C (ends jobs early)"]
        for on in (False, True)
    ]
    assert told == ["in force for mlf_hc only", "in force for every heuristic"]


def test_clusters_have_the_papers_gpus():
    sizes = {name: sum(options["gpus"]) for name, options in CLUSTERS.items()}
    assert sizes == {"small": 20, "real": 80, "large": 2474}
    assert functions.environment(SYSTEM) == SMALL
    for options in CLUSTERS.values():
        assert options["max_offers"] >= sum(options["gpus"]) / 2


# Traces


def test_rigid_jobs_become_tasks_with_draws_of_their_own():
    rigid = sched2_tables(0)[:1] * 2
    adapted = SYSTEM.jobs.adapted([*rigid, *mlfs_tables(0)])
    assert all(table.schema == TASK_JOBS for table in adapted)
    for table, before in zip(adapted, rigid, strict=False):
        np.testing.assert_array_equal(table["submit_time"], before["submit_time"])
    assert not np.array_equal(adapted[0]["work"], adapted[1]["work"])
    assert digest_tables(adapted[:1]) == digest_tables(SYSTEM.jobs.adapted(rigid[:1]))
    assert digest_tables(adapted[2:]) == digest_tables(mlfs_tables(0))
    SMALL.params(adapted[:2])


def test_usual_traces_are_known():
    for name in (functions.traces(SYSTEM).train, functions.traces(SYSTEM).test):
        (table,) = traces.get(name, num_traces=1, num_jobs=3)
        assert table.schema == TASK_JOBS
    usual = functions.mapping(SYSTEM, functions.environment(SYSTEM), mean_gap_s=None, load=None)
    assert usual.mean_gap_s * 465 == pytest.approx(36 * 3600)
    asked = functions.mapping(SYSTEM, functions.environment(SYSTEM), mean_gap_s=None, load=0.5)
    assert (asked.load, asked.mean_gap_s, asked.max_gpus) == (0.5, None, 20)


# Claims

FIGURES = {
    "avg_jct": 1000.0, "deadline_ratio": 0.5, "avg_wait": 400.0, "avg_accuracy": 0.5,
    "accuracy_ratio": 0.5, "bandwidth_mb": 1000.0, "jct_under_100min": 0.4,
}  # fmt: skip


def summary_of(**jct):
    """All policies, alike but for their completion times."""
    names = [*SYSTEM.policies, "mlf_rl", "mine"]
    return {name: FIGURES | {"avg_jct": jct.get(name, 1000.0)} for name in names}


def verdicts(rows):
    return {row["item"]: row["verdict"] for row in rows}


@pytest.mark.parametrize(
    ("jct", "item", "verdict"),
    [
        ({"mlf_h": 999.0}, "Fig. 4a: JCT, MLF-H over Graphene", DIRECTION),
        ({"mlf_h": 1001.0}, "Fig. 4a: JCT, MLF-H over Graphene", NOT_REPRODUCED),
        ({"tiresias": 1001.0}, "Fig. 4a: JCT, Tiresias over SLAQ", NOT_REPRODUCED),
        ({"mine": 917.0}, "Fig. 4b: JCT, MLF-RL over MLF-H", REPRODUCED),
        ({"mine": 918.0}, "Fig. 4b: JCT, MLF-RL over MLF-H", DIRECTION),
        ({}, "Fig. 4g: bandwidth, MLF-H over Tiresias", NOT_REPRODUCED),
        ({}, "Fig. 4c: deadline ratio, MLF-RL over MLF-H", NOT_REPRODUCED),
    ],
)
def test_mlf_rl_beside_the_paper(jct, item, verdict):
    rows = SYSTEM.paper.claims(SMALL, summary_of(**jct), "mine")
    assert verdicts(rows)[item] == verdict
    assert not any("MLFS" in row["item"] for row in rows)


@pytest.mark.parametrize(
    ("jct", "item", "verdict"),
    [
        ({"mine": 660.0}, "Fig. 4b: JCT, MLFS over Tiresias", REPRODUCED),
        ({"mine": 999.0}, "Fig. 4b: JCT, MLFS over Tiresias", DIRECTION),
        ({"mine": 500.0}, "Fig. 4b: JCT, MLFS over SLAQ", REPRODUCED),
        ({"mine": 500.0}, "JCT, MLFS over MLF-H with MLF-C", None),
        ({"mine": 835.0}, "Fig. 4b: JCT, MLFS over MLF-RL", REPRODUCED),
        ({"mine": 1001.0}, "Fig. 4b: JCT, MLFS over MLF-RL", NOT_REPRODUCED),
    ],
)
def test_mlfs_beside_the_paper(jct, item, verdict):
    summary = summary_of(**jct)
    rows = paper_rows(summary, "mine", controls=True, beside="mlf_rl")
    assert verdicts(rows)[item] == verdict
    fewer = SYSTEM.paper.claims(replace(SMALL, use_mlfc=True), summary, "mine")
    assert fewer == rows[:-3]


def test_mlf_h_is_held_to_the_best_at_deadlines():
    summary = summary_of()
    summary["hypersched"] = summary["hypersched"] | {"deadline_ratio": 0.6}
    summary["graphene"] = summary["graphene"] | {"deadline_ratio": 0.9}
    found = verdicts(SYSTEM.paper.claims(SMALL, summary, "mine"))
    assert found["Fig. 4c: deadline ratio, MLF-H over hypersched"] == NOT_REPRODUCED
    del summary["mlf_hc"]
    controlled = paper_rows(summary, "mine", controls=True)
    assert not any("with MLF-C" in row["item"] for row in controlled)
