"""Parameters of a workload from a trace: ``from_json(fit(trace), name)`` draws jobs like it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.traces.clusters.arrivals import DAY_S, HOUR_S, Arrivals, draw_times
from jaxsched.traces.clusters.durations import DurationCurve
from jaxsched.traces.clusters.measure import dispersion, measure
from jaxsched.traces.trace import Trace, known

Floats = npt.NDArray[np.float64]

CLASS_LIMITS = (0, 1, 2, 4, 8, 16)
CASCADE_S = (60, 600, HOUR_S, DAY_S)
RUN_GAP_S = 60.0
_LEAST_VARIANCE = 1e-3
_SKEWS = (1 / 64, 64.0)
_LONGEST_STAY, _HALVINGS, _TRIAL_JOBS = 0.95, 8, 50_000


def fit(
    trace: Trace,
    *,
    description: str = "",
    sources: dict[str, str] | None = None,
    num_gpus: int = 0,
    class_limits: Sequence[float] = CLASS_LIMITS,
    knots_per_octave: int = 4,
    num_phases: int = 1,
) -> dict[str, Any]:
    """Measure what the engine draws from.

    Demands, the outcome and run times of each size class and the reuse within runs are taken as
    they are; run times keep their mean. Bursts come from a cascade of gamma factors that gives
    the counts of windows of 1 min, 10 min, 1 h and 1 day their variance; with ``num_phases`` above
    1, gaps are a mixture of so many exponentials in runs instead, and only days differ. Hours and
    weekdays count where the trace's clock has them.

    Args:
      trace: rows without demand or run time are left out.
      description: one line.
      sources: where the trace comes from, by parameter.
      num_gpus: GPUs of its cluster; 0: not stated.
      class_limits: upper demands of the size classes; a last one holds what is above.
      knots_per_octave: knots of the run times for each doubling.
      num_phases: of the gaps.

    Returns:
      The content of a workload file (``jaxsched.traces.clusters.from_json``).

    Raises:
      JaxschedError: fewer than two usable rows, or all of them submitted at once.
    """
    usable = known(trace, "num_gpus") & known(trace, "duration")
    jobs = trace.take(usable).by_submission()
    if len(jobs) < 2 or jobs["submit_time"][0] == jobs["submit_time"][-1]:
        raise JaxschedError(
            f"{trace.name} has {len(jobs)} usable jobs; "
            "accepted: two or more, with demand and run time, not all submitted at once"
        )
    duration = jobs["duration"]
    shortest = max(float(np.min(duration)) - 0.5, 0.5)
    knots_s = duration_knots(shortest, float(np.max(duration)) + 1, knots_per_octave)
    published = measure(jobs)
    gpus, counts = np.unique(jobs["num_gpus"], return_counts=True)
    return {
        "description": description,
        "sources": sources or {},
        "num_gpus": num_gpus,
        "sizes": [[float(g), int(c)] for g, c in zip(gpus, counts, strict=True)],
        "knots_s": list(knots_s),
        "skew_from_s": 0,
        "classes": size_classes(jobs, class_limits, knots_s),
        "arrivals": _arrivals(jobs["submit_time"], published, num_phases),
        "runs": {"gap_s": RUN_GAP_S, "reuse": reuse(jobs, RUN_GAP_S)},
        "gpu_types": {},
        "num_users": 0,
        "published": published,
    }


def duration_knots(low_s: float, high_s: float, per_octave: int) -> tuple[float, ...]:
    """Knots from ``low_s`` to ``high_s``, whole seconds in between, ``per_octave`` per doubling."""
    count = max(math.ceil(math.log2(high_s / low_s) * per_octave), 1)
    inner = np.unique(np.round(low_s * 2.0 ** (np.arange(1, count) / per_octave)))
    inner = inner[(inner > low_s) & (inner < high_s)]
    return (low_s, *inner.tolist(), high_s)


def size_classes(
    jobs: Trace, limits: Sequence[float], knots_s: tuple[float, ...]
) -> list[dict[str, Any]]:
    """Outcomes, run times and groups of each size class that has jobs."""
    gpus = jobs["num_gpus"]
    edges = sorted({*limits, float(np.max(gpus))})
    index = np.searchsorted(edges, gpus, side="left")
    status = jobs["status"] if "status" in jobs else np.full(len(jobs), "")
    group = jobs["group"] if "group" in jobs else np.full(len(jobs), "")
    classes = []
    for k, limit in enumerate(edges):
        members = index == k
        if not np.any(members):
            continue
        outcomes = []
        for name in np.unique(status[members]):
            these = members & (status == name)
            curve = curve_of(jobs["duration"][these], knots_s)
            outcomes.append(
                {
                    "status": str(name),
                    "share": float(np.sum(these) / np.sum(members)),
                    "percent": list(curve.percent),
                    "skew": curve.skew,
                }
            )
        groups, counts = np.unique(group[members], return_counts=True)
        shares = {str(g): int(c) for g, c in zip(groups, counts, strict=True) if g}
        classes.append({"max_gpus": limit, "outcomes": outcomes, "groups": shares})
    return classes


def reuse(jobs: Trace, gap_s: float) -> float:
    """Probability that a job within ``gap_s`` of the one before goes on with its run.

    Two jobs have the same demand if the second goes on, or by chance, with the probability that
    two independent ones have.
    """
    gpus = jobs["num_gpus"]
    near = np.diff(jobs["submit_time"]) <= gap_s
    _, counts = np.unique(gpus, return_counts=True)
    chance = float(np.sum((counts / len(gpus)) ** 2))
    if not np.any(near) or chance > 1 - 1e-9:
        return 0.0
    same = float(np.mean((np.diff(gpus) == 0)[near]))
    return round(min(max((same - chance) / (1 - chance), 0.0), 0.99), 4)


def phases(gaps_s: Floats, count: int, iterations: int = 500) -> list[list[float]]:
    """(share, mean (s)) of the exponentials whose mixture gaps are most likely under (EM)."""
    gaps = np.maximum(gaps_s, 0.5)  # whole seconds: 0 stands for less than one
    odds = np.geomspace(0.2, 200.0, count)  # a rare phase of long gaps decides on the variance
    means = np.quantile(gaps, odds / (1 + odds)) + np.arange(count)
    shares = np.full(count, 1 / count)
    for _ in range(iterations):
        density = shares / means * np.exp(-gaps[:, None] / means)
        weight = density / np.maximum(density.sum(axis=1, keepdims=True), 1e-300)
        shares = weight.mean(axis=0)
        means = (weight * gaps[:, None]).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300)
    pairs = zip(shares.round(4).tolist(), means.round(2).tolist(), strict=True)
    return [[share, mean] for share, mean in pairs if share > 0]


def cascade(relative: Sequence[float], windows_s: Sequence[int]) -> list[tuple[int, float]]:
    """(window, variance) of gamma factors that give window counts their variance.

    With ``R_j`` the variance of the rate in windows ``w_j`` over its square, and ``E`` what is left
    of it one window below once the factor of ``w_j`` is taken out,

        1 + R_j = (1 + v_j) (1 + E w_(j-1) / w_j),    1 + R_(j-1) = (1 + v_j) (1 + E).

    Args:
      relative: ``R`` of each window, (variance - mean) / mean^2 of its counts.
      windows_s: ascending (s).
    """
    factors: list[tuple[int, float]] = []
    above, rate = 1.0, float(relative[-1])
    for j in range(len(windows_s) - 1, 0, -1):
        below = (1 + relative[j - 1]) / above - 1
        ratio = windows_s[j - 1] / windows_s[j]
        variance = max(rate - ratio * (below - rate) / (1 - ratio), _LEAST_VARIANCE)
        factors.append((windows_s[j], round(variance, 4)))
        above *= 1 + variance
        rate = max((1 + relative[j - 1]) / above - 1, _LEAST_VARIANCE)
    factors.append((windows_s[0], round(rate, 4)))
    return factors


def relative_variance(times: Floats, window_s: int, weights: Sequence[float] = ()) -> float:
    """(variance - mean) / mean^2 of the counts in windows, without that of calendar weights."""
    spread = float(np.var(weights) / np.mean(weights) ** 2) if len(weights) else 0.0
    mean = len(times) * window_s / (times[-1] - times[0])
    return (1 + (dispersion(times, window_s) - 1) / mean) / (1 + spread) - 1


def _arrivals(times: Floats, published: dict[str, Any], num_phases: int) -> dict[str, Any]:
    gaps = np.diff(times)
    hours = tuple(round(weight, 4) for weight in published.get("hours", ()))
    weekdays = tuple(round(weight, 4) for weight in published.get("weekdays", ()))
    made = Arrivals(round(float(np.mean(gaps)), 3), hours=hours, weekdays=weekdays)
    if times[-1] - times[0] >= 2 * DAY_S:
        made = with_phases(made, times, num_phases) if num_phases > 1 else with_cascade(made, times)
    return asdict(made)


def with_cascade(arrivals: Arrivals, times: Floats) -> Arrivals:
    """The same with the factors that the variance of counts asks for beside the calendar's."""
    both = np.outer(arrivals.hours or (1,), arrivals.weekdays or (1,)).ravel().tolist()
    relative = [
        relative_variance(times, window, both if window <= HOUR_S else arrivals.weekdays)
        for window in CASCADE_S
    ]
    factors = cascade(relative, CASCADE_S)
    return replace(arrivals, factors=tuple(factors))


