"""MLFS' whole numbers at their limits: nothing leaves int32, and what would is refused."""

import math
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.simulators import mlfs_rules as rules
from benchmarks.peers.simulators.mlfs import Simulator
from jaxsched.envs.mlfs import MLFS
from jaxsched.envs.mlfs import rules as cl
from jaxsched.envs.mlfs.environment import CLUSTERS
from jaxsched.envs.mlfs.jobs import MAX_TASKS, TASK_JOBS, graph_shape
from jaxsched.envs.mlfs.rules import tables as tab
from jaxsched.envs.mlfs.rules.dynamics import speed
from jaxsched.envs.mlfs.rules.priority import job_priority, mlf_priority
from jaxsched.envs.mlfs.rules.state import WAITING, Active, Tasks, number_of
from jaxsched.envs.mlfs.show import log as rec
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, from_records
from jaxsched.types import TimeStep
from tests.envs.mlfs.rules.test_env_oracle import config_of

LARGE = MLFS(**CLUSTERS["large"])
LIMIT = 2**31


def a_job(model=2, gpus=2, **values):
    """A legal row, with ``values`` in place of its own."""
    _, (partitions,), _ = graph_shape([model], [gpus])
    row = {
        **{"submit_time": 0, "num_gpus": gpus, "model": model},
        **{"iterations": 5, "opt_iter": 5, "req_iter": 5},
        **{"work": [1000] * partitions, "size": [500] * partitions},
        **{"gpu_demand": 300, "cpus": 2, "mem": 8, "vol_worker": 60, "vol_ps": 80},
        **{"deadline": 36_000, "urgency": 5, "curve_a": 1000, "acc_max": 0.9},
        **{"option": 0, "allow": 0},
    }
    return {**row, **values}


