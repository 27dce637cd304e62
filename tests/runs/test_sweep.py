"""Settings and seeds side by side: what can be, is, and gives what trainings alone give."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from jaxsched import traces
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.cli import main
from jaxsched.core.training import LoopConfig
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import override
from jaxsched.runs.sweep import Axis, groups_of, hyper_of, is_traced, read_axes, summary
from jaxsched.systems import presets, registry
from jaxsched.systems.parts import TraceSet
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.systems.stages import stages_of
from jaxsched.wrappers.recorded import RecordedParams
from tests.command_line import refused
from tests.example_system import registered

STAGE = Stage("search", EvolutionConfig(8, 2), LoopConfig(16, 8, 4))
RECIPE = Recipe(None, TraceSet("", ""), (STAGE,), "mlp-4", "search")
TINY = (
    *("sweep", "weighted", "--preset", "plain-search", "--num-traces", "2", "--num-jobs", "14"),
    *("--set", "learner.members=4", "--set", "learner.episodes=2", "--set", "loop.num_envs=8"),
    *("--set", "loop.num_random_streams=2", "--set", "loop.rollout_length=16"),
    *("--set", "network=mlp-4", "--set", "loop.num_updates=4"),
    *("--set", "checkpoint_every=2", "--set", "evaluate_every=2"),
)
RATES = ("--over", "learner.learning_rate=0.5,0.001")


@pytest.fixture(scope="module")
def system():
    with registered() as module:
        yield module


@pytest.fixture(scope="module")
def folder(system, tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "rates"
    assert main([*TINY, *RATES, "--out", str(path)]) == 0
    return path


def rows_of(folder):
    document = json.loads((folder / "sweep.json").read_text())
    return [row for rows in document["groups"].values() for row in rows]


def test_rates_train_side_by_side(folder):
    rows = rows_of(folder)
    assert [row["values"]["learner.learning_rate"] for row in rows] == ["0.5", "0.001"]
    assert [row["policy"] for row in rows] == [f"group0/policies/member{i}" for i in range(2)]
    assert all((folder / row["policy"]).is_dir() for row in rows)
    assert rows[0]["last"] != rows[1]["last"]  # the rate acts
    notes = json.loads((folder / "sweep.json").read_text())["notes"]
    assert set(notes) == {"train", "validation", "test"}  # what was changed in their traces
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_policy_of_a_sweep_can_be_played(folder, capsys):
    policy = str(folder / rows_of(folder)[0]["policy"])
    words = ["evaluate", "weighted", "--policy", policy, "--num-traces", "2", "--num-jobs", "14"]
    assert main(words) == 0
    assert "weighted JCT" in capsys.readouterr().out


def test_a_sweep_that_has_ended_is_shown_again(folder, capsys):
    before = (folder / "sweep.json").read_text()
    assert main([*TINY, *RATES, "--out", str(folder), "--resume"]) == 0
    shown = capsys.readouterr().out
    assert "0.001" in shown and "group" not in shown.partition("best policy")[0]
    assert (folder / "sweep.json").read_text() == before


def test_a_sweep_that_is_stopped_in_its_first_group_goes_on(folder, tmp_path, capsys, monkeypatch):
    path = tmp_path / "stopped"
    words = [*TINY, *RATES, "--out", str(path), "--quiet"]
    assert main([*words, "--max-time", "0.001"]) == 124
    line = "stopped: the time of --max-time is up; continue with the same command and --resume"
    assert capsys.readouterr().err == f"jaxsched: {line} (sweep: {path})\n"
    monkeypatch.setattr("jaxsched.pictures.save_figure", no_picture)
    assert "there is a sweep already" in refused(capsys, *words)
    assert refused(capsys, *words, "--resume") == "jaxsched: no font"  # all else is there
    assert rows_of(path) == rows_of(folder)


@pytest.mark.slow
def test_a_group_that_was_lost_before_its_first_checkpoint_begins_anew(folder, tmp_path):
    path = tmp_path / "lost"
    shutil.copytree(folder, path)
    document = json.loads((path / "sweep.json").read_text())
    (path / "sweep.json").write_text(json.dumps({**document, "groups": {}}))
    shutil.rmtree(path / "group0" / "checkpoints")
    assert main([*TINY, *RATES, "--out", str(path), "--resume"]) == 0
    assert rows_of(path) == rows_of(folder)
    before, after = (
        [json.loads(line)["step"] for line in text.splitlines()]
        for text in ((place / "group0/metrics.jsonl").read_text() for place in (folder, path))
    )
    assert before == after  # no line twice


def no_picture(*_):
    raise JaxschedError("no font")


def test_another_sweep_in_its_folder_is_refused(folder, capsys):
    line = refused(capsys, *TINY, *RATES, "--out", folder)
    assert "there is a sweep already" in line
    other = ("--over", "learner.learning_rate=0.5,0.002", "--out", folder, "--resume")
    assert "cannot go on: over was ['learner.learning_rate" in refused(capsys, *TINY, *other)
    none = refused(capsys, *TINY, *RATES, "--out", folder / "none", "--resume")
    assert "there is no sweep to go on with" in none


@pytest.mark.slow
def test_a_member_is_the_training_with_its_settings(system, folder, tmp_path):
    """Alone the rate is a setting of the recipe; side by side a number in the learner's state."""
    for index, rate in enumerate(("0.5", "0.001")):
        path = tmp_path / rate
        assert main([*TINY, "--over", f"learner.learning_rate={rate}", "--out", str(path)]) == 0
        alone, beside = rows_of(path)[0], rows_of(folder)[index]
        assert alone["policy"] == "group0/policies/seed0"
        np.testing.assert_allclose(
            [beside["score"], beside["last"]], [alone["score"], alone["last"]], rtol=1e-4
        )


