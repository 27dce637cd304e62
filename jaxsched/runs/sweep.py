"""Sweeps over settings and seeds of one recipe, in groups that train as one program.

Floats that a learner declares traced (:mod:`jaxsched.algorithms.settings`) are numbers in its
state, so their values train together with the seeds along one axis. Any other setting is compiled:
each of its values is a training of its own, a *group*.
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxsched.arguments import argument, entry_of
from jaxsched.errors import JaxschedError
from jaxsched.files import check_folder
from jaxsched.jobs import JobTable
from jaxsched.json_values import json_value
from jaxsched.runs.overrides import override
from jaxsched.systems.parts import TrainingSetup
from jaxsched.systems.paths import holder_of
from jaxsched.systems.stages import stages_of
from jaxsched.systems.system import System

FORMAT = "jaxsched-sweep/1"
FILE = "sweep.json"

Values = dict[str, str]  # path -> value as it was typed


class Axis(NamedTuple):
    """A setting and the values it takes, as they were typed."""

    path: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.path}={','.join(self.values)}"


class Member(NamedTuple):
    """One training: its settings and its seed."""

    values: Values
    seed: int


class Group(NamedTuple):
    """Trainings of one program, side by side.

    Attributes:
      name: of its folder.
      common: settings that all members share.
      members: settings of the others, and seeds.
    """

    name: str
    common: Values
    members: tuple[Member, ...]


class Prepared(NamedTuple):
    """A group ready for the training driver.

    Attributes:
      stages: of its first member.
      hyper: of each stage, by member, the traced numbers; None where there is one member.
    """

    stages: Sequence[TrainingSetup]
    hyper: list[list[Any]] | None


def read_axes(assignments: Sequence[str]) -> list[Axis]:
    """``path=value,value,...`` each; commas within brackets belong to a list.

    Raises:
      JaxschedError: one is not of that form, or a path comes twice.
    """
    axes = []
    for assignment in assignments:
        path, _, text = assignment.partition("=")
        axes.append(Axis(path.strip(), tuple(value.strip() for value in _split(text))))
    return checked(axes)


def checked(axes: Sequence[Axis]) -> list[Axis]:
    """The axes, as they are.

    Raises:
      JaxschedError: one has no path or value, or a path or value comes twice.
    """
    for axis in axes:
        if not axis.path or not axis.values or not all(axis.values):
            raise JaxschedError(f"{argument('over')} {axis}: expected path=value,value,...")
        if len(set(axis.values)) < len(axis.values):
            raise JaxschedError(f"{argument('over')} {axis}: a value comes twice")
        if [other.path for other in axes].count(axis.path) > 1:
            raise JaxschedError(f"{entry_of('over', axis.path)}: comes twice")
    return list(axes)


def groups_of(
    recipe: Any, axes: Sequence[Axis], seeds: Sequence[int], side_by_side: int | None = None
) -> list[Group]:
    """Every combination of values with every seed, by what trains side by side.

    Args:
      recipe: what is trained.
      axes: settings and their values.
      seeds: of each combination.
      side_by_side: members of a group at most; all that can be, if absent.

    Raises:
      JaxschedError: the recipe has no such setting, or does not accept a value.
    """
    for axis in axes:
        for value in axis.values:
            override(recipe, [f"{axis.path}={value}"])
    together = [axis for axis in axes if is_traced(recipe, axis)]
    apart = [axis for axis in axes if axis not in together]
    members = tuple(Member(values, seed) for values in _grid(together) for seed in seeds)
    most = side_by_side or len(members)
    blocks = [members[start : start + most] for start in range(0, len(members), most)]
    parts = itertools.product(_grid(apart), blocks)
    return [Group(f"group{number}", *part) for number, part in enumerate(parts)]


def is_traced(recipe: Any, axis: Axis) -> bool:
    """Whether an axis' values can train side by side: a traced float, absent in none of them."""
    found = holder_of(recipe, axis.path)
    if found is None or not dataclasses.is_dataclass(found[0]):
        return False
    holder, name = found
    (field,) = (field for field in dataclasses.fields(holder) if field.name == name)
    given = getattr(holder, name) is not None and "null" not in axis.values
    return bool(field.metadata.get("traced")) and given


