"""Generators of workloads like those of the clusters that published traces."""

from jaxsched.traces.clusters.draw import draw, generate_trace, usable_jobs
from jaxsched.traces.clusters.measure import measure
from jaxsched.traces.clusters.workload import Workload, describe, from_json, names, workload

__all__ = [
    "Workload",
    "describe",
    "draw",
    "from_json",
    "generate_trace",
    "measure",
    "names",
    "usable_jobs",
    "workload",
]
