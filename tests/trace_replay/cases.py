"""Small random instances of rigid jobs, and the oracle's records of a table."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.trace_replay.engine import Rules, opened, step
from tests.trace_replay.oracle import simulate

NAMES = ("submit_time", "num_gpus", "duration", "group")
FURTHER = ("estimate", "time_to_deadline", "priority")
COMPARED = ("start", "end", "num_servers", "first_server", "preemptions")


def random_columns(seed, num_jobs, total_gpus):
    """Bursts, equal run times, sizes up to the whole cluster; every second trace starts at 0."""
    rng = np.random.default_rng(seed)
    gaps = rng.integers(0, rng.choice([2, 4, 12]), num_jobs) * rng.integers(0, 2, num_jobs)
    submit = np.cumsum(gaps)
    small = rng.integers(1, 5, num_jobs)
    large = rng.integers(1, total_gpus + 1, num_jobs)
    return {
        "submit_time": submit - (submit[0] if seed % 2 else 0),
        "num_gpus": np.where(rng.random(num_jobs) < 0.6, small, large),
        "duration": rng.integers(1, rng.choice([5, 12, 40]), num_jobs),
        "group": rng.integers(0, 3, num_jobs),
    }


def with_estimates(table, seed, *, least=0.0):
    """The same jobs with what policies may know besides.

    Estimates from ``least`` to thrice the run times, deadlines for most, three priorities.
    """
    rng = np.random.default_rng([seed, 1])
    duration = np.asarray(table["duration"])
    count = len(duration)
    estimate = np.maximum(np.ceil(duration * rng.choice([least, 1, 1, 2, 3], count)), 1)
    left = np.where(rng.random(count) < 0.7, rng.integers(0, 60, count), 2**31 - 1)
    return table | {
        "estimate": estimate.astype(int),
        "time_to_deadline": left,
        "priority": rng.integers(0, 3, count),
    }


def expected(table, cluster, policy):
    """The oracle's records, ``[5, n]`` in the order of ``COMPARED``."""
    jobs, size = jobs_of(table), cluster.gpus_per_server
    if cluster.kinds:
        size = [tuple(kind[:3]) for kind in cluster.kinds]
    return np.array(simulate(jobs, cluster.num_servers, size, policy)).T


def jobs_of(table):
    """The rows of a table as the oracle takes them."""
    columns = [np.asarray(table[name]).tolist() for name in NAMES[:3]]
    columns.append(
        np.asarray(table["group"]).tolist() if "group" in table else [0] * len(columns[0])
    )
    columns += [np.asarray(table[name]).tolist() for name in FURTHER if name in table]
    return list(zip(*columns, strict=True))


def found(records):
    return np.array([getattr(records, name) for name in COMPARED])


def easy_program(cluster, own, shape):
    """The state before the first step of a prepared table under EASY, and the step as a text."""
    rules = Rules(cluster, shape, "key", "easy", "strict", False, False, False, False)
    state = opened(rules, own)
    return state, str(jax.make_jaxpr(partial(step, rules, jnp.int32(1)))(own, state))