def with_phases(arrivals: Arrivals, times: Floats, count: int) -> Arrivals:
    """The same with a mixture of gaps; runs of phases give the counts of hours their variance.

    The dispersion of a stationary stream in long windows is that of its gaps, ``s``, times one
    plus twice the sum of their autocorrelations, ``c stay^k``; what days have beyond it is left to
    a factor. ``stay`` balances the errors of the dispersions of hours and days in trial draws.
    """
    pairs = phases(np.diff(times), count)
    shares, means = np.asarray(pairs).T
    mean = shares @ means / shares.sum()
    second = shares @ means**2 / shares.sum()
    scatter = 2 * second / mean**2 - 1
    between = (second / mean**2 - 1) / scatter
    mixture = tuple((share, phase_mean) for share, phase_mean in pairs)
    by_day = relative_variance(times, DAY_S, arrivals.weekdays)
    wanted = [dispersion(times, window) for window in (HOUR_S, DAY_S)]

    def candidate(stay: float) -> Arrivals:
        long_run = scatter * (1 + 2 * between * stay / (1 - stay))
        rest = round(by_day - (long_run - 1) * arrivals.mean_gap_s / DAY_S, 4)
        factors = ((DAY_S, rest),) if rest > _LEAST_VARIANCE else ()
        return replace(arrivals, phases=mixture, stay=stay, factors=factors)

    low, high = 0.0, _LONGEST_STAY
    for _ in range(_HALVINGS):
        middle = round((low + high) / 2, 4)
        drawn = np.floor(draw_times(candidate(middle), 0, _TRIAL_JOBS, arrivals.mean_gap_s))
        found = [dispersion(drawn, window) for window in (HOUR_S, DAY_S)]
        calm = math.prod(found) < math.prod(wanted)
        low, high = (middle, high) if calm else (low, middle)
    return candidate(round((low + high) / 2, 4))


