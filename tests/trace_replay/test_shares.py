"""Shares of a GPU and FGD: replays equal a plain event loop; hand-made cases; refusals."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.trace_replay import POLICIES, Cluster, Policy, from_trace, replay, replay_batch
from jaxsched.trace_replay.gavel import replay_in_rounds
from jaxsched.trace_replay.records import summary
from jaxsched.trace_replay.tables import as_table, prepare
from jaxsched.traces.trace import Trace
from tests.trace_replay.cases import easy_program, found, random_columns, with_estimates
from tests.trace_replay.shared_oracle import SharedFailingLoop, SharedLoop
from tests.trace_replay.test_outages import random_outages
from tests.trace_replay.test_reservations import some_reserved

CLUSTERS = {
    "alike": Cluster.of("3x4x4"),
    "sizes": Cluster.of("3x2x3,2x4x3:3"),
    "cpus": Cluster.of("2x2x4/8,2x3x4/20"),
    "types": Cluster.of("2x2x3@v100,1x4x3@k80"),
    "whole": Cluster.of("3x2,2x3"),
}


def shared_columns(seed, cluster):
    """Half of the jobs share a GPU; where servers have CPUs most jobs want some."""
    rng = np.random.default_rng([seed, 7])
    count = 24
    largest = cluster.largest_job("strict")
    table = with_estimates(random_columns(seed, count, largest), seed)
    gpus = np.minimum(np.where(rng.random(count) < 0.5, 1, table["num_gpus"]), min(6, largest))
    part = rng.choice([1000, 800, 500, 340, 250, 100], count)
    table |= {"num_gpus": gpus, "gpu_milli": np.where(gpus == 1, part, 1000)}
    if cluster.demands:
        table["cpus"] = rng.choice([0, 1, 3, 4], count) * gpus
    for name in cluster.gpu_types:
        table[f"speed_{name}"] = rng.choice([1000, 400], count)
    return table


def plain(table, cluster, policy, outages=None):
    jobs, slots = [], cluster.slots
    for row, milli in enumerate(table["gpu_milli"].tolist()):
        names = ("submit_time", "num_gpus", "duration", "group", "estimate")
        submit, gpus, duration, group, estimate = (int(table[name][row]) for name in names)
        held = -(-milli * slots // 1000) if gpus == 1 else gpus * slots
        speeds = {name: int(table[f"speed_{name}"][row]) for name in cluster.gpu_types}
        need = [1000 * int(table[name][row]) // held for name in cluster.demands]
        jobs.append(
            dict(submit=submit, gpus=held, share=held if held < slots else 0, duration=duration,
                 group=group, estimate=estimate, speeds=speeds or {"": 1000}, demand=need)
        )  # fmt: skip
    kinds = [
        (count, size * slots, most * slots, name, *((cpus,) if cluster.demands else ()))
        for count, size, most, name, cpus, _ in cluster.kinds
    ] or [(cluster.num_servers, cluster.gpus_per_server * slots, cluster.num_gpus * slots, "")]
    if outages is None:
        loop = type("Sized", (SharedLoop,), {"slots": slots})(jobs, kinds, policy)
        return np.array(loop.run()).T
    columns = (outages.server, outages.begin, outages.end, outages.drains)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    reserved = [row[:3] for row, own in zip(rows, outages.reserved.tolist(), strict=True) if own]
    sized = type("Sized", (SharedFailingLoop,), {"slots": slots})
    loop = sized(jobs, kinds, policy, rows, reserved=reserved)
    return np.array(loop.run()).T[:4]


RULES = [
    Policy("fifo", "block", "first_fit"),
    Policy("sjf", "skip"),
    Policy("spf", "easy", "load_balance"),
    Policy("fifo", "easy", run_times="estimates"),
    Policy("drf", "skip"),
    Policy("lrf", "commit"),
    Policy("fifo", "skip", isolated=True),
    Policy("fifo", "skip", "fgd"),
    Policy("sjf", "easy", "fgd"),
    Policy("sjf", "commit", "fgd"),
]


CASES = [
    pytest.param(policy, cluster, id=f"{policy.order}-{policy.mode}-{policy.placement}-{name}")
    for policy in RULES
    for name, cluster in CLUSTERS.items()
    if not (cluster.gpu_types and policy.placement == "fgd")
]


@pytest.mark.parametrize(("policy", "cluster"), CASES)
def test_random_instances(policy, cluster):
    tables = [shared_columns(seed, cluster) for seed in range(16)]
    for table, records in zip(tables, replay_batch(tables, cluster, policy), strict=True):
        np.testing.assert_array_equal(found(records)[:4], plain(table, cluster, policy))


@pytest.mark.parametrize("policy", [RULES[1], RULES[3], RULES[7]], ids=["skip", "easy", "fgd"])
def test_random_instances_with_outages(policy):
    """Slots of jobs that failures stop are free again; promises wait for servers to be back."""
    cluster, stopped = CLUSTERS["cpus"], 0
    tables = [shared_columns(seed, cluster) for seed in range(12)]
    outages = [random_outages(seed, cluster.num_servers) for seed in range(len(tables))]
    played = replay_batch(tables, cluster, policy, outages=outages)
    for table, own, records in zip(tables, outages, played, strict=True):
        np.testing.assert_array_equal(found(records)[:4], plain(table, cluster, policy, own))
        stopped += records.preemptions.sum()
    assert stopped >= 8


@pytest.mark.parametrize("policy", [RULES[3], RULES[7]], ids=["easy", "fgd"])
def test_random_instances_with_reservations(policy):
    cluster = CLUSTERS["cpus"]
    tables = [shared_columns(seed, cluster) for seed in range(8)]
    outages = [some_reserved(seed, cluster.num_servers) for seed in range(len(tables))]
    played = replay_batch(tables, cluster, policy, outages=outages)
    for table, own, records in zip(tables, outages, played, strict=True):
        np.testing.assert_array_equal(found(records)[:4], plain(table, cluster, policy, own))


def test_placements_differ():
    """FGD is not best fit, and best fit is not first fit."""
    tables = [shared_columns(seed, CLUSTERS["alike"]) for seed in range(12)]
    servers = [
        [r.first_server.tolist() for r in replay_batch(tables, CLUSTERS["alike"], policy)]
        for policy in (Policy(placement=placement) for placement in ("pack", "first_fit", "fgd"))
    ]
    for some, others in ((0, 1), (0, 2), (1, 2)):
        assert sum(map(list.__ne__, servers[some], servers[others])) >= 3


def test_by_hand():
    """Halves and a third fill two GPUs; the third part of 0.6 has none; two whole ones wait."""
    jobs = {"submit_time": [0] * 5, "num_gpus": [1, 1, 1, 1, 2], "duration": [9, 9, 9, 9, 9],
            "gpu_milli": [500, 500, 750, 600, 1000]}  # fmt: skip
    cluster = Cluster.of("1x3x4")
    records = replay(jobs, cluster, POLICIES["fifo-skip"])
    assert records.start.tolist() == [0, 0, 0, 0, 9]
    assert records.num_gpus.tolist() == [0.5, 0.5, 0.75, 0.75, 2]
    assert summary(records, cluster)["utilization"] == pytest.approx(4.5 * 9 / (3 * 18))
    whole = replay(jobs, Cluster.of("1x3"), POLICIES["fifo-skip"])
    assert whole.start.tolist() == [0, 0, 0, 9, 9]


def test_a_share_takes_the_fullest_gpu_that_suffices():
    """0.25 goes beside 0.75, not beside 0.5, so that another half fits besides a whole GPU."""
    jobs = {"submit_time": [0] * 5, "num_gpus": [1] * 5, "duration": [9] * 5,
            "gpu_milli": [500, 750, 250, 500, 1000]}  # fmt: skip
    assert replay(jobs, Cluster.of("1x3x4"), POLICIES["fifo"]).start.tolist() == [0] * 5


def test_fragmentation_by_hand():
    """Two servers of one GPU with 4 slots; jobs of 1 slot come before those that most are.

    The first leaves 3 + 4. Best fit puts the second beside it. FGD does not where most jobs need 3
    slots: 2 would be left there, of no use to them, while the empty GPU keeps 3 that are. Where
    most need 2, neither place makes fragments; where most need all 4, the first GPU is lost to them
    as it is, and 3 slots of the other would be.
    """
    for most, server in ((750, 1), (500, 0), (1000, 0)):
        jobs = {
            "submit_time": [0, 1] + [100] * 8,
            "num_gpus": [1] * 10,
            "duration": [50] * 10,
            "gpu_milli": [250, 250] + [most] * 8,
        }
        placed = replay(jobs, Cluster.of("2x1x4"), Policy("fifo", "skip", "fgd")).first_server
        assert placed[:2].tolist() == [0, server], most


def test_slots_that_nobody_shares_change_nothing():
    for name in ("fifo-easy", "drf", "themis", "vc-themis", "sjf-block"):
        for seed in range(4):
            table = with_estimates(random_columns(seed, 24, 8), seed)
            one, other = (
                replay(table, Cluster.of(servers), POLICIES[name])
                for servers in ("3x2,2x4", "3x2x2,2x4x2")
            )
            np.testing.assert_array_equal(found(one), found(other))


def test_shares_are_nothing_to_gpus_without_slots():
    """The programs are the same, letter for letter, and nothing is kept for it."""
    cluster, programs = Cluster.of("3x4"), []
    with_ = shared_columns(0, cluster)
    for jobs in (with_, {name: with_[name] for name in with_ if name != "gpu_milli"}):
        (own,), shape = prepare([as_table(JobTable(jobs), cluster)], cluster, RULES[2])
        _, program = easy_program(cluster, own, shape)
        programs.append(program)
        assert own.demand is None and own.amount is None
    assert programs[0] == programs[1]


def test_parts_of_a_gpu_in_logs():
    columns = {
        "submit_time": [0.0, 1, 2, 3],
        "num_gpus": [0.46, 2, 1, 0.0001],
        "duration": [5.0] * 4,
    }
    trace = Trace({name: np.array(values, float) for name, values in columns.items()})
    table = from_trace(trace)
    assert table["gpu_milli"].tolist() == [460, 1000, 1000, 1]
    assert table["num_gpus"].tolist() == [1, 2, 1, 1]
    trace = Trace({**dict(trace.columns), "num_gpus": np.array([1.0, 2, 1, 4])})
    assert "gpu_milli" not in from_trace(trace).columns


ONE = {"submit_time": [0], "num_gpus": [1], "duration": [3], "gpu_milli": [500]}


@pytest.mark.parametrize(
    ("jobs", "policy", "match"),
    [
        (ONE | {"gpu_milli": [0]}, "fifo", "gpu_milli is 0; accepted: a whole number from 1"),
        (ONE | {"num_gpus": [2]}, "fifo", "job 0: gpu_milli is 500 of 2 GPUs; accepted: 1000, or"),
        (ONE, "fifo-any", "rigid: locality any with slots of GPUs; accepted: locality strict"),
        (ONE, "srtf", "rigid: order srtf with slots of GPUs; accepted: .* but tetris, f1"),
        (ONE, "tetris", "rigid: order tetris with slots of GPUs"),
        (ONE, "qssf", "rigid: order qssf with slots of GPUs"),
    ],
)
def test_what_is_refused_in_one_line(jobs, policy, match):
    with pytest.raises(JaxschedError, match=match) as caught:
        replay(jobs, Cluster.of("2x4x2"), POLICIES[policy])
    assert len(str(caught.value).splitlines()) == 1


def test_what_goes_with_fgd():
    for refused in (
        {"order": "srtf"}, {"order": "qssf"}, {"order": "tetris"}, {"locality": "any"}
    ):  # fmt: skip
        with pytest.raises(JaxschedError, match="rigid: placement fgd with .*; accepted: locality"):
            Policy(placement="fgd", **refused)
    typed = ONE | {"speed_a": [1000]}
    with pytest.raises(JaxschedError, match="placement fgd with GPUs of different types"):
        replay(typed, Cluster.of("2x4@a"), Policy(placement="fgd"))


def test_where_slots_are_refused():
    with pytest.raises(JaxschedError, match="16000 GPUs of 4 slots; accepted: at most 32768 slots"):
        Cluster(2000, 8, slots=4)
    with pytest.raises(JaxschedError, match="gavel: servers with slots of GPUs"):
        replay_in_rounds(ONE, Cluster.of("2x4x2"), "max-min")
