r"""What Chic's own recipe lacks: one change at a time, the reward's terms apart.

    python -m benchmarks.chic_recipe [--variants "paper;inert"] [--updates 400] [--seeds 3]
        [--json FILE] [--picture FILE]

Trains variants of the preset ``paper`` on ``chic-1.80`` and plays validation sequences as it goes.
The return of an episode there falls into time (minus the workloads' time in the system, in units of
1,200 s), empty rows (p1 for each choice of one) and first units (p2, paid back once a workload can
train). Prints, per variant, the completion time against Optimus every 600 s at the start, at the
best and at the last evaluation, and the terms at the last. What is printed is of validation
sequences: it says what to change, not how good it is.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.readings import Draw, begin
from benchmarks.scripts import chosen, exit_status
from jaxsched.errors import JaxschedError
from jaxsched.systems import functions, registry

INERT = ("env.void_outside=inert", "loop.rollout_length=6144")
TEN, COMMON = ("learner.inner_steps=10",), ("episodes.shared=true",)
MASKED, LAYERS = ("env.free_choice=false",), ("network=mlp-64-32", "network_options.dropout=0")
POPULATION = ("loop.num_envs=256", "learner.num_trajectories=255", "learner.rho=0.1")
VARIANTS: dict[str, tuple[str, ...]] = {
    "paper": (),
    "inert": INERT,
    "no penalties": ("params.p1=0", "params.p2=0"),
    "inert, no penalties": (*INERT, "params.p1=0", "params.p2=0"),
    "common sequence": COMMON,
    "10 steps": TEN,
    "no dropout": ("network_options.dropout=0",),
    "two layers": LAYERS,
    "masked": MASKED,
    "population": POPULATION,
    "10 steps, common": (*TEN, *COMMON),
    "10 steps, common, masked": (*TEN, *COMMON, *MASKED),
    "10 steps, common, two layers": (*TEN, *COMMON, *LAYERS),
    "two layers, masked": (*LAYERS, *MASKED),
    "10 steps, two layers, masked": (*TEN, *LAYERS, *MASKED),
    "10 steps, no dropout, masked": (*TEN, "network_options.dropout=0", *MASKED),
    "10 steps, common, two layers, masked": (*TEN, *COMMON, *LAYERS, *MASKED),
}
"""Changes of the paper's recipe."""

EVALUATIONS = 10
COLOURS = 5
TERMS = ("time", "empty rows", "first units")
TRAIN, VALIDATION = Draw("chic-1.80", 0, 1000), Draw("chic-1.80", 1, 30)


def main() -> None:
    """Train, print the table, write JSON and picture if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--variants", default=";".join(VARIANTS), help="names between semicolons")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.updates < EVALUATIONS or options.seeds < 1:
        raise JaxschedError(f"--updates must be at least {EVALUATIONS}, --seeds at least 1")
    names = chosen(options.variants, VARIANTS, "--variants", sign=";")
    found = {}
    for name in names:
        found[name] = variant(VARIANTS[name], options.updates, options.seeds)
        print(text_of(name, found[name]), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.picture is not None:
        draw(options.picture, found)


def variant(changes: Sequence[str], updates: int, seeds: int) -> dict[str, Any]:
    """Curves of one variant: lists by evaluation of lists by seed."""
    from jaxsched.core import training

    system = registry.get("chic")
    recipe, setup, carry = begin("chic", "paper", TRAIN, changes, updates, seeds)
    validation = VALIDATION.tables()
    params = recipe.env.params(validation, **recipe.stages[-1].params)
    rule = functions.heuristic(system, "optimus", setup.play_env, len(validation[0]), {})
    optimus = functions.play(system, rule.env, rule.policy, rule.env.params(validation)).metrics
    curves: dict[str, list[list[float]]] = {}
    for part in range(EVALUATIONS + 1):
        weights = setup.learner.policy_params(carry.learner_state)
        rows = []
        for seed in range(seeds):
            one = jax.tree.map(itemgetter(seed), weights)
            rows.append(terms(system, setup, params, one))
        for term in rows[0]:
            curves.setdefault(term, []).append([row[term] for row in rows])
        for _ in range(updates // EVALUATIONS if part < EVALUATIONS else 0):
            now = setup.params_at(float(np.max(carry.update)) / updates)
            carry, _ = training.chunk(
                setup.env, setup.learner, setup.loop, carry, now, num_updates=1
            )
    return {"optimus": float(optimus["avg_jct"].mean()), "changes": list(changes), **curves}


def terms(system: Any, setup: Any, params: Any, weights: Any) -> dict[str, float]:
    """Completion time, and the mean return of an episode term by term."""
    played = functions.play(system, setup.play_env, setup.policy, params, weights).metrics
    num_jobs = float(np.mean(played["finished"]))
    time = -num_jobs * float(np.mean(played["avg_jct"])) / float(params.time_unit)
    empty = -float(params.p1) * float(np.mean(played["missed"]))
    total = float(np.mean(played["total_reward"]))
    return {
        "avg_jct": float(np.mean(played["avg_jct"])),
        "time": time,
        "empty rows": empty,
        "first units": total - time - empty,
    }


def text_of(name: str, found: dict[str, Any]) -> str:
    """A variant as a line."""
    change = 100 * (np.array(found["avg_jct"]) / found["optimus"] - 1)
    shown = {"start": change[0], "best": change.min(axis=0), "last": change[-1]}
    words = [
        f"{what} {np.mean(x):+8.1f} % [{x.min():+.1f}, {x.max():+.1f}]" for what, x in shown.items()
    ]
    last = [
        f"{term} {np.mean(found[term][-1]):.1f}" for term in ("time", "empty rows", "first units")
    ]
    return f"{name:38} " + "  ".join([*words, *last])


def draw(path: Path, found: dict[str, Any]) -> None:
    """Completion times, and the reward's terms of the first variant and of the last."""
    from benchmarks.papers import figures

    def mean(values: list[list[float]]) -> list[tuple[float, float]]:
        return [(float(i), float(np.mean(row))) for i, row in enumerate(values)]

    def on(figure: Any) -> None:
        figure.set_size_inches(10, 7)
        upper, lower = figure.subfigures(2, 1, height_ratios=(3, 2))
        first = upper.subplots()
        for number, (name, curves) in enumerate(found.items()):
            points = mean(curves["avg_jct"])
            style = ("-", "--", ":")[number // COLOURS]
            first.plot(*zip(*points, strict=True), style, color=f"C{number % COLOURS}", label=name)
        level = next(iter(found.values()))["optimus"]
        first.axhline(level, color="#7c8899", linestyle="-.", label="Optimus every 600 s")
        first.set(yscale="log", xlabel="evaluation", ylabel="completion time (s)")
        first.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
        shown = [next(iter(found)), next(reversed(found))]
        for axes, name in zip(lower.subplots(1, 2), shown, strict=True):
            terms = {term: mean(found[name][term]) for term in TERMS}
            figures.curves(axes, terms, x_label="evaluation", y_label="mean return", title=name)

    figures.save(path, on)


if __name__ == "__main__":
    sys.exit(exit_status(main))
