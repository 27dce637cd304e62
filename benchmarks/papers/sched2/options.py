"""What the rows of SCHED2 are run with beside the usual settings, and its command-line options."""

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.papers import command
from benchmarks.papers.given_runs import add_run_option, saved_digest
from benchmarks.papers.runner import Paper
from benchmarks.papers.settings import Settings

PRESET = "search"


@dataclass(frozen=True)
class Sched2Settings(Settings):
    """Settings of a run of SCHED2's rows.

    Attributes:
      preset: what the learned policy is trained by.
      runs: run directories of trained policies, seeds of one recipe; rows train if there are none.
    """

    preset: str = PRESET
    runs: tuple[Path, ...] = ()

    def deciding(self) -> dict[str, Any]:
        """All of it but the folder, JSON-able; runs by what is saved in them.

        Raises:
          JaxschedError: a run holds no trained policy.
        """
        return {**super().deciding(), "runs": [saved_digest(path, "sched2") for path in self.runs]}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this paper's script."""
    parser.add_argument("--preset", default=PRESET, help=f"of the learned policy; {PRESET}")
    add_run_option(parser, "seeds of one recipe, which play every mix of jobs")


def settings_of(arguments: argparse.Namespace, paper: Paper, name: str) -> Sched2Settings:
    """Settings from the parsed options; quick sizes where nothing is asked for.

    Raises:
      JaxschedError: a value is not accepted.
    """
    usual = command.settings_of(arguments, paper, name)
    return Sched2Settings(
        **{field.name: getattr(usual, field.name) for field in fields(Settings)},
        preset=arguments.preset,
        runs=tuple(arguments.runs),
    )
