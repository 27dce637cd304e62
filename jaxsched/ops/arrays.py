"""From NumPy to the device."""

from typing import Any

import jax
import numpy as np

from jaxsched.runtime import check_not_forked
from jaxsched.types import Array


def to_device(values: Any, dtype: Any = None) -> Array:
    """``jnp.asarray``, converted before it leaves: JAX compiles a conversion for every shape.

    Args:
      values: numbers of any shape, not traced.
      dtype: as for ``jnp.asarray``; the values' own if absent.

    Raises:
      JaxschedError: this process was forked from one in which JAX was running.
    """
    check_not_forked()
    array = np.asarray(values)
    return jax.device_put(array.astype(jax.dtypes.canonicalize_dtype(dtype or array.dtype)))
