"""A generator of rigid jobs: bursty arrivals, log-normal run times, day and night."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.jobs.draws import generator, pick

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SyntheticConfig:
    """What the generator draws from.

    Attributes:
      num_jobs: jobs per trace.
      mean_gap_s: mean time between submissions (s), before ``interval_scale``.
      gap_sigma: sigma of the log-normal gaps; 1.6 gives a coefficient of variation of about 3.5.
      one_gpu_share: probability of a one-GPU job, in [0, 1].
      multi_gpu_sizes: GPUs of the other jobs.
      multi_gpu_weights: their proportions.
      duration_median_s: median of the log-normal run times (s) before clipping.
      duration_sigma: their sigma.
      duration_min_s: run times are clipped to ``[duration_min_s, duration_max_s]`` ...
      duration_max_s: ... (s) ...
      duration_step_s: ... and rounded to multiples of this (s).
      model_shares: share of each model id.
      interval_scale: factor on all submission times.
      diurnal_amplitude: arrival rate is multiplied by ``1 + amplitude * sin(2 pi t / period)``;
        in [0, 1), 0 for none.
      diurnal_period_s: period of that modulation (s).
    """

    num_jobs: int
    mean_gap_s: float
    gap_sigma: float
    one_gpu_share: float
    multi_gpu_sizes: tuple[int, ...]
    multi_gpu_weights: tuple[float, ...]
    duration_median_s: float
    duration_sigma: float
    duration_min_s: float
    duration_max_s: float
    duration_step_s: int
    model_shares: tuple[float, ...]
    interval_scale: float = 1.0
    diurnal_amplitude: float = 0.0
    diurnal_period_s: float = 86400.0

    def __post_init__(self) -> None:
        """Refuse values that cannot be drawn from."""
        checks = (
            ("num_jobs", self.num_jobs >= 1, "a whole number from 1 on"),
            ("mean_gap_s", 0 < self.mean_gap_s < math.inf, "seconds above 0"),
            ("gap_sigma", 0 <= self.gap_sigma < 10, "a number from 0 to 10"),
            ("interval_scale", 0 < self.interval_scale < math.inf, "a number above 0"),
            ("one_gpu_share", 0 <= self.one_gpu_share <= 1, "a share from 0 to 1"),
            (
                "multi_gpu_weights",
                len(self.multi_gpu_weights) == len(self.multi_gpu_sizes) > 0,
                "one weight for each of multi_gpu_sizes",
            ),
            ("duration_median_s", 0 < self.duration_median_s < math.inf, "seconds above 0"),
            ("duration_sigma", 0 <= self.duration_sigma < 10, "a number from 0 to 10"),
            ("duration_step_s", self.duration_step_s >= 1, "whole seconds from 1 on"),
            (
                "duration_min_s",
                self.duration_step_s <= self.duration_min_s <= self.duration_max_s,
                "seconds from duration_step_s to duration_max_s",
            ),
            ("diurnal_amplitude", 0 <= self.diurnal_amplitude < 1, "a number from 0 to below 1"),
            ("diurnal_period_s", 0 < self.diurnal_period_s < math.inf, "seconds above 0"),
        )
        for name, holds, accepted in checks:
            if not holds:
                raise JaxschedError(f"{name} is {getattr(self, name)}; accepted: {accepted}")


def generate(
    seed: int,
    num_traces: int = 1,
    *,
    config: SyntheticConfig,
    name: str = "synthetic",
) -> list[JobTable]:
    """Draw traces of rigid jobs.

    Trace ``k`` depends on ``seed`` and ``k`` only, so that asking for more traces extends the
    list. Configurations that differ in shares or scales share their underlying random numbers:
    comparisons between them are paired.

    Args:
      seed: whole number from 0 on.
      num_traces: length of the list.
      config: what to draw from.
      name: traces are called ``name[k]``.

    Raises:
      JaxschedError: an unusable seed, number or configuration.
    """
    check_counts(num_traces=num_traces)
    return [_generate_one(generator(seed, k), config, f"{name}[{k}]") for k in range(num_traces)]


def _generate_one(rng: np.random.Generator, config: SyntheticConfig, name: str) -> JobTable:
    n = config.num_jobs
    # The order of the draws is part of the format: changing it changes every trace.
    gap_normals = rng.standard_normal(n)
    alone = rng.random(n) < config.one_gpu_share
    size_uniforms = rng.random(n)
    duration_normals = rng.standard_normal(n)
    model_uniforms = rng.random(n)

    sizes = np.asarray(config.multi_gpu_sizes, np.int64)
    table = JobTable(
        {
            "submit_time": _arrivals(gap_normals, config),
            "num_gpus": np.where(alone, 1, sizes[pick(size_uniforms, config.multi_gpu_weights)]),
            "duration": _durations(duration_normals, config),
            "model": pick(model_uniforms, config.model_shares),
        },
        name,
    )
    return rescale_arrivals(table, config.interval_scale)


def _arrivals(normals: Floats, config: SyntheticConfig) -> npt.NDArray[np.int64]:
    """Whole seconds since the first submission, before ``interval_scale``."""
    mu = math.log(config.mean_gap_s) - config.gap_sigma**2 / 2
    times = np.cumsum(np.exp(mu + config.gap_sigma * normals))
    times = _modulate(times - times[0], config.diurnal_amplitude, config.diurnal_period_s)
    return np.floor(times).astype(np.int64)


def _modulate(times: Floats, amplitude: float, period_s: float) -> Floats:
    """Move arrivals so that their rate follows a sine of mean 1, keeping them in order.

    With the rate ``1 + a sin(2 pi t / p)``, the expected number of arrivals by ``t`` grows as
    ``t + a p / (2 pi) (1 - cos(2 pi t / p))``; the moved times are its inverse at ``times``.
    """
    if amplitude == 0:
        return times
    grid = np.arange(0.0, times[-1] + period_s / 500, period_s / 1000)
    angle = 2 * np.pi / period_s
    elapsed = grid + amplitude / angle * (1 - np.cos(angle * grid))
    return np.interp(times, elapsed, grid)


def _durations(normals: Floats, config: SyntheticConfig) -> npt.NDArray[np.int64]:
    seconds = config.duration_median_s * np.exp(config.duration_sigma * normals)
    clipped = np.clip(seconds, config.duration_min_s, config.duration_max_s)
    step = config.duration_step_s
    return (np.floor(clipped / step + 0.5) * step).astype(np.int64)
