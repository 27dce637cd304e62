"""Shares of a GPU in the environment, against a plain event loop and the replay engine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.core.trajectory import record_trajectory
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.environment import SCALE_S
from jaxsched.envs.cluster.heuristics import rule
from jaxsched.envs.cluster.rules.observation import OF_SHARES, OF_SLOTS
from jaxsched.envs.cluster.show.log import recording, summarise
from jaxsched.envs.cluster.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.results.comparison import Learned
from jaxsched.runs.policies import on_cluster
from jaxsched.runs.saved_policies import smallest_params
from jaxsched.systems import functions
from jaxsched.trace_replay import Cluster, Policy, replay_batch
from jaxsched.trace_replay.records import summary
from tests.envs.cluster.rules.test_gpu_types import play
from tests.trace_replay.test_shares import CLUSTERS, plain, shared_columns

ORDERS = {"fifo": ("fifo", "block"), "sjf": ("sjf", "skip"), "spf": ("spf", "skip")}
COLUMNS = ("start", "finish", "num_servers", "first_server")
PLACED = [
    pytest.param(name, placement, id=f"{name}-{placement}")
    for name in CLUSTERS
    for placement in ("pack", "fgd")
    if not (name == "types" and placement == "fgd")
]


def moments(outcome, episode):
    return np.array([outcome.records[column][episode] for column in COLUMNS])


@pytest.mark.parametrize(("name", "placement"), PLACED)
def test_rules_are_those_of_a_plain_event_loop(name, placement):
    cluster = CLUSTERS[name]
    tables = [shared_columns(seed, cluster) for seed in range(6)]
    env = ClusterJobs(window=24, servers=str(cluster.servers), placement=placement)
    params, played = play(env, ORDERS, tables)
    for rule_, outcome in played.items():
        policy = Policy(*ORDERS[rule_], placement)
        said = summarise(env, params, np.arange(len(tables)), outcome.records)
        for episode, records in enumerate(replay_batch(tables, cluster, policy)):
            mine = moments(outcome, episode)
            np.testing.assert_array_equal(mine, plain(tables[episode], cluster, policy))
            assert outcome.episode_return[episode] == pytest.approx(
                -records.jct.mean() / SCALE_S, rel=1e-4
            )
            for figure, value in summary(records, cluster).items():
                assert said[figure][episode] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("placement", ["first_fit", "fgd"])
def test_choices_that_commit(placement):
    cluster = CLUSTERS["cpus"]
    tables = [shared_columns(seed, cluster) for seed in range(6)]
    env = ClusterJobs(window=24, servers=str(cluster.servers), placement=placement, commits=True)
    _, played = play(env, {"lrf": ("lrf", "skip")}, tables)
    for episode, table in enumerate(tables):
        found = plain(table, cluster, Policy("lrf", "commit", placement))
        np.testing.assert_array_equal(moments(played["lrf"], episode), found)


def test_quotas_count_slots():
    cluster = CLUSTERS["alike"]
    tables = [shared_columns(seed, cluster) for seed in range(6)]
    env = ClusterJobs(window=24, servers=str(cluster.servers), quotas="equal")
    _, played = play(env, {"fifo": ("fifo", "skip")}, tables)
    policy = Policy("fifo", "skip", isolated=True)
    for episode, table in enumerate(tables):
        np.testing.assert_array_equal(
            moments(played["fifo"], episode), plain(table, cluster, policy)
        )


def test_observations_count_parts_of_gpus():
    """A half and a fifth on one GPU of two, then a third that needs 0.4 and is given a half."""
    jobs = {"submit_time": [0] * 3, "num_gpus": [1, 1, 1], "duration": [9] * 3,
            "gpu_milli": [500, 200, 400]}  # fmt: skip
    env = ClusterJobs(window=4, servers="1x2x4", may_wait=False)
    params = env.params([jobs])
    state, _ = env.reset(jax.random.key(0), params)
    names = env.observation_spec(params).names

    def seen(state):
        values = np.asarray(env.observe(state, params)[0])
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    first = seen(state)
    assert [first[f"position{q}.part"] for q in range(4)] == [0.5, 0.25, 0.5, 0]
    assert first["position0.gpus"] == pytest.approx(np.log2(1.5) / 16)
    assert first["position0.gpus_of_server"] == first["position0.gpus_of_cluster"] == 0.25
    assert (first["free"], first["largest_fit"], first["wholly_free"]) == (1, 1, 1)
    assert (first["shared_free"], first["largest_part"]) == (0, 0)
    assert first["gpus_wanted"] == pytest.approx(np.log2(1 + 5 / 8) / 16)
    free = []
    for _ in range(2):
        state, _ = env.step(jax.random.key(0), state, jnp.int32(0), params)
        after = seen(state)
        free.append([after[name] for name in ("free", "largest_fit", *OF_SLOTS)])
    assert free == [[0.75, 0.5, 0.25, 0.5], [0.625, 0.5, 0.125, 0.25]]
    plain_names = ClusterJobs(window=4).observation_spec(params).names
    assert len(names) == len(plain_names) + len(OF_SLOTS) + 4 * len(OF_SHARES)
    assert set(env.features()) >= {*OF_SLOTS, "position*.part"}


def test_a_drawn_future_keeps_shares():
    cluster = CLUSTERS["cpus"]
    env = ClusterJobs(window=24, servers=str(cluster.servers), placement="fgd")
    params = env.params([shared_columns(0, cluster)])
    state, _ = env.reset(jax.random.key(0), params, jnp.int32(0))
    _, drawn = env.resample_future(jax.random.key(1), state, params)
    before, after = (
        {
            (int(slots), *need)
            for slots, need in zip(jobs.num_gpus[0], jobs.demand[0].tolist(), strict=True)
        }
        for jobs in (params.jobs, drawn.jobs)
    )
    assert after <= before and len(after) > 4
    assert not np.array_equal(params.jobs.demand, drawn.jobs.demand)
    for mine, drawn_ in zip(params.jobs.tasks, drawn.jobs.tasks, strict=True):
        np.testing.assert_array_equal(mine, drawn_)


def test_pictures_show_parts_of_gpus():
    cluster = CLUSTERS["sizes"]
    table = shared_columns(0, cluster)
    env = ClusterJobs(window=24, servers=str(cluster.servers))
    params, how = env.params([table]), recording(env)
    played = record_trajectory(
        env, rule(env, "fifo"), how.recorder, params, how.moment, clock=how.clock
    )
    shown = how.schedule(env, params, 0, played)
    pieces = shown.pieces
    assert tuple(band.rows for band in shown.bands) == cluster.server_gpus
    held = np.bincount(pieces.job, pieces.rows * (pieces.end - pieces.start), minlength=24)
    parts = np.asarray(params.jobs.num_gpus[0, :24]) / cluster.slots
    np.testing.assert_allclose(held, parts * table["duration"])
    assert shown.facts[0].values == parts.tolist() and 0 < parts.min() < 1
    on_one_gpu = np.floor(pieces.row) == np.floor(pieces.row + pieces.rows - 1e-6)
    assert on_one_gpu[parts[pieces.job] < 1].all()


def test_parts_are_nothing_to_gpus_without_slots():
    """The program is the same, letter for letter, and nothing is kept for it."""
    table, programs = shared_columns(0, CLUSTERS["whole"]), []
    env = ClusterJobs(window=8, servers="3x2,2x3")
    for columns in (table, {name: table[name] for name in table if name != "gpu_milli"}):
        params = env.params([columns])
        state, _ = env.reset(jax.random.key(0), params)
        lowered = jax.jit(env.step).lower(jax.random.key(0), state, jnp.int32(0), params)
        programs.append(lowered.as_text())
        assert params.jobs.demand is None and params.jobs.tasks is None
    assert programs[0] == programs[1]


def test_a_policy_plays_on_gpus_of_other_slots():
    env = ClusterJobs(window=4, servers="2x4x2")
    weights = functions.init_weights(SYSTEM, env, "jobs", smallest_params(SYSTEM, env))
    learned = Learned("mine", env, "jobs", [weights], "greedy")
    larger = ClusterJobs(window=9, servers="4x8x20")
    assert on_cluster(learned, SYSTEM, larger).env == larger
    with pytest.raises(JaxschedError, match='mine: its network is for servers 2x4x2, not ""; acc'):
        on_cluster(learned, SYSTEM, ClusterJobs(window=4))


def test_slots_that_nobody_shares_change_no_schedule():
    table = {name: column for name, column in shared_columns(0, CLUSTERS["whole"]).items()
             if name != "gpu_milli"}  # fmt: skip
    whole, slots = (
        play(ClusterJobs(window=24, servers=servers), ORDERS, [table])[1]
        for servers in ("3x2,2x3", "3x2x4,2x3x4")
    )
    for name in ORDERS:
        np.testing.assert_array_equal(moments(whole[name], 0), moments(slots[name], 0))


@pytest.mark.parametrize("servers", ["2x4x7", "2x4x7/8/20", "1x8x2@a,1x8x2@b"])
def test_the_smallest_job_runs_on_any_servers(servers):
    env = ClusterJobs(servers=servers, window=4)
    assert smallest_params(SYSTEM, env).jobs.num_jobs.tolist() == [1]


def test_sizes_with_slots():
    cluster = Cluster.of("4x8x20")
    assert ClusterJobs.of_servers(*cluster.servers) == {"servers": "4x8x20"}
    env = ClusterJobs(servers="4x8x20")
    assert env.cluster == cluster and env.server_gpus() == (8,) * 4 and env.gpu_slots() == 20
    assert env.facts()["cluster"] == "4 servers x 8 GPUs of 20 slots"
    assert "fgd placement" in ClusterJobs(placement="fgd").facts()["rules"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"servers": "2x4x2", "suspends": True}, "suspends with slots of GPUs; accepted: jobs tha"),
        ({"servers": "2x4x2", "locality": "any"}, "locality any with slots of GPUs; accepted: job"),
        ({"placement": "fgd", "suspends": True}, "suspends with placement fgd; accepted: jobs tha"),
        ({"placement": "fgd", "locality": "any"}, "locality any with placement fgd; accepted: job"),
        ({"placement": "fgd", "servers": "2x4@a"}, "fgd with GPUs of different types; accepted: p"),
    ],
)
def test_what_is_refused_in_one_line(options, match):
    with pytest.raises(JaxschedError, match=f"cluster: .*{match}") as caught:
        ClusterJobs(**options)
    assert len(str(caught.value).splitlines()) == 1


def test_tables_and_rules_that_are_refused():
    env = ClusterJobs(servers="2x4x2", commits=True)
    with pytest.raises(JaxschedError, match="order is 'f1', which weighs numbers of GPUs, with sl"):
        rule(env, "f1")
    assert not SYSTEM.policies["f1"].usual(env) and SYSTEM.policies["lcfs"].usual(env)
    one = {"submit_time": [0], "num_gpus": [2], "duration": [3], "gpu_milli": [500]}
    with pytest.raises(JaxschedError, match="job 0: gpu_milli is 500 of 2 GPUs; accepted: 1000"):
        env.params([one])
