import copy
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import jaxsched.report
from benchmarks.scripts import read_json
from jaxsched.errors import JaxschedError
from jaxsched.jobs.schedule import Line
from jaxsched.report import (
    Summary,
    check,
    comparison_table,
    fitting_table,
    in_readable_units,
    render_html,
    write_html,
)
from jaxsched.report import html as html_page
from jaxsched.report.figures import learning_limits, over_time, smooth
from jaxsched.report.gantt import runs, schedules_of, upper_share
from jaxsched.report.svg import spread, ticks
from tests.report.sample_comparison import sample_comparison

SMALL = sample_comparison(episodes=6, jobs=120, seeds=2)


@pytest.fixture
def comparison():
    return copy.deepcopy(SMALL)


@pytest.fixture(scope="module")
def page():
    return render_html(SMALL)


def without(comparison, *kinds):
    comparison["policies"] = [p for p in comparison["policies"] if p["kind"] not in kinds]
    return comparison


def constant(name, kind, value, episodes=4):
    return {"name": name, "kind": kind, "metrics": {"score": [value] * episodes}}


def tiny(*policies, better="higher"):
    metric = {"label": "Score", "unit": "", "better": better, "digits": 2}
    return {
        "system": "toy", "title": "Toy", "created": "2026-01-01", "facts": {}, "command": "make",
        "episodes": {"count": 4, "source": "toys"}, "metrics": {"score": metric},
        "policies": list(policies),
    }  # fmt: skip


