"""``jaxsched headroom``: its table and values, and what it refuses."""

import json

import numpy as np
import pytest

from jaxsched import traces
from jaxsched.cli import main
from jaxsched.report import check
from jaxsched.results import headroom
from jaxsched.results.comparison import Contest
from jaxsched.results.statistics import paired_difference
from jaxsched.systems import functions, registry
from tests.command_line import policies_only, refused

METRICS = ["avg_effectiveness", "avg_jct", "makespan"]
SMALL = ["--trace", "sched2-mixed", "--num-traces", "3", "--num-jobs", "60"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Three congested traces of sixty jobs."""
    path = tmp_path_factory.mktemp("traces") / "tiny.csv"
    jobs = ["--num-traces", "3", "--num-jobs", "60", "--seed", "5"]
    assert main(["traces", "generate", "sched2-68", "--out", str(path), *jobs]) == 0
    lines = path.read_text().splitlines()
    column = lines[0].split(",").index("submit_time")
    rows = [line.split(",") for line in lines[1:]]
    for row in rows:
        row[column] = str(int(row[column]) // 100)
    path.write_text("\n".join([lines[0], *map(",".join, rows)]) + "\n")
    return path


def test_the_table_and_its_values(trace, tmp_path, capsys):
    file = tmp_path / "found.json"
    look = ["--futures", "2", "--alternatives", "3", "--horizon", "9000", "--policy", "strict_sif"]
    with policies_only("sched2", "fifo", "strict_sif"):
        command = ["headroom", "sched2", "--trace", str(trace), *look, "--json", str(file)]
        assert main(command) == 0
    shown = capsys.readouterr().out
    found = json.loads(file.read_text())
    check(found)  # reports take it
    table = found["headroom"]
    rows = {row["row"]: row for row in table["rows"]}
    assert list(rows) == ["best baseline", "strict_sif", "look_ahead", "clairvoyant"]
    assert all(row in shown for row in rows)
    assert rows["clairvoyant"]["knows"] == "state, future"
    assert table["base"] == "strict_sif" and table["rivals"] == []
    assert table["settings"] == {
        "futures": 2,
        "alternatives": 3,
        "horizon_s": 9000.0,
        "margin": 2.0,
        "discount_s": None,
    }
    values = {policy["name"]: policy["metrics"] for policy in found["policies"]}
    for name, row in rows.items():
        assert list(row["metrics"]) == METRICS
        for metric, cell in row["metrics"].items():
            mine = values["fifo" if name == "best baseline" else name][metric]
            assert cell["mean"] == pytest.approx(np.mean(mine))
            if name != "strict_sif":
                interval = paired_difference(mine, values["strict_sif"][metric])
                expected = {end: getattr(interval, end) for end in ("estimate", "low", "high")}
                assert cell["difference"] == expected
    effective = {name: row["metrics"]["avg_effectiveness"]["mean"] for name, row in rows.items()}
    assert effective["clairvoyant"] > effective["strict_sif"] > effective["best baseline"], (
        effective
    )
    assert values["look_ahead"]["avg_jct"] != values["strict_sif"]["avg_jct"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--futures", "1"], "futures is 1; accepted: at least 2"),
        (["--horizon", "0"], "horizon_s is 0.0; accepted: a number above 0"),
        (["--margin", "-1"], "margin is -1.0; accepted: a number from 0 on"),
        (["--discount", "nan"], "discount_s is nan"),
        (["--policy", "best"], "unknown policy 'best'"),
        (["--checkpoint", "nowhere"], "nowhere: holds no trained policy"),
        (["--json", "/"], "is a folder"),
    ],
)
def test_bad_values_are_refused_before_any_work(arguments, says, capsys):
    assert says in refused(capsys, "headroom", "sched2", *SMALL, *arguments)


def test_a_base_without_alternatives_is_refused(capsys):
    with policies_only("chic", "optimus", "optimus_300"):
        line = refused(capsys, "headroom", "chic", "--num-traces", "1", "--policy", "optimus")
    assert "nothing to try beside the actions of optimus" in line


def test_whoever_knows_the_future_is_no_base_unless_asked_for(monkeypatch):
    system = registry.get("das")
    tables = system.jobs.adapted(traces.get("das-contended", num_traces=1, num_jobs=6))
    monkeypatch.setattr(headroom, "_look_aheads", lambda *given: iter(()))

    def base_of(base, *names):
        contest = Contest(system, tables, "tables")
        settings, env = headroom.Settings(futures=0), functions.environment(system)
        found = headroom.measure(contest, names, [], base, settings, environment=env)
        return found["headroom"]["base"]

    assert base_of(None, "oracle", "fifo_loadbalance") == "fifo_loadbalance"
    assert base_of("oracle", "fifo_loadbalance") == "oracle"


def test_the_redrawn_future_is_not_told_by_a_clairvoyant():
    system = registry.get("das")
    env = functions.environment(system)
    player = functions.heuristic(system, "linear", env, 8, {})

    def played(*rivals):
        known = {name: functions.heuristic(system, name, env, 8, {}).policy for name in rivals}
        base = headroom.Base("linear", player, known)
        looks = headroom._look_aheads(system, headroom.Settings(futures=2), base)
        return [label for label, *_ in looks]

    assert played("oracle", "tetris") == ["look_ahead", "clairvoyant"]
    assert played("oracle") == ["clairvoyant"]  # nothing else to try
