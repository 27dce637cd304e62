"""The leaderboard's page: what travels in it, and what a reader can do with it in a browser."""

import html
import json
import re

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.report.leaderboard import render_leaderboard, write_leaderboard
from tests.leaderboard.sample import document
from tests.report.browser import MARKS, chromium, distinct_rows
from tests.report.test_replay_browser import WATCH


def test_the_page_is_whole_and_loads_nothing():
    found = document(3, 2)
    found["pieces"]["workload-0@0.9"]["workload"] = "</script><script>x"
    text = render_leaderboard(found)
    assert not re.search(r'(src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|url\("?http', text)
    data = text.split('id="data">')[1].split("</script>")[0]
    content = json.loads(data)
    workloads = {workload["name"]: workload["boards"] for workload in content["workloads"]}
    assert "</script><script>x" in workloads and content["main"] == "0.9"
    row = workloads["workload-1"][2]["rows"]["policy-1"]
    piece = found["pieces"]["workload-1@0.9"]["standings"][1]
    assert row["ratio"] == pytest.approx(piece["jct_ratio"], rel=1e-5)
    assert workloads["workload-1"][2]["unit"] == "h"
    assert row["jct"] == pytest.approx(piece["avg_jct"]["estimate"] / 3600, rel=1e-5)
    assert row["ends"] is None and row["worst"] == 4.0
    assert "evicted" not in row


def test_it_opens_at_the_load_that_was_asked_for():
    found = document(3, 2, loads=(0.6, 0.85, 0.9))
    for load, key in ((0.85, "0.85"), (0.6, "0.6"), (None, "own")):
        text = render_leaderboard({**found, "load": load if load else 0.9})
        assert ('"main":"0.9"' if load is None else f'"main":"{key}"') in text
    for piece in found["pieces"].values():
        if piece["asked_load"] == 0.85:
            piece["asked_load"] = None
    text = render_leaderboard({**found, "load": None})
    assert '"main":"own"' in text and '["own","as submitted"],["0.6","0.6"]' in text


def test_the_recommendation_stands_at_the_top_without_the_script():
    text = render_leaderboard(document(12, 2))
    top = text.split("<noscript>")[0]
    assert 'id="headline">policy-0 has the lowest mean completion time: ' in top
    assert "It needs to know nothing of run times and suspends jobs." in top
    assert "Where jobs cannot be suspended: policy-1, " in top
    assert "/ bound" not in text and "JCT over" not in text


def test_without_workloads_there_is_no_page():
    with pytest.raises(JaxschedError, match="no workload to show; accepted: one or more"):
        render_leaderboard({**document(1, 1), "pieces": {}})


