"""A system's page of results, as Markdown."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.evidence import learned_readings, readings
from benchmarks.evidence.judge import Single, Verdict, by_tenth, less_one, single, verdict
from benchmarks.evidence.parts import (
    Contest,
    Cost,
    Evidence,
    Own,
    OwnAny,
    OwnRatios,
    OwnReading,
)
from benchmarks.evidence.recipes import SUPERVISED, Told, as_command, told
from benchmarks.evidence.sources import Plays, picture_of, plays, read
from benchmarks.papers.verdicts import Judged, judged
from benchmarks.readings import UNTRAINED
from benchmarks.scripts import table
from jaxsched.report.summary import labelled
from jaxsched.results.statistics import Interval
from jaxsched.systems.claims import TOLERANCE, VERDICTS

NOTE = (
    "Made by `python -m benchmarks.evidence` from the files in `benchmarks/results`; edits are "
    "overwritten. Intervals are 95 % bootstraps over training seeds and episodes."
)

COLUMNS = (
    "*IQM of changes* is the interquartile mean of the changes episode by episode (stratified "
    "bootstrap: within each episode over seeds, with one seed over episodes), *P(better)* the "
    "probability of improvement, ties by half."
)

HEADROOM = (
    "Look-ahead over a policy, on episodes of the sizes in the commands; in brackets the paired "
    "difference from that policy alone. No row is a bound: look-ahead plays on as it would."
)

VERDICT_NOTE = (
    f"*Reproduced* is what lies within {100 * TOLERANCE:.0f} % of the paper's size, that is of its "
    "distance from no effect (a level, such as a share of GPUs in use, has none and is held to its "
    "own size), on the paper's side with all of its interval; the column *reproduced if* has the "
    "bounds. *Direction only* is what is merely on the paper's side, or where the paper gives no "
    "size. Figures of ours, of which the paper says nothing, have no verdict."
)

LINKS = "../../benchmarks/results"
"""From the pages to the files."""


def page(evidence: Evidence) -> str:
    """The whole page."""
    notes = f"More is in the [notes]({evidence.system}_notes.md)."
    parts = [
        f"# {evidence.title}: results",
        f"{NOTE} {COLUMNS} {notes}",
        f"**The paper claims** {evidence.claim}",
    ]
    parts += evidence.words
    for number, contest in enumerate(evidence.contests, 1):
        parts += [f"## Learned against `{contest.rule_name}`: {contest.title}", *_contest(contest)]
        if contest.ranked_by:
            parts.append(f"![by tenth]({picture_name(evidence, number)})")
    if evidence.readings is not None:
        parts += readings.sections(evidence.readings)
    if evidence.learned_readings is not None:
        parts += learned_readings.sections(evidence.learned_readings, readings_name(evidence))
    if evidence.own:
        parts.append("## The paper's own recipe here")
        parts += [text for own in evidence.own for text in _own(evidence.system, own)]
    if evidence.headroom:
        parts += ["## Head-room", HEADROOM]
        parts += [text for name in evidence.headroom for text in _headroom(name)]
    if evidence.rows:
        parts += ["## The paper's evaluation, claim by claim", VERDICT_NOTE]
        parts += [_claims(verdicts_of(evidence)), *_drawings(evidence.rows)]
    if evidence.cost:
        parts += ["## Cost", _costs(evidence.cost)]
        parts += [
            f"`{cost.command}` learnt so:\n\n![learning curve]({curve_name(evidence, number)})"
            for number, cost in enumerate(evidence.cost, 1)
            if has_curve(cost)
        ]
    return "\n\n".join(parts) + "\n"


def summary(systems: Sequence[Evidence]) -> str:
    """What became of the claims, the papers' own recipes, ours, and what all of them cost."""
    best = []
    for evidence in systems:
        for contest in evidence.contests[:1]:
            played = plays(contest.learned.file, contest.learned.part)
            found = verdict(played, contest.learned.policy, contest.rule, contest.metrics[0])
            best.append(
                [
                    f"[{evidence.title}]({evidence.system}.md)",
                    f"{_mean(played, found, 0)} {_unit(played, found.metric)}",
                    f"{_mean(played, found, 1)} (`{contest.rule_name}`)",
                    per_cent(found.change),
                    contest.title,
                ]
            )
    where = "Each system's page has the rest; [learners and their options](learners.md) another."
    parts = [
        "# Results",
        NOTE,
        "## The papers' claims, counted by what became of them",
        _counts(systems),
        "Claims are judged by the recipe that the row on a system's page names, mostly ours; the "
        "papers' own recipes stand in the next table.",
        VERDICT_NOTE,
        where,
        "## The papers' own recipes here, and changes of them",
        "Departures are those that a run of the preset names today, and further ones; a row that "
        "has some is a change of the paper's recipe. Changes in per cent are of the metric in "
        "which the paper makes its claim.",
        _recipes(systems),
        "## Our recipes against the best rule known",
        table(["system", "our recipe", "best rule known", "change", "episodes"], best),
    ]
    costs = [cost for evidence in systems for cost in evidence.cost]
    if costs:
        parts += ["## What training costs, beside what the papers say", _costs(costs)]
    return "\n\n".join(parts) + "\n"


