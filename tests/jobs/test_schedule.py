"""Recorded schedules as data: what is written, and the rows that pieces get."""

import json

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs.lanes import Lanes, runs, shared_rows, stacks
from jaxsched.jobs.numbers import json_numbers
from jaxsched.jobs.schedule import (
    NEVER,
    Band,
    Decisions,
    Fact,
    Line,
    Pieces,
    Schedule,
    by_job,
    check_pieces,
    counted,
    steps,
    usual_lines,
)
from jaxsched.jobs.stored_schedule import schedule_of
from jaxsched.report.replay.aligned import aligned


def small(**changes):
    """Two jobs on three GPUs of two servers; the second is split and does not finish."""
    fields = {
        "system": "toy",
        "policy": "fifo",
        "episode": "one",
        "unit": "GPU",
        "bands": (Band("server 0", 2), Band("server 1", 1)),
        "pieces": Pieces.of([(1, 1, 1, 5, 9, 1), (0, 0, 1, 0, 5, 0), (1, 2, 1, 5, 9, 1)]),
        "submit": np.array([0.0, 2.0]),
        "start": np.array([0.0, 5.0]),
        "finish": np.array([5.0, NEVER]),
        "model": np.array([0, 1]),
        "models": ("a", "b"),
    }
    return Schedule(**{**fields, **changes})


def test_pieces_are_sorted_by_their_start():
    pieces = small().pieces
    assert pieces.start.tolist() == [0, 5, 5]
    assert pieces.job.tolist() == [0, 1, 1]
    assert small().num_rows == 3
    assert small().end == 9.0


def test_json_has_whole_numbers_where_they_are_and_null_for_never():
    written = json.loads(json.dumps(small(facts=(Fact("x", [0.1234567, np.nan], "s"),)).to_json()))
    assert written["finish"] == [5, None]
    assert written["pieces"]["row"] == [0, 1, 2]
    assert written["facts"] == [{"name": "x", "unit": "s", "values": [0.123457, None]}]
    assert written["decisions"] is None and written["deadline"] is None


def test_decisions_are_written_with_four_digits():
    kept = Decisions(np.array([3.0]), ("a",), np.array([[0.00123456]]), ("go", "stay"),
                     np.array([[123.456, np.nan]]), np.array([0]))  # fmt: skip
    written = small(decisions=kept).to_json()["decisions"]
    assert written["seen"] == [[0.001235]]
    assert written["scores"] == [[123.5, None]]


@pytest.mark.parametrize(
    ("entry", "says"),
    [((2, 0, 1, 0, 1, 0), "'job': 2"), ((0, 2.5, 1, 0, 1, 0), "'row': 2.5"),
     ((0, 0, 1, 3, 1, 0), "'end': 1.0")],
)  # fmt: skip
def test_bad_pieces_are_named(entry, says):
    with pytest.raises(JaxschedError, match=says):
        check_pieces(small(pieces=Pieces.of([entry])))


def test_plain_keeps_large_numbers_whole_and_small_ones_short():
    assert json_numbers([1234567.8, 0.1 + 0.2, -3.0, np.inf]) == [1234568, 0.3, -3, None]
    assert json_numbers(np.array([True, False])) == [1, 0]


def test_lines_say_what_holds_from_when_on():
    times, values = steps([3, 0, 3, 5], [1.0, 2.0, 4.0, 4.0])
    assert times.tolist() == [0, 3, 5] and values.tolist() == [2, 4, 4]
    times, values = counted([0, 1, 1], [4, 1, -1], [1, 5, 2])
    assert times.tolist() == [0, 1, 4] and values.tolist() == [1, 3, 2]
    waiting, running, held = usual_lines(
        *(getattr(small(), name) for name in ("submit", "start", "finish", "pieces")), {"held": 3}
    )
    assert waiting.values.tolist() == [0, 1, 0] and waiting.times.tolist() == [0, 2, 5]
    assert running.values.tolist() == [1] * 2 and running.times.tolist() == [0, 5]
    np.testing.assert_allclose(held.values, [1 / 3, 2 / 3, 0])


