"""What became of a paper's claims: each system's rules, and the verdict on every check of a row.

A row measures; the rules (``CLAIMS`` of ``benchmarks.papers.<system>.claims``) say how the paper's
words are to be read, and why something did not come out. Verdicts are made from what a row's check
prints, so that rows measured long ago are judged by today's rules.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from jaxsched.errors import JaxschedError
from jaxsched.systems.claims import (
    DIRECTION,
    NOT_REPRODUCED,
    NOT_TESTED,
    REPRODUCED,
    TOLERANCE,
    judge,
    stated,
)

UNKNOWN = "no reason is known"
NO_SIZE = "the paper gives no size"
_LEVEL = re.compile(r" \((must|target|goal|stretch)\)$")
_NUMBER = r"([+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)"
_MEASURED = re.compile(rf"^{_NUMBER}[^\[]*(?:\[{_NUMBER}, {_NUMBER}\])?")


class Claim(NamedTuple):
    """How claims of a paper are read.

    Attributes:
      row: whose checks these are.
      item: a pattern of the check's name, as of file names; ``"*"`` for all.
      none: the value of no effect; None where the paper tells a level.
      says: what the paper's words mean (``jaxsched.systems.claims.stated``); themselves if None.
      holds: decides by what was measured where no single number does.
      held: the verdict where it holds.
      bounds: what ``holds`` asks for, in words.
      paper: stands for the words of the check, where these do not say what the paper says.
      why: why it did not come out; empty if nobody knows.
      untested: why it was not tested; empty if it was.
      note: what has to be known beside any verdict.
      claimed: False for figures of ours, of which the paper says nothing.
    """

    row: str
    item: str = "*"
    none: float | None = None
    says: str | None = None
    holds: Callable[[str], bool] | None = None
    held: str = DIRECTION
    bounds: str = ""
    paper: str | None = None
    why: str = ""
    untested: str = ""
    note: str = ""
    claimed: bool = True


class Missing(NamedTuple):
    """A claim that no row measures.

    Attributes:
      row: figure, table or row that it would belong to.
      item: what is claimed.
      paper: its figure.
      why: why there is nothing.
    """

    row: str
    item: str
    paper: str
    why: str


class Judged(NamedTuple):
    """A claim and what became of it.

    Attributes:
      row: whose check it is.
      item: what is compared.
      paper: the paper's figure.
      measured: ours.
      accepted: within which bounds it counts as reproduced; empty where nothing is to be told.
      verdict: one of ``jaxsched.systems.claims.VERDICTS``; empty where the paper claims nothing.
      reason: why it did not come out, or what has to be known of the verdict.
    """

    row: str
    item: str
    paper: str
    measured: str
    accepted: str
    verdict: str
    reason: str


def judged(system: str, documents: Sequence[Mapping[str, Any]]) -> list[Judged]:
    """All checks of some rows, each claim once; then the claims that no row measures.

    Raises:
      JaxschedError: no rule covers a claim.
    """
    found: dict[tuple[str, str], Judged] = {}
    for document in documents:
        for check in document["checks"]:
            item = _LEVEL.sub("", check["item"])
            verdict = judged_check(system, document["row"], {**check, "item": item})
            before = found.get((document["row"], item))
            if before is None or stated(before.paper) is None or before.paper[:1] in "<>":
                found[document["row"], item] = verdict
    missing = [Judged(*part[:3], "-", "", NOT_TESTED, part.why) for part in missing_of(system)]
    return [*found.values(), *missing]


def judged_check(system: str, row: str, check: Mapping[str, Any]) -> Judged:
    """One check.

    Args:
      system: whose paper it is.
      row: that measured it.
      check: with ``item``, ``paper``, ``measured``, ``note``, and ``tested`` (files of before:
        ``met`` and ``accept``).

    Raises:
      JaxschedError: no rule covers it.
    """
    item, paper, measured = (str(check[name]) for name in ("item", "paper", "measured"))
    rule = rule_of(system, row, item)
    if rule is None:
        if paper != "-":
            raise JaxschedError(f"{system}, row {row}: no rule for the claim {item!r}")
        return Judged(row, item, paper, measured, "", "", check["note"])
    paper = rule.paper or paper
    if not rule.claimed:
        return Judged(row, item, "-", measured, "", "", rule.note)
    why_not = rule.untested or ("" if _tested(check) else check["note"])
    if why_not:
        return Judged(row, item, paper, measured, "", NOT_TESTED, why_not)
    if measured == "-":
        return Judged(row, item, paper, measured, "", NOT_TESTED, "nothing to measure against")
    if rule.holds is not None:
        verdict = rule.held if rule.holds(measured) else NOT_REPRODUCED
        return _with_reason(rule, Judged(row, item, paper, measured, rule.bounds, verdict, ""))
    statement = stated(paper if rule.says is None else rule.says, rule.none)
    if statement is None:
        raise JaxschedError(f"{system}, row {row}, {item}: no number in {paper!r}")
    numbers = _MEASURED.match(measured)
    if numbers is None:
        return _with_reason(
            rule, Judged(row, item, paper, measured, statement.accepted, NOT_REPRODUCED, "")
        )
    values = [None if text is None else float(text.replace(",", "")) for text in numbers.groups()]
    assert values[0] is not None
    verdict = judge(statement, values[0], *values[1:])
    beyond = ""
    if verdict == DIRECTION and not statement.only_direction:
        size = abs(values[0] - (statement.none or 0.0))
        paper_size = abs(max(statement.low, -1e300) - (statement.none or 0.0))
        beyond = "larger than the paper's" if size > paper_size else "smaller than the paper's"
    return _with_reason(
        rule, Judged(row, item, paper, measured, statement.accepted, verdict, beyond)
    )


def _with_reason(rule: Claim, found: Judged) -> Judged:
    if found.verdict == NOT_REPRODUCED:
        reason = rule.why or UNKNOWN
    elif found.verdict == DIRECTION and not found.reason:
        reason = NO_SIZE
    else:
        reason = found.reason
    return found._replace(reason="; ".join(filter(None, (reason, rule.note))))


def _tested(check: Mapping[str, Any]) -> bool:
    if "tested" in check:
        return bool(check["tested"])
    return check["met"] is not None or check["accept"] == "reported"


def rule_of(system: str, row: str, item: str) -> Claim | None:
    """The first rule for a check; None if there is none."""
    for rule in _claims(system).CLAIMS:
        if rule.row == row and fnmatchcase(item, rule.item):
            return rule
    return None


def missing_of(system: str) -> Sequence[Missing]:
    """The paper's claims that no row measures."""
    missing: Sequence[Missing] = _claims(system).MISSING
    return missing


@cache
def _claims(system: str) -> Any:
    return import_module(f"benchmarks.papers.{system}.claims")


def numbers_in(measured: str) -> list[float]:
    """All numbers of a text, for claims that several figures decide; shares in brackets apart."""
    plain = re.sub(r"\([^)]*\)", "", measured)
    found = re.findall(r"(?<![\w+])-?\d[\d,]*\.?\d*", plain)
    return [float(text.rstrip(",").replace(",", "")) for text in found]


def falls(measured: str) -> bool:
    """Whether each number is below the one before."""
    found = numbers_in(measured)
    return all(b < a for a, b in zip(found, found[1:], strict=False)) and len(found) > 1


def grows(measured: str) -> bool:
    """Whether each number is above the one before."""
    found = numbers_in(measured)
    return all(b > a for a, b in zip(found, found[1:], strict=False)) and len(found) > 1


__all__ = [
    "REPRODUCED",
    "TOLERANCE",
    "Claim",
    "Judged",
    "Missing",
    "falls",
    "grows",
    "judged",
    "judged_check",
    "numbers_in",
]
