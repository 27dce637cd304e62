"""Which tests CI runs when."""

from tests import turns


def test_every_module_has_its_day_in_any_week():
    every = turns.modules()
    assert "tests/test_turns.py" in every
    for first in (0, 739_947):
        days = range(first, first + turns.DAYS)
        chosen = [module for day in days for module in every if turns.has_turn(module, day, every)]
        assert sorted(chosen) == every


def test_days_are_alike():
    every = turns.modules()
    sizes = [sum(turns.has_turn(m, day, every) for m in every) for day in range(turns.DAYS)]
    assert max(sizes) - min(sizes) <= 1


def test_a_module_is_touched_by_what_it_imports_by_its_namesake_and_by_itself():
    folder = "tests/envs/das/learn"
    module = f"{folder}/test_recipe.py"
    assert turns.mirrored(module) == "jaxsched/envs/das/learn/"
    imported = "jaxsched/systems/registry.py"
    assert imported in turns.imported(module)
    for file in (imported, "jaxsched/envs/das/learn/recipe.py", module, f"{folder}/conftest.py"):
        assert turns.is_touched(module, [file])
    for other in ("jaxsched/envs/mlfs/jobs.py", "tests/envs/das/show/test_golden.py", "README.md"):
        assert not turns.is_touched(module, [other])


def test_benchmarks_mirror_benchmarks():
    assert turns.mirrored("tests/benchmarks/test_pack.py") == "benchmarks/"
    assert turns.is_touched("tests/benchmarks/test_pack.py", ["benchmarks/pack.py"])
    assert turns.mirrored("tests/test_units.py") == "jaxsched/"
