"""The board on GPUs with slots: loads, bounds and figures count parts, and who plays."""

import json

import numpy as np
import pytest

from jaxsched.advice.advising import advise
from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.leaderboard.board import play
from jaxsched.leaderboard.entries import entries_of
from jaxsched.leaderboard.workloads import Workload, prepare_draws
from jaxsched.trace_replay import SHARED
from jaxsched.traces import Trace, write_trace

COUNT = 60


@pytest.fixture
def path(tmp_path):
    """Quarters and whole GPUs in turn, which together ask for 5/8 of the GPUs that they name."""
    submit = np.arange(COUNT) * 70.0
    gpus = np.where(np.arange(COUNT) % 2, 1.0, 0.25)
    columns = {"submit_time": submit, "num_gpus": gpus, "duration": np.full(COUNT, 200.0)}
    write_trace(tmp_path / "log.csv", Trace(columns, "log"))
    return tmp_path / "log.csv"


def test_loads_and_bounds_count_parts(path):
    found = {}
    for slots in (1, 4):
        workload = Workload("log", str(path), None, num_servers=1, gpus_per_server=2, slots=slots)
        draws = prepare_draws(workload, None)
        names = ("fifo-skip", "fifo-fgd", "tetris", "fifo-any")
        found[slots] = draws[0], play(draws, entries_of(names, ()), asked_load=None, iterations=1)
    (whole, usual), (ready, standings) = found[1], found[4]
    assert ready.load == pytest.approx(whole.load * 5 / 8)
    assert "gpu_milli" not in whole.table.columns
    assert any("in slots, 4 to a GPU" in note for note in ready.notes)
    assert [row.policy for row in standings.standings] == ["fifo-skip", "fifo-fgd"]
    assert len(usual.standings) == 4 and standings.servers == "1x2x4" and usual.servers is None
    assert standings.busy < 0.75 * usual.busy
    for row in standings.standings:
        assert row.avg_jct.estimate >= standings.bounds["any_s"] - 1e-6


def test_the_command(path, tmp_path, capsys):
    board = ["leaderboard", "--trace", str(path), "--iterations", "1", "--processes", "1"]
    out = ["--policies", f"fifo,{','.join(SHARED)}", "--out", str(tmp_path), "--jobs"]
    assert main([*board, "--servers", "1x2x4", *out, str(tmp_path / "jobs.csv")]) == 0
    (cell,) = json.loads((tmp_path / "leaderboard.json").read_text())["pieces"].values()
    assert {row["policy"] for row in cell["standings"]} == {"fifo", *SHARED}
    assert "1x2x4" in capsys.readouterr().out
    assert ",0.25," in (tmp_path / "jobs.csv").read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["train", "sched2"], "sched2: its environment has no slots of GPUs; accepted: servers x"),
        (["compare", "mlfs"], "mlfs: its environment has no slots of GPUs; accepted: sizes alone"),
        (["traces", "describe", "openb-like"], "with slots of GPUs, which count for nothing here"),
    ],
)
def test_where_slots_are_refused(words, why, capsys):
    assert main([*words, "--servers", "2x4x4"]) == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_advice_refuses_slots(path):
    with pytest.raises(JaxschedError, match="known in whole GPUs; accepted: servers without slots"):
        advise(path, servers="1x2x4")
