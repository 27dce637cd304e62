"""Time to a score: recipes trained from nothing until their policy is good enough."""

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

import jaxsched
from jaxsched.bench import timing
from jaxsched.bench.training import spread
from jaxsched.errors import JaxschedError
from jaxsched.experiment.plans import plan
from jaxsched.jobs import JobTable
from jaxsched.provenance import surroundings
from jaxsched.results.comparison import Contest, heuristic_scores
from jaxsched.runs import trainer
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.trained import in_words
from jaxsched.systems import functions, registry
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.system import System


def time_to_score(
    name: str,
    score: str,
    *,
    preset: str = "quick",
    overrides: tuple[str, ...] = (),
    num_seeds: int = 1,
    mesh: Mesh | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train a recipe, all its stages, until its policy reaches a score on the validation traces.

    The clock runs from before anything is compiled to the evaluation that reached the score;
    compilations, evaluations and writing the policies are within. Nothing compiled is kept from
    seed to seed.

    Args:
      name: the system.
      score: a number in the unit of its primary metric, or a policy whose own score it is.
      preset: the recipe.
      overrides: changes of it, ``path=value`` each.
      num_seeds: trained one after the other, from 0.
      mesh: devices that environments are divided between; None: one.
      progress: called with a line about what comes next.

    Raises:
      JaxschedError: unknown system, preset or score, a bad override, or environments that the
        devices cannot share equally.
    """
    system = registry.get(name)
    planned = plan(system, preset=preset, overrides=overrides)
    stages, (validation, source, *_) = planned.stages, planned.sets.validation
    goal = _goal(system, score, stages[-1], validation)
    metric = functions.metric(system, system.metrics.primary)
    progress(f"{name}, preset {preset!r}: until {metric.label} is {goal:.6g} on {source}")
    rows = []
    for seed in range(num_seeds):
        rows.append(_timed(system, stages, validation, seed, goal, mesh))
        progress(f"seed {seed}: {_in_words(rows[-1])}")
    result = {
        "kind": "time-to-score",
        "system": name,
        "preset": preset,
        "overrides": list(overrides),
        **surroundings(),
        "metric": system.metrics.primary,
        "label": metric.label,
        "better": metric.better,
        "score": goal,
        "score_of": None if _is_number(score) else score,
        "validation": source,
        "validation_traces": len(validation),
        "devices": 1 if mesh is None else mesh.size,
        "num_envs": stages[-1].loop.num_envs,
        "rows": rows,
        "reached": sum(row["reached"] for row in rows),
    }
    times = [row["wall_s"] for row in rows if row["reached"]]
    result["time_to_score_s"] = spread(times) if times else None
    result["versions"]["jaxsched"] = jaxsched.__version__
    return result


def _goal(system: System, score: str, stage: TrainingSetup, tables: Sequence[JobTable]) -> float:
    """The score to be reached."""
    if _is_number(score):
        return float(score)
    score = score.removeprefix(f"{system.name}/")
    names = functions.usual_policies(system, stage.play_env)
    if score not in names:
        known = ", ".join(names)
        raise JaxschedError(f"--score {score}: neither a number nor a policy; policies are {known}")
    contest = Contest(system, tables, "validation")
    return heuristic_scores(contest, [score], stage.play_env)[score]


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(abs(float(text)) < float("inf"))
    return False


def _timed(
    system: System,
    stages: Sequence[TrainingSetup],
    tables: Sequence[JobTable],
    seed: int,
    goal: float,
    mesh: Mesh | None,
) -> dict[str, Any]:
    """One training, in a folder that does not outlive it."""
    config = {"system": system.name, "seed": seed}
    with tempfile.TemporaryDirectory() as folder, timing.fresh_compilations():
        stopwatch = timing.Stopwatch()
        with RunDirectory.create(Path(folder) / "run", config) as run:
            trained = trainer.train(
                system,
                stages,
                tables=tables,
                seeds=[seed],
                run=run,
                resume=False,
                goal=goal,
                mesh=mesh,
            )
        lap = stopwatch.lap()
    last, best = trained.curves[0][-1], trained.best[0]
    before = sum(stage.env_steps for stage in stages[:-1])
    gradients = sum(stage.loop.num_updates * stage.gradient_steps for stage in stages[:-1])
    env_steps = before + last.env_steps
    return {
        "seed": seed,
        "reached": trainer.reaches(system, best.score, goal),
        "best": best.score,
        "wall_s": lap.wall_s,
        "cpu_s": lap.cpu_s,
        "env_steps": env_steps,
        "gradient_steps": gradients + last.update * stages[-1].gradient_steps,
        "env_steps_per_s": env_steps / lap.wall_s,
        "seconds_by_part": trained.phases.seconds,
    }


def _in_words(row: dict[str, Any]) -> str:
    what = "reached" if row["reached"] else "not reached, the recipe is at its end"
    by_part = in_words(row["seconds_by_part"])
    return (
        f"{what} after {row['wall_s']:.1f} s ({by_part}), {row['env_steps']:,} steps, "
        f"best {row['best']:.6g}"
    )
