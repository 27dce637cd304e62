"""The one input of a report: a JSON-able dict, and the check of it.

`jaxsched compare` and `jaxsched train` build a `Comparison`, may store it as JSON, and hand it to
the terminal table and the HTML page. Per-episode values travel in it, not means, so that every
interval, ratio and paired difference is computed in one place (`jaxsched.report.summary`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, cast

from jaxsched.errors import JaxschedError
from jaxsched.jobs.stored_schedule import schedule_of
from jaxsched.systems.claims import VERDICTS

Kind = Literal["baseline", "reference", "learned"]
Better = Literal["higher", "lower", "neither"]

KINDS: tuple[str, ...] = ("baseline", "reference", "learned")
_FORMER_KINDS = {"yardstick": "reference"}  # of stored comparisons
DIRECTIONS: tuple[str, ...] = ("higher", "lower", "neither")


class Metric(TypedDict):
    """How to print one metric and which way is up."""

    label: str
    unit: str  # "" where the metric has none
    better: Better
    digits: int  # decimals shown


class Policy(TypedDict):
    """One policy's results on all episodes.

    ``metrics`` maps a metric name to one value per episode or, for a learner trained with several
    seeds, to one such list per seed. A metric ``finished`` counts the jobs that finish: a policy
    that leaves more of them than others is never ranked above those. ``curves`` maps a curve name
    to values over the started jobs, already averaged over episodes.
    """

    name: str
    kind: Kind  # a reference policy is in no paper: shown, never the "best baseline"
    note: NotRequired[str]
    apart: NotRequired[bool]  # it knows what no scheduler can, or plays on other terms
    metrics: dict[str, list[float] | list[list[float]]]
    curves: NotRequired[dict[str, list[float]]]


class Episodes(TypedDict):
    """What the policies were run on."""

    count: int
    source: str


class Series(TypedDict):
    """Evaluations of one training seed, in order."""

    seed: int
    x: list[float]
    y: list[float]
    wall_s: NotRequired[list[float]]
    selection: NotRequired[list[float]]  # score that chose the checkpoint (training traces)


class LearningCurve(TypedDict):
    """Evaluation during training; ``metric`` names the metric that ``y`` measures.

    ``levels`` maps heuristics to their value on the traces of the evaluations; without it
    their means over the comparison's episodes are drawn.
    """

    x_label: str
    y_label: str
    metric: NotRequired[str]
    levels: NotRequired[dict[str, float]]
    series: list[Series]


class GanttJob(TypedDict):
    """One job: whole seconds, locality level 0 (best) and up, ids of the GPUs it held."""

    start: float
    finish: float
    level: int
    gpus: list[int]
    num_gpus: int


class GanttPanel(TypedDict):
    """All jobs of one episode under one policy."""

    policy: str
    jobs: list[GanttJob]


class Gantt(TypedDict):
    """One episode under a few policies; GPU id = server * gpus_per_server + index."""

    episode: str
    num_servers: int
    gpus_per_server: int
    panels: list[GanttPanel]


class PaperRow(TypedDict):
    """One claim of the paper beside the figure measured here."""

    item: str
    paper: float | str | None
    here: float | str | None
    accept: NotRequired[str]  # within which bounds it counts as reproduced
    verdict: NotRequired[str | None]  # one of the four; files of before have none


class Paper(TypedDict):
    """The paper's claims."""

    rows: list[PaperRow]


class CurveWords(TypedDict):
    """A curve's title, and what it shows."""

    title: str
    note: str


class MetricGroup(TypedDict):
    """Metrics drawn together under a heading of their own."""

    title: str
    note: str
    metrics: list[str]


class OwnFigures(TypedDict):
    """What only this system has: words for its curves (by their names), and groups of metrics."""

    curves: NotRequired[dict[str, CurveWords]]
    groups: NotRequired[list[MetricGroup]]


class Comparison(TypedDict):
    """Everything a report shows. Optional parts may be left out or be None.

    ``primary`` names the metric of the verdict; by default the first one with a direction.
    ``best_rule`` names the best rule known of those that play, which counts as one though it may
    stand apart.
    ``bars`` names the metrics drawn as bars; by default the primary one, JCT and makespan where
    they exist, else the first three with a direction.
    """

    system: str
    title: str
    created: str
    facts: dict[str, str | int | float]
    command: str
    episodes: Episodes
    notes: NotRequired[list[str]]  # what was dropped, raised, capped or drawn in the episodes
    metrics: dict[str, Metric]
    policies: list[Policy]
    primary: NotRequired[str]
    best_rule: NotRequired[str]
    bars: NotRequired[list[str]]
    figures: NotRequired[OwnFigures | None]
    learning_curve: NotRequired[LearningCurve | None]
    gantt: NotRequired[Gantt | None]  # of comparisons stored before there were schedules
    schedules: NotRequired[list[dict[str, Any]] | None]  # ``Schedule.to_json`` of one episode
    paper: NotRequired[Paper | None]


