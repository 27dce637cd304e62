"""How long an epoch or iteration takes with ``w`` workers and ``p`` parameter servers.

Synchronous training with a fixed global batch (Optimus, Eq. 3; DL2, section 2): more workers
divide the compute time, each parameter server carries ``w / p`` of the gradients, and every task
adds a constant overhead. Where communication overlaps with the backward pass, up to two thirds of
the compute time hide it.

Axes: ``M`` job types, ``W`` and ``P`` the largest numbers of workers and parameter servers.
"""

import json
from importlib import resources
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from jaxsched.elastic.models import ARTEFACT_SAMPLES, IDENTIFIERS, NAMES

Comm = Literal["ps", "allreduce"]
BACKWARD_SHARE = 2 / 3  # of the compute time is the backward pass
SECONDS_AT_4_4 = 60.0  # per epoch, what measured speeds are scaled to
MEASURED_TASKS = 16  # workers and PS in the measured grids
GRID_TASKS = 33  # in the grids of DL2's published simulator
Reals = npt.NDArray[np.float64]


def seconds(coefficients: Any, w: Any, p: Any, *, overlap: float = 0.0, comm: Comm = "ps") -> Reals:
    """Seconds per epoch (DL2) or iteration (Chic), host side in float64.

    ::

        compute = A / w
        traffic = K * w / p                      # all-reduce: 2 * K * (w - 1) / w
        hidden  = overlap * min(traffic, 2/3 * compute)
        tau     = compute + traffic - hidden + B + D * w + F * p

    Args:
      coefficients: ``(A, B, K, D, F)``, ``[..., 5]``.
      w: workers, broadcast against the coefficients' leading axes.
      p: parameter servers; ignored with all-reduce, whose ``F`` term is dropped too.
      overlap: share of the hideable communication that is hidden, in [0, 1].
      comm: parameter servers or all-reduce.

    Returns:
      Seconds; infinite where no worker (or, with parameter servers, no server) is there.
    """
    a, b, k, d, f = np.moveaxis(np.asarray(coefficients, np.float64), -1, 0)
    w, p = np.asarray(w, np.float64), np.asarray(p, np.float64)
    workers = np.maximum(w, 1.0)
    compute = a / workers
    if comm == "ps":
        traffic = k * w / np.maximum(p, 1.0)
        overhead, runs = d * w + f * p, (w > 0) & (p > 0)
    else:
        traffic = 2.0 * k * (w - 1.0) / workers
        overhead, runs = d * w + 0.0 * p, (w > 0) & (p >= 0)
    hidden = overlap * np.minimum(traffic, BACKWARD_SHARE * compute)
    return np.where(runs, compute + traffic - hidden + b + overhead, np.inf)


def speed_table(
    coefficients: Any,
    max_workers: int,
    max_ps: int,
    *,
    overlap: float = 0.0,
    comm: Comm = "ps",
) -> Reals:
    """``seconds`` for all numbers of tasks, ``[M, W + 1, P + 1]``."""
    w = np.arange(max_workers + 1)[None, :, None]
    p = np.arange(max_ps + 1)[None, None, :]
    coefficients = np.asarray(coefficients, np.float64)[:, None, None, :]
    return seconds(coefficients, w, p, overlap=overlap, comm=comm)


def measured_table(max_workers: int, max_ps: int, *, comm: Comm = "ps") -> Reals:
    """Seconds per epoch from the measurements published with DL2, ``[M, W + 1, P + 1]``.

    ``60 * s[4, 4] / s[min(p, 16), min(w, 16)]`` with ``s`` the measured samples per second; with
    all-reduce ``p`` is replaced by ``w``. Infinite where a job cannot train.
    """
    file = resources.files("jaxsched.elastic") / "measured_speed.json"
    grids = json.loads(file.read_text())["samples_per_second"]
    speed = np.array([grids[name] for name in IDENTIFIERS])  # [M, p - 1, w - 1]
    w, p = np.arange(max_workers + 1)[:, None], np.arange(max_ps + 1)[None, :]
    runs = (w > 0) & (p > 0)
    if comm == "allreduce":
        runs, p = (w > 0) & (p >= 0), w
    column = np.clip(w, 1, MEASURED_TASKS) - 1
    row = np.clip(p, 1, MEASURED_TASKS) - 1
    tau = SECONDS_AT_4_4 * speed[:, 3, 3][:, None, None] / speed[:, row, column]
    return np.where(runs, tau, np.inf)


def grid_rates(max_workers: int, max_ps: int) -> Reals:
    """Epochs per second in the simulator that DL2's authors published, ``[M, W + 1, P + 1]``.

    Samples per second over the samples of an epoch; 0 where a job has no worker or no PS. The
    grids were extrapolated from measurements without clipping: some speeds of two types are 0 or
    below, and are used as they are.

    Args:
      max_workers: W, at most 33.
      max_ps: P, at most 33.
    """
    file = resources.files("jaxsched.elastic") / "artefact_speed.json"
    grids = json.loads(file.read_text())["samples_per_second"]
    speed = np.swapaxes(np.array(grids, np.float64), 1, 2)  # [M, w - 1, p - 1]
    rates = np.zeros((len(NAMES), max_workers + 1, max_ps + 1))
    rates[:, 1:, 1:] = speed[:, :max_workers, :max_ps] / ARTEFACT_SAMPLES[:, None, None]
    return rates
