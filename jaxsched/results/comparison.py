"""Runs several policies on the same episodes and gathers what tables, figures and reports show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from jaxsched.core.environment import Environment
from jaxsched.core.policies import Play, Policy
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.metrics import Metric
from jaxsched.jobs.notes import notes_of
from jaxsched.results.finishing import FINISHED, unfinished
from jaxsched.systems import functions
from jaxsched.systems.figures import Figures
from jaxsched.systems.parts import Played, compiled_together
from jaxsched.systems.system import System
from jaxsched.types import PyTree

OWN = "a rule of one's own"
"""Note on rules that do not come with the system."""


@dataclass(frozen=True)
class Learned:
    """A trained policy: its environment and network, and one set of weights per seed."""

    name: str
    env: Environment
    network: str
    weights: Sequence[PyTree]
    play: Play = "greedy"
    note: str = ""


PICTURED = 0
"""The episode whose schedule is drawn."""


@dataclass(frozen=True)
class Contest:
    """Episodes of a comparison, and what is said about them.

    Attributes:
      system: the system.
      tables: test episodes, the same for all.
      source: description of the episodes, for captions.
      options: of the heuristics (``Options``).
      facts: label -> value, shown with the results.
      command: how to get the same results.
      further_notes: changes beside the notes of the tables.
    """

    system: System
    tables: Sequence[JobTable]
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    further_notes: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """What was dropped, raised, capped or drawn in the episodes, one sentence each."""
        return [*notes_of(self.tables), *self.further_notes]


def as_seeds(learned: Sequence[Learned]) -> Learned:
    """Trained policies as training seeds of one, which has the name of the first.

    Raises:
      JaxschedError: they differ in environment, network or how they play.
    """
    first = learned[0]
    for number, other in enumerate(learned, 1):
        for field_name in ("env", "network", "play"):
            if getattr(other, field_name) != getattr(first, field_name):
                what = {"env": "environment"}.get(field_name, field_name)
                raise JaxschedError(
                    f"policy {number} is no training seed of the first one: their {what} differs"
                )
    return replace(first, weights=[given for each in learned for given in each.weights])


def distinct(learned: Sequence[Learned], names: Sequence[str]) -> list[Learned]:
    """Trained policies with names of their own; one that is taken gets an addition."""
    taken, found = set(names), []
    for policy in learned:
        name, number = policy.name, 1
        while name in taken:
            name = f"{policy.name}, trained" + (f" {number}" if number > 1 else "")
            number += 1
        taken.add(name)
        found.append(replace(policy, name=name))
    return found


def compare(
    contest: Contest,
    names: Sequence[str],
    learned: Sequence[Learned] = (),
    own: Sequence[Policy] = (),
    *,
    environment: Environment | None = None,
    on_policy: Callable[[str], None] = lambda name: None,
    on_played: Callable[[str, list[Played]], None] | None = None,
) -> dict[str, Any]:
    """Play every policy on every episode.

    Args:
      contest: what is compared on what.
      names: heuristics.
      learned: trained policies.
      own: rules of the user's own, without weights, for that cluster.
      environment: cluster of the heuristics; the paper's by default.
      on_policy: called with each policy's name before it plays (progress).
      on_played: called with its name and what it played, a result for each training seed; with it
        these have the schedules of all episodes, in order.

    Returns:
      A comparison as ``jaxsched.report.schema`` describes it.
    """
    system = contest.system
    learned = distinct(learned, names)
    base = environment if environment is not None else functions.environment(system)
    entries, panels = [], {}
    drawn = [PICTURED] if on_played is None else list(range(len(contest.tables)))

    def note(name: str, kind: str, words: str, runs: list[Played]) -> None:
        if on_played is not None:
            on_played(name, runs)
        panels[name] = runs[0].schedule[:1]
        entry = policy_entry(system, name, kind, words, runs)
        known = system.policies.get(name) if kind != "learned" else None
        apart = known is not None and (known.clairvoyant or known.apart)
        entries.append(entry | ({"apart": True} if apart else {}))

    for name, play in _heuristics(contest, base, names, drawn):
        on_policy(name)
        info = system.policies[name]
        note(name, info.kind, info.description, [play()])
    for policy in learned:
        on_policy(policy.name)
        note(policy.name, "learned", policy.note, _play_learned(contest, policy, drawn))
    for rule in own:
        on_policy(rule.name)
        note(rule.name, "reference", OWN, [_play(contest, drawn, base, rule, ())])
    result: dict[str, Any] = {
        "system": system.name,
        "title": system.title,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "facts": dict(contest.facts),
        "command": contest.command,
        "episodes": {"count": len(contest.tables), "source": contest.source},
        "notes": contest.notes,
        "metrics": {name: _shown(functions.metric(system, name)) for name in system.metrics.shown},
        "policies": entries,
        "primary": system.metrics.primary,
    }
    if best_rule := functions.best_rule(system, names):
        result["best_rule"] = best_rule
    if system.metrics.figures != Figures():
        result["figures"] = words_of(system.metrics.figures)
    pair = _gantt_pair(system, base, names, learned)
    if pair and all(panels[name] for name in pair):
        episode = contest.tables[PICTURED].name
        shown = [
            replace(panels[name][0], policy=name, episode=episode, facts=(), marks=())
            for name in pair
        ]
        result["schedules"] = [schedule.to_json() for schedule in shown]
    baselines = functions.policy_names(system, "baseline", env=base)
    means = {entry["name"]: _means(entry) for entry in entries}
    published = system.paper.published(base, contest.tables, means)
    if published is not None:
        result["published"] = published
    if learned and set(baselines) <= set(names):
        rows = claimed(system, base, means, learned[0].name)
        if rows:
            result["paper"] = {"rows": rows}
    return result


def claimed(
    system: System, base: Environment, means: Mapping[str, Mapping[str, float]], learned: str
) -> list[dict[str, Any]]:
    """Rows of the paper's claims; none of a learned policy that leaves jobs unfinished."""
    left = unfinished({name: figures[FINISHED] for name, figures in means.items()})
    return [] if learned in left else system.paper.claims(base, means, learned)