def prepare(
    system: System, recipe: Any, sets: Sequence[str], group: Group, tables: Sequence[JobTable]
) -> Prepared:
    """The stages of a group and the numbers by which its members differ.

    Args:
      system: what is trained on.
      recipe: without any change.
      sets: changes for all, ``path=value`` each.
      group: the group.
      tables: training tables.

    Raises:
      JaxschedError: values do not fit together.
    """
    common = [*sets, *as_settings(group.common)]

    def stages_for(member: Member) -> Sequence[TrainingSetup]:
        return stages_of(system, override(recipe, [*common, *as_settings(member.values)]), tables)

    stages = stages_for(group.members[0])
    if len(group.members) == 1:
        return Prepared(stages, None)
    known = {
        tuple(member.values.items()): [hyper_of(stage) for stage in stages_for(member)]
        for member in {tuple(m.values.items()): m for m in group.members}.values()
    }
    by_member = [known[tuple(member.values.items())] for member in group.members]
    return Prepared(stages, [list(stage) for stage in zip(*by_member, strict=True)])


def as_settings(values: Values) -> list[str]:
    """``path=value`` each."""
    return [f"{path}={value}" for path, value in values.items()]


def check_place(folder: Path, asked: Mapping[str, Any], *, resume: bool) -> None:
    """Refuse a folder that a :class:`Book` would refuse, as far as it is known beforehand.

    Args:
      folder: of the sweep.
      asked: the part of the config that is known already.
      resume: go on with the sweep that is there.

    Raises:
      JaxschedError: as a book, or the folder cannot be written.
    """
    Book(folder, asked, resume=resume)
    check_folder(folder)


class Book:
    """Results of a sweep in one file of its folder, written whole after every group.

    Args:
      folder: of the sweep.
      config: the request; a sweep can only be resumed with an equal one.
      resume: go on with the sweep that is there.
      notes: what was changed in which traces, one sentence each.

    Raises:
      JaxschedError: there is none to go on with, there is one already, or it is another one.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        *,
        resume: bool,
        notes: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.path = folder / FILE
        self.notes = {name: list(sentences) for name, sentences in (notes or {}).items()}
        self.config: dict[str, Any] = json_value(dict(config))
        self.groups: dict[str, list[dict[str, Any]]] = {}
        if not self.path.exists():
            if resume:
                raise JaxschedError(f"{folder}: there is no sweep to go on with")
            return
        if not resume:
            raise JaxschedError(
                f"{folder}: there is a sweep already; go on with it ({argument('resume')}), or "
                "choose another folder"
            )
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            before, self.groups = document["config"], document["groups"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JaxschedError(f"{self.path}: is not the file of a sweep") from error
        for name, value in self.config.items():
            if before.get(name) != value:
                raise JaxschedError(
                    f"{folder}: cannot go on: {name} was {before.get(name)!r}, now it is {value!r}"
                )

    def document(self) -> dict[str, Any]:
        """The whole file."""
        whole = {"format": FORMAT, "config": self.config, "notes": self.notes}
        return {**whole, "groups": self.groups}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Settings, seed, score and where the policy is, of every training that has ended."""
        return [row for rows in self.groups.values() for row in rows]


def summary(rows: Sequence[Mapping[str, Any]], *, higher: bool) -> list[dict[str, Any]]:
    """Scores by settings, the best mean first.

    Args:
      rows: of a :class:`Book`.
      higher: whether a higher score is better.

    Returns:
      For each combination ``values``, the ``scores`` of its seeds in their order, their ``mean``
      and the ``policy`` of the best one.
    """
    by_values: dict[tuple, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_values.setdefault(tuple(row["values"].items()), []).append(row)
    sign = -1.0 if higher else 1.0
    found = []
    for values, same in by_values.items():
        scores = [row["score"] for row in same]
        best = min(same, key=lambda row: sign * row["score"])
        mean = sum(scores) / len(scores)
        found.append(
            {"values": dict(values), "scores": scores, "mean": mean, "policy": best["policy"]}
        )
    return sorted(found, key=lambda entry: sign * entry["mean"])


def _grid(axes: Sequence[Axis]) -> list[Values]:
    paths = [axis.path for axis in axes]
    product = itertools.product(*(axis.values for axis in axes))
    return [dict(zip(paths, values, strict=True)) for values in product]


def _split(text: str) -> list[str]:
    """At commas that are in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def hyper_of(stage: TrainingSetup) -> Any:
    """The traced numbers that a stage's learner starts with."""
    specs = stage.env.specs(stage.params_at(0.0))  # made here: what a teacher does is recorded

    def of(key: Any) -> Any:
        return stage.learner.init(key, specs).hyper

    return jax.device_get(jax.jit(of)(jax.random.key(0)))