class Outline(HTMLParser):
    """Checks that tags nest, and collects them."""

    VOID = {"meta", "rect", "path"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


# The page


def test_page_is_well_formed_and_complete(page):
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings == [
        "How well, and how fast", "All policies, all metrics", "Gain over the best baseline",
        "As the episode proceeds", "Locality", "Learning", "GPUs over time, made-up trace 0",
        "Against the paper", "What was compared", "Reproduce",
    ]  # fmt: skip
    for policy in SMALL["policies"]:
        assert f'data-v="{policy["name"]}"' in page


def test_page_loads_nothing(page):
    assert not re.search(r"https?:|//[a-z]|@import|<link|<iframe|<img|\bsrc=|\bhref=", page)
    assert set(re.findall(r"url\((.*?)\)", page)) == {"#hatch"}
    assert not re.search(
        r"nan|inf\b|None|undefined", re.sub(r"<script.*|<style.*?</style>", "", page, flags=re.S)
    )


def test_every_drawing_has_a_description(page):
    charts = re.findall(r'<svg class="chart"[^>]*>', page)
    assert len(charts) == 2 * (4 + 2 + 3 + 2 + 2)  # bars, curves, locality, learning, Gantt
    assert all(
        'role="img"' in chart and re.search('aria-label="[^"]{20,}', chart) for chart in charts
    )


def test_full_size_page_is_light():
    assert len(render_html(sample_comparison()).encode()) < 600_000


def test_same_comparison_gives_the_same_page_even_through_json(page):
    assert render_html(json.loads(json.dumps(SMALL))) == page


def test_text_is_escaped(comparison):
    comparison["title"] = "<script>alert(1)</script> & co"
    comparison["facts"]["<b>"] = '"quoted" <i>'
    comparison["command"] = "jaxsched compare 'a<b'"
    comparison["policies"][0]["name"] = "<fifo>"
    text = render_html(comparison)
    assert "<script>alert" not in text
    assert "<fifo>" not in text
    assert "jaxsched compare &#x27;a&lt;b&#x27;" in text
    Outline().feed(text)


@pytest.mark.parametrize(
    ("drop", "heading"),
    [("learning_curve", "Learning"), ("gantt", "GPUs over time"), ("paper", "Against the paper")],
)
@pytest.mark.parametrize("how", ["absent", "null"])
def test_missing_parts_are_left_out(comparison, drop, heading, how):
    if how == "absent":
        del comparison[drop]
    else:
        comparison[drop] = None
    assert f"<h2>{heading}" not in render_html(comparison)


def test_smallest_comparison():
    text = render_html(tiny(constant("only", "baseline", 1.0)))
    assert "Best rule in score: only, 1.00." in text
    assert re.findall("<h2>(.*?)</h2>", text) == [
        "How well, and how fast", "All policies, all metrics", "What was compared", "Reproduce",
    ]  # fmt: skip


def test_missing_metrics_and_empty_curves(comparison):
    del comparison["policies"][0]["metrics"]["avg_wait"]
    comparison["policies"][1]["curves"] = {}
    comparison["policies"][2]["curves"]["fragmentation"] = []
    del comparison["policies"][3]["metrics"]["avg_effectiveness"]
    comparison["learning_curve"]["series"] = []
    comparison["gantt"]["panels"][0]["jobs"] = []
    render_html(comparison)
    comparison_table(comparison)


def test_zero_and_single_values():
    toy = tiny(constant("a", "learned", 0.0, 1), constant("b", "baseline", 0.0, 1))
    toy["episodes"]["count"] = 1
    toy["policies"][0]["curves"] = {"fragmentation": [0.0]}
    toy["learning_curve"] = {
        "x_label": "episodes", "y_label": "score", "metric": "score",
        "series": [{"seed": 3, "x": [0], "y": [0.0], "wall_s": [0.0]}],
    }  # fmt: skip
    toy["gantt"] = {
        "episode": "e", "num_servers": 1, "gpus_per_server": 1,
        "panels": [{"policy": "a", "jobs": [
            {"start": 0, "finish": 0, "level": 9, "gpus": [0], "num_gpus": 1}]}],
    }  # fmt: skip
    assert "nan" not in render_html(toy).split("<script>")[0]


def test_write_html_makes_folders(tmp_path):
    path = write_html(SMALL, tmp_path / "run" / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_report_imports_neither_jax_nor_environments():
    for file in Path(jaxsched.report.__file__).parent.glob("*.py"):
        assert not re.search(
            r"^\s*(import|from) (jax\b|jaxsched\.(envs|algorithms))", file.read_text(), re.M
        ), file.name


# The verdict


def test_verdict_of_a_winner():
    """The best rule comes first, whether the paper has it or not."""
    verdict = Summary(check(tiny(
        constant("fifo", "baseline", 0.5), constant("dsif", "baseline", 0.6),
        constant("strict", "reference", 0.95), constant("learned", "learned", 0.96),
    ))).verdict  # fmt: skip
    assert verdict.won is True
    assert verdict.headline == (
        "The learned policy is ahead of strict, the best rule here, on score: 0.96 and 0.95."
    )
    assert verdict.detail.startswith("The difference is 0.01 (95")
    assert "It beats every baseline of the paper. It is 1.60 times as good" in verdict.detail
    assert "the best of them, dsif (0.60)" in verdict.detail and "strict" not in verdict.detail


def test_verdict_of_a_loser_is_plain():
    verdict = Summary(check(tiny(
        constant("fifo", "baseline", 0.5), constant("dsif", "baseline", 0.6),
        constant("strict", "reference", 0.95), constant("mine", "learned", 0.55),
    ))).verdict  # fmt: skip
    assert verdict.won is False
    assert verdict.headline == (
        "The learned policy mine is behind strict, the best rule here, on score: 0.55 and 0.95."
    )
    assert "The difference is 0.40" in verdict.detail
    assert "Of the paper's baselines dsif is better." in verdict.detail


def test_the_best_rule_may_be_a_baseline_or_one_that_knows_more():
    toy = tiny(
        constant("fifo", "baseline", 0.5), constant("oracle", "reference", 0.9),
        constant("learned", "learned", 0.6),
    )  # fmt: skip
    toy["policies"][1]["apart"] = True  # no scheduler can know what it knows
    verdict = Summary(check(toy)).verdict
    assert "ahead of fifo, the best rule here, a baseline, on score" in verdict.headline
    assert "behind the reference policy oracle (0.90) by 0.30" in verdict.detail
    toy["best_rule"] = "oracle"
    assert "behind oracle, the best rule here, on score" in Summary(check(toy)).verdict.headline


def test_verdict_without_a_clear_difference():
    toy = tiny(constant("fifo", "baseline", 0.5), constant("learned", "learned", 0.5))
    toy["policies"][1]["metrics"]["score"] = [0.4, 0.62, 0.45, 0.56]
    verdict = Summary(check(toy)).verdict
    assert verdict.won is False
    assert "is not clearly different from fifo, the best rule here" in verdict.headline
    assert "Of the paper's baselines it is not clearly different from fifo." in verdict.detail


def test_lower_is_better_turns_gain_and_verdict_round():
    summary = Summary(check(tiny(
        constant("fifo", "baseline", 8.0), constant("learned", "learned", 2.0), better="lower"
    )))  # fmt: skip
    assert summary.verdict.won is True
    assert summary.gain(summary.policies[0], "score").estimate == 4.0


def with_finished(comparison, **counts):
    """The same with the number of jobs that finish under each policy, 100 where none is given."""
    count = {"label": "Finished", "unit": "", "better": "neither", "digits": 0}
    comparison["metrics"]["finished"] = count
    for policy in comparison["policies"]:
        length = len(policy["metrics"]["score"])
        policy["metrics"]["finished"] = [float(counts.get(policy["name"], 100))] * length
    return Summary(check(comparison))


def test_learned_policy_that_leaves_jobs_unfinished_wins_nothing():
    summary = with_finished(
        tiny(
            constant("fifo", "baseline", 8.0), constant("random", "reference", 9.0),
            constant("lazy", "learned", 0.0), better="lower",
        ),
        lazy=12,
    )  # fmt: skip
    assert summary.unfinished == {"lazy": 0.12}
    assert summary.verdict.won is False
    assert summary.verdict.headline == (
        "The learned policy lazy finishes only 12.0\u00a0% of the jobs."
    )
    lazy, fifo = (next(p for p in summary.policies if p["name"] == n) for n in ("lazy", "fifo"))
    assert summary.gain(lazy, "score") is None
    assert summary.is_best(fifo, "score") and not summary.is_best(lazy, "score")
    left = "lazy (12.0\u00a0% finish) leaves jobs unfinished"
    assert left in comparison_table(summary).caption
    assert left in render_html(summary.comparison)


def test_baselines_that_leave_jobs_unfinished_are_no_rivals():
    summary = with_finished(
        tiny(
            constant("fifo", "baseline", 8.0), constant("quitter", "baseline", 1.0),
            constant("nearly", "baseline", 9.0), constant("learned", "learned", 2.0),
            better="lower",
        ),
        quitter=50, nearly=99.95,
    )  # fmt: skip
    assert summary.best_baseline("score")["name"] == "fifo"
    assert [p["name"] for p in summary.policies] == ["learned", "fifo", "nearly", "quitter"]
    assert summary.verdict.won is True
    words = "ahead of fifo, the best rule here, a baseline, on score: 2.00 and 8.00"
    assert words in summary.verdict.headline
    assert summary.verdict.detail.endswith(
        "quitter (50.0\u00a0% finish) leaves jobs unfinished, so means over finished jobs are not "
        "compared."
    )


def test_what_finishes_nothing_is_unfinished_even_alone():
    alone = with_finished(tiny(constant("lazy", "learned", 0.0), better="lower"), lazy=0)
    assert alone.verdict.headline.endswith("lazy finishes only 0.0\u00a0% of the jobs.")
    rules = tiny(
        constant("quitter", "baseline", 1.0), constant("strict", "reference", 2.0), better="lower"
    )  # fmt: skip
    verdict = with_finished(rules, quitter=50).verdict
    assert verdict.headline == "Best rule in score: strict, 2.00."


def test_best_baseline_is_taken_per_metric_and_never_a_reference(comparison):
    summary = Summary(check(comparison), resamples=50)
    assert summary.best_baseline("avg_effectiveness")["name"] == "dsif"
    assert summary.best_baseline("fragmentation")["name"] == "fifo"
    assert summary.best_baseline("utilization") is None


def test_policies_are_ordered_by_kind_then_value(comparison):
    names = [p["name"] for p in Summary(check(comparison), resamples=50).policies]
    assert names[:3] == ["learned", "strict", "dsif"]
    assert names[-1] == "lrf"


def test_seeds_widen_the_interval():
    toy = tiny(constant("learned", "learned", 1.0))
    toy["policies"][0]["metrics"]["score"] = [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    cell = Summary(check(toy)).cells["learned", "score"]
    assert cell.estimate == 2.0
    assert cell.half_width >= 0.6


# The terminal table


def printed(table, width=100):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_terminal_table_fits_and_holds_the_numbers(comparison):
    text = printed(comparison_table(comparison))
    summary = Summary(check(comparison))
    assert "…" not in text
    assert all(len(line) <= 100 for line in text.splitlines())
    for name in ("learned", "strict", "dsif"):
        cell = summary.cells[name, "avg_effectiveness"]
        assert f"{cell.estimate:.3f}" in text
    assert "±" in text
    assert "x best" in text


def test_terminal_table_options(comparison):
    table = comparison_table(comparison, metrics=["avg_jct"], policies=["fifo", "learned"])
    assert table.row_count == 1
    assert len(table.columns) == 4  # metric, learned, fifo, gain
    assert len(comparison_table(without(comparison, "baseline")).columns) == 3


# The schema


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: c.pop("title"), "'title' is missing"),
        (lambda c: c.update(policies=[]), "policies: is empty"),
        (lambda c: c.update(metrics={}), "metrics: is empty"),
        (lambda c: c.update(facts=[]), "facts: found list, expected an object"),
        (lambda c: c.update(primary="speed"), "primary: 'speed', expected one of"),
        (lambda c: c["episodes"].update(count=0), "integer of at least 1"),
        (lambda c: c["metrics"]["avg_jct"].update(better="up"), "higher, lower, neither"),
        (lambda c: c["policies"][0].update(kind="hero"), "baseline, reference, learned"),
        (lambda c: c["policies"][1].update(name="fifo"), "occurs twice"),
        (lambda c: c["policies"][0]["metrics"].update(x=[1.0]), "unknown metric"),
        (
            lambda c: c["policies"][0]["metrics"]["avg_jct"].pop(),
            r"policies\[0\] \(fifo\).metrics\['avg_jct'\]: has 5 values, expected 6",
        ),
        (
            lambda c: c["policies"][7]["metrics"]["avg_jct"][1].pop(),
            r"\(learned\).metrics\['avg_jct'\]\[1\]: has 5 values",
        ),
        (
            lambda c: c["policies"][0]["metrics"].update(avg_jct=[float("nan")] * 6),
            "expected a finite number",
        ),
        (lambda c: c["policies"][0]["curves"].update(a=["x"]), "finite number"),
        (lambda c: c["learning_curve"]["series"][0]["y"].pop(), "values, expected 31 as in x"),
        (lambda c: c["gantt"]["panels"][0]["jobs"][0].update(gpus=[120]), "expected 0..119"),
        (lambda c: c["gantt"]["panels"][0]["jobs"][0].update(finish=-1), "before start"),
        (lambda c: c["paper"]["rows"][0].update(verdict="met"), "accepted: reproduced, direction"),
        (lambda c: c["paper"]["rows"][0].pop("here"), "'here' is missing"),
    ],
)
def test_schema_errors_name_the_place(comparison, spoil, message):
    spoil(comparison)
    with pytest.raises(JaxschedError, match=message) as error:
        check(comparison)
    assert "\n" not in str(error.value)


