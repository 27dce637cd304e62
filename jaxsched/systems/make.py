"""An environment and its parameters in one call."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from jaxsched.core.environment import Environment
from jaxsched.errors import check_counts
from jaxsched.jobs import JobTable, first_of
from jaxsched.runtime import check_not_forked
from jaxsched.systems import registry
from jaxsched.traces import registry as traces


def make(
    name: str,
    *,
    trace: str | PathLike[str] | Sequence[JobTable] | None = None,
    seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    **options: Any,
) -> tuple[Environment, Any]:
    """The environment of a system, and parameters that hold the job tables of its episodes.

    Args:
      name: of the system; ``jaxsched list`` names them.
      trace: a named trace, a file of job tables, or job tables; the system's training traces by
        default. Tables of rigid jobs become jobs of the system.
      seed: of traces that are drawn; shipped ones and files ignore it.
      num_traces: how many tables; all that there are, or 30 drawn ones, by default.
      num_jobs: jobs of each table, the first ones where tables are not drawn; as many as the trace
        says by default.
      options: static options of the environment, the paper's where left out.

    Returns:
      ``(env, params)``: ``env.reset(key, params)``, ``env.step(key, state, action, params)``.

    Raises:
      JaxschedError: no such system, trace or option, a bad value, or too few tables; or a process
        forked from one in which JAX was running.
    """
    check_not_forked()
    system = registry.get(name)
    env = system.environment(**options)
    tables = _tables(system.traces.train if trace is None else trace, seed, num_traces, num_jobs)
    return env, system.params(env, system.adapt(tables))


def _tables(
    trace: str | PathLike[str] | Sequence[JobTable],
    seed: int,
    num_traces: int | None,
    num_jobs: int | None,
) -> list[JobTable]:
    """So many tables of so many jobs, drawn anew or cut to size."""
    check_counts(optional=True, num_traces=num_traces, num_jobs=num_jobs)
    if isinstance(trace, str | PathLike):
        tables = traces.resolve(trace, seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    else:
        tables = list(trace)
    source = str(trace) if isinstance(trace, str | PathLike) else "the job tables"
    return first_of(tables, num_traces, num_jobs, source=source, options=("num_traces", "num_jobs"))
