"""One row of each paper from end to end, with the smallest sizes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from benchmarks.papers import policies, runner
from benchmarks.papers.chic import PAPER as CHIC
from benchmarks.papers.chic import timing
from benchmarks.papers.chic.common import study
from benchmarks.papers.dl2 import PAPER as DL2
from benchmarks.papers.dl2 import results
from benchmarks.papers.dl2.allocation import held_by, ratios
from benchmarks.papers.dl2.common import study as dl2_study
from benchmarks.papers.lab import Lab
from benchmarks.papers.settings import Settings
from benchmarks.papers.store import Store
from jaxsched.runs import interrupts
from jaxsched.systems import functions, presets, registry

TINY_CHIC = (
    "env.max_decisions=8",  # an untrained policy takes all that there are, in every phase
    "loop.num_updates=4",
    "loop.num_envs=4",
    "loop.rollout_length=128",
    "learner.num_trajectories=3",
    "learner.inner_steps=1",
    "network=mlp-8",
    "evaluate_every=2",
    "checkpoint_every=2",
)
TINY_DL2 = (
    "loop.num_updates=2",
    "loop.num_envs=4",
    "loop.rollout_length=8",
    "supervised.loop.num_updates=2",
    "supervised.data.tables=1",
    "supervised.learner.batch_size=32",
    "env.num_servers=4",
    "env.window=4",
    "env.max_slots=30",
    "supervised.teacher=fifo",
    "network=mlp-8",
    "evaluate_every=1",
    "checkpoint_every=1",
)


def settings_of(folder, changes, **more):
    sizes = {"num_train": 2, "num_validation": 2, "num_test": 2, "num_jobs": 3}
    return Settings(folder, quick=True, overrides=changes, **{**sizes, **more})


@pytest.fixture(scope="module")
def chic_run(tmp_path_factory):
    """The learning curves of Chic with two seeds."""
    settings = settings_of(tmp_path_factory.mktemp("chic"), TINY_CHIC, seeds=(0, 1))
    return settings, runner.run(CHIC, settings, ["X5"], show=lambda text: None)[0]


def test_chic_row(chic_run):
    settings, document = chic_run
    values = document["values"]
    assert values["chic"]["step"] == [2, 4] and values["chic_pair"]["step"] == [2, 4]
    assert all(np.isfinite(values[n]["act"]).all() for n in ("chic", "chic_pair"))
    assert values["optimus"] > 0
    tested = [check["tested"] for check in document["checks"] if "chic:" in check["item"]]
    assert tested.count(False) >= 2  # four iterations are too few
    assert len(document["trained"]) == 2 and document["trace_digests"]
    assert (settings.out / "X5.png").stat().st_size > 3_000
    kept = list((settings.out / "trained").iterdir())
    assert {path.name for path in kept} == {t["key"] for t in document["trained"].values()}


def test_policies_are_trained_once(chic_run, monkeypatch):
    settings, document = chic_run
    monkeypatch.setattr(policies.trainer, "train", lambda *a, **k: pytest.fail("trained again"))
    other = runner.run(CHIC, replace(settings, num_test=1), ["X2"], show=lambda text: None)[0]
    assert {t["key"] for t in other["trained"].values()} == {
        t["key"] for t in document["trained"].values()
    }
    assert np.shape(other["values"]["chic"]["avg_jct"]) == (2, 1)


def test_last_and_best_policies(chic_run):
    settings, _ = chic_run
    lab = Lab(registry.get("chic"), settings, Store(settings.out), CHIC.quick_changes)
    trained = lab.train("again", study(lab, "chic", 1.8))
    last = trained.last_weights()
    assert len(last) == len(trained.weights) == 2
    tables = lab.tables(study(lab, "chic", 1.8).workload, "validation", lab.recipe("quick"))
    scores = lab.play(trained, tables, weights=last)["avg_jct"].mean(axis=1)
    ended = [curve[-1].score for curve in trained.trained.curves]
    np.testing.assert_allclose(scores, ended, rtol=1e-6)
    best = lab.play(trained, tables)["avg_jct"].mean(axis=1)
    np.testing.assert_allclose(best, trained.trained.scores, rtol=1e-6)


def test_a_stopped_training_goes_on(chic_run, tmp_path, monkeypatch):
    """A training that was stopped is continued; a half-made stage is made anew."""
    settings, _ = chic_run
    settings = replace(settings, out=tmp_path, seeds=(0,))
    lab = Lab(registry.get("chic"), settings, Store(tmp_path), CHIC.quick_changes)
    chosen = study(lab, "chic_pair", 1.8)
    at_once = partial(policies.trainer.train, limit=interrupts.limits(1e-3))
    with monkeypatch.context() as patch, pytest.raises(policies.trainer.Interrupted):
        patch.setattr(policies.trainer, "train", at_once)
        lab.train("pair", chosen)
    (path,) = (tmp_path / "trained").iterdir()
    assert policies.finished(path) is None
    (path / "stages" / "broken").mkdir(parents=True)
    ended = lab.train("pair", chosen)
    assert not (path / "stages" / "broken").exists()
    assert [update for update, _ in ended.curve()] == [2, 4]
    assert policies.finished(path).wall_s == ended.wall_s > 0


def test_shipped_policies_play_on_the_cluster_that_is_asked_for(tmp_path, monkeypatch):
    """X4 whole; DL2's policy of 60 servers on another number of them."""
    monkeypatch.setattr(timing, "REPEATS", 1)
    settings = settings_of(tmp_path, (), num_test=1)
    values = runner.run(CHIC, settings, ["X4"], show=lambda text: None)[0]["values"]
    steps = {name: values[name]["steps"][0][0] for name in ("chic", "chic_pair", "optimus 600 s")}
    assert steps["chic"] > steps["chic_pair"] > steps["optimus 600 s"]
    assert values["optimus 300 s"]["steps"][0][0] > steps["optimus 600 s"]
    assert all(value > 0 for value in values["inference_ms"].values())

    lab = Lab(registry.get("dl2"), settings, Store(tmp_path), DL2.quick_changes)
    env, policy, weights = lab.shipped(results.SHIPPED, num_servers=5)
    assert (env.num_servers, env.window) == (5, 60)
    tables = dl2_study(lab, "testbed").workload.tables("test", 1, 3)
    played = functions.play(lab.system, env, policy, env.params(tables), weights)
    assert played.metrics["finished"].tolist() == [3]


