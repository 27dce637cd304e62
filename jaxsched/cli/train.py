"""``jaxsched train``: train, compare with every baseline, report."""

import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jaxsched.cli.completion import complete_trace
from jaxsched.cli.config_file import RUN_FILE, as_toml
from jaxsched.cli.devices import (
    Coordinator,
    Devices,
    NumProcesses,
    ProcessId,
    Shard,
    devices_of,
)
from jaxsched.cli.options import (
    LARGEST,
    LARGEST_SEED,
    OUTPUT,
    TRACES,
    Columns,
    Cut,
    Format,
    Load,
    MeanGap,
    NumJobs,
    NumTraces,
    Preset,
    ServersOption,
    Settings,
    System,
    Timezone,
    TraceOptions,
    TraceSeed,
    TrainingTrace,
    as_typed,
    environment_changes,
    given,
    present_name,
)
from jaxsched.cli.output import STOPPED, console, write_json, write_text
from jaxsched.errors import EndedAlone, JaxschedError, counted

if TYPE_CHECKING:
    from jaxsched.cli.episodes import Episodes

TEST_SHARE, VALIDATION_SHARE = 0.2, 0.1
"""Last shares of a published trace that are kept for the test and for choosing policies."""

PLACE = ("out", "resume", "overwrite")
"""Options that say where a run goes, not what it is."""


class Sets(NamedTuple):
    """The job tables of a run; tables drawn from one source are drawn with different seeds."""

    train: "Episodes"
    validation: "Episodes"
    test: "Episodes"


def train(
    context: typer.Context,
    system: System,
    preset: Preset = "quick",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the run.")] = 0,
    num_seeds: Annotated[
        int, typer.Option(min=1, max=LARGEST, help="Seeds trained side by side.")
    ] = 1,
    out: Annotated[Path | None, typer.Option(help="Run directory; runs/SYSTEM-PRESET.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the newest checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace the run that is there.")] = False,
    settings: Settings = None,
    servers: ServersOption = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="Start from a trained policy: SYSTEM/pretrained, a run, or a policy in it."
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Log to wandb or mlflow too (repeat for both).", rich_help_panel=OUTPUT),
    ] = None,
    trace: TrainingTrace = None,
    test_trace: Annotated[
        str | None,
        typer.Option(
            help="Test traces: name or file; of job tables all.",
            rich_help_panel=TRACES,
            autocompletion=complete_trace,
        ),
    ] = None,
    trace_seed: TraceSeed = 0,
    num_traces: NumTraces = None,
    num_jobs: NumJobs = None,
    cut: Cut = False,
    mean_gap: MeanGap = None,
    load: Load = None,
    format: Format = None,
    columns: Columns = None,
    timezone: Timezone = None,
    devices: Devices = None,
    shard: Shard = "envs",
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
) -> int:
    """Train a policy with a live display, then compare it with every baseline."""
    if seed + num_seeds - 1 > LARGEST_SEED:
        raise JaxschedError(f"the last of {num_seeds} seeds is beyond {LARGEST_SEED}")
    mesh = devices_of(devices, shard, coordinator, num_processes, process_id)
    from jaxsched.core import processes, sharding
    from jaxsched.jobs import digest_tables
    from jaxsched.runs import trackers, trainer
    from jaxsched.runs.directory import RunDirectory
    from jaxsched.runs.overrides import override
    from jaxsched.systems import registry

    chosen = registry.get(system)
    overrides = environment_changes(chosen, settings, servers)
    recipe = override(chosen.preset(preset), overrides)
    options = TraceOptions(
        trace_seed, num_traces, num_jobs, cut, mean_gap, load, format, columns=columns,
        timezone=timezone,
    )  # fmt: skip
    sets = sets_of(chosen, recipe, trace, test_trace, options)
    stages = chosen.stages(recipe, sets.train.tables)
    parts = sets._asdict()
    digests = {name: digest_tables(part.tables) for name, part in parts.items()}
    digests |= {f"{name}, published": part.digest for name, part in parts.items() if part.digest}
    config = {
        "system": system,
        "preset": preset,
        "overrides": overrides,
        "seed": seed,
        "num_seeds": num_seeds,
        "start": start,
        "recipe": recipe,
        "trace": sets.train.source,
        "test_trace": sets.test.source,
        "trace_digests": digests,
        "notes": {name: part.notes for name, part in parts.items()},
        "behaviour_version": chosen.behaviour_version,
    }
    path = out or Path("runs") / f"{system}-{preset}"
    display = console()
    for summary in dict.fromkeys(part.summary for part in sets):
        if summary:
            display.print(summary, highlight=False)
    for note in [] if sets.train.summary else sets.train.notes:
        display.print(f"  {note}", highlight=False)
    seeds = list(range(seed, seed + num_seeds))
    weights = _starting_weights(chosen, stages[0], start, num_seeds)
    for stage in stages:
        sharding.check_divisible(mesh, num_envs=stage.loop.num_envs, num_seeds=num_seeds)
    with RunDirectory.create(path, config, resume=resume, overwrite=overwrite) as run:
        if run.writes:
            text = as_toml(str(context.info_name), given(context, without=PLACE))
            write_text(run.path / RUN_FILE, text)
            run.trackers = trackers.start(track or [], run.path, run.config)
        _introduce(display, chosen, preset, stages, sets.train, path)
        try:
            trained = trainer.train(
                chosen,
                stages,
                tables=sets.validation.tables,
                seeds=seeds,
                run=run,
                resume=resume,
                start=weights,
                mesh=mesh,
                say=lambda line: display.print(line, highlight=False),
            )
        except trainer.Interrupted:
            display.print(f"stopped; continue with the same command and --resume (run: {path})")
            return STOPPED
        except EndedAlone as error:
            raise EndedAlone(
                f"{error}; start all of them again with --resume (run: {path})"
            ) from error
        command = as_typed(context, without=PLACE)
        command += f" --out {shlex.quote(str(path))}"
        with processes.together(), sharding.on(mesh):
            result = _test(chosen, stages[-1], trained, seeds, sets, config, command)
        if run.writes:
            _conclude(display, run, result)
    return 0


