"""What the rows of DL2 share: studies, workloads, rivals, tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.papers.lab import NONE, Changes, Lab, Study
from benchmarks.papers.outcome import Outcome, Table, show
from benchmarks.papers.samples import Sample, change, hundred, mean_of, plain, spread_of
from benchmarks.papers.settings import Workload
from jaxsched.envs.dl2.jobs import dl2_tables
from jaxsched.envs.dl2.show.paper import JCT as JCT
from jaxsched.jobs import JobTable

JCT_LABEL = "completion time (slots)"
PRESETS = {"sim": "quick", "testbed": "testbed"}
LEARNER = "paper"  # preset with the paper's own learner, for what is about that learner
RULES = ("drf", "fifo", "srtf", "tetris", "optimus", "optimus_oracle")


class DrawnWorkload(Workload):
    """A workload whose options are those of ``dl2_tables``."""

    def draw(self, seed: int, count: int, **options: Any) -> list[JobTable]:
        """Tables drawn with options."""
        return dl2_tables(seed, count, **options)


SIM = Workload("dl2-sim")
SIM_OPTIONS = DrawnWorkload("dl2-sim with", (("num_jobs", 60), ("peak", 2.0), ("arrival", "trace")))
"""The workload of ``dl2-sim`` for changes by ``with_options``."""
SUPERVISED = "supervised"  # name of the first stage
CHOICE = (
    "policies are chosen on validation tables; the test tables come from a seed that is used for "
    "nothing else; intervals are 95 % bootstraps over seeds and tables, deviations over tables"
)


def study(
    lab: Lab, preset: str, changes: Changes = NONE, *, workload: Workload | None = None
) -> Study:
    """A preset with changes, on its own workload or another."""
    recipe = lab.recipe(preset, changes)
    if workload is None:
        return Study(recipe, Workload(recipe.traces.train))
    return Study(with_trace(recipe, workload), workload)


def with_trace(recipe: Any, workload: Workload) -> Any:
    """The recipe with another label of its tables."""
    name = workload.trace
    traces = recipe.traces._replace(train=name, validation=name, test=name)
    return replace(recipe, traces=traces)


def cluster(lab: Lab, name: str) -> Any:
    """The environment ``sim`` or ``testbed``."""
    return lab.recipe(PRESETS[name]).env


def rules(
    lab: Lab,
    names: Sequence[str],
    env: Any,
    tables: Any,
    params: tuple[tuple[str, Any], ...] = (),
) -> dict[str, Sample]:
    """Heuristics on test tables."""
    return lab.heuristics({name: (name, env) for name in names}, tables, params=params)


def comparison(title: str, samples: Mapping[str, Sample], bases: Sequence[str]) -> Table:
    """Completion time in slots, its deviation, and the change against some policies."""
    rows: list[list[Any]] = []
    for name, sample in samples.items():
        changes = [
            "-" if base == name else show(hundred(change(sample, samples[base], JCT)))
            for base in bases
        ]
        rows.append([name, mean_of(sample, JCT), spread_of(sample, JCT), *changes])
    columns = ["policy", JCT_LABEL, "deviation"]
    return Table(title, [*columns, *(f"against {base} (%)" for base in bases)], rows, 2)


def values_of(samples: Mapping[Any, Sample]) -> dict[str, Any]:
    """JSON-able."""
    return {str(name): plain(sample) for name, sample in samples.items()}


def outcome(
    tables: Sequence[Table], checks: Sequence[Any], values: Any, draw: Any, *notes: str
) -> Outcome:
    """An outcome with the usual note first."""
    return Outcome(tables, checks, values, draw, [CHOICE, *notes])
