"""How everything is timed: compiled ahead of time, warmed up twice, repeated with new keys.

This module imports only JAX and NumPy, so that a worker in another project's environment can use
it (``peer_worker.py``).
"""

import contextlib
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

WARM_UPS = 2
DEVICES = "devices"
ROWS = PartitionSpec(DEVICES)
SHORTEST_CALL_S = 1e-4  # so that the calls of a repeat have a bound
Loop = Callable[[Any, Any], tuple[Any, Any]]


def over_devices(loop: Loop, num_devices: int) -> Loop:
    """The same loop on each of several devices alone, with its part of the carry's rows.

    Args:
      loop: of the carry's rows ``[B / num_devices, ...]``.
      num_devices: the first of this process; one: the loop as it is.

    Returns:
      A loop of ``[B, ...]``; what it returns beside the carry has an axis of devices first.
    """
    if num_devices == 1:
        return loop

    def alone(key: Any, carry: Any) -> tuple[Any, Any]:
        carry, output = loop(jax.random.fold_in(key, jax.lax.axis_index(DEVICES)), carry)
        return carry, jax.tree.map(lambda leaf: leaf[None], output)

    return jax.shard_map(
        alone,
        mesh=_mesh(num_devices),
        in_specs=(PartitionSpec(), ROWS),
        out_specs=(ROWS, ROWS),
        check_vma=False,  # loops over random keys do not pass that check
    )


def laid_out(carry: Any, num_devices: int) -> Any:
    """A copy of a carry with an equal part of its rows on each device.

    It shares no memory with anything else, so that it can be donated.
    """
    carry = jax.tree.map(jnp.copy, carry)
    if num_devices == 1:
        return carry
    return jax.device_put(carry, NamedSharding(_mesh(num_devices), ROWS))


def sharing(batch: int, num_devices: int) -> int:
    """The most devices, up to ``num_devices``, that can share so many rows equally."""
    return next(number for number in range(num_devices, 0, -1) if batch % number == 0)


def _mesh(num_devices: int) -> Mesh:
    return Mesh(np.array(jax.local_devices()[:num_devices]), (DEVICES,))


class Lap(NamedTuple):
    """Seconds on the clock, and of the processor (all threads together)."""

    wall_s: float
    cpu_s: float


class Stopwatch:
    """Runs from its creation."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def lap(self) -> Lap:
        """Time since the creation."""
        return Lap(time.perf_counter() - self._wall, time.process_time() - self._cpu)


class Timing(NamedTuple):
    """Times of one program: each repeat, its ahead-of-time compilation, and what it returned."""

    laps: list[Lap]
    compile_s: float
    output: Any = None  # of the last call
    calls: int = 1  # of the program in each repeat

    @property
    def wall_s(self) -> np.ndarray:
        """Seconds of each repeat."""
        return np.array([lap.wall_s for lap in self.laps])

    @property
    def cpu_s(self) -> np.ndarray:
        """Processor seconds of each repeat."""
        return np.array([lap.cpu_s for lap in self.laps])


@contextlib.contextmanager
def fresh_compilations() -> Iterator[None]:
    """Compile anew, so that compile seconds mean something, then restore the setting."""
    name = "jax_enable_compilation_cache"
    before = getattr(jax.config, name)
    jax.config.update(name, False)
    try:
        yield
    finally:
        jax.config.update(name, before)


def measure(
    loop: Loop,
    carry: Any,
    repeats: int,
    *,
    least_s: float = 0.0,
    seed: int = 0,
    compiler_options: dict[str, str | bool] | None = None,
) -> Timing:
    """Time ``loop(key, carry) -> (carry, anything)``; the carry is consumed and passed on.

    Args:
      loop: what is compiled and called.
      carry: at the first call.
      repeats: timed, each with keys of its own.
      least_s: call the program as often in each repeat as takes so many seconds; once if 0.
      seed: of the keys.
      compiler_options: of XLA.
    """
    keys = list(jax.random.split(jax.random.key(seed), WARM_UPS + repeats))
    stopwatch = Stopwatch()
    with fresh_compilations():
        lowered = jax.jit(loop, donate_argnums=1).lower(keys[0], carry)
        compiled = lowered.compile(compiler_options)
    compile_s = stopwatch.lap().wall_s
    for key in keys[:WARM_UPS]:
        stopwatch = Stopwatch()
        carry, output = jax.block_until_ready(compiled(key, carry))
    call_s = max(stopwatch.lap().wall_s, SHORTEST_CALL_S)
    calls = max(1, math.ceil(least_s / call_s))
    laps = []
    for key in keys[WARM_UPS:]:
        several = [key] if calls == 1 else list(jax.random.split(key, calls))
        stopwatch = Stopwatch()
        for one in several:
            carry, output = compiled(one, carry)
        jax.block_until_ready((carry, output))
        laps.append(stopwatch.lap())
    return Timing(laps, compile_s, output, calls)


def row(timing: Timing, *, batch: int, num_steps: int) -> dict[str, Any]:
    """One line of a result: ``num_steps`` steps of ``batch`` environments in each call."""
    num_steps *= timing.calls
    steps = batch * num_steps
    wall = timing.wall_s
    return {
        "batch": batch,
        "steps_per_repeat": num_steps,
        "repeats": len(wall),
        "steps_per_s": {
            "median": float(steps / np.median(wall)),
            "min": float(steps / wall.max()),
            "max": float(steps / wall.min()),
        },
        "cpu_ns_per_step": float(np.median(timing.cpu_s) / steps * 1e9),
        "compile_s": timing.compile_s,
    }


def bytes_of(tree: Any) -> int:
    """Bytes of all arrays of a pytree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def bandwidth_bytes_per_s(size: int = 1 << 24, repeats: int = 10, passes: int = 16) -> float:
    """Bytes per second of ``a + 2 b`` over large float32 arrays (two read, one written).

    Args:
      size: numbers per array.
      repeats: timed calls.
      passes: over the arrays in each call, so that its start does not count.
    """

    def triad(key: Any, carry: tuple[Any, Any]) -> tuple[Any, None]:
        del key
        a, b = carry
        return (jax.lax.fori_loop(0, passes, lambda _, x: x + 2.0 * b, a), b), None

    carry = jnp.ones(size, jnp.float32), jnp.full(size, 0.5, jnp.float32)
    timing = measure(triad, carry, repeats)
    return float(passes * 3 * 4 * size / np.median(timing.wall_s))