def _starting_weights(
    system: Any, stage: Any, start: str | None, num_seeds: int
) -> list[Any] | None:
    """Weights of trained policies for the seeds, in turn; None where they are drawn."""
    from jaxsched.runs.policies import find_trained

    if start is None:
        return None
    learned, saved = find_trained(present_name("policy", start), system).trained()
    if learned.network != stage.network:
        raise JaxschedError(
            f"--start {start}: has a network {learned.network!r}; this recipe trains "
            f"{stage.network!r}"
        )
    return [saved[index % len(saved)].weights for index in range(num_seeds)]


def sets_of(
    system: Any, recipe: Any, trace: str | None, test_trace: str | None, options: TraceOptions
) -> Sets:
    """Training, validation and test tables; no job of a trace is in two of them.

    Traces that are drawn have other seeds; published ones are split in order of submission.
    """
    from jaxsched.cli.episodes import resolve
    from jaxsched.traces import load

    names = system.recipe_traces(recipe)
    training = trace or names.train
    read = cache(load)  # the same file three times

    def draw(name: str, seed: int, count: int | None, part: tuple[float, float]) -> "Episodes":
        of_file = options if Path(name).exists() else options.without_reading()
        chosen = of_file._replace(
            seed=options.seed + seed, num_traces=options.num_traces or count, part=part
        )
        episodes = resolve(name, system, chosen, recipe.env, read=read)
        if name == training:
            return episodes.made_with(options, system, recipe.env)
        return episodes.rescaled(options, system, recipe.env)

    validates = names.validation is not None
    end = 1.0 if test_trace is not None else 1.0 - TEST_SHARE
    middle = end - VALIDATION_SHARE if validates else end
    train = draw(training, 0, names.num_train, (0.0, middle))
    rest = (0.0, 1.0) if test_trace is not None else (end, 1.0)
    test = draw(test_trace or trace or names.test, 1, names.num_test, rest)
    if names.validation is None:
        return Sets(train, train, test)
    between = draw(trace or names.validation, 2, names.num_validation, (middle, end))
    return Sets(train, between, test)


