"""Pages of results from files made here, and the shipped pages' sources."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.evidence import judge, learners, pages, pictures, sources
from benchmarks.evidence.parts import (
    Contest,
    Cost,
    Evidence,
    LearnedReadings,
    Own,
    OwnRatios,
    OwnReading,
    Player,
    Recipe,
)
from benchmarks.evidence.systems import SYSTEMS
from benchmarks.papers import figures, verdicts
from benchmarks.readings import Draw, Study
from jaxsched.errors import JaxschedError
from jaxsched.results.statistics import interquartile_mean

EPISODES = np.arange(1.0, 21.0)
METRIC = {"label": "JCT", "unit": "s", "better": "lower", "digits": 1}


def comparison():
    """Rule: 100 s per episode number; two seeds, one 10 % and one 20 % faster."""
    jct = 100 * EPISODES
    policies = [
        {"name": "rule", "kind": "reference", "metrics": {"avg_jct": jct.tolist()}},
        {
            "name": "best",
            "kind": "learned",
            "metrics": {"avg_jct": [(0.9 * jct).tolist(), (0.8 * jct).tolist()]},
        },
        *(
            {"name": name, "kind": "learned", "metrics": {"avg_jct": [(share * jct).tolist()] * 2}}
            for name, share in (("best, supervised", 1.1), ("best, untrained", 3.0))
        ),
    ]
    return {
        "system": "small",
        "command": "jaxsched train small",
        "facts": {
            **{"environment steps": "1,000", "training time": "1 min", "device": "cpu"},
            "cluster": "2 servers",
        },
        "episodes": {"count": 20, "source": "drawn"},
        "metrics": {"avg_jct": METRIC},
        "primary": "avg_jct",
        "policies": policies,
        "learning_curve": {
            "x_label": "episodes",
            "y_label": "JCT",
            "metric": "avg_jct",
            "series": [{"seed": s, "x": [1.0, 2.0], "y": [5.0 + s, 4.0]} for s in range(2)],
        },
    }


def row():
    check = {"item": "faster", "paper": "18 %", "measured": "20 %", "accept": "> 0", "met": True}
    play = {"avg_jct": [[90.0, 180.0]]}
    return {
        "system": "chic",
        "row": "X1",
        "facts": {"command": ["__main__.py", "small", "--rows", "X1"]},
        "checks": [check | {"note": "", "verdict": "met"}],
        "values": {"1.8": {"best": play, "rule": {"avg_jct": [[100.0, 200.0]]}}},
    }


def headroom():
    cell = {"policy": "rule", "mean": 1050.0, "difference": None}
    less = {"estimate": -50.0, "low": -60.0, "high": -40.0}
    ahead = {"policy": "clairvoyant", "mean": 1000.0, "difference": less}
    return {
        "command": "jaxsched headroom small",
        "facts": {"cluster": "2 servers"},
        "episodes": {"count": 20, "source": "drawn"},
        "metrics": {"avg_jct": METRIC},
        "headroom": {
            "rows": [
                {"row": "best baseline", "knows": "state", "metrics": {"avg_jct": cell}},
                {"row": "rule", "knows": "state", "metrics": {"avg_jct": cell}},
                {"row": "clairvoyant", "knows": "state, future", "metrics": {"avg_jct": ahead}},
            ]
        },
    }


def ratios():
    """What ``benchmarks.das_ratios`` writes of one run."""

    def policy(mean, *ratio):
        return {"means": {"fee ($)": mean}, "ratios": {"fee ($)": list(ratio)}}

    policies = {
        "learned": policy(45.0, 0.9, 0.8, 0.95),
        "untrained": policy(51.0, 1.02, 1.0, 1.04),
        "first": policy(50.0, 1.0, 1.0, 1.0),
    }
    told = {"seeds": [0], "episodes": 64, "num_servers": 8, "command": "python own.py"}
    return [told | {"policies": policies}]


STUDY = Study(
    command="own_readings",
    system="chic",
    preset="paper",
    readings={"masked": ("env.mask=true",), "longer": ("loop.num_updates=4",)},
    train=Draw("drawn", 0, 5),
    validation=Draw("drawn", 1, 3),
    test=Draw("drawn", 2, 2),
    others=("first",),
    ours="",
    metrics=("avg_jct",),
    shown="avg_jct",
    updates=2,
    every=1,
    patience=2,
    worlds={"1.8": {}},
)


def learnt():
    """What ``benchmarks.readings`` writes: one of two readings, two seeds."""
    told = {"updates": [0, 1], "validation": [[9.0, 9.0], [8.0, 7.0]], "chosen": [0, 1]}
    told |= {"wall_s": 120.0}
    times = {"masked": [[70.0, 90.0]] * 2, "masked, untrained": [[180.0] * 2] * 2}
    metrics = {name: {"avg_jct": values} for name, values in times.items()}
    metrics["first"] = {"avg_jct": [[100.0, 100.0]]}
    return {
        "system": "chic",
        "command": "python -m benchmarks.own_readings",
        "device": "cpu",
        "cores": 2,
        "readings": {"masked": told},
        "loads": {"1.8": {"seed": 2, "metrics": metrics}},
    }


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A system with all kinds of evidence, its files in a folder of its own."""
    monkeypatch.setattr(sources, "RESULTS", tmp_path)
    rules = SimpleNamespace(
        CLAIMS=(verdicts.Claim("X1", none=0, note="by ours"),),
        MISSING=(verdicts.Missing("X2", "cheaper", "5 %", "not run"),),
    )
    monkeypatch.setattr(verdicts, "_claims", lambda system: rules)
    documents = {"c": comparison(), "r": row(), "h": headroom(), "o": ratios(), "t": learnt()}
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    return Evidence(
        system="small",
        title="Small",
        claim="10 % faster.",
        contests=(
            Contest("drawn", Player("c.json", "best"), "rule", ("avg_jct",), "rule"),
            Contest("1.8 per hour", Player("r.json", "best", "1.8"), "rule", ("avg_jct",)),
        ),
        own=(
            Own(Recipe("paper"), Player("c.json", "best"), "rule", ("avg_jct",)),
            OwnRatios(
                Recipe("paper", also=("ours",), trained="half of it"),
                "o.json",
                ("fee ($)",),
                "first",
                "drawn",
            ),
            OwnReading(
                Recipe("paper", ("env.mask=true",)), STUDY, "t.json", "masked", "first", "one GPU"
            ),
        ),
        learned_readings=LearnedReadings(STUDY, "t.json", ("first",), "Each is learnt."),
        headroom=("h.json",),
        rows=("r.json",),
        cost=(Cost("jaxsched train small", "c.json", "15 h"),),
        words=("It holds.",),
    )


