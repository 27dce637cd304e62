"""Which kind of device a program is traced for, where one way of writing it is faster on each.

What is computed is the same either way; compilers for different devices gain by different means.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import jax

CPU = "cpu"
_ASKED: ContextVar[str | None] = ContextVar("target", default=None)
_OPTIONS: Mapping[str, Mapping[str, bool]] = {
    # What a loop carries gets a second buffer instead of a copy in each round.
    "gpu": {"xla_gpu_enable_while_loop_double_buffering": True},
}


def platform() -> str:
    """``cpu``, ``gpu`` or ``tpu``: the default device's, unless another one is asked for."""
    return _ASKED.get() or jax.default_backend()


def on_cpu() -> bool:
    """Whether programs are traced for a processor."""
    return platform() == CPU


@contextmanager
def tracing_for(name: str) -> Iterator[None]:
    """Trace for another kind of device than this machine's, within.

    A function that ``jax.jit`` has traced before keeps that trace: ask before its first call.

    Args:
      name: ``cpu``, ``gpu`` or ``tpu``.
    """
    token = _ASKED.set(name)
    try:
        yield
    finally:
        _ASKED.reset(token)


def compiler_options() -> dict[str, str | bool] | None:
    """Of XLA, for ``compile`` of a lowered program with loops; None where the usual ones serve."""
    options = _OPTIONS.get(platform())
    return {**options} if options else None
