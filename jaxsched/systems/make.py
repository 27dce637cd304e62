"""An environment and its parameters in one call."""

from collections.abc import Sequence
from typing import Any

from jaxsched.core.environment import Environment
from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs import JobTable
from jaxsched.systems import registry
from jaxsched.traces import registry as traces


def make(
    name: str,
    *,
    trace: PathLike | Sequence[JobTable] | None = None,
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
      JaxschedError: no such system, trace or option, a bad value, or too few tables.
    """
    system = registry.get(name)
    env = system.environment(**options)
    tables = _tables(system.traces.train if trace is None else trace, seed, num_traces, num_jobs)
    return env, system.params(env, system.adapt(tables))


def _tables(
    trace: PathLike | Sequence[JobTable],
    seed: int,
    num_traces: int | None,
    num_jobs: int | None,
) -> list[JobTable]:
    """So many tables of so many jobs, drawn anew or cut to size."""
    for option, value in (("num_traces", num_traces), ("num_jobs", num_jobs)):
        if value is not None and value < 1:
            raise JaxschedError(f"{option} is {value}; accepted: a whole number from 1 on")
    if isinstance(trace, list | tuple):
        tables = list(trace)
    else:
        tables = traces.resolve(trace, seed=seed, num_traces=num_traces, num_jobs=num_jobs)  # type: ignore[arg-type]
    if num_traces is not None and len(tables) < num_traces:
        raise JaxschedError(f"num_traces is {num_traces}; accepted: 1 to {len(tables)}, all tables")
    tables = tables[:num_traces]
    if num_jobs is None:
        return tables
    shortest = min(len(table) for table in tables)
    if shortest < num_jobs:
        raise JaxschedError(
            f"num_jobs is {num_jobs}; accepted: 1 to {shortest}, the shortest table"
        )
    return [table.take(slice(0, num_jobs)) for table in tables]
