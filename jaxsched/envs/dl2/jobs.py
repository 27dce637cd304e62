"""DL2's jobs: elastic training jobs that arrive in slots, by one of four patterns; traces by name.

Source: DL2, evaluation; specification, section 11, and core, section 6.
"""

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from jaxsched.elastic.jobs import DL2_JOBS
from jaxsched.elastic.models import MODELS
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.jobs import JobTable
from jaxsched.jobs.draws import generator
from jaxsched.jobs.kinds import JobKind
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace, shipped_tables

Arrival = Literal["trace", "poisson", "uniform", "google", "artefact"]
VariationLevel = Literal["slot", "job"]
Floats = npt.NDArray[np.float64]

SLOT_S = 1200
SLOTS_PER_DAY = 72
MEAN_EPOCHS, MEDIAN_EPOCHS = 100.0, 60.0
LEAST_EPOCHS, MOST_EPOCHS = 5, 720
NUM_FACTORS = 64  # slots after which a job's speed factors repeat
LEAST_FACTOR = 0.05
BRANCH = 2  # of the seed's tree: draws of other generators are independent of these
GOOGLE_ARRIVALS = np.array(
    [
        *(6, 134, 8, 7, 8, 10, 9, 7, 6, 5, 6, 5, 7, 8, 9, 6, 8, 8, 8, 8, 7, 5, 5, 7, 9),
        *(7, 5, 5, 5, 3, 5, 6, 4, 6, 6, 6, 7, 7, 4, 5, 5, 3, 5, 5, 4, 6, 5, 6, 5, 3),
        *(4, 4, 6, 7, 7, 7, 7, 7, 6, 6, 6, 6, 7, 6, 4, 6, 4, 5, 4, 6, 5, 6, 5, 7, 6),
    ]
)
"""Published pattern of arrivals in a Google cluster, per slot."""
ARTEFACT_ARRIVALS = np.array(
    [
        *(23, 8, 10, 13, 24, 21, 17, 29, 11, 16, 39, 61, 25, 28, 59, 50, 82, 59, 35, 46, 46, 32),
        *(28, 16, 19, 8, 22, 10, 19, 17, 24, 16, 29, 30, 47, 63, 39, 48, 42, 42, 57, 64, 22, 46),
        *(42, 23, 17, 68, 24, 3, 8, 10, 13, 18, 16, 28, 17, 47, 54, 54, 42, 36, 72, 46, 53, 77),
        *(27, 44, 68, 25, 10, 43),
    ]
)
"""Arrivals of DL2's published simulator, per slot of a day; the peak is the largest."""
ARTEFACT_MODELS = np.array([6, 4, 0, 5, 1, 2, 7, 3])
ARTEFACT_EPOCHS = np.array([2424, 12467, 20779, 30199, 38718, 47030, 55826, 80000])
ARTEFACT_SHARES = np.array(
    [0.681208, 0.159627, 0.054096, 0.024705, 0.020481, 0.018051, 0.012960, 0.028871]
)
ARTEFACT_SHARES /= ARTEFACT_SHARES.sum()  # of six digits each
"""Its jobs: type and length are one draw; types by their number here."""
GOOGLE_FULL = 10  # arrivals of the pattern that count as the peak
OFFSETS = 5


def dl2_tables(
    seed: int,
    num_tables: int,
    *,
    num_jobs: int = 60,
    peak: float = 2.0,
    arrival: Arrival = "trace",
    num_types: int = len(MODELS),
    variation: float = 0.0,
    variation_level: VariationLevel = "slot",
    epoch_error: float = 0.0,
) -> list[JobTable]:
    """Tables of jobs, the first submitted at 0, sorted by submission.

    Table ``k`` of a seed is the same however many are asked for. Settings share their underlying
    random numbers: arrivals, types, epochs, noise and estimate errors are drawn independently.

    Args:
      seed: whole number from 0 on.
      num_tables: how many tables.
      num_jobs: jobs in each.
      peak: arrivals per slot at the busiest time (``trace``, ``google``) or on average.
      arrival: pattern: a day and week cycle, Poisson, uniform on ``0 .. 2 peak``, Google's; or
        arrivals and jobs as in DL2's published simulator (artefact track, section 10).
      num_types: types are uniform over the first so many (but in ``artefact``).
      variation: the speed of a job in a slot is ``1 + variation * u`` of the model's, u uniform
        on [-1, 1], at least 0.05.
      variation_level: one ``u`` per job and slot, or one per job.
      epoch_error: jobs really take ``1 + epoch_error * u`` times the epochs expected.

    Raises:
      JaxschedError: a value is out of range.
    """
    check_counts(num_tables=num_tables, num_jobs=num_jobs)
    checks = (
        ("peak", peak, 0 < peak < 1e6, "a number above 0"),
        ("arrival", arrival, arrival in get_args(Arrival), f"one of {_names(Arrival)}"),
        ("num_types", num_types, num_types in range(1, len(MODELS) + 1), f"1 .. {len(MODELS)}"),
        ("variation", variation, 0 <= variation < math.inf, "a number from 0 on"),
        (
            "variation_level",
            variation_level,
            variation_level in get_args(VariationLevel),
            f"one of {_names(VariationLevel)}",
        ),
        ("epoch_error", epoch_error, 0 <= epoch_error < 1, "a number from 0 to below 1"),
    )
    for name, found, holds, accepted in checks:
        if not holds:
            raise JaxschedError(f"{name} is {found!r}; accepted: {accepted}")
    # Patterns that round could otherwise never submit a job.
    if arrival in ("uniform", "google") and round(2 * peak if arrival == "uniform" else peak) < 1:
        raise JaxschedError(f"peak is {peak!r}; accepted for {arrival}: enough for one job a slot")

    def table(index: int) -> JobTable:
        draws = [generator(seed, BRANCH, index, part) for part in range(5)]
        model, epochs = draws[1].integers(0, num_types, num_jobs), _epochs(draws[2], num_jobs)
        if arrival == "artefact":
            kind = draws[1].choice(len(ARTEFACT_SHARES), num_jobs, p=ARTEFACT_SHARES)
            model, epochs = ARTEFACT_MODELS[kind], ARTEFACT_EPOCHS[kind].astype(np.float64)
        error = draws[4].uniform(-1.0, 1.0, num_jobs)
        columns = {
            "submit_time": _submissions(draws[0], num_jobs, peak, arrival),
            "model": model,
            "epochs": epochs,
            "true_epochs": epochs * (1.0 + epoch_error * error),
            "speed_factor": _factors(draws[3], num_jobs, variation, variation_level),
        }
        return JobTable(columns, f"dl2-{arrival}-{seed}-{index}", schema=DL2_JOBS)

    return [table(index) for index in range(num_tables)]


