"""Readings of Chic's text: settings that a run accepts, departures named, a file that says how."""

import json

import pytest

from benchmarks.chic_readings import READINGS, write
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry


@pytest.mark.parametrize("name", READINGS)
def test_departures_are_named(name):
    system = registry.get("chic")
    recipe = override(presets.preset(system, "paper"), list(READINGS[name]))
    named = " ".join(system.recipes.departures.of(recipe))
    assert recipe.env.stop_on_one == name.startswith("one resource")
    assert ("void ends the decision phase" in named) == (name == "void ends")
    assert ("masked" in named) == name.endswith("masked")
    assert ("gradient steps" in named) == name.endswith("ten steps")


def test_the_command_makes_all_that_the_file_has(tmp_path):
    one = {"chosen": [0, 10]}
    write(tmp_path / "out.json", {"readings": {"as written": one, "weights 1": one}})
    command = json.loads((tmp_path / "out.json").read_text())["command"]
    assert command.endswith("--readings 'as written;weights 1' --seeds 2")
