"""The rows of SCHED2: their tables and recipes, and small ones from end to end."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import figures, runner
from benchmarks.papers.command import parser_of, run_paper
from benchmarks.papers.lab import Lab
from benchmarks.papers.sched2 import (
    PAPER,
    common,
    comparison,
    fragmentation,
    generator,
    learning,
    locality,
    options,
    queue,
)
from benchmarks.papers.sched2.common import LEARNED, RIVAL
from benchmarks.papers.sched2.options import Sched2Settings
from benchmarks.papers.store import Store
from jaxsched import traces
from jaxsched.envs.sched2.show.paper import (
    FRAGMENTATION,
    JCT,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import digest_tables
from jaxsched.results.comparison import Learned
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.stages import stages_of

SYSTEM = registry.get("sched2")
REFERENCES = functions.policy_names(SYSTEM, "reference")
POLICIES = (*functions.policy_names(SYSTEM, "baseline"), *REFERENCES, LEARNED)
TINY = (
    "loop.num_envs=16",
    "loop.rollout_length=24",
    "loop.num_updates=2",
    "evaluate_every=1",
    "checkpoint_every=2",
)


def lab_of(folder, **more):
    sizes = {"num_train": 2, "num_validation": 1, "num_test": 2, "num_jobs": 8, **more}
    settings = Sched2Settings(folder, quick=True, overrides=TINY, **{"seeds": (0,), **sizes})
    return Lab(SYSTEM, settings, Store(folder), PAPER.quick_changes)


def drawn(folder, outcome):
    """The outcome's figure is written and is no empty one."""
    figures.save(folder / "f.png", outcome.figure)
    assert (folder / "f.png").stat().st_size > 3_000


@pytest.fixture
def lab(tmp_path):
    return lab_of(tmp_path)


# Tables and recipes


def test_tables_by_mix(lab):
    shipped = common.test_tables(lab)
    assert [len(table) for table in shipped] == [8, 8]
    whole = traces.get("sched2-test-68")
    np.testing.assert_array_equal(shipped[1]["duration"], whole[1]["duration"][:8])
    assert [len(table) for table in common.test_tables(lab, 60)] == [8, 8]
    full = lab_of(lab.store.path, num_test=None, num_jobs=None)
    assert digest_tables(common.test_tables(full)) == digest_tables(whole)
    for share in (60, 75):
        tables = common.test_tables(full, share)
        ones = np.concatenate([table["num_gpus"] == 1 for table in tables])
        assert len(ones) == 30_000 and ones.mean() == pytest.approx(share / 100, abs=0.01)
    assert len(set(full.digests.values())) == 3


@pytest.mark.parametrize(
    ("preset", "traces_of"),
    [("search", ("sched2-mixed", "sched2-mixed-60")), ("paper", ("sched2-train-68", "sched2-60"))],
)
def test_what_is_learnt_on(lab, preset, traces_of):
    lab.settings = replace(lab.settings, preset=preset)
    for share, trace in zip((68, 60), traces_of, strict=True):
        chosen = common.study(lab, share)
        assert (chosen.workload.trace, chosen.validation.trace) == (trace, trace)
        assert [len(t) for t in lab.tables(chosen.workload, "train", chosen.recipe)] == [8, 8]


@pytest.mark.parametrize("preset", SYSTEM.recipes.presets)
def test_quick_changes_fit_the_recipes(tmp_path, preset):
    settings = Sched2Settings(tmp_path, quick=True, preset=preset, num_train=2, num_jobs=8)
    lab = Lab(SYSTEM, settings, Store(tmp_path), PAPER.quick_changes)
    recipe = common.recipe_of(lab)
    assert recipe.stages[-1].loop.num_updates == 3 and recipe != presets.preset(SYSTEM, preset)
    stages_of(SYSTEM, recipe, traces.get("sched2-68", num_traces=1, num_jobs=8))