@pytest.mark.slow  # Chic's row goes the same way, the rows' own functions are tested by themselves
def test_dl2_row(tmp_path):
    settings = settings_of(tmp_path, TINY_DL2, seeds=(0,), num_jobs=8)
    document = runner.run(DL2, settings, ["E4"], show=lambda text: None)[0]
    lab = Lab(registry.get("dl2"), settings, Store(tmp_path), DL2.quick_changes)
    chosen = dl2_study(lab, "testbed")
    tables = lab.test_tables(chosen.workload, chosen.recipe)
    assert any(4 in table["model"] for table in tables)  # there is a Seq2Seq job
    trained = lab.train("dl2, testbed", chosen)
    assert trained.trained.path.name == document["trained"]["dl2, testbed"]["key"]
    assert [update for update, _ in trained.curve("supervised")] == [2]
    assert [update for update, _ in trained.curve()] == [0, 1, 2]  # it begins at a policy
    assert len(trained.run("supervised").weights) == 1
    held = held_by(lab, trained, tables)
    assert held.shape[:2] == (1, 2) and held.shape[3] == 2
    played = lab.play(trained, tables)
    assert (held.sum(axis=(3, 4)) > 0).sum() <= played["slots"].sum()
    known = [value for value in document["values"]["all"] if value is not None]
    assert known == [value for value in known if 1 / 16 <= value <= 16]
    assert document["checks"] and (tmp_path / "E4.json").exists()


def test_workers_per_server():
    held = np.array([[[4, 2, 0], [2, 0, 3]]])
    np.testing.assert_array_equal(ratios(held), [[2.0, np.nan, np.nan]])


def test_every_row_has_a_name_of_its_own():
    assert [row.name for row in CHIC.rows] == [
        "X1",
        "X2",
        "X3",
        "M",
        *(f"X{n}" for n in range(4, 10)),
    ]
    assert [row.name for row in DL2.rows] == [f"E{n}" for n in range(1, 18)]
    for paper in (CHIC, DL2):
        system = registry.get(paper.system)
        lab = Lab(system, Settings(None, quick=True), None, paper.quick_changes)
        for preset in system.recipes.every:
            assert lab.recipe(preset) != presets.preset(system, preset)
