"""Files of per-job times: columns, empty cells, texts that need quotes, both layouts."""

import csv

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.results.job_times import COLUMNS, read_part, times_of, write_job_times


def part(policy, job_id=""):
    return times_of(
        policy=policy,
        submit=np.array([0, 10, 20]),
        start=np.array([5, 10, 0]),
        end=np.array([9, 0, 0]),
        num_gpus=np.array([1, 2, 4]),
        duration=np.array([4, 5, 6]),
        job_id=job_id,
        started=np.array([True, True, False]),
        ended=np.array([True, False, False]),
        load=0.9,
    )


@pytest.mark.parametrize("ids", ["", np.array(["a", "b,c", 'd"'])])
def test_both_layouts_hold_the_same(tmp_path, ids):
    parts = [part("fifo", ids), part("sjf", ids)]
    for ending in ("csv", "parquet"):
        write_job_times(tmp_path / f"jobs.{ending}", parts)
    found = read_part(tmp_path / "jobs.parquet").to_pylist()
    assert list(found[0]) == ["load", *COLUMNS] and len(found) == 6
    assert [row["policy"] for row in found] == ["fifo"] * 3 + ["sjf"] * 3
    assert [row["jct"] for row in found[:3]] == [9, None, None]
    assert [row["wait"] for row in found[:3]] == [5, 0, None]
    assert [row["job_id"] for row in found[:3]] == (["a", "b,c", 'd"'] if len(ids) else [""] * 3)
    with (tmp_path / "jobs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{k: "" if v is None else str(v) for k, v in row.items()} for row in found]


def test_refusals(tmp_path):
    with pytest.raises(JaxschedError, match="ends in .csv or .parquet"):
        write_job_times(tmp_path / "jobs.txt", [part("fifo")])
    with pytest.raises(JaxschedError, match="there are no jobs to write"):
        write_job_times(tmp_path / "jobs.csv", [])
