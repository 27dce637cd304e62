"""SCHED2 against an independent plain-Python simulator, on random small tables."""

import random
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.simulators.sched2 import Cluster, play_baseline
from jaxsched.core.evaluation import run_episodes
from jaxsched.envs.sched2.heuristics import any_baseline, numbered
from jaxsched.jobs import JobTable
from jaxsched.systems import functions, registry

SYSTEM = registry.get("sched2")
NUM_TABLES = 40
MAX_JOBS = 14
STEPS = 3 * MAX_JOBS + 4  # some of them after the end
COLUMNS = ("submit_time", "num_gpus", "duration", "model")
PENALTY = 0.25


class Setting(NamedTuple):
    """One static configuration."""

    num_servers: int
    gpus_per_server: int
    window: int
    profile: str = "time"
    auto_advance: bool = False
    reward: str = "literal"
    extras: bool = False


SETTINGS = (
    Setting(3, 4, 3),
    Setting(8, 3, 4, "slowdown", auto_advance=True, reward="dense", extras=True),
    Setting(1, 4, 2, "slowdown"),
    Setting(5, 1, 5, auto_advance=True, extras=True),
    Setting(1, 1, 1, reward="dense"),
    Setting(4, 4, 20, reward="dense", extras=True),  # a window as long as the table
)


def random_rows(rng, setting):
    """A small table: bursts, long gaps, single GPUs and gangs up to the whole cluster."""
    total = setting.num_servers * setting.gpus_per_server
    gap = rng.choice([0, 5, 60, 2000])
    largest = rng.choice([1, 2, setting.gpus_per_server, total, total])
    longest = rng.choice([3, 100, 5000])
    rows, time = [], 0
    for index in range(rng.randint(1, MAX_JOBS)):
        if index and rng.random() < 0.7:
            time += 500_000 if rng.random() < 0.05 else rng.randint(0, gap)
        size = rng.randint(1, min(largest, total)) if rng.random() < 0.6 else 1
        rows.append((time, size, rng.randint(1, longest), rng.randrange(6)))
    return rows


def scattering_rows(rng, setting):
    """Jobs that leave one GPU free on each server, then gangs that find only those."""
    servers, most = setting.num_servers, max(setting.gpus_per_server - 1, 1)
    fill = [(0, most, rng.randint(400, 900), 5) for _ in range(min(servers, MAX_JOBS - 4))]
    sizes = sorted(rng.randint(1, servers) for _ in range(4))
    return [*fill, *((1, size, rng.randint(10, 50), rng.randrange(6)) for size in sizes[::-1])]


@cache
def tables_of(setting):
    rng = random.Random(repr(setting))
    equal = random_rows(rng, setting)[:1] * MAX_JOBS  # all submitted at time 0
    scattering = [scattering_rows(rng, setting) for _ in range(9)]
    return [equal, *scattering, *(random_rows(rng, setting) for _ in range(NUM_TABLES - 10))]


@cache
def env_and_params(setting):
    env = functions.environment(SYSTEM, **setting._asdict())
    tables = [
        JobTable(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)), name=f"table {i}")
        for i, rows in enumerate(tables_of(setting))
    ]
    return env, env.params(tables, time_scale=600.0, invalid_penalty=PENALTY)


def oracle(setting, rows):
    options = setting._asdict()
    return Cluster(rows, **options, time_scale=600.0, invalid_penalty=PENALTY)


def random_action(rng, mask, illegal_share):
    """Mostly a legal action, sometimes anything."""
    if rng.random() < illegal_share:
        return rng.choice([-1, -(2**31), len(mask), 2**31 - 1, rng.randrange(len(mask)), 1000])
    legal = [action for action, is_legal in enumerate(mask) if is_legal]
    return rng.choice(legal)


def play_oracle(setting, rows, seed):
    """The oracle's trajectory under random play: one row per step, and its final state."""
    rng = random.Random(seed)
    illegal_share = rng.choice([0.0, 0.3])
    cluster = oracle(setting, rows)
    steps = []
    for _ in range(STEPS):
        mask, observation, time = cluster.mask(), cluster.observation(), cluster.t
        action = random_action(rng, mask, illegal_share)
        steps.append((observation, mask, time, action, *cluster.step(action)))
    names = ("observation", "mask", "time", "action", "reward", "done", "invalid", "elapsed")
    columns = zip(*steps, strict=True)
    return {name: np.array(c) for name, c in zip(names, columns, strict=True)}, cluster


