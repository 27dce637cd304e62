"""The five systems in plain Python, at the sizes of the library's defaults: uniform legal actions.

Runs as ``python -m benchmarks.peers.plain SYSTEM`` and speaks as the other workers do
(``jaxsched.bench.peer_workers``). The simulators are those that tests compare the library with,
step by step; observations, masks and rewards are computed at each step. They are written to be
read, not to be fast.
"""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from benchmarks.peers.simulators import chic, das, dl2, mlfs, sched2
from jaxsched import traces
from jaxsched.bench.peer_workers.protocol import serve, time_alone
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.jobs import JobTable
from jaxsched.systems import functions, registry

JOBS = 30  # of an episode
Draw = random.Random
Play = Callable[[Any, list[dict[str, Any]], Draw], Iterator[None]]


def rows_of(table: JobTable) -> list[dict[str, Any]]:
    """A table as plain numbers, one dictionary per job."""
    columns = {name: values.tolist() for name, values in table.columns.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def any_legal(mask: Any, draw: Draw) -> int:
    """One of the actions that a mask allows."""
    return draw.choice([action for action, legal in enumerate(mask) if legal])


def play_sched2(env: Any, jobs: list[dict[str, Any]], draw: Draw) -> Iterator[None]:
    """An episode of SCHED2."""
    names = ("submit_time", "num_gpus", "duration", "model")
    rows = [tuple(job[name] for name in names) for job in jobs]
    cluster = sched2.Cluster(rows, env.num_servers, env.gpus_per_server, env.window)
    while not cluster.done:
        cluster.observation()
        cluster.step(any_legal(cluster.mask(), draw))
        yield


def play_dl2(env: Any, jobs: list[dict[str, Any]], draw: Draw) -> Iterator[None]:
    """An episode of DL2."""
    config = {name: getattr(env, name) for name in dl2.DEFAULTS if hasattr(env, name)}
    steps = 0

    def choose(mask: Any) -> int:
        nonlocal steps
        steps += 1
        return any_legal(mask, draw)

    dl2.Cluster({**config, "J": env.window}, jobs).play(choose)
    for _ in range(steps):  # it plays whole episodes
        yield


def play_chic(env: Any, jobs: list[dict[str, Any]], draw: Draw) -> Iterator[None]:
    """An episode of Chic."""
    rows = [(job["submit_time"], job["model"], job["iterations"]) for job in jobs]
    options = {name: getattr(env, name) for name in chic.DEFAULTS if hasattr(env, name)}
    cluster = chic.Chic(rows, **options)
    while not cluster.done():
        cluster.observation()
        cluster.step(any_legal(cluster.mask(), draw))
        yield


def play_das(env: Any, jobs: list[dict[str, Any]], draw: Draw) -> Iterator[None]:
    """An episode of DAS."""
    names = [column.name for column in GANG_JOBS]
    taken = {field.name for field in fields(das.Simulator)} - {"rows"}
    options = {name: getattr(env, name) for name in taken if hasattr(env, name)}
    cluster = das.Simulator([tuple(job[name] for name in names[:6]) for job in jobs], **options)
    while not cluster.done():
        cluster.observation()
        affinity = [[draw.random() for _ in range(env.num_servers)] for _ in range(env.window)]
        cluster.decide([draw.random() for _ in range(env.window)], affinity)
        yield


def play_mlfs(env: Any, jobs: list[dict[str, Any]], draw: Draw) -> Iterator[None]:
    """An episode of MLFS."""
    in_cases = {option: name for name, option in env.former_options.items()}
    names = set(type(env).__dataclass_fields__) - {"order", "decide", "reward", "slot_every"}
    config = {in_cases.get(name, name): getattr(env, name) for name in names}
    cluster = mlfs.Simulator(config, jobs, snapshot_slots=())
    while cluster.offer is not None:
        cluster.act(any_legal(cluster.offer.mask, draw))
        yield


PLAYS: dict[str, Play] = {
    "sched2": play_sched2,
    "dl2": play_dl2,
    "chic": play_chic,
    "das": play_das,
    "mlfs": play_mlfs,
}


def episodes(name: str, jobs: int = JOBS) -> Iterator[None]:
    """Steps of a system's episodes, one after the other, for ever."""
    system, draw = registry.get(name), random.Random(0)
    env = functions.environment(system)
    tables = system.jobs.adapted(
        traces.get(functions.traces(system).test, num_traces=3, num_jobs=jobs)
    )
    while True:
        for table in tables:
            first = table.take(np.arange(min(jobs, len(table))))
            yield from PLAYS[name](env, rows_of(first), draw)


def main() -> None:
    """Answer requests about the system that is named."""
    running = episodes(sys.argv[1])

    def steps(number: int) -> None:
        for _ in range(number):
            next(running)

    title = f"plain Python {sys.argv[1]}"
    serve(title, ("numpy",), lambda asked: time_alone(steps, asked), batched=False)


if __name__ == "__main__":
    main()
