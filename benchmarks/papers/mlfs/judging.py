"""Checks and table cells from samples of plays."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.papers.mlfs.plays import UNFINISHED, Play
from benchmarks.papers.outcome import Cell, Check, Table, beside, not_tested, three
from benchmarks.papers.samples import Sample, mean_of, ratio, scaled
from jaxsched.envs.mlfs.show.paper import Claim
from jaxsched.results.statistics import Interval

Samples = Mapping[str, Sample]
"""By policy."""
Plays = Mapping[str, Mapping[str, Play]]
"""By load and policy."""


def saved(sample: Sample, base: Sample, metric: str) -> Interval | None:
    """By which share the mean is below the base's; None where the base is 0 on a table."""
    found = ratio(sample, base, metric)
    if found is None:
        return None
    return Interval(1 - found.estimate, 1 - found.high, 1 - found.low, found.level)


def left_over(samples: Samples, names: Sequence[str]) -> str:
    """Which of the policies left jobs unfinished, in words; empty if none did."""
    counts = {name: int(samples[name][UNFINISHED].sum()) for name in names}
    return ", ".join(
        f"{name} left {count} jobs unfinished" for name, count in counts.items() if count
    )


def checks_of(samples: Samples, claims: Sequence[Claim]) -> list[Check]:
    """The claims about policies that played and finished every job; the others are not tested.

    Means are over finished jobs (section 7), so a policy that leaves some looks too good.
    """
    return [_check(samples, claim) for claim in claims]


def _check(samples: Samples, claim: Claim) -> Check:
    item, paper = f"{claim.metric}: {claim.policy} over {claim.other}", claim.paper_words
    pair = (claim.policy, claim.other)
    missing = [name for name in pair if name not in samples]
    if missing:
        return not_tested(item, paper, f"{missing[0]} did not play")
    found = ratio(samples[claim.policy], samples[claim.other], claim.metric)
    if found is None:
        return not_tested(item, paper, f"{claim.other} has 0 on some table")
    unfinished = left_over(samples, pair)
    if unfinished:
        return not_tested(item, paper, unfinished, three(found))
    return beside(item, paper, found, shown=three)


def saving_check(item: str, paper: str, value: Interval | None) -> Check:
    """A saving in per cent; not tested where there is none to tell."""
    if value is None:
        return not_tested(item, paper, "0 without it on some table")
    return beside(item, paper, value, shown=percent)


def percent(value: Any) -> str:
    """A share in per cent, with the ends of its interval."""
    if value is None:
        return "-"
    if not isinstance(value, Interval):
        return f"{100 * value:.1f} %"
    low, high = 100 * value.low, 100 * value.high
    return f"{100 * value.estimate:.1f} % [{low:.1f}, {high:.1f}]"


def by_load(plays: Plays, metric: str, title: str, *, unit: float = 1.0, digits: int = 3) -> Table:
    """One metric: a row for each policy, a column for each load.

    Args:
      plays: by load and policy.
      metric: of section 8.
      title: with the unit.
      unit: how many of the metric's units make one that is shown.
      digits: after the point.
    """
    names = list(next(iter(plays.values())))
    rows: list[list[Cell]] = [
        [name, *(scaled(mean_of(row[name].sample, metric), 1 / unit) for row in plays.values())]
        for name in names
    ]
    return Table(title, ["policy", *plays], rows, digits)


def series_of(plays: Plays, metric: str, unit: float = 1.0) -> dict[str, list[Interval]]:
    """The same for a figure."""
    names = list(next(iter(plays.values())))
    return {
        name: [scaled(mean_of(row[name].sample, metric), 1 / unit) for row in plays.values()]
        for name in names
    }
