"""Servers with limits of CPUs and memory: replays equal a plain event loop; refusals."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.jobs.servers import LIMITS, Kind
from jaxsched.trace_replay import POLICIES, Cluster, Policy, from_trace, replay, replay_batch
from jaxsched.trace_replay.demands import capped
from jaxsched.trace_replay.gavel import replay_in_rounds
from jaxsched.trace_replay.gpu_types import speeds_of
from jaxsched.trace_replay.tables import as_table, prepare
from jaxsched.traces.trace import Trace
from tests.trace_replay.cases import easy_program, found
from tests.trace_replay.failing_oracle import FailingLoop
from tests.trace_replay.test_gpu_types import TABLES, job_rows
from tests.trace_replay.test_outages import random_outages
from tests.trace_replay.typed_oracle import shown

CLUSTERS = {
    "sizes": Cluster.of("3x2:4/8/20,2x4/16/30,1x3,1x3/9"),
    "types": Cluster.of("2x4/16/30@v100,1x4/12@p100,3x2:4/0/9@k80"),
    "alike": Cluster.of("4x4/10"),
}


def with_demands(table, seed, cluster):
    """Most jobs ask for a little, some for all that a server has, some for nothing."""
    rng = np.random.default_rng([seed, 4])
    gpus = np.minimum(np.asarray(table["num_gpus"]), cluster.largest_job("strict"))
    count = len(gpus)
    cpus = rng.choice([0, 1, 2, 3, 4, 9], count) * gpus - rng.integers(0, 2, count)
    memory = rng.choice([0, 1, 4, 7], count) * gpus + rng.integers(0, 3, count)
    own = {"num_gpus": gpus, "cpus": np.maximum(cpus, 0), "memory_gb": memory}
    checked, _ = capped(JobTable(table | own), cluster)
    if cluster.gpu_types:  # where a job fits it can run
        stuck = speeds_of(checked, cluster).max(axis=1) == 0
        names = [f"speed_{name}" for name in cluster.gpu_types]
        checked = checked.with_columns(
            **{name: np.where(stuck, 500, checked[name]) for name in names}
        )
    return dict(checked.columns)


def job_rows_with_demands(table, cluster):
    """The rows of a table as the plain loop takes them."""
    jobs = job_rows(table, cluster)
    for row, job in enumerate(jobs):
        totals = [int(table[name][row]) if name in table else 0 for name in LIMITS]
        job["demand"] = [1000 * total // job["gpus"] for total in totals]
        job["speeds"] = job["speeds"] if cluster.gpu_types else {"": 1000}
    return jobs


def plain(table, cluster, policy, outages=None):
    jobs = job_rows_with_demands(table, cluster)
    kinds = [tuple(kind) for kind in cluster.kinds]
    if outages is None:
        return np.array(shown(jobs, kinds, policy)).T
    columns = (outages.server, outages.begin, outages.end, outages.drains)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return np.array(FailingLoop(jobs, kinds, policy, rows).run()).T[:4]


RULES = [
    Policy("fifo", "block"),
    Policy("sjf", "skip", "load_balance"),
    Policy("sjf", "easy"),
    Policy("fifo", "easy", "first_fit", run_times="estimates"),
    Policy("drf", "skip"),
    Policy("tetris", "skip"),
    Policy("slowdown", "skip", type_choice="fastest"),
    Policy("lrf", "commit"),
    Policy("sjf", "skip", share="work", isolated=True),
]


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("policy", RULES, ids=lambda p: f"{p.order}-{p.mode}-{p.share}")
def test_random_instances(policy, name):
    cluster = CLUSTERS[name]
    tables = [with_demands(table, seed, cluster) for seed, table in enumerate(TABLES)]
    free = [kind._replace(cpus=0, memory_gb=0) for kind in cluster.kinds]
    free = Cluster(cluster.num_servers, cluster.gpus_per_server, tuple(free))
    played, usual = (replay_batch(tables, each, policy) for each in (cluster, free))
    differ = 0
    for table, records, without in zip(tables, played, usual, strict=True):
        np.testing.assert_array_equal(found(records)[:4], plain(table, cluster, policy))
        differ += not np.array_equal(records.start, without.start)
    assert differ >= 8


@pytest.mark.parametrize("policy", [RULES[1], RULES[3]], ids=["skip", "easy"])
def test_random_instances_with_outages(policy):
    """CPUs of jobs that failures stop are free again; promises wait for servers to be back."""
    cluster, stopped = CLUSTERS["sizes"], 0
    tables = [with_demands(table, seed, cluster) for seed, table in enumerate(TABLES)]
    outages = [random_outages(seed, cluster.num_servers) for seed in range(len(tables))]
    played = replay_batch(tables, cluster, policy, outages=outages)
    for table, own, records in zip(tables, outages, played, strict=True):
        np.testing.assert_array_equal(found(records)[:4], plain(table, cluster, policy, own))
        stopped += records.preemptions.sum()
    assert stopped > 10


def test_by_hand():
    """4 of 8 GPUs and 6 of 16 CPUs are free: the second job waits, the third needs none."""
    jobs = {"submit_time": [0, 0, 0], "num_gpus": [4, 2, 2], "duration": [10, 10, 10],
            "cpus": [10, 7, 0]}  # fmt: skip
    records = replay(jobs, Cluster.of("1x8/16"), POLICIES["fifo-skip"])
    assert records.start.tolist() == [0, 10, 0]


def test_what_fits_exactly_fits():
    """Thirds of 100 CPUs, and 62.5 GB a GPU."""
    jobs = {"submit_time": [0, 0], "num_gpus": [3, 3], "duration": [5, 5], "cpus": [64, 36],
            "memory_gb": [500, 0]}  # fmt: skip
    assert replay(jobs, Cluster.of("1x8/100/500"), POLICIES["fifo"]).start.tolist() == [0, 0]
    jobs["cpus"] = [64, 37]
    assert replay(jobs, Cluster.of("1x8/100/500"), POLICIES["fifo"]).start.tolist() == [0, 5]


def test_a_large_job_takes_its_share_of_every_server():
    """12 GPUs with 24 CPUs have 16 of the first server's 20 CPUs and 8 of the second's."""
    jobs = {"submit_time": [0] * 4, "num_gpus": [12, 4, 1, 2], "duration": [9] * 4,
            "cpus": [24, 12, 1, 0]}  # fmt: skip
    records = replay(jobs, Cluster.of("2x8/20"), POLICIES["fifo-skip"])
    assert records.start.tolist() == [0, 0, 9, 9] and records.num_servers.tolist() == [2, 1, 1, 1]


def test_limits_that_nobody_meets_change_nothing():
    wide, without = Cluster.of("3x2:4/999/999,2x4/999/999"), Cluster.of("3x2:4,2x4")
    for name in ("fifo-easy", "drf", "tetris", "themis", "vc-themis"):
        for seed, table in enumerate(TABLES[:6]):
            own = with_demands(table, seed, wide)
            one, other = (replay(own, each, POLICIES[name]) for each in (wide, without))
            np.testing.assert_array_equal(found(one), found(other))


def test_columns_of_logs():
    columns = {"submit_time": [0.0, 1], "num_gpus": [1.0, 2], "duration": [5.0, 5]}
    columns |= {"cpus": [3.5, 8], "memory_gb": [10, np.nan]}
    trace = Trace({name: np.array(values, float) for name, values in columns.items()})
    table = from_trace(trace)
    assert table["cpus"].tolist() == [4, 8] and "memory_gb" not in table.columns
    cut, count = capped(table, Cluster.of("2x1/2,1x2/5,3x3/6"))
    assert count == 1 and cut["cpus"].tolist() == [4, 6]
    assert "cpus" not in capped(table, Cluster.of("2x4"))[0].columns


def test_columns_of_demands_are_nothing_to_servers_without_limits():
    """The programs are the same, letter for letter, and nothing is kept for it."""
    cluster, programs = Cluster.of("3x2:4,2x4"), []
    with_, without = with_demands(TABLES[0], 0, Cluster.of("3x2:4/99/99,2x4")), dict(TABLES[0])
    without["num_gpus"] = with_["num_gpus"]
    for jobs in (with_, without):
        (own,), shape = prepare([as_table(JobTable(jobs), cluster)], cluster, RULES[2])
        state, program = easy_program(cluster, own, shape)
        programs.append(program)
        assert own.demand is None and state.use is None
    assert programs[0] == programs[1]


ONE = {"submit_time": [0], "num_gpus": [2], "duration": [3]}


@pytest.mark.parametrize(
    ("jobs", "policy", "match"),
    [
        (ONE, "fifo", "has no column 'cpus', of which servers have a limit; accepted: a table"),
        (ONE | {"cpus": [-1]}, "fifo", "cpus is -1; accepted: a whole number from 0"),
        (ONE | {"cpus": [9]}, "fifo", "job 0: 2 GPUs with 9 cpus fit on no servers of 2x4/8"),
        (ONE | {"cpus": [4]}, "fifo-any", "limits of CPUs and memory with locality any"),
        (ONE | {"cpus": [4]}, "srtf", "order srtf suspends jobs, which limits of CPUs"),
    ],
)
def test_what_is_refused_in_one_line(jobs, policy, match):
    with pytest.raises(JaxschedError, match=match) as caught:
        replay(jobs, Cluster.of("2x4/8"), POLICIES[policy])
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("limit", [-1, 15.5, True, "16", 2**20 + 1, None])
def test_limits_that_are_none_are_refused(limit):
    """The largest ones overflowed, so that a replay never ended."""
    for kind in (Kind(1, 8, 8, "", limit), Kind(1, 8, 8, "", 0, limit)):
        with pytest.raises(JaxschedError, match="of a server is .*; accepted: a whole number from"):
            Cluster(1, 8, (kind,))
    assert Cluster(1, 8, (Kind(1, 8, 8, "", 2**20),)).demands == ("cpus",)


def test_a_job_that_no_type_of_its_own_holds_is_refused():
    """Its CPUs fit on the K80s alone, on which it has no speed."""
    jobs = ONE | {"cpus": [9], "speed_k80": [0], "speed_v100": [1000]}
    with pytest.raises(JaxschedError, match="job 0: it cannot run on .* 2 of them .*its CPUs and"):
        replay(jobs, Cluster.of("1x4/8@v100,1x4/16@k80"), POLICIES["fifo"])


def test_rounds_refuse_limits():
    with pytest.raises(JaxschedError, match="gavel: servers with limits of CPUs and memory"):
        replay_in_rounds(ONE | {"cpus": [1]}, Cluster.of("2x4/8"), "max-min")


def test_slots_so_many_that_rounding_hides_a_cpu_are_refused():
    jobs = {"submit_time": [0, 0], "num_gpus": [4, 4], "duration": [9, 9], "cpus": [7, 7]}
    with pytest.raises(JaxschedError, match="servers of 1600 GPUs or slots; accepted: at most 999"):
        replay(jobs, Cluster.of("1x16x100/8"), POLICIES["fifo"])
    assert replay(jobs, Cluster.of("1x9x100/8"), POLICIES["fifo"]).start.tolist() == [0, 9]
