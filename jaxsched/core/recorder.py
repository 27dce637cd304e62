"""The one recorder: gathers an episode's job events into a record per job and sums over steps.

An environment whose ``timestep.metrics`` is a ``JobEvents`` needs nothing of its own
(``job_recorder``); others say how their metrics read as one (``gather``). Axes: ``n`` jobs of a
table, ``k`` starts and ``m`` finishes that one step can report.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsched.core.evaluation import Recorder
from jaxsched.types import Array, PyTree, TimeStep

NEVER = -1


class JobEvents(NamedTuple):
    """What one step did to the jobs of the episode's table.

    Attributes:
      started: int32 ``[k]`` (or a scalar), rows of jobs that started; ``NO_JOB`` elsewhere.
      finished: int32 ``[m]``, rows of jobs that finished, likewise.
      of_started: name -> ``[k, ...]`` or a scalar for all, what is recorded of jobs that started.
      of_finished: name -> ``[m, ...]`` likewise.
      amounts: name -> scalar, summed over the episode.
    """

    started: Array
    finished: Array
    of_started: Mapping[str, Array]
    of_finished: Mapping[str, Array]
    amounts: Mapping[str, Array] = {}


def gather(
    init: Callable[[Any], PyTree], events: Callable[[PyTree, TimeStep], JobEvents]
) -> Recorder:
    """A recorder whose records have a field for each name in the events.

    Args:
      init: ``init(params) -> records``, a named tuple or a dictionary, at the start: ``[n, ...]``
        for what is recorded of jobs, scalars for sums.
      events: ``events(records, timestep)``, what a step did; ``records`` are those before it.
    """
    return Recorder(init, partial(note_events, events))


def note_events(
    events: Callable[[PyTree, TimeStep], JobEvents],
    records: PyTree,
    timestep: TimeStep,
    playing: Array,
) -> PyTree:
    """The records after a step, as ``gather`` keeps them."""
    before = records if isinstance(records, dict) else records._asdict()
    step = events(records, timestep)
    changes = {
        **_noted(before, step.of_started, step.started, playing),
        **_noted(before, step.of_finished, step.finished, playing),
    }
    for name, amount in step.amounts.items():
        changes[name] = before[name] + jnp.where(playing, amount, 0)
    if isinstance(records, dict):
        return {**records, **changes}
    return records._replace(**changes)


def _noted(
    records: Mapping[str, Array], values: Mapping[str, Array], rows: Array, playing: Array
) -> dict[str, Array]:
    """The columns of ``values`` with these rows set."""
    noted = {}
    for name, value in values.items():
        column = records[name]
        kept = jnp.where((rows >= 0) & playing, rows, column.shape[0])  # out of range: dropped
        noted[name] = column.at[kept].set(value, mode="drop")
    return noted


@cache
def job_recorder(env: Any) -> Recorder:
    """The recorder of an environment whose ``timestep.metrics`` is a ``JobEvents``.

    Its records are a dictionary of what the events name, ``start`` and ``finish`` (s) of each job
    being -1 before; with ``total_reward`` and ``steps``. The same object for equal environments: it
    is a static argument of the evaluation.

    Args:
      env: the environment; its ``max_jobs(params)`` are the jobs of the longest table.
    """

    def init(params: Any) -> dict[str, Array]:
        jobs = env.max_jobs(params)
        like = jax.eval_shape(lambda given: env.reset(jax.random.key(0), given)[1], params)
        step = events({}, like)
        columns = [(step.started, step.of_started), (step.finished, step.of_finished)]
        records = {
            name: jnp.zeros(total.shape, total.dtype) for name, total in step.amounts.items()
        }
        for rows, values in columns:
            for name, value in values.items():
                empty = NEVER if name in ("start", "finish") else 0
                shape = (jobs, *value.shape[len(rows.shape) :])
                records[name] = jnp.full(shape, empty, value.dtype)
        return records

    def events(records: PyTree, timestep: TimeStep) -> JobEvents:
        del records
        step: JobEvents = timestep.metrics
        return step._replace(
            amounts={**step.amounts, "total_reward": timestep.reward, "steps": jnp.int32(1)}
        )

    return gather(init, events)
