"""The board where servers fail: all policies see the same failures, who plays, refusals."""

import json
import re

import pytest

from jaxsched.cli import main
from jaxsched.leaderboard.workloads import Workload, prepare
from jaxsched.trace_replay import POLICIES, replay
from jaxsched.trace_replay.outages import read_reservations
from jaxsched.traces import Trace, write_trace
from tests.leaderboard.test_own_logs import COUNT, log


@pytest.fixture
def path(tmp_path):
    write_trace(tmp_path / "log.csv", Trace(log(), "log"))
    return tmp_path / "log.csv"


def test_the_command(path, tmp_path, capsys):
    def play(*words):
        out = ["--out", str(tmp_path / "out"), "--json", str(tmp_path / "all.json")]
        rest = ["--iterations", "1", "--policies", "fifo,sjf,srtf", "--processes", "1", *out]
        command = ["leaderboard", "--trace", str(path), "--servers", "2x8", *rest, *words]
        assert main(command) == 0
        (piece,) = json.loads((tmp_path / "all.json").read_text())["pieces"].values()
        return piece, capsys.readouterr().out

    usual, _ = play()
    assert "failures" not in usual
    piece, printed = play("--failures", "1:0.2", "--checkpoint-s", "60")
    assert "not played, for want of servers that never fail: srtf" in piece["notes"]
    words = r"\d+ failures and 0 drains of servers \(1:0.2\), \d+ of them after the last submission"
    assert re.search(words + "; stopped jobs are saved every 60 s", printed)
    rows = {row["policy"]: row for row in piece["standings"]}
    assert set(rows) == {"fifo", "sjf"}  # not as recorded
    workload = Workload("log", str(path), None, num_servers=2, own=True)
    ready = prepare(workload._replace(failures="1:0.2", checkpoint_s=60), None)
    window = slice(COUNT // 10, COUNT - COUNT // 10)
    for name, row in rows.items():
        records = replay(ready.table, ready.cluster, POLICIES[name], outages=ready.outages)
        assert records.preemptions.sum() > 3
        assert row["figures"]["avg_jct"] == pytest.approx(records.jct[window].mean())
        assert row["own_ratio"] >= 1
    again, _ = play("--failures", "1:0.2", "--checkpoint-s", "60")
    assert again == piece  # taken from the record
    drains = tmp_path / "drains.csv"
    drains.write_text("server,begin,end,what\n0,100,900,drain\n")
    other, printed = play("--failures", str(drains))
    assert "0 failures and 1 drains" in printed and other["failures"] != piece["failures"]
    windows = tmp_path / "windows.csv"
    windows.write_text("servers,begin,end\n0-1,3000,4000\n")
    third, _ = play("--failures", str(drains), "--reservations", str(windows))
    words = f"1 drains of servers ({drains}) and 2 reservations of a server ({windows}), 0 of them"
    assert any(words in note and "all policies know" in note for note in third["notes"])
    assert third["failures"] not in (other["failures"], piece["failures"])
    fourth, _ = play("--reservations", str(windows))
    assert "not played, for want of servers that are never reserved: srtf" in fourth["notes"]
    assert [row["policy"] for row in fourth["standings"]] == ["fifo", "sjf"]
    assert {row["knows"] for row in fourth["standings"]} == {"run times"}
    assert rows["fifo"]["knows"] == "nothing"
    for row in fourth["standings"]:
        policy, outages = POLICIES[row["policy"]], read_reservations(windows)
        records = replay(ready.table, ready.cluster, policy, outages=outages)
        assert not ((records.start < 4000) & (records.end > 3000)).any()
        assert row["figures"]["avg_jct"] == pytest.approx(records.jct[window].mean())


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--checkpoint-s", "60"), "--checkpoint-s goes with --failures or --reservations; acc"),
        (("--reservations", "none.csv"), "--reservations is 'none.csv', which cannot be read"),
        (("--failures", "720:"), "--failures is '720:'; accepted: HOURS:HOURS"),
        (("--failures", "none.csv"), "--failures is 'none.csv', which cannot be read"),
        (("--failures", "720:4", "--policies", "srtf"), "servers that never fail"),
    ],
)
def test_what_is_refused_in_one_line(path, tmp_path, capsys, words, match):
    out = ["--out", str(tmp_path / "out"), "--processes", "1", "--servers", "2x8"]
    assert main(["leaderboard", "--trace", str(path), *out, *words]) != 0
    said = capsys.readouterr().err.strip()
    assert re.search(match, said) and len(said.splitlines()) == 1
