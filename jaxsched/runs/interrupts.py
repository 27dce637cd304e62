"""Ctrl-C while something is computed that has to be saved first."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def pressed() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a flag that is read between chunks; a second one stops at once."""
    numbers: list[int] = []

    def handler(number: int, frame: Any) -> None:
        del frame
        numbers.append(number)
        if len(numbers) > 1:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:  # not in the main thread: Ctrl-C is somebody else's
        yield lambda: False
        return
    try:
        yield lambda: bool(numbers)
    finally:
        signal.signal(signal.SIGINT, before)
