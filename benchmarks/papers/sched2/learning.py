"""L and S: how the learned policy gets there, and how fast the environment is."""

from typing import Any

import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested, three
from benchmarks.papers.policies import Policies
from benchmarks.papers.samples import rank_correlation
from benchmarks.papers.sched2.common import (
    cluster,
    label,
    outcome,
    settings_of,
    study,
    test_tables,
)
from benchmarks.papers.throughput import environment_row
from jaxsched.envs.sched2.show.paper import (
    EFFECTIVENESS,
    PERCENT,
    TRAINING_COST,
)
from jaxsched.errors import JaxschedError
from jaxsched.runs.trainer import Point
from jaxsched.systems import functions

LEAST_POINTS = 4  # of a curve whose trend is judged
BATCHES, QUICK_BATCHES = (1, 64, 1024), (1, 64)
REPEATS, QUICK_REPEATS = 10, 2


def learning_curve(lab: Lab) -> Outcome:
    """L: validated effectiveness over the training, and the chosen policies on the test tables.

    Raises:
      JaxschedError: the learned policy is that of given runs.
    """
    if settings_of(lab).runs:
        raise JaxschedError("learning curves are of policies trained here; accepted: no --run")
    trained = lab.train(label(PERCENT), study(lab, PERCENT))
    tests = lab.play(trained, test_tables(lab))[EFFECTIVENESS].mean(axis=1)
    curves = curves_of(trained)
    rows: list[list[Any]] = [
        [f"seed {seed}", len(curve), curve[0].score, curve[-1].score, best.score, best.update, test]
        for (seed, curve), best, test in zip(
            curves.items(), map(_best, curves.values()), tests.tolist(), strict=True
        )
    ]
    columns = ["", "evaluations", "first", "last", "best", "at update", "test"]
    table = Table(
        "effectiveness on validation tables, and of the best on test ones", columns, rows, 4
    )
    checks = curve_checks(curves, tests.tolist())
    episodes, hours = max(int(c[-1].episodes) for c in curves.values()), trained.wall_s / 3600
    cost = f"{episodes} episodes, {hours:.2f} h for {len(curves)} seeds"
    checks.append(beside("cost of the training", TRAINING_COST, cost))

    def draw(figure: Any) -> None:
        series = {
            f"seed {seed}": [(float(point.episodes), point.score) for point in curve]
            for seed, curve in curves.items()
        }
        figures.curves(
            figure.subplots(),
            series,
            x_label="finished episodes",
            y_label="validated effectiveness",
        )

    values = {"curves": curves, "test": tests.tolist(), "wall_s": trained.wall_s}
    note = "curves are on validation tables: test tables are played once, by the chosen policies"
    return outcome(lab, [table], checks, values, draw, note)


def curves_of(trained: Policies) -> dict[int, list[Point]]:
    """Evaluations on the validation tables, by seed."""
    curves = trained.trained.curves
    return {seed: list(curve) for seed, curve in zip(trained.seeds, curves, strict=True)}


def curve_checks(curves: dict[int, list[Point]], tests: list[float]) -> list[Check]:
    """Trend of the seeds' mean, and spread of the final policies.

    Args:
      curves: evaluations by seed, at the same updates.
      tests: effectiveness on the test tables by seed.
    """
    mean = np.mean([[point.score for point in curve] for curve in curves.values()], axis=0)
    trend = rank_correlation(np.arange(mean.size), mean)
    item, paper = "rank correlation of update and effectiveness", "-"
    few = mean.size < LEAST_POINTS or np.isnan(trend)
    checks = [
        not_tested(item, paper, f"{mean.size} evaluations", three(trend))
        if few
        else beside(item, paper, trend, shown=three)
    ]
    item, spread = "test effectiveness, spread over seeds", max(tests) - min(tests)
    if len(tests) < 2:
        return [*checks, not_tested(item, paper, "one seed was trained")]
    return [*checks, beside(item, paper, spread, shown=three)]


def _best(curve: list[Point]) -> Point:
    return max(curve, key=lambda point: point.score)


def environment_speed(lab: Lab) -> Outcome:
    """S: uniformly random valid actions, automatic reset, on the default device."""
    return environment_row(
        lab,
        cluster="the paper's cluster",
        batches=lab.choose(BATCHES, QUICK_BATCHES),
        repeats=QUICK_REPEATS if lab.quick else REPEATS,
        steps=None,
        options=functions.environment_options(lab.system, cluster(lab)),
        tables=test_tables(lab),
        note="a step starts a job or moves the clock to the next instant",
    )
