r"""What each option of the learners is worth: one change of a recipe at a time.

    python -m benchmarks.learner_options [--studies sched2-ppo,sched2-search] [--seeds 2]
        [--out runs/options] [--json FILE]

Trains a short recipe and its variants by ``jaxsched.training``, on the same fresh draws, and tests
all on others. What is trained already is kept. Prints, per variant, the primary metric and its
ratio to the recipe's own, paired by test episode. A ratio says what an option does in that place at
that budget, and no more.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scripts import exit_status
from benchmarks.trained import Outcome, Settings, outcome_of
from jaxsched.errors import JaxschedError

SEEDS = 2
BASE = "recipe"


@dataclass(frozen=True)
class Study:
    """A recipe and what is changed of it.

    Attributes:
      system: what is trained on.
      preset: the recipe.
      drawn: its traces, arguments of ``jaxsched.train``.
      settings: changes of the recipe that all variants have.
      variants: name -> settings that replace some of these.
    """

    system: str
    preset: str
    drawn: dict[str, Any]
    settings: Settings
    variants: Mapping[str, Settings]


def _drawn(trace: str, num_traces: int, num_jobs: int) -> dict[str, Any]:
    drawn = {"trace_seed": 43, "num_traces": num_traces, "num_jobs": num_jobs}
    return {"traces": trace, "test_traces": trace, **drawn}


def _of_both(path: str, value: Any) -> dict[str, Any]:
    """Of the imitation, and of the stage after it."""
    return {path: value, f"imitation.{path}": value}


HISTORY = "das:history=4,walk_length=8,extra_features=True"
NO_HISTORY = "das:variant=DA+MC,history=4,walk_length=8,extra_features=True"
DAS_MAPPO = {
    "env.estimates": True, **_of_both("adjust.heuristic", "linear"),
    **_of_both("adjust.fee_weight", 1), **_of_both("network_options.units", "effective"),
    **_of_both("episodes.jobs", 400),
    "imitation.loop.num_updates": 40, "loop.num_envs": 128, "loop.num_updates": 80,
    "learner.epochs": 1, "learner.normalise_targets": True,
    "learner.learning_rate": 3e-4, "learner.final_learning_rate": 3e-5,
    **_of_both("evaluate_every", 40), "checkpoint_every": 80,
}  # fmt: skip
"""Of DAS' own recipe, at a size that trains in minutes."""

LONG_ROLLOUTS = {
    "loop.rollout_length": 1024, "loop.num_updates": 10, "learner.num_minibatches": 32,
    "evaluate_every": 10, "checkpoint_every": 10,
}  # fmt: skip
"""Some 60 slots of MLFS between two updates, for 15."""

CLOSED = {"learner.critic": True, "learner.discount_s": 7200, "learner.critic_updates": 2}
"""Plays of SCHED2 by a critic, with a discount of the horizon that plays have without one."""

