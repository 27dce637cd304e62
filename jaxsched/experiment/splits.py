"""Training, validation and test tables of a run."""

from functools import cache
from typing import Any, NamedTuple

from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.sources import Episodes, Source, is_file, resolve
from jaxsched.systems import presets
from jaxsched.systems.system import System
from jaxsched.traces.formats import load

TEST_SHARE, VALIDATION_SHARE = 0.2, 0.1
"""Last shares of a published trace that are kept for the test and for choosing policies."""


class Sets(NamedTuple):
    """The job tables of a run; tables drawn from one source are drawn with different seeds."""

    train: Episodes
    validation: Episodes
    test: Episodes


def sets_of(
    system: System,
    recipe: Any,
    trace: Source | None,
    test_trace: Source | None,
    options: TraceOptions,
) -> Sets:
    """Training, validation and test tables; no job of a trace is in two of them.

    Traces that are drawn have other seeds; published ones are split in order of submission.

    Args:
      system: whose jobs they are.
      recipe: names the traces that are left out, and has the environment.
      trace: training traces; of a log also the test and validation jobs.
      test_trace: test traces.
      options: how traces become episodes.

    Raises:
      JaxschedError: a trace is refused.
    """
    names = presets.recipe_traces(system, recipe)
    training = names.train if trace is None else trace
    read = cache(load)  # the same file three times

    def draw(name: Source, seed: int, count: int | None, part: tuple[float, float]) -> Episodes:
        of_file = options if is_file(name) else options.without_reading()
        chosen = of_file._replace(
            seed=options.seed + seed, num_traces=options.num_traces or count, part=part
        )
        episodes = resolve(name, system, chosen, recipe.env, read=read)
        if _same(name, training):
            return episodes.made_with(options, system, recipe.env)
        return episodes.rescaled(options, system, recipe.env)

    validates = names.validation is not None
    end = 1.0 if test_trace is not None else 1.0 - TEST_SHARE
    middle = end - VALIDATION_SHARE if validates else end
    train = draw(training, 0, names.num_train, (0.0, middle))
    rest = (0.0, 1.0) if test_trace is not None else (end, 1.0)
    test = draw(_first(test_trace, trace, names.test), 1, names.num_test, rest)
    if names.validation is None:
        return Sets(train, train, test)
    between = draw(_first(trace, names.validation), 2, names.num_validation, (middle, end))
    return Sets(train, between, test)


def _first(*sources: Source | None) -> Source:
    """The first source that is given."""
    return next(source for source in sources if source is not None)


def _same(one: Source, other: Source) -> bool:
    """Whether two sources are one."""
    return one is other or (isinstance(one, str) and isinstance(other, str) and one == other)
