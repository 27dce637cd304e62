"""Clusters described in JSON: what is seen and decided is what the environment sees and does."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.core.policies import View
from jaxsched.envs.cluster import ClusterJobs
from jaxsched.envs.cluster.heuristics import rule
from jaxsched.envs.cluster.rules import dynamics
from jaxsched.envs.cluster.rules.tables import with_room
from jaxsched.envs.cluster.show.listed import ESTIMATES
from jaxsched.envs.cluster.system import SYSTEM
from jaxsched.errors import JaxschedError
from jaxsched.serve.decisions import Decider
from jaxsched.systems import functions, presets
from tests.trace_replay.cases import random_columns, with_estimates
from tests.trace_replay.test_demands import CLUSTERS, with_demands
from tests.trace_replay.test_gpu_types import CLUSTER, TABLES

NOW = 1_764_193_600.25
LENGTH, COUNT = 32, 20
STRETCH = 97  # so that service reaches some thresholds


def table_of(total_gpus, seed):
    return stretched(with_estimates(random_columns(seed, COUNT, total_gpus), seed))


def stretched(table):
    times = {name: np.asarray(table[name]) * STRETCH for name in ("submit_time", "duration")}
    return dict(table) | times


def network(env, kind, seed=1):
    """A network whose weights are drawn; it reads all that the environment shows."""
    weights = functions.initial(SYSTEM, env, kind, jax.random.key(seed), env.specs(None))
    policy = functions.network_policy(
        SYSTEM, env, kind, kind, "output" if env.suspends else "greedy"
    )
    return Decider(kind, kind, SYSTEM, env, policy, weights, kind)


def of_rule(env, order, mode="skip"):
    return Decider(order, order, SYSTEM, env, rule(env, order, mode))


class Case(NamedTuple):
    """A decider, and the table that its environment plays."""

    decider: Decider
    table: Any


def limits(name, **options):
    cluster = CLUSTERS[name]
    env = ClusterJobs(window=6, servers=str(cluster.servers), **options)
    return env, stretched(with_demands(TABLES[1], 1, cluster))


def plain():
    return Case(network(ClusterJobs(3, 4, window=5), "jobs"), table_of(12, 1))


def anywhere():
    env = ClusterJobs(3, 4, window=5, locality="any", may_wait=False)
    return Case(network(env, "linear", 3), table_of(12, 3))


def sizes():
    env = ClusterJobs(window=COUNT, servers="2x2:2,2x4", placement="load_balance")
    return Case(of_rule(env, "qssf"), table_of(8, 2))


def cpus():
    env, table = limits("sizes")
    return Case(network(env, "jobs"), table)


def types():
    env = ClusterJobs(window=6, servers=str(CLUSTER.servers), type_choice="fastest")
    return Case(network(env, "jobs"), stretched(TABLES[1]))


def suspends():
    env = ClusterJobs(3, 4, window=16, suspends=True, restart_s=30)
    return Case(network(env, "linear", 5), table_of(12, 4))


def las():
    env = ClusterJobs(servers="1x2,2x4", window=COUNT, suspends=True, may_wait=False)
    return Case(of_rule(env, "las"), table_of(8, 5))


def srtf():
    env = ClusterJobs(3, 4, window=COUNT, suspends=True, restart_s=45)
    return Case(of_rule(env, "srtf"), table_of(12, 12))


def commits():
    env = ClusterJobs(servers="2x2:4,2x4", window=6, commits=True, sees_run_times=True)
    return Case(network(env, "jobs", 2), table_of(8, 1))


def f1():
    env, table = limits("alike", commits=True, may_wait=False)
    return Case(of_rule(env, "f1"), table)


def quotas():
    return Case(network(ClusterJobs(3, 4, window=5, quotas="work"), "jobs"), table_of(12, 8))


CASES = (plain, anywhere, sizes, cpus, types, suspends, las, srtf, commits, f1, quotas)


class Episode:
    """An episode of the environment that is described instant by instant."""

    def __init__(self, case):
        self.decider, self.table = case.decider, case.table
        self.env, self.reader = self.decider.env, self.decider.reader
        params = self.env.params([self.table], length=LENGTH)
        self.params = params._replace(jobs=with_room(params.jobs))  # in the reader's shapes
        self.step = jax.jit(self.env.step)
        self.observe = jax.jit(self.env.observe)
        self.act = jax.jit(partial(self.decider.policy.act, self.decider.weights))
        self.read_state = jax.jit(partial(self.reader.state, self.env))
        self.state, _ = jax.jit(self.env.reset)(jax.random.key(0), self.params, jnp.int32(0))
        self.begun, self.finish = {}, {}  # of each job that has started: its order, its end

    def next(self):
        """One step: the job that starts, its servers, and those that are suspended."""
        view = View(*self.observe(self.state, self.params), self.state, self.params)
        action, _ = self.act((), view, jax.random.key(0))
        before = jax.device_get(self.state)
        self.state, timestep = self.step(jax.random.key(0), self.state, action, self.params)
        after, told = jax.device_get((self.state, timestep))
        job, stopped = int(told.metrics.started), []
        servers = {}
        if job >= 0:
            end = int(told.metrics.of_finished["finish"])
            self.begun.setdefault(job, len(self.begun))
            self.finish[job] = end
            servers = counted((after.job == job) & (after.free_from == end))
        if self.env.suspends:
            more = after.accounts[:, 4] > before.accounts[:, 4]
            stopped = np.flatnonzero(more).tolist()
        return job, servers, stopped, told

    def described(self, state):
        """What a front end would tell of a state."""
        state = jax.device_get(state)
        count, time = len(self.table["submit_time"]), int(state.time)
        grid = np.where(~state.is_known, state.job, count)
        runs = set(grid[grid < count].tolist())
        window = [job for job in state.window.tolist() if job < count]
        present = {*window, *range(int(state.entered), int(state.arrived))}
        waits = sorted(present - runs)
        ended = [job for job in self.begun if job not in runs | present]
        order = self.begun if self.env.commits else range(count)
        ended.sort(key=lambda job: (self.finish[job], order[job]))
        cluster = {
            "time": NOW + time,
            "running": [self.running(state, job, counted(grid == job)) for job in sorted(runs)],
            "waiting": [
                {**self.of_job(state, job), "num_gpus": int(self.table["num_gpus"][job])}
                for job in reversed(waits)
            ],
            "finished": [
                {
                    "owner": int(self.table["group"][job]),
                    "num_gpus": int(self.table["num_gpus"][job]),
                    "end_time": NOW + self.finish[job],
                    "run_time": int(self.table["duration"][job]),
                }
                for job in ended
            ],
            "first_submission": NOW,
            "more_to_come": int(state.arrived) < count,
        }
        if self.env.quotas != "none":
            quota = np.asarray(self.params.jobs.quota)[0].tolist()
            cluster["quotas"] = [{"owner": k, "gpus": gpus} for k, gpus in enumerate(quota)]
        return cluster

    def of_job(self, state, job):
        found = {"id": job, "owner": int(self.table["group"][job])}
        for name in ("duration", "priority", *self.env.cluster.demands):
            found[name] = int(self.table[name][job]) if name in self.table else 0
        # a clock with fractions tells jobs of one second apart
        found["submit_time"] = NOW + int(self.table["submit_time"][job]) + job * 1e-6
        names = {name: f"speed_{name}" for name in self.env.cluster.gpu_types}
        if names:
            speeds = {name: self.table[column][job] / 1000 for name, column in names.items()}
            found["speeds"] = {name: float(speed) for name, speed in speeds.items()}
        if self.env.suspends:
            account = dynamics.account_of(state, job)
            run = int(state.time) - int(account.last_start) if account.end else 0
            found |= {
                "attained": int(account.served) + run,
                "suspensions": int(account.preemptions),
                "start_time": NOW + int(account.last_start),
            }
        return found

    def running(self, state, job, servers):
        found = {**self.of_job(state, job), "servers": servers}
        return {name: value for name, value in found.items() if name != "speeds"}

    def same_view(self, cluster):
        """The environment's observation of a described cluster is that of its own state."""
        params, told = self.reader.read(self.env, [cluster], LENGTH)
        state = self.read_state(params, jax.tree.map(lambda leaf: leaf[0], told))
        seen, may = self.observe(state, params)
        expected, allowed = self.observe(self.state, self.params)
        np.testing.assert_allclose(seen, expected, atol=1e-6)
        np.testing.assert_array_equal(may, allowed)