def check(comparison: object) -> Comparison:
    """Return ``comparison`` if a report can be made of it.

    It is returned unchanged, except that kinds of policies get today's names: stored comparisons
    call a reference policy a yardstick.

    Raises:
        JaxschedError: naming the first offending place, what was found and what is accepted.
    """
    top = _with_present_kinds(_mapping(comparison, "comparison"))
    for name in ("system", "title", "created", "command"):
        _text(top, name, "comparison")
    _mapping(_get(top, "facts", "comparison"), "facts")
    episodes = _mapping(_get(top, "episodes", "comparison"), "episodes")
    _text(episodes, "source", "episodes")
    count = _integer(_get(episodes, "count", "episodes"), "episodes.count", 1)
    for i, note in enumerate(_list(top.get("notes") or [], "notes")):
        if not isinstance(note, str):
            raise JaxschedError(f"notes[{i}]: is {note!r}, expected a text")
    metrics = _mapping(_get(top, "metrics", "comparison"), "metrics")
    if not metrics:
        raise JaxschedError("metrics: is empty, expected at least one metric")
    for name, metric in metrics.items():
        _check_metric(metric, f"metrics[{name!r}]")
    _check_policies(_list(_get(top, "policies", "comparison"), "policies"), metrics, count)
    _check_names(top, metrics)
    if top.get("learning_curve") is not None:
        _check_learning_curve(top["learning_curve"], metrics)
    if top.get("gantt") is not None:
        _check_gantt(top["gantt"])
    for i, schedule in enumerate(_list(top.get("schedules") or [], "schedules")):
        schedule_of(schedule, f"schedules[{i}]")
    if top.get("paper") is not None:
        _check_paper(top["paper"])
    if top.get("figures") is not None:
        _check_figures(top["figures"])
    return cast(Comparison, top)


