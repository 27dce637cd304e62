"""Pictures for papers: one style, PNG, SVG and PDF by the file's ending, their data beside them.

Widths are those of a two-column page, text has the size that it has in print, fonts are embedded.
Colours are those of the reports' light pages. matplotlib is loaded when something is drawn.
"""

import csv
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from jaxsched.errors import JaxschedError, first_line
from jaxsched.files import PathLike, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_IN, PAGE_IN = 3.35, 7.0
"""Widths of one column and of the page, inches."""
ENDINGS = (".png", ".svg", ".pdf")
PRINTED = (".svg", ".pdf")
"""Endings of pictures whose data are written beside them."""
DATA_ENDING = ".data.csv"
COLOURS = (
    "#0a5fb4", "#00806b", "#7b3fa0", "#c07600", "#7c8899", "#a3260f", "#8f5b00", "#6f7f76",
)  # fmt: skip
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "figure.titlesize": 9,
    "lines.linewidth": 1.2,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#d9dce0",
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,  # whole fonts: letters stay letters
    "svg.fonttype": "path",  # letters as outlines: alike wherever they are shown
    "svg.hashsalt": "jaxsched",
}
PNG_DPI = 170

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Point(NamedTuple):
    """A number of a picture; ``low`` and ``high`` are the ends of its interval, if it has one."""

    panel: str
    series: str
    x: Any
    y: float
    low: float | None = None
    high: float | None = None


@contextmanager
def _style() -> Iterator[None]:
    """The style of all pictures, whatever the caller's own settings of matplotlib are.

    Raises:
      JaxschedError: matplotlib cannot be used.
    """
    matplotlib = _matplotlib()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # settings that matplotlib is about to drop
        usual = {
            name: value
            for name, value in matplotlib.rcParamsDefault.items()
            if not name.startswith(("backend", "interactive", "toolbar", "webagg"))
        }
        context = matplotlib.rc_context({**usual, **STYLE})
        context.__enter__()
    try:
        yield
    finally:
        context.__exit__(None, None, None)


def _matplotlib() -> Any:
    """The module, whatever window system the surroundings name: pictures are only written.

    ``MPLBACKEND`` of a notebook is inherited by the commands that it starts, and matplotlib does
    not load where the package of that backend is not installed.
    """
    if "matplotlib" in sys.modules:
        return sys.modules["matplotlib"]
    backend = os.environ.pop("MPLBACKEND", None)
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)  # a folder of settings that cannot be written does not matter
    try:
        import matplotlib
    except Exception as error:  # a broken installation or a broken file of settings
        raise JaxschedError(f"no picture can be drawn: {first_line(error)}") from error
    finally:
        log.setLevel(level)
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with suppress(ValueError, ImportError):  # the caller's own figures
            matplotlib.rcParams["backend"] = backend
    return matplotlib


def styled(draw: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that draws, in the style of all pictures."""

    @wraps(draw)
    def drawn(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        with _style():
            return draw(*arguments, **options)

    return drawn


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure (inches) that needs no display."""
    _matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_picture(path: PathLike) -> str:
    """The ending of a picture's name.

    Raises:
      JaxschedError: it is none of ``ENDINGS``.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise JaxschedError(f"{path}: expected a name that ends in {' or '.join(ENDINGS)}")
    return ending


@styled
def save_figure(figure: "Figure", path: PathLike) -> None:
    """Write a figure in the format of the name's ending; letters that no font has become boxes.

    The same figure gives the same bytes. Beside a picture for print lie its data
    (``NAME.data.csv``, :func:`points_of`).

    Raises:
      JaxschedError: another ending than ``ENDINGS``, a figure that cannot be drawn, or a file that
        cannot be written.
    """
    ending = check_picture(path)
    buffer, form = io.BytesIO(), ending.removeprefix(".")
    dated = {".svg": "Date", ".pdf": "CreationDate"}.get(ending, "Software")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            figure.savefig(buffer, format=form, dpi=PNG_DPI, metadata={dated: None})
    except Exception as error:  # fonts, settings, memory: all else is done by now
        raise JaxschedError(f"{path}: cannot be drawn: {first_line(error)}") from error
    write_whole(path, with_palette(buffer) if ending == ".png" else buffer.getvalue())
    if ending in PRINTED:
        write_whole(data_path(path), data_of(figure).encode())


def with_palette(png: io.BytesIO) -> bytes:
    """A picture in its 256 most useful colours, which takes a third of the bytes."""
    from PIL import Image

    kept = io.BytesIO()
    picture = Image.open(png).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
    return kept.getvalue()


def data_path(path: PathLike) -> Path:
    """Where the data of a picture for print go."""
    return Path(path).with_suffix(DATA_ENDING)


def legend_beside(axes: "Axes") -> None:
    """The legend at the right of the axes, and so outside the data."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)


def legend_above(axes: "Axes") -> None:
    """The legend above the axes, at the right of the title, for panels that share a row."""
    columns = len(axes.get_legend_handles_labels()[1])
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=columns,
        borderaxespad=0.1,
        columnspacing=0.8,
        handlelength=1.2,
        handletextpad=0.4,
    )


