"""Sets of jobs (or of anything numbered) as words of 32 bits.

Job ``j`` is bit ``j mod 32`` of word ``j // 32``. Counting and finding jobs in order is a few
operations on words, instead of sums and searches over jobs. Few words are gone through one by one,
which is fastest but takes longer to compile the more there are; of many, all are treated at once.
Axes: ``n`` jobs, a multiple of 32; ``V`` words.
"""

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxsched.ops import target
from jaxsched.ops.reductions import over_rows
from jaxsched.types import Array

WORD = 32
HALVES = (16, 8, 4, 2, 1)
FEW_WORDS = 16
"""Up to so many are gone through one by one."""
FEW_TO_COUNT = 32
"""The same where jobs are found by their number: sums of all words before each take longer."""
NEVER = 2**31 - 1  # a number after every job's


def are_few(words: Array) -> bool:
    """Whether words are gone through one by one (static)."""
    return words.shape[0] <= FEW_WORDS


def starts(words: Array) -> npt.NDArray[np.int32]:
    """The first job of each word, int32 ``[V]``."""
    return WORD * np.arange(words.shape[0], dtype=np.int32)


def bit_values(size: int) -> npt.NDArray[np.uint32]:
    """The values of the bits 0 .. ``size - 1``, uint32 ``[size]``.

    A constant: computed, it would leave the loop of an episode as another value at each use, and
    compilers would not see that the uses are the same.
    """
    return np.uint32(1) << np.arange(size, dtype=np.uint32)


def to_words(flags: Array) -> Array:
    """The set of the jobs with a flag, uint32 ``[V]`` of bool ``[n]``."""
    flags = flags.reshape(-1, WORD)
    return jnp.sum(jnp.where(flags, bit_values(WORD), np.uint32(0)), axis=-1, dtype=jnp.uint32)


def to_flags(words: Array) -> Array:
    """Whether each job is in the set, bool ``[n]``."""
    bit = np.arange(WORD, dtype=np.uint32)
    return ((words[:, None] >> bit) & np.uint32(1)).reshape(-1) > 0


def append(flags: Array, last: Array) -> Array:
    """Flags and one more, bool ``[n + 1]`` of bool ``[n]``, n at least 1, by way of words.

    What is summed is computed once; put side by side, flags are found anew for each written one.
    Of a single word that is done flag by flag, for whole vectors of copies.
    """
    if not target.on_cpu():
        return jnp.concatenate([flags, last[None]])
    size, parts = flags.shape[0], []
    for first in range(0, size, WORD - 1):
        some = flags[first : first + WORD - 1]
        num = some.shape[0]
        bits = jnp.where(some, bit_values(num), np.uint32(0))
        few = size < WORD
        word = over_rows(jnp.bitwise_or, bits) if few else jnp.sum(bits, dtype=jnp.uint32)
        if first + num == size:
            word |= jnp.where(last, np.uint32(1 << num), np.uint32(0))
            num += 1
        parts.append((word >> np.arange(num, dtype=np.uint32)) & np.uint32(1) > 0)
    return jnp.concatenate(parts)


def contains(words: Array, index: Array) -> Array:
    """Whether each of these jobs is in the set, bool ``[...]`` of int32 ``[...]``."""
    return (words[index // WORD] >> (index % WORD).astype(jnp.uint32)) & np.uint32(1) > 0


def members(words: Array, index: Array) -> Array:
    """``contains``, but false for indices that are no job's, and without look-up in few words."""
    if not are_few(words):
        inside = (index >= 0) & (index < WORD * words.shape[0])
        return contains(words, jnp.where(inside, index, 0)) & inside
    found = jnp.zeros(index.shape, jnp.uint32)
    for place in range(words.shape[0]):
        within = index - WORD * place
        here = (within >= 0) & (within < WORD)
        shift = jnp.clip(within, 0, WORD - 1).astype(jnp.uint32)
        found |= jnp.where(here, words[place] >> shift, np.uint32(0))
    return found & np.uint32(1) > 0


def count(words: Array) -> Array:
    """Jobs in each word, int32 ``[V]``."""
    return jnp.bitwise_count(words).astype(jnp.int32)


def below(index: Array) -> Array:
    """The word of the bits before ``index``; all from 32 on, none below 1."""
    shift = jnp.clip(index, 0, WORD - 1).astype(jnp.uint32)
    some = (np.uint32(1) << shift) - np.uint32(1)
    return jnp.where(index >= WORD, np.uint32(0xFFFFFFFF), some)


def rank(words: Array, index: Array) -> Array:
    """How many jobs of the set come before ``index``, int32 scalar."""
    if not are_few(words):
        return jnp.sum(count(words & below(index - starts(words))), dtype=jnp.int32)
    total = jnp.int32(0)
    for place in range(words.shape[0]):
        total += count(words[place] & below(index - WORD * place))
    return total


def nth(words: Array, which: Array, missing: int) -> Array:
    """The ``which``-th job of the set (from 0), ``missing`` where there are not so many.

    Args:
      words: uint32 ``[V]``.
      which: int32 ``[...]``.
      missing: what stands for none.

    Returns:
      int32 ``[...]``.
    """
    few = words.shape[0] <= FEW_TO_COUNT
    find = _word_by_word if few else _word_by_bisection
    word, left, index, found = find(words, which, missing)
    for half in HALVES:  # bisection: are there enough jobs in the lower half?
        lower = count(word & np.uint32((1 << half) - 1))
        upper = found & (left >= lower)
        left = jnp.where(upper, left - lower, left)
        word = jnp.where(upper, word >> np.uint32(half), word)
        index = jnp.where(upper, index + half, index)
    return index


def _word_by_word(words: Array, which: Array, missing: int) -> tuple[Array, Array, Array, Array]:
    """The word of each job of ``nth``, which of its jobs it is, the word's first, and if any is."""
    counts = count(words)
    word, left = jnp.zeros(which.shape, jnp.uint32), which
    index = jnp.full(which.shape, missing, jnp.int32)
    before = jnp.int32(0)
    for place in range(words.shape[0]):
        here = (which >= before) & (which < before + counts[place])
        word = jnp.where(here, words[place], word)
        left = jnp.where(here, which - before, left)
        index = jnp.where(here, WORD * place, index)
        before += counts[place]
    return word, left, index, (which >= 0) & (which < before)


def _word_by_bisection(
    words: Array, which: Array, missing: int
) -> tuple[Array, Array, Array, Array]:
    """The same of many words."""
    counts = count(words)
    until = jnp.cumsum(counts, dtype=jnp.int32)
    place = jnp.searchsorted(until, which, side="right", method="scan_unrolled").astype(jnp.int32)
    found = (which >= 0) & (place < words.shape[0])
    place = jnp.where(found, place, 0)
    left = which - (until - counts)[place]
    return words[place], left, jnp.where(found, WORD * place, missing), found


def first_from(words: Array, start: Array, missing: int) -> Array:
    """The first job of the set at ``start`` or later, int32 scalar; ``missing`` if none is."""
    if not are_few(words):
        later = words & ~below(start - starts(words))
        lowest = count((later & (~later + np.uint32(1))) - np.uint32(1))
        nearest = jnp.min(jnp.where(later != 0, starts(words) + lowest, NEVER))
        return jnp.where(nearest < NEVER, nearest, missing).astype(jnp.int32)
    first = jnp.int32(missing)
    for place in reversed(range(words.shape[0])):
        word = words[place] & ~below(start - WORD * place)
        lowest = count((word & (~word + np.uint32(1))) - np.uint32(1))
        first = jnp.where(word != 0, WORD * place + lowest, first)
    return first
