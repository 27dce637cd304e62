"""GPUs over time: which job held which GPU, coloured by the locality of its placement."""

from collections import defaultdict
from collections.abc import Sequence

from jaxsched.report.schema import Gantt, GanttJob, GanttPanel
from jaxsched.report.style import LEVELS
from jaxsched.report.svg import Canvas, Scale, tick_labels, ticks, xy

WIDE, NARROW = 1120.0, 365.0

_ROW = {WIDE: 2.6, NARROW: 2.0}  # height of one GPU
_GAP = 2.0  # between servers


def panel(gantt: Gantt, index: int, *, width: float) -> str:
    """One policy's episode; all panels share the time axis, so lengths compare.

    Jobs are rectangles, one per run of adjacent GPUs on a server, gathered into one path per
    colour: a thousand jobs take a few tens of kilobytes and follow the page's colours.
    """
    row = _ROW.get(width, 2.0)
    per_server, servers = gantt["gpus_per_server"], gantt["num_servers"]
    pitch = per_server * row + _GAP
    left, top = 24.0, 2.0
    canvas = Canvas(width, top + servers * pitch + 36)
    unit_s, unit = _time_unit(_end(gantt))
    time = Scale(0.0, _end(gantt) / unit_s, left, width - 8)
    bottom = top + servers * pitch
    for server in range(0, servers, max(1, round(14 / pitch))):
        y = top + server * pitch
        canvas.text(left - 6, y + per_server * row / 2 + 4, str(server), anchor="end")
    for server in range(servers + 1):
        y = top + server * pitch - _GAP / 2
        canvas.line(left, y, width - 8, y, "grid")
    marks = ticks(0.0, time.high, max(3, int(width / 110)))
    for mark, text in zip(marks, tick_labels(marks), strict=True):
        canvas.line(time(mark), bottom, time(mark), bottom + 4, "axis")
        canvas.text(time(mark), bottom + 17, text, anchor="middle")
    canvas.text((left + width - 8) / 2, bottom + 34, f"time ({unit})", anchor="middle")

    jobs = gantt["panels"][index]["jobs"]
    paths: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        x, end = time(job["start"] / unit_s), time(job["finish"] / unit_s)
        for first, count in runs(job["gpus"], per_server):
            server, gpu = divmod(first, per_server)
            y = top + server * pitch + gpu * row
            size = f"h{xy(end - x)}v{xy(count * row)}h-{xy(end - x)}z"
            paths[job_class(job)].append(f"M{xy(x)} {xy(y)}{size}")
    for name in sorted(paths, key=lambda n: (n != "single", n)):
        canvas.add(f'<path class="job {name}" d="{"".join(paths[name])}"/>')
    return canvas.render(
        f"GPUs over time under {gantt['panels'][index]['policy']}: {sentence(gantt, index)}"
    )


def sentence(gantt: Gantt, index: int) -> str:
    """What the panel shows, in words."""
    jobs = gantt["panels"][index]["jobs"]
    if not jobs:
        return "no job was started."
    unit_s, unit = _time_unit(_end(gantt))
    makespan = max(job["finish"] for job in jobs) / unit_s
    split = split_share(jobs)
    return (
        f"makespan {makespan:.1f}\u00a0{unit}, {100 * split:.0f}\u00a0% of the GPU time held by "
        "jobs without the best locality."
    )


def split_share(jobs: Sequence[GanttJob]) -> float:
    """Share of the GPU time held by jobs above level 0."""
    total = sum(_gpu_time(job) for job in jobs)
    return sum(_gpu_time(job) for job in jobs if job["level"] > 0) / total if total else 0.0


def job_class(job: GanttJob) -> str:
    """CSS class of a job's colour."""
    return "single" if job["num_gpus"] == 1 else f"level{min(job['level'], LEVELS - 1)}"


def runs(gpus: Sequence[int], per_server: int) -> list[tuple[int, int]]:
    """Runs of adjacent GPU ids within a server, as (first id, count)."""
    found: list[tuple[int, int]] = []
    for gpu in sorted(gpus):
        if found and gpu == sum(found[-1]) and gpu % per_server:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((gpu, 1))
    return found


def legend(panels: Sequence[GanttPanel]) -> dict[str, str]:
    """Key to the colours that occur: their CSS classes and what they stand for."""
    present = {job_class(job) for p in panels for job in p["jobs"]}
    names = {
        "single": "one-GPU job",
        "level0": "best locality",
        **{f"level{i}": f"locality level {i}" for i in range(1, LEVELS)},
    }
    return {name: text for name, text in names.items() if name in present}


def _gpu_time(job: GanttJob) -> float:
    return (job["finish"] - job["start"]) * len(job["gpus"])


def _end(gantt: Gantt) -> float:
    return max((job["finish"] for p in gantt["panels"] for job in p["jobs"]), default=1) or 1.0


def _time_unit(longest_s: float) -> tuple[float, str]:
    return (3600.0, "h") if longest_s >= 3 * 3600 else (1.0, "s")
