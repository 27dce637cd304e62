"""Groups of episodes are ranked by a third policy, and differences are paired."""

import numpy as np
import pytest

from benchmarks.by_congestion import table_of, text_of
from jaxsched.errors import JaxschedError


def comparison(**policies):
    entries = [{"name": name, "metrics": metrics} for name, metrics in policies.items()]
    return {"primary": "score", "policies": entries, "episodes": {"source": "drawn"}}


def metrics(score, jct, makespan=None):
    return {"score": score, "avg_jct": jct, "makespan": jct if makespan is None else makespan}


RESULT = comparison(
    ours=metrics([[0.9, 0.5, 0.8, 0.3], [0.9, 0.7, 0.8, 0.3]], [[8.0, 40, 16, 80]] * 2),
    theirs=metrics([0.8, 0.4, 0.7, 0.4], [10.0, 50, 20, 100]),
    third=metrics([0, 0, 0, 0], [1.0, 3, 2, 4]),
)


def test_rows():
    every, quiet, congested = table_of(RESULT, "ours", "theirs", "third", 2)
    assert [row["count"] for row in (every, quiet, congested)] == [4, 2, 2]
    assert every["difference"][0] == pytest.approx(0.075)
    assert quiet["difference"] == pytest.approx([0.1, 0.1, 0.1])  # episodes 0 and 2
    assert congested["difference"][0] == pytest.approx(0.05)  # 1 and 3, both seeds
    assert congested["difference"][1] == pytest.approx(-0.1)
    for row in (every, quiet, congested):
        np.testing.assert_allclose(row["avg_jct"], 0.8)
    assert "-20.00 %" in text_of(quiet) and "+0.1000" in text_of(quiet)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nobody", "theirs", "third", 2), "no policy 'nobody'"),
        (("ours", "theirs", "third", 5), "accepted: 1 to 4"),
        (("ours", "theirs", "third", 0), "--groups is 0"),
    ],
)
def test_what_cannot_be_is_refused(arguments, says):
    with pytest.raises(JaxschedError, match=says):
        table_of(RESULT, *arguments)
