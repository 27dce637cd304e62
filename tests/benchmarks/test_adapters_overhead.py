"""The benchmark of the adapters, on a process of four states."""

import json
import sys

import pytest

import jaxsched
from benchmarks import adapters_overhead
from benchmarks.scripts import exit_status
from tests import probes
from tests.probes import Probe

FORMS = {
    *("native", "native, scan", "gymnax", "gymnax, scan"),
    *("Gymnasium, JAX arrays", "Gymnasium, NumPy arrays"),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    params = probes.process(reward=[1, 2, 4], mask=[[True, False, True]] * 3)
    monkeypatch.setattr(jaxsched, "make", lambda name: (Probe(), params), raising=False)


def test_every_form_is_measured_beside_the_environment(tmp_path, monkeypatch, capsys):
    file = tmp_path / "rows.json"
    sizes = ("--envs", "4", "--steps", "5", "--repeats", "2")
    monkeypatch.setattr(sys, "argv", ["adapters_overhead", *sizes, "--json", str(file)])
    assert exit_status(adapters_overhead.main) == 0
    result = json.loads(file.read_text())
    rows = {row["form"]: row for row in result["rows"]}
    assert set(rows) - {"Stable-Baselines3"} == FORMS
    assert all(row["steps_per_cpu_s"] > 0 and row["of_native"] > 0 for row in rows.values())
    assert rows["native"]["of_native"] == rows["native, scan"]["of_native"] == 1
    assert result["environments"] == 4 and "versions" in result
    assert "of native" in capsys.readouterr().out


def test_sizes_are_checked(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["adapters_overhead", "--envs", "0"])
    assert exit_status(adapters_overhead.main) == 2
    assert "envs is 0" in capsys.readouterr().err
