"""A finished or stopped training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.experiment import frames
from jaxsched.experiment.temporary import TemporaryFolder
from jaxsched.experiment.trained import TrainedPolicy
from jaxsched.files import PathLike
from jaxsched.results.comparison import Learned
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.trained import Point
from jaxsched.systems import functions
from jaxsched.systems.system import System
from jaxsched.types import PyTree


@dataclass(frozen=True, eq=False)
class Run:
    """What ``jaxsched.train`` returns, and ``jaxsched.load`` of a run directory.

    Attributes:
      path: the run directory; temporary, and gone with this object, where none was asked for.
      learned: the best policy of each seed.
      curves: per seed, its evaluations on the validation traces; empty where it is not known.
      scores: per seed, that of its best policy on these traces; None where it is not known.
      facts: of the run: system, preset, seeds, devices.
      finished: whether it ran to its end.
      owner: the system.
      wall_s: seconds of training over all sessions, evaluations included; None if not known.
      folder: holds the temporary directory.
    """

    path: Path
    learned: Learned
    curves: Sequence[Sequence[Point]]
    scores: Sequence[float | None]
    facts: dict[str, Any]
    finished: bool
    owner: System
    wall_s: float | None = None
    folder: TemporaryFolder | None = None

    @property
    def system(self) -> str:
        """Name of the system."""
        return self.owner.name

    @property
    def place(self) -> str:
        """Argument of ``jaxsched.load`` for this run."""
        return str(self.path)

    @property
    def weights(self) -> Sequence[PyTree]:
        """Parameters of each seed's best policy."""
        return self.learned.weights

    @property
    def best_seed(self) -> int:
        """Place of the seed whose policy scored best; 0 where scores are not known."""
        return functions.best_of(self.owner, self.scores)

    @property
    def best(self) -> Point:
        """The best evaluation: its update, steps and score on the validation traces.

        Raises:
          JaxschedError: the run directory does not hold its evaluations.
        """
        if not any(self.curves):
            raise JaxschedError(f"{self.path}: does not hold the run's evaluations")
        curve = self.curves[self.best_seed]
        return curve[functions.best_of(self.owner, [point.score for point in curve])]

    @cached_property
    def policy(self) -> TrainedPolicy:
        """The best policy; call it with an observation and a mask."""
        weights = [self.weights[self.best_seed]]
        learned = replace(self.learned, weights=weights)
        return TrainedPolicy(self.system, learned, self.owner, self.place)

    @property
    def metrics(self) -> Any:
        """The lines of ``metrics.jsonl`` as rows of a data frame.

        Raises:
          JaxschedError: pandas is not installed.
        """
        return frames.frame_of_rows(RunDirectory.open(self.path).metrics())

    def plot(self, path: PathLike) -> Path:
        """Draw the learning curve: score on the validation traces against environment steps.

        Args:
          path: ends in ``.png``, ``.svg`` or ``.pdf``.

        Raises:
          JaxschedError: another ending, no evaluations, or the file cannot be written.
        """
        from jaxsched.pictures import COLUMN_IN, check_picture, new_figure, save_figure, styled

        path = Path(path)
        check_picture(path)
        if not any(self.curves):
            raise JaxschedError(f"{self.path}: does not hold the run's evaluations")
        metric = functions.metric(self.owner, self.owner.metrics.primary)

        @styled
        def draw() -> None:
            figure = new_figure(COLUMN_IN, 0.7 * COLUMN_IN)
            axes = figure.subplots()
            for number, curve in enumerate(self.curves):
                steps = [point.env_steps for point in curve]
                axes.plot(steps, [point.score for point in curve], "o-", label=f"seed {number}")
            axes.set_xlabel("environment steps")
            axes.set_ylabel(f"{metric.label}, validation traces")
            save_figure(figure, path)

        draw()
        return path

    def __repr__(self) -> str:
        """One line."""
        score = f", best score {self.best.score:.4g}" if any(self.curves) else ""
        ended = "" if self.finished else ", stopped"
        return f"Run({self.system}: preset {self.facts.get('preset')!r}{score}{ended})"