def arrival_shape(slot: npt.ArrayLike) -> Floats:
    """Share of the peak at which jobs arrive in a slot, a stand-in for the paper's Fig. 8a.

    Busiest at 15 h, half as busy on days 5 and 6 of a week; slot 0 is at 8 h of day 0.
    """
    slot = np.asarray(slot) + 24
    hour = (slot % SLOTS_PER_DAY) / 3.0
    weekend = (slot // SLOTS_PER_DAY) % 7 >= 5
    return (0.25 + 0.75 * np.exp(-(((hour - 15.0) / 4.5) ** 2))) * np.where(weekend, 0.5, 1.0)


def _names(choices: object) -> str:
    return ", ".join(get_args(choices))


def _submissions(
    draw: np.random.Generator, num_jobs: int, peak: float, arrival: Arrival
) -> npt.NDArray[np.int64]:
    """Submission times (s): arrivals slot by slot, from the first that has any."""
    offset = int(draw.integers(0, OFFSETS))
    slots: list[int] = []
    slot = 0
    while len(slots) < num_jobs:
        if arrival == "google":
            share = min(1.0, GOOGLE_ARRIVALS[(slot + offset) % len(GOOGLE_ARRIVALS)] / GOOGLE_FULL)
            count = round(peak * share)
        elif arrival == "artefact":
            day = ARTEFACT_ARRIVALS
            share = day[(slot + offset) % len(day)] / day.max()
            count = math.ceil(peak * share)
        elif arrival == "uniform":
            count = int(draw.integers(0, round(2 * peak) + 1))
        else:
            rate = peak * float(arrival_shape(slot)) if arrival == "trace" else peak
            count = int(draw.poisson(rate))
        slots += [slot] * count
        slot += 1
    times = np.array(slots[:num_jobs], np.int64)
    return (times - times[0]) * SLOT_S


def _epochs(draw: np.random.Generator, num_jobs: int) -> Floats:
    """Log-normal epochs, rounded and clipped."""
    sigma = math.sqrt(2.0 * math.log(MEAN_EPOCHS / MEDIAN_EPOCHS))
    drawn = MEDIAN_EPOCHS * np.exp(sigma * draw.standard_normal(num_jobs))
    return np.clip(np.rint(drawn), LEAST_EPOCHS, MOST_EPOCHS)


def _factors(
    draw: np.random.Generator, num_jobs: int, variation: float, level: VariationLevel
) -> Floats:
    """Speed factors ``[n, F]``."""
    if variation == 0:
        return np.ones((num_jobs, 1))
    shape = (num_jobs, NUM_FACTORS if level == "slot" else 1)
    return np.maximum(LEAST_FACTOR, 1.0 + variation * draw.uniform(-1.0, 1.0, shape))


def _drawn(name: str, num_jobs: int, peak: float, arrival: Arrival = "trace") -> NamedTrace:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return dl2_tables(seed, num_traces, num_jobs=num_jobs, peak=peak, arrival=arrival)

    words = f"DL2 workload, {arrival} arrivals, peak {peak:g} jobs per slot"
    return NamedTrace(f"dl2-{name}", words, True, make, num_jobs)


def published_tables() -> list[JobTable]:
    """The first five sequences published with DL2's simulator."""
    return shipped_tables("dl2_artefact_traces.csv.gz", DL2_JOBS)


def _published(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    return published_tables()


WORKLOAD = Workload(
    jobs=(JobKind(DL2_JOBS),),
    traces=(
        _drawn("sim", 60, 2.0),
        _drawn("testbed", 30, 1.5),
        _drawn("contended", 120, 6.0),
        _drawn("large", 200, 5.0),
        _drawn("poisson", 60, 1.2, "poisson"),
        _drawn("uniform", 60, 1.2, "uniform"),
        _drawn("google", 60, 2.0, "google"),
        _drawn("artefact", 60, 3.0, "artefact"),
        NamedTrace(
            "dl2-artefact-published",
            "five of the sequences published with DL2's simulator, 60 jobs each (shipped)",
            False,
            _published,
        ),
    ),
)
