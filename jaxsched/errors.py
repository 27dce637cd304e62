"""The exceptions that users meet, the checks that most often raise one, and counts in words."""

import importlib
from numbers import Integral
from typing import Any


class JaxschedError(ValueError):
    """Bad input, described in one line: what was found, where, and what is accepted.

    The command line prints the message alone and exits with status 2; scripts catch it like any
    ``ValueError``.
    """


class EndedAlone(Exception):
    """This process of several cannot go on, and others may wait for it: it has to end at once."""


def check_counts(*, optional: bool = False, **counts: Any) -> None:
    """Refuse counts that are not whole numbers from 1 on.

    Args:
      optional: None stands for a count that is not given, and is accepted.
      **counts: by the names that messages call them.

    Raises:
      JaxschedError: one of them is not accepted.
    """
    for name, value in counts.items():
        if optional and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise JaxschedError(f"{name} is {value!r}; accepted: a whole number from 1 on")


def counted(number: int, noun: str) -> str:
    """A number of things in words: ``1 episode``, ``2 episodes``, ``12,345 episodes``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def needed(module: str, extra: str, packages: str = "") -> Any:
    """A module of an optional package.

    Args:
      module: its name.
      extra: of this library, which brings the package.
      packages: to be installed instead, where no extra has them.

    Raises:
      JaxschedError: it is not installed; says how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise JaxschedError(
            f"this needs the package {package}, which is not installed; "
            f"pip install {packages or repr(f'jaxsched[{extra}]')}"
        ) from error
