"""Training from Python: ``jaxsched.train`` and ``jaxsched.training``."""

import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jaxsched.core import sharding
from jaxsched.errors import JaxschedError
from jaxsched.experiment.devices import mesh_of
from jaxsched.experiment.names import changes_of, system_of
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.own import Own
from jaxsched.experiment.plans import Plan, facts_of_run, learned_by, plan, plan_into, tested
from jaxsched.experiment.players import learned_of
from jaxsched.experiment.run import Run
from jaxsched.experiment.sources import Source
from jaxsched.experiment.temporary import TemporaryFolder
from jaxsched.files import PathLike, write_json
from jaxsched.report import check, write_html
from jaxsched.results.curves import COMPARISON
from jaxsched.runs import interrupts, trackers, trainer
from jaxsched.runs.directory import REPORT, RunDirectory
from jaxsched.runs.trained import Trained
from jaxsched.runs.trainer import Progress

STOPPED = 128 + signal.SIGINT
"""Exit status of a training that its caller stops; that of Ctrl-C."""

Callback = Callable[[Progress], object]


class Training:
    """A training that a loop drives: ``for progress in jaxsched.training(...)``.

    Each step trains one chunk of updates. Leaving the loop stops nothing by itself; ``finish``
    writes a checkpoint and returns the run, which may be continued with ``resume``.

    Attributes:
      path: the run directory; temporary where none was asked for.
    """

    def __init__(
        self,
        planned: Plan,
        out: PathLike | None,
        *,
        resume: bool,
        overwrite: bool,
        track: Sequence[str] = (),
        limit: interrupts.Limits = interrupts.UNLIMITED,
    ) -> None:
        self._folder = TemporaryFolder() if out is None else None
        self.path = self._folder.path if self._folder else Path(str(out))
        self._plan, self._finished, self._stops = planned, False, False
        self._latest: Progress | None = None
        self._limit = limit
        self._directory = RunDirectory.create(
            self.path, planned.config, resume=resume, overwrite=overwrite
        )
        try:
            self._directory.trackers = trackers.start(track, self.path, planned.config)
        except JaxschedError:
            self._directory.close()
            raise
        self._steps: Generator[Progress, None, Trained] | None = trainer.training_of(
            planned.system,
            planned.stages,
            tables=planned.sets.validation.tables,
            seeds=planned.seeds,
            run=self._directory,
            resume=resume,
            start=planned.start,
            mesh=planned.mesh,
            asked=self._asked,
        )
        self._trained: Trained | None = None

    def __iter__(self) -> "Training":
        """The iterator itself."""
        return self

    def __next__(self) -> Progress:
        """Train a chunk of updates.

        Raises:
          JaxschedError: there is not enough memory, or the run directory cannot be written.
        """
        if self._steps is None:
            raise StopIteration
        try:
            self._latest = next(self._steps)
        except StopIteration as end:
            self._end(end.value, finished=True)
            raise
        except trainer.Interrupted as stopped:
            self._stopped(stopped)
            raise StopIteration from None
        return self._latest

    def finish(self) -> Run:
        """Stop, if the training has not come to its end, and return the run.

        A training that has not begun trains one chunk first.
        """
        while self._steps is not None:
            self._stops = not self._at_end()
            try:
                self._latest = next(self._steps)
            except StopIteration as end:
                self._end(end.value, finished=True)
            except trainer.Interrupted as stopped:
                self._stopped(stopped)
        assert self._trained is not None
        return Run(
            path=self.path,
            learned=learned_by(self._plan, self._trained),
            curves=self._trained.curves,
            scores=[point.score for point in self._trained.best],
            facts=facts_of_run(self._plan.config),
            finished=self._finished,
            owner=self._plan.system,
            wall_s=self._trained.wall_s,
            folder=self._folder,
        )

    def report(self, command: str = "") -> dict[str, Any]:
        """Compare the policies with every rule on the test traces, as ``jaxsched train`` does.

        Stops the training if it has not come to its end. What was found is also in the run
        directory, ``comparison.json`` and ``report.html``.

        Args:
          command: that gives the same results, if there is one.

        Returns:
          The comparison (:mod:`jaxsched.report.schema`), with the learning curve.
        """
        self.finish()
        assert self._trained is not None
        with sharding.on(self._plan.mesh):
            result = tested(self._plan, self._trained, command)
        write_json(self.path / COMPARISON, result)
        write_html(check(result), self.path / REPORT)
        return result

    def _at_end(self) -> bool:
        """Whether the last chunk of the last stage has been trained."""
        latest, last = self._latest, self._plan.learned
        return (
            latest is not None and latest.stage == last.name and latest.update == latest.num_updates
        )

    def _asked(self, ahead_s: float) -> int:
        """Exit status if a stop is requested before the next chunk, which takes so long; else 0."""
        return STOPPED if self._stops else self._limit.status_before(ahead_s)

    def _stopped(self, stopped: trainer.Interrupted) -> None:
        assert stopped.result is not None
        self._end(stopped.result(), finished=False)

    def _end(self, trained: Trained, *, finished: bool) -> None:
        self._steps, self._trained, self._finished = None, trained, finished
        self._directory.close()


