"""DL2's paper track: the text's learner and the mended one, on 60 servers and on the testbed.

    python -m benchmarks.dl2_paper_track [--cases paper,paper-mended,...] [--seeds 5]
        [--seconds S] [--set path=value ...] [--fresh 100] [--fresh-seed 40505]
        [--rules drf,tetris,optimus]
        [--only train|judge] [--runs DIR] [--results DIR] [--device NAME]

Each case is a preset. Its seeds are trained as one program, through both stages; a seed's policy is
the best on the validation sequences. It then plays fresh sequences, drawn with a seed that nothing
else uses, beside the rules and beside what it came from: the network after the supervised stage,
and the untrained one (which draws its actions; by its best ones it needs hundreds of slots).

``--seconds`` is for everything: each case gets an equal part of what is left, of which training
takes at most ``TRAINING``; a training that is stopped is judged as far as it came, and the result
says how far. ``--only judge`` plays what is in ``--runs``. Each case's result is a comparison as
``jaxsched compare`` writes it, with the learning curves: ``dl2_CASE_DEVICE.json.xz``.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dl2_artefact import RESULTS, cores
from benchmarks.pack import pack
from benchmarks.scripts import exit_status, read_json, table, untrained
from jaxsched.errors import JaxschedError
from jaxsched.files import write_json
from jaxsched.results.statistics import ratio_interval
from jaxsched.systems import presets
from jaxsched.units import readable_time

CASES = ("paper-mended", "paper-mended-testbed", "paper", "paper-testbed")
FRESH_SEED = 40_505  # training, test and validation have 0, 1 and 2
FRESH = 100  # sequences
TRAINING = 0.7  # of a case's time
LEARNED, SUPERVISED, UNTRAINED = "dl2", "dl2, supervised", "dl2, untrained"
TRACK = "track.json"
METRIC, DRF = "avg_jct_slots", "drf"
RULES = "drf,tetris,optimus"


def main() -> None:
    """Train, play, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="path=value")
    parser.add_argument("--fresh", type=int, default=FRESH)
    parser.add_argument("--fresh-seed", type=int, default=FRESH_SEED, help="what draws these")
    parser.add_argument("--rules", default=RULES)
    parser.add_argument("--only", choices=("train", "judge"))
    parser.add_argument("--runs", type=Path, default=Path("runs/dl2_paper_track"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--device", default=f"cpu{cores()}", help="the device, in file names")
    options = parser.parse_args()
    for word in ("seeds", "fresh"):
        if getattr(options, word) < 1:
            raise JaxschedError(f"--{word} is {getattr(options, word)}; it must be at least 1")
    cases = options.cases.split(",")
    end = time.monotonic() + options.seconds
    for number, case in enumerate(cases):
        share = (end - time.monotonic()) / (len(cases) - number)
        if options.only != "judge":
            train(options, case, share if options.only else TRAINING * share)
        if options.only != "train":
            result = judged(options, case)
            file = options.results / f"dl2_{case.replace('-', '_')}_{options.device}.json"
            write_json(file, result)
            pack(file)
            print(f"\n{case}\n\n{markdown(result)}", flush=True)


def train(options: argparse.Namespace, case: str, seconds: float) -> None:
    """Train the seeds of a case side by side; write what was run beside their policies."""
    import jaxsched
    from jaxsched.provenance import facts_in_words

    training = jaxsched.training(
        "dl2",
        preset=case,
        num_seeds=options.seeds,
        out=options.runs / case,
        overwrite=True,
        max_time=None if seconds == float("inf") else max(seconds, 1.0),
        set=dict(setting.split("=", 1) for setting in options.settings),
    )
    for progress in training:
        if progress.score is not None:
            told = f"update {progress.update}: {progress.score:.3f}"
            print(case, progress.stage, told, file=sys.stderr, flush=True)
    run = training.finish()
    points = [curve[-1] for curve in run.curves]
    facts = {
        "preset": case,
        "settings": "; ".join(options.settings) or "none",
        "seeds": ", ".join(map(str, run.facts["seeds"])),
        "trained on": run.facts["trained on"],
        "updates": f"{points[0].update:,}"
        + ("" if run.finished else ", stopped by its time limit"),
        "environment steps": f"{points[0].env_steps:,} per seed",
        "training time": readable_time(run.wall_s or 0.0),
        **facts_in_words(),
    }
    chosen = [min(curve, key=lambda point: point.score).update for curve in run.curves]
    series = [
        {
            "seed": seed,
            "x": [point.update for point in curve],
            "y": [point.score for point in curve],
            "wall_s": [point.wall_s for point in curve],
        }
        for seed, curve in enumerate(run.curves)
    ]
    written = {"facts": facts, "chosen": chosen, "series": series}
    write_json(options.runs / case / TRACK, written)


def judged(options: argparse.Namespace, case: str) -> dict[str, Any]:
    """What the policies of a case come to on fresh sequences, as a comparison."""
    import jax

    from jaxsched import traces
    from jaxsched.experiment.contests import facts_of
    from jaxsched.experiment.sources import Episodes
    from jaxsched.results import comparison
    from jaxsched.runs import saved_policies
    from jaxsched.runs.overrides import override
    from jaxsched.systems import registry

    system = registry.get("dl2")
    recipe = override(presets.preset(system, case), options.settings)
    track = read_json(options.runs / case / TRACK)
    used = presets.recipe_traces(system, recipe)
    names = options.rules.split(",")
    fresh = traces.get(used.test, seed=options.fresh_seed, num_traces=options.fresh)
    kept = used.validation or used.train
    choosing = traces.get(kept, seed=2, num_traces=used.num_validation)
    source = f"{used.test}, seed {options.fresh_seed}"
    chosen, _ = saved_policies.load(options.runs / case, system, LEARNED)
    start = options.runs / case / "stages" / recipe.stages[0].name
    before, _ = saved_policies.load(start, system, SUPERVISED)
    params, keys = recipe.env.params(fresh), map(jax.random.key, range(len(chosen.weights)))
    weights = untrained(system, recipe.env, recipe.network, params, keys)
    drawn = replace(before, name=UNTRAINED, weights=weights, play="sampled")
    episodes = Episodes(fresh, source, "")
    here = facts_of(system, recipe.env, episodes, {})
    told = "; ".join(system.recipes.departures.of(recipe)) or "none"
    further = {
        "differences from the paper's recipe": told,
        "judged on": f"{here['device']}; {here['versions']}",
    }
    contest = comparison.Contest(
        system,
        fresh,
        source,
        facts=here | track["facts"] | further,
        command=command_of(options, case),
    )
    learned = [replace(chosen, note=told)]
    learned += [replace(before, note="after the supervised stage")]
    learned += [replace(drawn, note="drawn weights, drawn actions")]
    result = comparison.compare(contest, names, learned, environment=recipe.env)
    same = comparison.Contest(system, choosing, kept)
    label = result["metrics"][system.metrics.primary]["label"]
    result["chosen"] = track["chosen"]
    result["learning_curve"] = {
        "levels": comparison.heuristic_scores(same, names, recipe.env),
        "x_label": "updates",
        "y_label": f"{label} ({len(choosing)} validation traces, {recipe.play})",
        "metric": system.metrics.primary,
        "series": track["series"],
    }
    return result


def command_of(options: argparse.Namespace, case: str) -> str:
    """That gives the same results, but for what a time limit cuts."""
    words = ["python -m benchmarks.dl2_paper_track", f"--cases {case}", f"--seeds {options.seeds}"]
    words += [f"--set {setting}" for setting in options.settings]
    words += [f"--fresh {options.fresh}"] if options.fresh != FRESH else []
    words += [f"--fresh-seed {seed}"] if (seed := options.fresh_seed) != FRESH_SEED else []
    words += [f"--rules {options.rules}"] if options.rules != RULES else []
    return " ".join(words)


def markdown(result: Mapping[str, Any]) -> str:
    """The result in tables: fresh sequences, and validation while it learns."""
    values = {
        entry["name"]: np.atleast_2d(entry["metrics"][METRIC]) for entry in result["policies"]
    }
    rows = []
    for name, found in values.items():
        means = found.mean(1)
        each = ", ".join(f"{mean:.2f}" for mean in means) if len(means) > 1 else ""
        rows.append((f"`{name}`", f"{means.mean():.3f}", each, change(found, values[DRF])))
    series = result["learning_curve"]["series"]
    curve = [
        (f"{update:,.0f}", f"{np.mean(scores):.2f}", ", ".join(f"{score:.2f}" for score in scores))
        for update, scores in zip(
            series[0]["x"], zip(*(one["y"] for one in series), strict=True), strict=True
        )
    ]
    count, levels = result["episodes"]["count"], result["learning_curve"]["levels"]
    return "\n\n".join(
        [
            f"{count} fresh sequences, JCT in slots, {result['facts']['training time']} of "
            f"training ({result['facts']['updates']} updates), chosen after {result['chosen']}:",
            table(("policy", "mean", "each seed", "against DRF"), rows),
            f"Validation sequences (DRF {levels[DRF]:.2f}):",
            table(("updates", "mean", "each seed"), curve),
        ]
    )


def change(found: Any, base: Any) -> str:
    """How much more than a base, with its interval over seeds and sequences."""
    ratio = ratio_interval(found, base)
    low, middle, high = (100 * (x - 1) for x in (ratio.low, ratio.estimate, ratio.high))
    return f"{middle:+.1f} % [{low:+.1f}, {high:+.1f}]"


if __name__ == "__main__":
    sys.exit(exit_status(main))
