"""Chic's workload generator: reproducible, and with the statistics of section 11."""

import numpy as np
import pytest

from jaxsched.envs.chic.jobs import RATES_PER_HOUR, chic_tables
from jaxsched.errors import JaxschedError

COLUMNS = ("submit_time", "model", "iterations")


def column(tables, name):
    return np.concatenate([table[name] for table in tables])


def test_layout():
    tables = chic_tables(0, 5, num_jobs=12)
    assert [len(table) for table in tables] == [12] * 5
    assert len({table.name for table in tables}) == 5
    for table in tables:
        assert tuple(table.columns) == COLUMNS
        assert table["submit_time"][0] == 0
        assert (np.diff(table["submit_time"]) >= 0).all()
        assert (table["submit_time"] == np.rint(table["submit_time"])).all()


def test_a_table_does_not_depend_on_how_many_are_drawn():
    few, many = chic_tables(3, 2), chic_tables(3, 6)
    assert [t.digest() for t in few] == [t.digest() for t in many[:2]]
    assert len({t.digest() for t in many}) == 6
    assert {t.digest() for t in many}.isdisjoint({t.digest() for t in chic_tables(4, 6)})


def test_rates_share_types_and_iterations():
    slow, fast = (chic_tables(0, 3, rate_per_hour=rate) for rate in (0.9, 2.7))
    for name in COLUMNS[1:]:
        np.testing.assert_array_equal(column(slow, name), column(fast, name))


@pytest.mark.parametrize("rate", RATES_PER_HOUR)
def test_arrivals_are_poisson(rate):
    """Gaps have the mean and the deviation of the exponential distribution (200 x 50 draws)."""
    tables = chic_tables(7, 200, num_jobs=51, rate_per_hour=rate)
    gaps = np.concatenate([np.diff(table["submit_time"]) for table in tables])
    mean = 3600.0 / rate
    error = mean / np.sqrt(gaps.size)
    assert abs(gaps.mean() - mean) < 4 * error
    assert abs(gaps.std() - mean) < 8 * error
    assert abs(np.mean(gaps > mean) - np.exp(-1)) < 0.02


def test_types_and_iterations_are_uniform():
    tables = chic_tables(1, 300)
    model, iterations = column(tables, "model"), column(tables, "iterations")
    counts = np.bincount(model)
    assert counts.size == 3
    assert (np.abs(counts / model.size - 1 / 3) < 0.025).all()
    assert (iterations.min(), iterations.max()) == (100, 200)
    by_value = np.bincount(iterations - 100, minlength=101)
    expected = iterations.size / 101
    assert (np.abs(by_value - expected) < 5 * np.sqrt(expected)).all()
    assert abs(np.corrcoef(model, iterations)[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"num_tables": 0}, "num_tables is 0; accepted: a whole number from 1 on"),
        ({"num_jobs": 2.5}, "num_jobs is 2.5"),
        ({"rate_per_hour": 0}, "rate_per_hour is 0; accepted: a number above 0"),
        ({"rate_per_hour": float("inf")}, "rate_per_hour is inf"),
    ],
)
def test_what_is_refused(options, message):
    seed, num_tables = options.pop("seed", 0), options.pop("num_tables", 1)
    with pytest.raises(JaxschedError) as refusal:
        chic_tables(seed, num_tables, **options)
    assert message in str(refusal.value)


def test_one_workload():
    (table,) = chic_tables(0, 1, num_jobs=1)
    assert table["submit_time"].tolist() == [0.0]
