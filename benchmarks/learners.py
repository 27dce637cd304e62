r"""Any learner on any environment: plain recipes at an equal budget of environment steps.

    python -m benchmarks.learners [--steps 512000] [--systems sched2,chic] [--seeds 3]
        [--out runs/learners] [--json FILE]

Trains every plain recipe (``jaxsched.systems.plain``) of the systems whose action is one choice of
several by ``jaxsched train``, on fresh draws, and tests it on others. What is trained already is
kept. Prints, per system and learner, the primary metric relative to the best rule known. Learners
differ in what they need, so this says which work out of the box, not which is best when tuned.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status
from jaxsched.errors import JaxschedError
from jaxsched.results.statistics import ratio_interval

STEPS = 512_000
SEEDS = 3
TRACE_SEED = 41


@dataclass(frozen=True)
class Arena:
    """Where the learners of a system play.

    Attributes:
      trace: what is drawn.
      num_traces: of training, validation and test, each.
      num_jobs: of each.
      options: settings of the environment.
      rule: the best rule known, whom learners are compared with.
    """

    trace: str
    num_traces: int
    num_jobs: int
    options: tuple[str, ...]
    rule: str


ARENAS = {
    "sched2": Arena("sched2-mixed", 100, 200, (), "strict_sif"),
    "dl2": Arena("dl2-testbed", 100, 30, ("env.num_servers=13", "env.window=10"), "probe"),
    "chic": Arena("chic-mixed", 100, 30, (), "search"),
    "mlfs": Arena("mlfs-small-x3", 10, 100, (), "mlf_h"),
}


def main() -> None:
    """Train what is missing, print the matrix, write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--systems", default=",".join(ARENAS))
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
        for preset in presets_of(system):
            path = options.out / f"{system}-{preset}"
            if not (path / "comparison.json").is_file():
                train(command_of(system, preset, options.steps, options.seeds, path))
            row = row_of(system, preset, path)
            rows.append(row)
            print(text_of(row), flush=True)
    if options.json is not None:
        document = {"steps": options.steps, "seeds": options.seeds, "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def presets_of(system: str) -> list[str]:
    """Names of a system's plain recipes."""
    from jaxsched.systems import registry

    return list(registry.get(system).plain_presets)


def command_of(system: str, preset: str, steps: int, seeds: int, path: Path) -> list[str]:
    """The training as one would type it."""
    from jaxsched.systems import registry

    arena, recipe = ARENAS[system], registry.get(system).preset(preset)
    updates = -(-steps // recipe.loop.steps_per_update)
    settings = [
        *arena.options,
        f"loop.num_updates={updates}",
        f"evaluate_every={-(-updates // 4)}",
        f"checkpoint_every={updates}",
    ]
    return [
        *("train", system, "--preset", preset, "--num-seeds", str(seeds), "--out", str(path)),
        *("--trace", arena.trace, "--test-trace", arena.trace, "--trace-seed", str(TRACE_SEED)),
        *("--num-traces", str(arena.num_traces), "--num-jobs", str(arena.num_jobs)),
        *(word for setting in settings for word in ("--set", setting)),
        "--overwrite",
    ]


def train(arguments: list[str]) -> None:
    """Run ``jaxsched`` in a process of its own.

    Raises:
      JaxschedError: it failed.
    """
    print("jaxsched", *arguments, file=sys.stderr, flush=True)
    status = subprocess.run([sys.executable, "-m", "jaxsched", *arguments], check=False).returncode
    if status:
        raise JaxschedError(f"jaxsched {' '.join(arguments[:4])} ended with status {status}")


def row_of(system: str, preset: str, path: Path) -> dict[str, Any]:
    """The learned policy against the best rule, on the test episodes."""
    result = json.loads((path / "comparison.json").read_text(encoding="utf-8"))
    rule, metric = ARENAS[system].rule, result["primary"]
    values = {
        entry["kind"] if entry["kind"] == "learned" else entry["name"]: np.atleast_2d(
            np.asarray(entry["metrics"][metric], np.float64)
        )
        for entry in result["policies"]
    }
    ratio = ratio_interval(values["learned"], values[rule])
    return {
        "system": system,
        "learner": preset.removeprefix("plain-"),
        "metric": metric,
        "rule": rule,
        "learned": float(values["learned"].mean()),
        "of_rule": float(values[rule].mean()),
        "ratio": [ratio.estimate, ratio.low, ratio.high],
        "by_seed": (values["learned"].mean(axis=1) / values[rule].mean()).tolist(),
        "better": result["metrics"][metric]["better"],
        "training_time": result["facts"]["training time"],
        "environment_steps": result["facts"]["environment steps"],
        "device": result["facts"]["device"],
        "versions": result["facts"]["versions"],
    }


def text_of(row: dict[str, Any]) -> str:
    """A row as a line."""
    estimate, low, high = row["ratio"]
    return (
        f"{row['system']:7} {row['learner']:14} {row['metric']:18} {row['learned']:12.4f} "
        f"{estimate:6.3f} [{low:.3f}, {high:.3f}] of {row['rule']} ({row['better']} is better), "
        f"{row['training_time']}"
    )


if __name__ == "__main__":
    sys.exit(exit_status(main))
