"""Compiled programs that are kept."""

import gc

import jax
import jax.numpy as jnp
import numpy as np

from jaxsched.ops.programs import bounded_programs


def live_programs():
    """Compiled programs in memory."""
    gc.collect()
    return len(jax.local_devices()[0].client.live_executables())


def test_programs_of_earlier_cases_are_forgotten():
    traced = []

    @bounded_programs(num_static=2, most=2)
    def scaled(factor, power, values, shift):
        traced.append(factor)
        return factor * values**power + shift

    before = live_programs()
    for factor in range(1, 9):
        for _ in range(2):
            got = scaled(factor, 2, np.arange(3), np.int32(1))
            assert got.tolist() == [1, factor + 1, 4 * factor + 1]
    assert traced == list(range(1, 9))
    assert live_programs() - before == 2
    for size in range(3, 9):
        scaled(8, 2, np.arange(size), np.int32(1))
    assert len(traced) == 8 + 5
    assert live_programs() - before == 2


def test_a_program_serves_all_values_of_one_layout():
    traced = []

    @bounded_programs()
    def total(name, tree):
        traced.append(name)
        return sum(jnp.sum(x) for x in tree.values())

    assert total("a", {"x": jnp.arange(3), "y": jnp.int32(4)}) == 7
    assert total("a", {"x": np.arange(3, dtype=np.int32), "y": np.int32(5)}) == 8
    assert traced == ["a"]
    assert total("a", {"x": jnp.arange(3.0), "y": jnp.int32(4)}) == 7
    assert total("b", {"x": jnp.arange(3.0), "y": jnp.int32(4)}) == 7
    assert traced == ["a", "a", "b"]
