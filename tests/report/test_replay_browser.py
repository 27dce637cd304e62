"""Opens the replay page of every system in a headless Chromium and uses it as a reader would."""

import html
import json
from dataclasses import replace

import numpy as np
import pytest

from jaxsched.jobs.schedule import Band, Decisions, Fact, Pieces
from jaxsched.report.replay import write_replay
from tests.report.browser import MARKS, chromium, distinct_rows
from tests.report.recorded import SYSTEMS, recorded

pytestmark = MARKS

# Before all else: what goes wrong while the page is made and used.
WATCH = """<head><script>
window.problems = [];
addEventListener("error", (event) => problems.push(event.message));
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
for (const kind of ["error", "warn"]) console[kind] = (...words) => problems.push(words.join(" "));
</script>"""

# Points, zooms, pans, searches and changes colours; notes what came of it.
PROBE = """<script>
const page = window.replay, panel = page.panels[0], over = panel.over, told = {};
const by = (id) => document.getElementById(id);
page.draw();
const tracks = panel.tracks, {area} = panel;
let longest = 0;
for (let i = 0; i < tracks.n; i++) {
  if (tracks.end[i] - tracks.start[i] > tracks.end[longest] - tracks.start[longest]) longest = i;
}
const at = () => {
  const v = panel.view, box = over.getBoundingClientRect();
  const when = (tracks.start[longest] + tracks.end[longest]) / 2;
  const row = tracks.row[longest] + tracks.rows[longest] / 2;
  return {
    clientX: box.left + area.left + (when - v.t0) / (v.t1 - v.t0) * area.width,
    clientY: box.top + area.top + (row - v.r0) / (v.r1 - v.r0) * area.height,
    bubbles: true, cancelable: true,
  };
};
const pixelAt = () => {
  const {clientX, clientY} = at(), box = over.getBoundingClientRect(), s = panel.scale;
  const data = panel.base.getContext("2d").getImageData(
    Math.round((clientX - box.left) * s), Math.round((clientY - box.top) * s) + 2, 1, 1).data;
  return pixel("#" + [...data.slice(0, 3)].map((b) => b.toString(16).padStart(2, "0")).join(""));
};
const key = (name, more) => {
  document.dispatchEvent(new KeyboardEvent("keydown", {key: name, cancelable: true, ...more}));
  page.draw();
};
told.painted = page.panels.map((one) => one.painted);
told.colour = pixelAt() === panel.colour().of(longest);
over.dispatchEvent(new PointerEvent("pointermove", at()));
told.hovered = page.hovered === tracks.job[longest];
told.tip = by("tip").hidden ? "" : by("tip").textContent;
told.card = by("job").textContent;
told.now = by("now").textContent;
told.legend = by("legend").textContent;
const span = () => (page.t1 - page.t0) / page.end;
over.dispatchEvent(new WheelEvent("wheel", {...at(), deltaY: -60})); page.draw();
told.wheel = span();
told.under = panel.under(at().clientX - over.getBoundingClientRect().left,
  at().clientY - over.getBoundingClientRect().top).piece === longest;
key("+"); told.plus = span();
key("End"); told.ended = page.t1 === page.end;
const before = page.t0; key("ArrowLeft"); told.left = page.t0 < before;
key("Home"); told.home = page.t0 === 0;
key("["); const {r0, r1} = panel.view;
told.fewer = r1 - r0 < panel.tracks.count || panel.tracks.count <= 4;
key("0"); told.all = span() === 1 && panel.rows === null;
key("/"); told.focused = document.activeElement.id;
const box = by("search");
box.value = "1"; box.dispatchEvent(new Event("input")); page.draw();
told.found = by("found").textContent; told.pinned = page.pinned;
const kind = panel.schedule.models[panel.schedule.model[0]];
box.value = kind; box.dispatchEvent(new Event("input")); page.draw();
told.kind = page.found.includes(0);
box.value = "no such thing"; box.dispatchEvent(new Event("input"));
told.nothing = by("found").textContent; box.value = ""; box.blur();
key("0");
told.colours = [...by("colour").options].map((option) => {
  by("colour").value = option.value; by("colour").dispatchEvent(new Event("change")); page.draw();
  return `${option.value}: ${pixelAt() === panel.colour().of(longest)}`;
});
key("0");
by("rows").value = "jobs"; by("rows").dispatchEvent(new Event("change")); page.draw();
told.jobs = [panel.tracks.count, panel.painted];
dispatchEvent(new Event("beforeprint")); page.draw();
told.printed = page.theme === page.colours.light;
dispatchEvent(new Event("afterprint"));
told.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
told.decisions = [...document.querySelectorAll("[id^=decision]")].map((one) => one.textContent);
told.problems = problems;
document.body.dataset.told = JSON.stringify(told);
</script>"""


def asked(folder, page, script=PROBE):
    """What a probe notes of a page."""
    probe = folder / "probe.html"
    text = page.read_text(encoding="utf-8").replace("<head>", WATCH, 1)
    probe.write_text(text.replace("</body>", script + "</body>"), encoding="utf-8")
    dom = chromium(folder / "profile", probe, "--window-size=1400,1200", "--dump-dom")
    return json.loads(html.unescape(dom.split('data-told="')[1].split('"')[0]))


