"""The scripts that compare learners, and options of learners: their trainings are possible."""

import json
import shlex

import numpy as np
import pytest

from benchmarks import learner_options, learners, trained
from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.experiment.names import assignments
from jaxsched.runs.overrides import override
from jaxsched.systems import presets, registry
from jaxsched.systems.stages import budget, steps_per_update
from tests.command_line import policies_only


def recipe_of(arguments):
    recipe = presets.preset(registry.get(arguments["system"]), arguments["preset"])
    return override(recipe, assignments(arguments["set"]))


@pytest.mark.parametrize("name", learner_options.STUDIES)
def test_every_variant_is_a_recipe_of_its_own(name):
    study = learner_options.STUDIES[name]
    variants = {"recipe": {}, **study.variants}
    recipes = [
        recipe_of(learner_options.arguments_of(name, settings, 2)) for settings in variants.values()
    ]
    assert len({repr(recipe) for recipe in recipes}) == len(variants) > 1


@pytest.mark.parametrize("system", learners.ARENAS)
def test_budgets_are_equal(system):
    names = learners.presets_of(system)
    assert len(names) >= 3
    for name in names:
        recipe = recipe_of(learners.arguments_of(system, name, 500_000, 1))
        assert 500_000 <= budget(recipe) < 500_000 + steps_per_update(recipe.stages[-1])


def test_some_recipes_only():
    assert learners.presets_of("mlfs", "plain-search,plain-ppo") == ["plain-ppo"]
    with pytest.raises(JaxschedError, match="--presets: 'ppo'; accepted: plain-actor-critic, "):
        learners.presets_of("mlfs", "ppo")


def write_run(path, learned, rule, finished=10.0):
    path.mkdir()
    values = {"jct": learned, "finished": np.full(np.shape(learned), finished).tolist()}
    entry = {"name": "ppo", "kind": "learned", "metrics": values}
    values = {"jct": rule, "finished": [10.0] * len(rule)}
    other = {"name": "probe", "kind": "reference", "metrics": values}
    facts = {
        "training time": "1 min",
        "environment steps": "5",
        "device": "cpu",
        "versions": "jax 0",
    }
    document = {
        "primary": "jct",
        "metrics": {"jct": {"better": "lower"}},
        "policies": [other, entry],
        "facts": facts,
    }
    (path / trained.COMPARISON).write_text(json.dumps(document), encoding="utf-8")


def test_rows_are_ratios_by_episode(tmp_path):
    write_run(tmp_path / "run", [[2.0, 4.0], [1.0, 5.0]], [2.0, 6.0])
    write_run(tmp_path / "base", [[4.0, 8.0]], [2.0, 6.0])
    found = trained.outcome_of(tmp_path / "run", "dl2")  # is there: nothing is trained
    row = learners.row_of("dl2", "plain-ppo", found)
    assert row["learner"] == "ppo" and row["rule"] == "probe" and row["learned"] == 3.0
    np.testing.assert_allclose(row["ratio"][0], 3.0 / 4.0)
    np.testing.assert_allclose(row["by_seed"], [0.75, 0.75])
    assert "0.750" in learners.text_of(row)
    write_run(tmp_path / "idle", [[0.1, 0.1]], [2.0, 6.0], finished=0.5)
    row = learners.row_of("dl2", "plain-ppo", trained.read_outcome(tmp_path / "idle"))
    assert "finishes 5.0% of the jobs" in learners.text_of(row)
    base = trained.read_outcome(tmp_path / "base")
    row = learner_options.row_of("sched2-ppo", "average reward", {"critic": None}, found, base)
    np.testing.assert_allclose(row["ratio"][0], 0.5)
    assert row["settings"] == ["critic=null"]
    assert "average reward" in learner_options.text_of(row)


def test_a_training_that_is_refused(tmp_path, capsys):
    with pytest.raises(JaxschedError, match="accepted"):
        trained.outcome_of(tmp_path / "none", "dl2", preset="artefact", traces="nowhere")
    line = capsys.readouterr().err
    assert line.startswith("jaxsched train dl2 --preset artefact --trace nowhere --out ")


def test_the_training_is_that_of_the_command(tmp_path):
    """To the bit, but for times and where it was written."""
    small = {"learner.members": 4, "learner.episodes": 2, "loop.num_envs": 8, "network": "mlp-4"}
    small |= {"loop.num_random_streams": 2, "loop.rollout_length": 16, "loop.num_updates": 2}
    small |= {"env.num_servers": 3, "env.max_slots": 40}  # untrained policies play to the end
    sizes = {"preset": "plain-search", "num_traces": 2, "num_jobs": 10, "set": small}
    with policies_only("dl2", "drf"):
        trained.outcome_of(tmp_path / "run", "dl2", **sizes)
        words = shlex.split(trained.command_of("dl2", **sizes, out=tmp_path / "typed"))
        assert main([*words[1:], "--quiet"]) == 0
    found, typed = (
        json.loads((tmp_path / name / trained.COMPARISON).read_text()) for name in ("run", "typed")
    )
    assert found["policies"] == typed["policies"] and found["episodes"] == typed["episodes"]
    assert found.keys() == typed.keys() and found["facts"].keys() == typed["facts"].keys()
