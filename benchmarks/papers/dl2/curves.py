"""E3, E8, E12: how validated completion time falls, and what it takes."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.dl2.common import (
    JCT,
    JCT_LABEL,
    LEARNER,
    PRESETS,
    SIM,
    SIM_OPTIONS,
    SUPERVISED,
    comparison,
    outcome,
    rules,
    study,
    values_of,
    with_trace,
)
from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested, percent
from benchmarks.papers.policies import Policies
from benchmarks.papers.samples import change, first_at_most, mean_of, spread_of
from jaxsched.envs.dl2.show.paper import (
    FEDERATED_SPEED,
    LEARNING_SPEED,
    NEAR_FINAL,
)

TYPES = (4, 6, 8)
CLUSTERS = (1, 2, 4, 8)
QUICK_CLUSTERS = (1, 4)
ENVS_PER_CLUSTER = 4
EVALUATIONS = 40  # of a curve
Points = list[tuple[float, float]]


def learning_curves(lab: Lab) -> Outcome:
    """E3, Fig. 10."""
    every = {
        "dl2, sim": study(lab, PRESETS["sim"]),
        "rl alone, sim": study(lab, PRESETS["sim"], {"supervised.skip": True}),
    }
    trained = lab.train_all(every)
    both, alone = trained["dl2, sim"], trained["rl alone, sim"]
    recipe = every["dl2, sim"].recipe
    teacher = recipe.stages[0].teacher
    tables = lab.tables(SIM, "validation", recipe)
    found = rules(lab, tuple(dict.fromkeys((teacher, "drf"))), recipe.env, tables)
    found["sl"] = lab.play(both, tables, weights=both.run(SUPERVISED).weights)
    drf = float(found["drf"][JCT].mean())
    curves: dict[str, Points] = {
        "SL": _floats(both.curve(SUPERVISED)),
        "RL": _floats(alone.curve()),
        "SL+RL": _floats(both.curve()),
    }
    ends = {name: min(score for _, score in points) for name, points in curves.items()}
    first = {name: first_at_most(points, drf) for name, points in curves.items()}
    rows = [
        [name, len(points), ends[name], 100 * (ends[name] / drf - 1), first[name]]
        for name, points in curves.items()
    ]
    columns = ["training", "evaluations", "best (slots)", "against DRF (%)", "not above DRF at"]
    table = Table("validation tables, means over the seeds", columns, rows, 2)
    gap = change(found["sl"], found[teacher], JCT)
    off = abs(gap.estimate)
    item = f"SL off its teacher {teacher}"
    checks = [beside(item, "close", off, shown=percent)]
    checks.append(_earlier(first["SL+RL"], first["RL"]))
    gain = 1 - ends["SL+RL"] / drf
    item = "SL+RL below DRF at its best"
    checks.append(beside(item, "far", gain, shown=percent))

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        learnt = {name: curves[name] for name in ("RL", "SL+RL")}
        level, y_label = {"DRF": drf}, JCT_LABEL
        figures.curves(
            left, {"SL": curves["SL"]}, x_label="supervised updates", y_label=y_label, levels=level
        )
        figures.curves(right, learnt, x_label="RL updates", y_label="", levels=level)

    return outcome(
        [table],
        checks,
        {"curves": curves, "drf": drf, "samples": values_of(found)},
        draw,
        "updates of SL+RL are those of reinforcement learning; the supervised stage needs no "
        "decisions of the cluster and is its update 0",
    )


def _earlier(both: float | None, alone: float | None) -> Check:
    item, paper = "SL+RL reaches DRF earlier than RL alone (RL update)", LEARNING_SPEED
    words = " against ".join("never" if x is None else f"{x:.0f}" for x in (both, alone))
    if both is None and alone is None:
        return not_tested(item, paper, "neither reached it", words)
    return Check(item, paper, words)


def unseen_types(lab: Lab) -> Outcome:
    """E8, Fig. 17: job types join while learning."""
    full = study(lab, PRESETS["sim"])
    updates = full.recipe.stages[-1].loop.num_updates
    part = max(updates // len(TYPES), 1)
    few, more, all_ = (SIM_OPTIONS.with_options(num_types=n) for n in TYPES)
    ideal = study(lab, PRESETS["sim"], {"loop.num_updates": part * len(TYPES)})
    ideal = Study(with_trace(ideal.recipe, all_), all_)
    grown = study(lab, PRESETS["sim"], {"loop.num_updates": part})
    grown = Study(with_trace(grown.recipe, few), few, validation=all_, later=(more, all_))
    trained = lab.train_all({"dl2, all types": ideal, "dl2, types 4, 6, 8": grown})
    tables = lab.test_tables(all_, ideal.recipe)
    found = rules(lab, ("drf", "optimus"), ideal.recipe.env, tables)
    found["ideal"] = lab.play(trained["dl2, all types"], tables)
    found["4, 6, 8"] = lab.play(trained["dl2, types 4, 6, 8"], tables)
    loss = change(found["4, 6, 8"], found["ideal"], JCT)
    item = "types joining over all types from the start, less 1"
    checks = [beside(item, "converges", loss, shown=percent)]
    curves = {
        "all types from the start": _floats(trained["dl2, all types"].curve()),
        "4, then 6, then 8 types": _joined(trained["dl2, types 4, 6, 8"]),
    }

    def draw(figure: Any) -> None:
        figures.curves(figure.subplots(), curves, x_label="RL updates", y_label=JCT_LABEL)

    return outcome(
        [comparison("eight types: mean completion time", found, ("ideal",))],
        checks,
        {"curves": curves, "samples": values_of(found)},
        draw,
        "both are evaluated, and chosen, on validation tables of all eight types; each stage "
        "starts from the policy of the one before with a fresh critic",
    )


def _joined(trained: Policies) -> Points:
    """The curves of all reinforcement stages end to end."""
    points: Points = []
    before = 0
    for number, stage in enumerate(trained.stages):
        if stage.name == SUPERVISED:
            continue
        last = number == len(trained.stages) - 1
        curve = trained.curve(None if last else stage.name)
        points += [(before + update, score) for update, score in curve if update or not points]
        before += stage.loop.num_updates
    return points


def federated(lab: Lab) -> Outcome:
    """E12: gradients of x clusters, averaged and applied once."""
    counts = lab.choose(CLUSTERS, QUICK_CLUSTERS)
    every = {}
    for count in counts:
        updates = lab.recipe(LEARNER).stages[-1].loop.num_updates
        every[count] = study(
            lab,
            LEARNER,
            {
                "learner.num_clusters": count,
                "loop.num_envs": ENVS_PER_CLUSTER * count,
                "evaluate_every": max(updates // EVALUATIONS, 1),
            },
        )
    trained = lab.train_all({f"paper's learner, {n} clusters": s for n, s in every.items()})
    tables = lab.test_tables(SIM, every[counts[0]].recipe)
    samples, curves, reached = {}, {}, {}
    for count in counts:
        policies = trained[f"paper's learner, {count} clusters"]
        samples[count] = lab.play(policies, tables)
        points = _floats(policies.curve())
        curves[f"x = {count}"] = points
        final = min(score for _, score in points)
        reached[count] = first_at_most(points, NEAR_FINAL * final)
    rows = [
        [str(n), mean_of(samples[n], JCT), spread_of(samples[n], JCT), reached[n]] for n in counts
    ]
    columns = ["clusters", JCT_LABEL, "deviation", "updates to 1.1 x final"]
    table = Table("paper's learner over x clusters", columns, rows, 2)
    means = [float(samples[n][JCT].mean()) for n in counts]
    spread = max(means) / min(means) - 1
    item = "largest mean over the smallest, less 1"
    checks = [beside(item, "stable", spread, shown=percent)]
    steps = [reached[n] for n in counts]
    words = ", ".join("never" if step is None else f"{step:.0f}" for step in steps)
    item = "updates to 1.1 x final fall with x"
    known = [step for step in steps if step is not None]
    earliest = curves[f"x = {counts[0]}"][0][0]
    if len(set(known)) == 1 and known[0] <= earliest:
        why = "the supervised start is as good at the first evaluation"
        checks.append(not_tested(item, FEDERATED_SPEED, why, words))
    else:
        checks.append(Check(item, FEDERATED_SPEED, words))

    def draw(figure: Any) -> None:
        figures.curves(figure.subplots(), curves, x_label="updates", y_label=JCT_LABEL)

    note = (
        f"{ENVS_PER_CLUSTER} environments per cluster, so x clusters gather x times the decisions"
    )
    return outcome([table], checks, {"curves": curves, "samples": values_of(samples)}, draw, note)


def _floats(curve: Any) -> Points:
    return [(float(update), float(score)) for update, score in curve]