def test_a_page_tells_every_number(small):
    text = pages.page(small)
    for words in (
        "| JCT (s) | 892.5 | 1,050.0 | -157.5 [",
        "-15.00 % [-20.00, -10.00]",  # seeds are resampled
        "| 10 | 2 | 1,657.5 | 1,950.0 |",  # episodes 19 and 20
        "| JCT (s) | 135.0 | 150.0 | -15.0 [",
        "20 episodes of drawn, 2 servers:",
        "| `best` | 945.0, 840.0 | -15.00 % [-20.00, -10.00] |",
        "| `best, supervised` | 1,155.0, 1,155.0 | +10.00 % |",
        "| `best, untrained` | 3,150.0, 3,150.0 | +200.00 % |",
        "| `clairvoyant` | state, future | 1,000.0 (-50.0 [-60.0, -40.0]) |",
        "| `best baseline` | state | `rule`: 1,050.0 |",
        "| X1 | faster | 18 % | 20 % | 13.5 to 22.5 % | reproduced | by ours |",
        "| X2 | cheaper | 5 % | - | - | not tested | not run |",
        "| `jaxsched train small` | 1,000 | 1 min | cpu | 15 h |",
        "`--preset paper`: half of it; 1 seed, 64: drawn, 8 machines. Departures",
        "text: ours. `python own.py`; file `o.json`.",
        "JCT (s) against `first`: -20.00 % [-30.00, -10.00]; the untrained network +80.00 %.",
        "Each is learnt.",
        "| masked | 2 | 80.0 | -20.00 % [-30.00, -10.00] | +80.00 % [+80.00, +80.00] | 9.0, 7.5 "
        "| 0, 1 | 1 |",
        "| `first` | - | 100.0 | - | - | - | - | - |",
        "Readings that were not run, for want of time: longer.",
        "file `t.json`; 2 minutes of training and validation, all seeds, cpu, the last reading on "
        "2 cores.",
        "![JCT on the validation episodes over the updates](small_readings.png)",
        "| fee ($) | 45.00 | 50.00 | -10.00 % [-20.00, -5.00] | +2.00 % [+0.00, +4.00] |",
        "![by tenth](small_1.png)",
        "`jaxsched train small` learnt so:\n\n![learning curve](small_learning_1.png)",
        "It holds.",
    ):
        assert words in text
    lines = pages.summary([small]).splitlines()
    assert lines[-1] == "| `jaxsched train small` | 1,000 | 1 min | cpu | 15 h |"
    counts, own, halved, trials, best = [line for line in lines if "(small.md)" in line]
    assert counts == "| [Small](small.md) | 1 | 0 | 0 | 1 |"
    assert "| 2 servers | 20 of drawn | 2 | `rule` | -15.00 % [" in own
    assert own.endswith("| +200.00 % | `c.json` |")
    assert "| half of it | 8 machines | 64: drawn | 1 | `first` | -10.00 % [" in halved
    assert "`--preset paper --set env.mask=true`" in trials and "| +80.00 % | `t.json` |" in trials
    assert best.startswith("| [Small](small.md) | 892.5 s | 1,050.0 (`rule`) | -15.00 % [")
    assert best.endswith("| drawn |")


