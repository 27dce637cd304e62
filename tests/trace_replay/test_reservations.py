"""Servers that are reserved at times: replays equal a plain event loop; by hand; refusals."""

from dataclasses import replace

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import FURTHER, POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.outages import MOST_OUTAGES, Outages, read_reservations
from jaxsched.trace_replay.tables import as_table, prepare
from tests.trace_replay.cases import easy_program, found
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
    reserved = [row[:3] for row, own in zip(rows, outages.reserved.tolist(), strict=True) if own]
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


def words_of(policy):
    return f"{policy.order}-{policy.mode}-{policy.locality}-{policy.run_times}-{policy.share}"


@pytest.mark.parametrize(
    ("policy", "name"),
    [(policy, name) for policy in RULES for name in CASES if name == "alike" or policy.takes_types],
    ids=lambda p: p if isinstance(p, str) else words_of(p),
)
def test_random_instances(policy, name):
    cluster, tables = tables_of(name)
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


def test_a_slow_type_needs_more_time_before_a_window():
    """50 s of work take 100 s on the K80, which is reserved after 99, and 50 on the V100."""
    cluster, policy = Cluster.of("1x4@k80,1x4@v100"), POLICIES["fifo"]
    jobs = {"submit_time": [0], "num_gpus": [4], "duration": [50], "speed_k80": [500],
            "speed_v100": [1000]}  # fmt: skip
    for begin, server in ((99, 1), (100, 0)):
        window = Outages([0], [begin], [200], [0], reserved=[1])
        assert replay(jobs, cluster, policy, outages=window).first_server.tolist() == [server]


def test_a_run_that_no_time_holds_is_refused_with_windows_as_without():
    """It must not wait forever for a server without a window."""
    jobs = {"submit_time": [0], "num_gpus": [4], "duration": [2**23], "speed_k80": [1]}
    for own in (None, Outages([0], [5], [9], [0], reserved=[1])):
        with pytest.raises(JaxschedError, match="runs past"):
            replay(jobs, Cluster.of("1x4@k80"), POLICIES["fifo"], outages=own)


def reserved(server, begin, end, drains=None, **costs):
    drains = [0] * len(server) if drains is None else drains
    return Outages(server, begin, end, drains, reserved=[1] * len(server), **costs)


def test_a_window_by_hand():
    """All servers from 50 to 60: who ends at 50 starts before it, who would at 51 after it."""
    jobs = {"submit_time": [0, 0, 11, 11], "num_gpus": [2] * 4, "duration": [50, 51, 39, 40]}
    window = reserved([0, 1, 2], [50] * 3, [60] * 3)
    for name in ("fifo-skip", "fifo-any", "sjf"):
        records = replay(jobs, ALIKE, {**FURTHER, **POLICIES}[name], outages=window)
        assert records.start.tolist() == [0, 60, 11, 60] and not records.preemptions.any()
    blocked = replay(jobs, ALIKE, Policy("fifo", "block"), outages=window)
    assert blocked.start.tolist() == [0, 60, 60, 60]
    other = replay(jobs, ALIKE, POLICIES["fifo-skip"], outages=reserved([0], [50], [60]))
    assert other.start.tolist() == [0, 0, 11, 11] and other.first_server.tolist() == [0, 1, 0, 1]


def test_a_promise_steps_over_a_window():
    """The second job would fit at 5, but not until 30; who is done before the window goes first."""
    jobs = {"submit_time": [0, 0, 1, 1], "num_gpus": [4, 4, 2, 2], "duration": [5, 20, 15, 16]}
    records = replay(jobs, Cluster(1, 4), POLICIES["fifo-easy"], outages=reserved([0], [20], [30]))
    assert records.start.tolist() == [0, 30, 5, 50]


def test_who_outruns_the_estimate_is_stopped():
    """As by a failure, unless those that run there may run on."""
    jobs = {"submit_time": [0], "num_gpus": [4], "duration": [100], "estimate": [10]}
    policy = Policy("fifo", "skip", run_times="estimates")
    window = ([0], [20], [30])
    records = replay(jobs, Cluster(2, 4), policy, outages=reserved(*window, checkpoint_s=8))
    assert records.cut.tolist() == [[0, 0, 20]] and records.end.tolist() == [20 + 84]
    assert records.first_server.tolist() == [1]
    records = replay(jobs, Cluster(2, 4), policy, outages=reserved(*window, [1]))
    assert records.end.tolist() == [100] and not records.preemptions.any()
    known = replay(jobs, Cluster(2, 4), POLICIES["fifo-skip"], outages=reserved(*window))
    assert known.end.tolist() == [100] and known.first_server.tolist() == [1]


