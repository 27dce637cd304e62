"""Servers that fail or are drained: replays equal a plain event loop; logs, rates, refusals."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.trace_replay import FURTHER, POLICIES, Cluster, Policy, replay, replay_batch
from jaxsched.trace_replay.outages import (
    MOST_OUTAGES,
    Outages,
    draw_outages,
    outages_of,
    read_outages,
)
from jaxsched.trace_replay.tables import as_table
from tests.trace_replay.cases import found
from tests.trace_replay.failing_oracle import FailingLoop
from tests.trace_replay.test_gpu_types import CLUSTER, TABLES, job_rows

ALIKE = Cluster(3, 4)
NARROW = [table | {"num_gpus": np.minimum(table["num_gpus"], 8)} for table in TABLES]


def random_outages(seed, num_servers, **costs):
    """About a dozen in the first hundred seconds, some at once, some of one server together."""
    rng = np.random.default_rng([seed, 3])
    count = int(rng.integers(1, 14))
    begin = rng.integers(0, 100, count)
    begin = np.where(rng.random(count) < 0.3, begin[0], begin)
    return Outages(
        rng.integers(0, num_servers, count), begin, begin + rng.integers(1, 40, count),
        rng.integers(0, 2, count), **costs,
    )  # fmt: skip


def plain(table, cluster, policy, outages):
    kinds = [tuple(kind) for kind in cluster.kinds]
    if not kinds:
        kinds = [(cluster.num_servers, cluster.gpus_per_server, cluster.num_gpus, "one")]
    columns = (outages.server, outages.begin, outages.end, outages.drains)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    jobs = job_rows(table, cluster)
    loop = FailingLoop(jobs, kinds, policy, rows, outages.checkpoint_s, outages.restart_s)
    return np.array(loop.run()).T, loop.cuts


RULES = [
    Policy("fifo", "block"),
    Policy("sjf", "skip", "load_balance"),
    Policy("sjf", "easy"),
    Policy("fifo", "easy", "first_fit", run_times="estimates"),
    Policy("drf", "skip"),
    Policy("slowdown", "skip", type_choice="fastest", least_speed_percent=40),
]
COSTS = ({}, {"checkpoint_s": 4, "restart_s": 3}, {"checkpoint_s": 1}, {"restart_s": 5})


@pytest.mark.parametrize("types", [False, True], ids=["alike", "types"])
@pytest.mark.parametrize("policy", RULES, ids=lambda p: f"{p.order}-{p.mode}")
def test_random_instances(policy, types):
    cluster, tables = (CLUSTER, TABLES) if types else (ALIKE, NARROW)
    stopped = 0
    for number, costs in enumerate(COSTS):
        outages = [random_outages(40 * number + k, cluster.num_servers, **costs) for k in range(24)]
        played = replay_batch(tables, cluster, policy, outages=outages)
        for table, own, records in zip(tables, outages, played, strict=True):
            expected, cuts = plain(table, cluster, policy, own)
            mine = np.stack([*found(records), records.held])
            np.testing.assert_array_equal(mine, expected)
            np.testing.assert_array_equal(records.cut.reshape(-1, 3), np.array(cuts).reshape(-1, 3))
            np.testing.assert_allclose(records.held_within(0, 10**6), records.held)
            stopped += records.preemptions.sum()
    assert stopped > 50


def test_a_failure_by_hand():
    """A job on two servers starts over; checkpoints every 30 s keep 60 of 80; a drain lets run."""
    jobs = {"submit_time": [0, 0], "num_gpus": [8, 4], "duration": [100, 50]}
    fails = ([1], [80], [90], [0])
    records = replay(jobs, ALIKE, POLICIES["fifo"], outages=Outages(*fails))
    assert records.end.tolist() == [80 + 100, 50] and records.first_server.tolist() == [0, 2]
    assert records.cut.tolist() == [[0, 0, 80]] and records.held.tolist() == [180, 50]
    kept = Outages(*fails, checkpoint_s=30, restart_s=7)
    assert replay(jobs, ALIKE, POLICIES["fifo"], outages=kept).end.tolist() == [80 + 47, 50]
    late = {"submit_time": [0, 0, 81], "num_gpus": [8, 4, 4], "duration": [100, 500, 10]}
    drained = Outages([1, 0], [80, 80], [200, 150], [1, 1])
    records = replay(late, ALIKE, POLICIES["fifo"], outages=drained)
    assert records.start.tolist() == [0, 0, 150] and not records.preemptions.any()


def test_no_outages_and_those_that_come_too_late_change_nothing():
    nothing, late = Outages([], [], [], []), Outages([0], [10**6], [10**6 + 1], [0])
    for name in ("fifo-easy", "drf", "fifo-any"):
        for table in NARROW[:4]:
            usual = replay(table, ALIKE, POLICIES[name])
            for outages in (nothing, late):
                other = replay(table, ALIKE, POLICIES[name], outages=outages)
                np.testing.assert_array_equal(found(other), found(usual))
                np.testing.assert_array_equal(other.held, usual.held)


def test_a_log_of_outages(tmp_path):
    path = tmp_path / "outages.csv"
    path.write_text("server,begin,end,what\n2,50,60,drain\n0,10,20,fail\n\n")
    read = read_outages(path, checkpoint_s=5)
    assert read.server.tolist() == [0, 2] and read.drains.tolist() == [0, 1]
    assert (read.begin.tolist(), read.end.tolist(), read.checkpoint_s) == ([10, 50], [20, 60], 5)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "line 1: is ''; accepted: server,begin,end,what"),
        ("server,begin\n", "line 1: is 'server,begin'; accepted"),
        ("server,begin,end,what\n1,2,3\n", "line 2: is '1,2,3'; accepted: a server, whole"),
        ("server,begin,end,what\n1,2,3,stop\n", "line 2: .*fail or drain"),
        ("server,begin,end,what\n-1,2,3,fail\n", "line 2: .*whole seconds"),
        ("server,begin,end,what\n1,²,3,fail\n", "line 2: .*whole seconds"),
        (
            "server,begin,end,what\n1,3,3,fail\n",
            "line 2: is '1,3,3,fail'; accepted: .* a later end",
        ),
        ("server,begin,end,what\n1,3,9999999999,fail\n", "line 2: is .*at most 1073741824"),
        ('"' + "x" * 200_000, "cannot be read .*field larger"),
        ("x\n" * (MOST_OUTAGES + 1), "is too large; accepted: up to"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, text, match):
    path = tmp_path / "outages.csv"
    path.write_text(text)
    with pytest.raises(JaxschedError, match=match) as caught:
        read_outages(path)
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 400


def test_a_rate():
    """Failures of one server are apart by what was asked for, servers are on their own."""
    cluster = Cluster(50, 8)
    drawn = draw_outages(cluster, 10**6, between_s=9000, repair_s=1000, seed=3)
    assert 4500 < len(drawn) < 5500 and drawn.begin.max() < 10**6
    assert 900 < (drawn.end - drawn.begin).mean() < 1100 and not drawn.drains.any()
    for server in range(50):
        own = drawn.server == server
        assert (drawn.begin[own][1:] >= drawn.end[own][:-1] - 1).all() and 60 < own.sum() < 140
    again = draw_outages(cluster, 10**6, between_s=9000, repair_s=1000, seed=3)
    np.testing.assert_array_equal(again.begin, drawn.begin)
    other = draw_outages(cluster, 10**6, between_s=9000, repair_s=1000, seed=4)
    assert not np.array_equal(other.begin, drawn.begin)


def test_what_a_text_stands_for(tmp_path):
    table = as_table(NARROW[0], ALIKE)
    one = outages_of("0.005:0.001", table, ALIKE, seed=5, checkpoint_s=9)
    horizon = int(table["submit_time"][-1] + table["duration"].max())
    same = draw_outages(ALIKE, horizon, between_s=18, repair_s=3.6, seed=5, checkpoint_s=9)
    assert one.digest() == same.digest() and len(one) > 3
    assert one.digest() != outages_of("0.005:0.001", table, ALIKE, seed=5).digest()
    (tmp_path / "log.csv").write_text("server,begin,end,what\n0,1,2,fail\n")
    assert len(outages_of(str(tmp_path / "log.csv"), table, ALIKE)) == 1


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("720:", "failures is '720:'; accepted: HOURS:HOURS"),
        ("0:1", "accepted: numbers above 0"),
        ("none.csv", "cannot be read"),
        ("0.00001:0.00001", "about .* failures"),
        (":" * 10**5, "failures is "),
        ("1e3:4", "cannot be read"),
    ],
)
def test_what_stands_for_nothing(text, match):
    table = as_table({"submit_time": [0, 10**6], "num_gpus": [1, 1], "duration": [1, 1]}, ALIKE)
    with pytest.raises(JaxschedError, match=match) as caught:
        outages_of(text, table, ALIKE)
    assert len(str(caught.value).splitlines()) == 1


ONE = {"submit_time": [0], "num_gpus": [1], "duration": [9]}


@pytest.mark.parametrize(
    ("outages", "policy", "match"),
    [
        (([3], [1], [2], [0]), "fifo", "reservations: server 3 of 3; accepted: from 0 to 2"),
        (([0], [1], [2], [0]), "srtf", "outages with order srtf and mode skip; accepted"),
        (([0], [1], [2], [0]), "qssf", "outages with order qssf"),
        (([0], [1], [2], [0]), "themis", "outages with order fairness"),
        (([0], [1], [2], [0]), "f1-committed", "outages with order f1 and mode commit"),
    ],
)
def test_what_cannot_be_replayed(outages, policy, match):
    with pytest.raises(JaxschedError, match=match):
        replay(ONE, ALIKE, {**POLICIES, **FURTHER}[policy], outages=Outages(*outages))


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (([0], [1], [1], [0]), "row 0 is .*accepted: a server from 0 on, 0 <= begin < end"),
        (([0], [1], [2], [2]), "row 0 is .*0 or 1 for drains and reserved"),
        (([0], [1, 2], [2, 3], [0, 0]), "columns have different lengths"),
        (([0.5], [1], [2], [0]), "server is 0.5; accepted: a whole number"),
        ((["0"], [1], [2], [0]), "server is '0'; accepted: a whole number"),
    ],
)
def test_what_are_no_outages(columns, match):
    with pytest.raises(JaxschedError, match=match):
        Outages(*columns)
    with pytest.raises(JaxschedError, match="checkpoint_s is -1"):
        Outages([], [], [], [], checkpoint_s=-1)
    with pytest.raises(JaxschedError, match="outages of 1 job tables of 2"):
        replay_batch([ONE, ONE], ALIKE, POLICIES["fifo"], outages=[Outages([], [], [], [])])
