"""Traces by name: those the project ships and those it generates."""

from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from jaxsched.envs.chic.workload import RATES_PER_HOUR, chic_tables
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.workload import LOADS, gang_tables
from jaxsched.envs.dl2.workload import Arrival, dl2_tables
from jaxsched.envs.mlfs.workload import REAL_JOBS, SMALL_JOBS, SPAN_S, task_table, task_tables
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import JobTable
from jaxsched.traces.csv_tables import read_tables
from jaxsched.traces.formats import load_tables, load_trace
from jaxsched.traces.mapping import MappingConfig, import_trace
from jaxsched.traces.synthetic import SCHED2_WORKLOAD, generate

SAMPLE_LOAD = 0.72
"""Offered load of the resampled real traces, that of the SCHED2 workload; as published, ITP
cluster 4 would ask for several times SCHED2's 120 GPUs."""

DAS_TRAINING_JOBS, DAS_EPISODE_JOBS = 16_000, 1000

MLFS_LARGE_JOBS = 20_000
MLFS_LARGE_SPAN_S = SPAN_S * (MLFS_LARGE_JOBS / 2474) / (REAL_JOBS / 80)
"""Span (s, 37.6 h) that gives each of 2474 GPUs the load that 620 jobs in 36 h give each of 80."""

NUM_TRACES = 30  # drawn, unless asked otherwise
Make = Callable[[int, int, int], list[JobTable]]


class NamedTrace(NamedTuple):
    """A name that stands for job tables.

    Attributes:
      name: the name.
      description: one line.
      seeded: whether the seed and the numbers of traces and jobs matter.
      make: ``make(seed, num_traces, num_jobs)``; the arguments are ignored unless ``seeded``.
      num_jobs: jobs of each trace, unless asked otherwise; 0: traces differ in it.
    """

    name: str
    description: str
    seeded: bool
    make: Make
    num_jobs: int = 1000


def _shipped(file: str) -> Make:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        with resources.as_file(data_file(file)) as path:
            return read_tables(path)

    return make


def _generated(name: str, one_gpu_share: float) -> Make:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        config = replace(SCHED2_WORKLOAD, one_gpu_share=one_gpu_share, num_jobs=num_jobs)
        return generate(seed, num_traces, config=config, name=name)

    return make


def _sampled(file: str) -> Make:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        with resources.as_file(data_file(file)) as path:
            raw = load_trace(path)
        config = MappingConfig(load=SAMPLE_LOAD)
        imported = import_trace(
            raw, seed=seed, num_traces=num_traces, num_jobs=num_jobs, config=config
        )
        return imported.tables

    return make


def _dl2(name: str, num_jobs: int, peak: float, arrival: Arrival = "trace") -> NamedTrace:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return dl2_tables(seed, num_traces, num_jobs=num_jobs, peak=peak, arrival=arrival)

    words = f"DL2 workload, {arrival} arrivals, peak {peak:g} jobs per slot"
    return NamedTrace(name, words, True, make, num_jobs)


def _chic(rate: float) -> NamedTrace:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return chic_tables(seed, num_traces, num_jobs=num_jobs, rate_per_hour=rate)

    return NamedTrace(f"chic-{rate:.2f}", f"Chic workload, {rate:g} per hour", True, make, 30)


def _das(load: str) -> NamedTrace:
    rate = LOADS[load]

    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return gang_tables(seed, num_traces, num_jobs=num_jobs, rate=rate)

    return NamedTrace(f"das-{load}", f"DAS workload, arrival rate {rate:g}", True, make)


def das_stream() -> JobTable:
    """The DAS workload that the project ships, training and test part: 20,000 jobs."""
    with resources.as_file(data_file("das_workload.csv.gz")) as path:
        return read_tables(path, schema=GANG_JOBS)[0]


def _das_shipped(part: str) -> Make:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        table = das_stream()
        if part == "train":
            return [table.take(slice(0, DAS_TRAINING_JOBS), name="das-train")]
        starts = range(DAS_TRAINING_JOBS, len(table), DAS_EPISODE_JOBS)
        return [
            table.window(start, DAS_EPISODE_JOBS, name=f"das-test[{index}]")
            for index, start in enumerate(starts)
        ]

    return make


