"""What a board says in words: which policy to take, by how much, and what it needs to know."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

KNOWN = {
    "nothing": "needs to know nothing of run times",
    "prediction": "predicts run times",
    "estimates": "needs its users' estimates of run times",
    "run times": "needs to know every run time",
    "unstated": "does not say what it needs to know",
}
"""What a policy knows of run times, in words."""

WITHOUT = ("nothing", "prediction")
"""Knowledge of policies that are given no run times."""

REST = 0.005
"""Differences below this share are called none."""


class Contender(NamedTuple):
    """A policy on one board, or on several together.

    Attributes:
      policy: its name.
      knows: what it knows of run times, one of ``KNOWN``.
      suspends: whether it suspends running jobs.
      ratio: mean completion time over the bound.
      over_reference: mean completion time over that of the reference policy; NaN: not known.
    """

    policy: str
    knows: str
    suspends: bool
    ratio: float
    over_reference: float


def advice(
    contenders: Sequence[Contender], reference: str, *, priorities: bool = False
) -> list[str]:
    """The recommendation, one sentence each, the answer first.

    First the best of all policies; then, where it asks for more than everybody has, the best of
    those that are given no run times, of those that suspend no jobs, and of those that do neither.

    Args:
      contenders: the policies, in any order; what a log recorded is none.
      reference: the policy that others are compared with.
      priorities: whether jobs have two priorities, which a mean over all jobs does not tell.
    """
    if not contenders:
        return []
    best = min(contenders, key=lambda each: each.ratio)
    lines = [
        f"{best.policy} has the lowest mean completion time: {_above(best.ratio)}"
        f"{_below(best, reference)}. It {_needs(best)}."
    ]
    told = {best.policy}
    kinds = (
        ("Where run times are not known", lambda each: each.knows in WITHOUT),
        ("Where jobs cannot be suspended", lambda each: not each.suspends),
        (
            "Where neither is possible",
            lambda each: each.knows in WITHOUT and not each.suspends,
        ),
    )
    for where, suits in kinds:
        found = min(filter(suits, contenders), key=lambda each: each.ratio, default=None)
        if found is None or found.policy in told:
            continue
        told.add(found.policy)
        lines.append(
            f"{where}: {found.policy}, {_above(found.ratio)}{_below(found, reference)}; it "
            f"{_needs(found)}."
        )
    if priorities:
        lines.append(
            "Jobs have priorities here, and all this is of all jobs: what became of high-priority "
            "and of spot jobs stands apart."
        )
    return lines


def together(boards: Sequence[Sequence[Contender]]) -> list[Contender]:
    """The policies that played on all boards, with geometric means of their ratios."""
    by_name: list[Mapping[str, Contender]] = [
        {each.policy: each for each in board} for board in boards
    ]
    return [
        first._replace(
            ratio=_mean([board[name].ratio for board in by_name]),
            over_reference=_mean([board[name].over_reference for board in by_name]),
        )
        for name, first in by_name[0].items()
        if all(name in board for board in by_name)
    ]


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _above(ratio: float) -> str:
    """How far from the bound."""
    if ratio - 1 < REST:
        return "at the bound that no schedule can beat"
    if ratio >= 2:
        return f"{ratio:.1f} times the bound that no schedule can beat"
    return f"{100 * (ratio - 1):.0f} % above the bound that no schedule can beat"


def _below(found: Contender, reference: str) -> str:
    """How much less than the reference."""
    share = 1 - found.over_reference
    if found.policy == reference or math.isnan(share):
        return ""
    if abs(share) < REST:
        return f", level with {reference}"
    return f", {100 * abs(share):.0f} % {'below' if share > 0 else 'above'} {reference}"


def _needs(found: Contender) -> str:
    words = KNOWN.get(found.knows, KNOWN["unstated"])
    return f"{words} and {'suspends' if found.suspends else 'never suspends'} jobs"
