"""Which tests CI runs when."""

import json

import pytest

from tests import turns


@pytest.mark.parametrize("first", [0, 739_947])
def test_every_unit_has_its_day_in_any_week(first):
    week = [turns.turn(day, ()).slow for day in range(first, first + turns.DAYS)]
    assert sorted(unit for day in week for unit in day) == sorted(turns.units())
    assert "tests/test_turns.py" in turns.units()


def test_days_take_alike_long_and_leave_room():
    week = [turns.turn(day, ()).seconds for day in range(turns.DAYS)]
    assert max(week) - min(week) < turns.ALONE_S
    assert max(week) < turns.ROOM_S


def test_the_longest_go_first_and_what_is_not_measured_moves_nothing():
    seconds = {f"{k}": float(k) for k in range(1, 15)}
    found = turns.days(seconds)
    loads = [sum(seconds[unit] for unit in found if found[unit] == day) for day in range(7)]
    assert set(loads) == {15.0}
    assert turns.days({**seconds, "new": 0.0}).items() > found.items()


def test_the_table_names_tests_that_exist():
    every = set(turns.modules())
    assert {unit.partition("::")[0] for unit in turns.measured()} <= every


def test_a_module_is_touched_by_what_it_imports_by_its_namesake_and_by_itself():
    folder = "tests/envs/das/learn"
    module = f"{folder}/test_recipe.py"
    assert turns.mirrored(module) == "jaxsched/envs/das/learn/"
    imported, namesake = "jaxsched/systems/registry.py", "jaxsched/envs/das/learn/recipe.py"
    assert imported in turns.imported(module)
    for file in (imported, namesake, module, f"{folder}/conftest.py"):
        assert turns.is_touched(module, [file])
        assert turns.is_changed(module, [file]) == (file in (namesake, module))
    for other in ("jaxsched/envs/mlfs/jobs.py", "tests/envs/das/show/test_golden.py", "README.md"):
        assert not turns.is_touched(module, [other])


def test_what_changed_itself_has_room_first():
    module = "tests/envs/das/learn/test_recipe.py"
    changed = ["jaxsched/systems/registry.py", module]
    day = next(day for day in range(turns.DAYS) if module not in turns.turn(day, ()).slow)
    alone = turns.turn(day, ())
    whole = turns.turn(day, changed, room_s=1e9)
    assert whole.left == () and module in whole.extended - whole.slow
    room = alone.seconds + turns.measured()[module].extended
    tight = turns.turn(day, changed, room_s=room)
    assert module in tight.extended and set(tight.left) | tight.extended == whole.extended
    assert tight.seconds <= room and "no room for" in str(tight)
    assert turns.turn(day, changed, room_s=0.0).slow == alone.slow


def test_a_slow_machine_has_less_room(monkeypatch):
    usual = turns.room()
    monkeypatch.setattr(turns, "LOOP_S", 0.1 * turns.LOOP_S)
    assert turns.room() < usual or usual == 0
    monkeypatch.setattr(turns, "LOOP_S", 1e-6)
    assert turns.room() == 0


def test_benchmarks_mirror_benchmarks():
    assert turns.mirrored("tests/benchmarks/test_pack.py") == "benchmarks/"
    assert turns.is_touched("tests/benchmarks/test_pack.py", ["benchmarks/pack.py"])
    assert turns.mirrored("tests/test_units.py") == "jaxsched/"


def test_the_table_is_written_from_a_measured_run(tmp_path, monkeypatch):
    module, other = "tests/test_turns.py", "tests/test_units.py"
    monkeypatch.setattr(turns, "TABLE", tmp_path / "seconds.json")
    monkeypatch.setattr(
        turns, "measured", lambda: {module: turns.Seconds(9, 9), other: turns.Seconds(2, 0)}
    )
    turns.TABLE.touch()
    long = f"{module}::test_b[1]"
    lines = [(f"{module}::test_a", "extended", 1.5), (f"{module}::test_c", "slow", 2.5)]
    turns.write_table(json.dumps(line) for line in [*lines, (long, "slow", 30.0)])
    assert json.loads(turns.TABLE.read_text()) == {
        module: [1.5, 2.5],
        long: [0.0, 30.0],
        other: [2.0, 0.0],
    }
