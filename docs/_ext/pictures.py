"""Pictures of states: who holds what at one moment of an episode, and who waits.

    python docs/_ext/pictures.py

plays one small episode of each system and writes ``docs/systems/pictures/<system>.svg``; the
directive ``{picture} <system>`` puts one of them into a page. Colours follow the page's theme.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from jaxsched.jobs.schedule import Schedule
from jaxsched.report.style import replay_colours
from jaxsched.report.svg import Canvas, Scale, tick_labels, ticks
from jaxsched.results import recorded
from jaxsched.systems import functions, registry
from jaxsched.traces import registry as traces

FOLDER = Path(__file__).parents[1] / "systems" / "pictures"
WIDTH, LEFT, CELL, GAP = 760.0, 84.0, 44.0, 26.0
HEIGHT = 250.0  # of all rows, about
MOST_WAITING = 9  # shown one by one
SEED = 3


class Played(NamedTuple):
    """A small episode and a moment of it.

    Attributes:
      trace: named trace.
      num_jobs: its first jobs.
      policy: a rule of the system.
      moment: of the episode's end, in 0 to 1.
      options: of the environment.
      says: what to look at.
      shown: share of the episode that is drawn.
      by_level: colours tell the level of a piece, not its job.
    """

    trace: str
    num_jobs: int
    policy: str
    moment: float
    options: Mapping[str, Any]
    says: str
    shown: float = 1.0
    by_level: bool = False


PLAYED = {
    "sched2": Played(
        *("sched2-68", 22, "sif", 0.23, {"num_servers": 4}),
        "Rows are GPUs. Gangs that are split over more servers than they need run longer.",
        by_level=True,
    ),
    "dl2": Played(
        *("dl2-testbed", 9, "optimus", 0.5, {"num_servers": 4}),
        "Rows are workers above and parameter servers below, stacked by job, slot by slot.",
    ),
    "chic": Played(
        *("chic-2.70", 12, "optimus_event", 0.26, {}),
        "Rows are workers above and parameter servers below; they change at arrivals and finishes.",
    ),
    "das": Played(
        *("das-contended", 40, "fifo_firstfit", 0.3, {}),
        "Rows are GPUs. Colours tell how much spread and neighbours slow a job down at that time.",
        by_level=True,
    ),
    "mlfs": Played(
        *("mlfs-small-x1", 8, "mlf_h", 0.4, {"gpus": (2, 2)}),
        "Rows are GPUs, which tasks share; colours are jobs. A task runs once in each pass over "
        "the data, so GPUs change hands often.",
        shown=0.38,
    ),
}


class Picture(SphinxDirective):
    """A system's picture, inline so that it follows the theme."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The drawing and what it shows."""
        name = self.arguments[0]
        path = FOLDER / f"{name}.svg"
        self.env.note_dependency(str(path))
        drawing = nodes.raw("", path.read_text(encoding="utf-8"), format="html")
        return [nodes.container("", drawing, *self.parse_text_to_nodes(f"*{caption(name)}*"))]


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True}


def caption(name: str) -> str:
    """What the picture shows."""
    played = PLAYED[name]
    return (
        f"{played.num_jobs} jobs of `{played.trace}` under `{played.policy}`. Left: the state at "
        f"the dashed line, by number of job; below: who waits. {played.says}"
    )


def schedule_of(name: str) -> Schedule:
    """Play the system's episode."""
    played, system = PLAYED[name], registry.get(name)
    env = functions.environment(system, **played.options)
    tables = traces.resolve(played.trace, seed=SEED, num_traces=1, num_jobs=played.num_jobs)
    (table,) = system.jobs.adapted(tables)
    table = table.take(slice(0, played.num_jobs))
    (player,) = recorded.players(system, [played.policy], [], env, len(table), {})
    return recorded.record(system, player, table, decisions=False)


def draw(schedule: Schedule, at: float, *, shown: float = 1.0, by_level: bool = False) -> str:
    """The state of a schedule at a moment, beside what comes before and after.

    Args:
      schedule: of one episode.
      at: share of what is drawn.
      shown: share of the episode that is drawn.
      by_level: colours tell levels, not jobs.
    """
    if not by_level:
        schedule = replace(schedule, level_title="")
    row = min(max(HEIGHT / schedule.num_rows, 3.4), 44.0)
    tops = np.cumsum([0.0, *(band.rows * row + 5.0 for band in schedule.bands)]) + 18.0
    end = float(schedule.pieces.end.max()) * shown
    unit_s, unit = (3600.0, "h") if end > 10_000 else (60.0, "min")
    time = Scale(0.0, end, LEFT + CELL + GAP, WIDTH - 6)
    now = float(schedule.pieces.start[np.searchsorted(schedule.pieces.start, at * end)]) + 1.0
    canvas = Canvas(WIDTH, float(tops[-1]) + (80 if schedule.level_title else 58))
    canvas.add(f"<style>{_sheet()}</style>")
    _frame(canvas, schedule, tops, row, time)
    _pieces(canvas, schedule, tops, row, time, now)
    x, bottom = time(now), float(tops[-1])
    canvas.line(x, 12, x, bottom, "now")
    canvas.text(x, 10, f"{now / unit_s:.1f} {unit}", anchor="middle")
    canvas.text(LEFT + CELL / 2, 10, "state", anchor="middle")
    marks = ticks(0.0, end / unit_s, 7)
    for mark, text in zip(marks, tick_labels(marks), strict=True):
        canvas.text(time(mark * unit_s), bottom + 12, text, anchor="middle")
    canvas.text(WIDTH - 6, bottom + 26, f"time ({unit})", anchor="end")
    _waiting(canvas, schedule, now, bottom + 46)
    _legend(canvas, schedule, bottom + 70)
    words = f"{schedule.system} under {schedule.policy} at {now:.0f} s"
    drawing = canvas.render(words).replace('class="chart"', 'class="state"')
    return drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ') + "\n"


