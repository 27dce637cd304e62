"""X1 to X3: completion times over arrival rates, their distribution, transfer between rates."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.chic.common import (
    ACT,
    CHOICE,
    PRESETS,
    QUICK_RATES,
    RATE,
    RATES,
    label,
    reductions,
    rivals,
    study,
    train_both,
    workload,
)
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, percent
from benchmarks.papers.samples import Sample, below, change, difference, hundred, mean_of, plain
from jaxsched.envs.chic.show.paper import (
    LOST_AT_OTHER_RATES,
    LOST_BY_TRANSFER,
    REDUCTION,
    SECONDS_SAVED,
)
from jaxsched.results.statistics import Interval

RANDOM = {"chic": "random", "chic_pair": "random, pair"}
Samples = dict[float, dict[str, Sample]]


def _play_rates(lab: Lab) -> Samples:
    """Every policy at every rate, retrained for it."""
    rates = lab.choose(RATES, QUICK_RATES)
    studies = {label(name, rate): study(lab, name, rate) for rate in rates for name in PRESETS}
    trained = lab.train_all(studies)
    samples: Samples = {}
    for rate in rates:
        lab.say(f"playing the test tables at {rate:g} /h")
        tables = lab.test_tables(workload(rate), studies[label("chic", rate)].recipe)
        learned = {name: lab.play(trained[label(name, rate)], tables) for name in PRESETS}
        samples[rate] = learned | rivals(lab, tables)
    return samples


def completion_times(lab: Lab) -> Outcome:
    """X1, Fig. 4a."""
    samples = _play_rates(lab)
    names = list(next(iter(samples.values())))
    seconds = Table(
        "mean completion time (s)",
        ["rate /h", *names],
        [[f"{r:g}", *(mean_of(s[n], ACT) for n in names)] for r, s in samples.items()],
        digits=0,
    )
    changes = Table(
        "change against Optimus every 600 s (%)",
        ["rate /h", *names[:2], *names[3:]],
        [
            [
                f"{rate:g}",
                *(hundred(change(s[n], s["optimus"], ACT)) for n in names if n != "optimus"),
            ]
            for rate, s in samples.items()
        ],
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        shown = [n for n in names if n != "random"]
        mean: dict[str, figures.Points] = {}
        share: dict[str, figures.Points] = {}
        for name in shown:
            found = [(s[name], s["optimus"]) for s in samples.values()]
            mean[name] = [mean_of(sample, ACT) for sample, _ in found]
            share[name] = [
                None if name == "optimus" else hundred(change(sample, base, ACT))
                for sample, base in found
            ]
        figures.lines(left, list(samples), mean, x_label="workloads per hour", y_label="mean (s)")
        figures.lines(
            right, list(samples), share, x_label="workloads per hour", y_label="against Optimus (%)"
        )
        right.get_legend().remove()
        right.axhline(-100 * REDUCTION["chic"], color="#1b1f24", linewidth=0.8, linestyle=":")

    values = {f"{rate:g}": {n: plain(s) for n, s in row.items()} for rate, row in samples.items()}
    return Outcome([seconds, changes], _rate_checks(samples), values, draw, [CHOICE])


def _rate_checks(samples: Samples) -> list[Check]:
    checks = reductions(samples)
    gaps = {r: difference(s["chic"], s["chic_pair"], ACT) for r, s in samples.items()}
    rate = max(gaps, key=lambda r: gaps[r].estimate)
    item = f"chic less chic_pair at every rate (s); largest, at {rate:g} /h"
    checks.append(beside(item, "<= 0", gaps[rate]))
    for name, rival in RANDOM.items():
        over = {r: _over(s[name], s[rival], s["optimus"]) for r, s in samples.items()}
        rate = min(over, key=lambda r: over[r])
        item = f"{name} below {rival}, share of Optimus; least, at {rate:g} /h"
        checks.append(beside(item, "-", over[rate], shown=percent))
    saved = {r: difference(s["optimus"], s["chic"], ACT) for r, s in samples.items()}
    rate = min(saved, key=lambda r: saved[r].estimate)
    least = saved[rate]
    words = f"{least.estimate:.0f} s [{least.low:.0f}, {least.high:.0f}]"
    checks.append(beside(f"seconds saved by chic; least, at {rate:g} /h", SECONDS_SAVED, words))
    for name, rival in (("chic", "optimus_event"), ("chic_pair", "round_robin, pair")):
        better = {r: below(s[name], s[rival], ACT) for r, s in samples.items()}
        rate = min(better, key=lambda r: better[r].estimate)
        item = f"{name} below {rival}; least, at {rate:g} /h"
        checks.append(beside(item, "-", percent(better[rate])))
    return checks


def _over(sample: Sample, rival: Sample, optimus: Sample) -> float:
    """By how much a mean is below another, as a share of Optimus' mean."""
    return float((rival[ACT].mean() - sample[ACT].mean()) / optimus[ACT].mean())