def heuristic_scores(
    contest: Contest, names: Sequence[str], environment: Environment
) -> dict[str, float]:
    """What heuristics reach by ``functions.score``.

    Args:
      contest: the episodes.
      names: the heuristics.
      environment: their cluster.
    """
    return {
        name: functions.score(contest.system, play(), contest.tables)
        for name, play in _heuristics(contest, environment, names, [PICTURED])
    }


def _heuristics(
    contest: Contest, base: Environment, names: Sequence[str], drawn: Sequence[int]
) -> Iterator[tuple[str, Callable[[], Played]]]:
    """Each heuristic with what plays it; those of one environment are compiled as one."""
    system, most = contest.system, max(len(table) for table in contest.tables)
    heuristics = [functions.heuristic(system, name, base, most, contest.options) for name in names]
    for name, heuristic in zip(names, compiled_together(heuristics), strict=True):
        yield name, partial(_play, contest, drawn, *heuristic)


def _play_learned(contest: Contest, learned: Learned, drawn: Sequence[int]) -> list[Played]:
    policy = functions.network_policy(
        contest.system, learned.env, learned.network, learned.name, learned.play
    )
    return [_play(contest, drawn, learned.env, policy, weights) for weights in learned.weights]


def _play(
    contest: Contest, drawn: Sequence[int], env: Environment, policy: Policy, weights: PyTree
) -> Played:
    params = env.params(contest.tables)
    return functions.play(contest.system, env, policy, params, weights, schedule=drawn)


def policy_entry(
    system: System, name: str, kind: str, note: str, runs: list[Played]
) -> dict[str, Any]:
    """A policy's values; one list per seed where there are several."""
    values = {
        metric: [run.metrics[metric].tolist() for run in runs] for metric in system.metrics.shown
    }
    if len(runs) == 1:
        values = {metric: sample[0] for metric, sample in values.items()}
    curves = {}
    for curve in runs[0].curves:
        length = min(len(run.curves[curve]) for run in runs)
        curves[curve] = np.mean([run.curves[curve][:length] for run in runs], axis=0).tolist()
    return {"name": name, "kind": kind, "note": note, "metrics": values, "curves": curves}


def _means(entry: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in entry["metrics"].items()}


def words_of(figures: Figures) -> dict[str, Any]:
    """A system's own figures as the report's schema has them."""
    return {
        "curves": {name: curve._asdict() for name, curve in figures.curves.items()},
        "groups": [{**group._asdict(), "metrics": list(group.metrics)} for group in figures.groups],
    }


def _shown(metric: Metric) -> dict[str, Any]:
    return {
        "label": metric.label,
        "unit": metric.unit,
        "better": metric.better,
        "digits": metric.digits,
    }


def _gantt_pair(
    system: System, env: Environment, names: Sequence[str], learned: Sequence[Learned]
) -> list[str]:
    """A plain baseline beside the learned policy, or beside the reference policy."""
    baselines = [
        name for name in functions.policy_names(system, "baseline", env=env) if name in names
    ]
    others = [policy.name for policy in learned]
    others += [
        name for name in functions.policy_names(system, "reference", env=env) if name in names
    ]
    return [*baselines[:1], *others[:1]] if baselines and others else (baselines + others)[:2]
