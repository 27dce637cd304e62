"""Trainings of a sweep's group, side by side, and the protocol of engines that train groups."""

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jax.sharding import Mesh

from jaxsched.core import sharding
from jaxsched.experiment.sweep_plan import SweepPlan
from jaxsched.jobs import JobTable
from jaxsched.runs import interrupts, trainer
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.sweep import Group, as_settings, prepare
from jaxsched.runs.trainer import Progress
from jaxsched.runtime import shows
from jaxsched.systems.system import System

Rows = list[dict[str, Any]]
Say = Callable[[str], None]


class Session(NamedTuple):
    """Options of a call that trains the rest of a sweep.

    Attributes:
      resume: go on with what is in the folder.
      limit: a time and further signals that end the session.
      say: called with lines for the user.
      shown: whether a display or lines of progress are written.
    """

    resume: bool = False
    limit: interrupts.Limits = interrupts.UNLIMITED
    say: Say = lambda line: None
    shown: bool = True


Engine = Callable[[SweepPlan, Sequence[Group], Session], Iterator[tuple[Group, Rows]]]
"""Function that trains groups of a sweep and yields each with its rows as it ends."""


class Shared(NamedTuple):
    """Inputs that all groups of a sweep share.

    Attributes:
      system: what is trained on.
      recipe: as the preset has it.
      overrides: changes of it that all trainings have.
      train: job tables that are learnt on.
      validation: job tables that policies are scored on.
      config: contents of the folder's record.
      folder: of the sweep.
    """

    system: System
    recipe: Any
    overrides: Sequence[str]
    train: Sequence[JobTable]
    validation: Sequence[JobTable]
    config: dict[str, Any]
    folder: Path


def shared_by(planned: SweepPlan) -> Shared:
    """The inputs that all groups of a planned sweep share."""
    sets = planned.sets
    return Shared(
        planned.system,
        planned.recipe,
        planned.overrides,
        sets.train.tables,
        sets.validation.tables,
        planned.config,
        planned.folder,
    )


def in_this_process(
    planned: SweepPlan, groups: Sequence[Group], session: Session
) -> Iterator[tuple[Group, Rows]]:
    """The default engine: one group after the other, in this process.

    Raises:
      Interrupted: asked to stop, with everything saved.
      JaxschedError: the folder cannot be written, or there is not enough memory.
      EndedAlone: one of several processes has ended.
    """
    for group in groups:
        session.say(
            f"{planned.named(group)}: {len(group.members)} side by side; everything goes to "
            f"{planned.folder / group.name}"
        )
        yield group, ended(training_of_group(shared_by(planned), group, session, planned.mesh))


def training_of_group(
    shared: Shared,
    group: Group,
    session: Session,
    mesh: Mesh | None = None,
    stops: Callable[[], int] = lambda: 0,
) -> Generator[Progress, None, Rows]:
    """Train a group; a generator that yields after each chunk of updates.

    Args:
      shared: of the sweep.
      group: what is trained.
      session: with ``resume``, the group's run goes on if there is one.
      mesh: devices.
      stops: 0, or the exit status for what else asks to stop.

    Returns:
      Results of its members: ``values``, ``seed``, ``score``, ``update``, ``last`` score and
      ``policy`` (its folder in the sweep's).

    Raises:
      Interrupted: asked to stop, with everything saved.
      JaxschedError: the folder cannot be written, or there is not enough memory.
    """
    ready = prepare(shared.system, shared.recipe, shared.overrides, group, shared.train)
    for stage in ready.stages:
        sharding.check_divisible(
            mesh,
            num_envs=stage.loop.num_envs,
            num_seeds=len(group.members),
            seeds="trainings side by side (values times seeds)",
        )
    path = shared.folder / group.name
    config = {**shared.config, "group": group.common}
    config["overrides"] = [*shared.overrides, *as_settings(group.common)]
    going_on = session.resume and (path / "config.json").exists()
    seeds = [member.seed for member in group.members]
    with (
        RunDirectory.create(path, config, resume=going_on) as run,
        interrupts.requests(session.limit) as heard,
    ):
        trained = yield from trainer.training_of(
            shared.system,
            ready.stages,
            tables=shared.validation,
            seeds=seeds,
            run=run,
            resume=going_on,
            mesh=mesh,
            hyper=ready.hyper,
            say=session.say,
            asked=lambda ahead_s: heard(ahead_s) or stops(),
            shown=session.shown and run.writes and shows(),
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


def ended(
    steps: Generator[Progress, None, Rows], seen: Callable[[Progress], object] = lambda _: None
) -> Rows:
    """Train to the end; ``seen`` is called after each chunk of updates."""
    while True:
        try:
            seen(next(steps))
        except StopIteration as end:
            rows: Rows = end.value
            return rows
