"""E4: how many workers per parameter server the learned policy gives a Seq2Seq job."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.dl2.common import PRESETS, outcome, study
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested
from benchmarks.papers.policies import Policies
from jaxsched.core.evaluation import Recorder, run_episodes
from jaxsched.elastic.models import NAMES
from jaxsched.envs.dl2.rules import PS, WORKER
from jaxsched.envs.dl2.show.paper import WORKERS_PER_SERVER as PAPER
from jaxsched.types import Array, TimeStep

MODEL = "Seq2Seq"
SLOTS = 400  # that are recorded


class Holdings(NamedTuple):
    """What each job held, int32; ``T`` slots, ``N`` jobs."""

    now: Array  # [2, N], workers and PS in the slot that is being filled
    held: Array  # [T, 2, N], in the slots that have ended


def holdings() -> Recorder:
    """Gathers ``Holdings`` from the increments of each slot."""

    def init(params: Any) -> Holdings:
        size = params.jobs.info.shape[1]
        none = jnp.zeros((2, size), jnp.int32)
        return Holdings(none, jnp.zeros((SLOTS, 2, size), jnp.int32))

    def update(records: Holdings, timestep: TimeStep, playing: Array) -> Holdings:
        step: Any = timestep.metrics
        placed = step.increment.placed & playing
        kind = step.increment.kind
        more = jnp.stack([placed & (kind != PS), placed & (kind != WORKER)]).astype(jnp.int32)
        now = records.now.at[:, step.increment.job].add(more)
        ends = step.slot_ended & playing
        slot = jnp.where(ends, step.slot, SLOTS)
        held = records.held.at[slot].set(now, mode="drop")
        return Holdings(jnp.where(ends, 0, now), held)

    return Recorder(init, update)


RECORDER = holdings()


def held_by(lab: Lab, trained: Policies, tables: Any) -> np.ndarray:
    """Workers and PS of each job and slot, int ``[S, E, T, 2, N]``."""
    setup = trained.setup
    params = setup.play_env.params(tables)
    runs = []
    for weights in trained.weights:
        episodes = jnp.arange(len(tables))
        key = jax.random.key(0)
        played = run_episodes(
            setup.play_env, setup.policy, RECORDER, params, episodes, key, weights
        )
        runs.append(np.asarray(played.records.held))
    return np.stack(runs)


def ratios(held: np.ndarray) -> np.ndarray:
    """Workers per PS where a job has both, else nan; ``[..., 2, N]`` to ``[..., N]``."""
    workers, servers = held[..., 0, :].astype(float), held[..., 1, :]
    both = (workers > 0) & (servers > 0)
    return np.where(both, workers / np.maximum(servers, 1), np.nan)


def seq2seq(lab: Lab) -> Outcome:
    """E4, Fig. 11."""
    chosen = study(lab, PRESETS["testbed"])
    trained = lab.train("dl2, testbed", chosen)
    tables = lab.test_tables(chosen.workload, chosen.recipe)
    held = held_by(lab, trained, tables)
    found = ratios(held)
    model = NAMES.index(MODEL)
    jobs = [
        (e, j) for e, table in enumerate(tables) for j in np.flatnonzero(table["model"] == model)
    ]
    item = "mean w/p over the slots of one Seq2Seq job"
    if not jobs:
        why = "no Seq2Seq job in the test tables"
        return outcome([], [not_tested(item, PAPER, why)], {}, None)
    episode = jobs[0][0]
    mine = [j for e, j in jobs if e == episode]
    job = max(mine, key=lambda j: tables[episode]["epochs"][j])
    one = found[:, episode, :, job]
    means = [float(np.nanmean(row)) for row in one if np.any(~np.isnan(row))]
    every = np.stack([found[:, e, :, j] for e, j in jobs])
    rows: list[Any] = [
        [
            f"job {job} of table {episode}, seed {seed}",
            float(np.nanmean(row)),
            int(np.sum(~np.isnan(row))),
        ]
        for seed, row in zip(trained.seeds, one, strict=True)
        if np.any(~np.isnan(row))
    ]
    if np.any(~np.isnan(every)):
        rows.append(["all Seq2Seq jobs", float(np.nanmean(every)), int(np.sum(~np.isnan(every)))])
    table = Table("workers per parameter server", ["what", "mean w/p", "slots"], rows, 2)
    checks: list[Check] = []
    if means:
        mean = float(np.mean(means))
        checks.append(Check(f"{item} (job {job} of table {episode})", PAPER, f"{mean:.2f}"))
        checks.append(beside("mean w/p, all Seq2Seq jobs", PAPER, f"{np.nanmean(every):.2f}"))
    else:
        checks.append(not_tested(item, PAPER, "it never had a worker and a server"))

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        tasks = held[0, episode, :, :, job]
        slots = np.flatnonzero(tasks.sum(axis=1))
        series = {
            name: [(float(slot), float(tasks[slot, kind])) for slot in slots]
            for kind, name in enumerate(("workers", "servers"))
        }
        figures.curves(
            left, series, x_label="slot", y_label="tasks", title=f"job {job}, first seed"
        )
        known = every[~np.isnan(every)]
        right.hist(known, bins=20, color=figures.COLOURS[0])
        right.set_xlabel("w/p, all Seq2Seq jobs")
        right.set_ylabel("slots")

    values = {"one": means, "all": every[~np.isnan(every)].tolist()}
    return outcome([table], checks, values, draw, f"the first {SLOTS} slots of each table")
