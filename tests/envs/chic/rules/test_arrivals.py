"""Sums of waiting times from prefix sums: exact however long the table is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.envs.chic.rules import JobTables, sums_before, waiting_of_arrivals

NUM_JOBS = 100_000


@pytest.mark.parametrize("span_s", [3_600.0, 2.0**29])
def test_waiting_of_arrivals_in_long_tables(span_s):
    rng = np.random.default_rng(3)
    submit = np.sort(rng.uniform(0, span_s, NUM_JOBS)).astype(np.float32)
    times = jnp.asarray(np.append(submit, 2.0**30), float)[None]
    none = jnp.zeros((1, NUM_JOBS + 1), jnp.int32)
    jobs = JobTables(times, **sums_before(times), workload=none, num_jobs=none[0], at_start=none[0])
    count = rng.integers(0, 2_000, 50)
    first = rng.integers(0, NUM_JOBS - count)
    end, exact = first + count, submit.astype(np.float64)
    after = rng.uniform(0, 100.0, 50)
    time = np.float32(exact[np.maximum(end - 1, 0)] + after)
    found = jax.vmap(lambda f, e, t: waiting_of_arrivals(jobs, jnp.int32(0), f, e, t))(
        jnp.asarray(first, jnp.int32), jnp.asarray(end, jnp.int32), jnp.asarray(time)
    )
    wanted = [np.sum(float(t) - exact[f:e]) for f, e, t in zip(first, end, time, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=0.1)