def test_rows_link_their_pictures(small, tmp_path):
    assert "Pictures:" not in pages.page(small)
    (tmp_path / "r.png").touch()
    assert "Pictures: [X1](../../benchmarks/results/r.png)." in pages.page(small)


def test_a_verdict():
    rng = np.random.default_rng(0)
    left, right = rng.normal(9, 1, (3, 50)), rng.normal(10, 1, (1, 50))
    values = {"a": {"m": left}, "b": {"m": right}}
    plays = sources.Plays(values, {"m": {"better": "lower", "digits": 1}}, "m", {}, "")
    found = judge.verdict(plays, "a", "b", "m")
    assert found.means == (left.mean(), right.mean())
    assert found.difference.estimate == pytest.approx(left.mean() - right.mean())
    alone = judge.single(plays, "a", "b", "m")
    assert alone.improvement.estimate == pytest.approx((left < right).mean())
    assert alone.typical.estimate == pytest.approx(interquartile_mean(left / right) - 1)
    plays.values["b"]["m"][0, 3] = 0.0
    assert judge.single(plays, "b", "b", "m").typical is None
    higher = judge.better_share(left, right, 1)
    np.testing.assert_array_equal(higher, 1.0 - judge.better_share(left, right, -1))
    np.testing.assert_array_equal(judge.better_share(right, right, 1), np.full((1, 50), 0.5))


def test_pictures_show_the_changes(small, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(figures, "lines", lambda axes, x, series, **words: drawn.append(series))
    pictures.by_congestion(tmp_path / "a.png", small.contests[0])
    (points,) = drawn[0].values()
    assert [round(point.estimate, 6) for point in points] == [-15.0] * 10
    pictures.learning(tmp_path / "b.png", "c.json")
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("a.png", "b.png"))


