"""Published and generated statistics of the cluster workloads, side by side.

    python -m benchmarks.cluster_workloads [NAME ...] [--num-jobs 100000] [--seeds 3]
        [--plot FILE] [--json FILE]

Each workload is drawn with seeds from 0 on; the table has the published figure, the mean over
seeds, their lowest and highest, and the ratio of mean to published. ``--plot`` draws run times,
demands and the daily profile.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.pictures import PAGE_IN, new_figure, save_figure, styled
from jaxsched.traces import clusters

Flat = dict[str, float]

COLUMNS = f"  {'statistic':32} {'published':>12} {'generated':>12} {'lowest':>12} {'highest':>12}"


def main() -> None:
    """Print one table per workload; write and draw what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="workloads; all by default")
    parser.add_argument("--num-jobs", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot", type=Path, help="write a figure here")
    parser.add_argument("--json", type=Path, help="write all values here")
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        parser.error("--seeds must be at least 1")
    names = list(arguments.names or clusters.names())
    results = {name: compare(name, arguments.num_jobs, arguments.seeds) for name in names}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if arguments.plot is not None:
        plot(names, arguments.num_jobs, arguments.plot)


def compare(name: str, num_jobs: int, num_seeds: int) -> dict[str, dict[str, Any]]:
    """Statistics of one workload, printed and returned."""
    started = time.perf_counter()
    drawn = [clusters.generate_trace(name, seed, num_jobs) for seed in range(num_seeds)]
    took = (time.perf_counter() - started) / num_seeds
    measured = [dict(flatten(merged(clusters.measure(trace)))) for trace in drawn]
    published = dict(flatten(clusters.workload(name).published))
    print(f"{name}: {num_seeds} x {num_jobs} jobs, {took:.2f} s each")
    print(f"{COLUMNS} {'ratio':>7}")
    rows = {}
    for key, value in published.items():
        values = [figures.get(key, 0.0) for figures in measured]
        mean = float(np.mean(values))
        rows[key] = {"published": value, "generated": values}
        ratio = f"{mean / value:7.3f}" if value else "       "
        numbers = (value, mean, min(values), max(values))
        print(f"  {key:32} " + " ".join(f"{number:12.5g}" for number in numbers) + f" {ratio}")
    return rows


def merged(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures with the shares of 5 GPUs and more in one, as some sources have them."""
    for key in ("demand", "gpu_time"):
        shares = figures[key]
        figures[key] = shares | {
            ">=5": sum(shares[name] for name in ("5-8", "9-16", "17-32", ">32"))
        }
    return figures


def flatten(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Numbers with the path to them; profiles as the ratio of their highest to lowest weight."""
    for key, value in figures.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            for place in profile_places(value):
                yield f"{prefix}{key}[{place}]", float(value[place])
        elif value is not None and not math.isnan(value):
            yield prefix + key, float(value)


def profile_places(values: list[float]) -> range:
    """Every fourth hour, every weekday."""
    return range(0, len(values), 4 if len(values) == 24 else 1)


@styled
def plot(names: list[str], num_jobs: int, path: Path) -> None:
    """Run times, demands and daily profile of each workload, a row each."""
    figure = new_figure(PAGE_IN, 1.6 * len(names))
    rows = figure.subplots(len(names), 3, squeeze=False)
    for name, (durations, demand, profile) in zip(names, rows, strict=True):
        published = clusters.workload(name).published
        trace = clusters.generate_trace(name, 0, num_jobs)
        figures = merged(clusters.measure(trace))
        times = np.sort(trace["duration"][trace["num_gpus"] > 0])
        durations.plot(times, np.linspace(0, 1, len(times)), label="generated")
        durations.plot(*published_points(published), "o", ms=4, label="published")
        durations.set(xscale="log", xlabel="run time (s)", ylabel="share of GPU jobs", title=name)
        draw_pairs(demand, figures["demand"], published["demand"])
        demand.set(yscale="log", xlabel="GPUs of a job", ylabel="share of GPU jobs")
        if "hours" in figures:
            profile.plot(figures["hours"], label="generated")
            profile.plot(published["hours"], "o", ms=3, label="published")
            profile.set(xlabel="hour of day", ylabel="weight")
        else:
            profile.set_axis_off()
        durations.legend()
    save_figure(figure, path)


def published_points(published: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Run times (s) and the published shares of jobs up to them."""
    points = [(s, int(p[1:]) / 100) for p, s in published["duration_s"].items() if p[0] == "p"]
    points += [(int(s), share) for s, share in published.get("within_s", {}).items()]
    return [s for s, _ in points], [share for _, share in points]


def draw_pairs(axes: Any, generated: dict[str, float], published: dict[str, float]) -> None:
    """Bars of generated and published shares by size."""
    places = np.arange(len(published))
    axes.bar(places - 0.2, [generated[key] for key in published], 0.4, label="generated")
    axes.bar(places + 0.2, list(published.values()), 0.4, label="published")
    axes.set_xticks(places, list(published))


if __name__ == "__main__":
    sys.exit(exit_status(main))
