r"""Any learner on any environment: plain recipes at an equal budget of environment steps.

    python -m benchmarks.learners [--steps 512000] [--systems sched2,chic] [--presets plain-ppo]
        [--seeds 3] [--out runs/learners] [--json FILE]

Trains every plain recipe (``jaxsched.systems.learner_recipes``) of the systems whose action is one
choice of several by ``jaxsched.training``, on fresh draws, and tests it on others. What is trained
already is kept. Prints, per system and learner, the primary metric relative to the best rule
known. Learners differ in what they need, so this says which work out of the box, not which is best
when tuned.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scripts import chosen, exit_status
from benchmarks.trained import Outcome, Settings, outcome_of
from jaxsched.errors import JaxschedError
from jaxsched.results.finishing import NEARLY_ALL
from jaxsched.systems import presets

STEPS = 512_000
SEEDS = 3
TRACE_SEED = 41


@dataclass(frozen=True)
class Arena:
    """Where the learners of a system play.

    Attributes:
      trace: what is drawn.
      num_traces: of training, validation and test, each (a policy that starts nothing plays on
        and on, which takes minutes on DL2 and Chic).
      num_jobs: of each.
      settings: changes of the recipe.
      rule: the best rule known, whom learners are compared with.
    """

    trace: str
    num_traces: int
    num_jobs: int
    settings: Settings
    rule: str


ARENAS = {
    "sched2": Arena("sched2-mixed", 100, 200, {}, "strict_sif"),
    "dl2": Arena("dl2-testbed", 20, 30, {"env.num_servers": 13, "env.window": 10}, "probe"),
    "chic": Arena("chic-mixed", 20, 30, {}, "search"),
    "mlfs": Arena("mlfs-small-x3", 10, 100, {"env.reward": "progress"}, "mlf_h"),
}


def main() -> None:
    """Train what is missing, print the matrix, write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--systems", default=",".join(ARENAS))
    parser.add_argument("--presets", help="of them only these")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=Path("runs/learners"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if min(options.steps, options.seeds) < 1:
        raise JaxschedError("--steps and --seeds must be at least 1")
    rows: list[dict[str, Any]] = []
    for system in options.systems.split(","):
        if system not in ARENAS:
            raise JaxschedError(f"--systems: {system!r}; accepted: {', '.join(ARENAS)}")
        for preset in presets_of(system, options.presets):
            arguments = arguments_of(system, preset, options.steps, options.seeds)
            found = outcome_of(options.out / f"{system}-{preset}", **arguments)
            row = row_of(system, preset, found)
            rows.append(row)
            print(text_of(row), flush=True)
    if options.json is not None:
        document = {"steps": options.steps, "seeds": options.seeds, "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def presets_of(system: str, only: str | None = None) -> list[str]:
    """Names of a system's plain recipes, or of some of them.

    Raises:
      JaxschedError: a name that no system has.
    """
    names = _plain(system)
    if only is None:
        return names
    known = {name for each in ARENAS for name in _plain(each)}
    asked = chosen(only, sorted(known), "--presets")
    return [name for name in names if name in asked]


def _plain(system: str) -> list[str]:
    from jaxsched.systems import registry

    recipes = presets.default_recipes(registry.get(system))
    return [name for name in recipes if name.startswith("plain-")]


def arguments_of(system: str, preset: str, steps: int, seeds: int) -> dict[str, Any]:
    """What ``jaxsched.train`` takes."""
    from jaxsched.systems import registry
    from jaxsched.systems.stages import steps_per_update

    arena, recipe = ARENAS[system], presets.preset(registry.get(system), preset)
    updates = -(-steps // steps_per_update(recipe.stages[-1]))
    lengths = {
        "loop.num_updates": updates,
        "evaluate_every": -(-updates // 4),
        "checkpoint_every": updates,
    }
    return {
        "system": system,
        "preset": preset,
        "num_seeds": seeds,
        "traces": arena.trace,
        "test_traces": arena.trace,
        "trace_seed": TRACE_SEED,
        "num_traces": arena.num_traces,
        "num_jobs": arena.num_jobs,
        "set": {**arena.settings, **lengths},
    }


def row_of(system: str, preset: str, outcome: Outcome) -> dict[str, Any]:
    """The learned policy against the best rule, on the test episodes."""
    rule = ARENAS[system].rule
    ratio = outcome.relative_to(outcome.rules[rule])
    by_seed = outcome.learned.mean(axis=1) / outcome.rules[rule].mean()
    return {
        "system": system,
        "learner": preset.removeprefix("plain-"),
        "metric": outcome.metric,
        "rule": rule,
        "learned": float(outcome.learned.mean()),
        "of_rule": float(outcome.rules[rule].mean()),
        "finished_share": outcome.finished,
        "ratio": [ratio.estimate, ratio.low, ratio.high],
        "by_seed": by_seed.tolist(),
        "better": outcome.better,
        "training_time": outcome.facts["training time"],
        "environment_steps": outcome.facts["environment steps"],
        "device": outcome.facts["device"],
        "versions": outcome.facts["versions"],
    }


def text_of(row: dict[str, Any]) -> str:
    """A row as a line."""
    estimate, low, high = row["ratio"]
    found = f"{estimate:6.3f} [{low:.3f}, {high:.3f}] of {row['rule']} ({row['better']} is better)"
    if row["finished_share"] < NEARLY_ALL:
        found = f"finishes {row['finished_share']:.1%} of the jobs"
    return (
        f"{row['system']:7} {row['learner']:14} {row['metric']:18} {row['learned']:12.4f} "
        f"{found}, {row['training_time']}"
    )


if __name__ == "__main__":
    sys.exit(exit_status(main))