@partial(jax.jit, static_argnames="env")
def play_library(env, params, actions):
    """The same of the library, ``[K, T]``, and the records."""
    recorder, key = SYSTEM.log.recorder(env), jax.random.key(0)

    def one(episode, actions):
        state, timestep = env.reset(key, params, episode)

        def step(carry, action):
            state, timestep, records = carry
            seen = timestep.observation, timestep.action_mask
            state, timestep = env.step(key, state, action, params)
            row = {
                "observation": seen[0],
                "mask": seen[1],
                "time": timestep.metrics.time,
                "reward": timestep.reward,
                "done": timestep.terminated,
                "truncated": timestep.truncated,
                "invalid": timestep.metrics.invalid,
                "elapsed": timestep.elapsed,
                "started": timestep.metrics.start.started,
            }
            return (state, timestep, recorder.update(records, timestep, True)), row

        carry = (state, timestep, recorder.init(params))
        (_, _, records), rows = jax.lax.scan(step, carry, actions)
        return rows, records

    return jax.vmap(one)(jnp.arange(actions.shape[0]), actions)


@cache
def both(setting):
    """Trajectories of oracle and library, the oracle's final states, the library's records."""
    env, params = env_and_params(setting)
    played = [play_oracle(setting, rows, k) for k, rows in enumerate(tables_of(setting))]
    expected = {name: np.stack([p[0][name] for p in played]) for name in played[0][0]}
    actions = jnp.asarray(expected["action"], jnp.int32)
    rows, records = jax.tree.map(np.asarray, play_library(env, params, actions))
    return expected, rows, [cluster for _, cluster in played], records


