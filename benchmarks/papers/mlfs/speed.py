"""E8 and E9: scheduler time per slot; environment decisions per second."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax

from benchmarks.papers import figures
from benchmarks.papers.lab import Lab
from benchmarks.papers.mlfs.comparison import everybody, load_name
from benchmarks.papers.mlfs.players import cluster_env, settings_of
from benchmarks.papers.mlfs.plays import test_tables
from benchmarks.papers.mlfs.slot_time import Sizes, SlotTime, time_slots
from benchmarks.papers.outcome import Outcome, Table, beside
from benchmarks.papers.throughput import environment_row
from jaxsched.envs.mlfs.show.paper import SCHEDULER_MS
from jaxsched.systems import functions

LOAD = 3.0
SIZES = Sizes(steps=2**13, warm_ups=8, repeats=5)
QUICK_SIZES = Sizes(steps=2**8, warm_ups=2, repeats=2)

BATCHES, QUICK_BATCHES = (1, 64, 256, 1024), (1, 4)
REPEATS, QUICK_REPEATS = 5, 2
STEPS, QUICK_STEPS = 2**17, 2**6
SLOT_EVERY = 32


def scheduler_time(lab: Lab) -> Outcome:
    """E8, Fig. 4h: one environment, compiled programs, the highest load."""
    tables = test_tables(lab, f"mlfs-{settings_of(lab).cluster}-x{LOAD:g}", count=1)[:1]
    sizes = QUICK_SIZES if lab.quick else SIZES
    times: dict[str, SlotTime] = {}
    for player in everybody(lab):
        lab.say(f"timing {player.name}")
        times[player.name] = time_slots(player, player.env.params(tables), sizes)
        jax.clear_caches()  # nobody else uses this policy's programs
    device = jax.devices()[0].device_kind
    table = Table(
        f"time per slot on {device}, {load_name(LOAD)} (ms): all of it, running the tasks, the "
        "scheduler (the rest), of which the choice of servers; decisions; the paper's",
        ["policy", "slot", "running", "scheduler", "choice", "decisions", "paper"],
        [
            [name, t.slot_ms, t.running_ms, t.scheduler_ms, t.choice_ms, t.decisions, _paper(name)]
            for name, t in times.items()
        ],
        digits=3,
    )
    checks = [
        beside(f"scheduler time per slot (ms), {name}", paper, f"{times[name].scheduler_ms:.3f}")
        for name in times
        if (paper := _paper(name)) != "-"
    ]

    def draw(figure: Any) -> None:
        _draw(figure, times)

    notes = (
        "the scheduler: admission, priorities, migration, offers and the choice of servers; the "
        "choice is what replaying recorded actions saves, so small ones may come out negative",
        "observations are made for rules, too, and count as the scheduler's",
        "on a machine with other work these times are upper bounds",
    )
    values = {name: {**t._asdict(), "scheduler_ms": t.scheduler_ms} for name, t in times.items()}
    return Outcome([table], checks, {"device": device, **values}, draw, notes)


def environment_speed(lab: Lab) -> Outcome:
    """E9: uniformly random actions, automatic reset, small cluster, on the default device."""
    env = replace(cluster_env(lab, "small"), slot_every=SLOT_EVERY)
    return environment_row(
        lab,
        cluster="small cluster",
        batches=lab.choose(BATCHES, QUICK_BATCHES),
        repeats=QUICK_REPEATS if lab.quick else REPEATS,
        steps=QUICK_STEPS if lab.quick else STEPS,
        options=functions.environment_options(lab.system, env),
        tables=test_tables(lab, f"mlfs-small-x{LOAD:g}"),
        note=f"a step takes a decision, if one is due; slots end every {SLOT_EVERY} steps",
    )


def _paper(name: str) -> str:
    return str(SCHEDULER_MS[name]) if name in SCHEDULER_MS else "-"


def _draw(figure: Any, times: Mapping[str, SlotTime]) -> None:
    axes = figure.subplots()
    series = {
        "scheduler": [t.scheduler_ms for t in times.values()],
        "running the tasks": [t.running_ms for t in times.values()],
    }
    figures.bars(axes, list(times), series, y_label="time per slot (ms)", slant=True)
