"""Placement rules against the loops that define them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.ops.packing import (
    count_bits,
    cumulative_free,
    pack,
    pack_gang,
    servers_for,
    servers_used,
    taken_gpus,
    to_bits,
)

SHAPES = [(15, 8), (4, 4), (1, 8), (6, 1), (3, 32)]
CASES = 300


@jax.jit
def pack_all(free_counts, sizes):
    """Packing of one gang for each row: GPUs by server, servers foreseen and servers used."""

    def one(free_count, size):
        cumulative = cumulative_free(free_count)
        packing = pack(free_count, cumulative, size)
        return packing.counts(free_count), servers_used(cumulative, size), packing.num_servers

    return jax.vmap(one)(jnp.asarray(free_counts), jnp.asarray(sizes))


def packed(free_count, size):
    counts, _, _ = pack_all(np.array([free_count], np.int32), np.array([size], np.int32))
    return counts[0].tolist()


def loop(free_count, size):
    """The loop of the specification."""
    free, taken, left = list(free_count), [0] * len(free_count), size
    while left > 0:
        able = [s for s in range(len(free)) if free[s] >= left]
        if able:
            server = min(able, key=lambda s: (free[s], s))
            count = left
        else:
            server = max(range(len(free)), key=lambda s: (free[s], -s))
            count = free[server]
        taken[server] += count
        free[server] -= count
        left -= count
    return taken


def random_cases(servers, gpus, seed=0):
    """Free GPUs of each server, from nearly full to idle clusters, and gangs that fit."""
    rng = np.random.default_rng(seed)
    free = rng.binomial(gpus, rng.uniform(0.05, 1, (CASES, 1)), (CASES, servers))
    free[free.sum(axis=1) == 0, 0] = 1
    free[0] = gpus
    size = rng.integers(1, free.sum(axis=1) + 1)
    size[0] = servers * gpus
    return free.astype(np.int32), size.astype(np.int32)


@pytest.mark.parametrize(("servers", "gpus"), SHAPES)
def test_pack_follows_the_loop(servers, gpus):
    free, size = random_cases(servers, gpus)
    counts, foreseen, used = pack_all(free, size)
    np.testing.assert_array_equal(counts, [loop(*case) for case in zip(free, size, strict=True)])
    np.testing.assert_array_equal(foreseen, np.sum(np.asarray(counts) > 0, axis=1))
    np.testing.assert_array_equal(used, foreseen)


@pytest.mark.parametrize(("servers", "gpus"), SHAPES)
def test_pack_takes_what_is_asked_from_the_fewest_servers(servers, gpus):
    free, size = random_cases(servers, gpus, seed=1)
    counts = np.asarray(pack_all(free, size)[0])
    assert ((counts >= 0) & (counts <= free)).all()
    np.testing.assert_array_equal(counts.sum(axis=1), size)
    emptiest_first = np.cumsum(-np.sort(-free, axis=1), axis=1)
    fewest = 1 + np.sum(emptiest_first < size[:, None], axis=1)
    np.testing.assert_array_equal(np.sum(counts > 0, axis=1), fewest)


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [
        ([4, 4, 4, 4], 3, [3, 0, 0, 0]),  # ties: lowest index
        ([4, 4, 4, 4], 6, [4, 2, 0, 0]),
        ([2, 3, 3, 1], 3, [0, 3, 0, 0]),
        ([4, 2, 3, 2], 2, [0, 2, 0, 0]),  # best fit: fewest free that is enough
        ([1, 2, 0, 2], 3, [1, 2, 0, 0]),  # all of the most free, then the best fit
        ([1, 1, 2, 2], 4, [0, 0, 2, 2]),
        ([1, 1, 1, 1], 3, [1, 1, 1, 0]),
        ([0, 0, 0, 1], 1, [0, 0, 0, 1]),
        ([0, 3, 0, 2], 5, [0, 3, 0, 2]),
        ([3, 2, 4, 1], 0, [0, 0, 0, 0]),
    ],
)
def test_pack_by_hand(free, size, expected):
    assert packed(free, size) == expected


def test_servers_used_of_many_gangs_at_once():
    cumulative = cumulative_free(jnp.array([1, 4, 2, 4]))
    sizes = jnp.array([[1, 4, 5], [8, 9, 11]])
    np.testing.assert_array_equal(servers_used(cumulative, sizes), [[1, 1, 2], [2, 3, 4]])


@pytest.mark.parametrize(("servers", "gpus"), SHAPES)
def test_the_lowest_numbered_free_gpus_are_taken(servers, gpus):
    rng = np.random.default_rng(2)
    free = rng.random((CASES, servers, gpus)) < rng.random((CASES, 1, 1))
    free[:, 0, 0] = True
    size = rng.integers(0, free.sum(axis=(1, 2)) + 1).astype(np.int32)

    def take(free, size):
        bits = to_bits(free)
        free_count = count_bits(bits)
        packing = pack(free_count, cumulative_free(free_count), size)
        return taken_gpus(packing, free, bits), packing.counts(free_count), free_count

    taken, counts, free_count = jax.jit(jax.vmap(take))(free, size)
    np.testing.assert_array_equal(free_count, free.sum(axis=2))
    expected = np.zeros_like(free)
    for case, server in np.ndindex(CASES, servers):
        lowest = np.flatnonzero(free[case, server])[: counts[case, server]]
        expected[case, server, lowest] = True
    np.testing.assert_array_equal(taken, expected)


def test_bits():
    flags = np.zeros((3, 32), bool)
    flags[0, [0, 3]] = True
    flags[1, 31] = True
    flags[2] = True
    np.testing.assert_array_equal(to_bits(jnp.asarray(flags)), [9, 2**31, 2**32 - 1])
    np.testing.assert_array_equal(count_bits(to_bits(jnp.asarray(flags))), [2, 1, 32])


@pytest.mark.parametrize(("servers", "gpus"), [(130, 8), (200, 3)])
def test_counting_servers_gives_what_comparing_them_gives(servers, gpus):
    free, size = random_cases(servers, gpus, seed=2)
    size[1], size[2] = 0, free[2].sum() + 1  # no GPU, and one more than there are

    def one(free_count, size):
        cumulative = cumulative_free(free_count)
        compared = pack(free_count, cumulative, size), servers_used(cumulative, size)
        counted = pack_gang(free_count, size, gpus), servers_for(free_count, size, gpus)
        return compared, counted

    compared, counted = jax.jit(jax.vmap(one))(jnp.asarray(free), jnp.asarray(size))
    jax.tree.map(np.testing.assert_array_equal, compared, counted)