@pytest.mark.parametrize("name", ["fifo-easy", "drf", "fifo-any", "fifo-easy-any", "tetris", "sjf"])
def test_a_window_that_comes_too_late_changes_nothing(name):
    policy = {**FURTHER, **POLICIES}.get(name) or Policy("fifo", "easy", locality="any")
    late = reserved([0, 2], [10**6] * 2, [10**6 + 9] * 2)
    for table in NARROW[:6]:
        usual, other = (replay(table, ALIKE, policy, outages=each) for each in (None, late))
        np.testing.assert_array_equal(found(other), found(usual))


def test_nothing_is_kept_where_nothing_is_reserved():
    """The programs are the same, letter for letter."""
    jobs, programs = as_table(NARROW[0], ALIKE), []
    given = Outages([0], [5], [9], [0])
    for outages in (given, replace(given, reserved=[0]), replace(given, reserved=[1])):
        (own,), shape = prepare([jobs], ALIKE, RULES[2], [outages])
        _, program = easy_program(ALIKE, own, shape)
        programs.append(program)
    assert programs[0] == programs[1] != programs[2]
    assert given.digest() == replace(given, reserved=[0]).digest()
    assert given.digest() != replace(given, reserved=[1]).digest()


def test_a_list_of_reservations(tmp_path):
    path = tmp_path / "reservations.csv"
    path.write_text("servers,begin,end\n3,50,60\n0-2, 10,20\n\n")
    read = read_reservations(path, checkpoint_s=5)
    assert read.server.tolist() == [0, 1, 2, 3] and read.begin.tolist() == [10, 10, 10, 50]
    assert read.reserved.all() and not read.drains.any() and read.checkpoint_s == 5
    both = Outages([1], [15], [16], [1], checkpoint_s=7).joined(read)
    assert both.server.tolist() == [0, 1, 2, 1, 3] and both.reserved.tolist() == [1, 1, 1, 0, 1]
    assert both.checkpoint_s == 7


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "line 1: is ''; accepted: servers,begin,end"),
        ("server,begin,end,what\n", "line 1: is 'server,begin,end,what'; accepted"),
        ("servers,begin,end\n1,2\n", "line 2: is '1,2'; accepted: servers such as 3 or 0-15"),
        ("servers,begin,end\n1,2,3,4\n", "line 2: is '1,2,3,4'; accepted: servers"),
        ("servers,begin,end\n1-,2,3\n", "line 2: .*whole seconds"),
        ("servers,begin,end\n²,2,3\n", "line 2: .*whole seconds"),
        ("servers,begin,end\n1,2,x\n", "line 2: .*whole seconds"),
        ("servers,begin,end\n5-3,2,4\n", "line 2: has servers 5-3; accepted: the lower one"),
        ("servers,begin,end\n0-999999,2,4\n", f"line 2: .*up to {MOST_OUTAGES} servers"),
        ("servers,begin,end\n1,3,3\n", "line 2: is '1,3,3'; accepted: .* a later end"),
    ],
)
def test_what_is_no_list_is_refused_in_one_line(tmp_path, text, match):
    path = tmp_path / "reservations.csv"
    path.write_text(text)
    with pytest.raises(JaxschedError, match=match) as caught:
        read_reservations(path)
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 400
    with pytest.raises(JaxschedError, match="reservations is '.*cannot be read .*servers,begin,"):
        read_reservations(tmp_path / "no.csv")


ONE = {"submit_time": [0], "num_gpus": [1], "duration": [9]}


@pytest.mark.parametrize(
    ("policy", "match"),
    [
        ("srtf", "reservations with order srtf and mode skip; accepted: an order"),
        ("qssf", "reservations with order qssf"),
        ("themis", "reservations with order fairness"),
        ("f1-committed", "reservations with order f1 and mode commit"),
        ("estimates", "has no column 'estimate' .*which the policy goes by"),
    ],
)
def test_what_cannot_be_replayed(policy, match):
    estimates = Policy("fifo", "skip", run_times="estimates")
    policy = {**POLICIES, **FURTHER, "estimates": estimates}[policy]
    with pytest.raises(JaxschedError, match=match) as caught:
        replay(ONE, ALIKE, policy, outages=reserved([0], [1], [2]))
    assert len(str(caught.value).splitlines()) == 1
    if policy is estimates:
        assert replay(ONE, ALIKE, policy).end.tolist() == [9]
