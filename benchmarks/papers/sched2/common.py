"""What the rows of SCHED2 share: job tables, who plays them, and how they are compared.

Axes: ``S`` seeds (one for rules), ``E`` job tables, ``n`` starts.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.given_runs import load_runs
from benchmarks.papers.lab import Lab, Study
from benchmarks.papers.outcome import Check, Outcome, Table, beside, not_tested, show, three
from benchmarks.papers.samples import Sample, mean_of, plain, sample_of, scaled
from benchmarks.papers.sched2.options import Sched2Settings
from benchmarks.papers.settings import CutWorkload
from jaxsched.core.environment import Environment
from jaxsched.envs.sched2.show.paper import HIGHER, JCT, PERCENT, Figures, best_of
from jaxsched.jobs import JobTable
from jaxsched.results.comparison import Learned
from jaxsched.results.statistics import Floats, Interval, ratio_interval
from jaxsched.systems import functions, presets

LEARNED, RIVAL = "learned", "strict_sif"
"""The trained policy, and the rule that it is paired with."""

TEST_68 = "sched2-test-68"
NOTES = (
    "at 68 % the shipped test tables, otherwise tables drawn with a seed that is used for nothing "
    "else; intervals are 95 % bootstraps over training seeds and tables; ratios are of means over "
    "both; heuristics choose from the agent's window and skip jobs that do not fit, unless a table "
    "says otherwise",
)


class Play(NamedTuple):
    """One policy on test tables.

    Attributes:
      sample: metric -> float64 ``[S, E]``.
      curves: name -> float64 ``[n]``, by the number of the start, means over seeds and tables.
    """

    sample: Sample
    curves: dict[str, Floats]


class Shown(NamedTuple):
    """How a metric is shown.

    Attributes:
      heading: with the unit.
      digits: after the point.
      unit: how many of the metric's units make one that is shown.
    """

    heading: str
    digits: int
    unit: float = 1.0


Plays = Mapping[str, Play]
"""By policy."""


def settings_of(lab: Lab) -> Sched2Settings:
    """The lab's settings, with what is SCHED2's own."""
    assert isinstance(lab.settings, Sched2Settings)
    return lab.settings


def recipe_of(lab: Lab) -> Any:
    """The recipe of the learned policy."""
    return lab.recipe(settings_of(lab).preset)


def test_tables(lab: Lab, percent: int = PERCENT) -> list[JobTable]:
    """Test tables of a share of one-GPU jobs (%)."""
    trace = TEST_68 if percent == PERCENT else f"sched2-{percent}"
    return lab.test_tables(CutWorkload(trace), recipe_of(lab))


def study(lab: Lab, percent: int) -> Study:
    """The learned policy of a share of one-GPU jobs (%), on tables like its recipe's own."""
    recipe = recipe_of(lab)
    names = presets.recipe_traces(lab.system, recipe)
    train, validation = (
        CutWorkload(_with_share(name, percent))
        for name in (names.train, names.validation or names.train)
    )
    return Study(recipe, train, validation)


def _with_share(trace: str, percent: int) -> str:
    if percent == PERCENT:
        return trace
    return f"sched2-mixed-{percent}" if trace == "sched2-mixed" else f"sched2-{percent}"


def label(percent: int) -> str:
    """Of a training, for people."""
    return f"{LEARNED}, {percent} %"


def learned_by_mix(lab: Lab, percents: Sequence[int] = (PERCENT,)) -> dict[int, Learned]:
    """The learned policy of each share of one-GPU jobs (%), trained here or of the given runs.

    Runs play every mix.

    Raises:
      JaxschedError: a run cannot be read, or two do not fit together.
    """
    given = _given(lab)
    if given is not None:
        return dict.fromkeys(percents, given)
    trained = lab.train_all({label(percent): study(lab, percent) for percent in percents})
    found = {}
    for percent in percents:
        policies = trained[label(percent)]
        setup = policies.setup
        found[percent] = Learned(
            LEARNED, setup.play_env, setup.network, policies.weights, setup.play
        )
    return found


def _given(lab: Lab) -> Learned | None:
    return _loaded(lab, settings_of(lab).runs)


@cache
def _loaded(lab: Lab, runs: tuple[Path, ...]) -> Learned | None:
    return load_runs(lab, runs, lambda _: LEARNED).get(LEARNED)


def cluster(lab: Lab) -> Environment:
    """Where heuristics play: the cluster and window of the learned policy, nothing else."""
    given = _given(lab)
    own: Any = given.env if given is not None else recipe_of(lab).env
    sizes = ("num_servers", "gpus_per_server", "window")
    env: Environment = functions.environment(
        lab.system, **{name: getattr(own, name) for name in sizes}
    )
    return env