def test_loads_of_mixed_traces():
    """The same loads whatever the mix; another load is another factor on the gaps."""
    one, other = (traces.get(f"sched2-mixed{mix}", num_traces=3) for mix in ("", "-75"))
    for first, second in zip(one, other, strict=True):
        ratio = second["submit_time"][-1] / first["submit_time"][-1]
        assert ratio == pytest.approx(0.62 / 0.72, rel=1e-4)
        assert (second["num_gpus"] == 1).mean() > (first["num_gpus"] == 1).mean()


# From end to end


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The learning curve of two seeds of a training of two updates."""
    folder = tmp_path_factory.mktemp("sched2")
    lab = lab_of(folder, seeds=(0, 1))
    return lab, runner.run(PAPER, lab.settings, ["L"], show=lambda text: None)[0]


def test_learning_curve(run):
    lab, document = run
    (trained,) = document["trained"].values()
    assert list(document["trained"]) == ["learned, 68 %"]
    curves = document["values"]["curves"]
    assert [[point[0] for point in curve] for curve in curves.values()] == [[1, 2], [1, 2]]
    assert len(document["values"]["test"]) == 2
    assert [check["tested"] for check in document["checks"]] == [False, True, True]
    assert (lab.store.path / "L.png").stat().st_size > 3_000
    assert (lab.store.path / "trained" / trained["key"] / "policies" / "seed1").is_dir()


def test_given_runs(run, tmp_path):
    """A run plays every mix; its row has no learning curve."""
    lab, document = run
    (trained,) = document["trained"].values()
    path = lab.store.path / "trained" / trained["key"]
    given = lab_of(tmp_path, runs=(path,))
    found = common.learned_by_mix(given, (60, 68))
    assert found[60] is found[68] and len(found[68].weights) == 2 and found[68].env.outlook
    own = common.learned_by_mix(lab)[68]
    assert (own.env, own.network) == (found[68].env, found[68].network)
    tables = common.test_tables(given)
    both = [common.play_learned(lab, learned, tables) for learned in (own, found[68])]
    assert both[0].sample[JCT].shape == (2, 2)
    np.testing.assert_array_equal(both[0].sample[JCT], both[1].sample[JCT])
    np.testing.assert_array_equal(*(play.curves[FRAGMENTATION] for play in both))
    with pytest.raises(JaxschedError, match="trained here; accepted: no --run"):
        learning.learning_curve(given)
    assert given.settings.deciding() != lab_of(tmp_path).settings.deciding()
    assert str(path) not in str(given.settings.deciding())
    with pytest.raises(JaxschedError, match="no trained policy; .* 'jaxsched train sched2'"):
        lab_of(tmp_path, runs=(tmp_path / "none",)).settings.deciding()


@pytest.fixture
def untrained(lab, monkeypatch):
    """A lab whose learned policy is the search's first one, which plays as strict_sif."""
    env = common.recipe_of(lab).env
    params = env.params(common.test_tables(lab))
    weights = functions.init_weights(SYSTEM, env, "linear", params)
    learned = Learned(LEARNED, env, "linear", [weights])
    for module in (common, comparison, queue):
        monkeypatch.setattr(
            module, "learned_by_mix", lambda _, shares=(68,): dict.fromkeys(shares, learned)
        )
    return lab


def test_comparisons(untrained, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "QUICK_MIXES", (68,))
    outcome = comparison.by_mix(untrained)
    means, ratios, rival = outcome.tables
    assert [row[0] for row in means.rows] == list(POLICIES)
    by_name = outcome.values["68 %"]
    assert by_name[LEARNED] == by_name[RIVAL] and np.shape(by_name["fifo"][JCT]) == (1, 2)
    assert rival.rows[-1] == [LEARNED, "0.0000 [0.0000, 0.0000]", *["0.00 % [0.00, 0.00]"] * 2]
    assert len(ratios.rows) == 3 and not outcome.checks[-1].tested
    drawn(tmp_path, outcome)
    scaled = comparison.by_scale(untrained)
    assert list(scaled.values) == ["0.8", "1.5"]
    waits = [scaled.values[scale]["fifo"]["avg_wait"] for scale in ("0.8", "1.5")]
    assert np.mean(waits[0]) >= np.mean(waits[1]) and len(scaled.checks) == 2
    drawn(tmp_path, scaled)