STUDIES = {
    "sched2-ppo": Study(
        "sched2", "plain-ppo", _drawn("sched2-mixed", 100, 200),
        {"loop.num_updates": 32, "evaluate_every": 8, "checkpoint_every": 32},
        {
            "all steps count": {"learner.only_choices": False},
            "targets as they are": {"learner.normalise_targets": False},
            "the critic sees the state": {"critic": "state"},
            "average reward": {"learner.average_reward": True, "learner.horizon_s": None},
            "horizon 300 s": {"learner.horizon_s": 300},
            "horizon 300 s to 30,000 s": {
                "learner.horizon_s": 300, "learner.final_horizon_s": 30000,
            },
        },
    ),
    "sched2-groups": Study(
        "sched2", "plain-ppo", _drawn("sched2-mixed", 100, 200),
        {
            "loop.num_envs": 32, "loop.rollout_length": 384, "loop.num_updates": 22,
            "learner.num_minibatches": 6, "evaluate_every": 11, "checkpoint_every": 22,
        },
        {
            "groups of eight on one job sequence": {
                "learner.num_sequences": 4, "loop.num_random_streams": 4,
            },
            "groups of two on one job sequence": {
                "learner.num_sequences": 16, "loop.num_random_streams": 16,
            },
        },
    ),
    "sched2-branching": Study(
        "sched2", "plain-branching", _drawn("sched2-mixed", 100, 200), {},
        {
            "the true future": {"learner.futures": 0},
            "eight futures": {"learner.futures": 8},
            "two candidates": {"learner.alternatives": 2},
            "closed by a critic": CLOSED,
            "plays of 16 steps": {"learner.max_steps": 16},
            "plays of 16 steps, closed": {"learner.max_steps": 16, **CLOSED},
            "plays of 4 steps": {"learner.max_steps": 4},
            "plays of 4 steps, closed": {"learner.max_steps": 4, **CLOSED},
            "plays of 4 steps, the critic sees the state": {
                "learner.max_steps": 4, **CLOSED, "critic": "state",
            },
            "absolute gains": {"learner.relative": 0, "learner.clip": None},
            "no exploration": {"learner.exploration": 0},
        },
    ),
    "sched2-search": Study(
        "sched2", "search", _drawn("sched2-mixed", 100, 1000),
        {"loop.num_updates": 16, "evaluate_every": 8, "checkpoint_every": 16},
        {
            "no averaging": {"search.learner.averaging": 0},
            "the best quarter in place of a gradient": {"search.learner.follow": "elites"},
            "absolute fitness": {"search.learner.relative": 0},
        },
    ),
    "mlfs-imitation": Study(
        "mlfs", "quick", _drawn("mlfs-small-x3", 10, 200),
        {"ppo.skip": True, "imitation.loop.num_updates": 100},
        {"the student acts in half": {"imitation.learner.student_share": 0.5}},
    ),
    "mlfs-ppo": Study(
        "mlfs", "quick", _drawn("mlfs-small-x3", 10, 200),
        {
            "imitation.loop.num_updates": 100, "loop.num_updates": 40,
            "evaluate_every": 40, "checkpoint_every": 40,
        },
        {
            "imitation alone": {"ppo.skip": True},
            "begins at all parts of an episode": {"loop.head_start": 30000},
            "rollouts over 60 slots": LONG_ROLLOUTS,
            "both": {"loop.head_start": 30000, **LONG_ROLLOUTS},
            "both, the paper's reward and targets": {
                "loop.head_start": 30000,
                **LONG_ROLLOUTS,
                "env.reward": "mlfs",
                "learner.horizon_s": 1169.7, "learner.return_span_s": 3600,
                "learner.reward_scale": 1,
            },
        },
    ),
    "das-mappo": Study(
        "das", "quick", _drawn("das-contended", 64, 400),
        {**DAS_MAPPO, "network": NO_HISTORY},
        {
            "imitation alone": {"mappo.skip": True},
            "all units count": _of_both("network_options.units", "real"),
            "targets as they are": {"learner.normalise_targets": False},
            "critic of actions, targets as they are": {
                "value_network": "action",
                "learner.normalise_targets": False,
            },
            "a new policy spreads by 0.1": {"network": f"{NO_HISTORY},initial_std=0.1"},
        },
    ),
    "das-history": Study(
        "das", "quick", _drawn("das-contended", 64, 400),
        {**DAS_MAPPO, "network": HISTORY},
        {"history follows the job": {"network": f"{HISTORY},follows=job", "env.numbers": True}},
    ),
}  # fmt: skip
"""What is studied."""


def main() -> None:
    """Train what is missing, print the table, write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", default=",".join(STUDIES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=Path("runs/options"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.seeds < 1:
        raise JaxschedError("--seeds must be at least 1")
    rows: list[dict[str, Any]] = []
    for name in options.studies.split(","):
        if name not in STUDIES:
            raise JaxschedError(f"--studies: {name!r}; accepted: {', '.join(STUDIES)}")
        for row in study(name, options.seeds, options.out):
            rows.append(row)
            print(text_of(row), flush=True)
    if options.json is not None:
        document = {"seeds": options.seeds, "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def study(name: str, seeds: int, out: Path) -> Any:
    """Rows of a study, the recipe's own first."""
    base: Outcome | None = None
    variants: dict[str, Settings] = {BASE: {}, **STUDIES[name].variants}
    for variant, settings in variants.items():
        path = out / f"{name}-{variant.replace(' ', '-').replace(',', '')}"
        found = outcome_of(path, **arguments_of(name, settings, seeds))
        base = found if base is None else base
        yield row_of(name, variant, settings, found, base)


def arguments_of(name: str, settings: Settings, seeds: int) -> dict[str, Any]:
    """What ``jaxsched.train`` takes."""
    study = STUDIES[name]
    changes = {"set": {**study.settings, **settings}}
    return (
        {"system": study.system, "preset": study.preset, "num_seeds": seeds} | study.drawn | changes
    )


def row_of(
    name: str, variant: str, settings: Settings, found: Outcome, base: Outcome
) -> dict[str, Any]:
    """A variant against the recipe, on the test episodes."""
    from jaxsched.experiment.names import assignments

    ratio = found.relative_to(base.learned)
    return {
        "study": name,
        "variant": variant,
        "settings": assignments(settings),
        "metric": found.metric,
        "better": found.better,
        "learned": float(found.learned.mean()),
        "by_seed": found.learned.mean(axis=1).tolist(),
        "ratio": [ratio.estimate, ratio.low, ratio.high],
        "training_time": found.facts["training time"],
        "environment_steps": found.facts["environment steps"],
        "device": found.facts["device"],
        "versions": found.facts["versions"],
    }


def text_of(row: dict[str, Any]) -> str:
    """A row as a line."""
    estimate, low, high = row["ratio"]
    return (
        f"{row['study']:15} {row['variant']:40} {row['metric']:18} {row['learned']:12.4f} "
        f"{estimate:6.3f} [{low:.3f}, {high:.3f}] ({row['better']} is better), "
        f"{row['training_time']}"
    )


if __name__ == "__main__":
    sys.exit(exit_status(main))
