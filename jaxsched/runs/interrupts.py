"""Stops of a program before its end: by Ctrl-C, signals of batch systems, a time limit.

Slurm and Kubernetes end programs by SIGTERM, half a minute before SIGKILL; Slurm sends another
signal earlier on request (``sbatch --signal``). A training writes its newest state first
(:func:`requests`); all else stops where it is (:func:`prompt`).
"""

import contextlib
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop any command."""
TIME_IS_UP = 124
"""Exit status of a command that its time limit stopped, as of ``timeout``."""
PATIENCE_S = 2.0
"""How long compiled code, which hears no signal, may go on where nothing has to be saved."""

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([smhd]?)")

_saves = 0  # computations under way whose state is saved before the program ends


class Stopped(BaseException):
    """The program has been asked to end; no ``Exception``, as ``KeyboardInterrupt`` is none.

    Attributes:
      status: the exit status for it: 128 and the number of the signal, or ``TIME_IS_UP``.
    """

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message or f"stopped{by(status)}")
        self.status = status


class Limits(NamedTuple):
    """Limits that end a training early.

    Attributes:
      deadline: time of ``time.monotonic``; none if absent.
      signals: signals that end it, beside ``ENDING``.
    """

    deadline: float | None = None
    signals: tuple[int, ...] = ()

    def status_before(self, ahead_s: float) -> int:
        """``TIME_IS_UP`` where work of so many seconds would end after the deadline, else 0."""
        late = self.deadline is not None and time.monotonic() + ahead_s >= self.deadline
        return TIME_IS_UP if late else 0


UNLIMITED = Limits()


def by(status: int) -> str:
    """The cause behind an exit status, to follow the word "stopped"."""
    if status == TIME_IS_UP:
        return f": the time of {argument('max_time')} is up"
    number = status - 128
    return "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"


def read_time(given: str | float) -> float:
    """Seconds of a time such as ``5400``, ``90m``, ``2h`` or ``1h30m``; a number is in seconds.

    Raises:
      JaxschedError: it is none, or not above 0.
    """
    words = given.strip().lower() if isinstance(given, str) else f"{given:f}"
    parts = list(_PART.finditer(words))
    whole = "".join(part.group() for part in parts) == words and bool(words)
    several = len(parts) > 1 and not all(part[2] for part in parts)
    seconds = math.fsum(float(part[1]) * _UNITS_S[part[2]] for part in parts)
    if not whole or several or seconds <= 0:
        raise JaxschedError(
            f"a time limit of {given!r}; accepted: seconds, or a number with s, m, h or d "
            "(90m, 2h, 1h30m), above 0"
        )
    return seconds


def read_signal(text: str) -> int:
    """Number of a signal by its name, ``SIGUSR1`` or ``USR1``.

    Raises:
      JaxschedError: there is none of that name, or no program can take it.
    """
    name = text.strip().upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    found = signal.Signals.__members__.get(name)
    if found is None or found in (signal.SIGKILL, signal.SIGSTOP):
        raise JaxschedError(f"no signal {text!r} can be taken; accepted: such as SIGUSR1, SIGUSR2")
    return int(found)


def limits(max_time: str | float | None = None, stop_on: Sequence[str] | None = None) -> Limits:
    """Limits as they are typed; a time limit counts from now.

    Raises:
      JaxschedError: a time or a signal is not accepted.
    """
    deadline = None if max_time is None else time.monotonic() + read_time(max_time)
    return Limits(deadline, tuple(read_signal(name) for name in stop_on or ()))


@contextlib.contextmanager
def requests(limit: Limits = UNLIMITED) -> Iterator[Callable[[float], int]]:
    """Turn signals and a time limit into a status that is read where all can be saved.

    Yields:
      A function of the seconds that the next piece of work will take: 0, or the exit status for
      what has asked to stop. A second Ctrl-C stops at once; other signals may come many times.

    Raises:
      KeyboardInterrupt: at a second Ctrl-C.
    """
    global _saves
    heard: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        del frame
        _answered.set()
        if number == signal.SIGINT and number in heard:
            raise KeyboardInterrupt
        heard.append(number)

    def asked(ahead_s: float = 0.0) -> int:
        if heard:
            return 128 + heard[0]
        return limit.status_before(ahead_s)

    with _handled((*ENDING, *limit.signals), handler):
        _saves += 1
        try:
            yield asked
        finally:
            _saves -= 1


@contextlib.contextmanager
def prompt(say: Callable[[str], Any]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end what runs within, at the latest after ``PATIENCE_S``.

    They raise ``Stopped``. Python raises nothing before compiled code returns, such as XLA's
    compiler; a thread then says the line and ends the process, unless something is being
    computed that has to be saved (:func:`requests`), which a second Ctrl-C ends.

    Args:
      say: shows a line.
    """

    def handler(number: int, frame: FrameType | None) -> None:
        del frame
        _answered.set()
        raise Stopped(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(reader, say), daemon=True)
    watch.start()
    try:
        with _handled(ENDING, handler):
            yield
    finally:
        signal.set_wakeup_fd(before)
        os.write(writer, _END)
        watch.join()
        os.close(writer)
        os.close(reader)


_END = b"\0"
_answered = threading.Event()  # Python has run a handler since the last signal


def _watch(reader: int, say: Callable[[str], Any]) -> None:
    """End the process at signals that Python does not come to answer."""
    presses = 0
    while (read := os.read(reader, 1)) != _END:
        number = read[0]
        if number not in ENDING:
            continue
        presses += number == signal.SIGINT
        if (_saves and presses < 2) or _answered.wait(PATIENCE_S):
            _answered.clear()
            continue
        say(f"stopped{by(128 + number)}")
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # a display may have hidden the cursor
        sys.stderr.flush()
        os._exit(128 + number)


@contextlib.contextmanager
def _handled(
    numbers: Sequence[int], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Signals are given to ``handler``; nothing outside the main thread, where none arrive."""
    before: dict[int, Any] = {}
    try:
        with contextlib.suppress(ValueError):  # not in the main thread
            for number in numbers:
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue  # nohup
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, signal.SIG_DFL if former is None else former)
