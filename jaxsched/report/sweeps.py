"""The picture of a sweep: one line per combination of settings across parallel axes."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxsched.traces.trace_plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 1.9, 4.2  # inches of an axis, and of the picture
MOST_DECADES_LINEAR = 1.0


def parallel_coordinates(
    paths: Sequence[str],
    entries: Sequence[Mapping[str, Any]],
    *,
    label: str,
    higher: bool,
) -> "Figure":
    """A figure: an axis per setting, the score at the right; better combinations are darker.

    Args:
      paths: the settings, from left to right.
      entries: ``values`` (path -> as typed) and ``mean`` score of each combination.
      label: of the score.
      higher: whether a higher score is better.
    """
    columns = [_positions([entry["values"][path] for entry in entries]) for path in paths]
    scores = [float(entry["mean"]) for entry in entries]
    places, ticks = zip(*columns, strict=True) if columns else ((), ())
    low, high = min(scores), max(scores)
    ends = [(score - low) / (high - low) if high > low else 0.5 for score in scores]
    figure = new_figure(WIDTH * (len(paths) + 1.5), HEIGHT)
    axes = figure.subplots()
    for index, end in enumerate(ends):
        line = [*(column[index] for column in places), end]
        good = end if higher else 1 - end
        shade = 0.15 + 0.85 * good
        axes.plot(range(len(line)), line, color=(0.04, 0.37, 0.71, shade), linewidth=1 + good)
    for number, marks in enumerate([*ticks, [(0.0, f"{low:.4g}"), (1.0, f"{high:.4g}")]]):
        axes.axvline(number, color="0.6", linewidth=0.8)
        for place, text in dict(marks).items():
            axes.annotate(text, (number, place), xytext=(4, 0), textcoords="offset points", size=8)
    names = [path.rpartition(".")[2] for path in paths]
    axes.set_xticks(range(len(paths) + 1), [*names, label], size=9)
    axes.set_xlim(-0.2, len(paths) + 0.5)
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _positions(values: Sequence[str]) -> tuple[list[float], list[tuple[float, str]]]:
    """Where values stand on an axis from 0 to 1, and what is written there.

    Numbers stand by size, by their logarithm where they span more than a decade; words in order.
    """
    words = list(dict.fromkeys(values))
    try:
        numbers = {word: float(word) for word in words}
    except ValueError:
        numbers = {word: float(place) for place, word in enumerate(words)}
    least, most = min(numbers.values()), max(numbers.values())
    if least > 0 and math.log10(most / least) > MOST_DECADES_LINEAR:
        numbers = {word: math.log(number) for word, number in numbers.items()}
        least, most = min(numbers.values()), max(numbers.values())
    span = most - least
    places = {word: (n - least) / span if span else 0.5 for word, n in numbers.items()}
    return [places[value] for value in values], [(places[word], word) for word in words]
