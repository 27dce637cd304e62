"""Plans of trainings: recipe, job tables, stages, and the record in the run directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jax.sharding import Mesh

from jaxsched.arguments import LARGEST_SEED, argument
from jaxsched.core import processes, sharding
from jaxsched.errors import JaxschedError, counted
from jaxsched.experiment.contests import facts_of
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.own import Own
from jaxsched.experiment.sources import Source
from jaxsched.experiment.splits import Sets, sets_of
from jaxsched.jobs import digest_tables
from jaxsched.results import comparison
from jaxsched.results.comparison import Contest, Learned
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.trained import Trained, in_words
from jaxsched.systems import functions
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.system import System
from jaxsched.traces.describe import load_in_words
from jaxsched.types import PyTree
from jaxsched.units import readable_time


class Plan(NamedTuple):
    """Everything that determines a training.

    Attributes:
      system: what is trained on.
      recipe: with all changes.
      sets: the job tables.
      stages: stages of the recipe, in order.
      config: the record in the run directory; a run may be resumed only with an equal one.
      seeds: of the run, one policy each.
      start: weights that the seeds start from; None: drawn.
      mesh: devices; None: one.
    """

    system: System
    recipe: Any
    sets: Sets
    stages: Sequence[TrainingSetup]
    config: dict[str, Any]
    seeds: list[int]
    start: list[PyTree] | None
    mesh: Mesh | None

    @property
    def learned(self) -> TrainingSetup:
        """The stage that trains the run's policy."""
        return self.stages[-1]


def plan(
    system: System,
    *,
    preset: str,
    overrides: Sequence[str] = (),
    seed: int = 0,
    num_seeds: int = 1,
    trace: Source | None = None,
    test_trace: Source | None = None,
    options: TraceOptions | None = None,
    start: tuple[str, Learned] | None = None,
    mesh: Mesh | None = None,
    own: Own | None = None,
) -> Plan:
    """Resolve everything that a training needs; nothing is compiled or written.

    Args:
      system: what is trained on.
      preset: name of the recipe.
      overrides: changes of the recipe, ``path=value`` each.
      seed: the first seed.
      num_seeds: how many are trained side by side.
      trace: training traces; the recipe's if absent.
      test_trace: traces of the comparison at the end; of a log its last jobs if absent.
      options: how traces become episodes.
      start: trained policies to start from, and how they were named.
      mesh: devices that environments or seeds are divided between.
      own: network and learner of the user's own.

    Raises:
      JaxschedError: a name, value, trace or size is refused.
    """
    if seed + num_seeds - 1 > LARGEST_SEED:
        raise JaxschedError(f"the last of {num_seeds} seeds is beyond {LARGEST_SEED}")
    own = own or Own()
    system, recipe = own.applied(system, preset, overrides)
    sets = sets_of(system, recipe, trace, test_trace, options or TraceOptions())
    system, stages = own.stages(system, recipe, sets.train.tables)
    parts = sets._asdict()
    digests = {name: digest_tables(part.tables) for name, part in parts.items()}
    digests |= {f"{name}, published": part.digest for name, part in parts.items() if part.digest}
    config = {
        **identity(system, preset, overrides, seed, num_seeds),
        "start": start[0] if start else None,
        "recipe": recipe,
        "trace": sets.train.source,
        "test_trace": sets.test.source,
        "trace_digests": digests,
        "notes": {name: part.notes for name, part in parts.items()},
        "behaviour_version": system.environment.behaviour_version,
        "devices": 1 if mesh is None else mesh.size,
        **own.config(),
    }
    for stage in stages:
        sharding.check_divisible(mesh, num_envs=stage.loop.num_envs, num_seeds=num_seeds)
    seeds = list(range(seed, seed + num_seeds))
    weights = None if start is None else _starting_weights(stages[0], *start, num_seeds)
    return Plan(system, recipe, sets, stages, config, seeds, weights, mesh)


def plan_into(
    path: Path, system: System, *, resume: bool = False, overwrite: bool = False, **what: Any
) -> Plan:
    """Plan a training for a folder, which is checked before any trace is read.

    Args:
      path: the run directory.
      system: what is trained on.
      resume: go on with the run that is there.
      overwrite: replace it.
      what: the other arguments of :func:`plan`.

    Raises:
      JaxschedError: the folder holds another run or something else, or what ``plan`` refuses.
    """
    recorded = ("preset", "overrides", "seed", "num_seeds")
    asked = identity(system, **{name: what[name] for name in recorded})
    processes.first_alone(
        lambda: RunDirectory.check(path, asked, resume=resume, overwrite=overwrite), lambda: None
    )
    return plan(system, **what)


def identity(
    system: System, preset: str, overrides: Sequence[str], seed: int, num_seeds: int
) -> dict[str, Any]:
    """The part of a run's record that is known before traces are read."""
    return {
        "system": system.name,
        "preset": preset,
        "overrides": list(overrides),
        "seed": seed,
        "num_seeds": num_seeds,
    }


