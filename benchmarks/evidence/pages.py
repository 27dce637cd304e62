"""A system's page of results, as Markdown."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.evidence.judge import Single, Verdict, by_tenth, less_one, single, verdict
from benchmarks.evidence.parts import Contest, Cost, Evidence, Own, OwnRatios
from benchmarks.evidence.sources import Plays, picture_of, plays, read
from jaxsched.report.summary import labelled
from jaxsched.results.statistics import Interval

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
        parts += [f"## Learned against `{contest.rule}`: {contest.title}", *_contest(contest)]
        if contest.ranked_by:
            parts.append(f"![by tenth]({picture_name(evidence, number)})")
    if evidence.own:
        parts.append("## The paper's own recipe here")
        parts += [text for own in evidence.own for text in _own(own)]
    if evidence.headroom:
        parts += ["## Head-room", HEADROOM]
        parts += [text for name in evidence.headroom for text in _headroom(name)]
    if evidence.rows:
        parts += ["## The paper's evaluation, claim by claim", _claims(evidence.rows)]
        parts += _drawings(evidence.rows)
    if evidence.cost:
        parts += ["## Cost", _costs(evidence.cost)]
        parts += [
            f"`{cost.command}` learnt so:\n\n![learning curve]({curve_name(evidence, number)})"
            for number, cost in enumerate(evidence.cost, 1)
            if has_curve(cost)
        ]
    return "\n\n".join(parts) + "\n"


def summary(systems: Sequence[Evidence]) -> str:
    """One row per system."""
    rows = []
    for evidence in systems:
        for contest in evidence.contests[:1]:
            played = plays(contest.learned.file, contest.learned.part)
            found = verdict(played, contest.learned.policy, contest.rule, contest.metrics[0])
            own = _own_words(evidence.own[0]) if evidence.own else "see the page"
            rows.append(
                [
                    f"[{evidence.title}]({evidence.system}.md)",
                    evidence.claim,
                    own,
                    f"{_mean(played, found, 0)} {_unit(played, found.metric)}",
                    f"{_mean(played, found, 1)} (`{contest.rule}`)",
                    per_cent(found.change),
                    contest.title,
                ]
            )
    head = [
        "system",
        "the paper claims",
        "the paper's own recipe here",
        "our recipe",
        "best rule known",
        "change",
        "episodes",
    ]
    where = "Each system's page has the rest; [learners and their options](learners.md) another."
    parts = ["# Results", NOTE, where, table(head, rows)]
    costs = [cost for evidence in systems for cost in evidence.cost]
    if costs:
        parts += ["## What training costs, beside what the papers say", _costs(costs)]
    return "\n\n".join(parts) + "\n"


def picture_name(evidence: Evidence, number: int) -> str:
    """File of a contest's picture."""
    return f"{evidence.system}_{number}.png"


def curve_name(evidence: Evidence, number: int) -> str:
    """File of the learning curve of a main result."""
    return f"{evidence.system}_learning_{number}.png"


def has_curve(cost: Cost) -> bool:
    """Whether the file of a result tells how it was learnt."""
    return bool(cost.curve_file and plays(cost.curve_file).curve)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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
    yield f"`{learned}` ({counts}) and `{contest.rule}`:"
    head = ["", learned, contest.rule, "difference", "change", "IQM of changes", "P(better)"]
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


def _own(own: Own | OwnRatios) -> Iterator[str]:
    if isinstance(own, OwnRatios):
        yield from _own_ratios(own)
        return
    played = plays(own.player.file, own.player.part)
    found = [verdict(played, own.player.policy, own.against, metric) for metric in own.metrics]
    seeds, episodes = played.of(own.player.policy, own.metrics[0]).shape
    head = ["", own.player.policy, own.against, "difference", "change"]
    yield f"{_count(seeds, 'seed')}, {_count(episodes, 'episode')}, `{played.command}`:"
    yield table(head, [_row(played, v) for v in found])


def _own_ratios(own: OwnRatios) -> Iterator[str]:
    (found,) = read(own.file)
    policies = found["policies"]
    counts = f"{_count(len(found['seeds']), 'seed')}, {_count(found['episodes'], 'episode')}"
    yield (
        f"{counts}, {own.words}, `{found['command']}`; changes are geometric means of the "
        "episodes' ratios:"
    )
    rows = [
        [
            metric,
            *(f"{policies[name]['means'][metric]:,.2f}" for name in ("learned", own.against)),
            per_cent(_ratio(policies["learned"], metric)),
            per_cent(_ratio(policies["untrained"], metric)),
        ]
        for metric in own.metrics
    ]
    yield table(["", "learned", own.against, "change", "network without training"], rows)


def _ratio(policy: dict[str, Any], metric: str) -> Interval:
    return less_one(Interval(*policy["ratios"][metric]))


def _own_words(own: Own | OwnRatios) -> str:
    if isinstance(own, OwnRatios):
        learned = read(own.file)[0]["policies"]["learned"]
        change = per_cent(_ratio(learned, own.metrics[0]))
        return f"{change} against `{own.against}`, {own.words}"
    played = plays(own.player.file, own.player.part)
    found = verdict(played, own.player.policy, own.against, own.metrics[0])
    return f"{per_cent(found.change)} against `{own.against}`"


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


def _claims(names: Sequence[str]) -> str:
    rows = []
    for name in names:
        document = read(name)
        for check in document["checks"]:
            note = f" ({check['note']})" if check["note"] else ""
            rows.append(
                [
                    document["row"],
                    check["item"],
                    check["paper"],
                    check["measured"],
                    check["accept"],
                    check["verdict"] + note,
                ]
            )
    return table(["row", "claim", "paper", "measured", "accepted", ""], rows)


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
