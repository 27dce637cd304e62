"""X5: how bound, mean reward and validated completion time move while Chic learns."""

import math
from typing import Any

import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.chic.common import (
    ACT,
    PRESETS,
    RATE,
    label,
    rivals,
    study,
    train_both,
    workload,
)
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested
from benchmarks.papers.policies import Policies
from benchmarks.papers.samples import first_at_most, moving_mean, rank_correlation
from jaxsched.envs.chic.show.paper import (
    CROSSING,
    SECONDS_PER_ITERATION,
)

WIDTH, LEAST_WINDOWS = 9, 9  # of moving means: evaluations at most, windows in a curve at least
ENOUGH = 60  # iterations of a curve that tells something
EDGE = 0.1  # share of the iterations at either end whose gaps are compared


def learning_curves(lab: Lab) -> Outcome:
    """X5, Fig. 6."""
    trained = train_both(lab)
    recipe = study(lab, "chic", RATE).recipe
    tables = lab.tables(workload(RATE), "validation", recipe)
    optimus = float(rivals(lab, tables, names=("optimus",))["optimus"][ACT].mean())
    series = {name: _series(trained[name]) for name in PRESETS}
    rows: list[list[Any]] = []
    checks: list[Check] = []
    for name, values in series.items():
        found = _figures(values, optimus)
        rows.append([name, *found.values()])
        checks += _checks(name, found, values["updates"], judged=name == "chic")
    names = list(_figures(series["chic"], optimus))
    table = Table(f"curves at {RATE:g} /h, means over the seeds", ["policy", *names], rows, 3)

    def draw(figure: Any) -> None:
        axes = figure.subplots(2, 2, sharex=True)
        for column, (name, values) in enumerate(series.items()):
            x = values["step"]
            rewards = {
                words: list(zip(x, moving_mean(values[what], _width(values)), strict=True))
                for words, what in (("bound", "bound"), ("mean reward", "mean_return"))
            }
            figures.curves(axes[0][column], rewards, x_label="", y_label="reward", title=name)
            acts = {"validation": list(zip(x, values["act"], strict=True))}
            figures.curves(
                axes[1][column],
                acts,
                x_label="iteration",
                y_label="completion time (s)",
                levels={"Optimus every 600 s": optimus},
            )

    notes = [
        "what is logged at an iteration is the mean since the evaluation before, over the seeds",
        f"rewards are moving means over {_width(series['chic'])} evaluations, since all "
        "trajectories of an iteration run the same sequence and sequences differ; so is the time "
        "in the judged rank correlation; the raw correlation is in the table",
        *(
            f"{label(n, RATE)}: {trained[n].wall_s / max(series[n]['updates'], 1):.2f} s per "
            f"iteration, all seeds together (paper {SECONDS_PER_ITERATION} s)"
            for n in PRESETS
        ),
    ]
    return Outcome([table], checks, {"optimus": optimus, **series}, draw, notes)


def _series(trained: Policies) -> dict[str, Any]:
    """What was logged, at the updates that were evaluated."""
    lines = trained.metrics()
    acts = dict(trained.curve())
    steps = [step for step in acts if "bound" in lines[step]]
    return {
        "step": steps,
        "bound": [lines[step]["bound"] for step in steps],
        "mean_return": [lines[step]["mean_return"] for step in steps],
        "act": [acts[step] for step in steps],
        "updates": trained.setup.loop.num_updates,
    }


def _figures(values: dict[str, Any], optimus: float) -> dict[str, float]:
    """The figures that are judged."""
    bound, mean = np.array(values["bound"]), np.array(values["mean_return"])
    edge = max(round(EDGE * len(bound)), 1)
    gaps = bound - mean
    width = _width(values)
    smooth = moving_mean(mean, width), moving_mean(values["act"], width)
    crossed = first_at_most(list(zip(values["step"], values["act"], strict=True)), optimus)
    return {
        "first gap": float(gaps[:edge].mean()),
        "last gap": float(gaps[-edge:].mean()),
        "rank correlation, raw": rank_correlation(mean, values["act"]),
        "rank correlation": rank_correlation(smooth[0], smooth[1]),
        "below Optimus at": math.nan if crossed is None else crossed,
        "last time (s)": float(np.mean(values["act"][-edge:])),
    }


def _width(values: dict[str, Any]) -> int:
    """Evaluations of a moving mean, odd."""
    width = max(min(WIDTH, len(values["step"]) // LEAST_WINDOWS), 1)
    return width - 1 + width % 2


def _checks(name: str, found: dict[str, float], updates: int, *, judged: bool) -> list[Check]:
    correlation, crossed = found["rank correlation"], found["below Optimus at"]
    gap = found["last gap"] / found["first gap"] if found["first gap"] else math.nan
    at = "never" if math.isnan(crossed) else f"{crossed:.0f}"
    if not judged:
        return [
            beside(f"{name}: rank correlation of reward and time", "-", f"{correlation:.3f}"),
            beside(f"{name}: last gap of bound and mean over the first", "-", f"{gap:.3f}"),
            beside(f"{name}: below Optimus at iteration", "before chic", at),
        ]
    checks = []
    item = f"{name}: rank correlation of mean reward and validated time"
    if math.isnan(correlation) or updates < ENOUGH:
        why = f"only {updates} iterations were run"
        checks.append(not_tested(item, "opposite", why, f"{correlation:.3f}"))
    else:
        checks.append(beside(item, "opposite", correlation, shown=_three))
    item = f"{name}: last gap of bound and mean over the first"
    if updates < ENOUGH:
        why = f"only {updates} iterations were run"
        checks.append(not_tested(item, "approach", why, f"{gap:.3f}"))
    else:
        checks.append(beside(item, "approach", gap, shown=_three))
    item = f"{name}: below Optimus at iteration"
    if math.isnan(crossed) and updates < ENOUGH:
        why = f"only {updates} iterations were run"
        checks.append(not_tested(item, CROSSING, why, at))
    else:
        checks.append(beside(item, CROSSING, at))
    return checks


def _three(value: float) -> str:
    return f"{value:.3f}"