def page_of(system, folder):
    """The page of a small case of a system, twice beside each other."""
    schedule = recorded(system)
    jobs, kept = len(schedule.submit), 5
    decisions = Decisions(
        times=np.linspace(0, schedule.end, kept), inputs=("server0.free", "server1.free", "age"),
        seen=np.arange(3.0 * kept).reshape(kept, 3), choices=("go", "stay", "never"),
        scores=np.tile([1.5, 2.5, np.nan], (kept, 1)), chosen=np.ones(kept, int),
    )  # fmt: skip
    if system == "das":  # answers with numbers for each position, of which the second is empty
        decisions = replace(
            decisions, choices=("server0.up", "server1.up", "server0.down"),
            scores=np.tile([1.5, 77.5, 3.25], (kept, 1)), chosen=np.full(kept, -1),
            seen=np.tile([1.0, 0.0, 2.0], (kept, 1)),
        )  # fmt: skip
    again = replace(schedule, policy="again", decisions=decisions)
    path = write_replay([schedule, again], folder / "page.html", title=system, facts={})
    return path, jobs


@pytest.mark.parametrize(
    "system",
    [
        system if system in ("sched2", "dl2") else pytest.param(system, marks=pytest.mark.slow)
        for system in SYSTEMS
    ],
)
def test_the_page_can_be_used(system, tmp_path):
    path, jobs = page_of(system, tmp_path)
    told = asked(tmp_path, path)
    assert told["problems"] == []
    assert told["overflow"] == 0
    assert told["painted"][0] == told["painted"][1] > 0
    assert told["colour"] and told["hovered"] and told["under"]
    assert "job" in told["tip"] and "completion time" in told["card"] and "at " in told["now"]
    assert told["wheel"] < 0.8 and told["plus"] < told["wheel"]
    assert told["ended"] and told["left"] and told["home"] and told["fewer"] and told["all"]
    assert told["focused"] == "search"
    assert told["found"] == "1 of 1: job 1" and told["pinned"] == 1
    assert told["kind"] and told["nothing"] == "no such job"
    assert len(told["colours"]) >= 2 and all(one.endswith("true") for one in told["colours"])
    assert told["jobs"][0] == jobs and told["jobs"][1] > 0
    assert told["printed"]
    (decision,) = told["decisions"]
    assert "What it saw" in decision and "server1" in decision
    if system == "das":
        assert "What it answeredupdown" in decision and "3.25" in decision
        assert "77.5" not in decision
    else:
        assert "stay (chosen)" in decision and "1 not legal" in decision


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_are_not_blank(scheme, tmp_path):
    path, _ = page_of("das", tmp_path)
    shot = tmp_path / "shot.png"
    options = ["--window-size=1000,1100", f"--screenshot={shot}", "--virtual-time-budget=2000"]
    if scheme == "dark":
        options.append("--blink-settings=preferredColorScheme=0")
    chromium(tmp_path / "profile", path, *options)
    width, height, distinct = distinct_rows(shot.read_bytes())
    assert (width, height) == (1000, 1100)
    assert distinct > 300


def test_the_page_prints(tmp_path):
    path, _ = page_of("sched2", tmp_path)
    printed = tmp_path / "page.pdf"
    chromium(tmp_path / "profile", path, f"--print-to-pdf={printed}")
    assert printed.read_bytes().startswith(b"%PDF") and printed.stat().st_size > 20_000


CROWD_PROBE = """<script>
const page = window.replay, by = (id) => document.getElementById(id), told = {};
page.draw();
told.first = [page.rowsOf, page.colourBy, by("rows").value, by("colour").value];
told.note = page.panels[0].note.textContent;
by("rows").value = "places"; by("rows").dispatchEvent(new Event("change")); page.draw();
told.share = (page.t1 - page.t0) / page.end;
told.px = page.panels[0].area.width / (page.t1 - page.t0) * 2;  // of a piece of 2 s
told.part = page.panels[0].note.textContent;
by("all").click(); page.draw();
told.whole = page.panels[0].note.textContent;
by("rows").value = "jobs"; by("rows").dispatchEvent(new Event("change")); page.draw();
told.back = (page.t1 - page.t0) === page.end;
told.problems = problems;
document.body.dataset.told = JSON.stringify(told);
</script>"""


def test_what_cannot_be_told_apart_begins_with_a_row_for_each_job(tmp_path):
    schedule = recorded("sched2")
    jobs = len(schedule.submit)
    slices = [(n % jobs, 0, 1, 2.0 * n, 2.0 * n + 2, 0) for n in range(40_000)]
    few = Fact("deadline", ["met" if job % 2 else "missed" for job in range(jobs)])
    crowded = replace(
        schedule, pieces=Pieces.of(slices), bands=(Band("server 0", 1),), facts=(few,),
        finish=np.full(jobs, 80_000.0), lines=(), marks=(), decisions=None,
    )  # fmt: skip
    path = write_replay([crowded], tmp_path / "page.html", title="crowded", facts={})
    told = asked(tmp_path, path, CROWD_PROBE)
    assert told["problems"] == []
    assert told["first"] == ["jobs", "deadline", "jobs", "deadline"]
    assert "40 000 pieces on 1 row of the cluster cannot be told apart" in told["note"]
    assert told["share"] < 0.01 and told["px"] > 10, "a window in which single pieces can be seen"
    assert told["part"].startswith("In view: ")
    assert "zoom in, or choose rows: jobs" in told["whole"] and told["back"]
