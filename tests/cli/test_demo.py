"""``jaxsched demo``: the best recipe of SCHED2, short; the paper's learner by an option."""

import json

import jax
import numpy as np
import pytest

from jaxsched.cli import demo, main
from jaxsched.report import Summary, check

pytestmark = pytest.mark.optimised  # a whole training


@pytest.mark.parametrize(("words", "preset"), [([], demo.PRESET), (["--preset", "quick"], "quick")])
def test_the_recipe_is_an_option(words, preset, monkeypatch):
    seen = {}

    def train(context, system, **given):
        seen.update(given, system=system, command=context.info_name)
        return 0

    monkeypatch.setattr(demo, "train", train)
    assert main(["demo", *words]) == 0
    assert (seen["system"], seen["preset"], seen["command"]) == (demo.SYSTEM, preset, "demo")
    assert str(seen["out"]) == "runs/demo"
    assert seen["devices"] == str(min(2, jax.device_count()))


@pytest.mark.slow
def test_the_policy_beats_the_baselines_and_the_best_rule(tmp_path):
    """On 60 congested traces; the page says so with an interval."""
    assert main(["demo", "--out", str(tmp_path / "run")]) == 0
    document = json.loads((tmp_path / "run" / "comparison.json").read_text())
    summary = Summary(check(document), resamples=2000)
    assert summary.verdict.won
    assert "search is ahead of delay, the best rule here" in summary.verdict.headline
    (learned,) = summary.of_kind("learned")
    assert np.mean(learned["metrics"]["avg_effectiveness"]) > 0.765
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "beats every baseline of the paper" in page
    assert "search is ahead of delay, the best rule here" in page