def _das_mixed(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Half windows of the training stream, the same ones for any seed, then fresh traces."""
    stream = _das_shipped("train")(seed, 1, num_jobs)[0]
    num_windows = num_traces // 2
    last = max(len(stream) - num_jobs, 0)
    starts = [last * k // max(num_windows - 1, 1) for k in range(num_windows)]
    windows = [stream.window(start, num_jobs, name=f"das-train[{start}:]") for start in starts]
    return windows + gang_tables(seed, num_traces - num_windows, num_jobs=num_jobs)


def _mlfs(name: str, num_gpus: int, usual: int, span_s: float = SPAN_S) -> NamedTrace:
    """Other numbers of jobs come in as much shorter or longer a span, at the same load."""

    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        span = span_s * (num_jobs / usual)
        return task_tables(seed, num_traces, num_jobs=num_jobs, span_s=span)

    words = f"MLFS workload, {usual} jobs in {span_s / 3600:.4g} h, for {num_gpus} GPUs"
    return NamedTrace(f"mlfs-{name}", words, True, make, usual)


def _mlfs_mixed(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
    """Loads 1, 2 and 3 by turns: 155, 310, 465 jobs in 36 h, or the number asked for in less."""
    tables = []
    for index in range(num_traces):
        usual = SMALL_JOBS * (1 + index % 3)
        jobs = num_jobs or usual
        tables.append(task_table(seed, index, num_jobs=jobs, span_s=SPAN_S * (jobs / usual)))
    return tables


_TASKS = (
    *(_mlfs(f"small-x{load}", 20, SMALL_JOBS * load) for load in (1, 2, 3)),
    NamedTrace(
        "mlfs-small-mixed",
        "MLFS workload, 155, 310 and 465 jobs in 36 h by turns, for 20 GPUs",
        True,
        _mlfs_mixed,
        0,
    ),
    *(_mlfs(f"real-x{load:g}", 80, int(REAL_JOBS * load)) for load in (0.25, 0.5, 1, 2, 3)),
    _mlfs("large-x1", 2474, MLFS_LARGE_JOBS, MLFS_LARGE_SPAN_S),
)

_ELASTIC = (
    _dl2("dl2-sim", 60, 2.0),
    _dl2("dl2-testbed", 30, 1.5),
    _dl2("dl2-large", 200, 5.0),
    _dl2("dl2-poisson", 60, 1.2, "poisson"),
    _dl2("dl2-uniform", 60, 1.2, "uniform"),
    _dl2("dl2-google", 60, 2.0, "google"),
    *(_chic(rate) for rate in RATES_PER_HOUR),
)

_ENTRIES = (
    NamedTrace(
        "sched2-train-68",
        "SCHED2 workload, 68 % one-GPU jobs: 30 training traces of 1000 jobs (shipped)",
        False,
        _shipped("sched2_train_68.csv.gz"),
    ),
    NamedTrace(
        "sched2-test-68",
        "SCHED2 workload, 68 % one-GPU jobs: 30 test traces of 1000 jobs (shipped)",
        False,
        _shipped("sched2_test_68.csv.gz"),
    ),
    NamedTrace(
        "sched2-60", "SCHED2 workload, 60 % one-GPU jobs", True, _generated("sched2-60", 0.60)
    ),
    NamedTrace(
        "sched2-68", "SCHED2 workload, 68 % one-GPU jobs", True, _generated("sched2-68", 0.68)
    ),
    NamedTrace(
        "sched2-75", "SCHED2 workload, 75 % one-GPU jobs", True, _generated("sched2-75", 0.75)
    ),
    NamedTrace(
        "itp-sample",
        "resampled from 500 jobs of Microsoft's ITP cluster 4, rescaled to a load of 0.72",
        True,
        _sampled("itp_cluster04_sample.csv.gz"),
    ),
    NamedTrace(
        "philly-sample",
        "resampled from 500 jobs of Microsoft's Philly cluster, rescaled to a load of 0.72",
        True,
        _sampled("philly_sample.csv.gz"),
    ),
    *_ELASTIC,
    NamedTrace(
        "das-train",
        "DAS workload: the 16,000 training jobs, one stream (shipped)",
        False,
        _das_shipped("train"),
    ),
    NamedTrace(
        "das-test",
        "DAS workload: the 4,000 test jobs as four traces of 1000 (shipped)",
        False,
        _das_shipped("test"),
    ),
    NamedTrace(
        "das-mixed",
        "DAS workload: half windows of the training stream, half fresh traces of rate 1",
        True,
        _das_mixed,
    ),
    *(_das(load) for load in LOADS),
    *_TASKS,
)


def entries() -> tuple[NamedTrace, ...]:
    """All named traces."""
    return _ENTRIES


def names() -> tuple[str, ...]:
    """The names of all named traces."""
    return tuple(entry.name for entry in _ENTRIES)


def data_file(file: str) -> Traversable:
    """A file of the package's ``data`` folder."""
    return resources.files("jaxsched.traces") / "data" / file


def get(
    name: str, *, seed: int = 0, num_traces: int | None = None, num_jobs: int | None = None
) -> list[JobTable]:
    """The tables of a named trace.

    Args:
      name: one of ``names()``.
      seed: for generated and resampled traces; shipped ones ignore it and the numbers.
      num_traces: how many traces; 30 by default.
      num_jobs: jobs of each; as many as the trace's entry says by default.

    Raises:
      JaxschedError: an unknown name, or numbers that cannot be used.
    """
    for option, value in (("num_traces", num_traces), ("num_jobs", num_jobs)):
        if value is not None and value < 1:
            raise JaxschedError(f"{option} is {value}; accepted: a whole number from 1 on")
    for entry in _ENTRIES:
        if entry.name == name:
            return entry.make(seed, num_traces or NUM_TRACES, num_jobs or entry.num_jobs)
    raise JaxschedError(f"unknown trace '{name}'; accepted: {', '.join(names())}")


def resolve(
    name_or_path: PathLike,
    *,
    seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
) -> list[JobTable]:
    """The tables of a named trace or of a file of job tables.

    Raises:
      JaxschedError: neither a known name nor a readable file of job tables.
    """
    if str(name_or_path) in names():
        return get(str(name_or_path), seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    if not Path(name_or_path).exists():
        raise JaxschedError(
            f"'{name_or_path}' is neither a file nor a known trace; accepted: a file of job "
            f"tables, or {', '.join(names())}"
        )
    return load_tables(name_or_path)
