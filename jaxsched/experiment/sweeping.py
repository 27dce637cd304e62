"""Sweeps: every combination of values with every seed, groups of them as one program each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxsched.arguments import entry_of
from jaxsched.core import processes
from jaxsched.errors import JaxschedError
from jaxsched.experiment.devices import mesh_of
from jaxsched.experiment.engines import engine_of
from jaxsched.experiment.groups import Engine, Session, in_this_process
from jaxsched.experiment.names import as_word, changes_of, system_of
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.sources import Source
from jaxsched.experiment.sweep_plan import SweepPlan, plan_sweep
from jaxsched.experiment.sweep_result import Sweep
from jaxsched.experiment.temporary import TemporaryFolder
from jaxsched.files import PathLike, write_json
from jaxsched.runs.sweep import Axis, Book, checked
from jaxsched.runtime import is_first
from jaxsched.systems import functions


def run_sweep(planned: SweepPlan, session: Session, engine: Engine = in_this_process) -> Sweep:
    """Train all groups that are not in the sweep's record yet.

    Args:
      planned: the sweep.
      session: how; with ``resume``, the sweep that is in the folder goes on.
      engine: the engine.

    Raises:
      Interrupted: asked to stop, with everything saved.
      JaxschedError: the folder cannot be written, or there is not enough memory.
      EndedAlone: one of several processes has ended.
    """
    for note in planned.notes["train"]:
        session.say(f"  {note}")
    book = Book(planned.folder, planned.config, resume=session.resume, notes=planned.notes)
    processes.check_same(len(book.groups), "the number of groups that have ended")
    _write(book)  # a sweep that is stopped in its first group can go on
    left = [group for group in planned.groups if group.name not in book.groups]
    for group, rows in engine(planned, left, session) if left else ():
        found = {**book.groups, group.name: rows}  # they may end in any order
        book.groups = {one.name: found[one.name] for one in planned.groups if one.name in found}
        _write(book)
    over = {axis.path: {value: value for value in axis.values} for axis in planned.axes}
    metric = functions.metric(planned.system, planned.system.metrics.primary)
    return Sweep(book.rows, over, metric, planned.folder)


def _write(book: Book) -> None:
    if is_first():
        write_json(book.path, book.document())


def sweep(
    system: Any,
    *,
    over: Mapping[str, Sequence[Any]],
    preset: str = "quick",
    seed: int = 0,
    num_seeds: int = 1,
    out: PathLike | None = None,
    resume: bool = False,
    traces: Source | None = None,
    trace_seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    format: str | None = None,  # noqa: A002  (the command's word)
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    servers: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  (the command's word)
    side_by_side: int | None = None,
    devices: int | str | None = None,
    shard: str = "seeds",
    engine: str | None = None,
    address: str | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    max_retries: int | None = None,
    engine_log: bool = False,
) -> Sweep:
    """Train every combination of values with every seed, side by side where one program can.

    Args:
      system: name of a system, or a ``System``.
      over: values of settings, ``{"learner.learning_rate": [1e-4, 3e-4]}``.
      preset: name of the recipe.
      seed: the first seed.
      num_seeds: seeds of each combination.
      out: folder of the sweep; a temporary one if absent.
      resume: go on with the sweep in ``out``.
      traces: training traces; the recipe's if absent.
      trace_seed: of what is drawn.
      num_traces: how many.
      num_jobs: jobs of each.
      format: of trace files; told by their content if absent.
      columns: of a table of one's own, names in the file to names in a trace.
      timezone: of times in a trace file that say none, such as "Europe/Berlin".
      servers: the cluster as "40x8".
      set: changes of the recipe that all trainings have.
      side_by_side: trainings of one program at most; all that can be, if absent.
      devices: a number or "all"; with an engine, of each task.
      shard: what devices share, "seeds" or "envs".
      engine: who trains: "ray" tasks of Ray, one a program; this process if absent.
      address: of a running Ray cluster; ``RAY_ADDRESS``, or Ray started for this sweep, if absent.
      num_cpus: cores of each task of Ray (1).
      num_gpus: GPUs of each task of Ray (1 where the cluster has some).
      max_retries: how often a task begins again whose worker was lost (3).
      engine_log: whether Ray's own lines are printed.

    Raises:
      JaxschedError: a name, value, trace or folder is refused, or memory does not suffice.
    """
    if out is None and resume:
        raise JaxschedError("resume is given without out; accepted: with the folder of a sweep")
    chosen = system_of(system)
    trains = engine_of(
        engine,
        address=address,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        max_retries=max_retries,
        engine_log=engine_log,
        devices=devices,
        shard=shard,
    )
    values = {path: _by_word(path, given) for path, given in over.items()}
    temporary = TemporaryFolder() if out is None else None
    folder = temporary.path / "sweep" if temporary else Path(str(out))
    planned = plan_sweep(
        chosen,
        folder,
        axes=checked([Axis(path, tuple(words)) for path, words in values.items()]),
        preset=preset,
        overrides=changes_of(chosen, servers, {}, set),
        seed=seed,
        num_seeds=num_seeds,
        side_by_side=side_by_side,
        trace=traces,
        options=TraceOptions(
            trace_seed, num_traces, num_jobs, format=format, columns=columns, timezone=timezone
        ),
        resume=resume,
        mesh=mesh_of(devices, shard) if engine is None else None,
    )
    found = run_sweep(planned, Session(resume, shown=False), trains)
    return replace(found, over=values, folder=temporary)


def _by_word(path: str, values: Any) -> dict[str, Any]:
    """Values of a setting by how the command takes them.

    Raises:
      JaxschedError: they are no list, or one of them is refused.
    """
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise JaxschedError(f"{entry_of('over', path)} is {values!r}; accepted: a list of values")
    words = [(as_word(value, f"a value of {entry_of('over', path)}"), value) for value in values]
    if len(dict(words)) < len(words):
        raise JaxschedError(f"{entry_of('over', path)}: a value comes twice")
    return dict(words)
