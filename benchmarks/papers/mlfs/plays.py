"""Plays on test tables, episode by episode, kept on disk.

Axes: ``S`` seeds, ``E`` tables, ``J`` jobs of the longest one. On a CPU one episode at a time is as
fast as many side by side; all share their parameters, so that nothing is compiled anew.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxsched
from benchmarks.papers.lab import Lab
from benchmarks.papers.mlfs.players import Player
from benchmarks.papers.samples import Sample, plain
from benchmarks.papers.settings import Workload, key_of
from benchmarks.papers.store import read, write
from jaxsched.core.evaluation import run_episodes
from jaxsched.envs.mlfs.show import log as rec
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.systems import functions
from jaxsched.types import PyTree

NUM_TABLES = 5  # at least five seeds of workloads
SHARES = np.linspace(0.0, 1.0, 201)
UNFINISHED = "unfinished"

Tables = Mapping[str, Sequence[JobTable]]
"""Load -> test tables."""


class Play(NamedTuple):
    """One policy on the tables of one load.

    Attributes:
      sample: metric -> float64 ``[S, E]``, with ``unfinished`` jobs beside those of section 8.
      jct_min: minutes that shares ``SHARES`` of the finished jobs of all tables and seeds take at
        most; empty if none finished.
    """

    sample: Sample
    jct_min: Sequence[float]


def test_tables(
    lab: Lab, trace: str, *, count: int | None = None, num_jobs: int | None = None
) -> list[JobTable]:
    """Test tables of a named trace; what they are is noted with the row.

    Args:
      lab: with the settings.
      trace: its name.
      count: tables, unless the settings say otherwise; ``NUM_TABLES`` by default.
      num_jobs: of each, whatever the settings say.
    """
    count = lab.settings.num_test or count or NUM_TABLES
    tables = Workload(trace, num_jobs=num_jobs).tables("test", count, lab.settings.num_jobs)
    lab.digests[f"{trace}, test, {count} of {len(tables[0])} jobs"] = digest_tables(tables)
    return tables


def play(lab: Lab, player: Player, tables: Tables) -> dict[str, Play]:
    """A policy on the tables of each load; what was played before is read back.

    Raises:
      JaxschedError: an episode did not end within the environment's step bound.
    """
    together = [table for part in tables.values() for table in part]
    params, first, plays = None, 0, {}
    for load, part in tables.items():
        path = lab.store.path / "plays" / f"{_key(lab, player, part)}.json"
        found = _read(path)
        if found is None:
            if params is None:
                params = player.env.params(together)
            lab.say(f"playing {player.name}, {load}, {len(part)} tables")
            found = _played(lab, player, params, range(first, first + len(part)), part)
            write(path, {"metrics": plain(found.sample), "jct_min": list(found.jct_min)})
        plays[load] = found
        first += len(part)
    if params is not None:
        jax.clear_caches()  # nobody else uses this policy's program
    return plays


def play_all(lab: Lab, players: Sequence[Player], tables: Tables) -> dict[str, dict[str, Play]]:
    """Plays of several policies, by load and policy."""
    by_load: dict[str, dict[str, Play]] = {load: {} for load in tables}
    for player in players:
        for load, found in play(lab, player, tables).items():
            by_load[load][player.name] = found
    return by_load


def samples_of(plays: Mapping[str, Play]) -> dict[str, Sample]:
    """The samples of several policies."""
    return {name: found.sample for name, found in plays.items()}


def values_of(plays: Mapping[str, Mapping[str, Play]]) -> dict[str, Any]:
    """JSON-able, by load and policy."""
    return {
        load: {name: {**plain(p.sample), "jct_quantiles_min": p.jct_min} for name, p in row.items()}
        for load, row in plays.items()
    }


def _played(
    lab: Lab, player: Player, params: Any, episodes: range, tables: Sequence[JobTable]
) -> Play:
    jobs = np.array([len(table) for table in tables], np.float64)
    metrics: list[list[dict[str, float]]] = []
    minutes: list[np.ndarray] = []
    for weights in player.weights:
        row = []
        for episode in episodes:
            found, jct_s = _episode(lab, player, params, episode, weights)
            row.append(found)
            minutes.append(jct_s[np.isfinite(jct_s)] / 60.0)
        metrics.append(row)
    sample = {
        name: np.array([[found[name] for found in row] for row in metrics], np.float64)
        for name in metrics[0][0]
    }
    sample[UNFINISHED] = jobs - sample["finished"]
    times = np.concatenate(minutes)
    return Play(sample, np.quantile(times, SHARES).tolist() if times.size else [])


def _episode(
    lab: Lab, player: Player, params: Any, episode: int, weights: PyTree
) -> tuple[dict[str, float], np.ndarray]:
    """Metrics of one episode, and the completion times (s) of its jobs, ``[J]``."""
    env, index = player.env, np.array([episode])
    outcome = run_episodes(
        env,
        player.policy,
        lab.system.log.recorder(env),
        params,
        jnp.asarray(index),
        jax.random.key(0),
        weights,
    )
    if not bool(outcome.finished[0]):
        raise JaxschedError(f"{player.name}: an episode did not end within its step bound")
    metrics = lab.system.log.metrics(env, params, index, outcome.records)
    found = {name: float(values[0]) for name, values in metrics.items()}
    return found, rec.completion_s(params, index, outcome.records)[0]


def _key(lab: Lab, player: Player, tables: Sequence[JobTable]) -> str:
    return key_of(
        behaviour_version=lab.system.environment.behaviour_version,
        version=jaxsched.__version__,
        environment=functions.environment_options(lab.system, player.env),
        policy=player.policy.name,
        weights=[_digest(weights) for weights in player.weights],
        tables=digest_tables(tables),
    )


def _digest(weights: PyTree) -> str:
    """Sixteen hex digits of network parameters."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(weights):
        found.update(np.asarray(leaf).tobytes())
    return found.hexdigest()[:16]


def _read(path: Any) -> Play | None:
    document = read(path)
    if document is None:
        return None
    sample = {name: np.array(values, np.float64) for name, values in document["metrics"].items()}
    return Play(sample, document["jct_min"])