def assert_records(records, k, cluster):
    """Row ``k`` of the library's records tells of the same jobs as the oracle's cluster."""
    count = len(cluster.order)
    assert (records.start[k] >= 0).sum() == count
    assert records.order[k][:count].tolist() == cluster.order
    assert (records.order[k][count:] == -1).all()
    assert (records.start[k][len(cluster.jobs) :] == -1).all()
    for job in cluster.jobs:
        i = job.index
        if job.start is None:
            assert records.start[k, i] == records.finish[k, i] == -1
            continue
        times = records.start[k, i], records.finish[k, i]
        assert (*times, records.level[k, i]) == (job.start, job.finish, job.level)
        gpus = [
            (server, gpu)
            for server, bits in enumerate(records.gpus[k, i].tolist())
            for gpu in range(32)
            if bits >> gpu & 1
        ]
        assert gpus == job.gpus
        assert bool(records.reused[k, i]) == job.reused
    curves = records.fragmentation_curve[k][:count], records.queue_gpus_curve[k][:count]
    np.testing.assert_allclose(curves[0], cluster.fragmentation_curve, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(curves[1], cluster.queue_gpus_curve)


def assert_metrics(setting, records, clusters):
    env, params = env_and_params(setting)
    got = SYSTEM.log.metrics(env, params, np.arange(len(clusters)), records)
    expected = [cluster.metrics() for cluster in clusters]
    assert set(got) == set(expected[0])
    for name in got:
        values = [metrics[name] for metrics in expected]
        atol = 1e-5 if name == "fragmentation" else 1e-9
        np.testing.assert_allclose(got[name], values, rtol=1e-5, atol=atol, err_msg=name)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
class TestRandomPlay:
    @pytest.mark.parametrize("name", ["mask", "done", "invalid", "elapsed"])
    def test_exact(self, setting, name):
        expected, got, _, _ = both(setting)
        np.testing.assert_array_equal(got[name], expected[name])

    def test_clock(self, setting):
        expected, got, _, _ = both(setting)
        np.testing.assert_array_equal(got["time"], expected["time"])

    def test_observation(self, setting):
        expected, got, _, _ = both(setting)
        np.testing.assert_allclose(got["observation"], expected["observation"], rtol=1e-5)

    def test_reward(self, setting):
        expected, got, _, _ = both(setting)
        atol = 1e-5 if setting.reward == "dense" else 0
        np.testing.assert_allclose(got["reward"], expected["reward"], rtol=1e-5, atol=atol)

    def test_nothing_happens_after_the_end(self, setting):
        _, got, _, _ = both(setting)
        ended = np.roll(got["done"], 1, axis=1)
        ended[:, 0] = False
        assert ended.any(axis=1).all()
        for name in ("reward", "elapsed", "invalid", "started", "truncated"):
            assert not got[name][ended].any(), name

    def test_records(self, setting):
        _, _, clusters, records = both(setting)
        for k, cluster in enumerate(clusters):
            assert_records(records, k, cluster)
            assert records.invalid_actions[k] == cluster.invalid_actions

    def test_metrics(self, setting):
        _, _, clusters, records = both(setting)
        assert_metrics(setting, records, clusters)

    def test_dense_return_is_the_literal_one_minus_n(self, setting):
        expected, got, clusters, _ = both(setting)
        for k, cluster in enumerate(clusters):
            effectiveness = sum(job.effectiveness for job in cluster.jobs)
            effectiveness -= len(cluster.jobs) if setting.reward == "dense" else 0
            penalties = PENALTY * expected["invalid"][k].sum()
            assert got["reward"][k].sum(dtype=float) == pytest.approx(
                effectiveness - penalties, rel=1e-5, abs=1e-4
            )


def test_the_tables_reach_every_rule():
    clusters = [cluster for setting in SETTINGS for cluster in both(setting)[2]]
    jobs = [job for cluster in clusters for job in cluster.jobs]
    assert {job.level for job in jobs} == {0, 1, 2, 3}
    assert any(job.reused for job in jobs)
    assert any(job.g == cluster.N * cluster.M > 1 for cluster in clusters for job in cluster.jobs)
    expected = [both(setting)[0] for setting in SETTINGS]
    assert all(e["invalid"].any() for e in expected)
    void_masked = [(~e["mask"][..., -1] & ~e["done"] & e["invalid"]).any() for e in expected]
    assert any(void_masked)
    beyond = [len(c.jobs) > c.J for c in clusters]
    assert any(beyond)


BASELINE_SETTINGS = {
    "window": Setting(3, 4, 3),
    "queue": Setting(4, 4, MAX_JOBS),
}
BASELINES = ("fifo", "sif", "dsif", "saf", "lrf", "spf", "strict", "strict_sif")
RULES = [(name, mode) for name in BASELINES for mode in ("skip", "block")]


@pytest.mark.parametrize("seen", BASELINE_SETTINGS)
@pytest.mark.parametrize("mode", ["skip", "block"])
@pytest.mark.parametrize("name", BASELINES)
def test_baseline(name, mode, seen):
    setting = BASELINE_SETTINGS[seen]
    env, params = env_and_params(setting)
    outcome = run_episodes(
        env,
        any_baseline(),
        SYSTEM.log.recorder(env),
        params,
        jnp.arange(NUM_TABLES),
        jax.random.key(0),
        jnp.int32(numbered(name, mode)),
    )
    assert outcome.finished.all()
    records = jax.tree.map(np.asarray, outcome.records)
    assert not records.invalid_actions.any()
    clusters = []
    for k, rows in enumerate(tables_of(setting)):
        cluster = oracle(setting, rows)
        play_baseline(cluster, name, mode, setting.window if seen == "window" else 0)
        assert_records(records, k, cluster)
        clusters.append(cluster)
    assert_metrics(setting, records, clusters)
    effectiveness = [cluster.metrics()["avg_effectiveness"] for cluster in clusters]
    np.testing.assert_allclose(
        outcome.episode_return,
        np.multiply(effectiveness, [len(cluster.jobs) for cluster in clusters]),
        rtol=1e-5,
    )


def schedules_of(setting, name, mode):
    clusters = [oracle(setting, rows) for rows in tables_of(setting)]
    for cluster in clusters:
        play_baseline(cluster, name, mode, setting.window)
    return repr([(job.start, job.finish) for c in clusters for job in c.jobs])


def test_baselines_differ_on_these_tables():
    window, queue = BASELINE_SETTINGS["window"], BASELINE_SETTINGS["queue"]
    rules = [rule for rule in RULES if rule[0] != "strict_sif"]
    schedules = {schedules_of(window, *rule) for rule in rules}
    # Blocking is skipping for saf, strict and lrf: if its smallest job does not fit, none does.
    assert len(schedules) == len(rules) - 3
    strict = [schedules_of(queue, name, "skip") for name in ("strict", "strict_sif")]
    assert strict[0] != strict[1]  # three jobs in view are too few to tell
