"""What a recipe will need here: memory and time, from a few updates of each of its stages."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxsched.bench.training import time_chunks
from jaxsched.jobs import JobTable
from jaxsched.runs import memory
from jaxsched.runs.overrides import override
from jaxsched.systems import functions
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.paths import holder_of
from jaxsched.systems.stages import stages_of
from jaxsched.systems.system import System

REPEATS = 3


class Stage(NamedTuple):
    """One stage of a recipe.

    Attributes:
      name: of the stage.
      updates: of the whole stage.
      env_steps: of the whole stage.
      evaluations: on the validation traces, one at its end among them.
      compile_s: seconds to compile an update and to play the validation traces the first time.
      update_s: median seconds of an update.
      evaluation_s: seconds of an evaluation.
      peak_bytes: memory at the most; None where the device does not tell.
    """

    name: str
    updates: int
    env_steps: int
    evaluations: int
    compile_s: float
    update_s: float
    evaluation_s: float
    peak_bytes: int | None

    @property
    def total_s(self) -> float:
        """Seconds of the stage; the comparison after a training is not in it."""
        return (
            self.compile_s
            + self.updates * self.update_s
            + max(self.evaluations - 1, 0) * self.evaluation_s
        )


def preview(
    system: System, recipe: Any, tables: Sequence[JobTable], validation: Sequence[JobTable]
) -> list[Stage]:
    """Compile each stage of a recipe and time a few of its updates, for one seed.

    A learner that first fills a replay buffer learns from the first update on, so that its
    gradient steps are timed too.

    Args:
      system: what is trained on.
      recipe: one of its presets, perhaps changed.
      tables: training tables.
      validation: tables that policies are chosen on.
    """
    if holder_of(recipe, "learner.learning_starts") is not None:
        recipe = override(recipe, ["learner.learning_starts=1"])
    return [_stage(system, setup, validation) for setup in stages_of(system, recipe, tables)]


def _stage(system: System, setup: TrainingSetup, tables: Sequence[JobTable]) -> Stage:
    loop, params = setup.loop, setup.params_at(0.0)
    programs: list[Any] = []
    timed = time_chunks(
        setup.env,
        setup.learner,
        loop,
        params,
        updates=1,
        warm_ups=2,
        repeats=REPEATS,
        on_compiled=programs.append,
    )
    needed = memory.needed_by(programs[0])
    scored = setup.play_env.params(tables)
    weights = functions.init_weights(system, setup.play_env, setup.network, scored)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        jax.block_until_ready(functions.play(system, setup.play_env, setup.policy, scored, weights))
        seconds.append(time.perf_counter() - start)
    return Stage(
        setup.name,
        loop.num_updates,
        setup.env_steps,
        math.ceil(loop.num_updates / setup.evaluate_every),
        timed.compile_s + seconds[0],
        float(np.median(timed.wall_s)),
        seconds[1],
        None if needed is None else needed.peak,
    )