@pytest.mark.slow
def test_static_settings_train_one_after_the_other_and_go_on(system, tmp_path, capsys):
    path = tmp_path / "sweep"
    words = [*TINY, *RATES, "--over", "network=mlp-4,mlp-8", "--num-seeds", "2", "--out", path]
    words = list(map(str, words))
    assert main(words) == 0
    rows = rows_of(path)
    assert len(rows) == 8
    document = json.loads((path / "sweep.json").read_text())
    del document["groups"]["group1"]  # as if it had been stopped before its end was noted
    (path / "sweep.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert main([*words, "--resume"]) == 0
    assert "group 2 of 2 (network=mlp-8): 4 side by side" in capsys.readouterr().out
    for before, after in zip(rows, rows_of(path), strict=True):
        assert before == after


def test_axes_are_read():
    assert read_axes(["a.b=1, 2", "c=[1, 2],[3]"]) == [
        Axis("a.b", ("1", "2")),
        Axis("c", ("[1, 2]", "[3]")),
    ]
    for bad, message in (
        (["a"], "expected path=value"),
        (["a=1,"], "expected path=value"),
        (["=1"], "expected path=value"),
        (["a=1,1"], "a value comes twice"),
        (["a=1", "a=2"], r"over\['a'\]: comes twice"),
    ):
        with pytest.raises(JaxschedError, match=message):
            read_axes(bad)


def test_traced_settings_share_a_group():
    axes = read_axes(["learner.learning_rate=0.1,0.2", "loop.rollout_length=4,8"])
    first, second = groups_of(RECIPE, axes, [5, 6])
    assert (first.common, second.common) == (
        {"loop.rollout_length": "4"},
        {"loop.rollout_length": "8"},
    )
    assert first.members == second.members
    assert [(m.values["learner.learning_rate"], m.seed) for m in first.members] == [
        ("0.1", 5),
        ("0.1", 6),
        ("0.2", 5),
        ("0.2", 6),
    ]
    assert not is_traced(RECIPE, Axis("learner.initial_std", ("0.1",)))  # a float, but static
    assert not is_traced(RECIPE, Axis("learner.final_learning_rate", ("0.1",)))  # absent so far
    assert is_traced(RECIPE, Axis("learner.averaging", ("0.1",)))
    with pytest.raises(JaxschedError, match="no field 'rate'"):
        groups_of(RECIPE, read_axes(["learner.rate=1"]), [0])
    with pytest.raises(JaxschedError, match="is not a number"):
        groups_of(RECIPE, read_axes(["learner.learning_rate=0.1,fast"]), [0])


def test_a_stage_may_learn_from_what_is_recorded():
    """Which is played, not traced, when it is asked for first."""
    system = registry.get("dl2")
    recipe = override(presets.preset(system, "paper"), ["network=mlp-4", "learner.capacity=4096"])
    (stage, _) = stages_of(system, recipe, traces.get("dl2-sim", num_traces=1, num_jobs=2))

    def recorded(progress):
        del progress
        assert bool(jnp.all(jnp.ones(2)))  # not while something is traced
        one = jnp.zeros(1)
        return RecordedParams(one[:, None], one[:, None] > 0, one.astype(jnp.int32))

    numbers = hyper_of(stage._replace(params_at=recorded))
    assert float(numbers.learning_rate) == pytest.approx(2e-3)


def test_the_best_mean_comes_first():
    rows = [
        {"values": {"a": a}, "score": score, "policy": f"{a}{score}"}
        for a, score in (("1", 3.0), ("1", 5.0), ("2", 4.5), ("2", 4.5))
    ]
    low = summary(rows, higher=False)
    assert [(entry["values"]["a"], entry["mean"]) for entry in low] == [("1", 4.0), ("2", 4.5)]
    assert low[0]["policy"] == "13.0" and low[0]["scores"] == [3.0, 5.0]
    assert summary(rows, higher=True)[0]["values"] == {"a": "2"}
