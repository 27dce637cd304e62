"""Packed resources, load balancing and shares, against vectors computed the long way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.elastic.models import PS_NEEDS, WORKER_NEEDS
from jaxsched.elastic.resources import (
    NO_SERVER,
    dominant_amount,
    find_unfit,
    integer_weights,
    layout,
    least_loaded,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable


@pytest.mark.parametrize("capacity", [(2, 8, 48), (10, 120, 600), (8, 8, 0), (0, 5, 7)])
def test_fits_compares_every_resource(capacity):
    packing = layout(capacity)
    rng = np.random.default_rng(0)
    free = rng.integers(0, np.array(capacity) + 1, (500, 3))
    need = rng.integers(0, np.array(capacity) + 3, (500, 3))
    fits = packing.fits(jnp.asarray(packing.pack(free)), packing.pack(need))
    assert (np.asarray(fits) == (need <= free).all(axis=1)).all()
    assert 0 < np.asarray(fits).sum() < 500
    assert (np.asarray(packing.unpack(jnp.asarray(packing.pack(free)))) == free).all()


def test_packed_amounts_subtract_without_borrowing():
    packing = layout((2, 8, 48))
    left = packing.full - packing.pack(WORKER_NEEDS[1]) - packing.pack(PS_NEEDS[1])
    assert np.asarray(packing.unpack(jnp.asarray(left))).tolist() == [1, 2, 28]


def test_a_capacity_that_no_word_holds_is_refused():
    with pytest.raises(JaxschedError, match="at most 31"):
        layout((2**12, 2**12, 2**12))
    with pytest.raises(JaxschedError, match="none negative"):
        layout((1, -1, 3))


def test_weights_are_the_least_common_multiples():
    assert [int(w) for w in integer_weights((2, 8, 48))[1]] == [24, 6, 1]
    unit, weights = integer_weights((26, 104, 624))
    assert unit == 624 and weights.tolist() == [24, 6, 1]
    assert integer_weights((0, 8, 8))[1].tolist() == [0, 1, 1]
    with pytest.raises(JaxschedError, match="below 2"):
        integer_weights((2**20 + 7, 2**19 + 21, 2**18 + 3))


def test_dominant_amount():
    totals = (10, 120, 600)
    assert dominant_amount(WORKER_NEEDS[:3], totals).tolist() == [1, 1, 1]
    assert dominant_amount(PS_NEEDS[:3], totals).tolist() == [3, 4, 3]


def test_the_least_loaded_server_that_fits_is_taken():
    capacity = (2, 8, 48)
    packing, (_, weights) = layout(capacity), integer_weights(capacity)
    used = np.array([[1, 2, 8], [0, 3, 9], [2, 0, 0], [0, 3, 9]])
    free = jnp.asarray(packing.pack(np.array(capacity) - used))
    load = jnp.asarray(used @ weights, jnp.int32)
    assert load.tolist() == [44, 27, 48, 27]

    def place(need):
        return int(jax.jit(least_loaded, static_argnums=3)(free, load, need, packing))

    assert place(int(packing.pack((1, 2, 8)))) == 27 * 4 + 1  # ties to the lower index
    assert place(int(packing.pack((2, 2, 8)))) == 27 * 4 + 1
    assert place(int(packing.pack((0, 6, 8)))) == 44 * 4 + 0
    assert place(int(packing.pack((0, 8, 8)))) == 48 * 4 + 2
    assert place(int(packing.pack((1, 8, 8)))) == NO_SERVER


def test_jobs_that_no_cluster_state_could_train_are_found():
    table = JobTable({"submit_time": [0, 0], "model": [4, 1]})
    needs = WORKER_NEEDS, PS_NEEDS
    assert find_unfit(table, *needs, (2, 8, 48), 4) is None
    assert find_unfit(table, *needs, (2, 3, 48), 4) == (1, "needs a task that fits on no server")
    assert find_unfit(table, *needs, (2, 3, 48), 4, needs_ps=False) is None
    found = find_unfit(table, *needs, (2, 5, 48), 1)
    assert found == (1, "cannot run one worker and one parameter server")
