"""A scheduler's own commands, each with a limit of time."""

import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from jaxsched.errors import JaxschedError, first_line

TIMEOUT_S = 20.0

Runner = Callable[[Sequence[str], str | None], tuple[int, str, str]]
"""Words of a command and its standard input -> exit status, standard output and error."""


def run(words: Sequence[str], text: str | None = None) -> tuple[int, str, str]:
    """Run a command.

    Raises:
      JaxschedError: it is not there, or has not ended after ``TIMEOUT_S``.
    """
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise JaxschedError(f"{words[0]}: there is no such command; is it installed?") from error
    except subprocess.TimeoutExpired as error:
        raise JaxschedError(f"{words[0]}: no answer in {TIMEOUT_S:g} s") from error
    except (OSError, UnicodeError) as error:
        raise JaxschedError(f"{words[0]}: {first_line(error)}") from error
    return done.returncode, done.stdout, done.stderr


def reply(runner: Runner, words: Sequence[str]) -> Any:
    """The JSON that a command prints.

    Raises:
      JaxschedError: it fails, or prints something else.
    """
    status, out, said = runner(words, None)
    if status:
        raise JaxschedError(f"{words[0]}: exit status {status}: {said.strip()[:200]}")
    try:
        return json.loads(out)
    except (ValueError, RecursionError) as error:
        raise JaxschedError(f"{words[0]}: no JSON: {first_line(error)}") from error
