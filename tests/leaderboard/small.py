"""A small trace with owners, shares of GPUs and rows without run times."""

import numpy as np

from jaxsched.traces import Trace, write_trace


def trace_file(folder, count=200, name="hand"):
    rng = np.random.default_rng(0)
    columns = {
        "submit_time": np.cumsum(rng.exponential(100, count)),
        "num_gpus": rng.choice([0.5, 1, 2, 8, 24], count, p=[0.2, 0.5, 0.1, 0.15, 0.05]),
        "duration": np.where(rng.random(count) < 0.05, np.nan, rng.lognormal(6, 1, count)),
        "group": rng.choice(["a", "b"], count),
    }
    path = folder / f"{name}.csv.gz"
    write_trace(path, Trace(columns, name))
    return path
