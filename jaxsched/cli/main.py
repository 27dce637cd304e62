"""Entry point: commands, and every failure as one line with an exit status.

Exit status: 0 done, 1 another process of the run ended, 2 bad input, 124 stopped by its time limit,
130 by Ctrl-C, 143 by SIGTERM (128 and the number of any other signal). Heavy modules (JAX,
matplotlib) are imported by the commands that need them.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import typer

from jaxsched.arguments import options_typed
from jaxsched.cli.commands import build_app
from jaxsched.cli.output import BAD_INPUT, LOST, STOPPED, begin
from jaxsched.errors import EndedAlone, JaxschedError
from jaxsched.runs import interrupts
from jaxsched.runtime import compute_in_single, keep_compilations, prepare_cpu

# ClickException, wherever this release of typer keeps it (it carries its own click since 0.29).
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    prepare_cpu()
    compute_in_single()
    keep_compilations()
    begin()
    warnings.formatwarning = _on_one_line
    for stream in (sys.stdout, sys.stderr):  # letters that it cannot show must not stop anything
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with options_typed(), interrupts.prompt(_say):
            status = build_app()(words, standalone_mode=False)
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
    except EndedAlone as error:
        status = _fail(str(error), LOST)
        sys.stdout.flush()
        os._exit(status)  # leaving in the usual way would wait for the others
    except interrupts.Stopped as stop:
        return _fail(str(stop), stop.status)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped", STOPPED)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OverflowError as error:
        return _fail(f"a number is too large: {error}")
    except MemoryError as error:
        return _fail(f"more memory is needed than there is: {error}")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")


def _fail(message: str, status: int = BAD_INPUT) -> int:
    _say(message)
    return status


def _on_one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    """A warning of Python's as a user should see it: without file, class and line of source."""
    return f"jaxsched: {' '.join(str(message).split())}\n"


def _say(message: str) -> None:
    with contextlib.suppress(OSError):  # the terminal has gone
        print(f"jaxsched: {' '.join(message.split())}", file=sys.stderr, flush=True)
