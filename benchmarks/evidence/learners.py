"""The page about learners: which work on which system out of the box, what options are worth."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.evidence.pages import NOTE
from benchmarks.evidence.sources import read
from benchmarks.scripts import table
from jaxsched.results.finishing import NEARLY_ALL

LEARNERS = (  # by one budget of steps and seeds
    "learners_cpu2.json",
    "learners_mlfs_cpu2.json",
    "learners_branching_cpu2.json",
    "learners_mlfs_progress_cpu1.json",
    "learners_actor_critic_cpu1.json",
)
OPTIONS = (
    "learner_options_cpu2.json",
    "learner_options_more_cpu2.json",
    "learner_options_imitation_cpu2.json",
    "learner_options_history_cpu2.json",
    "learner_options_groups_cpu2.json",
    "learner_options_mlfs_cpu2.json",
    "learner_options_branching_cpu1.json",
)
PAGE = "learners.md"


def page() -> str:
    """Both tables, from the files that the scripts wrote."""
    measured, options = [[read(name) for name in names] for names in (LEARNERS, OPTIONS)]
    ((steps, seeds),) = {(part["steps"], part["seeds"]) for part in measured}
    parts = [
        "# Learners and their options",
        NOTE,
        "## Any learner on any environment",
        "Plain recipes (`jaxsched.systems.learner_recipes`: the environment as it is, a small "
        "network, the learner's usual settings) after an equal number of environment steps, "
        f"{steps:,} for each of {seeds} seeds (branching's plays count, at their full length), on "
        "fresh sequences; ratio "
        "of the primary metric to the best rule's (`python -m benchmarks.learners`). At this "
        "budget learners of whole episodes see a handful of them. MLFS' DQN, PPO and actor-critic "
        "are paid for progress ([notes](mlfs_notes.md)). The "
        "table says what runs and "
        "learns out of the box, not which learner is best when tuned; systems that are not listed "
        "were not run.",
        _matrix(newest(measured, "system", "learner")),
        "## What options are worth",
        "One change of a short recipe at a time, ratio to the recipe's own on the same test "
        "episodes (`python -m benchmarks.learner_options`). An interval "
        "across 1 says that nothing was seen at this size. That all steps count changes nothing on "
        "SCHED2, to the last digit: the recipe's environment skips steps without a choice. What is "
        "played before the first update (`loop.head_start`) counts in no budget.",
        _options(newest(options, "study", "variant")),
    ]
    return "\n\n".join(parts) + "\n"


def newest(parts: Sequence[Mapping[str, Any]], group: str, member: str) -> list[Mapping[str, Any]]:
    """The rows of all files by group, each member's of the last file that has it."""
    rows = {(row[group], row[member]): row for part in parts for row in part["rows"]}
    groups = list(dict.fromkeys(key for key, _ in rows))
    return sorted(rows.values(), key=lambda row: groups.index(row[group]))


def ratio(row: Mapping[str, Any], digits: int = 3) -> str:
    """A ratio with its interval."""
    estimate, low, high = row["ratio"]
    return f"{estimate:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _matrix(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        [
            row["system"],
            row["learner"],
            f"{row['metric']} ({row['better']} is better)",
            f"{row['learned']:,.4g}" if row["finished_share"] else "-",
            f"{row['of_rule']:,.4g} (`{row['rule']}`)",
            ratio(row)
            if row["finished_share"] >= NEARLY_ALL
            else f"finishes {row['finished_share']:.1%} of the jobs",
            row["training_time"],
        ]
        for row in rows
    ]
    head = ["system", "learner", "metric", "learned", "rule", "ratio", "training"]
    return table(head, lines)


def _options(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        [
            row["study"],
            row["variant"],
            " ".join(f"`{setting}`" for setting in row["settings"]) or "-",
            f"{row['metric']} ({row['better']} is better)",
            str(len(row["by_seed"])),
            f"{row['learned']:,.4g}",
            ratio(row),
        ]
        for row in rows
    ]
    return table(["study", "variant", "settings", "metric", "seeds", "mean", "ratio"], lines)