def extreme_rows():
    """Every shape at the largest accepted work, iterations and slope, urgent or late."""
    rows = []
    for model, gpus in ((0, 32), (1, 32), (3, 16), (4, 32), (2, 2), (1, 8), (3, 1)):
        replicas, (partitions,), _ = graph_shape([model], [gpus])
        for iterations in (1, 200, 2**15):
            tasks = int(replicas[0]) * partitions
            most = min(2**20, (LIMIT - 1) // ((iterations + 1) * tasks))
            slope = min(2**20, ((LIMIT - 1) // iterations - 1000) // iterations)
            for deadline in (0, 60 * 40_000, 2**30 - 1):
                rows.append(
                    a_job(
                        *(model, gpus),
                        **{"iterations": iterations, "opt_iter": 1, "req_iter": 1},
                        **{"work": [most] * partitions, "size": [1000] * partitions},
                        **{"urgency": 10, "curve_a": slope, "deadline": deadline},
                        **{"vol_worker": 2**10, "vol_ps": 2**10, "cpus": 24, "mem": 219},
                        gpu_demand=750,
                    )
                )
    return rows


ROWS = extreme_rows()
WEIGHTS = (
    {},
    {"waiting_unit": "hour"},
    {
        "importance_share": 0,
        "children_share": 107,
        "deadline_weight": 1000,
        "remaining_weight": 1000,
        "waiting_weight": 1000,
    },
    {
        "importance_share": 100,
        "children_share": 107,
        "deadline_weight": 0,
        "remaining_weight": 0,
        "waiting_weight": 0,
    },
)


def window(params, iterations):
    """All jobs active since slot 0, all tasks waiting, after so many iterations."""
    count = params.max_jobs
    jobs = tab.jobs_at(params, jnp.int32(0), jnp.arange(count))
    none = jnp.zeros(count, jnp.int32)
    done = jnp.minimum(iterations, jobs.iterations - 1)
    active = Active(jnp.arange(count), done, none, jobs.iterations, *[none] * 7)
    grid = jnp.zeros((count, MAX_TASKS), jnp.int32)
    return jobs, active, Tasks(grid + WAITING, grid - 1, grid, grid, grid)


def by_hand(config, slot, iterations, set_values):
    """The simulator with every job active; its whole numbers have no limit."""
    sim = Simulator({**config, "max_active": len(ROWS)}, ROWS, snapshot_slots=())
    sim.t = slot
    assert len(sim.active) == len(ROWS)
    for job in sim.active:
        job.it = min(iterations, job.row["iterations"] - 1)
        for task in job.tasks:
            task.state, task.wait_since = WAITING - 1, 0
    return set_values(sim)


def tasks_of(jobs, values):
    """Of each existing task, in the order of jobs and task numbers."""
    jobs, values = jax.tree.map(np.asarray, (jobs, values))
    found = []
    for place, count in enumerate(jobs.num_gpus):
        job = jax.tree.map(lambda x, at=place: jnp.asarray(x[at]), jobs)
        numbers = np.asarray(number_of(job, jnp.arange(MAX_TASKS))).tolist()
        inner = MAX_TASKS if jobs.model[place] == 4 else int(jobs.partitions[place])
        wanted = [k for k in range(MAX_TASKS) if k % 16 < inner and numbers[k] < count]
        found.append(values[place][wanted].tolist())
    return found


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize(("slot", "iterations"), [(0, 0), (40_000, 1), (40_000, 2**15)])
def test_priorities(weights, slot, iterations):
    check_priorities(weights, slot, iterations)


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_priorities_after_the_longest_wait(weights):
    check_priorities(weights, 2**20, 2)


def check_priorities(weights, slot, iterations):
    """Equal to those of whole numbers without a limit."""
    env = replace(LARGE, **weights)
    params = env.params([from_records(ROWS, schema=TASK_JOBS)])
    jobs, active, tasks = window(params, iterations)
    options = {"use_urgency": True, "use_deadline": True, "waiting_min": env.rules.waiting_min}
    got = mlf_priority(params, jobs, active, tasks, jnp.int32(slot), **options)

    def priorities(sim):
        rules.set_priorities(sim)
        return [[task.priority for task in job.tasks] for job in sim.active]

    expect = by_hand(config_of(env), slot, iterations, priorities)
    assert tasks_of(jobs, got) == expect
    assert max(map(max, expect)) <= tab.CAP


@pytest.mark.parametrize("order", ["slaq", "graphene", "hypersched", "tiresias"])
@pytest.mark.parametrize(("slot", "iterations"), [(0, 0), (39_999, 2**15)])
def test_keys_of_baselines(order, slot, iterations):
    env = replace(LARGE, order=order)
    params = env.params([from_records(ROWS, schema=TASK_JOBS)])
    jobs, active, _ = window(params, iterations)
    attained = jnp.full_like(active.attained, 32 * slot)
    got = job_priority(env.rules, jobs, active._replace(attained=attained), jobs.num_gpus, slot)

    def keys(sim):
        sim.policy = order
        for job in sim.active:
            job.attained = 32 * slot
            for task in job.tasks:
                task.state = rules.RUNNING
        return [rules.job_key(sim, job) for job in sim.active]

    expect = by_hand(config_of(env), slot, iterations, keys)
    ranks = {key: -rank for rank, key in enumerate(sorted(set(expect)))}
    ranked = {value: rank for rank, value in enumerate(sorted(set(got.tolist())))}
    shift = len(ranks) - 1
    assert [ranked[x] for x in got.tolist()] == [ranks[key] + shift for key in expect]


def test_roots():
    """Exact at squares and beside them, up to the largest number."""
    numbers = np.array([0, 1, 2, 3, 5, 46339, 46340, *np.geomspace(4, 46340, 300).astype(int)])
    values = np.unique(np.concatenate([numbers**2 + k for k in (-1, 0, 1)]))
    values = np.append(values[(values >= 0) & (values < LIMIT)], LIMIT - 1)
    got = jax.jit(cl.floor_sqrt)(jnp.asarray(values, jnp.int32))
    assert got.tolist() == [math.isqrt(int(value)) for value in values]


@pytest.mark.parametrize("capacity", [1, 7, 32, 244, 75_000, 2**20])
def test_shares(capacity):
    rng = np.random.default_rng(capacity)
    most = min(LIMIT - 1, (LIMIT - 1) // 1000 * capacity)
    amounts = np.append(rng.integers(0, most, 500, endpoint=True), [0, most])
    got = cl.per_mille(jnp.asarray(amounts, jnp.int32), capacity)
    assert got.tolist() == (1000 * amounts // capacity).tolist()


def full_servers(bandwidth):
    """The large cluster with everything in use."""
    none = cl.no_loads(LARGE.cluster)
    return cl.Loads(
        jnp.full_like(none.gpu, 1200) * (np.arange(8) < LARGE.cluster.num_gpus[:, None]),
        jnp.full_like(none.cpu, 1200 * 32),
        jnp.full_like(none.mem, 244),
        jnp.full_like(none.bandwidth, bandwidth),
    )


@pytest.mark.parametrize("bandwidth", [0, 75_000, 1_725_000])
def test_norms_and_speed_of_a_full_cluster(bandwidth):
    env, loads = LARGE, full_servers(bandwidth)
    used = cl.utilisation(env.cluster, cl.all_servers(env.cluster, loads))
    assert used.tolist() == [[1200, 1200, 1000, 1000 * bandwidth // 75_000]] * env.num_servers
    norm = math.isqrt(sum(x * x for x in used[0].tolist()))
    for threshold in (norm - 1, norm):
        cluster = env.cluster._replace(busy=threshold)
        assert bool(cl.is_busy(cluster, used)) == (norm > threshold)
    quotient = min(1000, 900_000 // max(1200, 1000 * bandwidth // 75_000))
    expect = quotient * quotient // 1000 * quotient // 1000
    assert set(np.asarray(speed(env.rules, loads, used)).ravel().tolist()) == {expect}


@pytest.mark.parametrize("name", CLUSTERS)
def test_traffic_of_one_slot(name):
    """Every offer taken, at the largest volumes: a step's MB and the recorder's word with it."""
    env = MLFS(**CLUSTERS[name])
    for model, gpus in ((1, 32), (4, 1)):
        job = a_job(model, gpus, vol_worker=2**10, vol_ps=2**10)
        params = env.params([from_records([job], schema=TASK_JOBS)])
        found = tab.jobs_at(params, jnp.int32(0), jnp.int32(0))
        most = int(4 * found.worker_mb + 2 * found.server_mb) + env.move_mb
        assert env.max_offers * most + rec.WORD_MB < LIMIT
        assert most > 6 * 40 * 2**10


def test_traffic_beyond_one_word():
    """2**31 MB and more of an episode, from steps that each send as much as a step can."""
    env = MLFS(gpus=(1,), max_active=1)
    params = env.params([from_records([a_job(gpus=1, work=[1000], size=[900])], schema=TASK_JOBS)])
    recorder = rec.recorder(env)
    _, timestep = jax.jit(env.reset)(jax.random.key(0), params, jnp.int32(0))
    update = jax.jit(recorder.update)
    records, total = recorder.init(params), 0
    draws = np.random.default_rng(0).integers(0, 2**31 - 2**20, 40)
    for count, sent in enumerate([*draws.tolist(), 2**31 - 2**20, 0, 1]):
        metrics = timestep.metrics._replace(sent_mb=jnp.int32(sent))
        playing = count != 3
        total += sent * playing
        step: TimeStep = timestep._replace(metrics=metrics)
        records = update(records, step, jnp.bool_(playing))
        assert 0 <= int(records.sent[1]) < rec.WORD_MB
    assert total > 10 * LIMIT
    assert int(records.sent[0]) * rec.WORD_MB + int(records.sent[1]) == total
    batch = jax.tree.map(lambda x: np.asarray(x)[None], records)
    assert rec.summarise(env, params, [0], batch)["bandwidth_mb"][0] == total


ACCEPTED = {"work": [2**20], "size": [1000]}
REFUSED = {
    "work beyond int32": (
        a_job(iterations=1024, work=[2**20] * 2, req_iter=1, opt_iter=1),
        "iterations x work of all tasks is",
    ),
    "curve beyond int32": (a_job(iterations=2**15, curve_a=2), "(1000 + curve_a x iterations)"),
    "much work": (a_job(work=[2**20 + 1, 1]), "work"),
    "many iterations": (a_job(iterations=2**15 + 1), "iterations"),
    "no work": (a_job(work=[0, 1]), "work"),
    "few partitions": (a_job(work=[1000]), "accepted: 2 numbers above 0"),
    "many partitions": (a_job(size=[500] * 3), "accepted: 2 numbers above 0"),
    "three GPUs": (a_job(num_gpus=3), "num_gpus is 3; accepted: 1, 2, 4, 8, 16, 32"),
    "late target": (a_job(req_iter=6), "req_iter is 6; accepted: from 1 to its iterations, 5"),
    "late optimum": (a_job(opt_iter=6), "opt_iter is 6"),
    "no demand": (a_job(gpu_demand=0), "gpu_demand"),
    "much demand": (a_job(gpu_demand=751), "never more than 900 pm of an idle server"),
    "many CPUs": (a_job(cpus=25), "cpus is 25 of 32 CPUs"),
    "much memory": (a_job(mem=220), "mem is 220 of 244 GB"),
    "large volume": (a_job(vol_ps=1025), "vol_ps"),
    "urgency": (a_job(urgency=11), "urgency"),
    "accuracy": (a_job(acc_max=1.5), "acc_max"),
    "option": (a_job(allow=3), "allow"),
    "late submission": (a_job(submit_time=2**30), "submit_time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_tables(name):
    row, message = REFUSED[name]
    with pytest.raises(JaxschedError) as refusal:
        LARGE.params([from_records([a_job(), row], schema=TASK_JOBS)])
    text = str(refusal.value)
    assert message in text and "accepted" in text and "\n" not in text
    assert "1" in text and "table" in text  # the row


def test_neighbours_of_refused_tables():
    """The last values that are accepted."""
    rows = (
        a_job(iterations=1022, work=[2**20] * 2, req_iter=1, opt_iter=1),
        a_job(iterations=2**15, curve_a=1, req_iter=1, opt_iter=1),
        a_job(gpu_demand=750, cpus=24, mem=219, vol_worker=2**10, vol_ps=2**10),
        a_job(submit_time=2**30 - 1, deadline=2**30 - 1),
    )
    assert LARGE.params([from_records(rows, schema=TASK_JOBS)]).max_jobs == len(rows)


@pytest.mark.parametrize(("rounds", "accepted"), [(174, True), (175, False)])
def test_volumes_of_many_rounds(rounds, accepted):
    """1000 x the MB of a task stays below 2**30."""
    env = MLFS(comm_rounds=rounds)
    table = from_records([a_job(vol_worker=2**10, vol_ps=2**10)], schema=TASK_JOBS)
    assert (1000 * 6 * 2**10 * rounds < LIMIT // 2) == accepted
    if accepted:
        env.params([table])
        return
    with pytest.raises(JaxschedError, match="1000 x MB sent for a task is .*accepted: below"):
        env.params([table])


def test_traffic_of_too_many_offers():
    """All offers of a slot together stay below 2**30 MB."""
    table = from_records([a_job(vol_worker=2**10, vol_ps=2**10)], schema=TASK_JOBS)
    most = (LIMIT // 2 - 1) // (6 * 2**10 * 100)
    MLFS(comm_rounds=100, max_offers=most).params([table])
    with pytest.raises(JaxschedError, match="MB sent by .* tasks in a slot is .*accepted: below"):
        MLFS(comm_rounds=100, max_offers=most + 1).params([table])


def test_unsorted_tables():
    rows = [a_job(submit_time=5), a_job(submit_time=4)]
    with pytest.raises(JaxschedError, match="submit_time") as refusal:
        LARGE.params([from_records(rows, schema=TASK_JOBS)])
    assert "\n" not in str(refusal.value)


def long_columns(count):
    """As many jobs as the published week has, all of the shape of ``ResNet`` on 32 GPUs."""
    rng = np.random.default_rng(0)
    return {
        "submit_time": np.sort(rng.integers(0, 129_600, count)),
        "num_gpus": np.full(count, 32),
        "model": np.full(count, 1),
        "iterations": rng.integers(3, 201, count),
        "opt_iter": np.full(count, 2),
        "req_iter": np.full(count, 3),
        "work": rng.integers(300, 4000, (count, 16)),
        "size": rng.integers(30, 90, (count, 16)),
        "gpu_demand": rng.integers(200, 451, count),
        "cpus": rng.integers(1, 4, count),
        "mem": rng.integers(2, 17, count),
        "vol_worker": rng.integers(50, 101, count),
        "vol_ps": rng.integers(50, 101, count),
        "deadline": rng.integers(129_600, 400_000, count),
        "urgency": rng.integers(1, 11, count),
        "curve_a": rng.integers(40, 20_000, count),
        "acc_max": rng.uniform(0.7, 0.99, count),
        "option": np.full(count, 1),
        "allow": np.full(count, 2),
    }


def test_the_longest_table():
    """117,325 jobs: parameters in seconds, B_max beyond int32, arrivals found by halving."""
    count = 117_325
    columns = long_columns(count)
    before = time.process_time()
    params = LARGE.params([JobTable(columns, schema=TASK_JOBS)])
    assert time.process_time() - before < 20
    assert params.rows.shape[0] == count + 1 and params.max_jobs == count
    # Two replicas of four layers of four: 3 * 16 edges, and 4 roots and 4 sinks.
    by_iteration = 2 * 40 * (48 * columns["vol_worker"] + 8 * columns["vol_ps"])
    traffic = sum((columns["iterations"] * by_iteration).tolist())
    assert traffic > 2**40
    np.testing.assert_allclose(params.traffic_mb[0], traffic, rtol=1e-6)
    assert params.traffic_mb.dtype == jnp.float32
    slots = -(-columns["submit_time"] // 60)
    arrived = jax.jit(tab.submitted_by)
    for slot, known in ((0, 0), (1, 0), (1080, 0), (1080, 50_000), (2160, 0), (2**24, 0)):
        got = int(arrived(params, jnp.int32(0), jnp.int32(slot), jnp.int32(known)))
        assert got == np.searchsorted(slots, slot, side="right")
    assert params.running.shape[0] < 2474 * 5


@pytest.mark.parametrize(
    ("options", "demand"),
    [
        ({}, {"gpu_demand": 300}),
        ({}, {"gpu_demand": 1, "cpus": 1, "mem": 1}),
        (
            {"overload_threshold": 1000, "mem_per_server": 1001},
            {"gpu_demand": 1, "cpus": 0, "mem": 1},
        ),
        (
            {"overload_threshold": 1000, "cpus_per_server": 2000},
            {"gpu_demand": 1, "cpus": 1, "mem": 0},
        ),
        ({"overload_threshold": 1000}, {"gpu_demand": 3, "cpus": 0, "mem": 0}),
        ({"overload_threshold": 30}, {"gpu_demand": 2, "cpus": 0, "mem": 5}),
        ({"order": "fifo", "overload_threshold": 30}, {"gpu_demand": 2, "cpus": 0, "mem": 5}),
    ],
    ids=str,
)
def test_rows_suffice(options, demand):
    """Servers filled one task at a time, each as small at any later time as demand can be."""
    env = MLFS(**{**CLUSTERS["small"], "gpus": (2, 4), **options})
    row = a_job(1, 32, work=[1000] * 16, size=[60] * 16, **demand)
    params = env.params([from_records([row] * 64, schema=TASK_JOBS)])
    capacities = 1000 * env.cpus_per_server, env.mem_per_server
    held = 0
    for gpus in env.gpus:
        count = 0
        while count < 2048 and fits_one_more(env, gpus, count, row, capacities):
            count += 1
        held += count
    assert params.max_running >= min(held, 2048)
    assert params.max_running <= 2048


def fits_one_more(env, gpus, count, row, capacities):
    """On a server with ``count`` tasks, all at the lowest of their measured demand."""
    cpu, mem = 1000 * row["cpus"], row["mem"]
    if env.order == "fifo":
        gpu = count // gpus * row["gpu_demand"] + row["gpu_demand"] <= 1000
        return gpu and (count + 1) * cpu <= capacities[0] and (count + 1) * mem <= capacities[1]
    low = 800 * row["gpu_demand"] // 1000
    return (
        count // gpus * low + row["gpu_demand"] <= env.overload_threshold
        and (count * 800 * row["cpus"] + cpu) // env.cpus_per_server <= env.overload_threshold
        and 1000 * (count + 1) * mem // env.mem_per_server <= env.overload_threshold
    )
