"""Gavel's linear programs and rounds: the paper's example, known optima, a plain simulation."""

from itertools import pairwise

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import POLICIES, Cluster, replay
from jaxsched.trace_replay.gavel import GOALS, MOST_JOBS, allocation, replay_in_rounds
from tests.trace_replay.cases import found
from tests.trace_replay.test_gpu_types import CLUSTER, TABLES


def shares(gpus, speeds, capacity, goal, work=None):
    work = np.ones(len(gpus), int) if work is None else np.array(work)
    return allocation(np.array(gpus), np.array(speeds), np.array(capacity), goal, work)


def test_the_example_of_the_paper():
    """Section 4.1: three jobs with throughputs (40, 10), (12, 4), (100, 50) on a V100 and a K80."""
    found = shares([1, 1, 1], [[40, 10], [12, 4], [100, 50]], [1, 1], "max-min")
    np.testing.assert_allclose(found, [[0.45, 0], [0.45, 0.09], [0.09, 0.91]], atol=0.006)


def test_makespans_with_known_optima():
    """All end together: 8 and 4 of work at 2 and 1 on one GPU of each type; 6 + 6 alone."""
    found = shares([1, 1], [[2, 1], [2, 1]], [1, 1], "makespan", [8, 4])
    rate = np.array([[2, 1], [2, 1]]) * found
    assert (np.array([8, 4]) / rate.sum(1)).max() == pytest.approx(4, rel=1e-5)
    alone = shares([2, 2], [[1], [1]], [2], "makespan", [6, 6])
    np.testing.assert_allclose(alone, [[0.5], [0.5]], atol=1e-6)


@pytest.mark.parametrize("goal", GOALS)
def test_shares_keep_the_cluster_and_nobody_can_be_better_off(goal):
    """Constraints hold, and moving any job's time to where there is room does not help the sum."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        gpus, speeds = rng.integers(1, 5, 9), rng.integers(0, 2000, (9, 3))
        speeds[:, 1] += 1
        capacity = rng.integers(4, 12, 3)
        share = shares(gpus, speeds, capacity, goal, rng.integers(1, 10**6, 9))
        used = share.T @ gpus
        assert (share >= 0).all() and (share.sum(1) < 1 + 1e-6).all()
        assert (share[speeds == 0] == 0).all() and (used < capacity + 1e-5).all()
        idle = used < capacity - 1e-3
        assert not np.any((speeds > 0) & idle[None, :] & (share.sum(1) < 1 - 1e-3)[:, None])


def simulated(table, cluster, goal, length):
    """Rounds in plain Python, by the module's description: start, end, suspensions, held."""
    count, kinds = len(table["submit_time"]), cluster.kinds
    gpus, submit = (np.asarray(table[name]).tolist() for name in ("num_gpus", "submit_time"))
    speed = [[int(table[f"speed_{k.gpu_type}"][j]) * (gpus[j] <= min(k.largest_job, k.num_gpus))
              for k in kinds] for j in range(count)]  # fmt: skip
    left = [1000 * int(seconds) for seconds in table["duration"]]
    start, end, held = {}, {}, [0] * count
    ran, time, solved = [], 0, None  # ran: of each round its time and job -> kind
    while len(end) < count:
        inside = [j for j in range(count) if submit[j] <= time and j not in end]
        if not inside:
            time = min(submit[j] for j in range(count) if j not in end)
            continue
        if inside != solved:
            x = allocation(np.array([gpus[j] for j in inside]),
                           np.array([speed[j] for j in inside]),
                           np.array([k.num_gpus for k in kinds]), goal,
                           np.array([left[j] for j in inside]))  # fmt: skip
            solved, begun, got = inside, time, {}
        pairs = []
        for place, j in enumerate(inside):
            for k in range(len(kinds)):
                if x[place, k] > 0:
                    part = got.get((j, k), 0) / max(time - begun, 1)
                    urgency = x[place, k] / part if part else float("inf")
                    pairs.append((-urgency, -x[place, k], j, k))
        free = [[k.gpus_per_server] * k.num_servers for k in kinds]
        runs = {}
        for _, _, j, k in sorted(pairs):
            size, need = kinds[k].gpus_per_server, gpus[j]
            if j in runs:
                continue
            trial = list(free[k])
            for server, available in enumerate(trial):
                if need >= size and available == size:
                    trial[server], need = 0, need - size
            if need >= size:
                continue
            if need:
                able = [(f, s) for s, f in enumerate(trial) if f >= need]
                if not able:
                    continue
                trial[min(able)[1]] -= need
            free[k], runs[j] = trial, k
        for j, k in runs.items():
            start.setdefault(j, time)
            got[j, k] = got.get((j, k), 0) + length
            needs = -(-left[j] // speed[j][k])
            held[j] += min(needs, length)
            left[j] -= length * speed[j][k]
            if needs <= length:
                end[j] = time + needs
        ran.append((time, runs))
        time += length
    stops = [0] * count
    for (_, runs), (later, following) in pairwise(ran):
        for j, k in runs.items():
            gone = j not in end or end[j] > later
            stops[j] += gone and following.get(j) != k
    return [start[j] for j in range(count)], [end[j] for j in range(count)], stops, held


@pytest.mark.parametrize("goal", GOALS)
def test_rounds_equal_a_plain_simulation(goal):
    suspensions = 0
    for table in TABLES[:10]:
        records = replay_in_rounds(table, CLUSTER, goal, round_s=4)
        mine = records.start, records.end, records.preemptions, records.held
        np.testing.assert_array_equal(mine, simulated(table, CLUSTER, goal, 4))
        cut = np.bincount(records.cut[:, 0], minlength=20)
        np.testing.assert_array_equal(cut, records.preemptions)
        whole = records.held_within(0, 10**6)
        np.testing.assert_allclose(whole, records.held)
        suspensions += cut.sum()
    assert suspensions > 20


def test_jobs_that_all_fit_run_as_in_a_replay():
    """On equal GPUs, rounds of a second: everybody starts when submitted."""
    jobs = {"submit_time": [0, 3, 4], "num_gpus": [8, 2, 4], "duration": [30, 7, 9]}
    for cluster in (Cluster(4, 4), Cluster.of("1x2,4x4")):
        for goal in GOALS:
            rounds = replay_in_rounds(jobs, cluster, goal, round_s=1)
            whole = replay(jobs, cluster, POLICIES["fifo"])
            np.testing.assert_array_equal(found(rounds)[:2], found(whole)[:2])
            assert not rounds.preemptions.any()


def test_what_is_refused_in_one_line():
    one = {"submit_time": [0], "num_gpus": [1], "duration": [1]}
    for options, match in (
        ({"goal": "fifo"}, "goal is 'fifo'; accepted: max-min, makespan"),
        ({"goal": "max-min", "round_s": 0}, "round_s is 0; accepted: a whole number from 1"),
        ({"goal": "max-min", "round_s": True}, "round_s is True; accepted: a whole number"),
    ):
        with pytest.raises(JaxschedError, match=match):
            replay_in_rounds(one, Cluster(1, 1), **options)
    many = {name: np.repeat(values, MOST_JOBS + 1) for name, values in one.items()}
    with pytest.raises(JaxschedError, match=f"has {MOST_JOBS + 1} jobs, .*up to {MOST_JOBS}"):
        replay_in_rounds(many, Cluster(1, 1), "max-min")
    late = one | {"submit_time": [2**30 - 1], "duration": [2**23], "speed_a": [1]}
    with pytest.raises(JaxschedError, match=r"runs past 2\*\*31 s"):
        replay_in_rounds(late, Cluster.of("1x1@a"), "max-min", round_s=2**30)
