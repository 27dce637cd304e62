"""What the numbers of a comparison say: means, best values, gains and the verdict."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.report.schema import Comparison, Metric, Policy
from jaxsched.results.finishing import FINISHED, unfinished
from jaxsched.results.statistics import (
    Floats,
    Interval,
    paired_difference,
    ratio_interval,
    seeds_episodes_interval,
)

NARROW_SPACE = "\u202f"
MINUS = "\u2212"
DASH = "\u2013"

_BESIDE = ("avg_jct", "makespan")
"""Metrics that have bars beside the primary one, unless a comparison names those that have."""


def number(value: float, digits: int) -> str:
    """``value`` with ``digits`` decimals, thin thousands separators and a true minus sign."""
    text = f"{value:,.{digits}f}".replace(",", NARROW_SPACE)
    if text.startswith("-"):
        text = MINUS + text[1:] if text.strip("-0." + NARROW_SPACE) else text[1:]
    return text


def span(interval: Interval, digits: int) -> str:
    """The two ends of an interval."""
    return f"{number(interval.low, digits)}{DASH}{number(interval.high, digits)}"


def labelled(metric: Metric, gap: str = " ") -> str:
    """A metric's label, with its unit in brackets after a gap."""
    return metric["label"] + (f"{gap}({metric['unit']})" if metric["unit"] else "")


@dataclass(frozen=True)
class Verdict:
    """The report's answer: ``headline`` in one sentence, ``detail`` in one or two more."""

    headline: str
    detail: str
    won: bool | None  # against the best rule; None where there is no learned policy or no rule


