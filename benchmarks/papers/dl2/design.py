"""E9 to E11: teachers, sizes of window and network, ablations."""

from typing import Any, get_args, get_type_hints

from benchmarks.papers import figures
from benchmarks.papers.dl2.common import (
    JCT,
    JCT_LABEL,
    LEARNER,
    PRESETS,
    SIM,
    SUPERVISED,
    comparison,
    outcome,
    rules,
    study,
    values_of,
)
from benchmarks.papers.lab import Changes, Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, percent
from benchmarks.papers.samples import Sample, below, change, difference, mean_of, spread_of
from jaxsched.envs.dl2.learn.hooks import Paid
from jaxsched.envs.dl2.show.paper import (
    BEST_LAYERS,
    BEST_NEURONS,
    BEST_WINDOW,
    LOST_BY_OWN_REWARD,
    LOST_WITHOUT,
    REDUCTION_BELOW_TEACHER,
)

TEACHERS = ("drf", "fifo", "srtf")
WINDOWS, QUICK_WINDOWS = (5, 10, 20, 30), (5, 20)
NEURONS, QUICK_NEURONS = (16, 32, 64, 128, 256, 512), (16, 128)
LAYERS, QUICK_LAYERS = (1, 2, 3, 4), (1, 2)
LAYER_WIDTH = 128
LOSSES = ("squared", "absolute")
FULL = "full"
WITHOUT: dict[str, Changes] = {
    "no bundle": {"env.bundle_action": False},
    "no actor-critic": {"learner.baseline": "ema"},
    "no exploration": {"explore.kind": "none"},
    "no replay": {"learner.capacity": 0, "learner.held": 0},
}
"""What leaves out the parts of Table 2."""


def teachers(lab: Lab) -> Outcome:
    """E9, Fig. 18."""
    every = {t: study(lab, PRESETS["sim"], {"supervised.teacher": t}) for t in TEACHERS}
    trained = lab.train_all({f"dl2, teacher {teacher}": s for teacher, s in every.items()})
    recipe = every[TEACHERS[0]].recipe
    tables = lab.test_tables(SIM, recipe)
    samples = rules(lab, TEACHERS, recipe.env, tables)
    checks: list[Check] = []
    for teacher in TEACHERS:
        policies = trained[f"dl2, teacher {teacher}"]
        weights = policies.run(SUPERVISED).weights
        samples[f"{teacher}: SL"] = lab.play(policies, tables, weights=weights)
        samples[f"{teacher}: SL+RL"] = lab.play(policies, tables)
        gain = below(samples[f"{teacher}: SL+RL"], samples[teacher], JCT)
        paper = REDUCTION_BELOW_TEACHER[teacher]
        item = f"SL+RL below its teacher {teacher}"
        checks.append(beside(item, paper, gain, shown=percent))

    def draw(figure: Any) -> None:
        series = {
            "teacher": [mean_of(samples[t], JCT) for t in TEACHERS],
            "SL": [mean_of(samples[f"{t}: SL"], JCT) for t in TEACHERS],
            "SL+RL": [mean_of(samples[f"{t}: SL+RL"], JCT) for t in TEACHERS],
        }
        figures.bars(figure.subplots(), TEACHERS, series, y_label=JCT_LABEL)

    table = comparison("teachers and pupils", samples, ("drf",))
    return outcome([table], checks, values_of(samples), draw)