def peak_memory_bytes() -> int:
    """Most memory in use so far: of the device, or of this process where that is a CPU."""
    known = jax.devices()[0].memory_stats() or {}
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return int(known.get("peak_bytes_in_use", own))


def pick_uniform(draw: Any, mask: Any) -> Any:
    """A legal action, uniform up to 2**-16.

    Args:
      draw: uint32 scalar, of which the low 16 bits are used.
      mask: bool ``[A]``.
    """
    num_actions = mask.shape[-1]
    if num_actions > 32:
        rank = jnp.cumsum(mask) - mask
        count = jnp.sum(mask, dtype=jnp.uint32)
    else:
        bit = np.uint32(1) << np.arange(num_actions, dtype=np.uint32)
        bits = jnp.sum(jnp.where(mask, bit, 0), dtype=jnp.uint32)
        rank = jax.lax.population_count(bits & (bit - 1))
        count = jax.lax.population_count(bits)
    chosen = ((draw & 0xFFFF) * count) >> 16
    return jnp.sum(jnp.where(mask & (rank == chosen), jnp.arange(num_actions), 0))


def hashed_uniform(draw: Any, shape: tuple[int, ...]) -> Any:
    """Float32 of the given shape on [-1, 1), from one random word by mixing in the index.

    Good enough to make actions differ, and much cheaper than as many random words.

    Args:
      draw: uint32 scalar.
      shape: of the result.
    """
    index = jnp.arange(int(np.prod(shape)), dtype=jnp.uint32).reshape(shape)
    word = (draw ^ (index * jnp.uint32(0x9E3779B9))) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 15)) * jnp.uint32(0xC2B2AE35)
    return (word >> 8).astype(jnp.float32) * jnp.float32(2.0**-23) - 1.0


def consume(observation: Any) -> Any:
    """One number that depends on every entry: a product with fixed weights, leaf by leaf.

    The weights make it a matrix product, for which compilers write the observation to memory.
    """
    total = jnp.float32(0)
    for leaf in jax.tree.leaves(observation):
        flat = leaf.reshape(-1).astype(jnp.float32)
        weights = np.random.default_rng(0).uniform(0.5, 1.5, flat.shape[0]).astype(np.float32)
        total += flat @ jnp.asarray(weights)
    return total
