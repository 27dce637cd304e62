"""Replays of the learned orders equal a plain event loop, features and all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.trace_replay import Cluster, Policy
from jaxsched.trace_replay.history import Seen
from jaxsched.trace_replay.replays import observed
from jaxsched.trace_replay.scorers import SCORERS, shipped
from tests.trace_replay.cases import NAMES, random_columns
from tests.trace_replay.oracle import Simulation


@pytest.mark.parametrize("order", ["learned", "learned-once"])
def test_random_instances(order):
    score = jax.jit(lambda seen: SCORERS[order](shipped(), seen, jnp.int32(0)))

    def rows(job, features):
        seen = Seen(jnp.int32(job.gpus), jnp.int32(job.submit), jnp.array(features, jnp.int32))
        return np.asarray(score(seen)).tolist()

    for seed in range(3):
        table = random_columns(seed, 60, 12)
        table["duration"], table["submit_time"] = table["duration"] * 97, table["submit_time"] * 50
        records, features = observed(table, Cluster(3, 4), Policy(order))
        jobs = list(zip(*(table[name].tolist() for name in NAMES[:4]), strict=True))
        oracle = Simulation(jobs, 3, 4, Policy(order), rows)
        assert [found.end for found in oracle.run()] == records.end.tolist()
        np.testing.assert_array_equal([oracle.features[job] for job in range(60)], features)
        assert (records.preemptions.sum() > 0) == (order == "learned")
