"""A log whose starts are those of a known policy on a known cluster."""

import functools

import numpy as np

from jaxsched.jobs import JobTable
from jaxsched.trace_replay import POLICIES, Cluster, replay
from jaxsched.trace_replay.tables import COLUMNS
from jaxsched.traces.trace import Trace

CLUSTER = Cluster(3, 4)
SERVERS = "3x4"
SECRET = ("anna.schmidt", "bob", "team-rocket")


@functools.cache
def log(num_jobs: int = 150) -> Trace:
    """Jobs of three users for some two days, served by ``sjf``."""
    draw = np.random.default_rng(3)
    submit = np.sort(draw.integers(0, 2 * 86400, num_jobs))
    gpus = draw.choice([1, 2, 4, 8], num_jobs, p=[0.5, 0.2, 0.2, 0.1])
    duration = np.ceil(draw.lognormal(7.7, 1.2, num_jobs)).astype(np.int64)
    submit -= submit[0]
    table = JobTable(
        {"submit_time": submit, "num_gpus": gpus, "duration": duration}, schema=COLUMNS
    )
    records = replay(table, CLUSTER, POLICIES["sjf-block"])
    return Trace(
        {
            "submit_time": submit.astype(float),
            "num_gpus": gpus.astype(float),
            "duration": duration.astype(float),
            "start_time": records.start.astype(float),
            "end_time": records.end.astype(float),
            "user": np.array(SECRET)[draw.integers(0, 3, num_jobs)],
            "job_id": np.arange(100, 100 + num_jobs).astype(str),
        },
        name="month",
    )
