"""Small tables played as if they were long: what is treated at once there, one by one elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import pytest

from jaxsched.ops import bit_sets


@contextmanager
def few_words(most: int) -> Iterator[None]:
    """Sets of more than so many words of 32 jobs are not gone through word by word."""
    jax.clear_caches()  # programs of the other form
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_sets, "FEW_WORDS", most)
        patch.setattr(bit_sets, "FEW_TO_COUNT", most)
        yield
    jax.clear_caches()
