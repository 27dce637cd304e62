"""Arrays made by NumPy are those that JAX makes, without a program for each shape."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops.arrays import to_device

VALUES = np.array([0.1, -2.5, 3e9, 7.0])


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (VALUES, float),
        (VALUES, jnp.float32),
        (VALUES, None),
        ([1, 2, 3], jnp.int32),
        (np.arange(6).reshape(2, 3), None),
        (np.array([2**31 + 5]), jnp.int32),
        ([True, False], None),
        (3, jnp.uint32),
    ],
)
def test_arrays_are_those_of_jax(values, dtype, x64):
    with jax.enable_x64(x64):
        expected, found = jnp.asarray(np.asarray(values), dtype), to_device(values, dtype)
    assert found.dtype == expected.dtype and found.weak_type == expected.weak_type
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_compiled():
    compiled = []

    def listen(name, seconds, **_):
        if name.endswith("backend_compile_duration"):
            compiled.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        to_device(np.arange(1237), jnp.int32)
        to_device(np.ones(1238), float)
        assert not compiled
        jnp.zeros(1239).block_until_ready()
        assert compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
