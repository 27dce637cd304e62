"""Joint distribution of size, outcome and run time where only its margins are published.

Helios publishes the distribution of run times over all jobs, the shares of jobs and of GPU time by
size, and both by outcome. Drawing the three independently understates GPU time (large jobs run
longer). Here each size and each outcome tilts the common distribution by a power of the run time,

    P(c, k, b) = q(c, k) a(b) t(b) ** (theta(c) + phi(k)),

and q, a, theta, phi are fitted in turn (iterative proportional fitting, Newton steps for the
powers) until all margins hold. Axes: ``C`` size classes, ``K`` outcomes, ``B`` run-time bins.
"""

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError

Floats = npt.NDArray[np.float64]

_STEP = 0.5
_LARGEST_POWER = 6.0


def rake(table: npt.ArrayLike, rows: npt.ArrayLike, columns: npt.ArrayLike) -> Floats:
    """The table ``[C, K]`` of sums ``rows`` and ``columns`` that keeps the odds ratios of another.

    Source: Deming and Stephan, 1940, iterative proportional fitting.
    """
    joint = np.array(table, np.float64)
    row_sums, column_sums = np.asarray(rows, np.float64), np.asarray(columns, np.float64)
    column_sums = column_sums * (row_sums.sum() / column_sums.sum())
    for _ in range(500):
        joint *= (row_sums / joint.sum(axis=1))[:, None]
        joint *= column_sums / joint.sum(axis=0)
    return joint


def couple(
    joint_ck: npt.ArrayLike,
    share_b: npt.ArrayLike,
    time_b: npt.ArrayLike,
    *,
    gpus_c: npt.ArrayLike,
    mean_c: npt.ArrayLike,
    work_k: npt.ArrayLike,
    iterations: int = 4000,
    tolerance: float = 1e-4,
) -> Floats:
    """The joint distribution ``[C, K, B]`` with these margins.

    Args:
      joint_ck: share of jobs of each size and outcome ``[C, K]``, summing to 1.
      share_b: share of jobs in each run-time bin ``[B]``, summing to 1.
      time_b: mean run time (s) in each bin ``[B]``.
      gpus_c: GPUs of the jobs of each class ``[C]``.
      mean_c: mean run time (s) of each class ``[C]``.
      work_k: share of the GPU time of each outcome ``[K]``; those of classes follow from the
        means.
      iterations: at most so many rounds.
      tolerance: largest relative error of a mean or a share of GPU time.

    Raises:
      JaxschedError: no such distribution was found.
    """
    weight = np.asarray(joint_ck, np.float64)
    bins, times = np.asarray(share_b, np.float64), np.asarray(time_b, np.float64)
    gpus, means = np.asarray(gpus_c, np.float64), np.asarray(mean_c, np.float64)
    share_c = weight.sum(axis=1)
    means = means * (bins @ times) / (share_c @ means)  # margins agree on the mean of all jobs
    work = np.asarray(work_k, np.float64)
    work = work / work.sum() * float(share_c @ (gpus * means))
    logs = np.log(times)
    logs = logs - bins @ logs
    theta, phi = np.zeros(len(share_c)), np.zeros(len(work))
    a, q = bins.copy(), weight.copy()
    error = float("inf")
    for _ in range(iterations):
        tilt = np.exp((theta[:, None] + phi)[..., None] * logs)
        for _ in range(3):
            q = weight / (tilt @ a)
            a = bins / np.einsum("ck,ckb->b", q, tilt)
        joint = q[..., None] * a * tilt
        by_class = np.einsum("ckb,b->c", joint, times) / share_c
        by_outcome = np.einsum("ckb,b,c->k", joint, times, gpus)
        errors = (np.log(means / by_class), np.log(work / by_outcome))
        error = max(float(np.max(np.abs(part))) for part in errors)
        if error < tolerance:
            return joint
        # d log(mean) / d theta is the run-time-weighted mean of log t less the plain one.
        heavy = np.einsum("ckb,b,b->ck", joint, times, logs)
        plain = np.einsum("ckb,b->ck", joint, logs) / weight
        total = np.einsum("ckb,b->ck", joint, times)
        slope = heavy - total * plain
        by_gpus = (slope * gpus[:, None]).sum(axis=0) / (total * gpus[:, None]).sum(axis=0)
        theta += _STEP * errors[0] / np.maximum(slope.sum(axis=1) / total.sum(axis=1), 0.1)
        phi += _STEP * errors[1] / np.maximum(by_gpus, 0.1)
        phi -= phi.mean()
        theta = np.clip(theta, -_LARGEST_POWER, _LARGEST_POWER)
        phi = np.clip(phi, -_LARGEST_POWER, _LARGEST_POWER)
    raise JaxschedError(
        f"no joint distribution was found, the largest error is {error:.2g}; "
        "accepted: margins that agree with each other"
    )