def test_rows_of_one_contest(untrained, tmp_path):
    """Figures 4, 9 and 10, Table III and reuse."""
    packing = fragmentation.of_packing(untrained)
    assert list(packing.values["samples"]) == ["sif", "lrf", "fifo"]
    assert len(packing.values["curves"]["sif"][FRAGMENTATION]) == 8
    assert [c.tested for c in packing.checks] == [False] * 3
    drawn(tmp_path, packing)
    whole = fragmentation.of_all(untrained)
    assert list(whole.values["samples"]) == list(POLICIES)
    curve = whole.values["curves"]["sif"][FRAGMENTATION]
    assert np.mean(curve) == pytest.approx(np.mean(whole.values["samples"]["sif"][FRAGMENTATION]))
    drawn(tmp_path, whole)
    for row, checks in ((locality.run_and_wait, 2), (locality.relaxed, 5), (locality.reused, 2)):
        outcome = row(untrained)
        assert list(outcome.values) == list(POLICIES) and len(outcome.checks) == checks
        assert "preset search" in outcome.notes[-1]
        drawn(tmp_path, outcome)


@pytest.mark.slow  # the baselines' views are those of tests/envs/sched2/test_baseline_table.py
def test_whole_queue_row(untrained, tmp_path):
    outcome = queue.whole_queue(untrained)
    assert len(outcome.values) == 5 and len(outcome.tables) == 9 and len(outcome.checks) == 12
    assert [row[0] for row in outcome.tables[0].rows] == [*REFERENCES, LEARNED]
    drawn(tmp_path, outcome)


def test_generator_row(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(generator, "NUM_JOBS", 2000)
    monkeypatch.setattr(generator, "NUM_TRACES", 3)
    outcome = generator.generated(lab)
    assert len(outcome.checks) == 3 and outcome.values["long"]["jobs"] == 2000
    assert len(lab.digests) == 2 and outcome.values["gap_cv"] > 2
    drawn(tmp_path, outcome)


def test_speed_row(lab, monkeypatch):
    seen = {}
    monkeypatch.setattr(learning, "environment_row", lambda lab, **given: seen.update(given))
    learning.environment_speed(lab)
    assert seen["batches"] == learning.QUICK_BATCHES and seen["options"]["num_servers"] == 15
    assert len(seen["tables"]) == 2 and not seen["options"]["auto_advance"]


# The script


def test_options():
    parser = parser_of("sched2", None)
    options.add_options(parser)
    usual = options.settings_of(parser.parse_args([]), PAPER, "sched2")
    assert (usual.preset, usual.runs, usual.num_test, usual.seeds) == (
        "search",
        (),
        None,
        (0, 1, 2),
    )
    words = ["--quick", "--run", "a", "--run", "b", "--preset", "paper"]
    quick = options.settings_of(parser.parse_args(words), PAPER, "sched2")
    assert quick.runs == (Path("a"), Path("b")) and quick.preset == "paper"
    assert quick.out.name == "sched2-quick" and quick.num_jobs == PAPER.quick_sizes["num_jobs"]
    assert usual.deciding() != replace(usual, preset="paper").deciding()


def test_command_refuses_what_it_does_not_know(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    assert run_paper(["sched2", "--rows", "Z9", *out]) == 2
    known = "F3, F4, F7, F8, F9, F10, T3, R, Q, L, S"
    assert f"error: unknown row 'Z9'; known are {known}" in capsys.readouterr().err
    assert run_paper(["sched2", "--rows", "F4", "--preset", "deep", *out]) == 2
    assert "unknown preset 'deep'" in capsys.readouterr().err
