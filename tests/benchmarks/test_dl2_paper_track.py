"""The paper track's seeds, trained and judged: ``python -m benchmarks.dl2_paper_track``."""

import sys

import numpy as np
import pytest

from benchmarks import dl2_paper_track
from benchmarks.dl2_paper_track import LEARNED, SUPERVISED, UNTRAINED, change, markdown
from benchmarks.scripts import read_json
from jaxsched.envs.dl2.learn.presets import PRESETS
from jaxsched.errors import JaxschedError
from jaxsched.report import check

TINY = (
    "env.num_servers=3",
    "env.window=3",
    "env.max_slots=40",
    "network=mlp-8",
    "supervised.loop.num_updates=2",
    "supervised.data.tables=1",
    "supervised.learner.batch_size=32",
    "learner.held=64",
    "loop.num_envs=2",
    "loop.rollout_length=8",
    "loop.num_updates=4",
    "evaluate_every=2",
    "traces.num_train=2",
    "traces.num_validation=2",
)


def test_every_case_is_a_preset():
    assert set(dl2_paper_track.CASES) <= set(PRESETS)


def test_a_change_stands_with_its_interval():
    base, found = np.array([[10.0, 12.0, 8.0]]), np.array([[9.0, 10.8, 7.2]])
    assert change(found, base) == "-10.0 % [-10.0, -10.0]"


def test_tables_have_every_policy_and_every_evaluation():
    entries = [("drf", [4.0, 6.0]), (LEARNED, [[3.0, 5.0], [4.0, 4.0]])]
    result = {
        "episodes": {"count": 2},
        "facts": {"training time": "2 min", "updates": "10"},
        "chosen": [5, 10],
        "policies": [
            {"name": name, "metrics": {"avg_jct_slots": times}} for name, times in entries
        ],
        "learning_curve": {
            "levels": {"drf": 5.0},
            "series": [{"x": [5, 10], "y": [4.0, 4.5]}, {"x": [5, 10], "y": [5.0, 3.5]}],
        },
    }
    text = markdown(result)
    assert "| `drf` | 5.000 |  | +0.0 % [+0.0, +0.0] |" in text
    assert "| `dl2` | 4.000 | 4.00, 4.00 | -20.0 %" in text
    assert "| 5 | 4.50 | 4.00, 5.00 |" in text and "| 10 | 4.00 | 4.50, 3.50 |" in text


@pytest.mark.parametrize(("word", "value"), [("seeds", "0"), ("fresh", "0")])
def test_numbers_that_are_none_are_refused(word, value, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["dl2_paper_track", f"--{word}", value])
    with pytest.raises(JaxschedError, match=f"--{word} is 0; it must be at least 1"):
        dl2_paper_track.main()


@pytest.mark.slow
def test_seeds_are_trained_and_judged(tmp_path, monkeypatch, capsys):
    settings = [word for setting in TINY for word in ("--set", setting)]
    arguments = ["--cases", "paper-mended-testbed", "--seeds", "2", "--fresh", "2"]
    arguments += ["--rules", "drf", "--device", "here", "--results", str(tmp_path)]
    arguments += ["--runs", str(tmp_path / "runs"), *settings]
    monkeypatch.setattr(sys, "argv", ["dl2_paper_track", *arguments])
    dl2_paper_track.main()
    result = read_json(tmp_path / "dl2_paper_mended_testbed_here.json")
    check(result)
    assert result["command"].endswith("--fresh 2 --rules drf")
    seeds = {entry["name"]: np.shape(entry["metrics"]["avg_jct"]) for entry in result["policies"]}
    pair = {LEARNED: (2, 2), SUPERVISED: (2, 2), UNTRAINED: (2, 2)}
    assert seeds == {"drf": (2,), **pair}
    assert [one["x"] for one in result["learning_curve"]["series"]] == [[0, 2, 4]] * 2
    assert "labels: a worker" in result["facts"]["differences from the paper's recipe"]
    assert "2 fresh sequences" in capsys.readouterr().out
