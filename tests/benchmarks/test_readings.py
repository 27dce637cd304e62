"""Readings of texts: settings that a run accepts, departures named, a file that says how."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import chic_readings, readings, sched2_readings
from benchmarks.scripts import chosen
from jaxsched import traces
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry

CHIC, SCHED2 = chic_readings.STUDY, sched2_readings.STUDY


def read(study, name):
    system = registry.get(study.system)
    recipe = override(presets.preset(system, study.preset), list(study.readings[name]))
    return recipe, " ".join(system.recipes.departures.of(recipe))


@pytest.mark.parametrize("name", CHIC.readings)
def test_departures_of_chic_are_named(name):
    recipe, named = read(CHIC, name)
    assert recipe.env.stop_on_one == name.startswith("one resource")
    assert ("void ends the decision phase" in named) == (name == "void ends")
    assert ("masked" in named) == name.endswith("masked")
    assert ("gradient steps" in named) == name.endswith("ten steps")


@pytest.mark.parametrize("name", SCHED2.readings)
def test_departures_of_sched2_are_named(name):
    recipe, named = read(SCHED2, name)
    everything = name.startswith("all together")
    assert ("masked" not in named) == (everything or name in ("no mask", "as written"))
    assert ("discount" not in named) == (name in ("undiscounted", "as written"))
    assert ("less 1" in named) == (everything or name == "less one, a day")
    world = "saturating" if everything or name == "saturating" else "growing"
    assert readings.world_of(SCHED2, recipe.env) == world
    (stage,) = recipe.stages
    steps = stage.learner.gradient_steps
    assert (steps == stage.loop.steps_per_update) == name.endswith("a step per decision")
    assert stage.loop.num_updates >= SCHED2.every


@pytest.mark.parametrize("study", [CHIC, SCHED2], ids=lambda study: study.system)
def test_the_verdict_is_on_other_episodes_than_the_choice(study):
    assert study.test.seed not in (study.train.seed, study.validation.seed)
    assert study.shown in study.metrics and study.ours in study.others


def test_the_command_makes_all_that_the_file_has(tmp_path):
    one = {"chosen": [0, 10]}
    path = tmp_path / "out.json"
    readings.write(CHIC, path, {"readings": {"as written": one, "weights 1": one}})
    command = json.loads(path.read_text())["command"]
    assert command == (
        "python -m benchmarks.chic_readings --readings 'as written;weights 1' --seeds 2"
    )


def test_an_unknown_reading_is_refused():
    with pytest.raises(JaxschedError, match="--readings: 'loud'; accepted: as written; "):
        chosen("as written;loud", CHIC.readings, "--readings", sign=";")


def test_a_study_is_run_once(tmp_path, monkeypatch, capsys):
    """Seeds keep their own best weights, the world is the reading's, and nothing is run again."""
    quick = ("loop.num_envs=2", "learner.capacity=64", "learner.learning_starts=8")
    quick += ("learner.batch_size=4",)
    monkeypatch.setattr(
        readings.Draw,
        "tables",
        lambda draw: traces.get("sched2-68", seed=draw.seed, num_traces=2, num_jobs=12),
    )
    study = replace(
        SCHED2,
        readings={"all": (*SCHED2.readings["all together"], *quick)},
        others=("strict_sif",),
        updates=3,
        every=1,
    )
    path = tmp_path / "out.json"
    monkeypatch.setattr("sys.argv", ["sched2_readings", "--json", str(path), "--seeds", "2"])
    readings.run(study, None)
    told = json.loads(path.read_text())
    one = told["readings"]["all"]
    assert np.shape(one["validation"]) == (4, 2) and one["updates"] == [0, 1, 2, 3]
    best = np.argmax(one["validation"], axis=0)
    assert one["chosen"] == best.tolist()
    growing, saturating = (told["loads"][name]["metrics"] for name in study.worlds)
    assert list(growing) == ["strict_sif"]
    assert list(saturating) == ["strict_sif", "all", "all, untrained"]
    assert np.shape(saturating["all"]["avg_effectiveness"]) == (2, 2)
    before = path.read_bytes()
    capsys.readouterr()
    readings.run(study, None)
    assert path.read_bytes() == before and capsys.readouterr().out == ""
