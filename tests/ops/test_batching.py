"""A condition that is skipped where no copy needs it, against ``lax.cond``."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops.batching import (
    apply_if,
    materialise,
    materialise_flags,
    materialise_flags_by_quotient,
)

ENDLESS = 2**30  # steps that no test would wait for


def changed(tree, given):
    """Something of every leaf and of what is given."""
    total, (row, count) = tree
    scale, shift = given
    return total * scale + shift.sum(), (row[::-1] + shift, count + 1)


def gated(condition, tree, given):
    return apply_if(condition, changed, tree, given)


def plain(condition, tree, given):
    return jax.lax.cond(condition, lambda: changed(tree, given), lambda: tree)


def inputs(*axes, seed=0):
    """Conditions, trees and what is given, with leading axes."""
    rng = np.random.default_rng(seed)
    condition = jnp.asarray(rng.random(axes) < 0.5)
    tree = (
        jnp.asarray(rng.normal(size=axes), jnp.float32),
        (
            jnp.asarray(rng.normal(size=(*axes, 3)), jnp.float32),
            jnp.asarray(rng.integers(0, 9, axes), jnp.int32),
        ),
    )
    given = (
        jnp.asarray(rng.normal(size=axes), jnp.float32),
        jnp.asarray(rng.normal(size=(*axes, 3)), jnp.float32),
    )
    return condition, tree, given


def check_equal(function, *arguments):
    """The same of both conditions, compiled and not."""
    for wrap in (jax.jit, lambda f: f):
        got = wrap(function(gated))(*arguments)
        expect = wrap(function(plain))(*arguments)
        assert jax.tree.structure(got) == jax.tree.structure(expect)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expect), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("holds", [False, True])
def test_alone(holds):
    _, tree, given = inputs()
    check_equal(lambda f: partial(f, jnp.bool_(holds)), tree, given)


# Which of condition, total, row, count, scale and shift have the axis of copies.
AXES = {
    "all": (0, (0, (0, 0)), (0, 0)),
    "condition": (0, (None, (None, None)), (None, None)),
    "tree": (None, (0, (0, 0)), (None, None)),
    "one leaf": (None, (None, (0, None)), (None, None)),
    "given": (None, (None, (None, None)), (0, 0)),
    "one given": (None, (None, (None, None)), (None, 0)),
    "condition and a leaf": (0, (None, (None, 0)), (None, None)),
    "condition and one given": (0, (None, (None, None)), (0, None)),
}


def taken(axes, batched):
    """``batched`` without the axis of copies where ``axes`` has none."""
    is_axis = lambda x: x is None or isinstance(x, int)  # noqa: E731
    return jax.tree.map(lambda a, x: x if a == 0 else x[0], axes, batched, is_leaf=is_axis)


@pytest.mark.parametrize("holds", [None, False, True])
@pytest.mark.parametrize("name", AXES)
def test_copies(name, holds):
    """Also where some inputs are shared by all copies, and where no or every copy needs it."""
    condition, tree, given = inputs(5)
    if holds is not None:
        condition = jnp.full_like(condition, holds)
    arguments = taken(AXES[name], (condition, tree, given))
    check_equal(lambda f: jax.vmap(f, AXES[name]), *arguments)


@pytest.mark.parametrize("inner", ["all", "condition", "one leaf", "given"])
@pytest.mark.parametrize("outer", ["all", "tree", "condition"])
def test_copies_of_copies(outer, inner):
    arguments = inputs(4, 5)
    arguments = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), arguments)
    arguments = taken(AXES[inner], arguments)
    both = jax.tree.map(
        lambda a, x: jnp.swapaxes(x, 0, 1) if a == 0 else x,
        AXES[inner],
        arguments,
        is_leaf=lambda x: x is None or isinstance(x, int),
    )
    both = taken(AXES[outer], both)
    check_equal(lambda f: jax.vmap(jax.vmap(f, AXES[inner]), AXES[outer]), *both)


def test_copies_along_other_axes():
    condition, tree, given = inputs(5)
    total, (row, count) = tree
    tree = total, (row.T, count)
    axes = (0, (0, (1, 0)), (0, 0))
    check_equal(lambda f: jax.vmap(f, axes), condition, tree, given)
    check_equal(lambda f: jax.vmap(f, axes, (0, (1, 0))), condition, tree, given)


def scanned(f):
    def run(conditions, tree, given):
        def step(tree, condition):
            tree = f(condition, tree, given)
            return tree, tree[0]

        return jax.lax.scan(step, tree, conditions)

    return run


def looped(f):
    """Until the count is 20; every third step changes it once more."""

    def run(conditions, tree, given):
        def step(carry):
            (total, (row, count)), which = carry
            tree = total, (row, count + 1)
            return f(conditions[which % conditions.shape[0]], tree, given), which + 1

        return jax.lax.while_loop(lambda carry: carry[0][1][1] < 20, step, (tree, 0))

    return run


@pytest.mark.parametrize("loop", [scanned, looped])
def test_inside_loops(loop):
    conditions, _, _ = inputs(6)
    _, tree, given = inputs()
    check_equal(loop, conditions, tree, given)
    check_equal(lambda f: jax.vmap(loop(f)), *each_with(inputs(4), 6))
    nested = jax.tree.map(lambda x: x.reshape(2, 2, *x.shape[1:]), each_with(inputs(4), 6))
    check_equal(lambda f: jax.vmap(jax.vmap(loop(f))), *nested)
    shared = conditions, *each_with(inputs(4), 6)[1:]
    check_equal(lambda f: jax.vmap(loop(f), (None, 0, 0)), *shared)


def each_with(arguments, steps):
    """``arguments`` with as many conditions for every copy."""
    copies = arguments[0].shape[0]
    return jnp.asarray(np.random.default_rng(3).random((copies, steps)) < 0.5), *arguments[1:]


def endless(count, given):
    """Ends only where the amount given is 0."""
    return jax.lax.while_loop(lambda i: i < given, lambda i: i + 1, count * 0) + count


PAIRS = (None, 0, 0)
SKIPS = {
    "alone": (lambda f: f, (), (), ()),
    "copies": (jax.vmap, (6,), (6,), (6,)),
    "shared condition": (lambda f: jax.vmap(f, (None, 0, 0)), (), (6,), (6,)),
    "shared tree": (lambda f: jax.vmap(f, (0, None, 0)), (6,), (), (6,)),
    "shared given": (lambda f: jax.vmap(f, (0, 0, None)), (6,), (6,), ()),
    "copies of copies": (lambda f: jax.vmap(jax.vmap(f)), (2, 3), (2, 3), (2, 3)),
    "mixed": (lambda f: jax.vmap(jax.vmap(f, PAIRS), (0, None, 0)), (2,), (3,), (2, 3)),
}


@pytest.mark.parametrize("name", SKIPS)
def test_it_is_skipped(name):
    """While the condition holds for no copy; the work would take longer than any test."""
    wrap, *shapes = SKIPS[name]
    run = jax.jit(wrap(lambda condition, count, given: apply_if(condition, endless, count, given)))
    condition, count, given = (jnp.zeros(shape, jnp.int32) for shape in shapes)
    got = run(condition > 0, count + 1, given + ENDLESS)
    assert (np.asarray(got) == 1).all()
    got = run(condition == 0, count + 1, given + 5)
    assert (np.asarray(got) == 6).all()


def test_it_is_skipped_in_loops():
    """At every step for which no copy needs it."""

    def run(conditions, count):
        def step(count, condition):
            return apply_if(condition, endless, count, jnp.where(condition, 2, ENDLESS)), count

        return jax.lax.scan(step, count, conditions)[0]

    conditions = jnp.tile(jnp.arange(6) % 3 == 0, (4, 1))
    got = jax.jit(jax.vmap(run))(conditions, jnp.arange(4))
    assert got.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("conditions", [[False] * 3, [False, True, False], [True] * 3])
def test_how_often_it_runs(conditions):
    """Once for each copy, if any copy needs it."""
    calls = []

    def noted(tree, given):
        jax.debug.callback(calls.append, tree)
        return tree + given

    run = jax.jit(jax.vmap(lambda condition, tree: apply_if(condition, noted, tree, 1)))
    got = run(jnp.asarray(conditions), jnp.arange(3))
    jax.effects_barrier()
    assert got.tolist() == [index + condition for index, condition in enumerate(conditions)]
    assert len(calls) == 3 * any(conditions)


@pytest.mark.parametrize("number", [0, 5, -7, 2**31 - 1, -(2**31) + 1])
def test_materialise(number):
    assert int(jax.jit(materialise)(jnp.int32(number))) == number


@pytest.mark.parametrize("number", [0.0, -3.25, 1e-30, float("inf"), float("-inf")])
def test_once_of_real_numbers(number):
    assert float(jax.jit(materialise)(jnp.float32(number))) == np.float32(number)


@pytest.mark.parametrize("function", [materialise_flags, materialise_flags_by_quotient])
def test_flags(function):
    """Each flag itself, alone and for copies."""
    flags = jnp.array([[False, False], [False, True], [True, False], [True, True]])
    for pair in flags:
        assert tuple(map(bool, function(*pair))) == tuple(map(bool, pair))
    found = jax.jit(jax.vmap(lambda pair: jnp.stack(function(*pair))))(flags)
    np.testing.assert_array_equal(found, flags)
