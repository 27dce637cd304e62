"""What the rows work with: recipes, job tables, trainings and plays, each done once."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple, cast

import jaxsched
from benchmarks.papers import policies
from benchmarks.papers.policies import Policies
from benchmarks.papers.samples import Sample, sample_of
from benchmarks.papers.settings import Settings, Workload, key_of
from benchmarks.papers.store import Store
from jaxsched.core.environment import Environment
from jaxsched.core.policies import Policy
from jaxsched.experiment.names import assignments
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.runs import saved_policies
from jaxsched.runs.overrides import override
from jaxsched.systems import functions, presets
from jaxsched.systems.parts import Played, TrainingSetup, compiled_together
from jaxsched.systems.paths import holder_of
from jaxsched.systems.stages import stages_of
from jaxsched.systems.system import System
from jaxsched.types import PyTree

Changes = Mapping[str, Any]
"""Of a recipe: values by dotted path, as ``jaxsched.train(set=...)`` takes them."""
NONE: Changes = {}


@dataclass(frozen=True)
class Study:
    """Something to train.

    Attributes:
      recipe: of the system.
      workload: what is learnt on, in the first stages.
      validation: what policies are chosen on; as ``workload`` if absent.
      later: workloads of further stages, each a third (or whatever part) of the recipe's updates.
      params: options of the environment's parameters under which policies are chosen.
    """

    recipe: Any
    workload: Workload
    validation: Workload | None = None
    later: tuple[Workload, ...] = ()
    params: tuple[tuple[str, Any], ...] = ()


class Player(NamedTuple):
    """A policy that the package ships, and where it plays."""

    env: Any
    policy: Policy
    weights: PyTree


class Lab:
    """One system with settings and a folder.

    Args:
      system: the system.
      settings: sizes, seeds, changes.
      store: where results are kept.
      quick: changes of every recipe in quick runs, before those of the settings.
    """

    def __init__(
        self, system: System, settings: Settings, store: Store, quick: Changes = NONE
    ) -> None:
        self.system, self.settings, self.store = system, settings, store
        self._changes = [*assignments(quick if settings.quick else NONE), *settings.overrides]
        self._done: dict[str, Policies] = {}
        self.digests: dict[str, str] = {}
        self.trained: dict[str, dict[str, Any]] = {}
        self.row = ""

    def begin(self, row: str) -> None:
        """Start to note what a row uses."""
        self.row, self.digests, self.trained = row, {}, {}

    @property
    def quick(self) -> bool:
        """Whether sizes are small."""
        return self.settings.quick

    def choose(self, full: Sequence[Any], quick: Sequence[Any]) -> Sequence[Any]:
        """The points of a sweep."""
        return quick if self.quick else full

    def recipe(self, preset: str, changes: Changes = NONE) -> Any:
        """A preset, changed by the settings and then by values of its fields.

        Changes by the settings, which are meant for all recipes, are left out where they are about
        a stage or a setting that this one does not have, but another of the system's has.
        """
        recipe = presets.preset(self.system, preset)
        others = self.system.recipes.every.values()
        usual = [change for change in self._changes if not _about_others(recipe, others, change)]
        return override(recipe, [*usual, *assignments(changes)])

    def tables(self, workload: Workload, role: str, recipe: Any) -> list[JobTable]:
        """Job tables of a role: ``train``, ``validation`` or ``test``."""
        names = presets.recipe_traces(self.system, recipe)
        count = getattr(self.settings, f"num_{role}") or getattr(names, f"num_{role}")
        tables = workload.tables(role, count, self.settings.num_jobs)
        tables = self.system.jobs.adapted(tables)
        words = [workload.trace, *(f"{k} {v}" for k, v in workload.options)]
        words += [role, f"{len(tables)} of {len(tables[0])} jobs"]
        self.digests[", ".join(words)] = digest_tables(tables)
        return tables

    def test_tables(self, workload: Workload, recipe: Any) -> list[JobTable]:
        """The tables that a row plays on."""
        return self.tables(workload, "test", recipe)

    def train_all(self, studies: Mapping[str, Study]) -> dict[str, Policies]:
        """Train what is not trained yet, one study after the other."""
        results: dict[str, Policies] = {}
        spent: list[float] = []
        left = len(studies)
        for number, (label, study) in enumerate(studies.items(), 1):
            mean = sum(spent) / len(spent) if spent else None
            results[label], seconds = self._train(
                label, study, f"{number} of {len(studies)}", mean and mean * left
            )
            left -= 1
            spent += [seconds] if seconds is not None else []
        return results

    def train(self, label: str, study: Study) -> Policies:
        """Train one study, unless it is trained already."""
        return self.train_all({label: study})[label]

    def play(
        self,
        trained: Policies,
        tables: Sequence[JobTable],
        *,
        weights: Sequence[PyTree] | None = None,
        params: tuple[tuple[str, Any], ...] = (),
    ) -> Sample:
        """The policies of all seeds on test tables.

        Args:
          trained: the policies.
          tables: what they play.
          weights: others than the chosen ones.
          params: options of the environment's parameters.
        """
        setup, system = trained.setup, self.system
        given = setup.play_env.params(tables, **dict(params))
        chosen = trained.weights if weights is None else weights
        return sample_of(
            [functions.play(system, setup.play_env, setup.policy, given, w) for w in chosen]
        )

    def shipped(self, name: str, **options: Any) -> Player:
        """A trained policy of the package, perhaps on another cluster.

        Args:
          name: of its folder in the system's.
          options: of the environment, that differ from those it was trained in.
        """
        learned, _ = saved_policies.load(name, self.system)
        env = replace(cast(Any, learned.env), **options)
        policy = functions.network_policy(self.system, env, learned.network, name, learned.play)
        self.say(f"{name}, as shipped")
        return Player(env, policy, learned.weights[0])

    def heuristics(
        self,
        chosen: Mapping[str, tuple[str, Environment]],
        tables: Sequence[JobTable],
        *,
        params: tuple[tuple[str, Any], ...] = (),
    ) -> dict[str, Sample]:
        """Metrics of heuristics on test tables, label -> name and cluster."""
        plays = self.play_heuristics(chosen, tables, params=params)
        return {label: sample_of([played]) for label, played in plays.items()}

    def play_heuristics(
        self,
        chosen: Mapping[str, tuple[str, Environment]],
        tables: Sequence[JobTable],
        *,
        params: tuple[tuple[str, Any], ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> dict[str, Played]:
        """Heuristics on test tables, with their curves.

        Args:
          chosen: label -> name and cluster.
          tables: what they play.
          params: options of the environment's parameters.
          options: of all these heuristics (``Options``).
        """
        system, most = self.system, max(len(table) for table in tables)
        players = [
            functions.heuristic(system, name, env, most, options or {})
            for name, env in chosen.values()
        ]
        plays = {}
        for label, (env, policy, weights) in zip(chosen, compiled_together(players), strict=True):
            self.say(f"playing {label}")
            plays[label] = functions.play(
                system, env, policy, env.params(tables, **dict(params)), weights
            )
        return plays

    def _train(
        self, label: str, study: Study, place: str, left_s: float | None
    ) -> tuple[Policies, float | None]:
        """The policies, and the seconds that they took now (None: they were there)."""
        recipe, system = study.recipe, self.system
        tables = self.tables(study.workload, "train", recipe)
        validation = self.tables(study.validation or study.workload, "validation", recipe)
        later = [self.tables(workload, "train", recipe) for workload in study.later]
        key = key_of(
            system=system.name,
            behaviour_version=system.environment.behaviour_version,
            **shipped_by(system, recipe),
            version=jaxsched.__version__,
            recipe=recipe,
            seeds=self.settings.seeds,
            tables=[digest_tables(part) for part in (tables, validation, *later)],
            params=study.params,
        )
        self.trained[label] = {"key": key}
        if key in self._done:
            self.trained[label] |= {"wall_s": self._done[key].wall_s}
            return self._done[key], None
        path = self.store.trained(key)
        stages, seeds = _stages(system, recipe, tables, later), self.settings.seeds
        if study.params:
            stages = [
                stage._replace(play_env=with_params(stage.play_env, study.params))
                for stage in stages
            ]
        found = policies.finished(path)
        if found is not None:
            self._done[key] = Policies(stages, seeds, found)
            self.trained[label] |= {"wall_s": found.wall_s}
            return self._done[key], None
        self.say(self._announce(label, place, stages, left_s))
        began = time.monotonic()
        config = {
            "key": key,
            "label": label,
            "system": system.name,
            "recipe": recipe,
            "seeds": list(seeds),
            "num_seeds": len(seeds),
            "params": dict(study.params),
        }
        result = policies.train(system, stages, validation, seeds, path, config)
        self._done[key] = result
        self.trained[label] |= {"wall_s": result.wall_s}
        return result, time.monotonic() - began

    def _announce(
        self, label: str, place: str, stages: Sequence[TrainingSetup], left_s: float | None
    ) -> str:
        seeds = len(self.settings.seeds)
        updates = " + ".join(str(stage.loop.num_updates) for stage in stages)
        text = f"training {place}: {label}, {seeds} seed{'s' * (seeds > 1)}, {updates} updates"
        return text if left_s is None else f"{text}; about {left_s / 60:.0f} min left in this row"

    def say(self, text: str) -> None:
        """A line of progress."""
        print(f"[{self.row}] {text}", file=sys.stderr, flush=True)


def shipped_by(system: System, recipe: Any | None = None) -> dict[str, str]:
    """The digest of what the system ships (or what the recipe learns from), for keys.

    Nothing where there is nothing.
    """
    digest = system.training.shipped_digest(recipe)
    return {"shipped": digest} if digest else {}


@cache
def with_params(env: Any, options: tuple[tuple[str, Any], ...]) -> Any:
    """The same environment, whose parameters have these options."""

    def params(self: Any, tables: Sequence[JobTable], **others: Any) -> Any:
        return kind.params(self, tables, **dict(options), **others)

    kind = type(env)
    changed: Any = type(f"{kind.__name__}With", (kind,), {"params": params})
    return changed(**{option.name: getattr(env, option.name) for option in fields(env)})


def _about_others(recipe: Any, others: Iterable[Any], assignment: str) -> bool:
    """Whether a recipe lacks what an assignment is about, and one of the others has it."""
    path = assignment.partition("=")[0].strip()
    return holder_of(recipe, path) is None and any(holder_of(other, path) for other in others)


def _stages(
    system: System, recipe: Any, tables: Sequence[JobTable], later: Sequence[Sequence[JobTable]]
) -> list[TrainingSetup]:
    """The recipe's stages; then its last one again on each of the later tables."""
    stages = list(stages_of(system, recipe, tables))
    for number, part in enumerate(later, 2):
        again = stages_of(system, recipe, part)[-1]
        stages.append(again._replace(name=f"{again.name}{number}"))
    return stages
