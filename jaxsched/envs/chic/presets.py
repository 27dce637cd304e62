"""Named recipes of Chic and Chic-Pair.

What the settings of ``quick`` that differ from the paper's are for, as seen in trials on validation
sequences: with one gradient step per iteration the policy is still near uniform after 100
iterations; dropout and the last layer of four hold it back; while trajectories run different
sequences, the elites are those with easy ones; a larger population finds better elites; pointless
actions only lengthen the trajectories.
"""

from dataclasses import replace
from typing import TypeVar

from jaxsched.algorithms.cross_entropy import CrossEntropyConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.chic.recipe import Recipe
from jaxsched.envs.chic.search_recipe import SearchRecipe
from jaxsched.systems.parts import PresetInfo

PAPER = Recipe()
QUICK = replace(
    PAPER,
    env=replace(PAPER.env, free_choice=False),
    loop=LoopConfig(num_envs=256, rollout_length=1024, num_updates=140),
    learner=CrossEntropyConfig(num_trajectories=255, rho=0.1, inner_steps=10),
    hidden=(64, 32),
    common_sequence=True,
    checkpoint_every=70,
)
SEARCH = SearchRecipe()


AnyRecipe = TypeVar("AnyRecipe", Recipe, SearchRecipe)


def pair(recipe: AnyRecipe) -> AnyRecipe:
    """The same for Chic-Pair."""
    return replace(recipe, env=replace(recipe.env, pair=True))


PRESETS: dict[str, Recipe | SearchRecipe] = {
    "quick": QUICK,
    "paper": PAPER,
    "search": SEARCH,
    "quick-pair": pair(QUICK),
    "paper-pair": pair(PAPER),
    "search-pair": pair(SEARCH),
}

_NOTES = {
    "quick": PresetInfo(
        "the paper's learner (cross-entropy method) with changes that make it learn"
    ),
    "paper": PresetInfo("the paper's learner, but void ends a phase: ends far above Optimus"),
    "search": PresetInfo(
        "the best results: imitation of search, then search over whole episodes at all rates",
        "9 min on 2 CPU cores, five seeds together",
    ),
}
NOTES = {
    **_NOTES,
    **{
        f"{name}-pair": note._replace(purpose=f"Chic-Pair; {note.purpose}")
        for name, note in _NOTES.items()
    },
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