def verdicts_of(evidence: Evidence) -> list[Judged]:
    """All claims of the rows of a system's page."""
    return judged(evidence.system, list(map(read, evidence.rows)))


def counts_of(evidence: Evidence) -> list[int]:
    """How many claims have each of the verdicts, in their order."""
    verdicts = [claim.verdict for claim in verdicts_of(evidence)]
    return [verdicts.count(name) for name in VERDICTS]


def _counts(systems: Sequence[Evidence]) -> str:
    rows = [
        [f"[{evidence.title}]({evidence.system}.md)", *map(str, counts_of(evidence))]
        for evidence in systems
        if evidence.rows
    ]
    return table(["system", *VERDICTS], rows)


def _recipes(systems: Sequence[Evidence]) -> str:
    head = [
        *("system", "the paper claims", "recipe", "departures from the text", "trained"),
        *("cluster", "episodes", "seeds", "against", "change", "untrained network", "file"),
    ]
    rows = []
    for evidence in systems:
        for own in evidence.own:
            found: Told = told(evidence.system, own)
            rows.append(
                [
                    f"[{evidence.title}]({evidence.system}.md)",
                    evidence.claim,
                    f"`{as_command(own.recipe)}`",
                    found.departures,
                    own.recipe.trained or "to its end",
                    found.cluster,
                    found.episodes,
                    str(found.seeds),
                    f"`{own.against}`",
                    per_cent(found.change),
                    "-" if found.untrained is None else per_cent(found.untrained),
                    f"`{found.file}`",
                ]
            )
    return table(head, rows)


def picture_name(evidence: Evidence, number: int) -> str:
    """File of a contest's picture."""
    return f"{evidence.system}_{number}.png"


def curve_name(evidence: Evidence, number: int) -> str:
    """File of the learning curve of a main result."""
    return f"{evidence.system}_learning_{number}.png"


def readings_name(evidence: Evidence) -> str:
    """File of the learning curves of readings."""
    return f"{evidence.system}_readings.png"


def has_curve(cost: Cost) -> bool:
    """Whether the file of a result tells how it was learnt."""
    return bool(cost.curve_file and plays(cost.curve_file).curve)


def per_cent(change: Interval, digits: int = 2) -> str:
    """A change with its interval."""
    estimate, low, high = (100 * x for x in (change.estimate, change.low, change.high))
    return f"{estimate:+.{digits}f} %{_between(low, high, f'+.{digits}f')}"


def _between(low: float, high: float, form: str) -> str:
    """Ends of an interval; nothing where there is none, as over a single episode."""
    return "" if low == high else f" [{low:{form}}, {high:{form}}]"


def _contest(contest: Contest) -> Iterator[str]:
    played = plays(contest.learned.file, contest.learned.part)
    learned = contest.learned.policy
    rows = [
        _row(played, verdict(played, learned, contest.rule, metric))
        + _by_episode(single(played, learned, contest.rule, metric))
        for metric in contest.metrics
    ]
    seeds, episodes = played.of(learned, contest.metrics[0]).shape
    counts = f"{_count(seeds, 'seed')}, {_count(episodes, 'episode')}"
    same = f", in the file `{contest.rule}`" if contest.rule_called else ""
    yield f"`{learned}` ({counts}) and `{contest.rule_name}`{same}:"
    head = ["", learned, contest.rule_name, "difference", "change", "IQM of changes", "P(better)"]
    yield table(head, rows)
    if contest.ranked_by:
        tenths = by_tenth(played, learned, contest.rule, contest.ranked_by, contest.metrics[0])
        yield (
            f"By congestion, episodes ranked by the completion time of `{contest.ranked_by}`, "
            f"{_label(played, contest.metrics[0])}:"
        )
        yield table(
            ["tenth", "episodes", *head[1:5]],
            [[str(n), str(count), *_row(played, v)[1:]] for n, (count, v) in enumerate(tenths, 1)],
        )
    yield f"`{played.command}`; file `{contest.learned.file}`."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


def _row(played: Plays, found: Verdict) -> list[str]:
    digits = played.metrics[found.metric]["digits"]
    difference = found.difference
    inside = _between(difference.low, difference.high, f"+.{digits}f")
    return [
        _label(played, found.metric),
        _mean(played, found, 0),
        _mean(played, found, 1),
        f"{difference.estimate:+.{digits}f}{inside}",
        per_cent(found.change),
    ]


def _by_episode(found: Single) -> list[str]:
    share = found.improvement
    return [
        "-" if found.typical is None else per_cent(found.typical),
        f"{100 * share.estimate:.0f} %{_between(100 * share.low, 100 * share.high, '.0f')}",
    ]


def _mean(played: Plays, found: Verdict, side: int) -> str:
    return f"{found.means[side]:,.{played.metrics[found.metric]['digits']}f}"


def _unit(played: Plays, metric: str) -> str:
    about = played.metrics[metric]
    return about["unit"] or about["label"]


