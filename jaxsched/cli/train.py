"""``jaxsched train``: train, compare with every baseline, report."""

from pathlib import Path
from typing import Annotated, Any

import typer

from jaxsched.cli.episodes import Episodes, TraceOptions, resolve
from jaxsched.cli.main import STOPPED, app
from jaxsched.cli.output import console, write_json


@app.command()
def train(
    system: Annotated[str, typer.Argument(help="Name of the system.")],
    preset: Annotated[str, typer.Option(help="Recipe: quick or paper.")] = "quick",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run.")] = 0,
    num_seeds: Annotated[int, typer.Option(min=1, help="Seeds trained side by side.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Run directory; runs/SYSTEM-PRESET.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the newest checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace the run that is there.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: path=value (repeat).")
    ] = None,
    trace: Annotated[str | None, typer.Option(help="Training traces: name or file.")] = None,
    test_trace: Annotated[str | None, typer.Option(help="Test traces: name or file.")] = None,
    trace_seed: Annotated[int, typer.Option(help="Seed of drawn training traces.")] = 0,
    num_traces: Annotated[int, typer.Option(min=1, help="Traces to draw.")] = 30,
    num_jobs: Annotated[int, typer.Option(min=1, help="Jobs per drawn trace.")] = 1000,
    cut: Annotated[bool, typer.Option("--cut", help="Cut a real trace, do not resample.")] = False,
    mean_gap: Annotated[
        float | None, typer.Option(help="Rescale a real trace to this mean gap (s).")
    ] = None,
    load: Annotated[
        float | None, typer.Option(help="Rescale a real trace to this offered load.")
    ] = None,
) -> int:
    """Train a policy with a live display, then compare it with every baseline."""
    from jaxsched import registry, trainer
    from jaxsched.config import override
    from jaxsched.jobs import digest_tables
    from jaxsched.runs import RunDirectory

    chosen = registry.get(system)
    recipe = override(chosen.preset(preset), settings or [])
    options = TraceOptions(trace_seed, num_traces, num_jobs, cut, mean_gap, load)
    episodes = resolve(trace or chosen.train_trace, chosen, options)
    # Another seed, so that a test set drawn from the same source is not the training set.
    test_options = options._replace(seed=trace_seed + 1)
    test_source = test_trace or (chosen.test_trace if trace is None else trace)
    test_episodes = resolve(test_source, chosen, test_options)
    setup = chosen.training(recipe, episodes.tables)
    digests = {
        "train": digest_tables(episodes.tables),
        "test": digest_tables(test_episodes.tables),
    }
    config = {
        "system": system,
        "preset": preset,
        "overrides": list(settings or []),
        "seed": seed,
        "num_seeds": num_seeds,
        "recipe": recipe,
        "trace": episodes.source,
        "test_trace": test_episodes.source,
        "trace_digests": digests,
        "behaviour_version": chosen.behaviour_version,
    }
    path = out or Path("runs") / f"{system}-{preset}"
    display = console()
    for summary in dict.fromkeys((episodes.summary, test_episodes.summary)):
        if summary:
            display.print(summary, highlight=False)
    seeds = list(range(seed, seed + num_seeds))
    with RunDirectory.create(path, config, resume=resume, overwrite=overwrite) as run:
        _introduce(display, system, preset, setup, episodes, path)
        try:
            trained = trainer.train(
                chosen,
                setup,
                tables=episodes.tables,
                seeds=seeds,
                run=run,
                resume=resume,
                evaluate_every=recipe.evaluate_every,
                checkpoint_every=recipe.checkpoint_every,
            )
        except trainer.Interrupted:
            display.print(f"stopped; continue with the same command and --resume (run: {path})")
            return STOPPED
        result = _test(chosen, setup, trained, seeds, test_episodes, config, path)
        _conclude(display, run, result)
    return 0


def _introduce(
    display: Any, system: str, preset: str, setup: Any, episodes: Episodes, path: Path
) -> None:
    loop = setup.loop
    steps = loop.num_updates * loop.steps_per_update
    display.print(
        f"training {system} with preset {preset!r} on {len(episodes.tables)} traces of "
        f"{episodes.source}: {steps:,} environment steps in {loop.num_envs} environments; "
        f"everything goes to {path}",
        highlight=False,
    )
    for line in setup.variants:
        display.print(f"  variant of the paper: {line}", highlight=False)
    display.print("compiling (half a minute the first time)", highlight=False)


def _test(
    system: Any,
    setup: Any,
    trained: Any,
    seeds: list[int],
    episodes: Episodes,
    config: dict[str, Any],
    path: Path,
) -> dict[str, Any]:
    """Compare the best policy of each seed with every rule on the test traces."""
    from jaxsched import comparison
    from jaxsched.cli.compare import facts_of

    window = system.environment_options(setup.env)["window"]
    facts = facts_of(system, setup.env, episodes, "skip", window)
    facts |= {
        "preset": config["preset"],
        "seeds": ", ".join(map(str, seeds)),
        "trained on": config["trace"],
        "environment steps": f"{trained.curves[0][-1].env_steps:,} per seed",
        "training time": f"{trained.wall_s / 60:.1f} min",
        "policy chosen after": ", ".join(
            f"{point.episodes:.0f} episodes" for point in trained.best
        ),
        "variants of the paper": "; ".join(setup.variants) or "none",
    }
    command = f"jaxsched train {config['system']} --preset {config['preset']}"
    command += f" --seed {config['seed']}"
    command += f" --num-seeds {len(seeds)}" if len(seeds) > 1 else ""
    command += "".join(f" --set {setting}" for setting in config["overrides"])
    contest = comparison.Contest(
        system, episodes.tables, episodes.source, window, "skip", facts, f"{command} --out {path}"
    )
    learned = comparison.Learned(
        "dqn", setup.env, setup.network, trained.weights, "; ".join(setup.variants)
    )
    result = comparison.compare(contest, list(system.policies), [learned], environment=setup.env)
    result["learning_curve"] = {
        "x_label": "training episodes",
        "y_label": f"{result['metrics'][system.primary_metric]['label']} (training traces, greedy)",
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


def _conclude(display: Any, run: Any, result: dict[str, Any]) -> None:
    from jaxsched.cli.compare import print_comparison
    from jaxsched.report import check, write_html

    write_json(run.path / "comparison.json", result)
    write_html(check(result), run.report)
    print_comparison(result, display)
    display.print(f"open {run.report} in a browser for figures and details", highlight=False)