def baselines(lab: Lab) -> tuple[str, ...]:
    """The paper's baselines."""
    return functions.policy_names(lab.system, "baseline")


def references(lab: Lab) -> tuple[str, ...]:
    """Rules of ours, shown beside every learned policy."""
    return functions.policy_names(lab.system, "reference")


def play_rules(
    lab: Lab, names: Sequence[str], tables: Sequence[JobTable], **options: Any
) -> dict[str, Play]:
    """Heuristics on tables.

    Args:
      lab: with the settings.
      names: of the heuristics.
      tables: what they play.
      **options: of all of them, such as ``window``.
    """
    env = cluster(lab)
    chosen = {name: (name, env) for name in names}
    plays = lab.play_heuristics(chosen, tables, options=options)
    return {name: Play(sample_of([played]), played.curves) for name, played in plays.items()}


def play_learned(lab: Lab, learned: Learned, tables: Sequence[JobTable]) -> Play:
    """The learned policy of all seeds on tables."""
    lab.say(f"playing {learned.name}")
    policy = functions.network_policy(
        lab.system, learned.env, learned.network, learned.name, learned.play
    )
    params = learned.env.params(tables)
    plays = [functions.play(lab.system, learned.env, policy, params, w) for w in learned.weights]
    names = plays[0].curves
    curves = {name: np.mean([played.curves[name] for played in plays], axis=0) for name in names}
    return Play(sample_of(plays), curves)


def play_all(lab: Lab, learned: Learned, tables: Sequence[JobTable]) -> dict[str, Play]:
    """Baselines, reference policies and the learned policy on tables."""
    rules = play_rules(lab, (*baselines(lab), *references(lab)), tables)
    return {**rules, learned.name: play_learned(lab, learned, tables)}


def everyone(lab: Lab) -> dict[str, Play]:
    """All policies on the test tables of the usual mix."""
    return play_all(lab, learned_by_mix(lab)[PERCENT], test_tables(lab))


def means(plays: Plays, names: Sequence[str]) -> dict[str, Figures]:
    """Means of every metric of some policies."""
    return {
        name: {metric: float(x.mean()) for metric, x in plays[name].sample.items()}
        for name in names
    }


def times_better(play: Play, base: Play, metric: str) -> Interval:
    """How many times better than another policy on the same tables, ratio of the means."""
    pair = play.sample[metric], base.sample[metric]
    return ratio_interval(*(pair if metric in HIGHER else pair[::-1]))


def ratio_check(item: str, paper: str, found: Interval | None) -> Check:
    """A ratio; not tested where the other policy has 0 on a table."""
    if found is None:
        return not_tested(item, paper, "the other has 0 on some table")
    return beside(item, paper, found, shown=three)


def best_baseline(lab: Lab, plays: Plays, metric: str = JCT) -> str:
    """The baseline of the best mean."""
    return best_of(means(plays, baselines(lab)), metric)


def metric_table(title: str, plays: Plays, metrics: Mapping[str, Shown]) -> Table:
    """Means with their intervals, a row for each policy."""
    rows = [
        [name, *(show(point(play, m, s), s.digits) for m, s in metrics.items())]
        for name, play in plays.items()
    ]
    return Table(title, ["policy", *(shown.heading for shown in metrics.values())], rows)


def point(play: Play, metric: str, shown: Shown) -> Interval:
    """The mean of a metric with its interval, in the unit that is shown."""
    return scaled(mean_of(play.sample, metric), 1 / shown.unit)


def values_of(plays: Plays) -> dict[str, Any]:
    """JSON-able, without the curves."""
    return {name: plain(play.sample) for name, play in plays.items()}


def outcome(
    lab: Lab,
    tables: Sequence[Table],
    checks: Sequence[Check],
    values: Any,
    draw: Any,
    *notes: str,
    learns: bool = True,
) -> Outcome:
    """An outcome that says what was played and, if there is one, what the learned policy is."""
    said = [*notes, *NOTES]
    if learns:
        said.append(_origin(lab))
    return Outcome(tables, checks, values, draw, said)


def _origin(lab: Lab) -> str:
    settings = settings_of(lab)
    if settings.runs:
        return f"{LEARNED}: a given run, the same policy for every mix of jobs"
    told = "; ".join(lab.system.recipes.departures.of(recipe_of(lab)))
    return f"{LEARNED}: preset {settings.preset}, trained for each mix of jobs; {told}"
