"""Time of the first and the second start."""

import json

import pytest

from benchmarks import first_start
from jaxsched.errors import JaxschedError


def test_second_start_finds_what_the_first_compiled(monkeypatch, tmp_path, capsys):
    file = tmp_path / "starts.json"
    words = f"first_start --systems sched2 --programs step --rounds 1 --json {file}".split()
    monkeypatch.setattr("sys.argv", words)
    first_start.main()
    (row,) = json.loads(file.read_text())["rows"]
    first, second = row["first"], row["second"]
    assert first["total_s"] == pytest.approx(first["reset_s"] + first["step_s"])
    assert 0 < second["total_s"] < first["total_s"]
    assert capsys.readouterr().out.startswith("sched2 reset and step")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--systems sched3", "unknown name 'sched3'"),
        ("--programs steps", "unknown name 'steps'"),
        ("--rounds 0", "--rounds must be 1 to 100"),
    ],
)
def test_refuses(words, message, monkeypatch):
    monkeypatch.setattr("sys.argv", ["first_start", *words.split()])
    with pytest.raises(JaxschedError, match=message):
        first_start.main()


def test_a_start_that_fails_is_named(monkeypatch, tmp_path):
    with pytest.raises(JaxschedError, match="sched2: the process failed: .*nothing"):
        first_start.started("sched2", "nothing", "", str(tmp_path))
