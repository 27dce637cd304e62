"""Differences of a recipe from the paper's, found by comparing both."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxsched.systems.paths import full_path, parts_of, value_at
from jaxsched.systems.recipe import Recipe, Stage

Words = str | Mapping[Any, str] | Callable[[Any], tuple[str, ...]]
"""Lines about a value that differs: a format, a line for some values, or a function of the value
that returns lines."""


def of_learner(config: type, words: Callable[[Stage], tuple[str, ...]]) -> Words:
    """Words of a stage that learns by such settings; of another learner its settings' name."""

    def of(stage: Stage) -> tuple[str, ...]:
        if isinstance(stage.learner, config):
            return words(stage)
        return (f"{stage.name} by {type(stage.learner).__name__}",)

    return of


class Departures(NamedTuple):
    """The recipe that a system's recipes are compared with, and the words for differences.

    Attributes:
      paper: the recipe as the paper's text has it; None: there is none.
      words: path of a field, as ``--set`` has it -> what is said where it differs; in the order of
        the lines.
    """

    paper: Recipe | None = None
    words: Mapping[str, Words] = {}

    def of(self, recipe: Recipe) -> tuple[str, ...]:
        """The differences, one line each."""
        if recipe.departures is not None:
            return tuple(
                re.sub(r"{([\w.]+)}", lambda found: str(_shown(value_at(recipe, found[1]))), line)
                for line in recipe.departures
            )
        lines: list[str] = []
        for path, words in self.words.items() if self.paper is not None else ():
            value = value_at(recipe, path)
            if value is not None and value != value_at(self.paper, path):
                lines += () if _left_out(recipe, path) else said(words, value)
        return tuple(dict.fromkeys(lines))


def _left_out(recipe: Recipe, path: str) -> bool:
    """Whether a field belongs to a stage that is left out and is not ``skip`` itself."""
    stage, *names = full_path(recipe, path.split("."))
    return names != ["skip"] and getattr(parts_of(recipe).get(stage), "skip", False)


def said(words: Words, value: Any) -> tuple[str, ...]:
    """The lines for a value that differs."""
    if isinstance(words, str):
        return (words.format(_shown(value)),)
    if isinstance(words, Mapping):
        return (words[value],) if value in words else ()
    return words(value)


def _shown(value: Any) -> Any:
    """Widths of a network without what their name begins with, anything else as it is."""
    return value.removeprefix("mlp-") if isinstance(value, str) else value
