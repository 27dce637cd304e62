"""What schedulers believe of a job whose accuracies and run time they predict.

The paper stops jobs (MLF-C) by predicted accuracies, right to 90 %, and orders them by predicted
run times, right to 89 % for jobs seen before and to 70 % for others (CoNEXT '20). Here both are
known, so a prediction is the truth times ``1 + e`` with an error ``e`` of each job's own. A job is
stopped at the first iteration whose predicted accuracy is the one asked for.
"""

import zlib
from typing import NamedTuple

import numpy as np

from jaxsched.envs.mlfs.jobs import INT32_LIMIT
from jaxsched.jobs import JobTable

LEAST_FACTOR = 0.05  # of a prediction to the truth
ACCURACY: tuple[int, ...] = ()
RUN_TIME: tuple[int, ...] = (1,)
"""Streams of errors."""


class Errors(NamedTuple):
    """Mean absolute errors of predictions, per cent of the truth.

    Attributes:
      accuracy: of accuracies, by which MLF-C stops jobs.
      run_time: of the time that iterations take.
    """

    accuracy: int = 0
    run_time: int = 0


def predicted_times(
    table: JobTable, times: dict[str, np.ndarray], error: int
) -> dict[str, np.ndarray]:
    """Work and paths of iterations as schedulers believe them, int64 of the same shapes.

    Args:
      table: of the schema ``TASK_JOBS``.
      times: ``[n]`` or ``[n, P]``, mmin of an iteration; "total_work" is that of all its tasks.
      error: mean absolute error, per cent; all times of a job are off by the same factor, as far as
        the work of all iterations stays below 2**31.
    """
    if error == 0:
        return times
    most = (INT32_LIMIT - 1) / ((table["iterations"] + 1) * times["total_work"])
    factor = np.minimum(_factors(table, error, RUN_TIME), most)
    columns = {1: factor, 2: factor[:, None]}
    return {
        name: np.where(time > 0, np.maximum(np.floor(time * columns[time.ndim]), 1), 0).astype(
            np.int64
        )
        for name, time in times.items()
    }


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
    factor = _factors(table, error, ACCURACY)
    slope = table["curve_a"] / 1000
    return {
        name: _first_with(accuracy(slope * stop) / factor, slope, table["iterations"])
        for name, stop in true.items()
    }


def _factors(table: JobTable, error: int, stream: tuple[int, ...]) -> np.ndarray:
    """Predictions over the truth, ``[n]``; a stream for each thing predicted."""
    seed = zlib.crc32(np.ascontiguousarray(table["submit_time"], np.int64).tobytes())
    deviation = error / 100 * np.sqrt(np.pi / 2)
    draws = np.random.default_rng([seed, *stream]).normal(0.0, deviation, len(table))
    return np.maximum(1 + draws, LEAST_FACTOR)


def accuracy(progress: np.ndarray) -> np.ndarray:
    """Share of the last accuracy after ``a n`` of progress, in 0..1 (section 3.3)."""
    return progress / (1 + progress)


def _first_with(share: np.ndarray, slope: np.ndarray, iterations: np.ndarray) -> np.ndarray:
    """First iteration of at least so large a share; all iterations where none is."""
    reachable = share < 1
    needed = np.where(reachable, share, 0.0)
    first = np.ceil(needed / (1 - needed) / slope - 1e-9)
    return np.clip(np.where(reachable, first, iterations), 1, iterations).astype(np.int64)
