"""Four verdicts on a paper's claims."""

import pytest

from jaxsched.systems.claims import (
    DIRECTION,
    NOT_REPRODUCED,
    REPRODUCED,
    judge,
    row,
    stated,
)


@pytest.mark.parametrize(
    ("says", "none", "measured", "verdict"),
    [
        (1.6, 1, (1.45, 1.40, 1.50), REPRODUCED),  # a quarter of 0.6
        (1.6, 1, (1.44,), DIRECTION),
        (1.6, 1, (1.76,), DIRECTION),  # more than the paper's is no reproduction either
        (1.6, 1, (1.5, 0.99, 2.0), NOT_REPRODUCED),  # its interval holds no effect
        ("< 1", 1, (0.99, 0.98, 0.995), DIRECTION),  # no size to be reproduced
        ("< 1", 1, (0.99, 0.98, 1.01), NOT_REPRODUCED),
        ("< 1", 1, (1.096,), NOT_REPRODUCED),
        ("44.1 %", 0, (40.0,), REPRODUCED),
        ("44.1 %", 0, (-4.1,), NOT_REPRODUCED),
        ("+17..23 %", 0, (12.75,), REPRODUCED),
        ("+17..23 %", 0, (2.1, 1.6, 2.7), DIRECTION),
        ("20..35 %", 0, (48.2,), DIRECTION),
        (-0.171, 0, (0.0,), NOT_REPRODUCED),  # of Table III: not split is not split less
        (">= 12.65 %", 0, (30.0,), REPRODUCED),
        (">= 12.65 %", 0, (9.0,), DIRECTION),
        ("> 10,000", 0, (7631.0,), REPRODUCED),
        (0.78, None, (0.6,), REPRODUCED),
        (0.78, None, (0.49,), NOT_REPRODUCED),
        ("= 0 +- 5 %", None, (-5.0,), REPRODUCED),
        ("= 0 +- 5 %", None, (5.1,), NOT_REPRODUCED),
    ],
)
def test_verdicts(says, none, measured, verdict):
    assert judge(stated(says, none), *measured) == verdict


@pytest.mark.parametrize(
    ("says", "none", "words"),
    [
        (1.6, 1, "1.45 to 1.75"),
        ("44.1 %", 0, "33.08 to 55.12 %"),
        ("< 1", 1, "< 1"),
        (">= 12.65 %", 0, ">= 9.488 %"),
        ("20..35 %", 0, "15 to 43.75 %"),
        ("= 0 +- 2 %", None, "-2 to 2 %"),
    ],
)
def test_bounds_are_told(says, none, words):
    assert stated(says, none).accepted == words


def test_words_without_a_number_are_no_statement():
    assert stated("gets worse") is None and stated(None) is None


def test_rows_of_a_report():
    made = row("JCT", 0.89, 0.67712, none=1)
    assert made == {
        **{"item": "JCT", "paper": 0.89, "here": 0.6771},
        **{"accept": "0.8625 to 0.9175", "verdict": DIRECTION},
    }
    assert row("ours", None, 0.5)["verdict"] is None
    assert row("worded", "always lower", 0.5, none=1, says="< 1")["verdict"] == DIRECTION
