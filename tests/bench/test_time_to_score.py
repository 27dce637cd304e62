"""Time to a score: stops where it is reached, says where it is not."""

import json
from contextlib import nullcontext

import pytest

from jaxsched import traces
from jaxsched.bench import time_to_score as module
from jaxsched.bench.time_to_score import time_to_score
from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.runs import trainer
from jaxsched.runs.trained import PARTS
from jaxsched.systems import registry
from tests.bench.test_bench import printed
from tests.command_line import refused

TINY = (
    "env.max_decisions=8",  # an untrained policy takes all that there are, in every phase
    "loop.num_envs=4",
    "loop.rollout_length=4",
    "loop.num_updates=400",
    "value_network=mlp-8",
    "evaluate_every=1",
)


@pytest.fixture(autouse=True)
def few_traces(monkeypatch):
    def get(name, *, seed, **others):
        return traces.get(name, seed=seed, num_traces=2, num_jobs=8)

    monkeypatch.setattr("jaxsched.experiment.sources.registry.get", get)
    monkeypatch.setattr(module.timing, "fresh_compilations", nullcontext)


def test_it_stops_at_the_first_evaluation_that_reaches_the_score(tmp_path):
    file = tmp_path / "result.json"
    sets = [word for change in TINY for word in ("--set", change)]
    arguments = ["bench", "training", "--system", "chic", "--preset", "plain-ppo", *sets]
    assert main([*arguments, "--score", "1e9", "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    (row,) = result["rows"]
    assert result["reached"] == 1 and row["reached"] and row["best"] < 1e9
    assert row["env_steps"] == 16 and row["gradient_steps"] == 16
    assert 0 < row["wall_s"] == result["time_to_score_s"]["median"]
    assert row["env_steps_per_s"] == pytest.approx(16 / row["wall_s"])
    assert result["score_of"] is None and result["validation_traces"] == 2
    assert set(row["seconds_by_part"]) == set(PARTS)
    assert all(value > 0 for value in row["seconds_by_part"].values())
    assert sum(row["seconds_by_part"].values()) < row["wall_s"]


def test_a_policy_names_a_score_and_missing_it_is_said(monkeypatch):
    points = [trainer.Point(3, 48, 0.0, 1.0, 9e5), trainer.Point(6, 96, 1.0, 2.0, 8e5)]
    asked = []

    def train(system, stages, *, goal, seeds, **others):
        asked.append((seeds, goal))
        return trainer.Trained([None], [points[1]], [points], 2.0, trainer.Phases())

    monkeypatch.setattr(module.trainer, "train", train)
    said = []
    result = time_to_score(
        "chic", "optimus", preset="plain-ppo", overrides=TINY, num_seeds=2, progress=said.append
    )
    assert [seeds for seeds, _ in asked] == [[0], [1]]
    assert 1 < result["score"] == asked[0][1] == asked[1][1] < 8e5
    assert result["reached"] == 0 and result["time_to_score_s"] is None
    assert [row["best"] for row in result["rows"]] == [8e5, 8e5]
    assert "not reached, the recipe is at its end after" in said[-1]
    assert "not in" in printed(result) and "the score is optimus's on the 2" in printed(result)


def test_scores_are_compared_as_the_metric_says():
    chic, sched2 = registry.get("chic"), registry.get("sched2")
    assert trainer.reaches(chic, 1.0, 2.0) and not trainer.reaches(chic, 2.0, 1.0)
    assert trainer.reaches(sched2, 2.0, 1.0) and not trainer.reaches(sched2, 1.0, 2.0)
    assert trainer.reaches(chic, 1.0, 1.0) and trainer.reaches(sched2, 1.0, 1.0)


def test_what_is_no_score_is_refused(capsys):
    for score in ("optimum", "nan", "inf", ""):
        with pytest.raises(JaxschedError, match="neither a number nor a policy; policies are"):
            time_to_score("chic", score, preset="plain-ppo", overrides=TINY)
    assert "--score is for bench training" in refused(capsys, "bench", "scaling", "--score", "1")