# Sorts, filters, drills down, chooses lines; notes what came of it.
PROBE = """<script>
const told = {}, by = (id) => document.getElementById(id);
const rows = () => [...by("rows").rows].map((row) => row.cells[0].dataset.v);
const heads = () => [...by("heads").cells].filter((cell) => !cell.hidden);
const change = (id, value) => {
  by(id).value = value; by(id).dispatchEvent(new Event("change", {bubbles: true}));
};
told.first = rows().slice(0, 2);
told.headline = by("headline").textContent;
told.columns = [heads().length];
told.bars = [...document.querySelectorAll(".bar-fill")]
  .map((bar) => [Number(bar.getAttribute("x")), Number(bar.getAttribute("width"))]);
told.whiskers = [...document.querySelectorAll(".bar-line")]
  .map((line) => Number(line.getAttribute("d").match(/^M([-\\d.e]+)/)[1]));
heads()[2].querySelector("button").click(); heads()[2].querySelector("button").click();
told.sorted = [heads()[2].getAttribute("aria-sort"), rows().at(-1)];
const box = document.querySelector("input[name=knows][value='run times']");
box.click();
told.without = rows(); told.still = rows().at(-1); told.count = by("count").textContent;
box.click();
by("search").value = "y-2"; by("search").dispatchEvent(new Event("input", {bubbles: true}));
told.named = rows(); by("search").value = "";
by("search").dispatchEvent(new Event("input", {bubbles: true}));
told.lines = [document.querySelectorAll("#lines .strong-line").length,
  document.querySelectorAll("#lines .faint-line").length];
by("rows").rows[0].querySelector("button").click();
told.chosen = document.querySelectorAll("#lines .strong-line").length;
told.matrix = [by("names").cells.length, by("cells").rows.length];
by("names").cells[1].querySelector("button").click();
told.workload = [by("workload").value, by("which").textContent, document.activeElement.id];
told.columns.push(heads().length);
told.about = by("about").textContent; told.notes = by("notes").textContent;
told.intervals = [...document.querySelectorAll(".bar-line")].length;
told.clipped = [...document.querySelectorAll(".bar-line")]
  .map((line) => Number(line.getAttribute("d").match(/^M([-\\d.e]+)/)[1]));
change("load", "0.6"); told.load = by("which").textContent;
change("workload", "workload-2"); told.columns.push(heads().length);
const further = [...by("priority-heads").cells];
told.heads = further.slice(7).map((cell) => cell.textContent);
further[7].querySelector("button").click();
told.evicted = [...by("priority-rows").rows].slice(0, 3).map((row) => row.cells[7].textContent);
told.further = [by("priorities").hidden, further.some((cell) => cell.hidden)];
change("workload", "all"); told.columns.push(heads().length);
told.further.push(by("priorities").hidden);
told.focusable = [...document.querySelectorAll("button,select,input")]
  .every((one) => one.tabIndex >= 0);
told.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
told.problems = problems;
document.body.dataset.told = JSON.stringify(told);
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_leaderboard(document(), tmp_path_factory.mktemp("page") / "deep" / "board.html")


@pytest.mark.browser
@MARKS[1]
def test_a_reader_uses_it(page):
    probe = page.with_name("probe.html")
    text = page.read_text(encoding="utf-8").replace("<head>", WATCH, 1)
    probe.write_text(text.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    dom = chromium(page.parent / "profile", probe, "--window-size=420,900", "--dump-dom")
    told = json.loads(html.unescape(dom.split('data-told="')[1].split('"')[0]))
    assert told["problems"] == [] and told["overflow"] == 0 and told["focusable"]
    assert told["first"] == ["policy-0", "policy-1"]
    assert told["headline"].startswith("policy-0 has the lowest mean completion")
    assert told["columns"] == [3, 13, 13, 3], "columns without a figure are left out"
    assert told["heads"] == [
        "spot: runs that were evictedshare",
        "GPU time held beyond run timesGPU h",
        "the same, of what spot jobs heldshare",
    ]
    assert told["evicted"] == ["0.00", "0.01", "0.02"] and told["further"] == [False, False, True]
    assert len(told["bars"]) == 30
    assert all(x == 0 and 0 <= width <= 100 for x, width in told["bars"])
    assert told["sorted"] == ["descending", "policy-0"]
    assert len(told["without"]) == 22 and told["still"] == "policy-0", "filters keep the order"
    assert told["count"].startswith("22 of 30 policies")
    assert sorted(told["named"]) == ["policy-2", *(f"policy-2{k}" for k in range(10))]
    assert told["lines"] == [6, 24] and told["chosen"] == 7
    assert told["matrix"] == [14, 30]
    assert told["workload"][:2] == ["workload-0", "workload-0 at a load of 0.9"]
    assert told["workload"][2] == "workload"
    assert "5 draws of 20,000 jobs on 57 × 8 GPUs" in told["about"]
    assert "<b>shares</b> of a GPU" in told["notes"], "texts stay texts"
    assert told["intervals"] == 30
    assert min(told["whiskers"] + told["clipped"]) == 0, "nothing is drawn below the bound"
    assert told["load"] == "workload-0 at a load of 0.6"


# Widths of tables beyond their frames, for every workload: what a reader would not see.
WIDTHS = """<script>
const cut = {};
for (const option of document.getElementById("workload").options) {
  const choice = document.getElementById("workload");
  choice.value = option.value; choice.dispatchEvent(new Event("change"));
  cut[option.value] = Math.max(...[...document.querySelectorAll(".scroll")]
    .map((frame) => frame.scrollWidth - frame.clientWidth));
}
document.body.dataset.told = JSON.stringify(cut);
</script>"""


@pytest.mark.browser
@MARKS[1]
def test_no_column_is_cut_at_1280_pixels(page):
    probe = page.with_name("widths.html")
    text = page.read_text(encoding="utf-8")
    probe.write_text(text.replace("</body>", WIDTHS + "</body>"), encoding="utf-8")
    dom = chromium(page.parent / "profile", probe, "--window-size=1280,900", "--dump-dom")
    cut = json.loads(html.unescape(dom.split('data-told="')[1].split('"')[0]))
    assert len(cut) == 13 and max(cut.values()) == 0, cut


@pytest.mark.browser
@MARKS[1]
@pytest.mark.parametrize("options", [["--window-size=1300,1600"], ["--window-size=420,1600"]])
def test_it_is_drawn(page, tmp_path, options):
    shot = tmp_path / "page.png"
    chromium(page.parent / "profile", page, *options, "--hide-scrollbars", f"--screenshot={shot}")
    width, height, rows = distinct_rows(shot.read_bytes())
    assert height == 1600 and rows > 300
