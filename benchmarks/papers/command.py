"""The command line of the papers.

    python -m benchmarks.papers NAME [--quick] [--rows T1,F5] [--seeds 3] [--out DIR]
                                     [--set path=value ...]

Per row a table with the paper's claims, DIR/<row>.json and DIR/<row>.png; at the end a summary.
With --pictures pdf,svg also DIR/<row>.pdf, DIR/<row>.svg and their data, DIR/<row>.data.csv.
What is finished is kept in DIR and not done again: stop with Ctrl-C and call it once more.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks.papers.runner import Paper, run
from benchmarks.papers.settings import Settings
from benchmarks.scripts import BAD_INPUT, exit_status
from jaxsched.errors import JaxschedError
from jaxsched.runs.trainer import Interrupted
from jaxsched.runtime import keep_compilations

NAMES = ("chic", "das", "dl2", "mlfs", "sched2")
"""Papers; each is a package here with a ``PAPER``, and an ``options`` module if it has its own."""


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """The options of a paper's script."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.papers {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes for everything")
    parser.add_argument("--rows", help="names with commas between; all by default")
    parser.add_argument("--seeds", type=int, help="trainings of each recipe; 3, with --quick 1")
    parser.add_argument("--out", type=Path, help=f"folder of the results; runs/papers/{name}")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change every recipe (a row's own settings come after)",
    )
    for role in ("train", "validation", "test"):
        parser.add_argument(f"--num-{role}", type=int, help=f"{role} tables; the recipe's number")
    parser.add_argument(
        "--pictures",
        default="",
        metavar="pdf,svg",
        help="write pictures in these formats as well, and their data beside them as CSV",
    )
    parser.add_argument("--num-jobs", type=int, help="jobs of each table; the workload's number")
    return parser


def settings_of(arguments: argparse.Namespace, paper: Paper, name: str) -> Settings:
    """Settings from the parsed options; quick sizes where nothing is asked for."""
    quick = arguments.quick
    seeds = arguments.seeds if arguments.seeds is not None else (1 if quick else 3)
    sizes = {}
    for size in ("num_train", "num_validation", "num_test", "num_jobs"):
        asked = getattr(arguments, size)
        sizes[size] = asked if asked is not None or not quick else paper.quick_sizes.get(size)
    folder = Path("runs") / "papers" / (f"{name}-quick" if quick else name)
    return Settings(
        out=arguments.out or folder,
        quick=quick,
        seeds=tuple(range(seeds)),
        overrides=tuple(arguments.overrides),
        pictures=tuple(f".{word}" for word in arguments.pictures.split(",") if word),
        **sizes,
    )


def run_paper(argv: Sequence[str] | None = None) -> int:
    """Run rows of the paper named first; returns the exit status.

    Args:
      argv: arguments, those of the process if absent.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in ([], ["-h"], ["--help"]):
        print(f"{__doc__.strip()}\n\nNAME: {', '.join(NAMES)}")
        return 0 if words else BAD_INPUT
    stopped = "stopped; the same command goes on from here"
    return exit_status(partial(_run_rows, words[0], words[1:]), stopped=stopped)


def _run_rows(name: str, words: Sequence[str]) -> None:
    if name not in NAMES:
        raise JaxschedError(f"unknown paper {name!r}; known are {', '.join(NAMES)}")
    keep_compilations()
    package = f"{__package__}.{name}"
    own = import_module(f"{package}.options") if find_spec(f"{package}.options") else None
    parser = parser_of(name, __doc__)
    if own is not None:
        own.add_options(parser)
    arguments = parser.parse_args(words)
    rows = arguments.rows.split(",") if arguments.rows else None
    paper: Paper = import_module(package).PAPER
    read = settings_of if own is None else own.settings_of
    try:
        run(paper, read(arguments, paper, name), rows)
    except Interrupted as error:
        raise KeyboardInterrupt from error
