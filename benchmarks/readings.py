"""Readings of a paper's text, each learnt by the paper's own method: what such studies share.

A study lists readings of a recipe before any of them is run. Each is trained with seeds side by
side in one program, validated as it goes, and each seed's best weights on validation episodes play
test episodes that nothing was chosen on, once, beside rules and what the last stage began with.

Axes: ``S`` seeds, ``E`` episodes, ``V`` validations.
"""

import argparse
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from benchmarks.scripts import chosen, untrained
from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.stages import stages_of
from jaxsched.units import readable_time

UNTRAINED = ", untrained"
"""After a reading's name: the networks before they learnt."""
NEW = "untrained"
"""Among rules: five networks of the preset as they are drawn."""
SUPERVISED = ", supervised"
"""After a reading's name: the networks after the stages before the last."""


class Draw(NamedTuple):
    """Episodes of a named trace."""

    name: str
    seed: int
    number: int

    def tables(self) -> Any:
        """Their job tables."""
        from jaxsched import traces

        return traces.get(self.name, seed=self.seed, num_traces=self.number)


@dataclass(frozen=True)
class Study:
    """What is read, and how each reading is learnt and judged.

    Attributes:
      command: the script's name in ``benchmarks``.
      system: which system.
      preset: the recipe that readings change.
      readings: settings that differ from the preset's, by reading.
      presets: of readings that change another recipe.
      train: episodes of the trainings.
      validation: episodes that weights are chosen on.
      test: episodes of the verdict.
      others: rules that play beside them, ``ours`` and ``NEW`` among them where asked for.
      ours: name of shipped weights of our recipe.
      metrics: what is kept of the test episodes.
      shown: the metric that weights are chosen by.
      updates: of a training, where the reading does not say.
      every: updates between validations.
      patience: updates without a gain before a seed ends.
      watched: further metrics whose course on the validation episodes is kept.
      worlds: options of the environment that change what every policy plays, by their name in the
        file; a reading belongs to the last whose options it has.
      start: what follows a reading's name where the weights are those that the last stage of the
        recipe began with.
    """

    command: str
    system: str
    preset: str
    readings: Mapping[str, tuple[str, ...]]
    train: Draw
    validation: Draw
    test: Draw
    others: tuple[str, ...]
    ours: str
    metrics: tuple[str, ...]
    shown: str
    updates: int
    every: int
    patience: int
    watched: tuple[str, ...] = ()
    worlds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    start: str = UNTRAINED
    presets: Mapping[str, str] = field(default_factory=dict)

    def preset_of(self, reading: str) -> str:
        """The recipe that a reading changes."""
        return self.presets.get(reading, self.preset)


class Begun(NamedTuple):
    """A recipe whose last stage may begin; seeds side by side."""

    recipe: Recipe
    setup: TrainingSetup
    carry: Any


def begin(
    system: str, preset: str, train: Draw, changes: Sequence[str], updates: int, seeds: int
) -> Begun:
    """Set the last stage of a recipe up, after the stages before it.

    Stages before the last see the parameters of their beginning throughout.

    Args:
      system: which system.
      preset: the recipe that is changed.
      train: its episodes.
      changes: of the recipe, ``path=value`` each.
      updates: of the last stage, where ``changes`` do not say.
      seeds: how many.
    """
    from jaxsched.core import training
    from jaxsched.runs.overrides import override

    chosen = registry.get(system)
    recipe = override(presets.preset(chosen, preset), [f"loop.num_updates={updates}", *changes])
    *before, last = stages_of(chosen, recipe, train.tables())
    weights = None
    for number, setup in enumerate(before, 1):
        keys = jax.random.split(jax.random.key(number), seeds)
        params, length = setup.params_at(0.0), setup.loop.num_updates
        carry = training.init(setup.env, setup.learner, setup.loop, keys, params, weights)
        carry, _ = training.chunk(
            setup.env, setup.learner, setup.loop, carry, params, num_updates=length
        )
        weights = setup.learner.policy_params(carry.learner_state)
    keys = jax.random.split(jax.random.key(0), seeds)
    carry = training.init(last.env, last.learner, last.loop, keys, last.params_at(0.0), weights)
    return Begun(recipe, last, carry)


def run(study: Study, words: str | None) -> None:
    """Train and play what the file of ``--json`` does not have yet.

    Args:
      study: what is read.
      words: of ``--help``.
    """
    parser = argparse.ArgumentParser(
        description=words, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--readings", default=";".join(study.readings), help="names between semicolons"
    )
    parser.add_argument("--updates", type=int, default=study.updates)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.updates < study.every or options.seeds < 1:
        raise JaxschedError(f"--updates must be at least {study.every}, --seeds at least 1")
    names = chosen(options.readings, study.readings, "--readings", sign=";")
    from jaxsched.provenance import surroundings

    result: dict[str, Any] = {
        "system": study.system,
        "command": "",
        **surroundings(),
        "readings": {},
        "loads": {part: {"seed": study.test.seed, "metrics": {}} for part in study.worlds},
    }
    if options.json is not None and options.json.exists():
        before = json.loads(options.json.read_text())
        result |= {part: before[part] for part in ("readings", "loads")}
    for part in study.worlds:
        played = result["loads"][part]["metrics"]
        for name in study.others:
            if name not in played:
                played[name] = of_other(study, name, study.worlds[part])
                write(study, options.json, result)
                print(f"{part}: {name}: {np.mean(played[name][study.shown]):,.4g}", flush=True)
    for name in names:
        if name in result["readings"]:
            continue
        found, part, plays = trained(study, name, options.updates, options.seeds)
        result["readings"][name] = found
        played = result["loads"][part]["metrics"]
        played[name], played[f"{name}{study.start}"] = plays
        write(study, options.json, result)
        print(f"{part}: {name}: {np.mean(played[name][study.shown]):,.4g}", flush=True)


