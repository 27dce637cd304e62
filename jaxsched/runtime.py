"""Settings for CPUs; imports nothing, so that it can run before JAX."""

import os

UNROLL_OPTION = "xla_cpu_disable_loop_unrolling"


def prepare_cpu() -> None:
    """Ask XLA for code that suits these programs; call it before JAX is first used.

    XLA unrolls short inner loops (8 GPUs of a server, say) before it vectorises, which leaves them
    scalar on a CPU. Results do not depend on it, the speed on a CPU does, by a factor of two; other
    devices ignore it. What the user has put into ``XLA_FLAGS`` stays.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        option = f"--xla_backend_extra_options={UNROLL_OPTION}=true"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()