def expectations(env, state, cluster):
    """What is estimated: run times, from the jobs that had ended at each submission."""
    names = ("waiting", "running") if env.suspends else ("waiting",)
    jobs = [job["id"] for name in names for job in cluster[name]]
    return [{"job": job, "expected": int(state.estimate[job])} for job in jobs]


def counted(gpus):
    found = gpus.sum(axis=0)
    return {str(server): int(found[server]) for server in np.flatnonzero(found)}


def asked(episode, cluster):
    (answer,) = episode.decider.decide([cluster])
    return answer, {one["job"]: one["servers"] for one in answer["start"]}


def committed(episode, cluster, state, job, servers, starts):
    """A choice that waits is told in later requests, until the job fits; returns whether it did."""
    answer, start = asked(episode, cluster)
    assert answer["committed"] == job
    if starts == int(state.time):
        assert start == {job: servers}
        return False
    assert start == {}
    jobs = episode.params.jobs.of_episode(state.episode)
    position = jnp.int32(np.flatnonzero(np.asarray(state.window) == job)[0])
    later, _ = dynamics.until_it_fits(episode.env.rules, state, jobs, position)
    again, start = asked(episode, {**episode.described(later), "committed": job})
    assert (again["committed"], start) == (job, {job: servers})
    return True


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_decisions_are_those_of_the_environment(make):
    """Over a whole episode, with placement; and one program decides all of them."""
    episode = Episode(make())
    done, happened = False, {"start": 0, "suspend": 0, "wait": 0, "later": 0}
    while not done:
        state = episode.state
        cluster = episode.described(state)
        episode.same_view(cluster)
        started, suspended, over = {}, [], False
        while not over:
            job, servers, stopped, told = episode.next()
            suspended += stopped
            if job >= 0:
                started[job] = servers
            done = bool(told.terminated)
            over = done or episode.env.commits or float(told.elapsed) > 0
        if episode.env.commits:
            begun = int(told.metrics.of_started["start"])
            happened["later"] += committed(episode, cluster, state, job, servers, begun)
        else:
            answer, start = asked(episode, cluster)
            assert start == started
            assert sorted(answer.get("suspend", [])) == sorted(suspended)
            shown = [job for job in state.window.tolist() if job < COUNT]
            assert answer["window"] == shown
            if episode.decider.network:  # choices and orders alike are scored
                _, may = episode.observe(state, episode.params)
                assert len(answer["scores"]) == int(may.sum())
            assert answer["estimated"] == expectations(episode.env, state, cluster)
        happened["start"] += len(started)
        happened["suspend"] += len(suspended)
        happened["wait"] += not started
    assert episode.decider._decide._cache_size() == 1
    assert happened["start"] >= COUNT and set(episode.begun) == set(range(COUNT))
    assert (happened["suspend"] > 0) == episode.env.suspends
    assert (happened["later"] > 3) == episode.env.commits


