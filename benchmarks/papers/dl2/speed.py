"""E15: latency of one inference, and environment steps per second."""

from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.dl2.common import PRESETS, study
from benchmarks.papers.lab import Lab
from benchmarks.papers.latency import inference_ms
from benchmarks.papers.outcome import Outcome, Table, beside
from jaxsched.bench.throughput import throughput
from jaxsched.envs.dl2.show.paper import INFERENCE_MS
from jaxsched.systems import functions
from jaxsched.systems.stages import stages_of

BATCHES = (1, 64, 1024, 4096)
REPEATS, QUICK_REPEATS = 10, 3
QUICK_STEPS = 2**14
NETWORKS = {"the paper's": "paper", "main recipe": "quick"}


def speed(lab: Lab) -> Outcome:
    """E15."""
    latency = {}
    for words, preset in NETWORKS.items():
        chosen = study(lab, preset)
        tables = lab.tables(chosen.workload, "validation", chosen.recipe)
        setup = stages_of(lab.system, chosen.recipe, tables)[-1]
        params = setup.play_env.params(tables)
        weights = functions.init_weights(lab.system, setup.play_env, setup.network, params)
        latency[words] = inference_ms(setup.play_env, setup.policy, weights, params)
    chosen = study(lab, PRESETS["sim"])
    measured = throughput(
        lab.system.name,
        preset=PRESETS["sim"],
        batches=BATCHES,
        repeats=QUICK_REPEATS if lab.quick else REPEATS,
        figures=("environment",),
        tables=lab.tables(chosen.workload, "validation", chosen.recipe),
        steps_per_repeat=QUICK_STEPS if lab.quick else None,
        progress=lab.say,
    )
    rates = {row["batch"]: row["steps_per_s"] for row in measured["rows"]}
    table = Table(
        "environment steps per second, uniform legal actions, simulated cluster",
        ["environments", "median", "least", "most"],
        [
            [str(batch), *(r[name] for name in ("median", "min", "max"))]
            for batch, r in rates.items()
        ],
        digits=0,
    )
    times = Table(
        "one inference at batch size 1 (ms)",
        ["network", "median"],
        [[words, value] for words, value in latency.items()],
        digits=3,
    )
    checks = [
        beside(f"one inference, {words} network (ms)", INFERENCE_MS, f"{value:.3f}")
        for words, value in latency.items()
    ]
    best = max(rates, key=lambda batch: rates[batch]["median"])
    words = f"{rates[best]['median']:,.0f} with {best}"
    checks.append(beside("most environment steps per second", "-", words))

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        series = {"steps/s": [(float(b), r["median"]) for b, r in rates.items()]}
        figures.curves(axes, series, x_label="environments", y_label="steps per second")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")

    note = "on a machine with other work these are lower bounds of the speed"
    values = {"inference_ms": latency, "throughput": measured}
    return Outcome([table, times], checks, values, draw, [note])