def test_lanes_are_handed_out_lowest_first_and_taken_back():
    lanes = Lanes(10, 4)
    assert lanes.take(2, 0.0, 5.0) == [(10, 2)]
    assert lanes.take(1, 1.0, 2.0) == [(12, 1)]
    assert lanes.take(2, 2.0, 9.0) == [(12, 2)]
    assert lanes.take(3, 5.0, 6.0) == [(10, 2)]  # what does not fit is left out
    assert runs([5, 3, 4, 9]) == [(3, 3), (9, 1)]


def test_stacks_lie_on_each_other_and_go_on():
    times = [(0.0, 10.0), (10.0, 20.0), (30.0, 40.0)]
    pieces, most = stacks(times, [{0: 2, 1: 1}, {0: 2, 2: 3}, {0: 2}], 4)
    assert most == 5
    assert sorted(pieces) == [
        (0, 4, 2, 0.0, 20.0, 0),
        (0, 4, 2, 30.0, 40.0, 0),
        (1, 6, 1, 0.0, 10.0, 0),
        (2, 6, 3, 10.0, 20.0, 0),
    ]


def test_tasks_share_a_row_as_far_as_it_goes():
    places = shared_rows(
        np.array([3, 3, 3, 3, 4]), np.array([0.5, 0.25, 0.5, 0.5, 1.0]),
        np.array([0.0, 1.0, 2.0, 12.0, 0.0]), np.array([10.0, 20.0, 20.0, 30.0, 5.0]),
    )  # fmt: skip
    assert places.tolist() == [3.0, 3.5, 3.5, 3.0, 4.0]  # the third overloads the row


def test_bands_beside_each_other_are_equally_high():
    low = small()
    bands = (Band("server 0", 1), Band("server 1", 3))
    other = small(bands=bands, pieces=Pieces.of([(0, 0, 1, 0, 5, 0), (1, 1, 3, 5, 9, 1)]))
    one, two = aligned([low, other])
    assert one.bands == two.bands == (Band("server 0", 2), Band("server 1", 3))
    assert one.pieces.row.tolist() == low.pieces.row.tolist()
    assert two.pieces.row.tolist() == [0, 2] and two.num_rows == 5
    named = small(bands=(Band("a", 3),))
    assert aligned([low, named])[1] is named
    assert aligned([low, low]) == [low, low] and aligned([]) == []


# As it is stored


def test_what_is_stored_is_read_again():
    line = Line("a", "b", np.array([0.0, 2.5]), np.array([1.0, 0.25]), "s")
    stored = small(lines=(line,), deadline=np.array([9.0, 8.0]), levels=("x", "y")).to_json()
    read = schedule_of(json.loads(json.dumps(stored)), "here")
    assert read.to_json() == {**stored, "facts": [], "marks": [], "decisions": None}
    assert read.finish.tolist() == [5.0, NEVER]
    assert line.at([-1.0, 0.0, 2.4, 99.0]).tolist() == [0, 1, 1, 0.25]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda s: s.pop("bands"), "here: 'bands' is missing"),
        (lambda s: s.update(bands=[["a", -1]]), r"here.bands\[0\]: \['a', -1\]"),
        (lambda s: s.update(submit=[0]), "expected as many of each"),
        (lambda s: s["pieces"]["row"].pop(), r"columns have \[2, 3\] values"),
        (lambda s: s["pieces"].update(row=[0, 9, 9]), "piece 1 is"),
        (lambda s: s["pieces"].update(job=[0, 1, "x"]), r"pieces.job\[2\]: 'x'"),
        (lambda s: s.update(start=[None, float("inf")]), r"start\[1\]: inf"),
        (lambda s: s.update(policy=3), "here.policy: found int"),
        (lambda s: s.update(lines=[{"name": "a"}]), r"lines\[0\]: 'times' is missing"),
        (lambda s: s.update(lines=[3]), r"lines\[0\]: found int"),
        (lambda s: s.update(models="ab"), "models: found str"),
    ],
)
def test_damaged_ones_name_the_place(spoil, says):
    stored = small().to_json()
    spoil(stored)
    with pytest.raises(JaxschedError, match=says) as error:
        schedule_of(stored, "here")
    assert "\n" not in str(error.value)


def test_by_job_every_job_has_a_row():
    schedule = by_job(
        "toy", np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0, NEVER]), np.array([4.0, 5.0, NEVER])
    )
    assert schedule.pieces.row.tolist() == [0, 1] and schedule.num_rows == 3
    assert [line.name for line in schedule.lines] == ["waiting", "running"]