def data_of(figure: "Figure") -> str:
    """The numbers of a figure as CSV: panel, series, x, y, and intervals where there are any."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Point._fields)
    for point in points_of(figure):
        writer.writerow(["" if value is None else _plain(value) for value in point])
    return text.getvalue()


def _plain(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value


def points_of(figure: "Figure") -> Iterator[Point]:
    """The numbers of lines, bars and bands of a figure; panels are called by their titles."""
    for number, axes in enumerate(figure.axes):
        words = (axes.get_title(loc=place) for place in ("left", "center"))
        panel = next(filter(None, words), "") or axes.get_ylabel() or f"panel {number}"
        yield from _of_axes(axes, panel)


def _of_axes(axes: "Axes", panel: str) -> Iterator[Point]:
    from matplotlib.collections import PolyCollection
    from matplotlib.container import BarContainer, ErrorbarContainer

    names = (_named(axes.get_xticklabels(), 0), _named(axes.get_yticklabels(), 1))
    held: set[int] = set()
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer) and container.lines[0] is not None:
            held.add(id(container.lines[0]))
            yield from _of_errorbars(container, panel)
        elif isinstance(container, BarContainer):
            yield from _of_bars(container, panel, names)
    for line in axes.lines:
        label = str(line.get_label())
        if id(line) in held or label.startswith("_nolegend") or line.get_linestyle() == "None":
            continue
        for x, y in zip(*_numbers(line.get_xdata(), line.get_ydata()), strict=True):
            yield Point(panel, "" if label.startswith("_") else label, x, y)
    for band in axes.collections:
        if isinstance(band, PolyCollection):
            label = str(band.get_label())
            for path in band.get_paths():
                for x, y in path.vertices.tolist():  # type: ignore[union-attr]
                    yield Point(panel, f"{'' if label.startswith('_') else label} (outline)", x, y)


def _named(labels: Any, axis: int) -> dict[float, str]:
    """Where the ticks of an axis stand, and what they say."""
    return {float(text.get_position()[axis]): text.get_text() for text in labels}


def _numbers(x: Any, y: Any) -> tuple[list[Any], list[float]]:
    import numpy as np

    return np.asarray(x).tolist(), np.asarray(y, np.float64).tolist()


def _of_errorbars(container: Any, panel: str) -> Iterator[Point]:
    middle, _, bars = container.lines
    label = str(container.get_label())
    segments = bars[0].get_segments() if bars else []
    for place, (x, y) in enumerate(zip(*_numbers(*middle.get_data()), strict=True)):
        ends = segments[place][:, 1].tolist() if place < len(segments) else [None, None]
        yield Point(panel, label, x, y, *ends)


def _of_bars(container: Any, panel: str, names: tuple[Any, Any]) -> Iterator[Point]:
    label = str(container.get_label())
    bars = container.errorbar.lines[2] if container.errorbar is not None else ()
    segments = bars[0].get_segments() if bars else []
    upright = container.orientation != "horizontal"
    for place, patch in enumerate(container.patches):
        if upright:
            x, y = patch.get_x() + patch.get_width() / 2, patch.get_height()
        else:
            x, y = patch.get_y() + patch.get_height() / 2, patch.get_x() + patch.get_width()
        ends: Any = [None, None]
        if place < len(segments):
            ends = segments[place][:, 1 if upright else 0].tolist()
        ticks = names[0] if upright else names[1]
        nearest = min(((abs(at - x), at) for at in ticks), default=(1.0, 0.0))[1]
        close = abs(nearest - x) <= 0.5 and ticks.get(nearest)
        named = close if close else x
        yield Point(panel, "" if label.startswith("_") else label, named, float(y), *ends)