def test_unknown_run_times_are_those_of_the_training_tables():
    chosen = presets.preset(SYSTEM, "search").traces
    tables = traces.get(chosen.train, num_traces=chosen.num_train)
    durations = np.concatenate([table["duration"] for table in tables])
    assert ESTIMATES["duration"].default == np.median(durations)


@pytest.fixture(scope="module")
def las_alone():
    """One server of 4 GPUs on which jobs may be suspended."""
    return of_rule(ClusterJobs(1, 4, window=8, suspends=True), "las")


ENDED = {"owner": "x", "num_gpus": 4, "end_time": 900, "run_time": 50}


def test_what_is_not_known_is_estimated(las_alone):
    """Run times by what ended before the submission; or ``assume``, or what the request says."""
    waiting = [
        {"id": "early", "submit_time": 800, "num_gpus": 4, "owner": "x"},
        {"id": "like", "submit_time": 950, "num_gpus": 4, "owner": "x", "duration": 70},
        {"id": "told", "submit_time": 950, "num_gpus": 1, "duration": 70, "expected": 30},
    ]
    cluster = {"time": 1000, "running": [], "waiting": waiting, "finished": [ENDED]}
    assume = {"assume": {"duration": 99.5, "expected": 600}}
    answer, other = las_alone.decide([cluster, {**cluster, **assume}])
    like = {"job": "like", "expected": 50}
    assert answer["estimated"] == [{"job": "early", "duration": 1328, "expected": 2048}, like]
    assert other["estimated"] == [{"job": "early", "duration": 99.5, "expected": 600}, like]


