"""Tiny instances of every system, for the tests that hold for all of them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.elastic.jobs import CHIC_JOBS, DL2_JOBS
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.dl2.learn.presets import ARTEFACT
from jaxsched.envs.mlfs.jobs import TASK_JOBS, graph_shape
from jaxsched.jobs import JobTable
from jaxsched.systems import functions, registry
from jaxsched.systems.system import System


class Instance(NamedTuple):
    """A tiny environment with two sets of parameters that differ in values only."""

    system: System
    env: Environment
    params: Any
    other_params: Any
    other_env: Environment  # differs in one static option


def sched2_tables(seed: int) -> list[JobTable]:
    """Three tables of at most seven jobs for two servers of four GPUs."""
    rng = np.random.default_rng(seed)
    tables = []
    for jobs in (7, 5, 1):
        times = np.sort(rng.integers(0, 200, jobs))
        columns = {
            "submit_time": times - times[0],
            "num_gpus": rng.integers(1, 9, jobs),
            "duration": rng.integers(1, 150, jobs),
            "model": rng.integers(0, 6, jobs),
        }
        tables.append(JobTable(columns))
    return tables


def sched2(**options: Any) -> Instance:
    system = registry.get("sched2")
    env = functions.environment(system, num_servers=2, gpus_per_server=4, window=3, **options)
    params = env.params(sched2_tables(0), invalid_penalty=0.5)
    other = env.params(sched2_tables(1), time_scale=60.0)
    return Instance(system, env, params, other, replace(env, window=4))


def dl2_tables(seed: int, unit: float = 1.0) -> list[JobTable]:
    """Three tables of at most six short jobs, some with noise and errors of the estimate."""
    rng = np.random.default_rng(seed)
    tables = []
    for jobs in (6, 4, 1):
        epochs = unit * rng.integers(2, 13, jobs)
        columns = {
            "submit_time": np.sort(rng.integers(0, 4000, jobs)),
            "model": rng.integers(0, 8, jobs),
            "epochs": epochs,
            "true_epochs": epochs * rng.uniform(0.9, 1.1, jobs),
            "speed_factor": rng.uniform(0.8, 1.2, (jobs, 3)),
        }
        tables.append(JobTable(columns, schema=DL2_JOBS))
    return tables


def dl2(**options: Any) -> Instance:
    system = registry.get("dl2")
    env = functions.environment(system, num_servers=2, window=3, max_slots=60, **options)
    params = env.params(dl2_tables(0))
    other = env.params(dl2_tables(1), contention=0.5, overlap=0.0, e_scale=50.0)
    return Instance(system, env, params, other, replace(env, window=4))


def dl2_published(**options: Any) -> Instance:
    """A small cluster with the ways of DL2's published simulator."""
    system = registry.get("dl2")
    env = replace(ARTEFACT, num_servers=3, window=3, max_slots=60, **options)
    params, other = (env.params(dl2_tables(seed, 400.0)) for seed in (0, 1))
    return Instance(system, env, params, other, replace(env, window=4))


def chic_tables(seed: int) -> list[JobTable]:
    """Three tables of at most seven workloads of a few iterations."""
    rng = np.random.default_rng(seed)
    tables = []
    for jobs in (7, 5, 1):
        columns = {
            "submit_time": np.cumsum(rng.exponential(600.0, jobs)),
            "model": rng.integers(0, 3, jobs),
            "iterations": rng.integers(5, 11, jobs),
        }
        tables.append(JobTable(columns, schema=CHIC_JOBS))
    return tables


def chic(**options: Any) -> Instance:
    system = registry.get("chic")
    options = {"capacity": (3, 20, 120), "window": 2, "max_decisions": 4, **options}
    env = functions.environment(system, max_stalls=80, **options)
    times = {"max_time": 4e4, "stall_seconds": 500.0}
    params = env.params(chic_tables(0), **times)
    other = env.params(chic_tables(1), **times, p1=1.0, decision_seconds=2.0)
    return Instance(system, env, params, other, replace(env, window=3))


def das_tables(seed: int) -> list[JobTable]:
    """Three tables of at most seven gangs for two machines of four GPUs."""
    rng = np.random.default_rng(seed)
    tables = []
    for jobs in (7, 5, 1):
        times = np.sort(rng.integers(0, 200, jobs))
        columns = {
            "submit_time": times - times[0],
            "num_instances": rng.integers(1, 5, jobs),
            "gpus_per_instance": rng.integers(1, 3, jobs),
            "cpus_per_instance": rng.integers(0, 5, jobs),
            "mem_per_instance": rng.integers(0, 17, jobs),
            "duration": rng.integers(1, 150, jobs),
        }
        tables.append(JobTable(columns, schema=GANG_JOBS))
    return tables


