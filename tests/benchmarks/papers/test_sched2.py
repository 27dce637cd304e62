"""The rows of SCHED2: their arithmetic on made-up plays, and small ones from end to end."""

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
from benchmarks.papers.sched2.common import LEARNED, RIVAL, Play
from benchmarks.papers.sched2.options import Sched2Settings
from benchmarks.papers.store import Store
from jaxsched import traces
from jaxsched.envs.sched2 import paper as published
from jaxsched.envs.sched2.paper import (
    CLASS_WAITS,
    EFFECTIVENESS,
    FRAGMENTATION,
    JCT,
    MAKESPAN,
    RELAXED,
    REUSE,
    RUN,
    WAIT,
)
from jaxsched.errors import JaxschedError
from jaxsched.jobs import digest_tables
from jaxsched.results.comparison import Learned
from jaxsched.runs.trainer import Point
from jaxsched.systems import registry

SYSTEM = registry.get("sched2")
BASELINES = SYSTEM.policy_names("baseline")
POLICIES = (*BASELINES, "strict", RIVAL, LEARNED)
BASE = np.array([[0.4, 0.5, 0.6]])
TINY = (
    "loop.num_envs=16",
    "loop.rollout_length=24",
    "loop.num_updates=2",
    "evaluate_every=1",
    "checkpoint_every=2",
)


def made_up(effectiveness=1.0, *, curve=None, seeds=1, **factors):
    """A policy that has so many times the usual value of each metric on three tables."""
    ones = np.ones((seeds, 1))
    sample = {name: ones * BASE * factors.get(name, 1.0) for name in SYSTEM.metrics}
    sample[EFFECTIVENESS] = ones * BASE * effectiveness
    curve = np.ones(1000) if curve is None else curve
    return Play(sample, {FRAGMENTATION: curve, fragmentation.QUEUE: 10 * curve})


def plays_of(**policies):
    """Everyone at 1, but for the given ones."""
    return {name: policies.get(name, made_up()) for name in POLICIES}


def verdicts(checks):
    return {check.item: check.verdict for check in checks}


def lab_of(folder, **more):
    sizes = {"num_train": 2, "num_validation": 1, "num_test": 2, "num_jobs": 8, **more}
    settings = Sched2Settings(folder, quick=True, overrides=TINY, **{"seeds": (0,), **sizes})
    return Lab(SYSTEM, settings, Store(folder), PAPER.quick_changes)


def drawn(folder, outcome):
    """The outcome's figure is written and is no empty one."""
    figures.save(folder / "f.png", outcome.figure)
    assert (folder / "f.png").stat().st_size > 10_000


@pytest.fixture
def lab(tmp_path):
    return lab_of(tmp_path)


# Verdicts


def test_bounds_of_figure_7(lab):
    best = {"dsif": made_up(1.1), "fifo": made_up(makespan=0.5), "saf": made_up(avg_jct=0.4)}
    own = made_up(1.1 * 1.3, makespan=0.5 / 1.5, avg_jct=0.4 / 4.2)
    plays = plays_of(**best, learned=own)
    found = verdicts(comparison.mix_checks(lab, 68, plays))
    assert found == {
        "68 %: avg_effectiveness, times better than dsif": "met",
        "68 %: avg_effectiveness, times better than dsif (goal)": "not met",
        "68 %: makespan, times better than fifo": "met",
        "68 %: makespan, times better than fifo (goal)": "not met",
        "68 %: avg_jct, times better than saf": "met",
        "68 %: avg_jct, times better than saf (goal)": "met",
        "68 %: effectiveness, learned less strict_sif": "reported",
    }
    other = comparison.mix_checks(lab, 60, plays)
    assert [c.verdict for c in other] == ["not met", "reported"] and other[0].paper == "1.64"
    assert other[0].measured == "1.300 [1.300, 1.300]" and other[0].accept == ">= 1.500"
    assert comparison.mix_checks(lab, 75, plays)[0].met
    ratios = comparison.ratio_table("title", lab, plays)
    assert ratios.columns == ["metric", "strict", RIVAL, LEARNED]
    assert [row[0] for row in ratios.rows] == [
        "avg_effectiveness, over dsif", "makespan, over fifo", "avg_jct, over saf",
    ]  # fmt: skip
    assert [row[3].estimate for row in ratios.rows] == pytest.approx([1.3, 1.5, 4.2])
    assert ratios.rows[1][1].estimate == pytest.approx(0.5)


