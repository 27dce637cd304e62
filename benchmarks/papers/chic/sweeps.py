"""X6 to X9: length of training episodes, window, penalties, ablations."""

from dataclasses import replace
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.chic.common import ACT, CHOICE, PRESETS, RATE, label, rivals, study, workload
from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.outcome import Check, Outcome, Table, beside, percent
from benchmarks.papers.samples import Sample, change, difference, mean_of, plain
from jaxsched.envs.chic.show.paper import (
    LONGER_EPISODES,
    SECONDS_SAVED_BY_WINDOW,
)

WORKLOADS = (15, 30, 60)
USUAL = 30
WINDOWS = (2, 3, 4)
WINDOW_RATES = (0.9, 2.7)
P1, P2 = (0.0, 1.0, 5.0, 10.0), (0.0, 1.0, 3.0)
QUICK_P1, QUICK_P2 = (0.0, 5.0), (1.0,)


def episode_length(lab: Lab) -> Outcome:
    """X6, Fig. 7a: policies trained on sequences of W workloads, tested on those of 30."""
    lengths = WORKLOADS
    studies = {}
    for length in lengths:
        base = study(lab, "chic", RATE)
        steps = max(base.recipe.stages[-1].loop.rollout_length * length // USUAL, 1)
        changed = study(lab, "chic", RATE, {"loop.rollout_length": steps})
        studies[length] = _with_length(lab, changed, length)
    trained = lab.train_all({label("chic", RATE, f"W = {n}"): s for n, s in studies.items()})
    tables = lab.test_tables(workload(RATE), studies[USUAL].recipe)
    samples = {n: lab.play(trained[label("chic", RATE, f"W = {n}")], tables) for n in lengths}
    optimus = rivals(lab, tables, names=("optimus",))["optimus"]
    minutes = {n: trained[label("chic", RATE, f"W = {n}")].wall_s / 60 for n in lengths}
    table = Table(
        "mean completion time (s) by workloads of a training episode; training with compilation",
        ["W", "time (s)", "training (min)"],
        [[str(n), mean_of(samples[n], ACT), minutes[n]] for n in lengths],
        digits=2,
    )
    loss = change(samples[60], samples[30], ACT)
    slower = minutes[60] / max(minutes[30], 1e-9)
    checks = [
        beside("W = 60 over W = 30, less 1", LONGER_EPISODES, loss, shown=percent),
        beside("training time of W = 60 over W = 30", "much slower", f"{slower:.2f}"),
    ]

    def draw(figure: Any) -> None:
        points = {"chic": [mean_of(samples[n], ACT) for n in lengths]}
        axes = figure.subplots()
        axes.axhline(optimus[ACT].mean(), color="#7c8899", linestyle="--", label="optimus")
        figures.lines(axes, lengths, points, x_label="W, workloads", y_label="mean time (s)")

    values = {str(n): {**plain(s), "train_min": minutes[n]} for n, s in samples.items()}
    return Outcome([table], checks, values, draw, [CHOICE])


def _with_length(lab: Lab, chosen: Study, length: int) -> Study:
    """The study with training sequences of a length (a setting's number of jobs scaled alike)."""
    jobs = (lab.settings.num_jobs or USUAL) * length // USUAL
    if length == USUAL:
        return chosen
    longer = replace(chosen.workload, num_jobs=max(jobs, 1))
    return replace(chosen, workload=longer, validation=chosen.workload)


def window(lab: Lab) -> Outcome:
    """X7, Fig. 7b."""
    points = [(rate, size) for rate in WINDOW_RATES for size in WINDOWS]
    studies = {
        (rate, size): study(lab, "chic_pair", rate, {"env.window": size}) for rate, size in points
    }
    trained = lab.train_all(
        {label("chic_pair", r, f"window {size}"): s for (r, size), s in studies.items()}
    )
    samples: dict[tuple[float, int], Sample] = {}
    for rate, size in points:
        tables = lab.test_tables(workload(rate), studies[rate, size].recipe)
        samples[rate, size] = lab.play(trained[label("chic_pair", rate, f"window {size}")], tables)
    low, high = WINDOW_RATES
    table = Table(
        "Chic-Pair: mean completion time (s) by window",
        ["rate /h", *(f"I = {size}" for size in WINDOWS)],
        [[f"{r:g}", *(mean_of(samples[r, size], ACT) for size in WINDOWS)] for r in WINDOW_RATES],
    )
    means = [samples[low, size][ACT].mean() for size in WINDOWS]
    gap = difference(samples[high, 3], samples[high, 4], ACT)
    checks = [
        beside(
            "at 0.9 /h: largest mean over the smallest, less 1",
            "equal",
            float(max(means) / min(means) - 1),
            shown=percent,
        ),
        beside(
            "at 2.7 /h: I = 2 less I = 3 (s)",
            "> 0",
            difference(samples[high, 2], samples[high, 3], ACT),
        ),
        beside(
            "at 2.7 /h: I = 4 over I = 3, less 1",
            f"{SECONDS_SAVED_BY_WINDOW:.0f} s better",
            change(samples[high, 4], samples[high, 3], ACT),
            shown=percent,
        ),
        beside(
            "at 2.7 /h: I = 3 less I = 4 (s)",
            f"{SECONDS_SAVED_BY_WINDOW}",
            f"{gap.estimate:.1f} [{gap.low:.1f}, {gap.high:.1f}]",
        ),
    ]

    def draw(figure: Any) -> None:
        series = {
            f"{rate:g} /h": [mean_of(samples[rate, size], ACT) for size in WINDOWS]
            for rate in WINDOW_RATES
        }
        groups = [f"I = {size}" for size in WINDOWS]
        figures.bars(figure.subplots(), groups, series, y_label="mean time (s)")

    values = {f"{rate:g}, {size}": plain(s) for (rate, size), s in samples.items()}
    return Outcome([table], checks, values, draw, [CHOICE])


def penalties(lab: Lab) -> Outcome:
    """X8: the penalties of pointless choices, with all actions free to choose."""
    firsts, seconds = lab.choose(P1, QUICK_P1), lab.choose(P2, QUICK_P2)
    points = [(p1, p2) for p1 in firsts for p2 in seconds]
    studies = {
        (p1, p2): study(
            lab, "chic", RATE, {"env.free_choice": True, "params.p1": p1, "params.p2": p2}
        )
        for p1, p2 in points
    }
    names = {point: label("chic", RATE, f"p1 {point[0]:g}, p2 {point[1]:g}") for point in points}
    trained = lab.train_all({names[point]: studies[point] for point in points})
    samples, shares = {}, {}
    for point in points:
        tables = lab.test_tables(workload(RATE), studies[point].recipe)
        samples[point] = lab.play(trained[names[point]], tables)
        shares[point] = _empty_share(samples[point])
    table = Table(
        "penalties: mean completion time (s), decisions that choose a row without workload (%)",
        ["p1", *(f"p2 = {p2:g}, {what}" for p2 in seconds for what in ("time", "empty"))],
        [
            [
                f"{p1:g}",
                *(
                    c
                    for p2 in seconds
                    for c in (mean_of(samples[p1, p2], ACT), 100 * shares[p1, p2])
                ),
            ]
            for p1 in firsts
        ],
        digits=2,
    )
    worst = max((point for point in points if point[0] >= 1), key=lambda p: shares[p])
    item = f"empty rows chosen with p1 >= 1; most, p1 {worst[0]:g}, p2 {worst[1]:g}"
    checks = [beside(item, "avoided", shares[worst], shown=percent)]
    least = max((point for point in points if point[0] == 0), key=lambda p: shares[p])
    checks.append(beside("the same with p1 = 0; most", "-", percent(shares[least])))

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        acts = {f"p2 = {p2:g}": [mean_of(samples[p1, p2], ACT) for p1 in firsts] for p2 in seconds}
        empty = {f"p2 = {p2:g}": [100 * shares[p1, p2] for p1 in firsts] for p2 in seconds}
        figures.lines(left, firsts, acts, x_label="p1", y_label="mean time (s)")
        figures.lines(right, firsts, empty, x_label="p1", y_label="choices of empty rows (%)")

    values = {f"p1 {p1:g}, p2 {p2:g}": plain(s) for (p1, p2), s in samples.items()}
    return Outcome([table], checks, values, draw, [CHOICE])


def _empty_share(sample: Sample) -> float:
    """Share of the decisions (steps that are no training phase) that chose an empty row."""
    decisions = sample["steps"].sum() - sample["phases"].sum()
    return float(sample["missed"].sum() / max(decisions, 1.0))


def ablations(lab: Lab) -> Outcome:
    """X9: what the uniform trajectory and the choice on validation tables are worth."""
    samples: dict[str, Sample] = {}
    checks: list[Check] = []
    for name in PRESETS:
        full = study(lab, name, RATE)
        size = full.recipe.stages[-1].learner.num_trajectories
        bare = study(lab, name, RATE, {"learner.num_uniform": 0, "loop.num_envs": size})
        whole, without = label(name, RATE), label(name, RATE, "no uniform trajectory")
        trained = lab.train_all({whole: full, without: bare})
        tables = lab.test_tables(workload(RATE), full.recipe)
        samples[name] = lab.play(trained[whole], tables)
        samples[f"{name}, no uniform trajectory"] = lab.play(trained[without], tables)
        last = lab.play(trained[whole], tables, weights=trained[whole].last_weights())
        samples[f"{name}, last policy"] = last
        for what in ("no uniform trajectory", "last policy"):
            loss = change(samples[f"{name}, {what}"], samples[name], ACT)
            checks.append(beside(f"{name}, {what}: change of the time", "-", percent(loss)))
    rows: list[list[Any]] = [[name, mean_of(s, ACT)] for name, s in samples.items()]
    table = Table(f"mean completion time at {RATE:g} /h (s)", ["policy", "time"], rows)

    def draw(figure: Any) -> None:
        points = {"time": [mean_of(sample, ACT) for sample in samples.values()]}
        axes = figure.subplots()
        figures.bars(axes, list(samples), points, y_label="mean time (s)", slant=True)

    values = {name: plain(sample) for name, sample in samples.items()}
    return Outcome([table], checks, values, draw, [CHOICE])
