"""E17: what it costs that jobs get other tasks while they train."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.dl2.common import JCT, cluster, comparison, rules, values_of
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, beside, percent
from benchmarks.papers.samples import Sample, change, hundred, sample_of
from benchmarks.papers.settings import Workload
from jaxsched.envs.dl2.show.paper import SCALING_OVERHEAD
from jaxsched.systems import functions

WAYS = {"free": 0.0, "hot scaling": 0.05, "checkpoints": 30.0}
"""Seconds: nothing, tens of milliseconds, tens of seconds (specification, section 1)."""
SHIPPED = "pretrained"
RIVALS = ("drf", "optimus")
NOTE = (
    "dl2 is the shipped policy of the testbed, which learnt with free resizing and does not see "
    "what jobs held before; the test tables come from a seed that is used for nothing else"
)


def resizing(lab: Lab) -> Outcome:
    """E17, Figures 13 and 14: completion times on the testbed where resizing takes time."""
    recipe = lab.recipe("testbed")
    tables = lab.test_tables(Workload(recipe.traces.test), recipe)
    env, policy, weights = lab.shipped(SHIPPED)
    ways: dict[str, dict[str, Sample]] = {}
    for way, seconds in WAYS.items():
        options = (("resizing", seconds),)
        found = rules(lab, RIVALS, cluster(lab, "testbed"), tables, options)
        params = env.params(tables, **dict(options))
        found["dl2"] = sample_of([functions.play(lab.system, env, policy, params, weights)])
        ways[way] = found
    checks: list[Check] = []
    for way in ("hot scaling", "checkpoints"):
        for name, sample in ways[way].items():
            paper = SCALING_OVERHEAD.get((way, name))
            longer = change(sample, ways["free"][name], JCT)
            shown = "-" if paper is None else percent(paper, 2)
            checks.append(beside(f"{way}: {name} slower by", shown, longer, shown=percent))

    def draw(figure: Any) -> None:
        names = list(ways["free"])
        series = {
            way: [hundred(change(found[name], ways["free"][name], JCT)) for name in names]
            for way, found in ways.items()
            if way != "free"
        }
        figures.bars(figure.subplots(), names, series, y_label="completion time, more (%)")

    every = [
        comparison(f"{way}: {seconds:g} s", ways[way], ("drf",)) for way, seconds in WAYS.items()
    ]
    return Outcome(every, checks, {way: values_of(f) for way, f in ways.items()}, draw, [NOTE])
