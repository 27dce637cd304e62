"""Programs that are compiled as users' are."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def optimising() -> Iterator[None]:
    """Let XLA optimise what is compiled within, which the suite does not (``conftest.py``)."""
    import jax

    usual = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", usual)
