"""Elastic jobs: whole replays by hand, by a plain loop of seconds, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay.elastic import (
    FIXED,
    POLICIES,
    ElasticJob,
    read_workload,
    replay_elastic,
)
from jaxsched.trace_replay.goodput import Application, read_applications
from tests.trace_replay.elastic_tables import EVERY, steady, write

SPEEDS = {"slow": 2.0, "fast": 1.0}  # seconds of a step
WORK = 150.0  # steps


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Application]:
    return steady(tmp_path_factory.mktemp("traces"), SPEEDS, WORK)


def job(name: str, time: int, kind: str, gpus: int = 1) -> ElasticJob:
    """With parts of 8 samples, or less on more than four GPUs: one speed anywhere."""
    return ElasticJob(name, time, kind, gpus, 8 * min(gpus, 4))


def test_one_job_by_hand(applications: dict[str, Application]) -> None:
    found = replay_elastic([job("a", 50, "fast", 2)], applications, "fifo")
    assert found.wait.tolist() == [10]  # to the end of the first round
    assert found.jct.tolist() == [10 + 30 + 150]
    assert found.restarts.tolist() == [0]
    assert found.gpu_seconds.tolist() == [2 * 180]
    assert found.makespan == 190


def test_a_job_that_attained_its_share_makes_way(applications: dict[str, Application]) -> None:
    """Of two jobs that want all GPUs the first is demoted after 16 GPU-hours: four on four."""
    long = {"long": steady_for(applications, 4 * 3600 + 900)}
    jobs = [job("a", 0, "long", 4), job("b", 7000, "fast", 4)]
    found = replay_elastic(jobs, long | applications, "tiresias", num_nodes=1)
    assert found.wait.tolist() == [60, 4 * 3600 + 60 - 7000]
    assert found.restarts.tolist() == [1, 0]
    assert found.jct.tolist() == [60 + 30 + 4 * 3600 + 900 + 180 + 30, 4 * 3600 + 240 - 7000]
    first = replay_elastic(jobs, long | applications, "fifo", num_nodes=1)
    assert first.restarts.tolist() == [0, 0]


def steady_for(applications: dict[str, Application], seconds: int) -> Application:
    """``fast`` with other work."""
    fast = applications["fast"]
    return Application(
        "long", fast.batch_sizes, fast.square, fast.variance, np.array([float(seconds)]),
        fast.parts, fast.placed, fast.spread,
    )  # fmt: skip


def by_seconds(jobs: list[ElasticJob], policy: str, nodes: int) -> tuple[list[int], list[int]]:
    """Completion times and restarts from the rules alone, second by second, GPUs without nodes."""
    state: list[dict[str, Any]] = [
        {"left": int(WORK * SPEEDS[each.application]), "stop": 0, "on": False, "moves": -1,
         "end": 0, "held": 0, "low": 0} for each in jobs
    ]  # fmt: skip
    time = 0
    while not all(each["end"] for each in state):
        if time and time % 60 == 0:
            there = [
                k for k, each in enumerate(jobs) if each.submit_time <= time and not state[k]["end"]
            ]
            for k in there:
                asked = state[k]["held"] * jobs[k].num_gpus
                if state[k]["on"] and not state[k]["low"] and asked >= 16 * 3600:
                    state[k]["low"] = 1 + max(each["low"] for each in state)
            place = "low" if policy == "tiresias" else "waits"
            order = sorted(there, key=lambda k: (_place(state[k], place), k))
            free = 4 * nodes
            for k in order:
                fits = jobs[k].num_gpus <= free
                free -= jobs[k].num_gpus * fits
                if fits and not state[k]["on"]:
                    state[k]["moves"] += 1
                    state[k]["stop"] = 30
                state[k]["on"] = fits
        for each in state:
            if each["on"] and not each["end"]:
                each["held"] += 1
                if each["stop"]:
                    each["stop"] -= 1
                else:
                    each["left"] -= 1
                    each["end"] = time + 1 if each["left"] == 0 else 0
        time += 1
    ends = [each["end"] - own.submit_time for each, own in zip(state, jobs, strict=True)]
    return ends, [each["moves"] for each in state]


def _place(state: dict[str, Any], by: str) -> int:
    return int(state["low"]) if by == "low" else int(not state["on"])


@pytest.mark.parametrize("policy", FIXED)
def test_replays_are_those_of_a_plain_loop(
    policy: str, applications: dict[str, Application]
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        times = np.sort(rng.integers(0, 900, 9)).tolist()
        jobs = [
            job(f"j{k}", time, str(rng.choice(list(SPEEDS))), int(rng.integers(1, 9)))
            for k, time in enumerate(times)
        ]
        found = replay_elastic(jobs, applications, policy, num_nodes=2)
        ends, moves = by_seconds(jobs, policy, 2)
        assert found.jct.tolist() == ends
        assert found.restarts.tolist() == moves


def test_gpus_go_where_they_help(tmp_path: Path) -> None:
    """One kind of job is as fast on one GPU as on four, the other four times as fast on four."""
    alone = dict.fromkeys(EVERY, (1.0, 1.0))
    run = [(600.0, 1.0, 0.0)]
    write(tmp_path, "flat", steps=alone, runs={8: run, 32: run})
    faster = {"1": 4.0, "2": 2.0, "3": 4 / 3, "4": 1.0}
    steps = {code: (faster.get(code, 1.0),) * 2 for code in EVERY}
    write(tmp_path, "scaling", steps=steps, runs={8: run, 32: run})  # type: ignore[arg-type]
    applications = read_applications(tmp_path)
    jobs = [ElasticJob("a", 0, "flat", 1, 8), ElasticJob("b", 0, "scaling", 1, 8)]
    for policy in ("goodput", "remaining"):
        found = replay_elastic(jobs, applications, policy, num_nodes=1)
        assert found.gpu_seconds[0] == found.jct[0] - 60  # one GPU
        assert found.gpu_seconds[1] > 2.9 * (found.jct[1] - 60)  # three, and four at last
        assert found.jct[0] == 60 + 30 + 600


@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_gpus_than_there_are(policy: str, applications: dict[str, Application]) -> None:
    jobs = [job(f"j{k}", 20 * k, ("slow", "fast")[k % 2], 1 + k % 3) for k in range(14)]
    found = replay_elastic(jobs, applications, policy, num_nodes=2)
    assert found.gpu_seconds.sum() <= 8 * found.makespan
    assert (found.jct >= found.wait + 30 + 150).all()
    assert (found.restarts >= 0).all()


def test_wrong_workloads_and_options_are_one_line(
    applications: dict[str, Application], tmp_path: Path
) -> None:
    jobs = [job("a", 0, "fast")]
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (jobs, {"policy": "pollux"}, "policy is 'pollux'; accepted: tiresias, fifo, goodput"),
        (jobs, {"round_s": 0}, "round_s is 0; accepted: a whole number from 1"),
        (jobs, {"gpus_per_node": 8}, "gpus_per_node is 8; accepted: a whole number from 1 to 4"),
        ([], {}, "0 jobs; accepted: 1 to"),
        ([job("a", 0, "bert")], {}, "job 'a' is of 'bert'; accepted: fast, slow"),
        ([job("a", 0, "fast", 65)], {}, "asks for 65 GPUs; accepted: 1 to 64"),
        ([job("a", 9, "fast"), job("b", 8, "fast")], {}, "comes at 8 s; accepted: from 0 on"),
    ]
    for given, options, message in wrong:
        with pytest.raises(JaxschedError, match=message):
            replay_elastic(given, applications, **{"policy": "fifo", **options})
    file = tmp_path / "workload-1.csv"
    file.write_text("name,time,application,num_replicas,batch_size\nb,9,fast,1,8\na,3,slow,2,16\n")
    assert read_workload(file) == [
        ElasticJob("a", 3, "slow", 2, 16), ElasticJob("b", 9, "fast", 1, 8)
    ]  # fmt: skip
    file.write_text("name,time,application,num_replicas,batch_size\nb,x,fast,1,8\n")
    with pytest.raises(JaxschedError, match="row 1: is 'b,x,fast,1,8'; accepted"):
        read_workload(file)
    with pytest.raises(JaxschedError, match="cannot be read"):
        read_workload(tmp_path / "none.csv")