def curve_of(durations_s: Floats, knots_s: tuple[float, ...]) -> DurationCurve:
    """The curve of measured run times: their percentages at the knots, and their mean.

    Args:
      durations_s: run times (s), at least one.
      knots_s: ascending; run times outside of them count as the first or last.
    """
    knots = np.asarray(knots_s)
    clipped = np.sort(np.clip(durations_s, knots[0] * (1 + 1e-9), knots[-1]))
    percent = np.searchsorted(clipped, knots, side="right") * (100 / len(clipped))
    return with_mean(knots_s, np.round(percent, 4), float(np.mean(clipped)))


def with_mean(
    knots_s: npt.ArrayLike, percent: npt.ArrayLike, mean_s: float, skew_from_s: float = 0.0
) -> DurationCurve:
    """The curve with these percentages whose mean (s) is as near as a skew brings it."""
    knots = tuple(np.asarray(knots_s, np.float64).tolist())
    shares = tuple(np.asarray(percent, np.float64).tolist())
    low, high = np.log(_SKEWS)
    for _ in range(40):
        middle = (low + high) / 2
        longer = DurationCurve(knots, shares, float(np.exp(middle)), skew_from_s).mean_s() > mean_s
        low, high = (middle, high) if longer else (low, middle)
    skew = round(float(np.exp((low + high) / 2)), 4)
    return DurationCurve(knots, shares, skew, skew_from_s)
