"""Small random instances of rigid jobs, and the oracle's records of a table."""

import numpy as np

from tests.trace_replay.oracle import simulate

NAMES = ("submit_time", "num_gpus", "duration", "group")
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


def expected(table, cluster, policy):
    """The oracle's records, ``[5, n]`` in the order of ``COMPARED``."""
    columns = [np.asarray(table[name]).tolist() for name in NAMES[:3]]
    columns.append(
        np.asarray(table["group"]).tolist() if "group" in table else [0] * len(columns[0])
    )
    jobs = list(zip(*columns, strict=True))
    return np.array(simulate(jobs, cluster.num_servers, cluster.gpus_per_server, policy)).T


def found(records):
    return np.array([getattr(records, name) for name in COMPARED])
