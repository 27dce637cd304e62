"""Arguments of calls and commands: how messages spell them, and the largest numbers they take.

A message names an argument as its caller types it, ``num_jobs`` in Python and ``--num-jobs`` on the
command line, which is the one caller that types options. Imports nothing.
"""

import contextlib
from collections.abc import Iterator

LARGEST = 2**31 - 1
"""Of what is counted: programs count with 32 bits."""
LARGEST_SEED = 2**32 - 1
"""A random key is made of so many bits."""

OPTIONS = {
    "formats": "--format",
    "options": "--option",
    "policies": "--policy",
    "test_traces": "--test-trace",
    "traces": "--trace",
}
"""Options that are not called as the argument is, with a hyphen for ``_``."""

_options = False  # whether the caller types options


@contextlib.contextmanager
def options_typed(typed: bool = True) -> Iterator[None]:
    """Inside, messages name options of the command line; ``typed=False`` arguments of Python."""
    global _options
    before, _options = _options, typed
    try:
        yield
    finally:
        _options = before


def are_options() -> bool:
    """Whether messages name options of the command line."""
    return _options


def argument(name: str) -> str:
    """An argument as its caller types it.

    Args:
      name: of the argument in Python, such as ``num_jobs``.
    """
    if not _options:
        return name
    return OPTIONS.get(name) or f"--{name.replace('_', '-')}"


def entry_of(name: str, key: str) -> str:
    """One entry of an argument that is a mapping, ``set['seed']``; ``--set seed`` as an option.

    Args:
      name: of the argument in Python.
      key: of the entry.
    """
    return f"{argument(name)} {key}" if _options else f"{name}[{key!r}]"


def change_of_environment(path: str) -> str:
    """A change of an environment alone: ``--set env.NAME``; in Python the argument ``NAME``.

    Args:
      path: ``env.NAME``, whatever stands behind it.
    """
    return entry_of("set", path) if _options else path.removeprefix("env.")
