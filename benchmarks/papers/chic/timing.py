"""X4: wall time per sequence and decisions of the shipped policies, Optimus at other intervals."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from benchmarks.papers import figures
from benchmarks.papers.chic.common import ACT, RATE, study, workload
from benchmarks.papers.lab import Lab, Player
from benchmarks.papers.latency import inference_ms
from benchmarks.papers.outcome import Outcome, Table, beside
from benchmarks.papers.samples import Sample, difference, mean_of, plain, sample_of
from jaxsched.envs.chic.intervals import OptimusIntervals, optimus
from jaxsched.envs.chic.show.paper import (
    BEST_INTERVAL,
    INFERENCE_MS,
    PAIR_TIME_OVER_OPTIMUS,
    TIME_OVER_PAIR,
)
from jaxsched.systems import functions
from jaxsched.systems.parts import Played

INTERVALS_S = (600.0, 300.0, 150.0)
REPEATS = 20
SHIPPED = {"chic": "pretrained", "chic_pair": "pretrained-pair"}
NOTE = (
    "the policies that the package ships, one for all rates; the test tables come from a seed that "
    "is used for nothing else; intervals are 95 % bootstraps over tables"
)


def wall_time(lab: Lab) -> Outcome:
    """X4, Fig. 5."""
    recipe = study(lab, "chic", RATE).recipe
    tables = lab.test_tables(workload(RATE), recipe)
    players = {name: lab.shipped(shipped) for name, shipped in SHIPPED.items()}
    inference = {
        name: inference_ms(*player, player.env.params(tables)) for name, player in players.items()
    }
    first = functions.heuristic(lab.system, "optimus", recipe.env, 0, {}).env
    assert isinstance(first, OptimusIntervals)
    for interval in INTERVALS_S:
        view = replace(first, interval=interval)
        players[f"optimus {interval:.0f} s"] = Player(view, optimus(view), ())
    samples: dict[str, Sample] = {}
    seconds: dict[str, float] = {}
    for name, (env, policy, weights) in players.items():
        params, one = env.params(tables), env.params(tables[:1])
        play = partial(functions.play, lab.system, env, policy)
        samples[name] = sample_of([play(params, weights)])
        seconds[name] = _seconds(partial(play, one, weights))
    steps = {name: float(sample["steps"].mean()) for name, sample in samples.items()}
    table = Table(
        "30 workloads at 1.8 /h: time in seconds of the cluster, of this machine, decisions",
        ["policy", "mean completion (s)", "run (ms)", "decisions", "one inference (ms)"],
        [
            [n, mean_of(s, ACT), 1e3 * seconds[n], steps[n], inference.get(n)]
            for n, s in samples.items()
        ],
        digits=2,
    )
    at = {interval: samples[f"optimus {interval:.0f} s"] for interval in INTERVALS_S}
    ratio = steps["chic"] / max(steps["chic_pair"], 1.0)
    slower = seconds["chic"] / seconds["chic_pair"]
    checks = [
        beside("inferences of chic over those of chic_pair", "-", ratio),
        beside("run time of chic over that of chic_pair", TIME_OVER_PAIR, f"{slower:.2f}"),
        beside(
            "run time of chic_pair over that of Optimus every 600 s",
            PAIR_TIME_OVER_OPTIMUS,
            f"{seconds['chic_pair'] / seconds['optimus 600 s']:.2f}",
        ),
        beside("one inference of chic (ms)", INFERENCE_MS, f"{inference['chic']:.3f}"),
        beside(
            "Optimus every 300 s less every 600 s (s)", "< 0", difference(at[300.0], at[600.0], ACT)
        ),
    ]
    for name in SHIPPED:
        best = min((600.0, 300.0), key=lambda i: at[i][ACT].mean())
        gap = difference(samples[name], at[best], ACT)
        item = f"{name} less the better of Optimus 600 and 300 (s)"
        checks.append(beside(item, "< 0", gap))
    gap = difference(at[300.0], at[150.0], ACT)
    words = f"{gap.estimate:.1f} [{gap.low:.1f}, {gap.high:.1f}]"
    checks.append(beside("Optimus every 300 s less every 150 s (s)", BEST_INTERVAL, words))

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        names = list(samples)
        acts = [mean_of(s, ACT) for s in samples.values()]
        times = [1e3 * seconds[n] for n in names]
        figures.bars(left, names, {"mean": acts}, y_label="mean completion time (s)", slant=True)
        figures.bars(right, names, {"run": times}, y_label="run of 30 workloads (ms)", slant=True)

    values: dict[str, Any] = {n: {**plain(s), "run_s": seconds[n]} for n, s in samples.items()}
    values["inference_ms"] = inference
    note = (
        f"run: one sequence, compiled, environment included, median of {REPEATS}; on a machine "
        "with other work these times are upper bounds"
    )
    return Outcome([table], checks, values, draw, [NOTE, note])


def _seconds(play: Callable[[], Played]) -> float:
    """Median of repeated plays, after one that compiles."""
    play()
    laps = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        play()
        laps.append(time.perf_counter() - began)
    return median(laps)
