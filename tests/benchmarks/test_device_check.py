"""Devices are compared by whole numbers."""

import pytest

from benchmarks import device_check
from benchmarks.scripts import exit_status
from jaxsched.ops import target


def test_a_processor_agrees_with_itself(monkeypatch, tmp_path, capsys):
    file = tmp_path / "check.json"
    words = ["check", "--systems", "chic", "--steps", "5", "--json", str(file)]
    monkeypatch.setattr("sys.argv", words)
    assert exit_status(device_check.main) == 0 and "device check" in file.read_text()
    assert "system chic" in capsys.readouterr().out


def test_other_whole_numbers_are_an_error(monkeypatch, capsys):
    played, calls = device_check._played, []

    def other(*arguments):
        calls.append(arguments)
        leaves, *rest = played(*arguments)
        wrong = [leaf + 1 if leaf.dtype == "int32" else leaf for leaf in leaves]
        return (wrong if len(calls) == 1 else leaves), *rest

    monkeypatch.setattr(device_check, "_played", other)
    monkeypatch.setattr("sys.argv", ["check", "--systems", "chic", "--steps", "3"])
    assert exit_status(device_check.main) == 2
    assert "this device and a CPU differ in whole numbers: chic" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        monkeypatch.setattr("sys.argv", ["check", "--speed"])
        device_check.main()


def test_the_kernel_agrees_with_steps_side_by_side():
    with target.tracing_for("gpu"):
        assert device_check.lowerings("chic") == [None]  # by the machine, not by what is traced for
    row = device_check.row_of("chic", 3, 8, "kernel")
    assert (row["lowering"], row["differing"]) == ("kernel", 0)
