import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import pai, pai_simulator

JOBS = (
    "alpha,i0,u0,Terminated,100.0,900.0",
    "beta,i1,u1,Running,200.0,",
    "gamma,i2,u0,Failed,300.0,290.0",
    "delta,i3,u2,Waiting,400.0,",
    "alpha,i4,u0,Terminated,500.0,600.0",
    "omega,i5,u0,Terminated,,600.0",
)
TASKS = (
    "alpha,ps,2.0,Terminated,140.0,890.0,600.0,10.0,,",
    "alpha,worker,4.0,Terminated,130.0,880.0,1200.0,29.5,50.0,V100",
    "alpha,evaluator,1.0,Terminated,150.0,880.0,100.0,1.0,25.0,T4",
    "beta,tensorflow,3.0,Running,230.0,,600.0,8.0,25.0,MISC",
    "gamma,xComputeWorker,1.0,Failed,320.0,330.0,,,100.0,P100",
    "nobody,worker,1.0,Failed,320.0,330.0,600.0,8.0,100.0,P100",
)
INSTANCES = (
    "alpha,worker,n0,w0,i0,Terminated,131.0,880.0,m1",
    "alpha,worker,n1,w1,i0,Terminated,135.0,905.0,m2",
    "alpha,worker,n2,w2,i0,Terminated,,870.0,m1",
    "alpha,ps,n3,w3,i0,Terminated,141.0,890.0,",
    "gamma,xComputeWorker,n4,w4,i2,Failed,321.0,330.0,m3",
    "nobody,worker,n5,w5,i9,Failed,321.0,330.0,m4",
)
TABLES = {"pai_job_table": JOBS, "pai_task_table": TASKS}


def folder(path, tables, ending=".csv"):
    path.mkdir(exist_ok=True)
    for name, lines in tables.items():
        data = "".join(line + "\n" for line in lines).encode()
        file = path / f"{name}{ending}"
        file.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    return path


