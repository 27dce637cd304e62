"""What may change between runs of DL2 without recompiling.

Axes: ``M`` job types, ``W`` and ``P`` the largest numbers of workers and parameter servers.
"""

from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np

from jaxsched.elastic.models import DL2_COEFFICIENTS
from jaxsched.elastic.speed import GRID_TASKS, Comm, grid_rates, measured_table, speed_table
from jaxsched.envs.dl2.dynamics import Rules, SpeedTables
from jaxsched.envs.dl2.tables import NUM_MODELS, JobTables, build_tables
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.types import Array

SpeedMode = Literal["analytic", "measured", "grid"]
SLOT_SECONDS = 1200
PROFILE_POINTS = ((1, 1), (2, 2), (4, 4), (8, 8), (1, 2), (2, 1), (4, 8), (8, 4))
"""Numbers of PS and workers at which Optimus profiles each job type before it starts."""
MOST_PROFILED = 8


class Knowledge(NamedTuple):
    """Noise-free seconds per epoch that the rule-based policies know, float; ``M + 1`` types.

    Attributes:
      reference: ``[M + 1]``, with four workers and four PS.
      profile: ``[M + 1, 8]``, at ``PROFILE_POINTS``.
    """

    reference: Array
    profile: Array


class Params(NamedTuple):
    """Parameters of DL2.

    Attributes:
      jobs: the stack of job tables; an episode is an index into it.
      draw: int32 ``[2]``, resets draw among ``draw[1]`` episodes from ``draw[0]`` on.
      speed: how fast jobs train.
      known: what the rule-based policies know of it.
      d_scale: float, slots in the cluster that count as 1 in the observation.
      e_scale: float, remaining epochs that count as 1.
    """

    jobs: JobTables
    draw: Array
    speed: SpeedTables
    known: Knowledge
    d_scale: Array
    e_scale: Array


def build_params(
    tables: list[JobTable],
    rules: Rules,
    *,
    comm: Comm,
    speed_mode: SpeedMode,
    overlap: float,
    contention: float | None,
    d_scale: float,
    e_scale: float,
    coefficients: Any,
) -> Params:
    """Check everything and lay it out for the device; see ``DL2.params``."""
    if speed_mode not in get_args(SpeedMode):
        known = ", ".join(get_args(SpeedMode))
        raise JaxschedError(f"dl2: speed_mode must be one of {known}, not {speed_mode!r}")
    if contention is None:
        contention = 0.0 if speed_mode == "grid" else 1.0
    checks = (
        ("overlap", overlap, 0 <= overlap <= 1, "in [0, 1]"),
        ("contention", contention, 0 <= contention < float("inf"), "from 0 on"),
        ("d_scale", d_scale, 0 < d_scale < float("inf"), "above 0"),
        ("e_scale", e_scale, 0 < e_scale < float("inf"), "above 0"),
    )
    for name, value, holds, accepted in checks:
        if not holds:
            raise JaxschedError(f"dl2: {name} must be a number {accepted}, not {value!r}")
    most = (rules.max_workers, rules.max_ps)
    if speed_mode == "grid":
        tau, rate = _grid(rules, comm)
        most = (most[0] + 1, most[1] + 1)  # the artefact's Optimus looks beyond the limits
        rate = np.concatenate([rate, np.zeros((1, *rate.shape[1:]))])
    elif speed_mode == "measured":
        tau = measured_table(*(max(m, MOST_PROFILED) for m in most), comm=comm)
    else:
        size = (max(m, MOST_PROFILED) for m in most)
        tau = speed_table(_checked(coefficients), *size, overlap=overlap, comm=comm)
    tau = np.concatenate([tau, np.full((1, *tau.shape[1:]), np.inf)])
    seconds = tau[:, : most[0] + 1, : most[1] + 1]
    rate = rate[:, : most[0] + 1, : most[1] + 1] if speed_mode == "grid" else 1.0 / seconds
    servers, workers = np.array(PROFILE_POINTS).T
    all_cpus = max(rules.cluster.totals[1], 1)
    return Params(
        jobs=build_tables(
            tables,
            rules.cluster,
            slot_seconds=rules.slot_seconds,
            window=rules.window,
            max_slots=rules.max_slots,
        ),
        draw=jnp.array([0, len(tables)], jnp.int32),
        speed=SpeedTables(
            seconds=jnp.asarray(seconds, float),
            rate=jnp.asarray(rate, float),
            doubling=jnp.asarray(all_cpus / contention if contention else np.inf, float),
        ),
        known=Knowledge(
            reference=jnp.asarray(tau[:, 4, 4], float),
            profile=jnp.asarray(tau[:, workers, servers], float),
        ),
        d_scale=jnp.asarray(d_scale, float),
        e_scale=jnp.asarray(e_scale, float),
    )


def _grid(rules: Rules, comm: Comm) -> tuple[np.ndarray, np.ndarray]:
    """Seconds per epoch, infinite where a job does not get on, and epochs per second."""
    if comm != "ps" or max(rules.max_workers, rules.max_ps) >= GRID_TASKS:
        raise JaxschedError(
            "dl2: speed_mode is 'grid'; accepted: with parameter servers, at most "
            f"{GRID_TASKS - 1} workers and PS of a job"
        )
    rate = grid_rates(GRID_TASKS, GRID_TASKS)
    return np.where(rate > 0, 1.0 / np.where(rate > 0, rate, 1.0), np.inf), rate


def _checked(coefficients: Any) -> np.ndarray:
    if coefficients is None:
        return DL2_COEFFICIENTS
    values = np.asarray(coefficients, np.float64)
    if values.shape != (NUM_MODELS, 5) or not np.all(np.isfinite(values) & (values >= 0)):
        raise JaxschedError(
            f"dl2: coefficients are an array of shape {values.shape}; accepted: "
            f"{NUM_MODELS} x 5 finite numbers from 0 on"
        )
    if not np.all(values[:, 0] > 0):
        raise JaxschedError("dl2: a coefficient A is 0; accepted: numbers above 0")
    return values
