"""The memory that a training needs, checked before it takes any.

The compiled chunk of updates says it: the state carried between updates, temporary buffers, and
outputs written in place.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxsched.errors import JaxschedError
from jaxsched.memory import free_bytes, in_words


class Needed(NamedTuple):
    """Bytes of one device, or of all of them together where they share the machine's memory.

    Attributes:
      peak: at the most.
      carried: between two calls.
    """

    peak: int
    carried: int


class Available(NamedTuple):
    """Bytes that may be taken, and on which device or machine."""

    size: int
    where: str


def needed_by(compiled: Any) -> Needed | None:
    """Bytes of a compiled program; None if the compiler does not say."""
    facts = compiled.memory_analysis()
    if facts is None:
        return None
    carried = facts.argument_size_in_bytes
    given = facts.output_size_in_bytes - facts.alias_size_in_bytes
    here = jax.local_device_count() if jax.default_backend() == "cpu" else 1
    used = min(here, len(_devices_of(compiled)))
    return Needed(used * (carried + given + facts.temp_size_in_bytes), used * carried)


def available() -> Available | None:
    """Free memory now: of a device with its own memory, else of the machine; None: unknown."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        known = device.memory_stats() or {}
        if "bytes_limit" not in known:
            return None
        return Available(known["bytes_limit"] - known.get("bytes_in_use", 0), "on each device")
    free = free_bytes()
    return None if free is None else Available(free, "on this machine")


def check(
    needed: Needed | None,
    num_envs: int,
    smaller: Callable[[int], Needed | None],
) -> str:
    """One line about the memory that a training takes.

    Args:
      needed: of the training.
      num_envs: its environments.
      smaller: what it needs with fewer environments; None where it cannot have so many.

    Raises:
      JaxschedError: it does not fit; the message names a number of environments that would.
    """
    if needed is None:
        return "memory: not known on this device"
    limit = available()
    line = f"{in_words(needed.peak)} at the peak, {in_words(needed.carried)} between updates"
    if limit is None:
        return f"memory: {line}"
    if needed.peak <= limit.size:
        return f"memory: {line}; {in_words(limit.size)} are free {limit.where}"
    advice = _advice(needed, num_envs, smaller, limit.size)
    raise JaxschedError(
        f"this training needs {in_words(needed.peak)} of memory, and {in_words(limit.size)} are "
        f"free {limit.where}: {advice}"
    )


def _advice(
    needed: Needed, num_envs: int, smaller: Callable[[int], Needed | None], limit: int
) -> str:
    """The most environments, of a half, a quarter and so on, whose compiled program fits."""
    number, slope, possible = num_envs, needed.peak / num_envs, False
    fixed = 0.0
    while number > 1:
        number //= 2
        if fixed + slope * number > limit:  # by what is known so far: do not compile it
            continue
        found = smaller(number)
        if found is None:
            continue
        possible = True
        if found.peak <= limit:
            return f"loop.num_envs={number} would fit ({in_words(found.peak)})"
        slope = (needed.peak - found.peak) / (num_envs - number)
        fixed = found.peak - slope * number
    if possible:
        return f"{in_words(int(max(fixed, 0)))} of it do not depend on loop.num_envs"
    return f"loop.num_envs={num_envs} cannot be halved, as the learner needs it"


def _devices_of(compiled: Any) -> list[Any]:
    shardings = jax.tree.leaves(compiled.input_shardings)
    return list(shardings[0].device_set) if shardings else [None]
