"""Settings of the process: XLA's flags for CPUs, the cache of compiled programs, what it shows.

Imports nothing heavy, so that it can run before JAX.
"""

import contextlib
import hashlib
import os
import platform
import sys
from importlib import metadata

from jaxsched.errors import JaxschedError

_process = 0  # which of several processes this is
_quiet = False  # whether progress and tables are unwanted
_forked = False  # from a process in which JAX was running

UNROLL_OPTION = "xla_cpu_disable_loop_unrolling"
LOOP_OPTION = "xla_cpu_small_while_loop_byte_threshold"
DEVICES_OPTION = "xla_force_host_platform_device_count"
DEVICES_VARIABLE = "JAX_NUM_CPU_DEVICES"
LEAST_COMPILE_S = 0.0  # all programs: a command has a hundred small ones beside its large ones


def prepare_cpu(kernel_bytes: int | None = None) -> None:
    """Ask XLA for code that suits these programs; call it before JAX is first used.

    XLA unrolls short inner loops (8 GPUs of a server, say) before it vectorises, which leaves them
    scalar on a CPU. Results do not depend on it, the speed on a CPU does, by a factor of two; other
    devices ignore it. What the user has put into ``XLA_FLAGS`` stays.

    Args:
      kernel_bytes: loops of which a round touches fewer bytes are compiled into one function each
        instead of one for each operation; XLA's own bound (1 KB) by default. A few megabytes make
        programs of a single environment two to three times as fast, such loops run on one core.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        flags = f"{flags} --xla_backend_extra_options={UNROLL_OPTION}=true".strip()
    if kernel_bytes is not None and LOOP_OPTION not in flags:
        ours = f"{UNROLL_OPTION}=true"
        flags = flags.replace(ours, f"{ours},{LOOP_OPTION}={kernel_bytes}")
    os.environ["XLA_FLAGS"] = flags


def split_cpu(parts: int | None = None) -> None:
    """Have JAX take the cores of a CPU for devices; call it before JAX first looks for devices.

    On one device all cores share every operation and wait for each other after each; on a device
    of its own each core runs the whole program for its part. Other devices are as they were.
    Where JAX knows its devices already, or the user has said how many, nothing changes.

    Args:
      parts: devices, at most one for each core that this process may use; None: as many.
    """
    if DEVICES_OPTION in os.environ.get("XLA_FLAGS", "") or DEVICES_VARIABLE in os.environ:
        return
    cores = num_cores()
    number = cores if parts is None else min(parts, cores)
    if "jax" not in sys.modules:
        os.environ[DEVICES_VARIABLE] = str(number)
        return
    with contextlib.suppress(RuntimeError):  # JAX has looked for devices
        sys.modules["jax"].config.update("jax_num_cpu_devices", number)


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def keep_compilations() -> None:
    """Keep compiled programs between runs, unless the user has set that up already.

    They go below ``$XDG_CACHE_HOME/jaxsched/jax``, by default below ``~/.cache``, into a folder of
    this version of JAX and this kind of processor; whether JAX has been imported before makes no
    difference. ``JAX_ENABLE_COMPILATION_CACHE=0`` turns it off, ``JAX_COMPILATION_CACHE_DIR`` names
    another place. Where there is no home, or nothing can be written there, none are kept.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = _cache_folder()
    if folder is None:
        return
    if "jax" not in sys.modules:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(LEAST_COMPILE_S))
        return
    config = sys.modules["jax"].config
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", folder)
        config.update("jax_persistent_cache_min_compile_time_secs", LEAST_COMPILE_S)


def _cache_folder() -> str | None:
    """The folder of compiled programs, made if need be; None where it cannot be written."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):  # others are to be ignored, says the XDG specification
        home = os.path.expanduser("~/.cache")
    folder = os.path.join(home, "jaxsched", "jax", machine())
    try:
        if not os.path.isabs(home):  # neither HOME nor an entry of this user
            return None
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def machine() -> str:
    """A word for what compiled programs depend on beside JAX's own keys.

    The machines of a cluster may share a home and differ in their processors' instructions, and
    one that lacks some of them must not run the programs of one that has them.
    """
    kind = [platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            named = (line for line in file if line.startswith(("flags", "Features", "isa")))
            kind += sorted(next(named, "").split())
    except OSError:
        kind.append(platform.processor())
    version = metadata.version("jaxlib")
    return f"{version}-{hashlib.sha256(' '.join(kind).encode()).hexdigest()[:8]}"


def compute_in_single() -> None:
    """Switch JAX' 64 bits off in this process (``JAX_ENABLE_X64``), whatever the caller has set.

    Programs of this library say their types; what others compute in 64 bits has no place in it.
    """
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", False)
    else:
        os.environ["JAX_ENABLE_X64"] = "0"


def _after_fork() -> None:
    global _forked
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", lambda: False)
    _forked = _forked or bool(started())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_not_forked() -> None:
    """Refuse to compute in a process that was forked after JAX had started: it would hang.

    Raises:
      JaxschedError: this is one.
    """
    if _forked:
        raise JaxschedError(
            "this process was forked from one in which JAX was running, and JAX would hang in it; "
            "start worker processes with the method 'spawn' (multiprocessing.get_context('spawn'), "
            "context='spawn' of vector environments)"
        )


def set_process(index: int) -> None:
    """Remember which of several processes this is, from 0."""
    global _process
    _process = index


def is_first() -> bool:
    """Whether this process is the only one, or the one of several that writes and shows."""
    return _process == 0


def set_quiet(quiet: bool) -> bool:
    """Show neither progress nor tables from now on, or do; gives back what was set."""
    global _quiet
    _quiet = quiet
    return quiet


def shows() -> bool:
    """Whether this process shows progress and tables."""
    return is_first() and not _quiet