def training(
    system: Any,
    *,
    preset: str = "quick",
    seed: int = 0,
    num_seeds: int = 1,
    out: PathLike | None = None,
    resume: bool = False,
    overwrite: bool = False,
    max_time: str | float | None = None,
    start: Any = None,
    track: str | Sequence[str] = (),
    traces: Source | None = None,
    test_traces: Source | None = None,
    trace_seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    cut: bool = False,
    mean_gap: float | None = None,
    load: float | None = None,
    format: str | None = None,  # noqa: A002  (the command's word)
    columns: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    servers: str | None = None,
    network: Any = None,
    learner: Any = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  (the command's word)
    devices: int | str | None = None,
    shard: str = "envs",
) -> Training:
    """Prepare a training; see :func:`train` for the arguments.

    Returns:
      An iterator of ``Progress``, one after each chunk of updates; ``finish()`` gives the run.

    Raises:
      JaxschedError: a name, value, trace, size or folder is refused.
    """
    if out is None and resume:
        raise JaxschedError("resume is given without out; accepted: with a run directory")
    chosen = system_of(system)
    own = Own(network, learner)
    overrides = changes_of(chosen, servers, {}, set)
    limit = interrupts.limits(max_time)
    where: dict[str, Any] = {"resume": resume, "overwrite": overwrite}
    planning: Callable[..., Plan] = plan if out is None else partial(plan_into, Path(out), **where)
    started = None if start is None else (str(start), learned_of(start, chosen))
    planned = planning(
        chosen,
        preset=preset,
        overrides=overrides,
        seed=seed,
        num_seeds=num_seeds,
        trace=traces,
        test_trace=test_traces,
        options=TraceOptions(
            trace_seed,
            num_traces,
            num_jobs,
            cut,
            mean_gap,
            load,
            format,
            columns=columns,
            timezone=timezone,
        ),
        start=started,
        mesh=mesh_of(devices, shard),
        own=own,
    )
    return Training(
        planned,
        out,
        resume=resume,
        overwrite=overwrite,
        track=[track] if isinstance(track, str) else track,
        limit=limit,
    )


def train(
    system: Any,
    *,
    callback: Callback | None = None,
    **arguments: Any,
) -> Run:
    """Train a policy.

    Args:
      system: name of a system, or a ``System``.
      callback: called with a ``Progress`` after each chunk of updates; ``False`` stops the run
        with a checkpoint, and the run so far is returned.
      arguments: the command's words:
        ``preset`` ("quick") names the recipe, ``set={"loop.num_updates": 10}`` changes it;
        ``seed`` (0) and ``num_seeds`` (1);
        ``out`` is the run directory, a temporary one if absent; ``resume`` goes on with the run
        there, ``overwrite`` replaces it; ``max_time`` (s, "90m", "2h") stops the run with a
        checkpoint; ``track``: "wandb", "mlflow" or both are logged to as well;
        ``start``: a trained policy (``Run``, folder, ``"SYSTEM/pretrained"``) to start from;
        ``traces`` and ``test_traces``: names, files, loaded logs or job tables, and how they become
        episodes: ``trace_seed``, ``num_traces``, ``num_jobs``, ``cut``, ``mean_gap`` (s), ``load``,
        and how files are read: ``format``, ``columns``, ``timezone``;
        ``servers``: the cluster as "40x8";
        ``network``: a module from observations to scores in place of the recipe's;
        ``learner``: a ``Learner``, a function from specs to one, or settings of one of the
        library's, with a plain preset;
        ``devices``: a number or "all", and ``shard``: "envs" or "seeds".

    Returns:
      The run: ``policy``, ``weights``, ``best``, ``metrics``, ``plot(path)``.

    Raises:
      JaxschedError: a name, value, trace, size or folder is refused, or memory does not suffice.
    """
    steps = training(system, **arguments)
    for progress in steps:
        if callback is not None and callback(progress) is False:
            break
    return steps.finish()
