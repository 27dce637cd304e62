"""SCHED2's jobs: bursty arrivals, mostly one-GPU jobs, minutes to hours long; their traces by name.

Traces are shipped, generated, or resampled from published ones (source: SCHED2, workload;
specification, section 11).
"""

from dataclasses import replace
from importlib import resources

import numpy as np

from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.systems.workload import Workload
from jaxsched.traces.formats import load_trace
from jaxsched.traces.mapping import MappingConfig, import_trace
from jaxsched.traces.named import NamedTrace, data_file, shipped_tables
from jaxsched.traces.synthetic import SyntheticConfig, generate

MODEL_SHARES = (0.025, 0.025, 0.025, 0.025, 0.30, 0.60)
"""Share of each model id: computer vision 10 % (ids 0-3), speech 30 % (4), language 60 % (5).
Source: Luan et al., workload."""

SERVERS = (8,) * 15
"""GPUs of each server of the cluster that the loads below refer to."""

SCHED2_WORKLOAD = SyntheticConfig(
    num_jobs=1000,
    mean_gap_s=172.0,
    gap_sigma=1.6,
    one_gpu_share=0.68,
    multi_gpu_sizes=(2, 4, 8, 16),
    multi_gpu_weights=(6, 10, 12, 4),
    duration_median_s=3600.0,
    duration_sigma=0.9,
    duration_min_s=180.0,
    duration_max_s=36000.0,
    duration_step_s=10,
    model_shares=MODEL_SHARES,
)
"""Calibrated to Figure 3: 68 % one-GPU jobs, mean run time about 5,300 s, gaps with a coefficient
of variation of about 3.5, an offered load of 0.72 on 120 GPUs."""

OFFERED_LOADS = {60: 0.84, 68: 0.72, 75: 0.62}
"""Offered load on 120 GPUs of the workload above by its share of one-GPU jobs (%)."""

SAMPLE_LOAD = OFFERED_LOADS[68]
"""Offered load of the resampled real traces; as published, ITP cluster 4 would ask for several
times the 120 GPUs."""


MIXED_LOADS = (0.6, 1.1)
CONGESTED_LOADS = (0.85, 1.1)
GOLDEN = (5**0.5 - 1) / 2  # its multiples spread evenly however many are taken


def _shipped(part: str, words: str) -> NamedTrace:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return shipped_tables(f"sched2_{part}_68.csv.gz")

    return NamedTrace(
        f"sched2-{part}-68",
        f"SCHED2 workload, 68 % one-GPU jobs: 30 {words} traces of 1000 jobs (shipped)",
        False,
        make,
    )


def _generated(percent: int) -> NamedTrace:
    name = f"sched2-{percent}"

    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        return _with_share(percent, name, seed, num_traces, num_jobs)

    return NamedTrace(name, f"SCHED2 workload, {percent} % one-GPU jobs", True, make)


def _mixed(percent: int) -> NamedTrace:
    name = "sched2-mixed" if percent == 68 else f"sched2-mixed-{percent}"
    return _spread(name, percent, MIXED_LOADS)


def _spread(name: str, percent: int, loads_between: tuple[float, float]) -> NamedTrace:
    """Traces whose loads are evenly spread between two."""
    low, high = loads_between

    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        tables = _with_share(percent, name, seed, num_traces, num_jobs)
        loads = low + (high - low) * (np.arange(num_traces) * GOLDEN % 1.0)
        return [
            rescale_arrivals(table, OFFERED_LOADS[percent] / load)
            for table, load in zip(tables, loads, strict=True)
        ]

    words = (
        f"SCHED2 workload, {percent} % one-GPU jobs, loads from {low:g} to {high:g}, evenly spread"
    )
    return NamedTrace(name, words, True, make)


def _with_share(
    percent: int, name: str, seed: int, num_traces: int, num_jobs: int
) -> list[JobTable]:
    config = replace(SCHED2_WORKLOAD, one_gpu_share=percent / 100, num_jobs=num_jobs)
    return generate(seed, num_traces, config=config, name=name)


def _sampled(name: str, file: str, cluster: str) -> NamedTrace:
    def make(seed: int, num_traces: int, num_jobs: int) -> list[JobTable]:
        with resources.as_file(data_file(file)) as path:
            raw = load_trace(path)
        config = MappingConfig.on(SERVERS, load=SAMPLE_LOAD, model_shares=MODEL_SHARES)
        imported = import_trace(
            raw, seed=seed, num_traces=num_traces, num_jobs=num_jobs, config=config
        )
        return imported.tables

    words = f"resampled from 500 jobs of {cluster}, rescaled to a load of {SAMPLE_LOAD}"
    return NamedTrace(name, words, True, make)


WORKLOAD = Workload(
    traces=(
        _shipped("train", "training"),
        _shipped("test", "test"),
        *(_generated(percent) for percent in (60, 68, 75)),
        *(_mixed(percent) for percent in (68, 60, 75)),
        _spread("sched2-congested", 68, CONGESTED_LOADS),
        _sampled("itp-sample", "itp_cluster04_sample.csv.gz", "Microsoft's ITP cluster 4"),
        _sampled("philly-sample", "philly_sample.csv.gz", "Microsoft's Philly cluster"),
    )
)
