"""Servers that are reserved at times: replays equal a plain event loop; by hand; refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.engine import Rules, opened, step
from jaxsched.trace_replay.outages import Outages
from jaxsched.trace_replay.tables import as_table, prepare
from tests.trace_replay.cases import found
from tests.trace_replay.failing_oracle import FailingLoop
from tests.trace_replay.test_demands import CLUSTERS, job_rows_with_demands, with_demands
from tests.trace_replay.test_gpu_types import TABLES
from tests.trace_replay.test_outages import ALIKE, NARROW, random_outages

CASES = {
    "alike": (ALIKE, NARROW),
    "sizes": (CLUSTERS["sizes"], None),
    "types": (CLUSTERS["types"], None),
}
COSTS = ({}, {"checkpoint_s": 4, "restart_s": 3})


def tables_of(name):
    cluster, tables = CASES[name]
    if tables is None:
        tables = [with_demands(table, seed, cluster) for seed, table in enumerate(TABLES)]
    return cluster, tables


def some_reserved(seed, num_servers, **costs):
    """Outages of which two in three are known beforehand, and windows of all servers at once."""
    rng = np.random.default_rng([seed, 5])
    outages = random_outages(seed, num_servers, **costs)
    reserved = (rng.random(len(outages)) < 0.7).astype(int)
    at, every = int(rng.integers(5, 60)), np.arange(num_servers)
    columns = (
        np.append(outages.server, every),
        np.append(outages.begin, every * 0 + at),
        np.append(outages.end, every * 0 + at + int(rng.integers(1, 9))),
        np.append(outages.drains, every * 0),
    )
    return Outages(*columns, **costs, reserved=np.append(reserved, every * 0 + 1))


def plain(table, cluster, policy, outages):
    columns = (outages.server, outages.begin, outages.end, outages.drains)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    reserved = [
        row[:3] for row, own in zip(rows, outages.reserved.tolist(), strict=True) if own
    ]
    costs = outages.checkpoint_s, outages.restart_s
    kinds = [tuple(kind) for kind in cluster.kinds]
    kinds = kinds or [(cluster.num_servers, cluster.gpus_per_server, cluster.num_gpus, "", 0, 0)]
    jobs = job_rows_with_demands(table, cluster)
    return np.array(FailingLoop(jobs, kinds, policy, rows, *costs, reserved).run()).T


RULES = [
    Policy("fifo", "block"),
    Policy("sjf", "skip", "load_balance"),
    Policy("sjf", "easy"),
    Policy("fifo", "easy", "first_fit"),
    Policy("fifo", "easy", "first_fit", run_times="estimates"),
    Policy("fifo", "skip", run_times="estimates"),
    Policy("drf", "easy"),
    Policy("tetris", "skip"),
    Policy("slowdown", "skip", type_choice="fastest"),
    Policy("sjf", "skip", share="work", isolated=True),
    Policy("fifo", "easy", locality="any"),
    Policy("sjf", "skip", locality="any"),
]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "policy", RULES, ids=lambda p: f"{p.order}-{p.mode}-{p.locality}-{p.run_times}-{p.share}"
)
def test_random_instances(policy, name):
    cluster, tables = tables_of(name)
    if policy.locality == "any" and name != "alike":
        cluster, tables = ALIKE, NARROW[::-1]
    differ = 0
    for number, costs in enumerate(COSTS):
        outages = [some_reserved(30 * number + k, cluster.num_servers, **costs) for k in range(24)]
        usual = [Outages(o.server, o.begin, o.end, o.drains, **costs) for o in outages]
        played = replay_batch(tables, cluster, policy, outages=outages)
        unforeseen = replay_batch(tables, cluster, policy, outages=usual)
        for table, own, records, other in zip(tables, outages, played, unforeseen, strict=True):
            mine = np.stack([*found(records), records.held])
            np.testing.assert_array_equal(mine, plain(table, cluster, policy, own))
            differ += not np.array_equal(records.start, other.start)
    assert differ > 12