def test_schema_refuses_what_is_no_object():
    with pytest.raises(JaxschedError, match="comparison: found list, expected an object"):
        check([])


# Pieces


def test_gantt_runs_merge_adjacent_gpus_of_one_server():
    assert runs([0, 1, 2, 5, 7, 8, 9], 8) == [(0, 3), (5, 1), (7, 1), (8, 2)]
    assert runs([], 8) == []


def test_split_share_weighs_by_gpu_time():
    jobs = [
        {"start": 0, "finish": 10, "level": 0, "gpus": [0], "num_gpus": 1},
        {"start": 0, "finish": 10, "level": 2, "gpus": [1, 2, 3], "num_gpus": 3},
    ]
    cluster = {"episode": "e", "num_servers": 1, "gpus_per_server": 4}
    gantt = {
        **cluster,
        "panels": [{"policy": name, "jobs": of} for name, of in (("a", jobs), ("b", []))],
    }
    assert [upper_share(schedule) for schedule in schedules_of(gantt)] == [0.75, 0.0]


def test_labels_are_spread_in_order():
    assert spread([10.0, 11.0, 50.0], 10, 0, 100) == [5.5, 15.5, 50.0]
    assert spread([99.0, 98.0], 10, 0, 100) == [100.0, 90.0]
    assert spread([], 10, 0, 100) == []