class Summary:
    """Everything derived from a checked `Comparison`; intervals are computed once."""

    def __init__(self, comparison: Comparison, *, resamples: int = 10_000) -> None:
        """Summarise ``comparison``, which must have passed `jaxsched.report.schema.check`."""
        self.comparison = comparison
        self.metrics: dict[str, Metric] = comparison["metrics"]
        self._resamples = resamples
        self._gains: dict[tuple[str, str], Interval | None] = {}

    @cached_property
    def primary(self) -> str:
        """Name of the metric that the verdict is about."""
        directed = [name for name, m in self.metrics.items() if m["better"] != "neither"]
        return self.comparison.get("primary") or (directed or list(self.metrics))[0]

    @cached_property
    def bars(self) -> list[str]:
        """Names of the metrics that deserve a bar chart."""
        if self.comparison.get("bars"):
            return self.comparison["bars"]
        label = self.metrics[self.primary]["label"]  # of a metric that is there in another unit
        usual = [n for n in _BESIDE if n in self.metrics and self.metrics[n]["label"] != label]
        if usual:
            return [self.primary, *usual]
        directed = [name for name, m in self.metrics.items() if m["better"] != "neither"]
        return list(dict.fromkeys((self.primary, *directed[:3])))[:3]

    @cached_property
    def policies(self) -> list[Policy]:
        """Learned policies, then references, then baselines; the best first in each group.

        Those that leave jobs unfinished are the last of their group.
        """
        rank = {"learned": 0, "reference": 1, "baseline": 2}

        def key(policy: Policy) -> tuple[int, bool, float]:
            cell = self.cells.get((policy["name"], self.primary))
            cost = np.inf if cell is None else self._cost(self.primary, cell)
            return rank[policy["kind"]], policy["name"] in self.unfinished, cost

        return sorted(self.comparison["policies"], key=key)

    def of_kind(self, kind: str) -> list[Policy]:
        """Policies of one kind, best first."""
        return [p for p in self.policies if p["kind"] == kind]

    @cached_property
    def unfinished(self) -> dict[str, float]:
        """Share of the jobs that finish, of policies that leave some: never the best, nor ahead."""
        return unfinished(
            {
                policy["name"]: float(self.values(policy, FINISHED).mean())
                for policy in self.comparison["policies"]
                if FINISHED in policy["metrics"]
            }
        )

    def left_unfinished(self, policies: list[Policy]) -> str:
        """Which of these policies leave jobs unfinished, in a sentence; empty if none does."""
        names = [
            f"{p['name']} ({number(100 * self.unfinished[p['name']], 1)}\u00a0% finish)"
            for p in policies
            if p["name"] in self.unfinished
        ]
        if not names:
            return ""
        what = "leaves jobs unfinished" if len(names) == 1 else "leave jobs unfinished"
        return f"{_listing(names)} {what}, so means over finished jobs are not compared."

    @cached_property
    def cells(self) -> dict[tuple[str, str], Interval]:
        """Mean and interval for each (policy, metric) that was measured."""
        return {
            (policy["name"], metric): seeds_episodes_interval(
                self.values(policy, metric), resamples=self._resamples
            )
            for policy in self.comparison["policies"]
            for metric in self.metrics
            if metric in policy["metrics"]
        }

    def values(self, policy: Policy, metric: str) -> Floats:
        """Per-episode values, shape ``[seeds, episodes]``."""
        return np.atleast_2d(np.asarray(policy["metrics"][metric], np.float64))

    def seeds(self, policy: Policy) -> int:
        """Number of training seeds behind a policy's results."""
        return max((self.values(policy, m).shape[0] for m in policy["metrics"]), default=1)

    def best_baseline(self, metric: str) -> Policy | None:
        """The baseline with the best mean of this one metric; None if nothing qualifies."""
        if self.metrics[metric]["better"] == "neither":
            return None
        rivals = self._finishing([p for p in self.of_kind("baseline") if metric in p["metrics"]])
        return min(
            rivals, key=lambda p: self._cost(metric, self.cells[p["name"], metric]), default=None
        )

    def is_best(self, policy: Policy, metric: str) -> bool:
        """Whether no policy's mean, as printed, is better than this one's."""
        info = self.metrics[metric]
        cell = self.cells.get((policy["name"], metric))
        if cell is None or info["better"] == "neither" or policy["name"] in self.unfinished:
            return False
        printed = [
            round(c.estimate, info["digits"])
            for (name, m), c in self.cells.items()
            if m == metric and name not in self.unfinished
        ]
        best = max(printed) if info["better"] == "higher" else min(printed)
        return round(cell.estimate, info["digits"]) == best

    def gain(self, policy: Policy, metric: str) -> Interval | None:
        """How many times better than the best baseline of this metric; above 1 is better.

        The ratio of means, turned round where lower is better, with a paired bootstrap interval.
        None where it has no meaning: no baseline, no direction, a mean of zero, jobs unfinished.
        """
        key = (policy["name"], metric)
        if key not in self._gains:
            self._gains[key] = self._gain(policy, metric)
        return self._gains[key]

    def _gain(self, policy: Policy, metric: str) -> Interval | None:
        rival = self.best_baseline(metric)
        if rival is None or metric not in policy["metrics"] or policy["name"] in self.unfinished:
            return None
        ours, theirs = self.values(policy, metric), self.values(rival, metric)
        if self.metrics[metric]["better"] == "lower":
            ours, theirs = theirs, ours
        try:
            return ratio_interval(ours, theirs, resamples=self._resamples)
        except JaxschedError:
            return None

    def advantage(self, policy: Policy, other: Policy, metric: str) -> Interval:
        """Paired difference of means, signed so that positive means ``policy`` is better."""
        ours, theirs = self.values(policy, metric), self.values(other, metric)
        if self.metrics[metric]["better"] == "lower":
            ours, theirs = theirs, ours
        return paired_difference(ours, theirs, resamples=self._resamples)

    def shown(self, policy: Policy, metric: str) -> str:
        """The mean as the report prints it."""
        return number(self.cells[policy["name"], metric].estimate, self.metrics[metric]["digits"])

    def _finishing(self, policies: list[Policy]) -> list[Policy]:
        return [p for p in policies if p["name"] not in self.unfinished]

    def _cost(self, metric: str, cell: Interval) -> float:
        return -cell.estimate if self.metrics[metric]["better"] == "higher" else cell.estimate

    def best_rule(self, rules: list[Policy]) -> Policy | None:
        """The rule of the best primary metric; None if there is none.

        Rules that stand apart (they know what no scheduler can, or play on other terms) are left
        out, but for the one that the system names as the best known.
        """
        named = self.comparison.get("best_rule")
        known = [p for p in rules if p["name"] == named or not p.get("apart", False)]
        return min(
            known,
            key=lambda p: self._cost(self.primary, self.cells[p["name"], self.primary]),
            default=None,
        )

    @cached_property
    def verdict(self) -> Verdict:
        """What to conclude about the primary metric, said plainly; the best rule known first."""
        measured = [p for p in self.policies if self.primary in p["metrics"]]
        compared = self._finishing(measured)
        learned = [p for p in measured if p["kind"] == "learned"]
        baselines = [p for p in compared if p["kind"] == "baseline"]
        references = [p for p in compared if p["kind"] == "reference"]
        label = self.metrics[self.primary]["label"].lower()
        others = self.left_unfinished([p for p in measured if p["kind"] != "learned"])
        best = self.best_rule([*baselines, *references])
        references = [p for p in references if p is not best]
        if not learned:
            verdict = self._verdict_without_learning(best, baselines, references, label, others)
        elif learned[0]["name"] in self.unfinished:
            return self._verdict_of_unfinished(learned[0], label)
        elif best is None:
            text = f"{_subject(learned[0])} reaches {self._with_unit(learned[0])} in {label}."
            verdict = Verdict(text, self._against_references(learned[0], references), None)
        else:
            verdict = self._verdict_against(learned[0], best, baselines, references, label)
        return replace(verdict, detail=f"{verdict.detail} {others}".strip())

    def _verdict_of_unfinished(self, best: Policy, label: str) -> Verdict:
        share = number(100 * self.unfinished[best["name"]], 1)
        text = f"{_subject(best)} finishes only {share}\u00a0% of the jobs."
        return Verdict(text, f"Its mean {label} is of those alone and is not compared.", False)

    def _verdict_without_learning(
        self,
        best: Policy | None,
        baselines: list[Policy],
        references: list[Policy],
        label: str,
        others: str,
    ) -> Verdict:
        if best is None:
            why = "no rule finishes its jobs" if others else "no rule was run"
            return Verdict(f"There is nothing to compare here: {why}.", "", None)
        lead = f"Best rule in {label}: {best['name']}, {self._with_unit(best)}."
        sentences = ["No learned policy is part of this comparison."]
        if baselines and best["kind"] != "baseline":
            first = baselines[0]
            sentences.append(
                f"The best baseline of the paper, {first['name']}, reaches "
                f"{self._with_unit(first)}."
            )
        sentences += [
            f"The reference policy {policy['name']} reaches {self._with_unit(policy)}."
            for policy in references
        ]
        return Verdict(lead, " ".join(sentences), None)

    def _verdict_against(
        self,
        learned: Policy,
        best: Policy,
        baselines: list[Policy],
        references: list[Policy],
        label: str,
    ) -> Verdict:
        lead = self.advantage(learned, best, self.primary)
        if not lead.excludes(0.0):
            side = "is not clearly different from"
        else:
            side = "is ahead of" if lead.low > 0 else "is behind"
        who = "the best rule here" + (", a baseline" if best["kind"] == "baseline" else "")
        pair = f"{self.shown(learned, self.primary)} and {self._with_unit(best)}"
        text = f"{_subject(learned)} {side} {best['name']}, {who}, on {label}: {pair}."
        detail = f"{self._size(lead)} {self._against_baselines(learned, baselines)}".strip()
        against = self._against_references(learned, references)
        return Verdict(text, f"{detail} {against}".strip(), lead.low > 0)

    def _size(self, lead: Interval) -> str:
        """How large a difference is, in a sentence; empty where it is within the noise."""
        if not lead.excludes(0.0):
            return ""
        digits = self.metrics[self.primary]["digits"]
        size = Interval(abs(lead.estimate), *sorted((abs(lead.low), abs(lead.high))))
        return (
            f"The difference is {number(size.estimate, digits)} "
            f"(95\u00a0% interval {span(size, digits)})."
        )

    def _against_baselines(self, learned: Policy, baselines: list[Policy]) -> str:
        """Where a learned policy stands among the paper's baselines."""
        if not baselines:
            return ""
        leads = {p["name"]: self.advantage(learned, p, self.primary) for p in baselines}
        ahead = [name for name, lead in leads.items() if lead.high < 0]
        level = [name for name, lead in leads.items() if lead.low <= 0 <= lead.high]
        if ahead:
            verb = "is" if len(ahead) == 1 else "are"
            text = f"Of the paper's baselines {_listing(ahead)} {verb} better."
        elif level:
            text = f"Of the paper's baselines it is not clearly different from {_listing(level)}."
        else:
            text = "It beats every baseline of the paper."
        gain = self.gain(learned, self.primary)
        if gain is None:
            return text
        first = f"{baselines[0]['name']} ({self._with_unit(baselines[0])})"
        return (
            f"{text} It is {number(gain.estimate, 2)} times as good as the best of them, {first} "
            f"(95\u00a0% interval {span(gain, 2)})."
        )

    def _against_references(self, best: Policy, references: list[Policy]) -> str:
        sentences = []
        digits = self.metrics[self.primary]["digits"]
        for policy in references:
            lead = self.advantage(best, policy, self.primary)
            name = f"the reference policy {policy['name']} ({self._with_unit(policy)})"
            if not lead.excludes(0.0):
                sentences.append(f"It is not clearly different from {name}.")
                continue
            side = "ahead of" if lead.low > 0 else "behind"
            size = Interval(abs(lead.estimate), *sorted((abs(lead.low), abs(lead.high))))
            sentences.append(
                f"It is {side} {name} by {number(size.estimate, digits)} "
                f"(95\u00a0% interval {span(size, digits)})."
            )
        return " ".join(sentences)

    def _with_unit(self, policy: Policy) -> str:
        unit = self.metrics[self.primary]["unit"]
        return f"{self.shown(policy, self.primary)}{NARROW_SPACE + unit if unit else ''}"


def _subject(policy: Policy) -> str:
    name = policy["name"]
    return "The learned policy" if name == "learned" else f"The learned policy {name}"


def _listing(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
