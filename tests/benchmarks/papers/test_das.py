"""The rows of DAS: their arithmetic on made-up samples, and small ones from end to end."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from benchmarks.papers import figures, runner
from benchmarks.papers import lab as lab_module
from benchmarks.papers.command import run_paper
from benchmarks.papers.das import (
    PAPER,
    common,
    heuristics,
    significance,
    speed,
    states,
    sweeps,
    table1,
)
from benchmarks.papers.das.common import BASE, CLUSTERS, FEE, HEURISTICS, JCT
from benchmarks.papers.lab import Lab
from benchmarks.papers.policies import Policies
from benchmarks.papers.settings import Settings
from benchmarks.papers.store import Store
from jaxsched.core.policies import Policy, View, no_memory
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.learn import changed_kind, policies, read_kind
from jaxsched.envs.das.show import paper as published
from jaxsched.experiment.run import Run
from jaxsched.jobs import JobTable, digest_tables
from jaxsched.results.comparison import Learned
from jaxsched.systems import functions, presets, registry
from jaxsched.systems.claims import DIRECTION, NOT_REPRODUCED, NOT_TESTED, REPRODUCED
from jaxsched.systems.stages import stages_of
from tests.benchmarks.papers.verdicts import verdicts as judged

TINY = (
    "env.window=4",
    "episodes.jobs=20",
    "imitation.episodes.jobs=20",
)
SYSTEM = registry.get("das")


@pytest.fixture(scope="module", autouse=True)
def small_networks():
    """Those of DAS, in all recipes of the rows."""
    with pytest.MonkeyPatch.context() as patch:
        for name, (preset, changes) in list(common.LEARNED.items()):
            kind = changes.get("network", presets.preset(SYSTEM, preset).network)
            if name.startswith("DA"):
                kind = changed_kind(kind, width=8, history=2, walk_length=4)
                patch.setitem(common.LEARNED, name, (preset, {**changes, "network": kind}))
        yield


def made_up(jct, fee, *, episodes=3, seeds=1):
    """A policy that is so many times the base on every episode; the base differs a lot."""
    base = np.array([100.0, 400.0, 1600.0, 300.0, 250.0, 90.0])[:episodes]
    ones = np.ones((seeds, 1))
    return {JCT: ones * jct * base, FEE: ones * fee * np.full(episodes, 50.0)}


def sample_of_policies(**factors):
    """Heuristics and others at 1, but for the given ones."""
    names = [*HEURISTICS, "random", "untrained", "RIFLING", "DAS"]
    return {name: made_up(*factors.get(name, (1.0, 1.0))) for name in names}


def verdicts(row, checks):
    return judged("das", row, checks)


def lab_of(folder, **more):
    sizes = {"num_train": 1, "num_validation": 1, "num_test": 1, "num_jobs": 20, **more}
    settings = Settings(folder, quick=True, overrides=TINY, seeds=(0, 1), **sizes)
    return Lab(SYSTEM, settings, Store(folder), PAPER.quick_changes)


class MadeUpLab(Lab):
    """Trains nothing: a policy is its label, and its results follow from that."""

    factors = {"DAS": 0.9, "RIFLING": 0.95, "heads 1": 0.95, "history 8": 0.8}

    def train_all(self, studies):
        return {name: SimpleNamespace(label=name) for name in studies}

    def play(self, trained, tables, *, weights=None, params=()):
        last = trained.label.split(", ")[-1]
        first = trained.label.split(", ")[0]
        factor = self.factors.get(last, self.factors.get(first, 1.0))
        factor = 1.3 if weights is not None else factor
        if len(tables) == 1 and first == "DAS":  # fresh episodes alone: loads
            factor *= self.load_factor(tables)
        fee = 1.01 if last == "heads 1" else 1.0
        return made_up(factor, fee, episodes=len(tables), seeds=2)

    def load_factor(self, tables):
        return 0.5 if "das-2" in tables[0].name else 1.0

    def heuristics(self, chosen, tables, *, params=()):
        factors = {"random": 2.0, "lazy": 3.0}
        return {
            label: made_up(factors.get(name, 1.0), 1.0, episodes=len(tables))
            for label, (name, _) in chosen.items()
        }


def made_up_lab(folder):
    real = lab_of(folder)
    return MadeUpLab(SYSTEM, real.settings, real.store, PAPER.quick_changes)


def test_table_1_is_the_papers():
    average = {
        name: [np.mean([getattr(row[c], what) for c in CLUSTERS]) for what in ("jct", "fee")]
        for name, row in published.TABLE_1.items()
    }
    assert len(average) == 13
    np.testing.assert_allclose(average["DAS"], [300.584, 50.286], atol=2e-3)
    np.testing.assert_allclose(average["tetris"], [367.842, 52.448], atol=2e-3)
    np.testing.assert_allclose(average["fifo_loadbalance"], [330.054, 51.189], atol=2e-3)


def test_geometric_ratio():
    base = {JCT: np.array([[100.0, 400.0]])}
    halves = {JCT: np.array([[50.0, 800.0], [200.0, 200.0]])}
    ratio = common.geometric_ratio(halves, base, JCT)
    assert ratio.estimate == pytest.approx((0.5 * 2 * 2 * 0.5) ** 0.25)
    assert ratio.low < 1 < ratio.high
    short = common.geometric_ratio({JCT: np.array([[50.0]])}, base, JCT)
    assert short.estimate == pytest.approx(0.5)
    better = common.geometric_ratio(made_up(0.8, 1.0, seeds=3), made_up(1.0, 1.0), JCT)
    assert (better.low, better.high) == pytest.approx((0.8, 0.8))
    rows = {"small": {"a": made_up(0.5, 1), "b": made_up(1, 1)}, "large": {}}
    rows["large"] = {"a": made_up(1.5, 1), "b": made_up(1, 1)}
    assert common.mean_ratio(rows, "a", "b", JCT) == pytest.approx(1.0)


def test_verdicts_of_table_1():
    samples = {
        "small": sample_of_policies(DAS=(0.97, 0.981), tetris=(0.96, 1.0), untrained=(0.97, 1.0)),
        "medium": sample_of_policies(DAS=(0.95, 0.996), random=(0.9, 1.0)),
        "large": sample_of_policies(DAS=(1.005, 1.005)),
    }
    found = verdicts("T1", table1.checks_of(samples))
    over = "{}: {} over FIFO-LoadBalance's"
    expected = {
        ("small", "JCT"): DIRECTION,  # 0.97 for 0.891
        ("small", "fee"): REPRODUCED,  # 0.981 for 0.979
        ("medium", "JCT"): REPRODUCED,  # 0.95 for 0.956
        ("medium", "fee"): DIRECTION,  # 0.996 for 0.983
        ("large", "JCT"): NOT_REPRODUCED,
        ("large", "fee"): NOT_REPRODUCED,
    }
    assert {pair: found[over.format(*pair)] for pair in expected} == expected
    assert found["small: mean JCT over the best heuristic's, tetris"] == NOT_REPRODUCED
    assert found["medium: mean JCT over the best heuristic's, fifo_firstfit"] == DIRECTION
    assert found["mean of the clusters' ratios of JCT"] == DIRECTION  # 0.975 for 0.939
    assert found["small: JCT over random's, worst learned policy (RIFLING)"] == ""


def test_ratios_of_the_first_twelve_episodes():
    """There fees are higher than on all of the 24."""
    row = {name: made_up(1.0, 1.0, episodes=6) for name in (*HEURISTICS, "random", "untrained")}
    row = {name: {m: np.tile(x, 4) for m, x in sample.items()} for name, sample in row.items()}
    base = row[BASE]
    shape = np.where(np.arange(24) < 12, 0.998, 0.9)
    row["DAS"] = {JCT: 0.9 * base[JCT], FEE: shape * base[FEE]}
    checks = {check.item: check for check in table1.checks_of(dict.fromkeys(CLUSTERS, row))}
    few = checks["medium, first 12 episodes: fee over FIFO-LoadBalance's"]
    assert few.measured.startswith("0.998") and few.paper == "-"
    assert checks["medium: fee over FIFO-LoadBalance's"].measured.startswith("0.948")
    assert checks["mean of the clusters' ratios of JCT, first 12 episodes"].measured == "0.900"


def test_trainings_are_described_by_cluster(tmp_path):
    lab = Lab(SYSTEM, Settings(tmp_path), Store(tmp_path))
    das, rifling = (common.trained_as(lab, name) for name in ("DAS", "RIFLING"))
    assert "DAS, small: " in das and "(120 updates)" in das and "(40 updates)" in das
    assert "RIFLING, medium: " in rifling and "arrival rates 1, 1.3" in rifling


def test_absent_clusters_are_not_tested():
    checks = table1.checks_of({"small": sample_of_policies(DAS=(0.9, 0.9))})
    absent = {check.item for check in checks if not check.tested}
    assert {"medium: JCT and fee", "large: JCT and fee"} < absent
    assert "mean of the clusters' ratios of JCT" in absent
    assert verdicts("T1", checks)["small: JCT over FIFO-LoadBalance's"] == REPRODUCED


def test_lazy_checks():
    floor = np.array([10.0, 20.0])
    samples = {n: {JCT: np.array([[5.0, 6.0]]), FEE: 1.1 * floor[None]} for n in HEURISTICS}
    samples["lazy"] = {JCT: np.array([[9.0, 9.0]]), FEE: (1 + 1e-9) * floor[None]}

    def found():
        return list(verdicts("A", heuristics.checks_of("small", samples, floor)).values())

    assert found() == [REPRODUCED, DIRECTION, DIRECTION]
    samples["lazy"][FEE] = np.array([[10.0, 20.02]])  # one episode is too dear
    assert found() == [NOT_REPRODUCED, DIRECTION, DIRECTION]
    samples["tetris"] = {JCT: np.array([[10.0, 9.0]]), FEE: floor[None]}
    assert found() == [NOT_REPRODUCED] * 3


def test_contention_free_fee():
    columns = {c.name: np.array([2, 1]) for c in GANG_JOBS}
    columns |= {"submit_time": np.array([0, 5]), "duration": np.array([1800, 3600])}
    fees = heuristics.contention_free_fees([JobTable(columns, schema=GANG_JOBS)], 3.0)
    np.testing.assert_allclose(fees, [(4 * 0.5 + 1) * 3 / 2])


def test_signed_rank():
    draw = np.random.default_rng(0)
    base = draw.integers(1000, 2000, 200)
    lower = significance.signed_rank(base - draw.integers(-100, 200, 200), base)
    assert lower.p < 1e-3 and lower.below
    higher = significance.signed_rank(base + 1, base)
    assert higher.p < 1e-3 and not higher.below
    assert significance.signed_rank(base, base) == (1.0, False)


def test_tests_of_jobs_and_episodes():
    """Four shipped episodes in which nothing differs, and two others in which the second loses."""
    episode = np.repeat(np.arange(6), 50)
    first = np.full(300, 100)
    second = first + 7 * (episode >= 4)
    tests = significance.tests_of(first, second, episode)
    shipped, jobs, episodes = tests.values()
    assert list(tests) == ["shipped jobs", "all jobs", "all episodes"]
    assert shipped == (1.0, False)
    assert jobs.below and jobs.p < 1e-10
    assert episodes.below and episodes.p > 0.1


def test_verdicts_of_tests():
    def tested(p, below):
        shipped, other = significance.SignedRank(p, below), significance.SignedRank(1e-9, True)
        return {"shipped jobs": shipped, "all jobs": other, "all episodes": other}

    found = {name: {"JCT": tested(0.0, True), "fee": tested(0.5, False)} for name in CLUSTERS}
    found["medium"]["JCT"] = tested(1e-3, False)
    checks = significance.checks_of(found)
    given = verdicts("T3", checks)
    assert given["small: p of JCT, DAS below RIFLING"] == DIRECTION
    assert given["small: p of fee, DAS below RIFLING"] == NOT_REPRODUCED
    assert given["medium: p of JCT, DAS below RIFLING"] == NOT_REPRODUCED
    assert [c.measured for c in checks[:2]] == ["< 1e-300", "0.5, not below"]
    few = significance.checks_of({"large": found["large"]})
    assert [check.tested for check in few] == [False] * 4 + [True] * 2


def test_speed_checks():
    times = {
        "DAS": speed.DecisionTime(2.0, 2.0),
        "mosa": speed.DecisionTime(19.0, 2.0),
        "malo": speed.DecisionTime(21.0, 2.0),
        "together": speed.DecisionTime(0.1, 2.0),
    }
    found = verdicts("F", speed.checks_of("small", times, "together"))
    assert list(found.values()) == [DIRECTION, DIRECTION, NOT_TESTED, "", ""]
    times["malo"], times["mosa"] = speed.DecisionTime(98.0, 2.0), speed.DecisionTime(1.0, 2.0)
    found = verdicts("F", speed.checks_of("small", times, "together"))
    assert list(found.values())[:2] == [NOT_REPRODUCED, REPRODUCED]


@pytest.mark.parametrize("policy", common.LEARNED)
def test_recipes(policy, tmp_path):
    """Every learned policy has a recipe for each cluster that quick changes and others fit."""
    lab = lab_of(tmp_path)
    for cluster, size in common.NUM_SERVERS.items():
        recipe = common.recipe_of(lab, policy, cluster)
        assert recipe.env.num_servers == size and recipe.env.window == 4
        imitation, mappo = recipe.stages
        assert mappo.loop.num_updates == 2 and mappo.learner.num_minibatches == 2
        if policy.startswith("DA"):
            assert read_kind(recipe.network)[1].variant == policy
        assert imitation.loop.num_updates == 4
    stages = stages_of(SYSTEM, as_it_is(recipe), shipped(20)[:1])
    assert [stage.name for stage in stages] == ["imitation", "mappo"][: 1 + (not mappo.skip)]
    for stage in stages:
        assert stage.loop.num_envs * stage.loop.rollout_length == 128
    usual = common.recipe_of(Lab(SYSTEM, Settings(tmp_path), None), policy, "medium")
    assert SYSTEM.recipes.departures.of(usual) and usual.env.window == 32


def test_trainings_are_found_again_under_the_rule_that_they_learn_from():
    rule, all_rules = (
        SYSTEM.training.shipped_digest(r) for r in (presets.preset(SYSTEM, "quick"), None)
    )
    assert (
        len(
            {
                rule,
                all_rules,
                SYSTEM.training.shipped_digest(presets.preset(SYSTEM, "quick-medium")),
                "",
            }
        )
        == 4
    )
    for preset in ("rifling", "dl2", "paper", "search"):
        assert SYSTEM.training.shipped_digest(presets.preset(SYSTEM, preset)) == ""


def test_changes_of_absent_stages():
    recipe = presets.preset(SYSTEM, "quick")
    change = "imitation.loop.num_updates=4"
    others = SYSTEM.recipes.presets.values()
    assert not lab_module._about_others(recipe, others, change)
    assert lab_module._about_others(replace(recipe, stages=recipe.stages[1:]), others, change)
    assert not lab_module._about_others(recipe, others, "no_such.field=4")  # refused later


def as_it_is(recipe):
    """Without a heuristic that its reward is relative to."""
    stages = tuple(replace(stage, adjust=None) for stage in recipe.stages)
    return replace(recipe, stages=stages)


def shipped(num_jobs):
    return common.SHIPPED.tables("test", 4, num_jobs)


def test_test_episodes(tmp_path):
    lab = lab_of(tmp_path, num_test=2, num_jobs=30)
    tables = common.test_tables(lab)
    assert [len(table) for table in tables] == [30] * 6
    assert [table.name for table in tables[:4]] == [f"das-test[{i}]" for i in range(4)]
    assert len(lab.digests) == 2
    high = common.test_tables(lab, "high", shipped=False)
    assert len(high) == 2 and high[0]["submit_time"][-1] < tables[4]["submit_time"][-1]
    train = common.CutWorkload("das-train")
    assert [len(train.tables("train", 1, n)[0]) for n in (None, 30)] == [16_000, 30]
    whole = Lab(SYSTEM, Settings(tmp_path), Store(tmp_path))
    usual, more = common.test_tables(whole), table1._more_tables(whole)
    assert [len(t) for t in usual] == [1000] * 12 and len(more) == 52
    assert not {digest_tables([t]) for t in more} & {digest_tables([t]) for t in usual}
    assert len(whole.digests) == 3


def test_table_1_row(tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "untrained", lambda lab, trained, tables: [None])
    lab = made_up_lab(tmp_path)
    outcome = table1.table_1(lab)
    jct, fee, four, ratios, _ = outcome.tables
    names = [row[0] for row in jct.rows]
    assert names[:13] == list(published.TABLE_1)
    assert sorted(names[13:]) == ["linear", "random", "untrained"]
    by_name = {row[0]: row for row in ratios.rows}
    assert by_name["DAS"][1].estimate == by_name["DAS"][2] == pytest.approx(0.9)
    assert by_name["untrained"][2] == pytest.approx(1.3)
    assert by_name["malo"][2] == pytest.approx(1.0)  # one episode against the same one
    (malo,) = [row for row in jct.texts() if row[0] == "malo"]
    assert malo[1] == "-" and malo[2] == "708.9"
    assert {len(row) for table in outcome.tables for row in table.rows} >= {3, 5}
    assert four.columns == ["policy", "small, JCT", "small, fee"]
    assert fee.texts()[-1][2] == "-"
    found = verdicts("T1", outcome.checks)
    assert found["small: JCT over FIFO-LoadBalance's"] == REPRODUCED
    assert found["small: fee over FIFO-LoadBalance's"] == NOT_REPRODUCED
    assert not any("first 12" in item for item in found)
    assert not any("drawn from seed" in note for note in outcome.notes)  # none in quick runs
    figures.save(tmp_path / "t.png", outcome.figure)
    assert (tmp_path / "t.png").stat().st_size > 3_000


def test_sweep_row(tmp_path):
    outcome = sweeps.heads_and_history(made_up_lab(tmp_path))
    (table,) = outcome.tables
    ratios = {row[0]: row[3] for row in table.rows}
    assert list(ratios) == ["heads 4, history 2", "heads 1", "history 4", "history 8"]
    assert ratios["heads 1"] == pytest.approx(0.95 / 0.9)
    worst = outcome.checks[0]
    assert "history 8" in worst.item and worst.measured == "11.11 %"
    drawn, heads, history = outcome.checks[1:]
    assert "history 8 (-11.1%)" in drawn.item
    assert verdicts("F5", [worst, drawn]) == dict.fromkeys((worst.item, drawn.item), NOT_REPRODUCED)
    assert heads.measured == "4" and history.measured == "8"
    figures.save(tmp_path / "t.png", outcome.figure)
    assert (tmp_path / "t.png").stat().st_size > 3_000


def test_prior_mean_row(tmp_path):
    outcome = sweeps.prior_means(made_up_lab(tmp_path))
    (table,) = outcome.tables
    cells = {row[1]: row[2:] for row in table.rows}
    assert list(cells) == ["learned", "zero", "random"] and table.rows[0][0] == "small"
    assert cells["learned"][0].estimate == pytest.approx(0.9)
    (check,) = outcome.checks
    assert check.paper == "-" and check.item.startswith("small: JCT, zero")
    figures.save(tmp_path / "t.png", outcome.figure)
    assert (tmp_path / "t.png").stat().st_size > 3_000


def test_load_row(tmp_path):
    lab = made_up_lab(tmp_path)
    outcome = sweeps.loads(lab)
    gains = {row[0]: row[7] for row in outcome.tables[0].rows}
    assert gains["low, small"].estimate == pytest.approx(1 - 0.9 / 0.95)
    assert gains["high, small"].estimate == pytest.approx(1 - 0.45 / 0.95)
    assert list(verdicts("F7", outcome.checks[:1]).values()) == [DIRECTION]
    lab.load_factor = lambda tables: 2.0 if "das-2" in tables[0].name else 1.0
    assert list(verdicts("F7", sweeps.loads(lab).checks[:1]).values()) == [NOT_REPRODUCED]
    figures.save(tmp_path / "t.png", outcome.figure)
    assert (tmp_path / "t.png").stat().st_size > 3_000


@pytest.fixture(scope="module")
def untrained_lab(tmp_path_factory):
    """A lab whose policies have drawn weights; it plays for real."""
    lab = lab_of(tmp_path_factory.mktemp("das"))

    def train_all(studies):
        return {name: fresh_policies(lab, study) for name, study in studies.items()}

    lab.train_all = train_all
    return lab


def fresh_policies(lab, study):
    (table,) = shipped(20)[:1]
    stages = stages_of(SYSTEM, as_it_is(study.recipe), [table])
    env, kind = stages[-1].play_env, stages[-1].network
    specs = env.specs(env.params([table]))
    weights = [policies.init_weights(env, kind, jax.random.key(seed), specs) for seed in (0, 1)]
    learned = Learned("drawn", env, kind, weights)
    return Policies(stages, (0, 1), Run(lab.store.path, learned, [], [], {}, True, SYSTEM))


@pytest.mark.slow  # the parts have tests of their own
def test_jobs_of_both_policies(untrained_lab):
    """T3 from end to end; means over jobs are those that evaluations report."""
    outcome = significance.wilcoxon_tests(untrained_lab)
    (table,) = outcome.tables
    trained = common.train(untrained_lab, ("DAS",), ("small",))["small"]["DAS"]
    tables = common.test_tables(untrained_lab)
    jobs = significance.job_values(untrained_lab, trained, tables)
    played = untrained_lab.play(trained, tables)
    assert jobs.jct.shape == jobs.episode.shape == (100,)
    assert jobs.jct.mean() / 2 / 60 == pytest.approx(played[JCT].mean(), rel=1e-9)
    price = float(trained.setup.params_at(0.0).price)
    assert jobs.fee.mean() / 2 * price / 3600 == pytest.approx(played[FEE].mean(), rel=1e-9)
    fresh = table1.untrained(untrained_lab, trained, tables)
    again = untrained_lab.play(trained, tables, weights=fresh)
    np.testing.assert_array_equal(again[JCT], played[JCT])
    assert (played[JCT][0] != played[JCT][1]).any()
    (jct, fee) = table.rows
    assert jct[1] == fee[1] == 100
    assert 0 <= outcome.values["small"]["JCT"]["shipped jobs"]["p"] <= 1
    figures.save(untrained_lab.store.path / "t.png", outcome.figure)
    assert (untrained_lab.store.path / "t.png").stat().st_size > 3_000


def test_scenes(untrained_lab):
    """F6 from end to end."""
    outcome = states.scripted_states(untrained_lab)
    assert [check.tested for check in outcome.checks] == [True] * 3
    for scene in outcome.values.values():
        assert scene["priorities"].shape == (4,) and scene["preference"].shape == (50,)
        assert scene["affinities"].shape == (4, 8)
        heavy = scene["chosen"][[1, 3]]
        assert (heavy >= 4).all()  # the others have too few CPUs
    figures.save(untrained_lab.store.path / "f.png", outcome.figure)
    assert (untrained_lab.store.path / "f.png").stat().st_size > 3_000


def test_scripted_observations():
    env = functions.environment(SYSTEM)
    crowded = states.crowded_state(env)
    assert crowded.real.sum() == 5 and crowded.machines[:, 1].max() <= 0.5
    twins = states.twin_states(env, 20, 0)
    quiet, busy = twins.machines[:, states.QUIET], twins.machines[:, states.NEIGHBOUR]
    np.testing.assert_array_equal(np.delete(quiet, 3, -1), np.delete(busy, 3, -1))
    assert (quiet[:, 3] == 1).all() and (busy[:, 3] <= 0.75).all()
    assert (twins.machines[..., 1] * 8 <= 6).all() and (twins.machines >= 0).all()


def test_verdicts_of_scenes():
    def scene(first, correct):
        priorities = np.array([first, 0.2, 0.1])
        preference = np.where(np.arange(50) < correct, 1.0, -1.0)
        return states.Scenes(priorities, preference, np.zeros((4, 8)), np.array([0, 4, 5, 4]))

    good = states.checks_of([scene(0.15, 50), scene(0.0, 40)], 4)
    assert list(verdicts("F6", good).values())[:2] == [DIRECTION, DIRECTION]
    assert good[2].measured == "50.00 %"
    bad = states.checks_of([scene(0.0, 50), scene(0.3, 25)], 4)
    assert list(verdicts("F6", bad).values())[:2] == [NOT_REPRODUCED, NOT_REPRODUCED]


@pytest.mark.slow  # compiles both policies, alone and side by side
def test_decision_time(tmp_path, monkeypatch):
    """F from end to end, without MALO, whose program takes longest to compile."""
    monkeypatch.setattr(speed, "REPEATED", {"DAS": 3, "mosa": 1})
    monkeypatch.setattr(speed, "QUICK_BATCH", 4)
    monkeypatch.setattr(speed, "checks_of", lambda cluster, times, together: [])
    outcome = speed.decision_time(lab_of(tmp_path))
    rows = {row[0]: row[1:] for row in outcome.tables[0].rows}
    assert list(rows) == ["DAS", "mosa", "DAS, 4 side by side"]
    for decision, jobs, job in rows.values():
        assert decision > 0 and jobs >= 1 and job == pytest.approx(decision / jobs)
    figures.save(tmp_path / "f.png", outcome.figure)
    assert (tmp_path / "f.png").stat().st_size > 3_000


def test_policies_are_handed_what_they_look_at():
    seen = speed.Recorded(state=1, observation=2, mask=3)
    blind = Policy("blind", no_memory, lambda *given: given)
    assert speed.handed(blind, seen, 4) == View(2, 3, None, None)
    assert speed.handed(blind._replace(privileged=True), seen, 4) == View(2, 3, 1, 4)


@pytest.mark.slow  # tests/bench times environments
def test_environment_speed(tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "QUICK_BATCHES", (2,))
    monkeypatch.setattr(speed, "QUICK_STEPS", 64)
    settings = replace(lab_of(tmp_path).settings, overrides=())
    lab = Lab(SYSTEM, settings, Store(tmp_path), PAPER.quick_changes)
    outcome = speed.environment_speed(lab)
    ((batch, decisions, steps, least, most, share),) = outcome.tables[0].rows
    assert batch == "2" and 0 < decisions <= steps and least <= steps <= most and 0 < share <= 100


def test_lazy_row(tmp_path, monkeypatch):
    """A through the runner, with fewer heuristics."""
    monkeypatch.setattr(heuristics, "HEURISTICS", (BASE, heuristics.EAGER))
    settings = lab_of(tmp_path).settings
    (document,) = runner.run(PAPER, settings, ["A"], show=lambda text: None)
    assert [check["measured"] for check in document["checks"]][:1] == ["0.00 %"]
    fee = np.mean(document["values"]["small"]["lazy"][FEE])
    assert fee == pytest.approx(np.mean(document["values"]["without contention"]["small"]))
    assert (tmp_path / "A.png").stat().st_size > 3_000


def test_command_refuses_unknown_rows(tmp_path, capsys):
    assert run_paper(["das", "--rows", "Z9", "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
    assert (
        "error: unknown row 'Z9'; known are T1, F5, M, F6, F7, T3, A, F, S"
        in capsys.readouterr().err
    )


def test_rows_have_names_of_their_own():
    names = ["T1", "F5", "M", "F6", "F7", "T3", "A", "F", "S"]
    assert [row.name for row in PAPER.rows] == names
    assert PAPER.chosen(["F7"])[0].run is sweeps.loads
