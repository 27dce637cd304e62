"""Programs for other devices leave out what is meant for a processor; values stay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops import bit_sets, target
from jaxsched.ops.batching import (
    apply_if,
    materialise,
    materialise_flags,
    materialise_flags_by_quotient,
)

FLAGS = (jnp.bool_(True), jnp.bool_(False), jnp.bool_(True))


def steps_of(function, *arguments):
    """Names of the operations that a function is traced to."""

    def names(jaxpr):
        for equation in jaxpr.eqns:
            yield equation.primitive.name
            for inner in jax.core.jaxprs_in_params(equation.params):
                yield from names(inner)

    return set(names(jax.make_jaxpr(function)(*arguments).jaxpr))


def test_the_default_devices_kind_unless_another_is_asked_for():
    assert target.platform() == jax.default_backend() == "cpu"
    assert target.on_cpu() and target.compiler_options() is None
    with target.tracing_for("gpu"):
        assert not target.on_cpu() and target.compiler_options()
        with target.tracing_for("tpu"):
            assert target.platform() == "tpu" and target.compiler_options() is None
        assert target.platform() == "gpu"
    assert target.on_cpu()


@pytest.mark.parametrize(
    ("barrier", "operation"),
    [
        (lambda: materialise(jnp.int32(3) + jnp.int32(4)), "reduce_max"),
        (lambda: materialise_flags(*FLAGS), "reduce_max"),
        (lambda: materialise_flags_by_quotient(*FLAGS), "div"),
        (lambda: bit_sets.append(jnp.array(FLAGS), FLAGS[1]), "shift_right_logical"),
    ],
)
def test_barriers_are_for_processors(barrier, operation):
    assert operation in steps_of(barrier)
    here = barrier()
    with target.tracing_for("gpu"):
        assert operation not in steps_of(lambda: barrier())
        there = barrier()
    np.testing.assert_array_equal(np.asarray(here), np.asarray(there))


@pytest.mark.parametrize("heavy", [False, True])
def test_only_what_is_heavy_is_asked_for_first(heavy):
    def run(condition, number):
        return apply_if(condition, lambda x, y: x * y, number, jnp.int32(5), heavy=heavy)

    conditions, numbers = jnp.array([True, False, True]), jnp.arange(3)
    assert "while" in steps_of(run, True, 2)
    with target.tracing_for("gpu"):
        assert ("while" in steps_of(lambda *x: run(*x), True, 2)) is heavy
        there = jax.vmap(lambda *x: run(*x))(conditions, numbers)
    np.testing.assert_array_equal(there, jax.vmap(run)(conditions, numbers))
