"""An environment and its parameters in one call."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from jaxsched.core.environment import Environment
from jaxsched.errors import check_counts
from jaxsched.jobs import JobTable, first_of
from jaxsched.runtime import check_not_forked
from jaxsched.systems import functions, registry
from jaxsched.systems.system import System
from jaxsched.traces import Trace, import_trace
from jaxsched.traces import registry as registered

Given = str | PathLike[str] | Sequence[JobTable] | Trace
"""Sources of job tables."""


def make(
    name: str,
    *,
    traces: Given | None = None,
    trace: Given | None = None,
    seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    **options: Any,
) -> tuple[Environment, Any]:
    """The environment of a system, and parameters that hold the job tables of its episodes.

    Args:
      name: of the system; ``jaxsched list`` names them.
      traces: a named trace, a file of job tables, job tables, or a loaded log, which is resampled;
        the system's training traces by default. Tables of rigid jobs become jobs of the system.
      trace: another name of ``traces``.
      seed: of traces that are drawn; shipped ones and files ignore it.
      num_traces: number of tables; by default all, or 30 drawn ones.
      num_jobs: jobs of each table, the first ones where tables are not drawn; by default the
        trace's.
      options: static options of the environment, by default the paper's.

    Returns:
      ``(env, params)``: ``env.reset(key, params)``, ``env.step(key, state, action, params)``.

    Raises:
      JaxschedError: no such system, trace or option, a bad value, or too few tables; or a process
        forked from one in which JAX was running.
    """
    check_not_forked()
    system = registry.get(name)
    env = functions.environment(system, **options)
    given = trace if traces is None else traces
    if isinstance(given, Trace):
        tables = _of_log(system, env, given, seed, num_traces, num_jobs)
    else:
        tables = _tables(
            functions.traces(system).train if given is None else given, seed, num_traces, num_jobs
        )
    return env, env.params(system.jobs.adapted(tables))


def _of_log(
    system: System,
    env: Environment,
    log: Trace,
    seed: int,
    num_traces: int | None,
    num_jobs: int | None,
) -> list[JobTable]:
    """Tables of a log's jobs, resampled."""
    check_counts(optional=True, num_traces=num_traces, num_jobs=num_jobs)
    imported = import_trace(
        log,
        mode="sample",
        seed=seed,
        num_traces=num_traces or registered.NUM_TRACES,
        num_jobs=num_jobs or system.jobs.num_jobs,
        config=functions.mapping(system, env, mean_gap_s=None, load=None),
    )
    return [env.fitted(table) for table in system.jobs.adapted(imported.tables)]


def _tables(
    given: str | PathLike[str] | Sequence[JobTable],
    seed: int,
    num_traces: int | None,
    num_jobs: int | None,
) -> list[JobTable]:
    """``num_traces`` tables of ``num_jobs`` jobs, drawn anew or cut to size."""
    check_counts(optional=True, num_traces=num_traces, num_jobs=num_jobs)
    if isinstance(given, str | PathLike):
        tables = registered.resolve(given, seed=seed, num_traces=num_traces, num_jobs=num_jobs)
    else:
        tables = list(given)
    source = str(given) if isinstance(given, str | PathLike) else "the job tables"
    return first_of(tables, num_traces, num_jobs, source=source)
