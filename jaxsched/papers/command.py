"""The command line that the papers' scripts share."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jax

from jaxsched.cpu import prepare_cpu
from jaxsched.errors import JaxschedError
from jaxsched.papers.runner import Paper, run
from jaxsched.papers.settings import Settings
from jaxsched.trainer import Interrupted

STOPPED = 130
LEAST_COMPILE_S = 0.3  # programs that compile faster are not kept


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """The options of a paper's script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
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
        **sizes,
    )


def main(
    load: Callable[[], Paper],
    name: str,
    description: str | None,
    argv: Sequence[str] | None = None,
    *,
    extend: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
    read: Callable[[argparse.Namespace, Paper, str], Settings] = settings_of,
) -> int:
    """Run a script; returns its exit status.

    Args:
      load: gives the paper; called once the processor is prepared, before JAX is first used.
      name: of the script, for the folder.
      description: of the help.
      argv: arguments, those of the process if absent.
      extend: adds options of the script's own to the parser.
      read: makes settings of the parsed arguments.
    """
    parser = parser_of(name, description)
    extend(parser)
    arguments = parser.parse_args(argv)
    prepare_cpu()
    _cache_compilations()
    rows = arguments.rows.split(",") if arguments.rows else None
    try:
        paper = load()
        run(paper, read(arguments, paper, name), rows)
    except (Interrupted, KeyboardInterrupt):
        print("stopped; the same command goes on from here", file=sys.stderr)
        return STOPPED
    except JaxschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _cache_compilations() -> None:
    """Keep compiled programs between runs, unless the user has set that up already."""
    if getattr(jax.config, "jax_compilation_cache_dir") is None:  # noqa: B009
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.path.join(home, "jaxsched", "jax")
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_COMPILE_S)
