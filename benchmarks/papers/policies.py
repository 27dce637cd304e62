"""Trained policies: one run directory per training, trained once, continued where it stopped."""

import contextlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import jaxsched
from benchmarks.papers import store
from jaxsched.core import training
from jaxsched.errors import JaxschedError
from jaxsched.experiment.run import Run
from jaxsched.jobs import JobTable
from jaxsched.runs import checkpoints, trainer
from jaxsched.runs.directory import RunDirectory
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.system import System
from jaxsched.types import PyTree

Curve = list[tuple[int, float]]  # update, score on the validation tables


@dataclass(frozen=True)
class Policies:
    """What a training left: one policy per seed.

    Attributes:
      stages: what was trained.
      seeds: one run each.
      trained: the last stage's run.
    """

    stages: Sequence[TrainingSetup]
    seeds: Sequence[int]
    trained: Run

    @property
    def setup(self) -> TrainingSetup:
        """The last stage."""
        return self.stages[-1]

    @property
    def weights(self) -> Sequence[PyTree]:
        """Per seed, the network parameters of the best evaluation."""
        return self.trained.weights

    @property
    def wall_s(self) -> float:
        """Seconds of the last stage, evaluations included."""
        return self.trained.wall_s or 0.0

    def run(self, stage: str | None = None) -> Run:
        """What ``jaxsched.load`` makes of the last stage or an earlier one."""
        return self.trained if stage is None else read(self.trained.path / "stages" / stage)

    def metrics(self) -> dict[int, dict[str, float]]:
        """What was logged, by update."""
        merged: dict[int, dict[str, float]] = {}
        for line in RunDirectory.open(self.trained.path).metrics():  # a resumed run may repeat some
            merged.setdefault(line["step"], {}).update(line)
        return dict(sorted(merged.items()))

    def curve(self, stage: str | None = None) -> Curve:
        """Scores on the validation tables, means over the seeds."""
        points = zip(*self.run(stage).curves, strict=True)
        return [(each[0].update, sum(p.score for p in each) / len(each)) for each in points]

    def last_weights(self) -> list[PyTree]:
        """The policies as training ended, chosen by nothing."""
        setup = self.setup
        keys = jax.random.key(self.seeds[0])
        if len(self.seeds) > 1:
            keys = jax.vmap(jax.random.key)(jnp.array(self.seeds))
        carry = training.init(setup.env, setup.learner, setup.loop, keys, setup.params_at(0.0))
        carry, _ = checkpoints.restore(self.trained.path / "checkpoints", carry)
        weights = setup.learner.policy_params(carry.learner_state)
        if len(self.seeds) == 1:
            return [weights]
        return [jax.tree.map(lambda x: x[i], weights) for i in range(len(self.seeds))]  # noqa: B023


def train(
    system: System,
    stages: Sequence[TrainingSetup],
    validation: Sequence[JobTable],
    seeds: Sequence[int],
    path: Path,
    config: dict[str, Any],
) -> Policies:
    """Train, or go on with a training that was stopped.

    Args:
      system: what to train on.
      stages: what to train, each from the policy that the one before chose.
      validation: tables that policies are chosen on.
      seeds: one run each, side by side.
      path: the run directory.
      config: what the training is, with its ``key``.

    Raises:
      Interrupted: stopped by Ctrl-C; everything is saved.
    """
    _sweep(path)
    resume = path.exists()
    with (
        RunDirectory.create(path, config, resume=resume) as run,
        contextlib.redirect_stdout(sys.stderr),
    ):
        trainer.train(system, stages, tables=validation, seeds=seeds, run=run, resume=resume)
    # Every compiled program maps memory, of which a process may have so many pieces only.
    jax.clear_caches()
    return Policies(stages, seeds, read(path))


def finished(path: Path) -> Run | None:
    """The run of a training that has come to its end; None if it has not, or not begun."""
    if store.read(path / "config.json") is None:
        return None
    try:
        run = read(path)
    except JaxschedError:  # stopped before its first policy
        return None
    return run if run.finished else None


def read(path: Path) -> Run:
    """The run of a directory."""
    run = jaxsched.load(path)
    assert isinstance(run, Run)
    return run


def _sweep(path: Path) -> None:
    """Remove folders that a killed process left before it had written what they are."""
    stages = path / "stages"
    for folder in [*(stages.iterdir() if stages.is_dir() else ()), path]:
        if folder.is_dir() and store.read(folder / "config.json") is None:
            shutil.rmtree(folder)
