r"""What each option of the learners is worth: one change of a recipe at a time.

    python -m benchmarks.learner_options [--studies sched2-ppo,sched2-search] [--seeds 2]
        [--out runs/options] [--json FILE]

Trains a short recipe and its variants by ``jaxsched train``, on the same fresh draws, and tests all
on others. What is trained already is kept. Prints, per variant, the primary metric and its ratio to
the recipe's own, paired by test episode. A ratio says what an option does in that place at that
budget, and no more.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scripts import exit_status
from benchmarks.trained import Outcome, outcome_of
from jaxsched.errors import JaxschedError

SEEDS = 2
BASE = "recipe"


@dataclass(frozen=True)
class Study:
    """A recipe and what is changed of it.

    Attributes:
      arguments: of ``jaxsched train``, the recipe's.
      variants: name -> settings that replace some of the recipe's.
    """

    arguments: tuple[str, ...]
    variants: dict[str, tuple[str, ...]]


def _drawn(trace: str, num_traces: int, num_jobs: int) -> tuple[str, ...]:
    sizes = ("--num-traces", str(num_traces), "--num-jobs", str(num_jobs))
    return ("--trace", trace, "--test-trace", trace, "--trace-seed", "43", *sizes)


def _settings(*words: str) -> tuple[str, ...]:
    return tuple(part for word in words for part in ("--set", word))


def _das_mappo(network: str) -> tuple[str, ...]:
    return (
        *("das", "--preset", "quick", *_drawn("das-contended", 64, 400)),
        *_settings("env.estimates=true", "relative_to=linear", "fee_weight=1"),
        *_settings(f"network.variant={network}", "units=effective", "episode_jobs=400"),
        *_settings("imitation.loop.num_updates=40", "imitation.learner.total_updates=40"),
        *_settings("loop.num_envs=128", "loop.num_updates=80", "learner.total_updates=80"),
        *_settings("learner.epochs=1", "learner.normalise_targets=true"),
        *_settings("learner.learning_rate=3e-4", "learner.final_learning_rate=3e-5"),
        *_settings("evaluate_every=40", "checkpoint_every=80"),
    )


LONG_ROLLOUTS = (
    *("loop.rollout_length=1024", "loop.num_updates=10", "learner.num_minibatches=32"),
    *("evaluate_every=10", "checkpoint_every=10"),
)
"""Some 60 slots of MLFS between two updates, for 15."""

CLOSED = ("learner.critic=true", "learner.discount_s=7200", "learner.critic_updates=2")
"""Plays of SCHED2 by a critic, with a discount of the horizon that plays have without one."""

STUDIES = {
    "sched2-ppo": Study(
        (
            *("sched2", "--preset", "plain-ppo", *_drawn("sched2-mixed", 100, 200)),
            *_settings("loop.num_updates=32", "evaluate_every=8", "checkpoint_every=32"),
        ),
        {
            "all steps count": ("learner.only_choices=false",),
            "targets as they are": ("learner.normalise_targets=false",),
            "the critic sees the state": ("critic=state",),
            "average reward": ("learner.average_reward=true", "learner.horizon_s=null"),
            "horizon 300 s": ("learner.horizon_s=300",),
            "horizon 300 s to 30,000 s": (
                "learner.horizon_s=300",
                "learner.final_horizon_s=30000",
            ),
        },
    ),
    "sched2-groups": Study(
        (
            *("sched2", "--preset", "plain-ppo", *_drawn("sched2-mixed", 100, 200)),
            *_settings("loop.num_envs=32", "loop.rollout_length=384", "loop.num_updates=22"),
            *_settings("learner.num_minibatches=6", "evaluate_every=11", "checkpoint_every=22"),
        ),
        {
            "groups of eight on one job sequence": (
                "learner.num_sequences=4",
                "loop.num_random_streams=4",
            ),
            "groups of two on one job sequence": (
                "learner.num_sequences=16",
                "loop.num_random_streams=16",
            ),
        },
    ),
    "sched2-branching": Study(
        ("sched2", "--preset", "plain-branching", *_drawn("sched2-mixed", 100, 200)),
        {
            "the true future": ("learner.futures=0",),
            "eight futures": ("learner.futures=8",),
            "two candidates": ("learner.alternatives=2",),
            "closed by a critic": CLOSED,
            "plays of 16 steps": ("learner.max_steps=16",),
            "plays of 16 steps, closed": ("learner.max_steps=16", *CLOSED),
            "plays of 4 steps": ("learner.max_steps=4",),
            "plays of 4 steps, closed": ("learner.max_steps=4", *CLOSED),
            "plays of 4 steps, the critic sees the state": (
                *("learner.max_steps=4", *CLOSED),
                "critic=state",
            ),
            "absolute gains": ("learner.relative=0", "learner.clip=null"),
            "no exploration": ("learner.exploration=0",),
        },
    ),
    "sched2-search": Study(
        (
            *("sched2", "--preset", "search", *_drawn("sched2-mixed", 100, 1000)),
            *_settings("loop.num_updates=16", "evaluate_every=8", "checkpoint_every=16"),
        ),
        {
            "no averaging": ("search.learner.averaging=0",),
            "the best quarter in place of a gradient": ("search.learner.follow=elites",),
            "absolute fitness": ("search.learner.relative=0",),
        },
    ),
    "mlfs-imitation": Study(
        (
            *("mlfs", "--preset", "quick", *_drawn("mlfs-small-x3", 10, 200)),
            *_settings("reinforcement=false", "imitation.loop.num_updates=100"),
        ),
        {"the student acts in half": ("imitation.learner.student_share=0.5",)},
    ),
    "mlfs-ppo": Study(
        (
            *("mlfs", "--preset", "quick", *_drawn("mlfs-small-x3", 10, 200)),
            *_settings("imitation.loop.num_updates=100", "loop.num_updates=40"),
            *_settings("evaluate_every=40", "checkpoint_every=40"),
        ),
        {
            "imitation alone": ("reinforcement=false",),
            "begins at all parts of an episode": ("loop.head_start=30000",),
            "rollouts over 60 slots": LONG_ROLLOUTS,
            "both": ("loop.head_start=30000", *LONG_ROLLOUTS),
            "both, the paper's reward and targets": (
                "loop.head_start=30000",
                *LONG_ROLLOUTS,
                "env.reward=mlfs",
                *("learner.horizon_s=1169.7", "learner.return_span_s=3600"),
                "learner.reward_scale=1",
            ),
        },
    ),
    "das-mappo": Study(
        _das_mappo("DA+MC"),
        {
            "imitation alone": ("reinforcement=false",),
            "all units count": ("units=real",),
            "targets as they are": ("learner.normalise_targets=false",),
            "critic of actions, targets as they are": (
                "critic=action",
                "learner.normalise_targets=false",
            ),
            "a new policy spreads by 0.1": ("network.initial_std=0.1",),
        },
    ),
    "das-history": Study(
        _das_mappo("DAS"),
        {"history follows the job": ("network.follows=job", "env.numbers=true")},
    ),
}
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
    for variant, settings in ({BASE: ()} | STUDIES[name].variants).items():
        path = out / f"{name}-{variant.replace(' ', '-').replace(',', '')}"
        arguments = arguments_of(name, settings, seeds)
        found = outcome_of(path, arguments)
        base = found if base is None else base
        yield row_of(name, variant, settings, found, base)


def arguments_of(name: str, settings: tuple[str, ...], seeds: int) -> list[str]:
    """What follows ``jaxsched train``."""
    return [*STUDIES[name].arguments, "--num-seeds", str(seeds), *_settings(*settings)]


def row_of(
    name: str, variant: str, settings: tuple[str, ...], found: Outcome, base: Outcome
) -> dict[str, Any]:
    """A variant against the recipe, on the test episodes."""
    ratio = found.relative_to(base.learned)
    return {
        "study": name,
        "variant": variant,
        "settings": list(settings),
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
