"""A training from its plan to the report in its folder, as the command line runs it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxsched.arguments import argument
from jaxsched.core import processes, sharding
from jaxsched.errors import EndedAlone
from jaxsched.experiment.plans import Plan, introduced, tested
from jaxsched.files import write_json, write_text
from jaxsched.report import check, write_html
from jaxsched.results.curves import COMPARISON
from jaxsched.runs import interrupts, trackers, trainer
from jaxsched.runs.directory import OPTIONS, RunDirectory


def to_the_report(
    planned: Plan,
    path: Path,
    *,
    command: str,
    options: str,
    resume: bool = False,
    overwrite: bool = False,
    track: Sequence[str] = (),
    limit: interrupts.Limits = interrupts.UNLIMITED,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any] | None:
    """Train with a live display, compare the policies with every baseline, write the report.

    Args:
      planned: the training.
      path: its run directory.
      command: that gives the same results.
      options: what ``--config`` takes to repeat it, TOML.
      resume: go on with the run that is there.
      overwrite: replace it.
      track: names of trackers that are logged to as well.
      limit: a time and further signals that end the session.
      say: called with a line about the next step.

    Returns:
      The comparison, which is in the folder; None in all processes but the first.

    Raises:
      Stopped: asked to stop, with everything saved.
      JaxschedError: the folder cannot be written, or there is not enough memory.
      EndedAlone: the run has several processes, and one of them has ended.
    """
    with RunDirectory.create(path, planned.config, resume=resume, overwrite=overwrite) as run:
        if run.writes:
            write_text(run.path / OPTIONS, options)
            run.trackers = trackers.start(track, run.path, run.config)
        for line in introduced(planned, str(path)):
            say(line)
        try:
            trained = trainer.train(
                planned.system,
                planned.stages,
                tables=planned.sets.validation.tables,
                seeds=planned.seeds,
                run=run,
                resume=resume,
                start=planned.start,
                mesh=planned.mesh,
                say=say,
                limit=limit,
            )
        except trainer.Interrupted as stop:
            raise interrupts.Stopped(
                stop.status,
                f"{stop}; continue with the same command and {argument('resume')} (run: {path})",
            ) from None
        except EndedAlone as error:
            raise EndedAlone(
                f"{error}; start all of them again with {argument('resume')} (run: {path})"
            ) from error
        with processes.together(), sharding.on(planned.mesh):
            result = tested(planned, trained, command)
        if not run.writes:
            return None
        write_json(run.path / COMPARISON, result)
        write_html(check(result), run.report)
        return result
