"""E6, E7, E13, E14: changed circumstances: speed variation, wrong epochs, all-reduce, measured."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import figures
from benchmarks.papers.dl2.common import (
    JCT,
    JCT_LABEL,
    PRESETS,
    SIM_OPTIONS,
    SUPERVISED,
    comparison,
    outcome,
    rules,
    study,
    values_of,
)
from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.outcome import Check, Outcome, beside, percent
from benchmarks.papers.samples import Sample, below, change, mean_of
from jaxsched.core.evaluation import run_episodes
from jaxsched.envs.dl2.show.paper import (
    REDUCTION_AT_ERROR,
)

VARIATIONS = (0.0, 0.1, 0.2, 0.3)
ERRORS = (0.0, 0.05, 0.1, 0.2)
RIVALS = ("drf", "tetris", "optimus")
MEASURED = (("speed_mode", "measured"), ("contention", 0.0))
SAME_POLICIES = "the policies are those of E1, trained without the disturbance"
Levels = dict[float, dict[str, Sample]]


def _play_levels(lab: Lab, option: str, levels: Sequence[float]) -> Levels:
    """The policies of E1 under levels of a disturbance; the random numbers are shared."""
    chosen = study(lab, PRESETS["sim"])
    trained = lab.train("dl2, sim", chosen)
    samples: Levels = {}
    for level in levels:
        workload = SIM_OPTIONS.with_options(**{option: level})
        tables = lab.test_tables(workload, chosen.recipe)
        found = rules(lab, RIVALS, chosen.recipe.env, tables)
        samples[level] = found | {"dl2": lab.play(trained, tables)}
    return samples


def _draw_levels(samples: Levels, x_label: str) -> Callable[[Any], None]:
    def draw(figure: Any) -> None:
        names = list(next(iter(samples.values())))
        series = {n: [mean_of(found[n], JCT) for found in samples.values()] for n in names}
        figures.lines(figure.subplots(), list(samples), series, x_label=x_label, y_label=JCT_LABEL)

    return draw


def variation(lab: Lab) -> Outcome:
    """E6, Fig. 15."""
    samples = _play_levels(lab, "variation", VARIATIONS)
    gains = {level: below(f["dl2"], f["optimus"], JCT) for level, f in samples.items()}
    worst = min(gains, key=lambda level: gains[level].estimate)
    item = f"DL2 below Optimus at every level; least, at {worst:g}"
    checks = [beside(item, "> 0", gains[worst], shown=percent)]
    for name in ("optimus", "dl2"):
        loss = change(samples[VARIATIONS[-1]][name], samples[0.0][name], JCT)
        item = f"increase of {name} from 0 to {VARIATIONS[-1]:g}"
        checks.append(beside(item, "Optimus more sensitive", percent(loss)))
    tables = [comparison(f"variation {v:g}", f, ("drf", "optimus")) for v, f in samples.items()]
    values = {str(level): values_of(found) for level, found in samples.items()}
    draw = _draw_levels(samples, "variation of the speed")
    return outcome(tables, checks, values, draw, SAME_POLICIES)


def epoch_error(lab: Lab) -> Outcome:
    """E7, Fig. 16."""
    samples = _play_levels(lab, "epoch_error", ERRORS)
    losses = {e: change(f["dl2"], samples[0.0]["dl2"], JCT) for e, f in samples.items()}
    worst = max(losses, key=lambda level: losses[level].estimate)
    gain = below(samples[ERRORS[-1]]["dl2"], samples[ERRORS[-1]]["drf"], JCT)
    checks = [
        beside(
            f"increase of DL2's time; largest, at {worst:g}", "slight", losses[worst], shown=percent
        ),
        beside("DL2 below DRF at 0.2", REDUCTION_AT_ERROR, gain, shown=percent),
    ]
    tables = [comparison(f"epoch error {e:g}", f, ("drf", "optimus")) for e, f in samples.items()]
    values = {str(level): values_of(found) for level, found in samples.items()}
    draw = _draw_levels(samples, "error of the estimated epochs")
    return outcome(tables, checks, values, draw, SAME_POLICIES)


def all_reduce(lab: Lab) -> Outcome:
    """E13: jobs without parameter servers, the same network."""
    changes = {"env.comm": "allreduce"}
    if lab.recipe(PRESETS["sim"]).stages[0].teacher == "optimus":
        changes["supervised.teacher"] = "optimus_oracle"
    chosen = study(lab, PRESETS["sim"], changes)
    trained = lab.train("dl2, all-reduce", chosen)
    tables = lab.test_tables(chosen.workload, chosen.recipe)
    found = rules(lab, ("drf", "tetris", "optimus_oracle"), chosen.recipe.env, tables)
    found["dl2"] = lab.play(trained, tables)
    invalid = _invalid_actions(lab, trained, tables)
    unfinished = sum(len(table) for table in tables) * len(trained.seeds) - int(
        found["dl2"]["finished"].sum()
    )
    gain = below(found["dl2"], found["drf"], JCT)
    checks: list[Check] = [
        beside("illegal actions and unfinished jobs", "-", invalid + unfinished),
        beside("DL2 below DRF", "-", gain, shown=percent),
    ]
    table = comparison("all-reduce: mean completion time", found, ("drf",))
    note = (
        "Optimus fits a model of workers and servers; its oracle stands in for it, also "
        "as the teacher"
    )
    return outcome([table], checks, values_of(found), _draw_bars(found), note)


def _invalid_actions(lab: Lab, trained: Any, tables: Any) -> int:
    """Actions that were neither legal nor void, all seeds and tables."""
    setup = trained.setup
    params = setup.play_env.params(tables)
    recorder, total = lab.system.log.recorder(setup.play_env), 0
    for weights in trained.weights:
        played = run_episodes(
            setup.play_env,
            setup.policy,
            recorder,
            params,
            jnp.arange(len(tables)),
            jax.random.key(0),
            weights,
        )
        total += int(np.sum(played.records.invalid_actions))
    return total


def measured(lab: Lab) -> Outcome:
    """E14: the published speeds in place of the formula."""
    speeds = {"params.speed_mode": "measured", "params.contention": 0}
    changes = speeds | {f"{SUPERVISED}.{name}": value for name, value in speeds.items()}
    base = study(lab, PRESETS["sim"], changes)
    chosen = Study(base.recipe, base.workload, params=MEASURED)
    trained = lab.train("dl2, measured speeds", chosen)
    tables = lab.test_tables(chosen.workload, chosen.recipe)
    found = rules(lab, RIVALS, chosen.recipe.env, tables, MEASURED)
    found["dl2"] = lab.play(trained, tables, params=MEASURED)
    gain = below(found["dl2"], found["drf"], JCT)
    checks = [beside("DL2 below DRF", "-", gain, shown=percent)]
    gain = below(found["dl2"], found["optimus"], JCT)
    checks.append(beside("DL2 below Optimus", "-", percent(gain)))
    table = comparison("measured speeds, no contention", found, ("drf", "optimus"))
    return outcome([table], checks, values_of(found), _draw_bars(found))


def _draw_bars(found: dict[str, Sample]) -> Callable[[Any], None]:
    def draw(figure: Any) -> None:
        points = {JCT: [mean_of(sample, JCT) for sample in found.values()]}
        figures.bars(figure.subplots(), list(found), points, y_label=JCT_LABEL)

    return draw
