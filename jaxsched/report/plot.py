"""A comparison's bars as a picture for papers; the page has them as ``jaxsched.report.figures``."""

from jaxsched.files import PathLike
from jaxsched.pictures import COLOURS, COLUMN_IN, PAGE_IN, new_figure, save_figure, styled
from jaxsched.report.schema import Comparison, check
from jaxsched.report.summary import Summary

MOST_IN_A_ROW = 3
_ROW_IN = 0.17  # of one bar
_KINDS = {"learned": COLOURS[0], "reference": COLOURS[3], "baseline": COLOURS[4]}


@styled
def plot_comparison(comparison: Comparison, path: PathLike) -> None:
    """Bars of the metrics that a report draws, with 95 % intervals, a panel for each.

    Args:
      comparison: see ``jaxsched.report.schema``.
      path: the file; its ending chooses the format (``jaxsched.pictures``).

    Raises:
      JaxschedError: the comparison is not one, or the file cannot be written.
    """
    summary = Summary(check(comparison))
    shown = [m for m in summary.bars if any(m in p["metrics"] for p in summary.policies)]
    across = min(len(shown), MOST_IN_A_ROW)
    down = -(-len(shown) // across)
    width = COLUMN_IN if across == 1 else PAGE_IN
    figure = new_figure(width, down * (0.75 + _ROW_IN * len(summary.policies)))
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    names = [policy["name"] for policy in summary.policies]
    for axes, metric in zip(panels, shown, strict=False):
        info = summary.metrics[metric]
        cells = [summary.cells.get((name, metric)) for name in names]
        middle = [cell.estimate if cell else 0.0 for cell in cells]
        low = [max(cell.estimate - cell.low, 0.0) if cell else 0.0 for cell in cells]
        high = [max(cell.high - cell.estimate, 0.0) if cell else 0.0 for cell in cells]
        axes.barh(
            names,
            middle,
            xerr=[low, high],
            color=[_KINDS[policy["kind"]] for policy in summary.policies],
            height=0.66,
            label=metric,
            error_kw={"elinewidth": 0.8, "capsize": 1.8},
        )
        better = {"higher": ", higher is better", "lower": ", lower is better"}
        unit = f" ({info['unit']})" if info["unit"] else ""
        axes.set(xlabel=f"{info['label']}{unit}{better.get(info['better'], '')}")
        axes.set_title(info["label"], loc="left")
        axes.grid(axis="x")
        axes.invert_yaxis()
        axes.locator_params(axis="x", nbins=4)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    if len(shown) > 1:
        panels[0].invert_yaxis()
        panels[0].set_ylim(len(names) - 0.5, -0.5)  # shared: the best policy on top
    save_figure(figure, path)