def facts_of_run(config: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a run by what its directory records: system, preset, seeds, traces, devices.

    Args:
      config: as ``plan`` makes it; of a run of an earlier version ``devices`` is None.
    """
    first = int(config.get("seed", 0))
    return {
        **{name: config.get(name) for name in ("system", "preset", "overrides")},
        "seeds": list(range(first, first + int(config.get("num_seeds", 1)))),
        "trained on": config.get("trace"),
        "devices": config.get("devices"),
    }


def _starting_weights(
    stage: TrainingSetup, word: str, learned: Learned, num_seeds: int
) -> list[PyTree]:
    """Weights of trained policies for the seeds, in turn."""
    if learned.network != stage.network:
        raise JaxschedError(
            f"{argument('start')} {word}: has a network {learned.network!r}; this recipe trains "
            f"{stage.network!r}"
        )
    return [learned.weights[index % len(learned.weights)] for index in range(num_seeds)]


def introduced(planned: Plan, place: str) -> list[str]:
    """Lines shown before a training begins: notes, cluster, load, budgets."""
    sets, system = planned.sets, planned.system
    lines = list(dict.fromkeys(part.summary for part in sets if part.summary))
    lines += [] if sets.train.summary else [f"  {note}" for note in sets.train.notes]
    budgets = []
    for stage in planned.stages:
        environments = counted(stage.loop.num_envs, "environment")
        budgets.append(f"{stage.name}, {stage.env_steps:,} steps in {environments}")
    env = planned.learned.play_env
    load = load_in_words(sets.train.tables, sum(env.server_gpus()), env.gpu_slots())
    cluster = functions.facts(system, env, {})["cluster"]
    lines.append(f"cluster: {cluster}" + (f"; load of the training traces {load}" if load else ""))
    lines.append(
        f"training {system.name} with preset {planned.config['preset']!r} on "
        f"{counted(len(sets.train.tables), 'trace')} of {sets.train.source}: "
        f"{'; then '.join(budgets)}; everything goes to {place}"
    )
    lines += [f"  variant of the paper: {line}" for line in planned.learned.variants]
    return [*lines, "compiling (half a minute the first time)"]


def tested(planned: Plan, trained: Trained, command: str) -> dict[str, Any]:
    """Compare the best policy of each seed with every heuristic on the test traces.

    Args:
      planned: the training.
      trained: its result.
      command: that gives the same results.

    Returns:
      A comparison as ``jaxsched.report.schema`` describes it, with the learning curve.
    """
    system, setup, sets = planned.system, planned.learned, planned.sets
    env, episodes = setup.play_env, sets.test
    usual = functions.usual_policies(system, env)
    facts = facts_of(system, env, episodes, {}) | _facts_of_training(planned, trained)
    contest = Contest(
        system,
        episodes.tables,
        episodes.source,
        facts=facts,
        command=command,
        further_notes=_notes_beside(sets),
    )
    result = comparison.compare(contest, usual, [learned_by(planned, trained)], environment=env)
    chosen_on = "training" if sets.validation is sets.train else "validation"
    same = Contest(system, sets.validation.tables, sets.validation.source)
    result["learning_curve"] = {
        "levels": comparison.heuristic_scores(same, usual, env),
        "x_label": "training episodes",
        "y_label": f"{result['metrics'][system.metrics.primary]['label']} "
        f"({chosen_on} traces, {setup.play})",
        "metric": system.metrics.primary,
        "series": series_of(planned.seeds, trained),
    }
    return result


def learned_by(planned: Plan, trained: Trained) -> Learned:
    """The trained policies of all seeds as a comparison takes them."""
    setup = planned.learned
    note = "; ".join(setup.variants)
    return Learned(
        setup.policy.name, setup.play_env, setup.network, trained.weights, setup.play, note
    )


def series_of(seeds: Sequence[int], trained: Trained) -> list[dict[str, Any]]:
    """The learning curves, a series for each seed."""
    return [
        {
            "seed": seed,
            "x": [point.episodes for point in curve],
            "y": [point.score for point in curve],
            "wall_s": [point.wall_s for point in curve],
        }
        for seed, curve in zip(seeds, trained.curves, strict=True)
    ]


def _facts_of_training(planned: Plan, trained: Trained) -> dict[str, Any]:
    config, setup = planned.config, planned.learned
    started = {"started from": config["start"]} if config["start"] else {}
    return {
        "preset": config["preset"],
        "seeds": ", ".join(map(str, planned.seeds)),
        "trained on": config["trace"],
        "environment steps": f"{trained.curves[0][-1].env_steps:,} per seed",
        "training time": readable_time(trained.wall_s),
        "training time of the last session": in_words(trained.phases.seconds),
        "episodes before the chosen policy": ", ".join(
            f"{point.episodes:,.0f}" for point in trained.best
        ),
        "differences from the paper's recipe": "; ".join(setup.variants) or "none",
        **started,
    }


def _notes_beside(sets: Sets) -> list[str]:
    """What was changed in training and validation traces and not in the test traces alike."""
    known = set(sets.test.notes)
    found = []
    for name, part in (("training", sets.train), ("validation", sets.validation)):
        if name == "training" or part is not sets.train:
            found += [f"{name} traces: {note}" for note in part.notes if note not in known]
    return found
