"""Trained runs that rows are given with ``--run``, in place of trainings of their own."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.papers.lab import Lab
from benchmarks.papers.settings import digest
from jaxsched.results.comparison import Learned, as_seeds
from jaxsched.runs import checkpoints, saved_policies


def add_run_option(parser: argparse.ArgumentParser, note: str) -> None:
    """Add ``--run`` to the options of a paper's script.

    Args:
      parser: of the script.
      note: what else its help says.
    """
    parser.add_argument(
        "--run",
        dest="runs",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help=f"a trained run, repeatable; {note}; trained here if absent",
    )


def saved_digest(path: Path, system: str) -> str:
    """Digest of the facts that the policies of a run were saved with.

    Raises:
      JaxschedError: there are none.
    """
    folders = saved_policies.policy_folders(path, system)
    return digest([checkpoints.read_meta(folder) for folder in folders])


def load_runs(
    lab: Lab, runs: Sequence[Path], name_of: Callable[[Learned], str]
) -> dict[str, Learned]:
    """Policies of runs by name; runs of one name are further seeds of one recipe.

    Args:
      lab: with the system.
      runs: run directories.
      name_of: what a policy is called.

    Raises:
      JaxschedError: a run cannot be read, or two of a name do not fit together.
    """
    found: dict[str, list[Learned]] = {}
    for path in runs:
        loaded, _ = saved_policies.load(path, lab.system)
        name = name_of(loaded)
        lab.say(f"{name}: {len(loaded.weights)} seeds of {path}")
        found.setdefault(name, []).append(replace(loaded, name=name))
    return {name: as_seeds(each) for name, each in found.items()}