def _with_present_kinds(top: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same object, or a copy where a policy's kind has a former name."""
    policies = top.get("policies")
    if not isinstance(policies, list) or not any(_former_kind(entry) for entry in policies):
        return top
    return {
        **top,
        "policies": [
            {**entry, "kind": _FORMER_KINDS[entry["kind"]]} if _former_kind(entry) else entry
            for entry in policies
        ],
    }


def _former_kind(policy: object) -> bool:
    return isinstance(policy, Mapping) and policy.get("kind") in _FORMER_KINDS


def _check_metric(metric: object, where: str) -> None:
    entry = _mapping(metric, where)
    _text(entry, "label", where)
    _text(entry, "unit", where)
    _choice(_get(entry, "better", where), DIRECTIONS, f"{where}.better")
    _integer(_get(entry, "digits", where), f"{where}.digits", 0)


def _check_policies(policies: Sequence[Any], metrics: Mapping[str, Any], count: int) -> None:
    if not policies:
        raise JaxschedError("policies: is empty, expected at least one policy")
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        where = f"policies[{i}]"
        entry = _mapping(policy, where)
        name = _text(entry, "name", where)
        if name in seen:
            raise JaxschedError(f"{where}.name: {name!r} occurs twice, expected distinct names")
        seen.add(name)
        where = f"policies[{i}] ({name})"
        _choice(_get(entry, "kind", where), KINDS, f"{where}.kind")
        values = _mapping(_get(entry, "metrics", where), f"{where}.metrics")
        for metric, sample in values.items():
            place = f"{where}.metrics[{metric!r}]"
            if metric not in metrics:
                raise JaxschedError(f"{place}: unknown metric, expected one of {_names(metrics)}")
            _check_sample(sample, count, place)
        curves = entry.get("curves")
        for curve, points in _mapping({} if curves is None else curves, f"{where}.curves").items():
            _floats(points, f"{where}.curves[{curve!r}]")


def _check_sample(sample: object, count: int, where: str) -> None:
    rows = _list(sample, where)
    nested = bool(rows) and isinstance(rows[0], Sequence) and not isinstance(rows[0], str)
    for s, row in enumerate(rows if nested else [rows]):
        place = f"{where}[{s}]" if nested else where
        found = len(_floats(row, place))
        if found != count:
            raise JaxschedError(f"{place}: has {found} values, expected {count}, one per episode")


def _check_names(top: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
    if top.get("primary") is not None:
        _choice(top["primary"], tuple(metrics), "primary")
    if top.get("best_rule") is not None:
        _text(top, "best_rule", "the comparison")
    for i, name in enumerate(_list(top.get("bars") or [], "bars")):
        _choice(name, tuple(metrics), f"bars[{i}]")


def _check_learning_curve(curve: object, metrics: Mapping[str, Any]) -> None:
    entry = _mapping(curve, "learning_curve")
    _text(entry, "x_label", "learning_curve")
    _text(entry, "y_label", "learning_curve")
    if entry.get("metric") is not None:
        _choice(entry["metric"], tuple(metrics), "learning_curve.metric")
    for name, value in _mapping(entry.get("levels", {}), "learning_curve.levels").items():
        _number(value, f"learning_curve.levels[{name!r}]")
    for i, series in enumerate(_list(_get(entry, "series", "learning_curve"), "series")):
        where = f"learning_curve.series[{i}]"
        line = _mapping(series, where)
        length = len(_floats(_get(line, "x", where), f"{where}.x"))
        for name in ("y", "wall_s", "selection"):
            if name != "y" and line.get(name) is None:
                continue
            found = len(_floats(_get(line, name, where), f"{where}.{name}"))
            if found != length:
                raise JaxschedError(
                    f"{where}.{name}: has {found} values, expected {length} as in x"
                )


def _check_gantt(gantt: object) -> None:
    entry = _mapping(gantt, "gantt")
    _text(entry, "episode", "gantt")
    servers = _integer(_get(entry, "num_servers", "gantt"), "gantt.num_servers", 1)
    per_server = _integer(_get(entry, "gpus_per_server", "gantt"), "gantt.gpus_per_server", 1)
    for i, panel in enumerate(_list(_get(entry, "panels", "gantt"), "gantt.panels")):
        where = f"gantt.panels[{i}]"
        panel_entry = _mapping(panel, where)
        _text(panel_entry, "policy", where)
        for j, job in enumerate(_list(_get(panel_entry, "jobs", where), f"{where}.jobs")):
            _check_gantt_job(job, servers * per_server, f"{where}.jobs[{j}]")


def _check_gantt_job(job: object, gpus: int, where: str) -> None:
    entry = _mapping(job, where)
    start = _number(_get(entry, "start", where), f"{where}.start")
    finish = _number(_get(entry, "finish", where), f"{where}.finish")
    if finish < start:
        raise JaxschedError(f"{where}: finish {finish} lies before start {start}")
    _integer(_get(entry, "level", where), f"{where}.level", 0)
    _integer(_get(entry, "num_gpus", where), f"{where}.num_gpus", 1)
    for gpu in _list(_get(entry, "gpus", where), f"{where}.gpus"):
        if _integer(gpu, f"{where}.gpus", 0) >= gpus:
            raise JaxschedError(f"{where}.gpus: {gpu} is no GPU id, expected 0..{gpus - 1}")


def _check_paper(paper: object) -> None:
    rows = _list(_get(_mapping(paper, "paper"), "rows", "paper"), "paper.rows")
    for i, row in enumerate(rows):
        where = f"paper.rows[{i}]"
        entry = _mapping(row, where)
        _text(entry, "item", where)
        for name in ("paper", "here"):
            value = _get(entry, name, where)
            if value is not None and not isinstance(value, str):
                _number(value, f"{where}.{name}")
        if entry.get("verdict") not in (*VERDICTS, None):
            accepted = ", ".join((*VERDICTS, "null"))
            raise JaxschedError(f"{where}.verdict: {entry['verdict']!r}; accepted: {accepted}")


def _check_figures(figures: object) -> None:
    entry = _mapping(figures, "figures")
    for name, words in _mapping(entry.get("curves", {}), "figures.curves").items():
        where = f"figures.curves[{name!r}]"
        for part in CurveWords.__annotations__:
            _text(_mapping(words, where), part, where)
    for i, group in enumerate(_list(entry.get("groups", []), "figures.groups")):
        where = f"figures.groups[{i}]"
        for part in ("title", "note"):
            _text(_mapping(group, where), part, where)
        _list(_get(_mapping(group, where), "metrics", where), f"{where}.metrics")


def _get(entry: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in entry:
        raise JaxschedError(f"{where}: {name!r} is missing, found {_names(entry)}")
    return entry[name]


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise JaxschedError(f"{where}: found {type(value).__name__}, expected an object")
    return value


def _list(value: object, where: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise JaxschedError(f"{where}: found {type(value).__name__}, expected a list")
    return value


def _text(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = _get(entry, name, where)
    if not isinstance(value, str):
        raise JaxschedError(f"{where}.{name}: found {type(value).__name__}, expected a string")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise JaxschedError(f"{where}: {value!r}, expected a finite number")
    return float(value)


def _integer(value: object, where: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise JaxschedError(f"{where}: {value!r}, expected an integer of at least {least}")
    return value


def _floats(values: object, where: str) -> Sequence[float]:
    numbers = _list(values, where)
    for i, value in enumerate(numbers):
        _number(value, f"{where}[{i}]")
    return numbers


def _choice(value: object, accepted: Sequence[str], where: str) -> None:
    if value not in accepted:
        raise JaxschedError(f"{where}: {value!r}, expected one of {', '.join(accepted)}")


def _names(entry: Mapping[str, Any]) -> str:
    return ", ".join(entry) or "nothing"
