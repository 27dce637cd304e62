"""Random play and all policies against the plain-Python oracle, over small tables and options."""

import jax
import numpy as np
import pytest

from benchmarks.peers.simulators.dl2 import Cluster
from jaxsched.systems import golden, registry
from tests.envs.dl2.rules.forms import few_words
from tests.golden_check import differences

POLICIES = ("drf", "fifo", "srtf", "tetris", "optimus", "optimus_oracle", "optimus_fill")
CONFIGS = {
    "small": {"num_servers": 3, "J": 4},
    "more jobs than rows": {"num_servers": 2, "J": 2, "max_slots": 40},
    "one server": {"num_servers": 1, "J": 3, "contention": 0.3},
    "no bundles": {"num_servers": 3, "J": 3, "bundle_action": False, "overlap": 0.4},
    "started bundles": {"num_servers": 3, "J": 2, "assign_bundle": True, "d_scale": 3.0},
    "full of bundles": {
        "num_servers": 2, "J": 2, "assign_bundle": True, "max_workers": 1, "max_ps": 2,
    },
    "all-reduce": {"num_servers": 2, "J": 3, "comm": "allreduce", "e_scale": 7.0},
    "all-reduce bundles": {
        "num_servers": 2, "J": 3, "comm": "allreduce", "assign_bundle": True, "max_workers": 3,
    },
    "measured": {"num_servers": 3, "J": 3, "speed_mode": "measured", "contention": 0.0},
    "measured all-reduce": {
        "num_servers": 3, "J": 5, "speed_mode": "measured", "comm": "allreduce",
    },
    "few tasks": {"num_servers": 4, "J": 3, "max_workers": 2, "max_ps": 3, "slot_seconds": 700},
    "other servers": {
        "num_servers": 3, "J": 3, "gpus_per_server": 3, "cpus_per_server": 10,
        "mem_per_server": 40,
    },
    "cut": {"num_servers": 2, "J": 3, "max_slots": 7},
    "resizing takes time": {"num_servers": 3, "J": 3, "resizing": 300.0, "slot_seconds": 700},
    "whole slots lost": {
        "num_servers": 2, "J": 2, "assign_bundle": True, "resizing": 1200.0, "max_slots": 60,
    },
}  # fmt: skip


def simulate(case):
    return golden.simulate(registry.get("dl2"), case)


def jobs_for(seed, count=6):
    """Small jobs with gaps, noise of several lengths and wrong estimates."""
    rng = np.random.default_rng(seed)
    noise = int(rng.choice([1, 2, 3]))
    time, jobs = int(rng.integers(0, 3000)), []
    for _ in range(count):
        epochs = float(rng.integers(2, 40))
        job = {"submit_time": time, "model": int(rng.integers(0, 8)), "epochs": epochs}
        if rng.random() < 0.5:
            job["true_epochs"] = epochs * float(rng.uniform(0.7, 1.3))
            job["speed_factor"] = rng.uniform(0.6, 1.4, noise).tolist()
        else:
            job["speed_factor"] = [1.0] * noise
        jobs.append(job)
        time += int(rng.choice([0, 0, 500, 1200, 1201, 9000]))
    return jobs


def chooser(seed, window, stay):
    """Legal actions mostly, void seldom (unless nothing else), illegal ones now and then."""
    rng = np.random.default_rng(seed)

    def choose(mask):
        if rng.random() < 0.1:
            return int(rng.choice([-1, 3 * window + 1, 10**6, 1 - 2**31, *range(3 * window)]))
        legal = np.flatnonzero(mask[:-1])
        if legal.size and rng.random() < stay:
            return int(rng.choice(legal))
        return 3 * window

    return choose


@pytest.mark.parametrize("name", CONFIGS)
def test_random_play(name):
    play_by_chance(name)


@pytest.mark.parametrize("name", ["more jobs than rows", "started bundles", "all-reduce bundles"])
def test_random_play_of_more_words(name):
    with few_words(1):
        play_by_chance(name, count=40)


def play_by_chance(name, count=6):
    config, seed = CONFIGS[name], len(name)
    jobs = jobs_for(seed, count)
    oracle = Cluster(config, jobs)
    trajectory = oracle.play(chooser(seed, config["J"], stay=0.9))
    case = {"config": config, "jobs": jobs, "actions": [row["action"] for row in trajectory]}
    expect = {
        "trajectory": trajectory,
        "jobs": oracle.results(),
        "metrics": oracle.metrics(len(trajectory)),
    }
    assert trajectory
    assert differences(expect, simulate(case), 1e-9, {"reward": 1e-12, "obs": 1e-12}) == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "name",
    [
        *("small", "all-reduce", "resizing takes time"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("few tasks", "other servers")),
    ],
)
def test_policies(policy, name):
    config = CONFIGS[name]
    if policy == "optimus" and config.get("comm") == "allreduce":
        pytest.skip("not defined with all-reduce")
    jobs = jobs_for(len(name))
    oracle = Cluster(config, jobs)
    slots = oracle.run(policy, cap=3)
    expect = {"slots": slots, "jobs": oracle.results(), "metrics": oracle.metrics(0)}
    case = {"config": config, "jobs": jobs, "policy": policy, "policy_options": {"cap": 3}}
    assert differences(expect, simulate(case), 1e-6) == []
    assert slots


def test_oracle_is_not_the_library():
    """A different rule gives different results: the comparison can fail."""
    jobs = jobs_for(3)
    one = Cluster(CONFIGS["small"], jobs)
    one.run("drf")
    other = Cluster(CONFIGS["small"] | {"contention": 0.9}, jobs)
    other.run("drf")
    assert differences(one.results(), other.results(), 1e-6)
    assert jax.config.jax_enable_x64 is False