def test_the_rule_that_policies_have_to_beat():
    table = comparison.rival_table("title", plays_of(learned=made_up(1.02, avg_jct=0.9)))
    rows = {row[0]: row[1:] for row in table.rows}
    assert RIVAL not in rows and len(rows) == len(POLICIES) - 1
    assert rows[LEARNED][0].startswith("0.0100 [") and rows[LEARNED][1].startswith("-10.00 %")
    assert rows["strict"] == ["0.0000 [0.0000, 0.0000]", *["0.00 % [0.00, 0.00]"] * 2]


def test_gains_by_mix(lab):
    plays = {share: plays_of(learned=made_up(gain)) for share, gain in ((60, 2), (68, 1.5))}
    assert comparison.order_check(lab, plays).verdict == "not judged"
    plays[75] = plays_of(learned=made_up(1.1))
    assert comparison.order_check(lab, plays).met
    plays[75] = plays_of(learned=made_up(1.6))
    check = comparison.order_check(lab, plays)
    assert not check.met and check.measured == "2.000 (60 %), 1.500 (68 %), 1.600 (75 %)"


def test_bounds_of_figure_8(lab):
    bounds = {(1.25, 1.0): False, (1.25, 1.01): True, (1.5, 0.99): True, (1.5, 0.97): False}
    for (scale, own), met in bounds.items():
        (check,) = comparison.scale_checks(lab, scale, plays_of(learned=made_up(own)))
        assert check.met is met, (scale, own)


def curve(early, middle, late):
    values = np.full(1000, 0.5)
    values[:100], values[200:400], values[-300:] = early, middle, late
    return values


def test_bounds_of_figures_4_and_9():
    assert fragmentation.rise_check("sif", made_up(curve=curve(0.1, 0.15, 0.2))).met
    assert not fragmentation.rise_check("sif", made_up(curve=curve(0.1, 0.15, 0.19))).met
    short = made_up(curve=np.ones(fragmentation.ENOUGH - 1))
    assert fragmentation.rise_check("sif", short).verdict == "not judged"
    rows = fragmentation.rises({"a": made_up(curve=curve(1, 2, 3)), "b": short}).rows
    assert rows[0][:4] == ["a", 1, 2, 3] and rows[1][1:] == [None, None, None, 10]
    plays = plays_of(lrf=made_up(fragmentation=0.5), learned=made_up(fragmentation=0.42))
    plays[LEARNED] = plays[LEARNED]._replace(curves=made_up(curve=curve(1, 2, 2.75)).curves)
    first, second = fragmentation.checks_of(plays, BASELINES)
    assert first.met and first.item.endswith("lrf") and first.measured.startswith("0.840")
    assert second.met and second.measured == "1.375"
    plays[LEARNED] = made_up(fragmentation=0.43, curve=curve(1, 2, 2.9))
    assert [c.met for c in fragmentation.checks_of(plays, BASELINES)] == [False, False]
    plays[LEARNED] = short
    assert [c.met for c in fragmentation.checks_of(plays, BASELINES)] == [False, None]


def test_nothing_to_compare_with_is_not_judged():
    checks = locality.time_checks(plays_of(fifo=made_up(avg_wait=0.0)), "fifo")
    assert [c.met for c in checks] == [False, None, None]
    assert checks[1].note == "the other has 0 on some table" and checks[1].accept == "<= 0.400"


def test_bounds_of_figure_10():
    plays = plays_of(learned=made_up(avg_run=0.84, avg_wait=0.2))
    checks = locality.time_checks(plays, "fifo")
    assert [c.met for c in checks] == [True, True, False]
    assert checks[0].paper == "0.643 (5422 s over 8427 s)" and "fifo's" in checks[1].item
    plays[LEARNED] = made_up(avg_run=0.86, avg_wait=0.41)
    assert [c.met for c in locality.time_checks(plays, "fifo")] == [False, False, False]


def test_bounds_of_table_3_and_of_reuse():
    own = made_up(**{RELAXED[0]: 0.4, RELAXED[1]: 0.37, CLASS_WAITS[0]: 3000.0, REUSE: 1.0})
    plays = plays_of(learned=own, dsif=made_up(**{REUSE: 0.79}))
    checks = locality.relaxed_checks(plays)
    assert [c.met for c in checks] == [True, None, None, None, None]
    assert checks[1].measured == "0.200 [0.160, 0.240]" and checks[3].paper == "1466"
    split = made_up(**{RELAXED[0]: 0.45, RELAXED[1]: 0.4})
    assert not locality.relaxed_checks(plays_of(learned=split))[0].met
    others = {name: made_up(**{REUSE: 0.5}) for name in BASELINES}
    checks = locality.reuse_checks({**plays, **others, "dsif": made_up(**{REUSE: 0.79})}, BASELINES)
    assert [c.met for c in checks] == [True, True] and checks[1].item.endswith("dsif")
    checks = locality.reuse_checks({**plays_of(), LEARNED: made_up(**{REUSE: 0.99})}, BASELINES)
    assert [c.met for c in checks] == [False, False]


