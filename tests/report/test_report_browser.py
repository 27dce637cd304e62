"""Opens the report in a headless Chromium and looks at what a reader would see."""

import pytest

from jaxsched.report import write_html
from tests.report.browser import MARKS, chromium, distinct_rows
from tests.report.sample_comparison import sample_comparison

pytestmark = MARKS

# Sorts by JCT, falling, as a reader would, and notes what is wider than the page.
PROBE = """<script>
const head = [...document.querySelectorAll("table.policies th")]
  .find(th => th.textContent.startsWith("JCT"));
head.querySelector("button").click(); head.querySelector("button").click();
const rows = [...document.querySelectorAll("table.policies tbody tr")];
document.body.dataset.sorted = head.getAttribute("aria-sort") + ":" +
  rows.map(row => row.cells[0].dataset.v).join(",");
document.body.dataset.overflow =
  document.documentElement.scrollWidth - document.documentElement.clientWidth;
const shown = [...document.querySelectorAll("svg.chart")].filter(s => s.clientWidth > 0);
document.body.dataset.charts = shown.length;
document.body.dataset.outside = shown.flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => {
    const t = text.getBoundingClientRect();
    return t.left < box.left - 8 || t.right > box.right + 14;
  }).map(text => text.textContent);
}).join("|");
</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_html(sample_comparison(episodes=8, jobs=200), folder / "report.html")


@pytest.mark.parametrize("width", [1280, 400])
def test_page_in_the_browser(report, tmp_path, width):
    probe = tmp_path / "probe.html"
    probe.write_text(report.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"))
    dom = chromium(tmp_path / "profile", probe, f"--window-size={width},2000", "--dump-dom")
    assert "It beats every baseline of the paper." in dom
    assert '<table class="policies"' in dom
    assert 'data-charts="13"' in dom  # one layout of each figure, never both
    assert 'data-overflow="0"' in dom
    assert 'data-outside=""' in dom
    order = dom.split('data-sorted="')[1].split('"')[0]
    assert order.startswith("descending:lrf,")
    assert order.endswith(",strict,learned")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshot_is_not_blank(report, tmp_path, scheme):
    shot = tmp_path / "shot.png"
    options = ["--window-size=1000,1600", f"--screenshot={shot}"]
    if scheme == "dark":
        options.append("--blink-settings=preferredColorScheme=0")
    chromium(tmp_path / "profile", report, *options)
    width, height, distinct = distinct_rows(shot.read_bytes())
    assert (width, height) == (1000, 1600)
    assert distinct > 300
