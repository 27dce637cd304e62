"""The plain-Python simulator of MLFS against the golden cases."""

import pytest

from benchmarks.peers.simulators.mlfs import BASELINES, Simulator
from benchmarks.peers.simulators.mlfs_rules import observation, random_case
from tests.golden_check import differences, golden_files, load

FILES = [path for path in golden_files("mlfs") if "cases" not in load(path)]
SEEDS = range(24)


def runs(case):
    """The simulators of a case, each with its actions and what it should give."""
    config, rows = case["config"], case["jobs"]
    for policy, expect in case.get("expect_by_policy", {}).items():
        yield Simulator(config, rows, policy), (), expect
    for switch, expect in case.get("expect_by_switch_off", {}).items():
        yield Simulator({**config, switch: False}, rows), (), expect
    if "expect" in case:
        policy = case.get("policy") or case["after_actions"]
        yield Simulator(config, rows, policy), case.get("actions", ()), case["expect"]


def narrowed(got, expect):
    """``got`` with the decisions and slots that ``expect`` lists."""
    got = dict(got)
    if "trajectory" in expect:
        got["trajectory"] = [got["trajectory"][row["step"]] for row in expect["trajectory"]]
    if "snapshots" in expect:
        at = {row["slot"]: row for row in got["snapshots"]}
        got["snapshots"] = [at[row["slot"]] for row in expect["snapshots"]]
    return got


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_case(path):
    found = []
    for simulator, actions, expect in runs(load(path)):
        expect.pop("use_mlfc", None)
        found += differences(expect, narrowed(simulator.run(actions), expect))
    assert found == []


def test_the_check_notices():
    (path,) = (path for path in FILES if path.stem == "02_chain_worked")
    ((simulator, actions, expect),) = runs(load(path))
    expect["trajectory"][2]["mask"][1] = 0
    assert len(differences(expect, narrowed(simulator.run(actions), expect))) == 1


def made(seed, **options):
    return random_case(seed, servers=3, **options)


@pytest.mark.parametrize("policy", ["mlf_h", "mlfs", *BASELINES])
def test_random_cases_end(policy):
    cut = 0
    for seed in SEEDS:
        case = made(seed)
        simulator = Simulator(case["config"], case["jobs"], policy)
        got = simulator.run()
        finished = [job["finish"] is not None for job in got["jobs"]]
        assert got["metrics"]["finished"] == sum(finished)
        assert all(finished) or got["slots"] >= case["config"]["max_slots"]
        cut += not all(finished)
    assert 0 < cut < len(SEEDS) / 2


def test_random_cases_reach_every_rule():
    total = dict.fromkeys(("evictions", "migrations", "overloads", "skipped", "backlog"), 0)
    for seed in SEEDS:
        case = made(seed)
        got = Simulator(case["config"], case["jobs"]).run()
        for name in ("evictions", "migrations", "overloads"):
            total[name] += got["metrics"][name] > 0
        slots = [row["slot"] for row in got["snapshots"]]
        total["skipped"] += slots != list(range(len(slots)))
        total["backlog"] += any(row["obs"][7] > 0 for row in got["trajectory"])
    assert min(total.values()) >= 3, total


def test_rewards_of_decisions_add_up_to_the_return():
    for seed in SEEDS:
        case = made(seed)
        got = Simulator(case["config"], case["jobs"]).run()
        rewards = sum(row["reward"] for row in got["trajectory"])
        assert rewards == pytest.approx(got["metrics"]["return"])


def test_fifo_offers_answered_by_the_least_loaded_server_are_the_fifo_baseline():
    for seed in SEEDS:
        case = made(seed)
        offered = Simulator(case["config"], case["jobs"], "mlf_h", "fifo")
        got = offered.run()
        assert got["decisions"] > 0
        expect = Simulator(case["config"], case["jobs"], "fifo").run()
        for name in ("metrics", "jobs", "slots"):
            assert got[name] == expect[name]
        rewards = sum(row["reward"] for row in got["trajectory"])
        unfinished = -rewards * len(case["jobs"])
        assert unfinished == pytest.approx(round(unfinished))
        assert unfinished > 0


def test_nothing_is_offered_at_the_end():
    case = made(0)
    simulator = Simulator(case["config"], case["jobs"])
    simulator.run()
    seen = observation(simulator)
    assert simulator.offer is None
    assert len(seen) == 8 + 26 + 10 * 3
    assert seen[8:34] == [0.0] * 26
    assert all(seen[34 + 10 * s + i] == 0 for s in range(3) for i in (6, 7, 9))


def test_random_cases_are_legal():
    for seed in SEEDS:
        case = made(seed)
        config, times = case["config"], [row["submit_time"] for row in case["jobs"]]
        assert times == sorted(times)
        for row in case["jobs"]:
            assert 0 < row["gpu_demand"] * 1200 // 1000 <= config["h_r"]
            assert 1200 * row["cpus"] // config["cpus_per_server"] <= config["h_r"]
            assert 1000 * row["mem"] // config["mem_per_server"] <= config["h_r"]
            assert {row["req_iter"], row["opt_iter"]} <= set(range(1, row["iterations"] + 1))
            partitions = {len(row["work"]), len(row["size"])}
            assert partitions == {row["num_gpus"] // (1 if row["num_gpus"] <= 2 else 2)} or (
                row["model"] == 4 and partitions == {1}
            )