def test_a_job_that_outlived_the_estimate_runs_as_long_again(las_alone):
    """Then a running job of little service makes way only for less."""
    held = {"id": "r", "servers": {"0": 4}, "submit_time": 0}
    waiting = [{"id": "w", "submit_time": 9000, "num_gpus": 4}]
    cluster = {"time": 9000, "waiting": waiting}
    old, new = (
        {**cluster, "running": [{**held, "start_time": start, "attained": attained}]}
        for start, attained in ((2000, 8000), (9000, 0))
    )
    gone, stays = las_alone.decide([old, new])
    assert gone["suspend"] == ["r"] and gone["start"] == [{"job": "w", "servers": {"0": 4}}]
    assert {"job": "r", "duration": 16000, "expected": 2048} in gone["estimated"]
    assert stays["suspend"] == stays["start"] == [] and stays["window"] == ["r", "w"]


def test_where_nothing_can_start_nothing_is_decided():
    """Neither without free GPUs nor without jobs; scores are those of choices that there are."""
    decider = network(ClusterJobs(1, 4, window=4, may_wait=False), "jobs")
    full = {"time": 9, "running": [{"servers": {"0": 3}}]}
    wide, small = ({"id": k, "submit_time": 5, "num_gpus": k} for k in (2, 1))
    none, one, idle = decider.decide(
        [
            {**full, "waiting": [wide]},
            {**full, "waiting": [wide, small]},
            {"time": 9, "running": [], "waiting": [], "more_to_come": False},
        ]
    )
    assert none["start"] == [] and none["scores"] == {} and none["window"] == [2]
    assert one["start"] == [{"job": 1, "servers": {"0": 1}}] and list(one["scores"]) == [
        "position1"
    ]
    assert idle["start"] == idle["window"] == []


def test_speeds_follow_from_types_of_jobs():
    """Those of the table; a batch size may be left out, and other types are as fast everywhere."""
    env = ClusterJobs(servers="1x4@k80,1x4@v100", speeds="gavel", type_choice="fastest")
    decider = of_rule(env, "fifo")
    jobs = [
        {"submit_time": k, "num_gpus": 1, "job_type": kind}
        for k, kind in enumerate(("ResNet-50 (batch size 64)", "ResNet-50", "Llama"))
    ]
    (answer,) = decider.decide([{"time": 9, "running": [], "waiting": jobs}])
    places = {one["job"]: one["servers"] for one in answer["start"]}
    assert places == {0: {"1": 1}, 1: {"1": 1}, 2: {"0": 1}}
    assert [guess.get("speeds") for guess in answer["estimated"]] == [None, None, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"num_servers": 1, "gpus_per_server": 1},
        {"servers": "16x2:4,20x8/1/1"},
        {"servers": "2x4@v100,2x8@k80", "speeds": "gavel", "quotas": "work"},
        {"suspends": True, "num_servers": 40},
        {"commits": True, "servers": "4x1/9"},
    ],
)
def test_every_cluster_has_an_example(options):
    env = ClusterJobs(**options)
    decider = of_rule(env, "fifo")
    decider.reader.read(env, [decider.example], LENGTH)


RUNS = {"servers": {"0": 1}}
WAITS = {"submit_time": 0, "num_gpus": 1}
LIMITED = {"servers": "2x8/16/64"}
TYPED = {"servers": "1x8@v100,1x8@k80"}
SUSPENDS, COMMITS, QUOTAS = {"suspends": True, "window": 1}, {"commits": True}, {"quotas": "equal"}


