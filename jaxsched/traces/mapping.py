"""From a published trace to job tables of rigid jobs.

Rows that are no jobs (``usable``) are dropped, demands capped at the cluster, run times clipped,
and models drawn, since few published traces name them (what they tell of jobs beyond that is kept:
``jaxsched.traces.details``). The stream that results is either cut into
consecutive pieces or resampled: jobs and gaps drawn independently with replacement. Source: Luan
et al., workload ("real traces").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError, check_counts, counted
from jaxsched.jobs import Integers, JobTable, validate
from jaxsched.jobs.draws import generator, pick
from jaxsched.jobs.shares import GPU_MILLI, part_held
from jaxsched.traces.describe import describe_tables
from jaxsched.traces.describe_trace import check_numbers
from jaxsched.traces.details import details, parts_of_gpus, rounded_up, to_whole
from jaxsched.traces.trace import Trace
from jaxsched.traces.usable import dropped_note, job_rows

Floats = npt.NDArray[np.float64]
Mode = Literal["sample", "cut"]

_MODEL_BRANCH, _SAMPLE_BRANCH = 0, 1


@dataclass(frozen=True)
class MappingConfig:
    """How rows become jobs.

    Attributes:
      num_servers: servers of the cluster; None: it is not told, and demands stay as they are.
      gpus_per_server: GPUs of each; demands are capped at the product.
      num_gpus: GPUs of the cluster where servers differ or it is one pool; None: the product.
      min_duration_s: shorter run times are raised to this (s).
      max_duration_s: longer run times are lowered to this (s).
      mean_gap_s: stretch the times so that gaps have this mean (s); None: leave them.
      load: stretch the times so that the stream offers this load to the cluster (at best
        locality); None: leave them. Not together with ``mean_gap_s``.
      model_shares: share of each model id; one model unless told.
      largest_job: demands are capped at this as well, where no job can have all GPUs.
      slots: of each GPU; from 2 on jobs that ask for a part of a GPU share it, and the load counts
        the slots that jobs hold (``jaxsched.jobs.shares``).
    """

    num_servers: int | None = None
    gpus_per_server: int = 8
    min_duration_s: int = 60
    max_duration_s: int = 86400
    mean_gap_s: float | None = None
    load: float | None = None
    model_shares: tuple[float, ...] = (1.0,)
    num_gpus: int | None = None
    largest_job: int | None = None
    slots: int = 1

    @classmethod
    def on(cls, gpus: Sequence[int], **others: Any) -> "MappingConfig":
        """How rows become jobs of one cluster.

        Args:
          gpus: of each server; a single number for one pool. Empty, or without any GPU: the cluster
            is not told.
          others: the other attributes.

        Raises:
          JaxschedError: an attribute has a bad value, or a load is wanted of a cluster that is told
            to have no GPUs.
        """
        if gpus and not any(gpus) and others.get("load") is not None:
            raise JaxschedError("load: the cluster has no GPUs; accepted: mean_gap_s")
        if not any(gpus):
            return cls(**others)
        alike = len(gpus) > 1 and len(set(gpus)) == 1
        return cls(
            num_servers=len(gpus),
            gpus_per_server=max(gpus),
            num_gpus=None if alike else sum(gpus),
            **others,
        )

    def __post_init__(self) -> None:
        """Refuse values that cannot be used."""
        checks = (
            (
                "num_servers",
                self.num_servers is None or self.num_servers >= 1,
                "a whole number from 1 on, or none",
            ),
            ("gpus_per_server", self.gpus_per_server >= 1, "a whole number from 1 on"),
            ("num_gpus", self.num_gpus is None or self.num_gpus >= 1, "a whole number from 1 on"),
            (
                "largest_job",
                self.largest_job is None or 1 <= self.largest_job <= (self.max_gpus or 0),
                "a whole number from 1 to the GPUs of the cluster, or none",
            ),
            ("slots", self.slots >= 1, "a whole number from 1 on"),
            (
                "min_duration_s",
                1 <= self.min_duration_s <= self.max_duration_s,
                "whole seconds from 1 to max_duration_s",
            ),
            (
                "mean_gap_s",
                self.mean_gap_s is None or 0 < self.mean_gap_s < float("inf"),
                "seconds above 0, or none",
            ),
            (
                "load",
                self.load is None or 0 < self.load < float("inf"),
                "a number above 0, or none",
            ),
            (
                "load",
                self.load is None or self.mean_gap_s is None,
                "none where mean_gap_s is given, since both set the time scale",
            ),
            (
                "load",
                self.load is None or self.max_gpus is not None,
                "none where no cluster is told that it could refer to; mean_gap_s does without",
            ),
        )
        for name, holds, accepted in checks:
            if not holds:
                raise JaxschedError(f"{name} is {getattr(self, name)}; accepted: {accepted}")

    @property
    def max_gpus(self) -> int | None:
        """GPUs of the cluster; None where it is not told."""
        if self.num_gpus is not None or self.num_servers is None:
            return self.num_gpus
        return self.num_servers * self.gpus_per_server

    @property
    def cluster(self) -> str:
        """The cluster in words."""
        if self.max_gpus is None:
            return "no cluster"
        if self.num_gpus is not None:
            return f"{self.num_gpus} GPUs"
        return f"{self.num_servers} x {self.gpus_per_server} GPUs"


DEFAULT_MAPPING = MappingConfig()


@dataclass(frozen=True)
class ImportSummary:
    """What an import did and what came of it; ``str`` gives a few readable lines.

    Attributes:
      name: the trace.
      source: its format.
      rows_read: rows in the file.
      reading: what the reader dropped, capped or imputed, one sentence each.
      rows_dropped: rows that are no jobs (``jaxsched.traces.usable``).
      jobs_rounded: jobs that asked for a part of a GPU and were given a whole one.
      jobs_sharing: jobs that asked for a part of a GPU and were given slots.
      jobs_capped: jobs that asked for more GPUs than the cluster has.
      jobs_lengthened: jobs whose run time was raised to the minimum.
      jobs_shortened: jobs whose run time was lowered to the maximum.
      time_scale: factor on submission times (1 unless gaps were rescaled).
      config: how rows became jobs.
      stream: statistics of the whole stream (``jaxsched.traces.describe``).
      traces: statistics of the traces made of it.
    """

    name: str
    source: str
    rows_read: int
    reading: tuple[str, ...]
    rows_dropped: int
    jobs_rounded: int
    jobs_sharing: int
    jobs_capped: int
    jobs_lengthened: int
    jobs_shortened: int
    time_scale: float
    config: MappingConfig
    stream: dict[str, Any]
    traces: dict[str, Any]

    def notes(self) -> tuple[str, ...]:
        """What was changed, one sentence each; empty where nothing was."""
        config = self.config
        sentences = (
            *((1, note) for note in self.reading),
            (self.rows_dropped, dropped_note(self.rows_dropped)),
            (
                self.jobs_rounded,
                f"{counted(self.jobs_rounded, 'part')} of a GPU rounded up",
            ),
            (
                self.jobs_sharing,
                f"{counted(self.jobs_sharing, 'part')} of a GPU rounded up to slots, "
                f"{config.slots} to a GPU",
            ),
            (
                self.jobs_capped,
                f"{counted(self.jobs_capped, 'job')} capped at "
                f"{config.largest_job or config.max_gpus} GPUs",
            ),
            (
                self.jobs_lengthened,
                f"{counted(self.jobs_lengthened, 'run time')} raised to {config.min_duration_s} s",
            ),
            (
                self.jobs_shortened,
                f"{counted(self.jobs_shortened, 'run time')} lowered to {config.max_duration_s} s",
            ),
            (self.time_scale != 1, rescaled_in_words(self.time_scale, config)),
            (len(config.model_shares) > 1, "models drawn at random"),
        )
        return tuple(text for happened, text in sentences if happened)

    def __str__(self) -> str:
        """A few readable lines."""
        lines = [f"{self.name} ({self.source}): {counted(self.rows_read, 'row')} read"]
        lines += [f"  {note}" for note in self.notes()]
        lines += [f"  load on {self.config.cluster}, best locality:"]
        lines += [_statistics("stream", self.stream), _statistics("traces", self.traces)]
        return "\n".join(lines)


class Imported(NamedTuple):
    """A published trace as one long table, the traces made of it, and what was done."""

    stream: JobTable
    tables: list[JobTable]
    summary: ImportSummary


def import_trace(
    raw: Trace,
    *,
    mode: Mode = "sample",
    seed: int = 0,
    num_traces: int = 30,
    num_jobs: int = 1000,
    config: MappingConfig = DEFAULT_MAPPING,
) -> Imported:
    """Turn a published trace into job tables.

    Args:
      raw: what a reader returned.
      mode: "sample" draws ``num_traces`` traces from the stream; "cut" keeps the stream as it is
        and cuts it into as many consecutive traces as it has full pieces.
      seed: for the models and the samples.
      num_traces: traces to draw (``sample`` only).
      num_jobs: jobs per trace.
      config: how rows become jobs.

    Raises:
      JaxschedError: one line if nothing usable is left, or numbers or an argument are out of
        range.
    """
    check_numbers(raw)
    kept = job_rows(raw)
    submit = raw["submit_time"][kept] - raw["submit_time"][kept[0]]
    asked, duration = raw["num_gpus"][kept], raw["duration"][kept]
    gpus = np.maximum(rounded_up(asked), 1)
    cap = config.largest_job or config.max_gpus
    demand = gpus if cap is None else np.minimum(gpus, cap)
    clipped = _round(np.clip(duration, config.min_duration_s, config.max_duration_s))
    models = pick(generator(seed, _MODEL_BRANCH).random(len(kept)), config.model_shares)
    unscaled = JobTable(
        {
            "submit_time": _round(submit),
            "num_gpus": demand,
            "duration": clipped,
            "model": models,
            **details(raw.take(kept)),
            **({GPU_MILLI.name: parts_of_gpus(asked)} if config.slots > 1 else {}),
        },
        raw.name,
    )
    held = demand * part_held(unscaled, config.slots)
    scale = _time_scale(submit, float(np.sum(held * clipped)), config, raw.name)
    stream = unscaled.with_columns(submit_time=_round(submit * scale))
    validate(stream, max_gpus=config.max_gpus, num_models=len(config.model_shares))
    if mode == "sample":
        tables = sample_traces(stream, seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    elif mode == "cut":
        tables = cut_traces(stream, num_jobs=num_jobs)
    else:
        raise JaxschedError(f"mode is {mode!r}; accepted: sample, cut")
    rounded = int(np.sum(gpus > asked + 1e-6))
    summary = ImportSummary(
        name=raw.name,
        source=raw.source,
        rows_read=raw.rows_read,
        reading=raw.notes,
        rows_dropped=len(raw) - len(kept),
        jobs_rounded=0 if config.slots > 1 else rounded,
        jobs_sharing=rounded if config.slots > 1 else 0,
        jobs_capped=int(np.sum(gpus > demand)),
        jobs_lengthened=int(np.sum(duration < config.min_duration_s)),
        jobs_shortened=int(np.sum(duration > config.max_duration_s)),
        time_scale=scale,
        config=config,
        stream=describe_tables([stream], num_gpus=config.max_gpus, slots=config.slots),
        traces=describe_tables(tables, num_gpus=config.max_gpus, slots=config.slots),
    )
    notes = summary.notes()
    return Imported(_with_notes(stream, notes), [_with_notes(t, notes) for t in tables], summary)


def sample_traces(
    stream: JobTable, *, seed: int, num_traces: int = 30, num_jobs: int = 1000
) -> list[JobTable]:
    """Draw traces: jobs and gaps independently, with replacement, from a longer table.

    Trace ``k`` depends on the seed and ``k`` only. What binds jobs to their neighbours (batches of
    equal jobs, hours of the day) is lost on purpose.

    Raises:
      JaxschedError: a stream of fewer than two jobs (it has no gaps) or a number below 1.
    """
    if len(stream) < 2:
        raise JaxschedError(f"{stream.name}: has {len(stream)} jobs; accepted: two or more")
    check_counts(num_traces=num_traces, num_jobs=num_jobs)
    gaps = np.diff(stream["submit_time"])
    tables = []
    for k in range(num_traces):
        rng = generator(seed, _SAMPLE_BRANCH, k)
        jobs = rng.integers(len(stream), size=num_jobs)
        drawn = gaps[rng.integers(len(gaps), size=num_jobs - 1)]
        times = np.concatenate([np.zeros(1, np.int64), np.cumsum(drawn)])
        table = stream.take(jobs, name=f"{stream.name}[{k}]")
        tables.append(validate(table.with_columns(submit_time=times)))
    return tables


def cut_traces(stream: JobTable, *, num_jobs: int = 1000) -> list[JobTable]:
    """Cut a table into consecutive traces, each from time 0; an incomplete last one is left out.

    Raises:
      JaxschedError: the stream has less than one full piece.
    """
    if not 1 <= num_jobs <= len(stream):
        raise JaxschedError(
            f"{stream.name}: cannot cut {len(stream)} jobs into traces of {num_jobs}; "
            f"accepted: from 1 to {len(stream)} jobs per trace"
        )
    tables = []
    for k in range(len(stream) // num_jobs):
        piece = stream.take(slice(k * num_jobs, (k + 1) * num_jobs), name=f"{stream.name}[{k}]")
        times = piece["submit_time"]
        tables.append(piece.with_columns(submit_time=times - times[0]))
    return tables


def _time_scale(submit: Floats, gpu_seconds: float, config: MappingConfig, name: str) -> float:
    """Factor on submission times that gives the wanted mean gap or load."""
    if config.mean_gap_s is not None:
        wanted_span = config.mean_gap_s * (len(submit) - 1)
    elif config.load is not None:
        assert config.max_gpus is not None
        wanted_span = gpu_seconds / (config.max_gpus * config.load)
    else:
        return 1.0
    return stretch(float(submit[-1]), wanted_span, config, name)


def stretch(span: float, wanted_span: float, config: MappingConfig, name: str) -> float:
    """Factor on submission times that turns a span (s) into the wanted one.

    Raises:
      JaxschedError: there is no span, or less than a second is wanted.
    """
    if span <= 0:
        raise JaxschedError(
            f"{name}: all jobs are submitted at once, so times cannot be rescaled; "
            "accepted: a trace with two or more submission times"
        )
    if wanted_span < 1:
        option = "load" if config.mean_gap_s is None else "mean_gap_s"
        raise JaxschedError(
            f"{name}: {option} is {getattr(config, option):g}, so that all jobs come within "
            f"{wanted_span:.2g} s; accepted: a value that spreads them over a second or more"
        )
    return float(wanted_span / span)


def rescaled_in_words(scale: float, config: MappingConfig) -> str:
    """By which factor submission times were multiplied, and what for."""
    wanted = ""
    if config.load is not None:
        wanted = f", for a load of {config.load:g} on {config.cluster}"
    elif config.mean_gap_s is not None:
        wanted = f", for a mean gap of {config.mean_gap_s:g} s"
    return f"submission times multiplied by {scale:.6g}{wanted}"


def _round(values: Floats) -> Integers:
    """Round half up."""
    return to_whole(np.floor(values + 0.5))


def _with_notes(table: JobTable, notes: Sequence[str]) -> JobTable:
    return JobTable(table.columns, table.name, tuple(notes))


def _statistics(title: str, of: dict[str, Any]) -> str:
    load = "none" if of["load"] is None else f"{of['load']:.3f}"
    cv = "none" if of["gap_s"]["cv"] is None else f"{of['gap_s']['cv']:.2f}"
    mean_gap = "none" if of["gap_s"]["mean"] is None else f"{of['gap_s']['mean']:.1f} s"
    return (
        f"  {title}: {of['traces']} x {of['jobs'] / of['traces']:.0f} jobs, load {load}, "
        f"one-GPU share {of['one_gpu_share']:.3f}, mean run time {of['duration_s']['mean']:.0f} s, "
        f"mean gap {mean_gap}, gap variation {cv}"
    )
