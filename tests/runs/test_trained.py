"""Where the time of a training went."""

import pytest

from jaxsched.runs import trained, trainer
from jaxsched.runs.trained import COMPILING, LEARNING, PARTS, SCORING, Phases, in_words


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still between its settings."""
    now = [0.0]
    monkeypatch.setattr(trained.time, "monotonic", lambda: now[0])
    return now


def test_a_second_counts_once(clock):
    phases = Phases()
    with phases(LEARNING):
        clock[0] += 2
        with phases(COMPILING):
            clock[0] += 5
        clock[0] += 1
    clock[0] += 100
    with pytest.raises(ZeroDivisionError), phases(SCORING):
        clock[0] += 4
        raise ZeroDivisionError
    with phases(LEARNING):
        clock[0] += 1
    expected = {COMPILING: 5.0, LEARNING: 4.0, SCORING: 4.0}
    assert phases.seconds == dict.fromkeys(PARTS, 0.0) | expected


def test_small_parts_are_not_said():
    assert in_words({"compiling": 12.4, "learning": 0.6, "saving": 0.1}) == (
        "compiling 12 s, learning 1 s"
    )
    assert in_words({"saving": 0.1}) == "less than a second"


@pytest.mark.parametrize(
    ("update", "curves", "has_ended"),
    [
        (4, [[(2, 0.5), (4, 0.6)], [(2, 0.5), (4, 0.4)]], True),
        (4, [[(2, 0.5), (4, 0.6)], [(2, 0.5)]], False),  # stopped before its last evaluation
        (4, [[], []], False),
        (2, [[(2, 0.5)], [(2, 0.5)]], False),
    ],
)
def test_a_stage_ends_with_its_last_evaluation(update, curves, has_ended):
    assert trainer.ended({"update": update, "curves": curves}, 4) is has_ended