def das(**options: Any) -> Instance:
    system = registry.get("das")
    machines = {"num_servers": 2, "gpus_per_server": 4, "cpus_per_server": 16, "mem_per_server": 64}
    env = functions.environment(system, **machines, window=4, **options)
    params = env.params(das_tables(0))
    other = env.params(das_tables(1), alpha=0.5, price=1.0)
    return Instance(system, env, params, other, replace(env, window=3))


def mlfs_tables(seed: int) -> list[JobTable]:
    """Three tables of at most five jobs of one to four tasks."""
    rng = np.random.default_rng(seed)
    tables = []
    for jobs in (5, 3, 1):
        submit, iterations = np.sort(rng.integers(0, 400, jobs)), rng.integers(2, 4, jobs)
        gpus, model = rng.choice([1, 2, 4], jobs), rng.integers(0, 5, jobs)
        columns = {
            "submit_time": submit,
            "num_gpus": gpus,
            "model": model,
            "iterations": iterations,
            "opt_iter": iterations,
            "req_iter": np.maximum(iterations - 1, 1),
            "work": rng.integers(300, 1500, (jobs, 4)) * _of_task(model, gpus),
            "size": rng.integers(100, 900, (jobs, 4)) * _of_task(model, gpus),
            "gpu_demand": rng.choice([250, 400, 700], jobs),
            "cpus": rng.integers(1, 4, jobs),
            "mem": rng.integers(2, 17, jobs),
            "vol_worker": rng.integers(50, 101, jobs),
            "vol_ps": rng.integers(50, 101, jobs),
            "deadline": submit + rng.integers(300, 3000, jobs),
            "urgency": rng.integers(1, 11, jobs),
            "curve_a": rng.integers(100, 5000, jobs),
            "acc_max": rng.uniform(0.7, 0.99, jobs),
            "option": np.zeros(jobs, int),
            "allow": np.full(jobs, 2),
        }
        tables.append(JobTable(columns, schema=TASK_JOBS))
    return tables


def _of_task(model: np.ndarray, gpus: np.ndarray) -> np.ndarray:
    """1 where a job has such a partition, 0 beyond its last."""
    _, partitions, _ = graph_shape(model, gpus)
    return (np.arange(4) < partitions[:, None]).astype(int)


def mlfs(**options: Any) -> Instance:
    system = registry.get("mlfs")
    cluster = {"gpus": (2, 1), "cpus_per_server": 8, "mem_per_server": 64, "max_active": 3}
    env = functions.environment(system, **cluster, max_offers=4, max_slots=90, **options)
    params = env.params(mlfs_tables(0))
    other = env.params(mlfs_tables(1), deadline_weight=300, importance_share=50, traffic_cost=0.5)
    return Instance(system, env, params, other, replace(env, max_active=4))


def cluster_tables(seed: int) -> list[JobTable]:
    """Three tables of at most seven rigid jobs of two owners for two servers of four GPUs.

    Seeds differ in times alone: sizes and owners are shapes here.
    """
    rng = np.random.default_rng(seed)
    tables = []
    for jobs, first in ((7, 0), (5, 1), (1, 2)):
        times = np.sort(rng.integers(0, 200, jobs))
        columns = {
            "submit_time": times - times[0],
            "num_gpus": np.resize([2, 1, 4, 8, 3, 1, 6], first + jobs)[first:],
            "duration": rng.integers(1, 150, jobs),
            "group": np.arange(jobs) % 2,
        }
        columns["gpu_milli"] = np.where(columns["num_gpus"] == 1, 400, 1000)
        tables.append(JobTable(columns))
    return tables


def cluster(**options: Any) -> Instance:
    system = registry.get("cluster")
    env = functions.environment(system, num_servers=2, gpus_per_server=4, window=3, **options)
    params, other = env.params(cluster_tables(0)), env.params(cluster_tables(1), scale_s=60.0)
    return Instance(system, env, params, other, replace(env, window=4))


INSTANCES: dict[str, dict[str, Callable[[], Instance]]] = {
    "sched2": {
        "paper": sched2,
        "learner": partial(
            sched2, auto_advance=True, reward="dense", profile="slowdown", extras=True
        ),
    },
    "dl2": {
        "paper": dl2,
        "allreduce": partial(dl2, comm="allreduce"),
        "bundles": partial(dl2, assign_bundle=True),
        "published": dl2_published,
    },
    "das": {
        "paper": das,
        "events": partial(das, events_per_step=1, reward="dense"),
        "random": partial(das, sampling="random", on_no_fit="block"),
        "shown": partial(das, estimates=True, numbers=True),
    },
    "chic": {"paper": chic, "pair": partial(chic, pair=True, free_choice=True)},
    "mlfs": {
        "paper": mlfs,
        "paced": partial(mlfs, slot_every=16, use_mlfc=True),
    },
    "cluster": {
        "paper": cluster,
        "suspends": partial(cluster, suspends=True, restart_s=7),
        "shares": partial(cluster, servers="2x4x2", placement="fgd"),
        "fails": partial(cluster, failures="0.05:0.01", checkpoint_s=30),
    },
}
