"""What a system adds to the world of traces: its kinds of jobs and its named job tables.

Light on purpose: reading a trace asks every system for this and for nothing else, so the modules
that make a ``Workload`` load neither JAX nor the system's environment.
"""

from typing import NamedTuple

from jaxsched.jobs.kinds import JobKind
from jaxsched.traces.named import NamedTrace


class Workload(NamedTuple):
    """Kinds of jobs and named traces of one system.

    Attributes:
      jobs: kinds of jobs beside rigid ones, which every room knows.
      traces: job tables by name, in the order of listings.
    """

    jobs: tuple[JobKind, ...] = ()
    traces: tuple[NamedTrace, ...] = ()
