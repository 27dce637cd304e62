"""The papers' own recipes: what was run, on what, and how it came out, read from the files.

Axes: ``S`` seeds, ``E`` episodes.
"""

import shlex
from typing import NamedTuple

from benchmarks.evidence.judge import less_one, verdict
from benchmarks.evidence.parts import Own, OwnAny, OwnRatios, OwnReading, Recipe
from benchmarks.evidence.sources import plays, read
from benchmarks.readings import UNTRAINED
from jaxsched.results.statistics import Interval
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry

ALONE = "untrained"
"""The networks before they learnt, in files of one policy."""
SUPERVISED = ", supervised"
"""After a policy's name: the network before it was reinforced."""


class Told(NamedTuple):
    """What a file says of a recipe of the paper's.

    Attributes:
      departures: from the paper's text, in words.
      cluster: what was learnt and played on.
      episodes: how many of what.
      seeds: training seeds.
      change: of the first metric, against the rule.
      untrained: the same of the network before it learnt, if the file has it.
      command: that printed the file.
      file: its name.
    """

    departures: str
    cluster: str
    episodes: str
    seeds: int
    change: Interval
    untrained: Interval | None
    command: str
    file: str


def as_command(recipe: Recipe) -> str:
    """The recipe's options of ``jaxsched train``."""
    changes = [word for change in recipe.changes for word in ("--set", change)]
    return shlex.join(["--preset", recipe.preset, *changes])


def departures(system: str, recipe: Recipe) -> str:
    """What differs from the paper's text, as a run names it today, and what no setting shows."""
    if system not in registry.names():
        return "; ".join(recipe.also) or "none"
    chosen = registry.get(system)
    changed = override(presets.preset(chosen, recipe.preset), list(recipe.changes))
    return (
        "; ".join([*chosen.recipes.departures.of(changed), *recipe.also]) or "none that a run names"
    )


def told(system: str, own: OwnAny) -> Told:
    """Everything that tables show of a recipe."""
    words = departures(system, own.recipe)
    if isinstance(own, Own):
        return _of_comparison(own, words)
    return _of_ratios(own, words) if isinstance(own, OwnRatios) else _of_reading(own, words)


def _of_comparison(own: Own, words: str) -> Told:
    played = plays(own.player.file, own.player.part)
    found = verdict(played, own.player.policy, own.against, own.metrics[0])
    seeds = len(played.of(own.player.policy, own.metrics[0]))
    untrained = None
    for before in (f"{own.player.policy}{UNTRAINED}", ALONE):
        if before in played.values:
            untrained = verdict(played, before, own.against, own.metrics[0]).change
    cluster, episodes = played.facts.get("cluster", own.cluster), played.episodes or own.episodes
    file, command = own.player.file, played.command
    return Told(words, cluster, episodes, seeds, found.change, untrained, command, file)


def _of_ratios(own: OwnRatios, words: str) -> Told:
    (found,) = read(own.file)
    learned, untrained = (
        less_one(Interval(*found["policies"][name]["ratios"][own.metrics[0]]))
        for name in ("learned", "untrained")
    )
    cluster = f"{found['num_servers']} machines"
    episodes = f"{found['episodes']}: {own.source}"
    seeds, command = len(found["seeds"]), found["command"]
    return Told(words, cluster, episodes, seeds, learned, untrained, command, own.file)


def _of_reading(own: OwnReading, words: str) -> Told:
    study, found = own.study, read(own.file)["readings"][own.name]
    played = plays(own.file, next(iter(study.worlds)))
    change, untrained = (
        verdict(played, name, own.against, study.shown).change
        for name in (own.name, f"{own.name}{UNTRAINED}")
    )
    episodes = f"{study.test.number} of {study.test.name}"
    seeds, command = len(found["chosen"]), played.command
    return Told(words, own.cluster, episodes, seeds, change, untrained, command, own.file)
