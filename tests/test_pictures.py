"""Pictures for papers: their formats, and the data beside them."""

import csv
import io
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.papers import command, figures
from jaxsched.errors import JaxschedError
from jaxsched.pictures import (
    COLUMN_IN,
    data_of,
    data_path,
    legend_above,
    legend_beside,
    new_figure,
    save_figure,
    styled,
)
from jaxsched.report.plot import plot_comparison
from tests.report.sample_comparison import sample_comparison


@styled
def drawn():
    """A line, error bars, bars and a band, in two panels."""
    figure = new_figure(COLUMN_IN, 2.0)
    left, right = figure.subplots(1, 2)
    left.plot([1, 2], [3.0, 4.5], label="line")
    left.errorbar([1], [2.0], yerr=[[0.5], [1.0]], label="errors")
    left.set(title="Left", xlabel="time (s)")
    legend_above(left)
    right.bar([0, 1], [0.25, 0.75], 0.8, yerr=[[0.05, 0.1], [0.05, 0.1]], label="bars")
    right.set_xticks([0, 1], ["a", "b"])
    right.fill_between([0, 1], [0, 0], [1, 1], label="band")
    right.set(ylabel="share")
    legend_beside(right)
    return figure


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_all_numbers_of_a_picture_are_told():
    rows = rows_of(data_of(drawn()))
    told = {
        (row["panel"], row["series"], row["x"]): (row["y"], row["low"], row["high"])
        for row in rows
        if "outline" not in row["series"]
    }
    assert told == {
        ("Left", "line", "1"): ("3", "", ""),
        ("Left", "line", "2"): ("4.5", "", ""),
        ("Left", "errors", "1"): ("2", "1.5", "3"),
        ("share", "bars", "a"): ("0.25", "0.2", "0.3"),
        ("share", "bars", "b"): ("0.75", "0.65", "0.85"),
    }
    band = {(row["x"], row["y"]) for row in rows if row["series"] == "band (outline)"}
    assert {("0", "1"), ("1", "1")} <= band


@pytest.mark.parametrize(("ending", "magic"), [(".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_printed_pictures_hold_their_letters_and_lie_beside_their_data(tmp_path, ending, magic):
    written = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}{ending}"
        save_figure(drawn(), path)
        written.append(path.read_bytes())
        assert rows_of(data_path(path).read_text())[0]["series"] == "errors"
    assert written[0] == written[1] and written[0].startswith(magic)
    if ending == ".pdf":
        width = float(written[0].split(b"/MediaBox [")[1].split()[2])
        assert width == pytest.approx(72 * COLUMN_IN)
        assert b"/FontFile2" in written[0] and b"/Type3" not in written[0]
    else:
        assert b"<text" not in written[0]


def test_pictures_for_screens_come_alone_and_other_endings_are_refused(tmp_path):
    save_figure(drawn(), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    with pytest.raises(JaxschedError, match=r"ends in \.png or \.svg or \.pdf"):
        save_figure(drawn(), tmp_path / "a.jpg")


def test_legends_lie_outside_the_data():
    figure = drawn()
    figure.draw_without_rendering()
    for axes in figure.axes:
        legend, panel = axes.get_legend().get_window_extent(), axes.get_window_extent()
        assert legend.y0 >= panel.y1 - 1 or legend.x0 >= panel.x1 - 1


def test_a_comparison_as_bars(tmp_path):
    comparison = sample_comparison(episodes=6, jobs=30, seeds=2)
    plot_comparison(comparison, tmp_path / "bars.pdf")
    rows = rows_of((tmp_path / "bars.data.csv").read_text())
    learned = np.mean(comparison["policies"][-1]["metrics"]["avg_effectiveness"])
    found = next(r for r in rows if (r["panel"], r["x"]) == ("Effectiveness", "learned"))
    assert float(found["y"]) == pytest.approx(learned)
    assert float(found["low"]) < learned < float(found["high"])
    assert len(rows) == 3 * len(comparison["policies"])


def test_rows_of_papers_are_written_in_the_formats_that_are_asked_for(tmp_path):
    arguments = command.parser_of("das", None).parse_args(["--pictures", "pdf,svg"])
    paper = SimpleNamespace(quick_sizes={})
    settings = command.settings_of(arguments, paper, "das")
    assert settings.pictures == (".pdf", ".svg") and "pictures" not in settings.deciding()

    def draw(figure):
        axes = figure.subplots()
        figures.lines(axes, [1, 2], {"a": [1.0, 2.0]}, x_label="load", y_label="JCT (s)")

    figures.save(tmp_path / "new" / "T1.png", draw, settings.pictures)
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["T1.data.csv", "T1.pdf", "T1.png", "T1.svg"]
    (first, _) = rows_of((tmp_path / "new" / "T1.data.csv").read_text())
    assert (first["panel"], first["series"], first["y"]) == ("JCT (s)", "a", "1")
    with pytest.raises(JaxschedError, match="ends in"):
        command.settings_of(
            command.parser_of("das", None).parse_args(["--pictures", "bmp"]), paper, "das"
        )