def test_bounds_of_the_generator():
    assert [c.met for c in generator.checks_of(0.6999, 5000.0, 2.01)] == [True, True, True]
    assert [c.met for c in generator.checks_of(0.6599, 5601.0, 2.0)] == [False, False, False]


def test_bounds_of_the_learning_curve():
    def curves(*rows):
        return {
            seed: [Point(update, 0, 0, 0.0, score) for update, score in enumerate(row)]
            for seed, row in enumerate(rows)
        }

    rising = curves([0.1, 0.4, 0.3, 0.5], [0.2, 0.1, 0.4, 0.6])
    assert [c.met for c in learning.curve_checks(rising, [0.9, 0.95])] == [True, True]
    falling = curves([0.5, 0.4, 0.4, 0.3])
    assert [c.met for c in learning.curve_checks(falling, [0.9])] == [False, None]
    assert [c.met for c in learning.curve_checks(curves([1, 2]), [0.9, 0.96])] == [None, False]


def test_a_report_and_the_rows_agree():
    """Ratios of a report are those of the rows, from the same figures of the paper."""
    plays = plays_of(
        dsif=made_up(1.1, avg_jct=0.5, avg_run=1.1), learned=made_up(1.7, avg_wait=0.2)
    )
    summary = common.means(plays, POLICIES)
    rows = published.paper_rows({n: summary[n] for n in BASELINES}, summary[LEARNED])
    found = {row["item"]: row["here"] for row in rows}
    pairs = {"effectiveness, ratio to the best baseline": (EFFECTIVENESS, "dsif"),
             "makespan, times better": (MAKESPAN, "fifo"),
             "average JCT, times better": (JCT, "dsif")}  # fmt: skip
    for words, (metric, best) in pairs.items():
        ratio = common.times_better(plays[LEARNED], plays[best], metric).estimate
        assert found[f"Fig. 7: {words}"] == pytest.approx(ratio, abs=1e-4)
    assert found["Fig. 10a: run time, ratio to the best-JCT baseline"] == round(1 / 1.1, 4)
    assert {RUN, WAIT} < set(plays[LEARNED].sample)


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


@pytest.mark.parametrize("preset", SYSTEM.presets)
def test_quick_changes_fit_the_recipes(tmp_path, preset):
    settings = Sched2Settings(tmp_path, quick=True, preset=preset, num_train=2, num_jobs=8)
    lab = Lab(SYSTEM, settings, Store(tmp_path), PAPER.quick_changes)
    recipe = common.recipe_of(lab)
    assert recipe.loop.num_updates == 3 and recipe != SYSTEM.preset(preset)
    SYSTEM.training(recipe, traces.get("sched2-68", num_traces=1, num_jobs=8))


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
    assert [check["verdict"] for check in document["checks"]] == ["not judged", "met", "reported"]
    assert (lab.store.path / "L.png").stat().st_size > 10_000
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
    params = SYSTEM.params(env, common.test_tables(lab))
    weights = SYSTEM.init_weights(env, "linear", params)
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
    assert len(ratios.rows) == 3 and outcome.checks[-1].verdict == "not judged"
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
    assert [c.verdict for c in packing.checks] == ["not judged"] * 3
    drawn(tmp_path, packing)
    whole = fragmentation.of_all(untrained)
    assert list(whole.values["samples"]) == list(POLICIES)
    curve = whole.values["curves"]["sif"][FRAGMENTATION]
    assert np.mean(curve) == pytest.approx(np.mean(whole.values["samples"]["sif"][FRAGMENTATION]))
    drawn(tmp_path, whole)
    for row, checks in ((locality.run_and_wait, 3), (locality.relaxed, 5), (locality.reused, 2)):
        outcome = row(untrained)
        assert list(outcome.values) == list(POLICIES) and len(outcome.checks) == checks
        assert "preset search" in outcome.notes[-1]
        drawn(tmp_path, outcome)


@pytest.mark.slow  # the baselines' views are those of tests/envs/sched2/test_baseline_table.py
def test_whole_queue_row(untrained, tmp_path):
    outcome = queue.whole_queue(untrained)
    assert len(outcome.values) == 5 and len(outcome.tables) == 9 and len(outcome.checks) == 12
    assert [row[0] for row in outcome.tables[0].rows] == ["strict", RIVAL, LEARNED]
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
