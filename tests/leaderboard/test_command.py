"""``jaxsched leaderboard``: what it plays once, writes and refuses, and ten lines of one's own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxsched.cli import main
from jaxsched.cli.completion import complete_rule, complete_workload
from jaxsched.leaderboard import Standings
from jaxsched.leaderboard.cells import Choice, cells_of, play_all
from jaxsched.leaderboard.workloads import Workload
from tests.leaderboard.small import trace_file

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "leaderboard.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces")
    trace_file(path)
    return path


@pytest.fixture
def words(folder, tmp_path):
    return ["leaderboard", "--trace", str(folder / "hand.csv.gz"), "--policies", "fifo,sjf",
            "--num-jobs", "60", "--iterations", "2", "--processes", "1", "--loads", "0.5",
            "--out", str(tmp_path / "out")]  # fmt: skip


def test_each_piece_is_played_once(words, tmp_path, capsys):
    written = {name: tmp_path / name for name in ("b.json", "b.html", "b.png")}
    outputs = ["--json", str(written["b.json"]), "--html", str(written["b.html"]),
               "--plot", str(written["b.png"])]  # fmt: skip
    assert main([*words, *outputs]) == 0
    first = capsys.readouterr().out
    assert "[2/2," in first and "hand@0.5: 60 jobs, best sjf" in first
    assert "mean completion time over the lower bound for any schedule, by load" in first
    document = json.loads(written["b.json"].read_text())
    assert list(document["pieces"]) == ["hand@0.9", "hand@0.5"] and "device" in document
    assert document["load"] == 0.9
    assert document["recommendation"][0].startswith("sjf has the lowest mean completion time: ")
    kept = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert {**document, "load_average": 0} == {**document, **kept, "load_average": 0}
    board = Standings.from_json(document["pieces"]["hand@0.5"])
    assert board.num_jobs == 60 and board.num_measured == 48 and board.asked_load == 0.5
    assert "hand" in written["b.html"].read_text() and written["b.png"].stat().st_size > 2000
    assert main([*words, "--quiet", "--json", "-"]) == 0
    again = capsys.readouterr().out
    assert json.loads(again)["pieces"] == document["pieces"], "nothing but the result"
    assert main([*words, "--num-jobs", "50"]) == 0
    assert "hand@0.9: 50 jobs" in capsys.readouterr().out


def test_what_is_no_record_is_played_again(words, tmp_path, capsys):
    record = tmp_path / "out" / "leaderboard.json"
    words = [*words, "--loads", "0.9"]
    assert main(words) == 0
    found = json.loads(record.read_text())
    for odd in ("[]", "{}", "x", json.dumps({**found, "pieces": {"hand@0.9": [1]}})):
        record.write_text(odd)
        capsys.readouterr()
        assert main(words) == 0
        assert "[1/1," in capsys.readouterr().out
    assert main(words) == 0
    assert "to play; Ctrl-C" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policies", "fifo,best"], "unknown policy 'best'; accepted: fifo, "),
        (["--workloads", "mars"], "unknown workload 'mars'; accepted: philly, "),
        (["--trace", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["--workloads", "philly-like", "--load", "nan"], "loads are nan; accepted: numbers above"),
        (["--servers", "40"], "--servers is '40'; accepted: servers x GPUs of each, such as 40x8"),
        (["--trace", "philly-like", "--format", "swf"], "--format needs a file; accepted: "),
        (["--jobs", "jobs.txt"], "jobs.txt: expected a name that ends in .csv or .parquet"),
        (["--loads", "0.5,high"], "--loads is '0.5,high'; accepted: numbers with commas"),
        (["--plot", "board.gif"], "expected a name that ends in .png or"),
        (["--policy", "nothing"], "--policy is 'nothing'; accepted: module:name"),
    ],
)
def test_it_refuses_in_one_line(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert main(["leaderboard", *arguments]) == 2
    message = capsys.readouterr().err
    assert says in message and message.count("\n") == 1


def test_names_are_completed_after_commas():
    assert complete_workload(None, "philly,itp-0") == [f"philly,itp-0{k}" for k in (2, 3, 4, 7)]
    assert complete_rule(None, "sjf,fifo-l") == ["sjf,fifo-loadbalance"]


def test_own_policy_of_the_documentation(words, tmp_path, monkeypatch, capsys):
    """The page's rule, as it is written there, beside the library's."""
    code = PAGE.read_text().split("```python\n")[1].split("```")[0]
    assert len(code.strip().splitlines()) <= 10
    (tmp_path / "my_rules.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert main([*words, "--loads", "0.9", "--policy", "my_rules:small_owners_first"]) == 0
    finally:
        sys.modules.pop("my_rules", None)
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    rows = {row["policy"]: row for row in found["pieces"]["hand@0.9"]["standings"]}
    assert set(rows) == {"fifo", "sjf", "small_owners_first"}
    assert rows["small_owners_first"]["knows"] == "nothing"
    assert rows["small_owners_first"]["jct_ratio"] >= 1
    assert "small_owners_first" in capsys.readouterr().out


def test_pieces_come_in_an_order_that_compiles_little(folder):
    choice = Choice(("fifo",), (), 40, 0, 0, 2, False)
    workloads = [Workload("hand", str(folder / "hand.csv.gz")), Workload("l", "philly-like")]
    found = cells_of([w._replace(num_jobs=80) for w in workloads], None, (0.5, 0.9), choice)
    assert [piece.name for piece in found] == ["l@0.9", "hand@0.9", "hand@0.5", "l@0.5"]
    assert [piece.draws for piece in found] == [2, 1, 1, 1]


@pytest.mark.slow
def test_processes_side_by_side_play_the_same(folder):
    choice = Choice(("fifo", "sjf"), (), 60, 1, 0, 1, False)
    pieces = cells_of([Workload("hand", str(folder / "hand.csv.gz"))], None, (0.5, 0.9), choice)
    alone, beside = (
        {piece.name: {**played, "seconds": 0} for piece, played in play_all(pieces, choice, count)}
        for count in (1, 2)
    )
    assert set(alone) == {"hand@0.9", "hand@0.5"}
    assert alone == beside


def workers_of(parent):
    """Processes that play for another one, and the processor seconds that each has used."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            is_worker = b"spawn_main" in (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if is_worker and fields[0] != "Z" and (parent is None or int(fields[1]) == parent):
            ticks = int(fields[11]) + int(fields[12])
            found[int(folder.name)] = ticks / os.sysconf("SC_CLK_TCK")
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    words = ["leaderboard", "--workloads", "philly-like,helios-venus", "--processes", "2"]
    command = [sys.executable, "-m", "jaxsched", *words, "--out", str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        workers = {}
        while len(workers) < 2 or min(workers.values()) < 6:  # beyond their imports
            assert time.monotonic() < until and parent.poll() is None
            time.sleep(0.2)
            workers = workers_of(parent.pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until = time.monotonic() + 10
        while left := set(workers) & set(workers_of(None)):
            assert time.monotonic() < until, f"{len(left)} go on"
            time.sleep(0.2)
    finally:
        parent.kill()
        for worker in set(workers_of(None)) & set(workers):
            os.kill(worker, signal.SIGKILL)


def test_servers_of_different_sizes(folder, tmp_path, capsys):
    """The cluster is said as it was typed, and no figure is below the bound of one pool."""
    words = ["leaderboard", "--trace", str(folder / "hand.csv.gz"), "--servers", "2x2:4,2x8",
             "--policies", "fifo,f1-committed", "--num-jobs", "60", "--iterations", "2",
             "--processes", "1", "--out", str(tmp_path), "--json", "-", "--quiet"]  # fmt: skip
    assert main(words) == 0
    piece = json.loads(capsys.readouterr().out)["pieces"]["hand@own"]
    assert piece["servers"] == "2x2:4,2x8" and piece["num_servers"] == 4
    assert [row["policy"] for row in piece["standings"]] == ["fifo", "f1-committed"]
    assert all(row["jct_ratio"] >= 1 for row in piece["standings"])
    assert "cluster of 2x2:4,2x8 GPUs as given: " in " ".join(piece["notes"])
    assert Standings.from_json(piece).size == "2x2:4,2x8"
    words[4] = "2x2,2x2"
    assert main(words) == 2
    assert "the same size twice; accepted: every size once" in capsys.readouterr().err
