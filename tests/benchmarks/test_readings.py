"""Readings of texts: settings that a run accepts, departures named, a file that says how."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import (
    chic_readings,
    dl2_readings,
    mlfs_learnt_readings,
    readings,
    sched2_readings,
)
from benchmarks.scripts import chosen
from jaxsched import traces
from jaxsched.errors import JaxschedError
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry

CHIC, SCHED2 = chic_readings.STUDY, sched2_readings.STUDY
DL2, MLFS = dl2_readings.STUDY, mlfs_learnt_readings.STUDY


def read(study, name):
    system = registry.get(study.system)
    recipe = override(presets.preset(system, study.preset_of(name)), list(study.readings[name]))
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
    name, _, _ = name.partition(", 2,400")
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


@pytest.mark.parametrize("name", MLFS.readings)
def test_departures_of_mlfs_are_named(name):
    """Printed weights of Equation 7 and the start at MLF-H are no departures."""
    recipe, named = read(MLFS, name)
    by_pair = mlfs_learnt_readings.BY_PAIR in name
    assert ("drawn for each slot" in named) == (name != "server choice" and not by_pair)
    assert ("drawn pair by pair" in named) == by_pair
    assert ("begin at random" in named) == ("random start" in name)
    assert ("all jobs in the system" in named) == (name == "all jobs")
    weights = named.count("reward: weight of ")
    assert weights == (5 if name in (*mlfs_learnt_readings.BETAS, "equal") else 0)
    if name in mlfs_learnt_readings.BETAS:
        (one,) = (key for key, value in recipe.stages[-1].params.items() if value == 1)
        assert one == mlfs_learnt_readings.BETAS[name]


@pytest.mark.parametrize("study", [CHIC, SCHED2, DL2, MLFS], ids=lambda study: study.system)
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
    fewer = {"as written": one, "weights 1": {"chosen": [0]}}
    readings.write(CHIC, path, {"readings": fewer})
    assert json.loads(path.read_text())["command"] == (
        "python -m benchmarks.chic_readings --readings 'as written' --seeds 2"
        " && python -m benchmarks.chic_readings --readings 'weights 1' --seeds 1"
    )
    longer = {"as written": {**one, "asked": CHIC.updates}, "weights 1": {**one, "asked": 7}}
    readings.write(CHIC, path, {"readings": longer})
    assert json.loads(path.read_text())["command"] == (
        "python -m benchmarks.chic_readings --readings 'as written' --seeds 2"
        " && python -m benchmarks.chic_readings --readings 'weights 1' --seeds 2 --updates 7"
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
        others=("strict_sif", readings.NEW),
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
    assert list(growing) == ["strict_sif", "untrained"]
    assert list(saturating) == ["strict_sif", "untrained", "all", "all, untrained"]
    drawn = np.array(growing["untrained"]["avg_jct"])
    assert drawn.shape == (5, 2) and len(np.unique(drawn[:, 0])) > 1
    assert np.shape(saturating["all"]["avg_effectiveness"]) == (2, 2)
    before = path.read_bytes()
    capsys.readouterr()
    readings.run(study, None)
    assert path.read_bytes() == before and capsys.readouterr().out == ""
