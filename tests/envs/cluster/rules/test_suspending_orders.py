"""With suspension, the replay engine's orders give the engine's schedules, job by job."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.evaluation import run_episodes
from jaxsched.core.policies import one_of
from jaxsched.core.recorder import job_recorder
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.environment import SCALE_S
from jaxsched.envs.cluster.heuristics import RULES, SUSPENDING_RULES, rule
from jaxsched.trace_replay import POLICIES, Cluster, Policy, replay_batch
from tests.trace_replay.cases import expected, found, random_columns, with_estimates

LENGTHS = (24, 24, 17, 24, 24, 5, 24, 24)
THRESHOLDS = (5, 20, 21, 60, 150, 400)
COLUMNS = ("start", "finish", "num_servers", "first_server", "preemptions")
PLAYED = {
    **SUSPENDING_RULES,
    "las-block": ("las", "block"),
    "fifo-skip": RULES["fifo-skip"],
    "qssf": RULES["qssf"],
}


def tables(shape, scale=1):
    """Random jobs of a cluster of this shape, run times and gaps multiplied."""
    drawn = [random_columns(seed, n, shape[0] * shape[1]) for seed, n in enumerate(LENGTHS)]
    for table in drawn:
        table["num_gpus"] = np.minimum(table["num_gpus"], shape[0] * shape[1])
        for name in ("submit_time", "duration"):
            table[name] = table[name] * scale
    return [with_estimates(table, seed) for seed, table in enumerate(drawn)]


@cache
def program(shape, locality, placement):
    """All rules of one cluster and way to place as one program."""
    env = ClusterJobs(*shape, max(LENGTHS), locality, placement, suspends=True)
    policy = one_of(tuple(rule(env, *options) for options in PLAYED.values()))

    def play(name, given, **options):
        params, episodes = env.params(given, **options), jnp.arange(len(given))
        number = jnp.int32(list(PLAYED).index(name))
        key = jax.random.key(0)
        outcome = run_episodes(env, policy, job_recorder(env), params, episodes, key, number)
        return jax.device_get(outcome)

    return play


def records_of(outcome):
    """Of each table, ``[5, n]`` in the order of ``COLUMNS``."""
    assert outcome.finished.all()
    return [
        np.array([outcome.records[name][episode][:count] for name in COLUMNS])
        for episode, count in enumerate(LENGTHS)
    ]


@pytest.mark.parametrize("restart_s", [0, 3])
@pytest.mark.parametrize(
    ("name", "locality", "shape"),
    [
        *((name, "strict", (3, 4)) for name in ("srtf", "srsf", "las", "spot")),
        ("las", "any", (5, 2)),
    ],
)
def test_schedules_are_the_engines(name, locality, shape, restart_s):
    given, suspensions = tables(shape), 0
    outcome = program(shape, locality, "pack")(
        name, given, restart_s=restart_s, thresholds=THRESHOLDS
    )
    policy = Policy(name, locality=locality, thresholds=THRESHOLDS, restart_s=restart_s)
    replayed = replay_batch(given, Cluster(*shape), policy)
    for mine, records in zip(records_of(outcome), replayed, strict=True):
        np.testing.assert_array_equal(mine, found(records))
        suspensions += records.preemptions.sum()
    assert suspensions > 20
    means = [-records.jct.mean() / SCALE_S for records in replayed]
    np.testing.assert_allclose(outcome.episode_return, means, rtol=1e-4)


@pytest.mark.parametrize(
    "case", [((5, 2), "any", "pack", 1), ((2, 8), "strict", "load_balance", 2)]
)
@pytest.mark.parametrize("name", PLAYED)
def test_schedules_are_those_of_a_plain_event_loop(name, case):
    """Other clusters and placements, mode block, and the orders that never suspend a job."""
    shape, locality, placement, restart_s = case
    given = tables(shape)
    outcome = program(shape, locality, placement)(
        name, given, restart_s=restart_s, thresholds=THRESHOLDS
    )
    policy = Policy(*PLAYED[name], placement, locality, THRESHOLDS, restart_s)
    for mine, table in zip(records_of(outcome), given, strict=True):
        np.testing.assert_array_equal(mine, expected(table, Cluster(*shape), policy))


@pytest.mark.parametrize("name", ["las-decades", "las-decades-300s", "srtf-300s", "srsf-300s"])
def test_policies_of_the_leaderboard(name):
    """Run times of minutes to hours; the thresholds are the usual ones."""
    shape, policy = (3, 4), POLICIES[name]
    given, suspensions = tables(shape, scale=300), 0
    outcome = program(shape, "strict", "pack")(policy.order, given, restart_s=policy.restart_s)
    for mine, table in zip(records_of(outcome), given, strict=True):
        np.testing.assert_array_equal(mine, expected(table, Cluster(*shape), policy))
        suspensions += mine[-1].sum()
    assert suspensions > 20


def test_refused_rules():
    env = ClusterJobs(3, 4, 8)
    with pytest.raises(
        Exception, match="accepted: env.suspends=true, or fifo, sjf, lrf, spf, qssf, lifo, "
    ):
        rule(env, "srtf")
    with pytest.raises(Exception, match="las, spot$"):
        rule(replace(env, suspends=True), "gittins")
