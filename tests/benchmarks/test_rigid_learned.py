"""What is told of learned orders of rigid jobs: parts, ratios over workloads, who is left out."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.rigid_learned.parts import GENERATED, REAL, compared, figures, of_part
from benchmarks.rigid_learned.tables import all_tables
from benchmarks.rigid_learned.tails import ratios
from benchmarks.rigid_learned.transfer import UNSEEN, others
from jaxsched.trace_replay import POLICIES, Cluster, replay
from jaxsched.trace_replay.tables import as_table
from tests.trace_replay.cases import random_columns

ROOT = Path(__file__).parents[2]


def means(**values):
    return {name: {"avg_jct": value} for name, value in values.items()}


def test_ratios_have_workloads_as_units():
    played = {"a": means(new=1.0, old=2.0), "b": means(new=2.0, old=2.0), "c": means(new=1, old=8)}
    two, three = compared(played, [("new", "old")], {"two": ["a", "b", "gone"], "all": "abc"})
    assert (two["units"], two["workloads"], two["below"]) == ("two", 2, 1)
    assert two["ratio"] == pytest.approx(0.5**0.5)
    half = math.log(2) / 2 * 12.7062  # Student's, one degree of freedom
    assert np.log(two["t"]) == pytest.approx([-math.log(2) / 2 - half, -math.log(2) / 2 + half])
    assert two["bootstrap"] == pytest.approx([0.5, 1.0])
    assert three["ratio"] == pytest.approx(16 ** (-1 / 3))
    assert three["sign_p"] == pytest.approx(0.5)  # two or more of three


def test_figures_are_of_the_part_only():
    cluster = Cluster(3, 4)
    table = as_table(random_columns(0, 40, 12), cluster)
    records = replay(table, cluster, POLICIES["las-decades"])
    part = slice(30, None)
    found = of_part("las-decades", table, cluster, part, timed=True)
    assert found.pop("replay_cpu_s") >= 0
    assert found == figures(records, part, table["group"][part])
    assert found["avg_jct"] == records.jct[30:].mean() != records.jct.mean()
    owners = table["group"][30:]
    assert found["worst_group_avg_jct"] == max(
        records.jct[30:][owners == owner].mean() for owner in set(owners)
    )


@pytest.mark.parametrize("name", REAL)
def test_what_shares_jobs_is_left_out_together(name):
    left = others(name)
    assert name not in left and len(left) == (9 if name.startswith("philly") else 11)
    assert not (name.startswith("philly") and [each for each in left if "philly" in each])


def test_unseen_clusters_are_on_no_list():
    assert not set(UNSEEN) & {*REAL, *GENERATED}


def test_patience_is_compared_figure_by_figure():
    base = {"a": {"avg_jct": 2.0, "p99_jct": 9.0, "p99_slowdown": 4.0, "worst_group_avg_jct": None}}
    other = {"a": {**base["a"], "avg_jct": 3.0, "p99_slowdown": 1.0}}
    base["b"] = {**base["a"], "worst_group_avg_jct": 5.0}
    other["b"] = {**other["a"], "avg_jct": 6.0, "worst_group_avg_jct": 10.0}
    found = ratios(other, base)
    assert found == {
        "avg_jct": pytest.approx(4.5**0.5, abs=1e-3),
        "p99_jct": 1.0,
        "p99_slowdown": 0.25,
        "worst_group_avg_jct": 2.0,
    }


def test_the_page_has_the_tables_of_the_files():
    page = (ROOT / "docs" / "results" / "leaderboard_learned.md").read_text()
    lines = set(page.splitlines())
    for name, text in all_tables().items():
        missing = [row for row in text.splitlines()[2:] if row not in lines]
        assert not missing, f"{name}: python -m benchmarks.rigid_learned tables"
