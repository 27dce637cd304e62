"""Plans of sweeps: the groups and the inputs that they share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jax.sharding import Mesh

from jaxsched.arguments import LARGEST_SEED
from jaxsched.core import processes
from jaxsched.errors import JaxschedError, check_counts
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.plans import identity
from jaxsched.experiment.sources import Source
from jaxsched.experiment.splits import Sets, sets_of
from jaxsched.jobs import digest_tables
from jaxsched.runs.overrides import changed
from jaxsched.runs.sweep import Axis, Group, check_place, groups_of
from jaxsched.systems import presets
from jaxsched.systems.system import System


class SweepPlan(NamedTuple):
    """A planned sweep.

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
        """Changes of the traces, one sentence each."""
        return {name: part.notes for name, part in self.sets._asdict().items()}

    def named(self, group: Group) -> str:
        """A group in words: its number and the settings that its members share."""
        common = ", ".join(f"{path}={value}" for path, value in group.common.items())
        number = f"group {self.groups.index(group) + 1} of {len(self.groups)}"
        return f"{number} ({common})" if common else number


def plan_sweep(
    system: System,
    folder: Path,
    *,
    axes: list[Axis],
    preset: str,
    overrides: Sequence[str] = (),
    seed: int = 0,
    num_seeds: int = 1,
    side_by_side: int | None = None,
    trace: Source | None = None,
    options: TraceOptions | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> SweepPlan:
    """Resolve everything that a sweep needs; nothing is compiled or written.

    Args:
      system: what is trained on.
      folder: where everything goes.
      axes: settings and their values.
      preset: name of the recipe.
      overrides: changes of the recipe that all trainings have.
      seed: the first seed.
      num_seeds: seeds of each combination.
      side_by_side: trainings of one program at most; all that can be, if absent.
      trace: training traces; the recipe's if absent.
      options: how traces become episodes.
      resume: go on with the sweep that is in the folder.
      mesh: devices.

    Raises:
      JaxschedError: a name, value, trace or folder is refused.
    """
    check_counts(optional=True, side_by_side=side_by_side)
    if seed + num_seeds - 1 > LARGEST_SEED:
        raise JaxschedError(f"the last of {num_seeds} seeds is beyond {LARGEST_SEED}")
    recipe = presets.preset(system, preset)
    first = [f"{axis.path}={axis.values[0]}" for axis in axes]
    changed(system, recipe, [*overrides, *first])
    learned = changed(system, recipe, overrides)
    groups = groups_of(learned, axes, range(seed, seed + num_seeds), side_by_side)
    asked = identity(system, preset, overrides, seed, num_seeds)
    asked |= {"over": [str(axis) for axis in axes], "side_by_side": side_by_side}
    processes.first_alone(lambda: check_place(folder, asked, resume=resume), lambda: None)
    sets = sets_of(system, learned, trace, None, options or TraceOptions())
    config = {
        **asked,
        "trace": sets.train.source,
        "trace_digests": {n: digest_tables(part.tables) for n, part in sets._asdict().items()},
        "behaviour_version": system.environment.behaviour_version,
    }
    return SweepPlan(system, recipe, list(overrides), axes, groups, sets, config, folder, mesh)