def test_ticks_are_round():
    assert ticks(0, 1, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(0, 366_473, 4) == [0, 100_000, 200_000, 300_000]
    assert ticks(3, 3, 5) == [3]


def test_smoothing_keeps_length_and_means():
    assert smooth([1.0, 4.0, 1.0, 4.0], 3).tolist() == [2.5, 2.0, 3.0, 2.5]
    assert smooth([1.0, 2.0], 1).tolist() == [1.0, 2.0]


def test_stored_comparisons_with_former_words_are_read():
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "sched2_quick_cpu2.json"
    stored = read_json(path)
    kinds = {policy["name"]: policy["kind"] for policy in stored["policies"]}
    assert kinds["strict"] == "yardstick"
    read = check(stored)
    assert [p["name"] for p in Summary(read, resamples=50).of_kind("reference")] == ["strict"]
    assert kinds == {policy["name"]: policy["kind"] for policy in stored["policies"]}
    assert 'class="reference c-reference0"' in render_html(stored)


def test_own_figures_are_checked():
    words = {"queue": {"title": "Q", "note": ""}}
    group = {"title": "Times", "note": "", "metrics": ["avg_jct", "makespan"]}
    good = {**SMALL, "figures": {"curves": words, "groups": [group]}}
    assert check(good) is good
    assert "<h2>Times</h2>" in render_html(good)
    for figures, message in (
        ({"groups": [{"title": "Times", "metrics": []}]}, "groups.0.: 'note' is missing"),
        ({"curves": {"queue": "long"}}, "figures.curves.'queue'.: found str"),
        ([], "figures: found list"),
    ):
        with pytest.raises(JaxschedError, match=message):
            check({**SMALL, "figures": figures})


def in_seconds(*means):
    policies = [constant(f"p{n}", "baseline", mean) for n, mean in enumerate(means)]
    comparison = tiny(*policies, better="lower")
    comparison["metrics"]["score"] |= {"unit": "s", "digits": 1}
    return comparison


@pytest.mark.parametrize(
    ("means", "unit", "shown"),
    [
        ((30.0, 90.0), "s", ["30.0", "90.0"]),
        ((5633.0, 24917.0, 42900.0), "h", ["1.56", "6.92", "11.92"]),
        ((2.678e6, 2.0e6), "days", ["23.1", "31.0"]),
        ((336.0, 17816.0, 17816.0), "h", ["0.093", "4.949", "4.949"]),
        ((0.0, 0.0), "s", ["0.0", "0.0"]),
    ],
)
def test_seconds_are_shown_in_a_unit_that_suits_them(means, unit, shown):
    comparison = in_seconds(*means)
    before = copy.deepcopy(comparison)
    summary = Summary(in_readable_units(check(comparison)), resamples=50)
    assert summary.metrics["score"]["unit"] == unit
    assert [summary.shown(p, "score") for p in summary.policies] == shown
    assert comparison == before, "what is stored keeps seconds"


def learning(ys, **levels):
    rivals = [constant(name, "baseline", level) for name, level in levels.items()]
    comparison = tiny(constant("learned", "learned", ys[-1]), *rivals)
    comparison["learning_curve"] = {
        "x_label": "episodes", "y_label": "score", "metric": "score", "levels": levels,
        "series": [{"seed": 0, "x": list(range(len(ys))), "y": ys}],
    }  # fmt: skip
    return comparison


def test_a_far_baseline_does_not_flatten_the_learning_curve():
    comparison = learning([0.93, 0.95, 0.96, 0.965], near=0.94, far=0.45)
    page = render_html(comparison)
    assert learning_limits(Summary(check(comparison))) == (0.93, 0.965, None)
    comparison = learning([0.93, 0.95, 0.96, 0.965], far=0.45)
    assert learning_limits(Summary(check(comparison))) == (0.93, 0.965, None)
    assert "far 0.45 \u2193" in render_html(comparison)
    assert "near 0.94</text>" in page and "with an arrow where they lie outside the axis" in page


def test_early_evaluations_far_away_are_said_not_drawn():
    comparison = learning([90_000.0, 5.2, 5.1, 5.0, 4.9, 4.8, 4.7, 4.7], rule=5.0)
    comparison["metrics"]["score"]["better"] = "lower"
    limits = learning_limits(Summary(check(comparison)))
    assert limits.high < 6 and limits.cut == 90_000.0
    assert "evaluations outside the axis, up to 90\u202f000.000," in render_html(comparison)


def test_curves_over_time_end_with_the_last_job(comparison):
    summary = Summary(check(comparison), resamples=50)
    line = Line("waiting", "jobs", np.array([0.0, 50.0]), np.array([2.0, 0.0]))
    drawn = over_time(
        summary, {"fifo": line, "strict": line}, title="jobs",
        ends={"fifo": 100.0, "strict": 50.0}, width=500,
    )  # fmt: skip
    ends = [
        float(re.findall(r"[\d.]+", points.rpartition("L")[2] or points)[-2])
        for points in re.findall(r'class="curve" d="([^"]*)"', drawn)
    ]
    assert len(ends) == 2 and min(ends) < 0.7 * max(ends)


@pytest.mark.parametrize("terminal", [False, True])
def test_names_are_never_cut(terminal):
    names = ["strict_sif_with_a_long_name", *(f"baseline_number_{n}" for n in range(8))]
    kinds = ["learned", *["baseline"] * 8]
    policies = [constant(name, kind, 1.5) for name, kind in zip(names, kinds, strict=True)]
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=terminal, color_system=None)
    table, left_out = fitting_table(Summary(check(tiny(*policies)), resamples=50), console)
    console.print(table)
    words = out.getvalue()
    assert "\u2026" not in words
    assert bool(left_out) == terminal
    if not terminal:
        assert all(name in words for name in names)


def test_claims_of_files_from_before_have_no_verdict():
    old = {"item": "JCT", "paper": 0.89, "here": 0.68, "accept": "<= 0.92", "met": True}
    assert html_page._claim(old)["verdict"] is None and html_page._claim(old)["accepted"] == ""
    new = {"item": "JCT", "paper": 0.89, "here": 0.68, "accept": "0.8625 to 0.9175"}
    shown = html_page._claim(new | {"verdict": "not reproduced"})
    assert (shown["accepted"], shown["style"]) == ("0.8625 to 0.9175", "unmet")