def write(study: Study, path: Path | None, result: dict[str, Any]) -> None:
    """Write the file, if one is asked for, with the commands that make all that is in it."""
    if path is None:
        return
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, one in result["readings"].items():
        told = ["--seeds", str(len(one["chosen"]))]
        if one.get("asked", study.updates) != study.updates:
            told += ["--updates", str(one["asked"])]
        alike.setdefault(tuple(told), []).append(name)
    start = ["python", "-m", f"benchmarks.{study.command}", "--readings"]
    commands = [[*start, ";".join(names), *told] for told, names in alike.items()]
    result["command"] = " && ".join(map(shlex.join, commands))
    write_whole(path, (json.dumps(result, indent=1) + "\n").encode())


def of_other(study: Study, name: str, world: Mapping[str, Any]) -> dict[str, list[list[float]]]:
    """Metrics of a rule, of the shipped weights of our recipe or of new networks; ``[S, E]``."""
    from jaxsched.runs import saved_policies

    system, tables = registry.get(study.system), study.test.tables()
    weights: Sequence[Any] = [()]
    if name == study.ours:
        learned, _ = saved_policies.load(name, system)
        env: Any = replace(cast(Any, learned.env), **world)
        weights = learned.weights[:1]
        policy = functions.network_policy(system, env, learned.network, name, learned.play)
    elif name == NEW:
        recipe = presets.preset(system, study.preset)
        env, keys = replace(cast(Any, recipe.env), **world), jax.random.split(jax.random.key(0), 5)
        weights = untrained(system, env, recipe.network, env.params(tables), keys)
        policy = functions.network_policy(system, env, recipe.network, name, recipe.play)
    else:
        env = replace(system.environment(), **world)
        rule = functions.heuristic(system, name, env, len(tables[0]), {})
        env, policy = rule.env, rule.policy
    params = env.params(tables)
    found = [functions.play(system, env, policy, params, one).metrics for one in weights]
    kept = [metric for metric in study.metrics if metric in found[0]]
    return {metric: [one[metric].tolist() for one in found] for metric in kept}


def world_of(study: Study, env: Any) -> str:
    """Name of the last world whose options an environment has."""
    having = (
        name
        for name, options in study.worlds.items()
        if all(getattr(env, option) == value for option, value in options.items())
    )
    *_, last = having
    return last


def trained(
    study: Study, name: str, updates: int, seeds: int
) -> tuple[dict[str, Any], str, tuple[dict[str, Any], dict[str, Any]]]:
    """Learn under a reading.

    Returns:
      What the file tells of the training (curves ``[V, S]``), the world, and the metrics ``[S, E]``
      of the chosen weights and of those that the last stage began with.
    """
    from jaxsched.core import training

    system, began = registry.get(study.system), time.perf_counter()
    preset, changes, asked = study.preset_of(name), study.readings[name], updates
    recipe, setup, carry = begin(study.system, preset, study.train, changes, updates, seeds)
    updates, sign = setup.loop.num_updates, functions.metric(system, study.shown).better
    gain = 1.0 if sign == "higher" else -1.0

    def plays(weights: Any, tables: Any) -> dict[str, list[list[float]]]:
        params = recipe.env.params(tables, **recipe.stages[-1].params)
        found: list[Any] = []
        for seed in range(seeds):
            one, leaves = jax.tree.map(itemgetter(seed), weights), jax.tree.leaves(weights)
            same = (at for at in range(seed) if all((x[at] == x[seed]).all() for x in leaves))
            if (before := next(same, None)) is not None:  # as where a recipe begins with a rule
                found.append(found[before])
                continue
            found.append(functions.play(system, setup.play_env, setup.policy, params, one).metrics)
        kept = dict.fromkeys((*study.metrics, *study.watched))
        return {metric: [one[metric].tolist() for one in found] for metric in kept}

    validation = study.validation.tables()
    first = best = jax.tree.map(np.asarray, setup.learner.policy_params(carry.learner_state))
    most, chosen = np.full(seeds, -np.inf), np.zeros(seeds, int)
    at, curve = [0], []
    watched: dict[str, list[list[float]]] = {metric: [] for metric in study.watched}
    while True:
        weights = jax.tree.map(np.asarray, setup.learner.policy_params(carry.learner_state))
        metrics = plays(weights, validation)
        scores = np.mean(metrics[study.shown], axis=1)
        curve.append(scores.tolist())
        spent = readable_time(time.perf_counter() - began)
        print(f"{name}: update {at[-1]} of {updates}: {scores.mean():,.4g} ({spent})", flush=True)
        for metric, values in watched.items():
            values.append(np.mean(metrics[metric], axis=1).tolist())
        better = (gain * scores > most) & (at[-1] - chosen <= study.patience)
        most, chosen = np.where(better, gain * scores, most), np.where(better, at[-1], chosen)
        best = jax.tree.map(
            lambda new, old: np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old),  # noqa: B023
            weights,
            best,
        )
        if at[-1] + study.every > updates or (at[-1] - chosen >= study.patience).all():
            break
        carry, _ = training.chunk(
            setup.env,
            setup.learner,
            setup.loop,
            carry,
            setup.params_at(at[-1] / updates),
            num_updates=study.every,
        )
        at.append(at[-1] + study.every)
    told = {
        "changes": list(changes),
        "departures": list(system.recipes.departures.of(recipe)),
        "asked": asked,
        "updates": at,
        "validation": curve,
        **watched,
        "chosen": chosen.tolist(),
        "wall_s": time.perf_counter() - began,
    }
    tables = study.test.tables()
    return told, world_of(study, recipe.env), (plays(best, tables), plays(first, tables))
