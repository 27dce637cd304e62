"""The table of commands: words, and the plain function that each of them calls."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from jaxsched import __version__
from jaxsched.cli.advise import advise
from jaxsched.cli.bench import bench
from jaxsched.cli.command import Command as SharedCommand
from jaxsched.cli.compare import compare, evaluate
from jaxsched.cli.demo import demo
from jaxsched.cli.doctor import doctor
from jaxsched.cli.examples import EXAMPLES
from jaxsched.cli.export import export
from jaxsched.cli.headroom import headroom
from jaxsched.cli.kueue import kueue
from jaxsched.cli.leaderboard import leaderboard
from jaxsched.cli.listing import list_all
from jaxsched.cli.replay import replay
from jaxsched.cli.serve import serve
from jaxsched.cli.simulate import simulate
from jaxsched.cli.slurm import slurm
from jaxsched.cli.sweep import sweep
from jaxsched.cli.traces.catalogue import fetch, list_traces
from jaxsched.cli.traces.conversion import convert, generate, import_file
from jaxsched.cli.traces.statistics import describe
from jaxsched.cli.train import train

Command = Callable[..., Any]
COMMANDS: dict[str, Command] = {
    "advise": advise,
    "bench": bench,
    "demo": demo,
    "doctor": doctor,
    "evaluate": evaluate,
    "compare": compare,
    "headroom": headroom,
    "export": export,
    "replay": replay,
    "leaderboard": leaderboard,
    "list": list_all,
    "serve": serve,
    "simulate": simulate,
    "slurm": slurm,
    "kueue": kueue,
    "sweep": sweep,
    "train": train,
}
TRACE_COMMANDS: dict[str, Command] = {
    "fetch": fetch,
    "list": list_traces,
    "import": import_file,
    "convert": convert,
    "generate": generate,
    "describe": describe,
}


def build_app() -> typer.Typer:
    """The command line, all commands registered."""
    app = typer.Typer(
        name="jaxsched",
        help="Environments, learners and baselines for scheduling deep-learning jobs, in JAX.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_about)
    for words, command in COMMANDS.items():
        _add(app, words, command, words)
    traces = typer.Typer(
        help="Traces: describe, import, convert, generate, fetch, list.", no_args_is_help=True
    )
    for words, command in TRACE_COMMANDS.items():
        _add(traces, words, command, f"traces {words}")
    app.add_typer(traces, name="traces")
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"jaxsched {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Environments, learners and baselines for scheduling deep-learning jobs, in JAX."""


def _add(app: typer.Typer, name: str, command: Command, words: str) -> None:
    app.command(name, cls=SharedCommand, epilog="\n".join(EXAMPLES[words]))(command)