def _label(played: Plays, metric: str) -> str:
    return labelled(played.metrics[metric])


def _own(system: str, own: OwnAny) -> Iterator[str]:
    found = told(system, own)
    trained = f" {own.recipe.trained};" if own.recipe.trained else ""
    counts = f"{_count(found.seeds, 'seed')}, {found.episodes}, {found.cluster}"
    yield (
        f"`{as_command(own.recipe)}`:{trained} {counts}. Departures from the paper's text: "
        f"{found.departures}. `{found.command}`; file `{found.file}`."
    )
    if isinstance(own, OwnReading):
        played = plays(own.file, next(iter(own.study.worlds)))
        yield (
            f"{_label(played, own.study.shown)} against `{own.against}`: {per_cent(found.change)}; "
            f"the untrained network {_plain_per_cent(found.untrained)}."
        )
        return
    if isinstance(own, OwnRatios):
        yield from _own_ratios(own)
        return
    played = plays(own.player.file, own.player.part)
    verdicts = [verdict(played, own.player.policy, own.against, metric) for metric in own.metrics]
    head = ["", own.recipe.preset, own.against, "difference", "change"]
    yield table(head, [_row(played, v) for v in verdicts])
    yield from _seeds(played, own)


def _seeds(played: Plays, own: Own) -> Iterator[str]:
    """Each seed of a policy and of what it came from, where the file has the latter."""
    metric = own.metrics[0]
    digits = played.metrics[metric]["digits"]
    names = [f"{own.player.policy}{stage}" for stage in ("", SUPERVISED, UNTRAINED)]
    rows = [
        [
            f"`{name}`",
            ", ".join(f"{seed.mean():,.{digits}f}" for seed in played.of(name, metric)),
            per_cent(verdict(played, name, own.against, metric).change),
        ]
        for name in names
        if name in played.values
    ]
    if len(rows) > 1:
        unit = _unit(played, metric)
        yield table(["", f"each seed ({unit})", f"against `{own.against}`"], rows)


def _plain_per_cent(change: Interval | None) -> str:
    return "-" if change is None else per_cent(change)


def _own_ratios(own: OwnRatios) -> Iterator[str]:
    (found,) = read(own.file)
    policies = found["policies"]
    rows = [
        [
            metric,
            *(f"{policies[name]['means'][metric]:,.2f}" for name in ("learned", own.against)),
            per_cent(less_one(Interval(*policies["learned"]["ratios"][metric]))),
            per_cent(less_one(Interval(*policies["untrained"]["ratios"][metric]))),
        ]
        for metric in own.metrics
    ]
    yield "Changes are geometric means of the episodes' ratios:"
    yield table(["", "learned", own.against, "change", "network without training"], rows)


def _headroom(name: str) -> Iterator[str]:
    document = read(name)
    rows: list[list[str]] = []
    found = document["headroom"]["rows"]
    metrics = list(found[0]["metrics"])
    for row in found:
        cells = [f"`{row['row']}`", row["knows"]]
        for metric in metrics:
            cell, digits = row["metrics"][metric], document["metrics"][metric]["digits"]
            words, difference = f"{cell['mean']:,.{digits}f}", cell["difference"]
            if cell["policy"] != row["row"]:
                words = f"`{cell['policy']}`: {words}"
            if difference is not None:
                numbers = [f"{difference[k]:+,.{digits}f}" for k in ("estimate", "low", "high")]
                words += f" ({numbers[0]} [{numbers[1]}, {numbers[2]}])"
            cells.append(words)
        rows.append(cells)
    labels = [labelled(document["metrics"][metric]) for metric in metrics]
    episodes, cluster = document["episodes"], document["facts"]["cluster"]
    yield f"{episodes['count']} episodes of {episodes['source']}, {cluster}:"
    yield table(["policy", "knows", *labels], rows)
    yield f"`{document['command']}`; file `{name}`."


def _claims(claims: Sequence[Judged]) -> str:
    head = ["row", "claim", "paper", "measured", "reproduced if", "verdict", "reason"]
    return table(head, [[*claim[:4], *(cell or "-" for cell in claim[4:])] for claim in claims])


def _drawings(names: Sequence[str]) -> list[str]:
    """Links to the pictures of rows that have one."""
    drawn = [name for name in names if picture_of(name).is_file()]
    links = [f"[{read(name)['row']}]({LINKS}/{picture_of(name).name})" for name in drawn]
    return [f"Pictures: {', '.join(links)}."] if links else []


def _costs(costs: Sequence[Cost]) -> str:
    rows = []
    for cost in costs:
        document = read(cost.file)
        facts: dict[str, Any] = document["facts"]
        if cost.part:
            steps = "-"
            time = f"{document['trained'][cost.part]['wall_s'] / 60:.1f} min, compiling included"
            device = f"{facts['device']['kind']}, {facts['cpu_cores']} CPU cores"
        else:
            steps, time = facts["environment steps"], facts["training time"]
            device = facts["device"]
        rows.append([f"`{cost.command}`", steps, time, device, cost.paper])
    return table(["command", "environment steps", "time", "device", "the paper"], rows)
