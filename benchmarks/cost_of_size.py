r"""Cost of a decision against the size of the cluster, of the window and of the job table.

    python -m benchmarks.cost_of_size [--systems sched2,dl2] [--quick] [--json FILE] [--plot FILE]

Varies one size at a time, the others being each system's own, and prints processor time per step
with the exponent of its growth: fitted over all sizes, and between the last two, where the costs of
a step that do not depend on the size no longer hide it. ``--plot`` draws all of it.

A few environments step side by side by uniform legal actions. Every table has its first jobs
anew as often as it takes, all submitted within the first hour, so that windows are full.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions

SERVERS = (8, 34, 137, 550)
WINDOWS = (16, 63, 250, 1000)
JOBS = (1_000, 10_000, 100_000)
BASE_JOBS = 2_000
SUBMITTED_S = 3600
BATCH = 8
STEPS = 64  # of each environment in a call
REPEATS = 3
LEAST_S = 0.3
QUICK = {"batch": 2, "num_steps": 4, "repeats": 1, "least_s": 0.0}
TOLERANCE = 0.1
"""Of an exponent: growth is called faster than n log n beyond this."""

Options = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """One size of a system.

    Attributes:
      title: what is counted.
      sizes: that are measured.
      options: of the environment at a size.
    """

    title: str
    sizes: tuple[int, ...]
    options: Callable[[int], Options]


def _servers(option: Callable[[int], Options]) -> Axis:
    return Axis("servers", SERVERS, option)


def _window(name: str) -> Axis:
    return Axis("jobs of the window", WINDOWS, lambda size: {name: size})


def _num_servers(size: int) -> Options:
    return {"num_servers": size}


TABLE = Axis("jobs of the table", JOBS, lambda size: {})
CHIC_GPUS = (5, 10, 20, 40)
MOST_LABELS = 4
AXES: dict[str, dict[str, Axis]] = {
    "sched2": {"cluster": _servers(_num_servers), "window": _window("window"), "table": TABLE},
    "dl2": {"cluster": _servers(_num_servers), "window": _window("window"), "table": TABLE},
    "chic": {
        "cluster": Axis("GPUs", CHIC_GPUS, lambda size: {"capacity": (size, 12 * size, 60 * size)}),
        "window": replace(_window("window"), sizes=(4, *WINDOWS)),
        "table": TABLE,
    },
    "das": {"cluster": _servers(_num_servers), "window": _window("window"), "table": TABLE},
    "mlfs": {
        "cluster": _servers(lambda size: {"gpus": (4,) * size}),
        "window": _window("max_active"),
        "table": TABLE,
    },
    "cluster": {"cluster": _servers(_num_servers), "window": _window("window"), "table": TABLE},
}
"""The sizes of each system. Chic has no servers."""


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(AXES))
    parser.add_argument("--axes", default="cluster,window,table")
    parser.add_argument("--sizes", help="instead of each axis' own, with commas between")
    parser.add_argument("--quick", action="store_true", help="a few steps of each size")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="a picture: .png, .svg or .pdf")
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    """See ``main``."""
    from jaxsched.pictures import check_picture
    from jaxsched.provenance import surroundings

    if options.plot is not None:
        check_picture(options.plot)
    sizes = read_sizes(options.sizes)
    effort: dict[str, Any] = QUICK if options.quick else {}
    curves = []
    for system in options.systems.split(","):
        for name in options.axes.split(","):
            axis = known_axis(system, name)
            rows = []
            for size in sorted(set(sizes or axis.sizes)):
                rows.append(row_of(system, axis, size, num_jobs(name, axis, size), **effort))
                print(f"{system:7} {size:8,} {axis.title:18} {text_of(rows[-1])}", flush=True)
            curve = {"system": system, "axis": name, "title": axis.title, "rows": rows}
            curve |= growth([row["size"] for row in rows], [row["cpu_us_per_step"] for row in rows])
            curves.append(curve)
            print(f"{system:7} {axis.title}: {verdict(curve)}", flush=True)
    result = {"kind": "cost_of_size", **surroundings(), "curves": curves}
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        draw(result, options.plot)


def read_sizes(text: str | None) -> tuple[int, ...]:
    """Sizes from the command line, none by default.

    Raises:
      JaxschedError: something that is no whole number from 1 on.
    """
    words = [] if text is None else text.split(",")
    if not all(word.isdecimal() and int(word) for word in words):
        raise JaxschedError(f"--sizes: {text!r}; accepted: whole numbers from 1 on, with commas")
    return tuple(map(int, words))


def known_axis(system: str, name: str) -> Axis:
    """An axis by name.

    Raises:
      JaxschedError: unknown system or axis.
    """
    if system not in AXES:
        raise JaxschedError(f"--systems: {system!r}; accepted: {', '.join(AXES)}")
    if name not in AXES[system]:
        raise JaxschedError(f"--axes: {name!r}; accepted: {', '.join(AXES[system])}")
    return AXES[system][name]


def num_jobs(name: str, axis: Axis, size: int) -> int:
    """Of the table: more than a window holds."""
    return size if name == "table" else BASE_JOBS


def crowded(table: Any, jobs: int) -> Any:
    """So many jobs, those of a table over and over, all submitted within an hour."""
    found = table.take(np.arange(jobs) % len(table))
    columns = dict(found.columns)
    submit = np.arange(jobs) * SUBMITTED_S // jobs
    if "deadline" in columns:
        columns["deadline"] = columns["deadline"] - columns["submit_time"] + submit
    columns["submit_time"] = submit.astype(columns["submit_time"].dtype)
    return replace(found, columns=columns)


def row_of(
    system_name: str,
    axis: Axis,
    size: int,
    jobs: int,
    *,
    batch: int = BATCH,
    num_steps: int = STEPS,
    repeats: int = REPEATS,
    least_s: float = LEAST_S,
) -> dict[str, Any]:
    """Measure one size."""
    import jax
    import jax.numpy as jnp

    from jaxsched import traces
    from jaxsched.bench import timing
    from jaxsched.bench.loops import at_random, environment_loop, start_many
    from jaxsched.ops import target
    from jaxsched.systems import registry

    system = registry.get(system_name)
    env = functions.environment(system, **axis.options(size))
    table = system.jobs.adapted(traces.get(functions.traces(system).test, num_traces=1))[0]
    params = env.params([crowded(table, jobs)])
    chooser = at_random(env.action_spec(params))
    loop = environment_loop(env, params, chooser, batch=batch, num_steps=num_steps)
    current = jax.tree.map(jnp.copy, start_many(env, params, batch))
    state = jax.tree.map(lambda leaf: leaf[0], current.state)
    options = target.compiler_options()
    timed = timing.measure(loop, current, repeats, least_s=least_s, compiler_options=options)
    steps = batch * num_steps * timed.calls
    return {
        "size": size,
        "jobs": jobs,
        "cpu_us_per_step": float(timed.cpu_s.min() / steps * 1e6),
        "cpu_us_median": float(np.median(timed.cpu_s) / steps * 1e6),
        "state_bytes": timing.bytes_of(state),
        "compile_s": timed.compile_s,
        "steps": steps,
    }


def growth(sizes: Sequence[int], costs: Sequence[float]) -> dict[str, Any]:
    """Exponents of a cost: fitted over all sizes, between the last two, and what n log n has there.

    All None where there is but one size.
    """
    if len(sizes) < 2:
        return dict.fromkeys(("exponent", "last_exponent", "n_log_n", "faster"))
    x, y = np.log(sizes), np.log(costs)
    last = float((y[-1] - y[-2]) / (x[-1] - x[-2]))
    linear = 1.0 + math.log(x[-1] / x[-2]) / (x[-1] - x[-2]) if x[-2] > 0 else 2.0
    return {
        "exponent": float(np.polyfit(x, y, 1)[0]),
        "last_exponent": last,
        "n_log_n": linear,
        "faster": bool(last > linear + TOLERANCE),
    }


def text_of(row: dict[str, Any]) -> str:
    """A row as words."""
    return (
        f"{row['cpu_us_per_step']:10,.1f} us of processor time per step, "
        f"{row['state_bytes']:9,} bytes of state, compiled in {row['compile_s']:.1f} s"
    )


def verdict(curve: dict[str, Any]) -> str:
    """The growth of a curve as words."""
    if curve["exponent"] is None:
        return "one size"
    found = (
        f"n^{curve['exponent']:.2f} over all sizes, n^{curve['last_exponent']:.2f} between the "
        f"last two (n log n: {curve['n_log_n']:.2f})"
    )
    return f"{found}: FASTER THAN n log n" if curve["faster"] else found


def draw(result: dict[str, Any], path: Path) -> None:
    """One panel for each axis, a line for each system."""
    from jaxsched.pictures import COLOURS, PAGE_IN, new_figure, save_figure, styled

    @styled
    def figure() -> Any:
        found = new_figure(PAGE_IN, 2.6)
        names = list(dict.fromkeys(curve["axis"] for curve in result["curves"]))
        systems = list(AXES)
        panels = found.subplots(1, len(names), sharey=True, squeeze=False)[0]
        every = [row["cpu_us_per_step"] for curve in result["curves"] for row in curve["rows"]]
        panels[0].set_ylim(min(every) / 2, max(every) * 2)  # of all panels
        for axes, name in zip(panels, names, strict=True):
            curves = [curve for curve in result["curves"] if curve["axis"] == name]
            for curve in curves:
                sizes = [row["size"] for row in curve["rows"]]
                costs = [row["cpu_us_per_step"] for row in curve["rows"]]
                colour = COLOURS[systems.index(curve["system"])]
                label = curve["system"].upper() if curve["system"] != "chic" else "Chic"
                axes.loglog(sizes, costs, "o-", markersize=3, color=colour, label=label)
            reference(axes)
            label_sizes(axes, sorted({row["size"] for curve in curves for row in curve["rows"]}))
            axes.set_title(name)
            axes.set_xlabel(" / ".join(dict.fromkeys(curve["title"] for curve in curves)))
            axes.grid(True, which="major")
        panels[0].set_ylabel("processor time per step (µs)")
        panels[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return found

    save_figure(figure(), path)


def label_sizes(axes: Any, sizes: list[int]) -> None:
    """Name the sizes themselves where they are few, or decades."""
    axes.xaxis.minorticks_off()
    if len(sizes) <= MOST_LABELS:
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])


def reference(axes: Any) -> None:
    """A line that grows like n log n, from the highest cost shown at the largest size down."""
    low, high = axes.get_xlim()
    bottom, top = axes.get_ylim()
    sizes = np.geomspace(max(low, 2.0), high, 30)
    shape = sizes * np.log(sizes)
    axes.plot(sizes, top * shape / shape[-1], ":", color="#7c8899", linewidth=1, label="n log n")
    axes.set_xlim(low, high)
    axes.set_ylim(bottom, top)


if __name__ == "__main__":
    sys.exit(exit_status(main))
