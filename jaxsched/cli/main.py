"""Entry point: commands, and every failure as one line with an exit status.

Exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C. Heavy modules (JAX, matplotlib) are
imported by the commands that need them.
"""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import typer

from jaxsched.errors import JaxschedError
from jaxsched.runtime import prepare_cpu

app = typer.Typer(
    name="jaxsched",
    help="Environments, learners and baselines for scheduling deep-learning jobs, in JAX.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
BAD_INPUT, STOPPED = 2, 130
# ClickException, wherever this release of typer keeps it (it carries its own click since 0.29).
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    from jaxsched.cli import commands  # noqa: F401  (registers the commands)

    _cache_compilations()
    for stream in (sys.stdout, sys.stderr):  # letters that it cannot show must not stop anything
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = app(list(sys.argv[1:] if arguments is None else arguments), standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except UsageProblem as error:
        message = getattr(error, "format_message", error.__str__)()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
            return BAD_INPUT
        return _fail(message)
    except JaxschedError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped", STOPPED)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")


def _fail(message: str, status: int = BAD_INPUT) -> int:
    print(f"jaxsched: {' '.join(message.split())}", file=sys.stderr)
    return status


def _cache_compilations() -> None:
    """Keep compiled programs between runs, unless the user has set that up already."""
    folder = os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "jaxsched", "jax"
    )
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
    prepare_cpu()
