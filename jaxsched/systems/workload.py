"""Kinds of jobs and named job tables of a system.

Whoever reads a trace asks each system for its ``Workload`` and nothing else, so modules that make
one import neither JAX nor the system's environment.
"""

from typing import NamedTuple

from jaxsched.jobs.kinds import JobKind
from jaxsched.traces.named import NamedTrace


class Workload(NamedTuple):
    """Kinds of jobs and named traces of one system.

    Attributes:
      jobs: kinds of jobs beside rigid ones.
      traces: job tables by name, in the order of listings.
    """

    jobs: tuple[JobKind, ...] = ()
    traces: tuple[NamedTrace, ...] = ()
