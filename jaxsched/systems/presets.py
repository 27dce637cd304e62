"""Recipes of a system by name: its own, and those that the library makes for every system."""

from collections.abc import Mapping

from jaxsched.errors import JaxschedError
from jaxsched.systems import functions
from jaxsched.systems.learner_recipes import PURPOSES, learner_recipes
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.system import System
from jaxsched.types import DiscreteSpec


def default_recipes(system: System) -> Mapping[str, Recipe]:
    """A recipe for each learner (:mod:`~jaxsched.systems.learner_recipes`); none without a network.

    A system without a network of its own has them if its action is one choice of several.
    """
    training, usual = system.training, functions.environment(system)
    env = (training.learns_in or training.planning)(usual)
    if not isinstance(env.action_spec(None), DiscreteSpec):
        return {}
    named = system.jobs.traces is not None or system.jobs.workload.traces
    return learner_recipes(
        env,
        network=system.networks.default,
        horizon_s=training.horizon_s,
        episode_steps=training.episode_steps,
        traces=functions.traces(system) if named else TraceSet("", ""),
    )


def all_recipes(system: System) -> Mapping[str, Recipe]:
    """The system's own recipes and the library's.

    A system with a discrete action and no recipes has a small Q-network, ``quick``. Recipes of
    other sizes (``Recipes.sizes``) are not listed.
    """
    plain = default_recipes(system)
    own = system.recipes.presets or ({"quick": plain["plain-dqn"]} if plain else {})
    return {**own, **plain}


def preset(system: System, name: str) -> Recipe:
    """The recipe of that name.

    Raises:
      JaxschedError: no such preset.
    """
    if name in system.recipes.every:
        return system.recipes.every[name]
    known = all_recipes(system)
    if name not in known:
        names, sizes = ", ".join(known), ", ".join(system.recipes.sizes)
        more = f"; for other clusters NAME-SIZE, of the sizes {sizes}" if sizes else ""
        raise JaxschedError(f"{system.name}: unknown preset {name!r}; known are {names}{more}")
    return known[name]


def preset_names(system: System) -> tuple[str, ...]:
    """All names that ``preset`` accepts, those of other sizes included."""
    return tuple({**system.recipes.every, **all_recipes(system)})


def preset_info(system: System, name: str) -> PresetInfo:
    """Purpose of the recipe of that name; empty if none is given.

    Raises:
      JaxschedError: no such preset.
    """
    preset(system, name)
    notes = {"quick": PURPOSES["plain-dqn"], **PURPOSES, **system.recipes.notes}
    for size, (cluster, _, takes) in system.recipes.sizes.items():
        if (usual := name.removesuffix(f"-{size}")) in system.recipes.presets and usual != name:
            return PresetInfo(f"{notes[usual].purpose}, {cluster}", takes.get(usual, ""))
    return notes.get(name, PresetInfo(""))


def recipe_traces(system: System, recipe: Recipe) -> TraceSet:
    """The tables that a recipe uses; those of the system unless it names its own.

    Raises:
      JaxschedError: neither names any.
    """
    return recipe.traces if recipe.traces.train else functions.traces(system)