def _frame(canvas: Canvas, schedule: Schedule, tops: Any, row: float, time: Scale) -> None:
    """Bands with their names, and their rows while nobody holds them."""
    for band, top in zip(schedule.bands, tops, strict=False):
        high = band.rows * row
        canvas.rect(LEFT, top, CELL, high, "free")
        canvas.rect(time.start, top, time.stop - time.start, high, "free")
        lines = band.name.split(" ") if high > 24 else [band.name]
        for number, word in enumerate(lines):
            middle = top + high / 2 + 4 + 13 * (number - (len(lines) - 1) / 2)
            canvas.text(LEFT - 8, middle, word, anchor="end")


def _pieces(
    canvas: Canvas, schedule: Schedule, tops: Any, row: float, time: Scale, now: float
) -> None:
    """Who holds the rows over time, and in the column of the state who does now."""
    firsts = np.cumsum([0, *(band.rows for band in schedule.bands)])
    pieces = schedule.pieces
    ends = np.minimum(pieces.end, time.high)
    columns = (pieces.job, pieces.row, pieces.rows, pieces.start, ends, pieces.level)
    for job, first, rows, start, stop, level in zip(*columns, strict=True):
        if start >= stop:
            continue
        band = max(int(np.searchsorted(firsts, first, side="right")) - 1, 0)
        y, high = float(tops[band]) + (first - firsts[band]) * row, rows * row
        colour = _class(schedule, int(job), int(level))
        canvas.rect(time(start), y, time(stop) - time(start), high, f"held {colour}")
        label, words = high >= 9, f"job on-{colour}"
        if label and time(stop) - time(start) > 18:
            canvas.text((time(start) + time(stop)) / 2, y + high / 2 + 4, str(job), words, "middle")
        if start <= now < stop:
            canvas.rect(LEFT, y, CELL, high, f"held {colour}")
            if label:
                canvas.text(LEFT + CELL / 2, y + high / 2 + 4, str(job), words, "middle")


def _class(schedule: Schedule, job: int, level: int) -> str:
    """By level where it has a title, else by job."""
    return f"level{min(level, 3)}" if schedule.level_title else f"job{job % 12}"


def _waiting(canvas: Canvas, schedule: Schedule, now: float, y: float) -> None:
    """The jobs that wait, oldest first."""
    begun = np.where(schedule.start < 0, np.inf, schedule.start)
    waiting = np.flatnonzero((schedule.submit <= now) & (begun > now)).tolist()
    canvas.text(LEFT - 8, y + 4, "waiting", anchor="end")
    first = schedule.facts[0] if schedule.facts else None
    x = LEFT
    for job in waiting[:MOST_WAITING]:
        text = f"{job}" + (f": {first.values[job]:g} {first.name}" if first else "")
        width = 7.0 * len(text) + 10
        if x + width > WIDTH - 90:
            break
        canvas.rect(x, y - 9, width, 18, "queued")
        canvas.text(x + width / 2, y + 4, text, "", "middle")
        x += width + 5
    shown = sum(1 for job in waiting if job in waiting[:MOST_WAITING])
    if not waiting:
        canvas.text(x, y + 4, "nobody")
    elif len(waiting) > shown:
        canvas.text(x + 4, y + 4, f"and {len(waiting) - shown} more")


def _legend(canvas: Canvas, schedule: Schedule, y: float) -> None:
    """What the colours of levels stand for."""
    x = LEFT
    for level in sorted(set(np.minimum(schedule.pieces.level, 3).tolist())):
        if not schedule.level_title:
            return
        words = schedule.levels[level]
        canvas.rect(x, y - 9, 11, 11, f"level{level}")
        canvas.text(x + 16, y, words)
        x += 34 + 6.4 * len(words)


def _sheet() -> str:
    """Colours, light and dark, by the page's theme where there is one."""
    themes = replay_colours()
    dark = _rules(themes["dark"])
    scoped = "\n".join(f'body[data-theme="dark"] svg.state{rule}' for rule in dark)
    automatic = "\n".join(f'body:not([data-theme="light"]) svg.state{rule}' for rule in dark)
    light = "\n".join(f"svg.state{rule}" for rule in _rules(themes["light"]))
    return f"{light}\n{scoped}\n@media (prefers-color-scheme:dark){{\n{automatic}\n}}"


def _rules(colours: Mapping[str, Any]) -> list[str]:
    rules = [
        f"{{width:100%;height:auto;color:{colours['soft']}}}",
        f" text{{font:11px sans-serif;fill:{colours['ink']}}}",
        " text.job{fill:#14171a}",
        " text.on-level3,.state text.on-job0,.state text.on-job8{fill:#fff}",
        f" .free{{fill:{colours['wash']}}}",
        f" .held{{stroke:{colours['page']};stroke-width:.6}}",
        f" .queued{{fill:none;stroke:{colours['soft']}}}",
        f" .now{{stroke:{colours['ink']};stroke-dasharray:4 3}}",
    ]
    rules += [f" .level{i}{{fill:{colour}}}" for i, colour in enumerate(colours["levels"][:4])]
    rules += [f" .job{i}{{fill:{colour}}}" for i, colour in enumerate(colours["jobs"][:12])]
    return rules


def drawn(name: str) -> str:
    """The picture of a system."""
    played = PLAYED[name]
    schedule = schedule_of(name)
    return draw(schedule, played.moment, shown=played.shown, by_level=played.by_level)


def main(names: list[str]) -> None:
    """Write the pictures of these systems, or of all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or PLAYED:
        (FOLDER / f"{name}.svg").write_text(drawn(name), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