def test_what_is_missing_is_said(small):
    with pytest.raises(JaxschedError, match="none.json: cannot be read"):
        sources.read("none.json")
    with pytest.raises(JaxschedError, match="no policy 'worst'; there are rule, best"):
        sources.plays("c.json").of("worst", "avg_jct")
    with pytest.raises(JaxschedError, match="best has no metric 'fee'"):
        sources.plays("c.json").of("best", "fee")


@pytest.mark.parametrize("evidence", SYSTEMS, ids=lambda evidence: evidence.system)
def test_the_shipped_pages_have_their_sources(evidence):
    """Every file is there with the policies and metrics that the page needs."""
    for contest in evidence.contests:
        played = sources.plays(contest.learned.file, contest.learned.part)
        for metric in contest.metrics:
            learned = played.of(contest.learned.policy, metric)
            assert played.of(contest.rule, metric).shape[1] == learned.shape[1]
        if contest.ranked_by:
            completion = next(name for name in judge.COMPLETION if name in played.metrics)
            assert played.of(contest.ranked_by, completion).size >= judge.GROUPS
    for own in evidence.own:
        if isinstance(own, OwnReading):
            assert sources.read(own.file)["readings"][own.name]["validation"]
            continue
        if isinstance(own, OwnRatios):
            (found,) = sources.read(own.file)
            assert {"learned", "untrained", own.against} <= found["policies"].keys()
            continue
        played = sources.plays(own.player.file, own.player.part)
        assert [played.of(name, own.metrics[0]).size for name in (own.player.policy, own.against)]
    assert all(sources.read(name)["headroom"]["rows"] for name in evidence.headroom)
    assert all(sources.read(name)["checks"] for name in evidence.rows)
    for cost in evidence.cost:
        document = sources.read(cost.file)
        trained = document["trained"][cost.part]["wall_s"] if cost.part else 1
        assert trained > 0 and (cost.part or "training time" in document["facts"])


def test_the_page_of_learners(monkeypatch):
    row = {
        **{"system": "dl2", "learner": "ppo", "metric": "jct", "better": "lower", "learned": 8.0},
        **{"of_rule": 10.0, "rule": "probe", "ratio": [0.8, 0.7, 0.9], "training_time": "1 min"},
        "finished_share": 1.0,
    }
    idle = row | {"learner": "idle", "finished_share": 0.05}
    lazy = idle | {"learner": "lazy", "learned": 0.0, "finished_share": 0.0}
    again = row | {"system": "chic", "learned": 9.0}
    first, *more = learners.LEARNERS
    other_system = row | {"system": "chic"}
    option = row | {"study": "s", "variant": "average", "settings": ["a=1", "b=2"]}
    option |= {"by_seed": [7.0, 8.0, 9.0]}
    files = {
        first: {"steps": 256000, "seeds": 2, "rows": [row, other_system, idle]},
        **{other: {"steps": 256000, "seeds": 2, "rows": [lazy, again]} for other in more},
        **{name: {"seeds": 3, "rows": [option]} for name in learners.OPTIONS},
    }
    monkeypatch.setattr(learners, "read", files.get)
    text = learners.page()
    assert "| dl2 | ppo | jct (lower is better) | 8 | 10 (`probe`) | 0.800 [0.700, 0.900] |" in text
    assert "| finishes 5.0% of the jobs |" in text
    assert text.rindex("| dl2 |") < text.index("| chic |")  # a system's rows are together
    assert text.count("| chic | ppo |") == text.count("| chic | ppo | jct (lower is better) | 9 |")
    assert "| - | 10 (`probe`) | finishes 0.0% of the jobs |" in text
    assert (
        "| s | average | `a=1` `b=2` | jct (lower is better) | 3 | 8 | 0.800 [0.700, 0.900] |"
        in text
    )
