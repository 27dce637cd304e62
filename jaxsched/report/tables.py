"""The comparison as a table for the terminal."""

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from jaxsched.errors import counted
from jaxsched.report.readable import in_readable_units
from jaxsched.report.schema import Comparison, Policy, check
from jaxsched.report.summary import DASH, Summary, number

_KIND_STYLE = {"learned": "bold cyan", "reference": "yellow", "baseline": ""}
_ARROW = {"higher": "\u2191", "lower": "\u2193", "neither": " "}


def comparison_table(
    comparison: Comparison | Summary,
    *,
    metrics: list[str] | None = None,
    policies: list[str] | None = None,
) -> Table:
    """A rich table with one row per metric and one column per policy, best policies first.

    Under each mean stands the half width of its 95 % bootstrap interval over the episodes. The
    best value of a row is bold. The last column says how many times better than the best baseline
    of that row the best learned policy is (or, without one, the reference policy).

    Args:
        comparison: the dict of `jaxsched.report.schema`, or a `Summary` of it.
        metrics: names of the rows, in order; all by default.
        policies: names of the columns; all by default. Eight policies need 100 characters.

    Raises:
        JaxschedError: when ``comparison`` does not follow the schema.
    """
    if not isinstance(comparison, Summary):
        comparison = Summary(in_readable_units(check(comparison)))
    summary = comparison
    shown = [p for p in summary.policies if policies is None or p["name"] in policies]
    episodes = summary.comparison["episodes"]
    contenders = [p for p in shown if p["kind"] != "baseline"][:1]
    if not summary.of_kind("baseline"):
        contenders = []
    table = Table(
        title=summary.comparison["title"],
        caption=f"Means over {counted(episodes['count'], 'episode')} ({episodes['source']})"
        + "; ± half width of the 95 % bootstrap interval"
        + ("; x best = times better than the best baseline of the row" if contenders else "")
        + (f"\n{left}" if (left := summary.left_unfinished(shown)) else ""),
        caption_justify="left",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    words = [word for m in summary.metrics.values() for word in m["label"].split()]
    table.add_column("metric", min_width=2 + max(map(len, words), default=6))
    for policy in shown:
        table.add_column(
            policy["name"],
            justify="right",
            header_style=_KIND_STYLE[policy["kind"]],
            no_wrap=True,
            overflow="fold",
        )
    for policy in contenders:
        table.add_column(f"{policy['name']}\nx best", justify="right", overflow="fold")
    for name in metrics or list(summary.metrics):
        cells = [_cell(summary, policy, name) for policy in shown]
        gains = [_gain(summary, policy, name) for policy in contenders]
        table.add_row(_label(summary, name), *cells, *gains)
    return table


def fitting_table(summary: Summary, console: Console) -> tuple[Table, list[str]]:
    """The table with as many policies as a terminal has room for, and the names of the others.

    Baselines go first, from the last one; where not even the trained policies fit, columns are
    narrower than their content. What is no terminal gets lines as long as it takes.
    """
    names = [policy["name"] for policy in summary.policies]
    kept = {policy["name"] for policy in summary.of_kind("learned")} or set(names[:1])
    wide = console.options.update(max_width=10_000)
    left_out: list[str] = []
    while True:
        shown = [name for name in names if name not in left_out]
        table = comparison_table(summary, policies=shown)
        spare = [name for name in shown if name not in kept]
        needed = Measurement.get(console, wide, table).minimum
        if not console.is_terminal:
            console.width = max(console.width, needed)
        if needed <= console.width or not spare:
            return table, left_out[::-1]
        left_out.append(spare[-1])


def words_table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """A rich table of words, the first column to the left."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(
            column, justify="right" if place else "left", no_wrap=not place, overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    return table


def _label(summary: Summary, name: str) -> Text:
    metric = summary.metrics[name]
    text = Text(f"{_ARROW[metric['better']]} {metric['label']}")
    if metric["unit"]:
        text.append(f" ({metric['unit']})", style="dim")
    return text


def _cell(summary: Summary, policy: Policy, name: str) -> Text:
    cell = summary.cells.get((policy["name"], name))
    if cell is None:
        return Text(DASH, style="dim")
    digits = summary.metrics[name]["digits"]
    style = "bold" if summary.is_best(policy, name) else ""
    text = Text(_plain(number(cell.estimate, digits)), style=style, no_wrap=True)
    text.append(f"\n±{_plain(number(cell.half_width, digits))}", style="not bold dim")
    return text


def _gain(summary: Summary, policy: Policy, name: str) -> Text:
    gain = summary.gain(policy, name)
    if gain is None:
        return Text(DASH, style="dim")
    text = Text(number(gain.estimate, 2), no_wrap=True)
    text.append(f"\n±{number(gain.half_width, 2)}", style="dim")
    return text


def _plain(text: str) -> str:
    """Terminals draw the narrow space at any width; a plain one keeps the columns aligned."""
    return text.replace("\u202f", " ")
