"""The harness of the papers' rows: settings, store, checks, tables, resuming."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.papers import figures, samples, store, text, verdicts
from benchmarks.papers.command import parser_of, run_paper, settings_of
from benchmarks.papers.dl2.common import SIM_OPTIONS
from benchmarks.papers.lab import with_params
from benchmarks.papers.outcome import (
    Outcome,
    Table,
    beside,
    not_tested,
    percent,
    show,
)
from benchmarks.papers.runner import Paper, Row, row_key, run
from benchmarks.papers.settings import ROLE_SEEDS, Settings, Workload, digest, key_of
from jaxsched import traces
from jaxsched.errors import JaxschedError
from jaxsched.jobs import digest_tables
from jaxsched.results.statistics import Interval
from jaxsched.systems import functions, presets, registry

ROOT = Path(__file__).parents[3]

HALF = Interval(0.5, 0.4, 0.6)


def test_digest_is_by_value():
    recipe = presets.preset(registry.get("chic"), "quick")
    same = presets.preset(registry.get("chic"), "quick-pair")
    assert digest({"a": 1, "b": [2.5, "x"]}) == digest({"b": (2.5, "x"), "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert key_of(recipe=recipe, seeds=(0, 1)) == key_of(seeds=[0, 1], recipe=recipe)
    assert key_of(recipe=recipe, seeds=(0, 1)) != key_of(recipe=same, seeds=(0, 1))
    assert len(digest(None)) == 16


def test_settings_decide_but_the_folder(tmp_path):
    first, second = Settings(tmp_path / "a"), Settings(tmp_path / "b")
    assert first.deciding() == second.deciding()
    assert first.deciding() != Settings(tmp_path, quick=True).deciding()
    with pytest.raises(JaxschedError, match="num_test is 0; accepted"):
        Settings(tmp_path, num_test=0)
    with pytest.raises(JaxschedError, match="one or more different"):
        Settings(tmp_path, seeds=(1, 1))


def test_workloads_are_those_of_the_registry():
    named = traces.get("dl2-sim", seed=ROLE_SEEDS["test"], num_traces=2)
    assert digest_tables(SIM_OPTIONS.tables("test", 2, None)) == digest_tables(named)
    assert digest_tables(Workload("dl2-sim").tables("test", 2, None)) == digest_tables(named)
    noisy = SIM_OPTIONS.with_options(variation=0.2).tables("test", 2, None)
    assert noisy[0]["speed_factor"].shape[1] > 1
    assert (noisy[0]["submit_time"] == named[0]["submit_time"]).all()
    assert len(Workload("chic-1.80", num_jobs=7).tables("train", 1, 3)[0]) == 7
    assert len({digest_tables(Workload("chic-1.80").tables(r, 2, 5)) for r in ROLE_SEEDS}) == 3


def test_cells():
    assert show(HALF, 2) == "0.50 [0.40, 0.60]"
    assert show(None) == "-" and show(True) == "yes" and show(3) == "3" and show(2.25, 1) == "2.2"
    assert percent(HALF, 0) == "50 % [40, 60]"
    assert beside("a", "-", HALF, shown=percent).measured == "50.00 % [40.00, 60.00]"
    assert not not_tested("a", "-", "only 3 iterations were run").tested


def test_table_format():
    lines = text.format_table(["name", "value"], [["a", "1.0"], ["longer", "22.0"]]).splitlines()
    assert lines == ["name    value", "------  -----", "a         1.0", "longer   22.0"]
    long = " ".join(["word"] * 30)
    broken = text.format_table(["x", "y"], [["a", long]]).splitlines()
    assert len(broken) == 5 and max(map(len, broken)) <= text.LONGEST + 3
    assert " ".join(line[1:].strip() for line in broken[2:]) == long


def test_statistics_of_samples():
    base = {"m": np.array([[2.0, 4.0, 6.0]])}
    better = {"m": np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])}
    gain = samples.below(better, base, "m")
    assert gain.estimate == gain.low == gain.high == pytest.approx(0.5)
    assert samples.difference(better, base, "m").estimate == -2
    assert samples.mean_of(base, "m").estimate == 4
    assert samples.spread_of(base, "m") == pytest.approx(2.0)
    assert samples.first_at_most([(1, 5.0), (2, 3.0), (3, 1.0)], 3.5) == 2
    assert samples.first_at_most([(1, 5.0)], 3.5) is None
    np.testing.assert_allclose(samples.moving_mean([0, 3, 6, 9], 3), [1.5, 3, 6, 7.5])
    assert samples.rank_correlation([1, 2, 3], [9, 4, 1]) == pytest.approx(-1)
    assert np.isnan(samples.rank_correlation([1, 2, 3], [4, 4, 4]))


def test_half_written_rows_do_not_count(tmp_path):
    kept = store.Store(tmp_path)
    kept.write_row("X1", "k1", {"value": float("nan"), "list": (1, 2)})
    assert kept.read_row("X1", "k1")["list"] == [1, 2]
    assert kept.read_row("X1", "k1")["value"] is None
    assert kept.read_row("X1", "k2") is None
    whole = (tmp_path / "X1.json").read_text()
    (tmp_path / "X1.json").write_text(whole[: len(whole) // 2])
    assert kept.read_row("X1", "k1") is None
    assert [path.name for path in tmp_path.iterdir()] == ["X1.json"]


def fake_paper(calls, *, fails=False):
    def good(lab):
        calls.append("G1")
        table = Table("numbers", ["what", "value"], [["one", 1.0]])
        checks = [beside("one", "1", 1.0), not_tested("two", "> 1", "too short")]
        return Outcome([table], checks, {"one": np.float32(1.0)}, lambda figure: figure.subplots())

    def bad(lab):
        calls.append("G2")
        if fails:
            raise JaxschedError("stopped")
        return Outcome([], [beside("three", "-", "3")])

    rows = (Row("G1", "good", good), Row("G2", "bad", bad))
    return Paper("chic", "a paper", rows, {"loop.num_updates": 2}, {"num_test": 1})


def test_rows_resume(tmp_path, monkeypatch):
    rules = SimpleNamespace(CLAIMS=(verdicts.Claim("G1"),), MISSING=())
    monkeypatch.setattr(verdicts, "_claims", lambda system: rules)
    calls, shown = [], []
    settings = Settings(tmp_path, quick=True)
    with pytest.raises(JaxschedError, match=r"rows failed: G2 \(stopped\)"):
        run(fake_paper(calls, fails=True), settings, show=shown.append)
    assert len(shown) == 2 and calls == ["G1", "G2"] and not (tmp_path / "G2.json").exists()
    documents = run(fake_paper(calls), settings, show=shown.append)
    assert calls == ["G1", "G2", "G2"]  # the first was finished
    assert [d["row"] for d in documents] == ["G1", "G2"]
    assert documents[0]["facts"]["versions"]["jax"] and documents[0]["values"] == {"one": 1.0}
    assert (tmp_path / "G1.png").read_bytes()[:4] == b"\x89PNG"
    assert "reproduced (quick)" in shown[0] and "not tested: too short" in shown[0]
    assert "quick run" in shown[-1]
    assert len(json.loads((tmp_path / "summary.json").read_text())) == 2
    run(fake_paper(calls), Settings(tmp_path, quick=True, num_test=2), ["G1"], show=shown.append)
    assert calls[-1] == "G1"  # other settings, another key


def test_unknown_rows_are_refused(tmp_path):
    with pytest.raises(JaxschedError, match="unknown row 'Z9'; known are G1, G2"):
        run(fake_paper([]), Settings(tmp_path), ["Z9"])


def test_key_depends_on_row_and_settings(tmp_path):
    paper = fake_paper([])
    first, second = paper.rows
    usual = row_key(paper, Settings(tmp_path), first)
    assert usual == row_key(paper, Settings(tmp_path / "elsewhere"), first)
    assert usual != row_key(paper, Settings(tmp_path), second)
    assert usual != row_key(paper, Settings(tmp_path, overrides=("rho=1",)), first)


def test_options(tmp_path):
    paper = fake_paper([])
    parser = parser_of("chic", None)
    quick = settings_of(parser.parse_args(["--quick"]), paper, "chic")
    assert quick.seeds == (0,) and quick.num_test == 1 and quick.out.name == "chic-quick"
    asked = ["--seeds", "2", "--num-test", "4", "--set", "a=1", "--set", "b=2"]
    full = settings_of(parser.parse_args(asked), paper, "chic")
    assert full.seeds == (0, 1) and full.num_test == 4 and full.overrides == ("a=1", "b=2")
    assert full.num_train is None and not full.quick and full.out.name == "chic"


def test_changed_parameters():
    dl2 = registry.get("dl2")
    options = (("speed_mode", "measured"), ("contention", 0.0))
    env = functions.environment(dl2)
    changed = with_params(env, options)
    assert changed is with_params(env, options) and changed.name == "dl2"
    tables = Workload("dl2-testbed").tables("train", 1, 3)
    usual, other = env.params(tables), changed.params(tables)
    assert np.isfinite(usual.speed.doubling) and np.isinf(other.speed.doubling)


def test_figures_of_every_kind(tmp_path):
    def draw(figure):
        axes = figure.subplots(1, 3)
        figures.lines(
            axes[0], [1, 2], {"a": [1.0, HALF], "b": [None, 2.0]}, x_label="x", y_label="y"
        )
        figures.curves(
            axes[1], {"a": [(0, 1), (1, 2)]}, x_label="x", y_label="y", levels={"l": 1.5}
        )
        figures.bars(axes[2], ["g", "h"], {"a": [1.0, HALF], "b": [2.0, None]}, y_label="y")
        assert len(axes[2].patches) == 3
        assert [t.get_text() for t in axes[1].get_legend().get_texts()] == ["a", "l"]

    figures.save(tmp_path / "f.png", draw)
    assert [path.name for path in tmp_path.iterdir()] == ["f.png"]


@pytest.mark.parametrize(("paper", "known"), [("chic", "X1, X2"), ("dl2", "E1, E2")])
def test_command_refuses_unknown_rows(paper, known, tmp_path, capsys):
    assert run_paper([paper, "--rows", "Z9", "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
    assert f"error: unknown row 'Z9'; known are {known}" in capsys.readouterr().err


def test_command_refuses_unknown_papers(capsys):
    assert run_paper(["decima"]) == 2
    message = capsys.readouterr().err
    assert message == "error: unknown paper 'decima'; known are chic, das, dl2, mlfs, sched2\n"


def test_command_runs_as_a_module(tmp_path):
    """From a fresh process; the others share this one."""
    command = [sys.executable, "-m", "benchmarks.papers", "das", "--rows", "Z9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 2 and "unknown row 'Z9'" in done.stderr
