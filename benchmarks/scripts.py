"""What every script here does around its work: results read, tables, failures as one line."""

import json
import lzma
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.runtime import prepare_cpu

BAD_INPUT, STOPPED = 2, 130
PACKED = ".xz"
"""Ends the name of a compressed result file (`benchmarks.pack`)."""


def packed_path(path: Path) -> Path:
    """Where a result file is once it is packed."""
    return path.with_name(path.name + PACKED)


def read_json(path: Path) -> Any:
    """Read a result file.

    Args:
      path: the file; where ``NAME.json`` is missing, ``NAME.json.xz`` is read.

    Raises:
      JaxschedError: it does not exist, or holds no JSON.
    """
    packed = packed_path(path)
    if not path.exists() and packed.exists():
        path = packed
    try:
        data = path.read_bytes()
        return json.loads(lzma.decompress(data) if path.suffix == PACKED else data)
    except OSError as error:
        raise JaxschedError(f"{path.name}: cannot be read: {error.strerror}") from error
    except (ValueError, lzma.LZMAError) as error:
        raise JaxschedError(f"{path.name}: is not JSON: {error}") from error


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def chosen(words: str, known: Collection[str], option: str, *, sign: str = ",") -> list[str]:
    """The words of an option, between signs.

    Raises:
      JaxschedError: one is unknown.
    """
    found = words.split(sign)
    for word in found:
        if word not in known:
            raise JaxschedError(f"{option}: {word!r}; accepted: {f'{sign} '.join(known)}")
    return found


def untrained(system: Any, env: Any, kind: str, params: Any, keys: Iterable[Any]) -> list[Any]:
    """Weights of a network as they are drawn, one set for each key."""
    from jaxsched.systems import functions

    specs = env.specs(params)
    return [functions.initial(system, env, kind, key, specs) for key in keys]


def exit_status(main: Callable[[], object], *, stopped: str = "stopped") -> int:
    """Run a script's ``main``, JAX being set up for CPUs, and return its exit status.

    0 where it ends, 2 for bad input and for files that cannot be read or written, and 130 for
    Ctrl-C, each with one line on standard error.

    Args:
      main: the script's work.
      stopped: the line for Ctrl-C.
    """
    prepare_cpu()
    try:
        main()
    except (JaxschedError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(stopped, file=sys.stderr)
        return STOPPED
    return 0