def sizes(lab: Lab) -> Outcome:
    """E10, Fig. 19a to c."""
    windows = lab.choose(WINDOWS, QUICK_WINDOWS)
    neurons = lab.choose(NEURONS, QUICK_NEURONS)
    layers = lab.choose(LAYERS, QUICK_LAYERS)
    sweeps = {
        "J": {f"{n}": study(lab, PRESETS["sim"], {"env.window": n}) for n in windows},
        "neurons, one layer": {
            f"{n}": study(lab, LEARNER, {"network": f"mlp-{n}"}) for n in neurons
        },
        f"layers of {LAYER_WIDTH}": {
            f"{n}": study(lab, LEARNER, {"network": "mlp" + f"-{LAYER_WIDTH}" * n}) for n in layers
        },
    }
    trained = lab.train_all(
        {f"{what} {n}": s for what, points in sweeps.items() for n, s in points.items()}
    )
    tables = lab.test_tables(SIM, lab.recipe(PRESETS["sim"]))
    samples = {
        what: {n: lab.play(trained[f"{what} {n}"], tables) for n in points}
        for what, points in sweeps.items()
    }
    gap = difference(samples["J"]["5"], samples["J"]["20"], JCT)
    checks = [beside("J = 5 less J = 20 (slots)", "> 0", gap)]
    shown = []
    for what, paper in zip(sweeps, (BEST_WINDOW, BEST_NEURONS, BEST_LAYERS), strict=True):
        found = samples[what]
        best = min(found, key=lambda n: found[n][JCT].mean())
        checks.append(beside(f"best {what}", paper, best))
        rows: list[list[Any]] = [[n, mean_of(s, JCT), spread_of(s, JCT)] for n, s in found.items()]
        shown.append(Table(what, [what, JCT_LABEL, "deviation"], rows, 2))

    def draw(figure: Any) -> None:
        for axes, (what, found) in zip(figure.subplots(1, 3), samples.items(), strict=True):
            points = {what: [mean_of(sample, JCT) for sample in found.values()]}
            figures.bars(axes, list(found), points, y_label=JCT_LABEL, title=what)

    note = "windows with the main recipe; neurons and layers with the paper's learner"
    values = {what: values_of(found) for what, found in samples.items()}
    return outcome(shown, checks, values, draw, note)


def ablations(lab: Lab) -> Outcome:
    """E11, Table 2: the paper's learner with one thing left out or changed."""
    changes = WITHOUT | {f"SL loss {loss}": {"supervised.learner.loss": loss} for loss in LOSSES}
    recipe = lab.recipe(LEARNER)
    kinds = get_args(get_type_hints(Paid)["unit"])
    changes |= {f"reward {kind}": {"wrap.unit": kind} for kind in kinds if kind != Paid.unit}
    every = {FULL: study(lab, LEARNER)}
    every |= {name: study(lab, LEARNER, change) for name, change in changes.items()}
    trained = lab.train_all({f"paper's learner, {name}": s for name, s in every.items()})
    tables = lab.test_tables(SIM, recipe)
    samples = rules(lab, ("drf", "optimus"), recipe.env, tables)
    samples |= {name: lab.play(trained[f"paper's learner, {name}"], tables) for name in every}

    def draw(figure: Any) -> None:
        points = {JCT: [mean_of(sample, JCT) for sample in samples.values()]}
        axes = figure.subplots()
        figures.bars(axes, list(samples), points, y_label=JCT_LABEL, slant=True)

    return outcome(
        [comparison("paper's learner", samples, (FULL,))],
        _ablation_checks(samples, list(changes)),
        values_of(samples),
        draw,
        f"rewards that the recipe knows: {', '.join(kinds)}; own is the paper's ablation, which "
        f"pays each inference its own job's progress ({LOST_BY_OWN_REWARD} worse)",
    )


def _ablation_checks(samples: dict[str, Sample], names: list[str]) -> list[Check]:
    full = samples[FULL]
    better = {name: difference(full, samples[name], JCT) for name in names}
    best = max(better, key=lambda name: better[name].estimate)
    item = f"no ablation better than the full method (slots); most, {best}"
    checks = [beside(item, "all worse", better[best])]
    for name in names:
        loss = change(samples[name], full, JCT)
        item = f"{name}: worse than the full method by"
        checks.append(beside(item, LOST_WITHOUT.get(name, "worse"), loss, shown=percent))
    return checks
