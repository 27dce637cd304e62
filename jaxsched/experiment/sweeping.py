"""Sweeps: every combination of values with every seed, groups of them as one program each."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jax.sharding import Mesh

from jaxsched.core import processes, sharding
from jaxsched.errors import JaxschedError
from jaxsched.experiment import frames
from jaxsched.experiment.devices import mesh_of
from jaxsched.experiment.names import environment_changes, system_of
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.plans import LARGEST_SEED, identity
from jaxsched.experiment.sources import Source
from jaxsched.experiment.splits import Sets, sets_of
from jaxsched.experiment.temporary import TemporaryFolder
from jaxsched.experiment.training import assignments
from jaxsched.files import PathLike, make_folder, write_whole
from jaxsched.jobs import digest_tables
from jaxsched.runs import interrupts, trainer
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.overrides import override
from jaxsched.runs.sweep import (
    Axis,
    Book,
    Group,
    as_settings,
    check_place,
    groups_of,
    prepare,
    read_axes,
    summary,
)
from jaxsched.runtime import is_first
from jaxsched.systems.base import System

Say = Callable[[str], None]


class SweepPlan(NamedTuple):
    """What all groups of a sweep share.

    Attributes:
      system: what is trained on.
      recipe: as the preset has it.
      overrides: changes of it that all trainings have.
      axes: settings and their values.
      groups: trainings that run side by side.
      sets: the job tables.
      config: what the folder records.
      folder: of the sweep.
      mesh: devices; None: one.
    """

    system: System
    recipe: Any
    overrides: list[str]
    axes: list[Axis]
    groups: list[Group]
    sets: Sets
    config: dict[str, Any]
    folder: Path
    mesh: Mesh | None

    @property
    def notes(self) -> dict[str, list[str]]:
        """What was changed in the traces."""
        return {name: part.notes for name, part in self.sets._asdict().items()}


def plan_sweep(
    system: System,
    folder: Path,
    *,
    over: Sequence[str],
    preset: str,
    overrides: Sequence[str] = (),
    seed: int = 0,
    num_seeds: int = 1,
    trace: Source | None = None,
    options: TraceOptions | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> SweepPlan:
    """Find everything that a sweep needs; nothing is compiled or written.

    Args:
      system: what is trained on.
      folder: where everything goes.
      over: values of settings, ``path=a,b,c`` each.
      preset: name of the recipe.
      overrides: changes of the recipe that all trainings have.
      seed: the first seed.
      num_seeds: seeds of each combination.
      trace: what is learnt on; the recipe's if absent.
      options: how traces become episodes.
      resume: go on with the sweep that is in the folder.
      mesh: devices.

    Raises:
      JaxschedError: a name, value, trace or folder is refused.
    """
    if seed + num_seeds - 1 > LARGEST_SEED:
        raise JaxschedError(f"the last of {num_seeds} seeds is beyond {LARGEST_SEED}")
    axes = read_axes(over)
    recipe = system.preset(preset)
    changed = override(recipe, overrides)
    groups = groups_of(changed, axes, range(seed, seed + num_seeds))
    asked = identity(system, preset, overrides, seed, num_seeds)
    asked["over"] = [f"{axis.path}={','.join(axis.values)}" for axis in axes]
    processes.first_alone(lambda: check_place(folder, asked, resume=resume), lambda: None)
    sets = sets_of(system, changed, trace, None, options or TraceOptions())
    config = {
        **asked,
        "trace": sets.train.source,
        "trace_digests": {n: digest_tables(part.tables) for n, part in sets._asdict().items()},
        "behaviour_version": system.behaviour_version,
    }
    return SweepPlan(system, recipe, list(overrides), axes, groups, sets, config, folder, mesh)


def run_sweep(
    planned: SweepPlan,
    *,
    resume: bool,
    limit: interrupts.Limits = interrupts.UNLIMITED,
    on_group: Callable[[int, Group], object] = lambda number, group: None,
    say: Say = lambda line: None,
    shown: bool = True,
) -> Book:
    """Train all groups that are not in the sweep's record yet.

    Args:
      planned: the sweep.
      resume: go on with the sweep that is in the folder.
      limit: a time and further signals that end the session.
      on_group: called with each group's number and the group before it is trained.
      say: called with a line about the memory that a stage takes.
      shown: whether a display or lines of progress are written.

    Raises:
      Interrupted: asked to stop, with everything saved.
      JaxschedError: the folder cannot be written, or there is not enough memory.
      EndedAlone: one of several processes has ended.
    """
    book = Book(planned.folder, planned.config, resume=resume, notes=planned.notes)
    processes.check_same(len(book.groups), "the number of groups that have ended")
    _write(book)  # a sweep that is stopped in its first group can go on
    for number, group in enumerate(planned.groups):
        if group.name not in book.groups:
            on_group(number, group)
            book.groups[group.name] = _train(planned, group, resume, limit, say, shown)
            _write(book)
    return book


def _train(
    planned: SweepPlan, group: Group, resume: bool, limit: interrupts.Limits, say: Say, shown: bool
) -> list[dict[str, Any]]:
    """Train a group; what became of its members."""
    tables = planned.sets.train.tables
    ready = prepare(planned.system, planned.recipe, planned.overrides, group, tables)
    for stage in ready.stages:
        sharding.check_divisible(
            planned.mesh,
            num_envs=stage.loop.num_envs,
            num_seeds=len(group.members),
            seeds="trainings side by side (values times seeds)",
        )
    path = planned.folder / group.name
    config = {**planned.config, "group": group.common}
    config["overrides"] = [*planned.overrides, *as_settings(group.common)]
    going_on = resume and (path / "config.json").exists()
    seeds = [member.seed for member in group.members]
    with RunDirectory.create(path, config, resume=going_on) as run:
        trained = trainer.train(
            planned.system,
            ready.stages,
            tables=planned.sets.validation.tables,
            seeds=seeds,
            run=run,
            resume=going_on,
            mesh=planned.mesh,
            hyper=ready.hyper,
            say=say,
            limit=limit,
            shown=shown,
        )
    kind = "seed" if ready.hyper is None else "member"
    names = seeds if ready.hyper is None else range(len(seeds))
    return [
        {
            "values": {**group.common, **member.values},
            "seed": member.seed,
            "score": best.score,
            "update": best.update,
            "last": curve[-1].score,
            "policy": f"{group.name}/policies/{kind}{name}",
        }
        for member, best, curve, name in zip(
            group.members, trained.best, trained.curves, names, strict=True
        )
    ]


def _write(book: Book) -> None:
    if is_first():
        make_folder(book.path)
        text = json.dumps(book.document(), indent=1, allow_nan=False) + "\n"
        write_whole(book.path, text.encode())


@dataclass(frozen=True, eq=False)
class Sweep:
    """What ``jaxsched.sweep`` returns.

    Attributes:
      rows: of each setting and seed: ``values``, ``seed``, ``score`` on the validation traces,
        ``update`` of the best policy, ``last`` score, ``policy`` (its folder).
      paths: the settings.
      higher: whether a higher score is better.
      path: folder of the sweep.
      folder: holds the temporary directory, where no folder was asked for.
    """

    rows: Sequence[Mapping[str, Any]]
    paths: Sequence[str]
    higher: bool
    path: Path
    folder: TemporaryFolder | None = None

    @property
    def best(self) -> dict[str, Any]:
        """The setting with the best mean score over its seeds."""
        values = summary(self.rows, higher=self.higher)[0]["values"]
        return {path: _value(values[path]) for path in self.paths}

    def to_pandas(self) -> Any:
        """A data frame: a row a setting and seed.

        Raises:
          JaxschedError: pandas is not installed.
        """
        return frames.frame_of_rows(
            [
                {path: _value(row["values"][path]) for path in self.paths}
                | {name: value for name, value in row.items() if name != "values"}
                for row in self.rows
            ]
        )

    def __repr__(self) -> str:
        """One line."""
        return f"Sweep({len(self.rows)} trainings, best {self.best})"


def sweep(
    system: Any,
    *,
    over: Mapping[str, Sequence[Any]],
    preset: str = "quick",
    seed: int = 0,
    num_seeds: int = 1,
    out: PathLike | None = None,
    resume: bool = False,
    traces: Source | None = None,
    trace_seed: int = 0,
    num_traces: int | None = None,
    num_jobs: int | None = None,
    servers: str | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002  (the command's word)
    devices: int | str | None = None,
    shard: str = "seeds",
) -> Sweep:
    """Train every combination of values with every seed, side by side where one program can.

    Args:
      system: name of a system, or a ``System``.
      over: values of settings, ``{"learner.learning_rate": [1e-4, 3e-4]}``.
      preset: name of the recipe.
      seed: the first seed.
      num_seeds: seeds of each combination.
      out: folder of the sweep; a temporary one if absent.
      resume: go on with the sweep in ``out``.
      traces: what is learnt on; the recipe's if absent.
      trace_seed: of what is drawn.
      num_traces: how many.
      num_jobs: jobs of each.
      servers: the cluster as "40x8".
      set: changes of the recipe that all trainings have.
      devices: a number or "all".
      shard: what devices share, "seeds" or "envs".

    Raises:
      JaxschedError: a name, value, trace or folder is refused, or memory does not suffice.
    """
    if out is None and resume:
        raise JaxschedError("resume is given without out; accepted: with the folder of a sweep")
    chosen = system_of(system)
    temporary = TemporaryFolder() if out is None else None
    folder = temporary.path / "sweep" if temporary else Path(str(out))
    planned = plan_sweep(
        chosen,
        folder,
        over=[f"{path}={','.join(map(_text, values))}" for path, values in over.items()],
        preset=preset,
        overrides=[*assignments(set), *environment_changes(chosen, servers, {})],
        seed=seed,
        num_seeds=num_seeds,
        trace=traces,
        options=TraceOptions(trace_seed, num_traces, num_jobs),
        resume=resume,
        mesh=mesh_of(devices, shard),
    )
    book = run_sweep(planned, resume=resume, shown=False)
    higher = chosen.score_sign > 0
    return Sweep(book.rows, [axis.path for axis in planned.axes], higher, folder, temporary)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