def _introduce(
    display: Any, system: Any, preset: str, stages: Sequence[Any], episodes: "Episodes", path: Path
) -> None:
    from jaxsched.traces.describe import load_in_words

    budgets = []
    for stage in stages:
        num_envs = stage.loop.num_envs
        budgets.append(
            f"{stage.name}, {stage.env_steps:,} steps in {counted(num_envs, 'environment')}"
        )
    env = stages[-1].play_env
    load = load_in_words(episodes.tables, sum(system.cluster_gpus(env)))
    cluster = system.facts(env, {})["cluster"]
    display.print(
        f"cluster: {cluster}" + (f"; load of the training traces {load}" if load else ""),
        highlight=False,
    )
    display.print(
        f"training {system.name} with preset {preset!r} on "
        f"{counted(len(episodes.tables), 'trace')} of {episodes.source}: "
        f"{'; then '.join(budgets)}; everything goes to {path}",
        highlight=False,
    )
    for line in stages[-1].variants:
        display.print(f"  variant of the paper: {line}", highlight=False)
    display.print("compiling (half a minute the first time)", highlight=False)


def _test(
    system: Any,
    setup: Any,
    trained: Any,
    seeds: list[int],
    sets: Sets,
    config: dict[str, Any],
    command: str,
) -> dict[str, Any]:
    """Compare the best policy of each seed with every heuristic on the test traces."""
    from jaxsched.cli.compare import facts_of
    from jaxsched.results import comparison
    from jaxsched.runs.trained import in_words

    env, episodes = setup.play_env, sets.test
    usual = system.usual_policies(env)
    facts = facts_of(system, env, episodes, {})
    facts |= {
        "preset": config["preset"],
        "seeds": ", ".join(map(str, seeds)),
        "trained on": config["trace"],
        "environment steps": f"{trained.curves[0][-1].env_steps:,} per seed",
        "training time": f"{trained.wall_s / 60:.1f} min",
        "of which in the last session": in_words(trained.phases.seconds),
        "policy chosen after": ", ".join(
            counted(round(point.episodes), "episode") for point in trained.best
        ),
        "variants of the paper": "; ".join(setup.variants) or "none",
    }
    if config["start"]:
        facts["started from"] = config["start"]
    contest = comparison.Contest(
        system,
        episodes.tables,
        episodes.source,
        facts=facts,
        command=command,
        further_notes=_notes_beside(sets),
    )
    learned = comparison.Learned(
        setup.policy.name,
        env,
        setup.network,
        trained.weights,
        setup.play,
        "; ".join(setup.variants),
    )
    result = comparison.compare(contest, usual, [learned], environment=env)
    chosen_on = "training" if sets.validation is sets.train else "validation"
    same = comparison.Contest(system, sets.validation.tables, sets.validation.source)
    result["learning_curve"] = {
        "levels": comparison.heuristic_scores(same, usual, env),
        "x_label": "training episodes",
        "y_label": f"{result['metrics'][system.primary_metric]['label']} "
        f"({chosen_on} traces, {setup.play})",
        "metric": system.primary_metric,
        "series": [
            {
                "seed": seed,
                "x": [point.episodes for point in curve],
                "y": [point.score for point in curve],
                "wall_s": [point.wall_s for point in curve],
            }
            for seed, curve in zip(seeds, trained.curves, strict=True)
        ],
    }
    return result


def _notes_beside(sets: Sets) -> list[str]:
    """What was changed in training and validation traces and not in the test traces alike."""
    known = set(sets.test.notes)
    found = []
    for name, part in (("training", sets.train), ("validation", sets.validation)):
        if name == "training" or part is not sets.train:
            found += [f"{name} traces: {note}" for note in part.notes if note not in known]
    return found


def _conclude(display: Any, run: Any, result: dict[str, Any]) -> None:
    from jaxsched.cli.compare import print_comparison
    from jaxsched.report import check, write_html
    from jaxsched.results.curves import COMPARISON

    write_json(run.path / COMPARISON, result)
    write_html(check(result), run.report)
    print_comparison(result, display)
    display.print(f"open {run.report} in a browser for figures and details", highlight=False)