def distribution(lab: Lab) -> Outcome:
    """X2, Fig. 4b."""
    trained = train_both(lab)
    tables = lab.test_tables(workload(RATE), study(lab, "chic", RATE).recipe)
    samples = {name: lab.play(trained[name], tables) for name in PRESETS}
    samples |= rivals(lab, tables, names=("optimus", "optimus_event", "search"))
    figures_of = {"shortest": "min_jct", "median": "median_jct", "longest": "max_jct"}
    rows: list[list[Any]] = [
        [n, *(mean_of(s, m) for m in figures_of.values())] for n, s in samples.items()
    ]
    table = Table("completion time of a sequence's workloads (s)", ["policy", *figures_of], rows, 0)
    checks = []
    for name in PRESETS:
        for words, metric in figures_of.items():
            gap = difference(samples[name], samples["optimus"], metric)
            item = f"{words} of {name} less Optimus' (s)"
            if name == "chic" and words != "longest":
                checks.append(beside(item, "< 0", gap))
            else:
                paper = "comparable or better" if words == "longest" else "< 0"
                checks.append(
                    beside(item, paper, f"{gap.estimate:.1f} [{gap.low:.1f}, {gap.high:.1f}]")
                )

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 3)
        for place, (words, metric) in zip(axes, figures_of.items(), strict=True):
            points = [mean_of(s, metric) for s in samples.values()]
            figures.bars(
                place, list(samples), {words: points}, y_label="s", title=words, slant=True
            )

    values = {name: plain(sample) for name, sample in samples.items()}
    return Outcome([table], checks, values, draw, [CHOICE])


def transfer(lab: Lab) -> Outcome:
    """X3, Fig. 4c."""
    rates = lab.choose(RATES, QUICK_RATES)
    studies = {label(n, rate): study(lab, n, rate) for rate in rates for n in PRESETS}
    trained = lab.train_all(studies)
    losses: dict[str, dict[float, Interval]] = {name: {} for name in PRESETS}
    rows: list[list[Any]] = []
    values: dict[str, Any] = {}
    for rate in rates:
        tables = lab.test_tables(workload(rate), studies[label("chic", rate)].recipe)
        cells: list[Any] = []
        for name in PRESETS:
            own = lab.play(trained[label(name, rate)], tables)
            moved = lab.play(trained[label(name, RATE)], tables)
            losses[name][rate] = change(moved, own, ACT)
            cells += [mean_of(own, ACT), mean_of(moved, ACT), percent(losses[name][rate])]
            values[label(name, rate)] = {"own": plain(own), "of 1.8 /h": plain(moved)}
        rows.append([f"{rate:g}", *cells])
    columns = [f"{name}, {what}" for name in PRESETS for what in ("own", "of 1.8 /h", "loss")]
    table = Table(
        "mean completion time (s) of policies trained for the rate or for 1.8 /h",
        ["rate /h", *columns],
        rows,
        0,
    )
    low = {rate: loss for rate, loss in losses["chic"].items() if rate <= RATE}
    worst = max(low, key=lambda r: low[r].estimate)
    item = f"loss of chic(1.8) at rates <= 1.8; largest, at {worst:g} /h"
    paper = f"<= {percent(LOST_BY_TRANSFER)}"
    checks = [beside(item, paper, low[worst], shown=percent)]
    for name in PRESETS:
        high = {rate: loss for rate, loss in losses[name].items() if rate > RATE or name != "chic"}
        worst = max(high, key=lambda r: high[r].estimate)
        item = f"loss of {name}(1.8); largest of the rest, at {worst:g} /h"
        checks.append(beside(item, LOST_AT_OTHER_RATES, percent(high[worst])))

    def draw(figure: Any) -> None:
        share = {name: [hundred(loss) for loss in losses[name].values()] for name in PRESETS}
        axes = figure.subplots()
        axes.axhline(100 * LOST_BY_TRANSFER, color="#1b1f24", linewidth=0.8, linestyle=":")
        figures.lines(
            axes,
            list(rates),
            share,
            x_label="workloads per hour",
            y_label="loss of the 1.8 /h policy (%)",
        )

    return Outcome([table], checks, values, draw, [CHOICE])
