"""Regressions between two result files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import compare_results
from benchmarks.scripts import exit_status

ROOT = Path(__file__).resolve().parents[2]


def result(folder, rates, name="a.json"):
    rows = [
        {"figure": "environment", "batch": batch, "steps_per_s": {"median": rate},
         "cpu_ns_per_step": 1e9 / rate}
        for batch, rate in rates.items()
    ]  # fmt: skip
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(json.dumps({"kind": "throughput", "system": "sched2", "rows": rows}))
    return path


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["compare_results", *map(str, arguments)])
    try:
        return exit_status(compare_results.main)
    except SystemExit as stop:
        return stop.code


@pytest.mark.parametrize(
    ("new", "options", "status"),
    [
        ({1: 95.0, 8: 400.0}, (), 0),
        ({1: 85.0, 8: 400.0}, (), 1),
        ({1: 85.0}, ("--threshold", "0.2"), 0),
        ({1: 85.0}, ("--cpu",), 1),
        ({2: 100.0}, (), 2),
        ({1: 100.0}, ("--threshold", "1"), 2),
    ],
)
def test_status_tells_a_regression(tmp_path, monkeypatch, capsys, new, options, status):
    old = result(tmp_path / "old", {1: 100.0, 8: 200.0})
    other = result(tmp_path / "new", new)
    assert run(monkeypatch, old, other, *options) == status
    assert ("SLOWER" in capsys.readouterr().out) == (status == 1)


def test_folders_are_compared_by_name(tmp_path, monkeypatch, capsys):
    for name, rate in (("a.json", 100.0), ("b.json", 50.0)):
        result(tmp_path / "old", {1: 100.0}, name)
        result(tmp_path / "new", {1: rate}, name)
    result(tmp_path / "new", {1: 1.0}, "c.json")
    assert run(monkeypatch, tmp_path / "old", tmp_path / "new") == 1
    assert "1 of 2 rows" in capsys.readouterr().out
    assert run(monkeypatch, tmp_path / "old", tmp_path / "new" / "a.json") == 2
    (tmp_path / "new" / "a.json").write_text("[")
    assert run(monkeypatch, tmp_path / "old", tmp_path / "new") == 2


def test_times_to_a_score_are_compared_by_their_medians(tmp_path):
    about = {"kind": "time-to-score", "system": "chic", "preset": "search", "score": 2036.0}
    row = {"seed": 0, "env_steps_per_s": 5.0}
    for name, seconds in (("old", 10.0), ("new", 20.0), ("never", None)):
        spread = seconds and {"median": seconds, "min": 1.0, "max": 99.0}
        found = about | {"rows": [row], "time_to_score_s": spread}
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    (change,) = compare_results.changes(tmp_path / "old.json", tmp_path / "new.json")
    assert change.label == "chic time-to-score search score 2036, time_to_score_s"
    assert (change.old, change.new) == (0.1, 0.05)
    for new, cpu in (("never", False), ("new", True)):  # by the processor nothing was measured
        files = tmp_path / "old.json", tmp_path / f"{new}.json"
        assert not list(compare_results.changes(*files, cpu=cpu))


def test_estimates_stand_beside_what_was_measured(tmp_path, monkeypatch, capsys):
    row = {"system": "chic", "program": "environment", "batch": 8, "steps": 8, "estimate_us": 2.0}
    row |= {"figure": "environment", "lowering": "lanes"}
    update = {**row, "program": "training", "preset": "gpu-ppo"}
    estimates = tmp_path / "estimates.json"
    estimates.write_text(json.dumps({"kind": "kernels", "rows": [row, update]}))
    folder = tmp_path / "measured"
    folder.mkdir()
    named = {"figure": "environment", "batch": 8, "devices": 1, "lowering": "lanes"}
    rows = [{**named, "steps_per_s": {"median": 1e6}}]
    rows.append({**rows[0], "lowering": "vmap"})  # not compiled
    measured = {"system": "chic", "kind": "throughput", "rows": rows}
    (folder / "chic_throughput.json").write_text(json.dumps(measured))
    assert run(monkeypatch, estimates, folder) == 0
    words = capsys.readouterr().out
    assert "4e+06" in words and "0.25" in words and "1 rows: estimated" in words


@pytest.mark.parametrize(("systems", "rows"), [("sched2 mlfs", 15), ("das", 5), ("cluster", 6)])
def test_the_gpu_script_names_what_it_skips(tmp_path, systems, rows):
    """No time for anything: each row is named, nothing is measured."""
    settings = {"BUDGET_S": "0", "SYSTEMS": systems, "PATH": "/usr/bin:/bin"}
    script = ROOT / "benchmarks" / "gpu.sh"
    subprocess.run([script, tmp_path], env=settings, check=True, capture_output=True)
    lines = (tmp_path / "summary.txt").read_text().splitlines()
    assert sum("skipped" in line for line in lines) == len(lines) - 1 == rows
    assert any("gpu_training:" in line for line in lines)
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.slow
def test_the_gpu_script_measures_every_row(tmp_path, monkeypatch):
    """All rows of one system at the smallest sizes; what it wrote compares with itself."""
    settings = {"BUDGET_S": "500", "SIZES": "tiny", "SYSTEMS": "chic", "PYTHON": sys.executable}
    script = ROOT / "benchmarks" / "gpu.sh"
    subprocess.run([script, tmp_path], env=os.environ | settings, check=True, capture_output=True)
    rows = ("throughput", "throughput_vmap", "throughput_kernel", "gpu_training", "training")
    rows += ("gpu_training_float32", "scaling", "cost")
    rows = ["device_check", *(f"chic_{name}" for name in rows)]
    lines = (tmp_path / "summary.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == [*rows, "all"]
    assert not [line for line in lines if "failed" in line or "skipped" in line or "ended" in line]
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == sorted(rows)
    assert run(monkeypatch, tmp_path, tmp_path) == 0
