"""Which kind of device a program is traced for, where one way of writing it is faster on each.

What is computed is the same either way; compilers for different devices gain by different means.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import jax

from jaxsched.errors import JaxschedError

CPU = "cpu"
VMAP, LANES, KERNEL = LOWERINGS = "vmap", "lanes", "kernel"
"""How steps of one instance become a program for many: see :func:`lowering`."""
MOST_IN_LANES = 256
"""Numbers of an instance up to which lanes are taken on a GPU: each makes the program longer."""
_ASKED: ContextVar[str | None] = ContextVar("target", default=None)
_LOWERING: ContextVar[str | None] = ContextVar("lowering", default=None)
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


def lowering(numbers: int, *, alone: bool, covered: Callable[[], bool] = lambda: True) -> str:
    """How steps of many instances side by side are written; their results are the same.

    ``vmap`` is ``jax.vmap``; ``lanes`` writes them number by number (``ops.lanes``), ``kernel`` so,
    and many steps as one kernel (``ops.lane_kernel``). On a GPU steps of few numbers that follow
    each other alone are written over lanes, all others by ``jax.vmap``, unless :func:`lowered_by`
    asks: a network that acts in between needs the state put together again.

    Args:
      numbers: of one instance's state.
      alone: whether nothing that is no part of a step acts between steps.
      covered: whether lanes have a rule for all of it; called where lanes would be taken.
    """
    asked = _LOWERING.get()
    if asked is not None:
        return asked
    few = platform() == "gpu" and alone and numbers <= MOST_IN_LANES
    return LANES if few and covered() else VMAP


@contextmanager
def lowered_by(name: str | None) -> Iterator[None]:
    """Have :func:`lowering` say so, within; None: as fits the device.

    Raises:
      JaxschedError: another name.
    """
    if name is not None and name not in LOWERINGS:
        raise JaxschedError(f"lowering: {name!r}; accepted: {', '.join(LOWERINGS)}")
    token = _LOWERING.set(name)
    try:
        yield
    finally:
        _LOWERING.reset(token)


def compiler_options() -> dict[str, str | bool] | None:
    """Of XLA, for ``compile`` of a lowered program with loops; None where the usual ones serve."""
    options = _OPTIONS.get(platform())
    return {**options} if options else None
