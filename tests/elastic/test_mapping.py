"""Elastic job tables: as files, and made of rigid ones."""

import zlib

import numpy as np
import pytest

from jaxsched.elastic.jobs import CHIC_JOBS, DL2_JOBS
from jaxsched.elastic.mapping import chic_jobs, dl2_jobs
from jaxsched.envs.chic.jobs import chic_tables
from jaxsched.envs.dl2.jobs import dl2_tables
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, digest_tables, from_records, validate
from jaxsched.traces import Trace, import_trace, load_tables, write_tables


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize(
    "tables",
    [
        dl2_tables(0, 3, num_jobs=7, variation=0.3, epoch_error=0.2),
        chic_tables(1, 2, num_jobs=5, rate_per_hour=2.7),
    ],
    ids=["dl2", "chic"],
)
def test_files_lose_nothing(tables, suffix, tmp_path):
    path = tmp_path / f"jobs{suffix}"
    write_tables(path, tables)
    read = load_tables(path)
    assert digest_tables(read) == digest_tables(tables)
    assert [table.schema for table in read] == [table.schema for table in tables]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("0,0,9,10,10,1", "model is 9"),
        ("0,0,1,ten,10,1", "epochs is 'ten'; accepted: a number"),
        ("0,0,1,10,10,1 x", "speed_factor is '1 x'"),
        ("0,0,1,0,10,1", "epochs is 0"),
    ],
)
def test_bad_cells_are_named(row, says, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(f"trace,submit_time,model,epochs,true_epochs,speed_factor\n{row}\n")
    with pytest.raises(JaxschedError, match=says) as caught:
        load_tables(path)
    assert "line 2" in str(caught.value)


def test_lists_of_one_file_have_one_length(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,model,epochs,true_epochs,speed_factor\n0,1,5,5,1 1\n1,1,5,5,1\n")
    with pytest.raises(JaxschedError, match="line 3: speed_factor has 1 numbers; accepted: 2"):
        load_tables(path)


RIGID = JobTable(
    {
        "submit_time": [0, 10, 20, 30],
        "num_gpus": [1, 2, 4, 8],
        "duration": [60, 600, 1200, 540],
        "model": [0, 5, 2, 4],
    }
)


def test_epochs_are_in_proportion_to_run_time():
    table = validate(dl2_jobs(RIGID))
    assert table.schema == DL2_JOBS
    assert table["epochs"].tolist() == [10, 100, 200, 90]
    assert (table["true_epochs"] == table["epochs"]).all()
    assert table["submit_time"].tolist() == RIGID["submit_time"].tolist()
    assert table.notes


def test_iterations_follow_the_rank_of_the_run_time():
    table = validate(chic_jobs(RIGID))
    assert table.schema == CHIC_JOBS
    assert table["iterations"].tolist() == [100, 167, 200, 133]
    assert set(table["model"]) <= {0, 1, 2}


def test_columns_with_defaults_may_be_left_out():
    records = [{"submit_time": 0, "model": 1, "epochs": 7.5}, {"submit_time": 0, "model": 2,
               "epochs": 3.0, "true_epochs": 4.0}]  # fmt: skip
    table = validate(from_records(records, schema=DL2_JOBS))
    assert table["true_epochs"].tolist() == [7.5, 4.0]
    assert table["speed_factor"].tolist() == [[1.0], [1.0]]
    assert np.issubdtype(table["epochs"].dtype, np.floating)
    with pytest.raises(JaxschedError, match="job 0: 'epochs' is missing"):
        from_records([{"submit_time": 0, "model": 1}], schema=DL2_JOBS)
    with pytest.raises(JaxschedError, match="speed_factor holds nan"):
        from_records(
            [{"submit_time": 0, "model": 1, "epochs": 1.0, "speed_factor": [float("nan")]}],
            schema=DL2_JOBS,
        )


def test_types_follow_from_the_models_of_the_trace():
    columns = {
        "submit_time": np.arange(4.0),
        "num_gpus": np.ones(4),
        "duration": np.full(4, 600.0),
        "user": np.array(["ann", "bob", "ann", "eve"]),
    }
    table = import_trace(Trace(columns), mode="cut", num_jobs=4).tables[0]
    types = dl2_jobs(table)["model"]
    assert types.tolist() == [zlib.crc32(u.encode()) % 8 for u in columns["user"].tolist()]
    assert chic_jobs(table)["model"].tolist() == [table["kind"][k] % 3 for k in range(4)]
    named = Trace({**columns, "model": np.array(["x", "y", "x", "x"])})
    kinds = import_trace(named, mode="cut", num_jobs=4).tables[0]["kind"]
    assert kinds[0] == kinds[2] == kinds[3] != kinds[1]
    partly = Trace({**columns, "user": np.array(["ann", "", "ann", "eve"])})
    assert "kind" not in import_trace(partly, mode="cut", num_jobs=4).tables[0].columns
