"""When MLF-C believes that a job is done: at the iterations that its predictor tells.

The paper stops jobs by predicted accuracies, right to 90 % (CoNEXT '20). Here the curve's form is
known, so a prediction is the true curve times ``1 + e`` with an error ``e`` of each job's own, and
the job is stopped at the first iteration whose predicted accuracy is the one asked for.
"""

import zlib

import numpy as np

from jaxsched.jobs import JobTable

LEAST_FACTOR = 0.05  # of a predicted accuracy to the true one


def predicted_stops(table: JobTable, error: int) -> dict[str, np.ndarray]:
    """Iterations at which MLF-C sees 99 % of the last accuracy and the target, int64 ``[n]``.

    Args:
      table: of the schema ``TASK_JOBS``.
      error: mean absolute error of predicted accuracies, per cent of them; normal, drawn from the
        table's own numbers, so that all policies meet the same ones.
    """
    true = {"stop_optimal": table["opt_iter"], "stop_target": table["req_iter"]}
    if error == 0:
        return true
    seed = zlib.crc32(np.ascontiguousarray(table["submit_time"], np.int64).tobytes())
    deviation = error / 100 * np.sqrt(np.pi / 2)
    draws = np.random.default_rng(seed).normal(0.0, deviation, len(table))
    factor = np.maximum(1 + draws, LEAST_FACTOR)
    slope = table["curve_a"] / 1000
    return {
        name: _first_with(accuracy(slope * stop) / factor, slope, table["iterations"])
        for name, stop in true.items()
    }


def accuracy(progress: np.ndarray) -> np.ndarray:
    """Share of the last accuracy after ``a n`` of progress, in 0..1 (section 3.3)."""
    return progress / (1 + progress)


def _first_with(share: np.ndarray, slope: np.ndarray, iterations: np.ndarray) -> np.ndarray:
    """First iteration of at least so large a share; all iterations where none is."""
    reachable = share < 1
    needed = np.where(reachable, share, 0.0)
    first = np.ceil(needed / (1 - needed) / slope - 1e-9)
    return np.clip(np.where(reachable, first, iterations), 1, iterations).astype(np.int64)
