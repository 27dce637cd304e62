"""What there is by name, and ``jaxsched list``."""

import json

import pytest

from jaxsched.cli import main
from jaxsched.runs import saved_policies
from jaxsched.runs.catalogue import LEARNERS, catalogue
from jaxsched.systems import presets, registry

from ..command_line import refused


@pytest.fixture(scope="module")
def found():
    return catalogue()


def test_everything_that_has_a_name_is_there(found):
    by_name = {system["name"]: system for system in found["systems"]}
    assert tuple(by_name) == registry.names()
    for name, record in by_name.items():
        system = registry.get(name)
        assert [row["name"] for row in record["policies"]] == list(system.policies)
        assert [row["name"] for row in record["presets"]] == list(presets.all_recipes(system))
        shipped = saved_policies.shipped(system)
        assert tuple(row["name"] for row in record["pretrained"]) == shipped


def test_each_name_has_its_words(found):
    for system in found["systems"]:
        assert system["decides"]
        for policy in system["policies"]:
            assert policy["knows"], policy["name"]
        for preset in system["presets"]:
            assert preset["purpose"], preset["name"]
        for trained in system["pretrained"]:
            assert trained["cluster"] and trained["description"]


def test_notes_are_of_presets_that_exist():
    for name in registry.names():
        system = registry.get(name)
        assert set(system.recipes.notes) == set(system.recipes.presets)


def test_the_overview_is_short(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 25
    assert sum(line.startswith(registry.names()) for line in lines) == len(registry.names())
    assert all(any(line.startswith(name) for line in lines) for name in LEARNERS)


def test_a_system_is_listed_whole(capsys):
    assert main(["list", "sched2"]) == 0
    out = capsys.readouterr().out
    for name in (*registry.get("sched2").policies, "plain-cross-entropy", "sched2-mixed"):
        assert f"\n{name} " in out
    assert "pretrained" in out and "2 min on 2 CPU cores" in out
    assert "\u2026" not in out  # nothing is cut where the output is no terminal


@pytest.mark.parametrize("words", [["--json"], ["--json", "-"], ["dl2", "--json"]])
def test_the_list_as_json(words, capsys):
    assert main(["list", *words]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read == json.loads(json.dumps(catalogue([w for w in words if w == "dl2"])))


def test_an_unknown_system_is_refused(capsys):
    assert "unknown system 'sched3'" in refused(capsys, "list", "sched3")


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("jaxsched 0.")