@pytest.mark.parametrize(
    ("options", "change", "words"),
    [
        ({}, {"running": None}, "running is None; accepted: a list of jobs"),
        ({}, {"waiting": [3]}, "waiting[0] is 3; accepted: an object"),
        ({}, {"waiting": [{**WAITS, "num_gpus": 33}]}, "waiting[0].num_gpus is 33; accepted: "),
        ({}, {"waiting": [{**WAITS, "submit_time": 9}]}, "waiting[0].submit_time is 9 at time 1"),
        ({}, {"waiting": [{**WAITS, "duration": 0}]}, "waiting[0].duration is 0; accepted: sec"),
        ({}, {"waiting": [{**WAITS, "priority": -1}]}, "waiting[0].priority is -1"),
        ({}, {"running": [{}]}, "running[0].servers is missing; accepted: an object"),
        ({}, {"running": [{"servers": {}}]}, "running[0].servers is empty"),
        ({}, {"running": [{"servers": {"4": 1}}]}, "has '4'; accepted: servers from 0 to 3"),
        ({}, {"running": [{"servers": {"00": 1}}]}, "has '00'; accepted: servers from 0 to 3"),
        ({}, {"running": [{"servers": {"0": 9}}]}, "running[0].servers.0 is 9"),
        (
            {},
            {"running": [{"servers": {"0": 5}}] * 2},
            "server 0 hold 10 GPUs; accepted: at most 8",
        ),
        ({}, {"finished": [{**ENDED, "end_time": None}]}, "finished[0].end_time is None"),
        ({}, {"finished": [{**ENDED, "end_time": 0, "run_time": 0}]}, "finished[0].run_time is 0"),
        ({}, {"finished": [ENDED]}, "finished[0].end_time is 900 at time 1; accepted: up to"),
        ({}, {"assume": {"speeds": 1}}, "assume.speeds is unknown; accepted: duration, expected"),
        ({}, {"first_submission": 0.9}, "first_submission is 0.9, and a job was submitted 1 s"),
        ({}, {"more_to_come": 1}, "more_to_come is 1; accepted: true or false"),
        ({}, {"committed": 0}, "committed is 0; accepted: null, as choices do not commit"),
        (COMMITS, {"committed": "z"}, "committed is 'z'; accepted: the id of a waiting job"),
        (LIMITED, {"running": []}, "waiting[0].cpus is missing; accepted: a whole number from 0"),
        (
            LIMITED,
            {"running": [], "waiting": [{**WAITS, "cpus": 17, "memory_gb": 0}]},
            "waiting[0]: 1 GPUs, 17 cpus, 0 memory_gb go with no servers of 2x8/16/64",
        ),
        (
            LIMITED,
            {"running": [{**RUNS, "cpus": 9, "memory_gb": 4}] * 2, "waiting": []},
            "the jobs on server 0 hold 18 cpus; accepted: at most 16",
        ),
        (TYPED, {"waiting": [{**WAITS, "speeds": {"v100": 1}}]}, "waiting[0].speeds has no k80"),
        (TYPED, {"waiting": [{**WAITS, "speeds": -1}]}, "waiting[0].speeds is -1; accepted: a sp"),
        (TYPED, {"waiting": [{**WAITS, "speeds": 0}]}, "speeds of 0 go with no servers of"),
        (SUSPENDS, {}, "running[0].submit_time is None; accepted: a number of seconds"),
        (
            SUSPENDS,
            {"running": [{**RUNS, "submit_time": 0.5, "start_time": 1}]},
            "running[0] is number 2 in order of submission",
        ),
        (
            SUSPENDS,
            {"running": [], "waiting": [{**WAITS, "attained": -1}]},
            "waiting[0].attained is -1; accepted: seconds from 0",
        ),
        (QUOTAS, {}, "quotas is missing; accepted: a list of objects with owner and gpus"),
        (QUOTAS, {"quotas": [{"owner": 1}]}, "quotas[0].gpus is missing"),
        (QUOTAS, {"quotas": [1]}, "quotas[0] is 1; accepted: a list of objects"),
        ({"servers": "2x8x4"}, {}, "cluster: slots of GPUs with requests of a front end; accepted"),
        ({"placement": "fgd"}, {}, "cluster: placement fgd with requests of a front end; accepted"),
        ({"reservations": "a.csv"}, {}, "cluster: reservations with requests of a front end; acc"),
    ],
)
def test_clusters_that_cannot_be_are_refused(options, change, words):
    env = ClusterJobs(**options)
    reader = functions.cluster_reader(SYSTEM)
    cluster = {"time": 1, "running": [RUNS], "waiting": [WAITS], **change}
    with pytest.raises(JaxschedError) as error:
        reader.read(env, [cluster], LENGTH)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_failures_to_come_play_no_part():
    plain = ClusterJobs(servers="2x4", window=4)
    fails = ClusterJobs(servers="2x4", window=4, failures="0.01:0.01", checkpoint_s=9)
    cluster = functions.cluster_reader(SYSTEM).example_for(plain)
    assert of_rule(fails, "fifo").decide([cluster]) == of_rule(plain, "fifo").decide([cluster])
