"""Every use of the replay memory is measured, by how many there are."""

import json

from benchmarks import replay_memory
from benchmarks.scripts import exit_status


def test_every_use_has_a_row(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(replay_memory, "ADDED", (8, 64))
    monkeypatch.setattr(replay_memory, "DRAWN", (4,))
    monkeypatch.setattr(replay_memory, "CALLS", 1)
    file = tmp_path / "rows.json"
    words = ["replay_memory", "--capacity", "40", "--size", "3", "--json", str(file)]
    monkeypatch.setattr("sys.argv", words)
    assert exit_status(replay_memory.main) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [(row["what"], row["items"]) for row in rows] == [
        ("add", 8),  # 64 do not fit
        ("draw", 4),
        ("draw uniformly", 4),
        ("set priorities", 4),
    ]
    assert all(row["us"] > 0 and row["ns_each"] > row["us"] for row in rows)
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
    monkeypatch.setattr("sys.argv", ["replay_memory", "--capacity", "0"])
    assert exit_status(replay_memory.main) == 2