def refusal(path):
    with pytest.raises(JaxschedError) as caught:
        pai.read(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_jobs_and_tasks(tmp_path):
    path = folder(tmp_path / "v2020", TABLES)
    assert recognise(path).name == recognise(path / "pai_job_table.csv").name == "pai"
    trace = load_trace(path)
    assert (trace.name, trace.clock, trace.rows_read) == ("v2020", "local", 6)
    assert trace["job_id"].tolist() == ["alpha", "beta", "gamma", "delta"]
    assert trace["status"].tolist() == ["completed", "running", "failed", "pending"]
    assert trace["gpu_type"].tolist() == ["V100", "MISC", "P100", ""]
    unknown = np.nan
    expected = {
        "submit_time": [100, 200, 300, 400],
        "num_gpus": [2.25, 0.75, 1, unknown],
        "duration": [770, unknown, unknown, unknown],
        "start_time": [130, 230, 320, unknown],
        "end_time": [900, unknown, 290, unknown],
        "num_instances": [7, 3, 1, unknown],
        "cpus": [61, 18, unknown, unknown],
        "memory_gb": [139, 24, unknown, unknown],
    }
    for name, values in expected.items():
        shift = 8 * 3600 if name.endswith("_time") else 0
        np.testing.assert_array_equal(trace[name], np.array(values) + shift, name)
    assert set(trace.notes) == {
        "1 repeated jobs dropped",
        "1 jobs without a submission time dropped",
        "1 tasks of unknown jobs left out",
        "1 tasks without plan_gpu, taken to use none",
        "1 jobs without tasks, their demands not known",
        "1 jobs with several kinds of GPU, the first task's given",
        "no instance table, so that jobs start with their first task",
        "2 jobs running or waiting, their run times not known",
        "1 jobs that end before they start, their run times not known",
    }
    assert load_trace(path / "pai_job_table.csv").digest() == trace.digest()


def test_percents_of_tasks_add_up_to_whole_gpus(tmp_path):
    tasks = [
        f"alpha,t{plan},1.0,Terminated,140.0,890.0,{plan}.0,1.0,{plan}.0,T4"
        for plan in (20, 40, 30, 10)
    ]
    trace = load_trace(folder(tmp_path, {"pai_job_table": JOBS[:1], "pai_task_table": tasks}))
    assert 0.2 + 0.4 + 0.3 + 0.1 > 1 and trace["num_gpus"][0] == trace["cpus"][0] == 1


def test_instances_give_times_and_machines(tmp_path):
    tables = {**TABLES, "pai_instance_table": INSTANCES}
    trace = load_trace(folder(tmp_path, tables, ".csv.gz"))
    unknown = np.nan
    expected = {
        "start_time": [131, 230, 321, unknown],
        "end_time": [905, unknown, 330, unknown],
        "duration": [774, unknown, 9, unknown],
        "num_instances": [4, 3, 1, unknown],
        "num_nodes": [2, unknown, 1, unknown],
        "num_gpus": [2.25, 0.75, 1, unknown],
    }
    for name, values in expected.items():
        shift = 8 * 3600 if name.endswith("_time") else 0
        np.testing.assert_array_equal(trace[name], np.array(values) + shift, name)
    assert "1 instances of unknown jobs left out" in trace.notes
    assert not any("instance table" in note for note in trace.notes)


def test_batches_do_not_matter(tmp_path, monkeypatch):
    path = folder(tmp_path, {**TABLES, "pai_instance_table": INSTANCES})
    whole = load_trace(path)
    rows = pai.iterate_rows
    monkeypatch.setattr(pai, "iterate_rows", lambda *a, **how: rows(*a, batch=1, **how))
    assert load_trace(path).digest() == whole.digest()


def test_names_of_columns_come_from_header_files(tmp_path):
    plain = load_trace(folder(tmp_path / "plain", TABLES))
    moved = [
        ",".join([cells[3], *cells[:3], *cells[4:]]) for cells in map(lambda r: r.split(","), JOBS)
    ]
    other = folder(tmp_path / "moved", {**TABLES, "pai_job_table": moved})
    header = other / "pai_job_table.header"
    header.write_text("status,job_name,inst_id,user,start_time,end_time\n")
    assert load_trace(other).digest() == plain.digest()
    with_header = ["status,job_name,inst_id,user,start_time,end_time", *moved]
    folder(other, {"pai_job_table": with_header})
    assert load_trace(other).digest() == plain.digest()
    header.write_text("job,user\n")
    assert (
        refusal(other) == f"{header}: names 'job,user'; accepted: {','.join(pai.COLUMNS[pai.JOBS])}"
    )


def test_missing_tables_and_bad_rows_are_refused(tmp_path):
    path = folder(tmp_path, {"pai_job_table": JOBS})
    needed = f"{path}: has no pai_task_table.csv; accepted: pai_job_table and pai_task_table"
    assert refusal(path).startswith(needed)
    folder(path, {"pai_task_table": [TASKS[0], "alpha,worker"]})
    assert f"{path / 'pai_task_table.csv'}, line 2: has 2 values; accepted: 10" in refusal(path)
    folder(path, {"pai_task_table": [TASKS[0].replace("600.0", "x")]})
    assert refusal(path).startswith(f"{path / 'pai_task_table.csv'}, line 1: plan_cpu is 'x'")
    folder(path, {"pai_job_table": ["a,i,u,Failed,,2"]})
    assert "has no jobs with a start_time; accepted: at least one" in refusal(path)


SIMULATOR = "job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user"


def test_simulator_sample(tmp_path):
    path = tmp_path / "pai_job_no_estimate_100K.csv"
    path.write_text(f"{SIMULATOR}\n7,4,90,6,0.25,V100,600,ae8e\n8,1,20,4,0,CPU,0,b\n9,1,30,,,,5,\n")
    assert recognise(path).name == "pai-simulator"
    trace = load_trace(path)
    np.testing.assert_array_equal(trace["num_gpus"], [1, 0, np.nan])
    np.testing.assert_array_equal(trace["cpus"], [24, 4, np.nan])
    np.testing.assert_array_equal(trace["submit_time"], [90, 20, 30])
    np.testing.assert_array_equal(trace["duration"], [600, 0, 5])
    assert trace["gpu_type"].tolist() == ["V100", "", ""]
    assert trace["user"].tolist() == ["ae8e", "b", ""]
    assert trace["num_instances"].tolist() == [4, 1, 1] and "group" not in trace


def test_simulator_sample_with_estimates(tmp_path):
    path = tmp_path / "pai_job_duration_estimate_100K.csv"
    extra = "wait_time,user_dur,user_gpu_dur,group,group_dur,group_gpu_dur"
    path.write_text(f"{SIMULATOR},{extra}\n7,4,90,6,0.5,T4,600,ae8e,11,1,2,g7,3,4\n")
    trace = load_trace(path)
    assert trace.source == "pai-simulator" and trace["group"].tolist() == ["g7"]
    assert (trace["start_time"][0], trace["end_time"][0]) == (101, 701)


cells = st.sampled_from(
    ["", "alpha", "1", "-3", "2.5", "1e308", "9" * 5000, "None", "Failed", "Running", "é", '"']
)
lines = st.lists(st.lists(cells, min_size=5, max_size=10).map(",".join), max_size=3)
tables = st.tuples(
    st.lists(st.sampled_from(JOBS), max_size=3) | lines,
    st.lists(st.sampled_from(TASKS), max_size=3) | lines,
    st.none() | st.lists(st.sampled_from(INSTANCES), max_size=3) | lines,
)


@settings(max_examples=100)
@given(tables)
def test_malformed_tables_raise_our_error_only(tmp_path, content):
    names = (pai.JOBS, pai.TASKS, pai.INSTANCES)
    (tmp_path / f"{pai.INSTANCES}.csv").unlink(missing_ok=True)
    present = {n: rows for n, rows in zip(names, content, strict=True) if rows is not None}
    path = folder(tmp_path, present)
    try:
        trace = pai.read(path)
    except JaxschedError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert 0 < len(trace) <= trace.rows_read


@settings(max_examples=60)
@given(
    st.lists(st.lists(cells, min_size=7, max_size=9).map(",".join), max_size=3).map("\n".join)
    | st.text(st.characters(codec="utf-8"))
)
def test_malformed_samples_raise_our_error_only(tmp_path, body):
    path = tmp_path / "any.csv"
    path.write_bytes(f"{SIMULATOR}\n{body}".encode())
    try:
        trace = pai_simulator.read(path)
    except JaxschedError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert 0 < len(trace) == trace.rows_read
