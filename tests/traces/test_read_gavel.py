import gzip
import json

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import gavel

COMMAND = "python3 main.py --data_dir=%s/cifar10"
TABLE = {
    "k80": {"('ResNet-18 (batch size 128)', 2)": {"null": 9.0}},
    "v100": {
        "('ResNet-18 (batch size 128)', 2)": {"null": 20.0, "('A3C', 1)": [8.0, 3.0]},
        "('A3C', 1)": {"null": 4},
        "('LM (batch size 5)', 1)": {"null": 0.0},
    },
}


def physical(job_type="A3C", steps=100, scale=1, weight=1, slo="-1.000000", arrival=0):
    fields = (job_type, COMMAND, "rl", "--steps", 1, steps, scale, weight, slo, arrival)
    return "\t".join(map(str, fields)) + "\n"


def msr(job_type="A3C", steps=100, arrival="6.000000", scale=1):
    return "\t".join(map(str, (job_type, COMMAND, "--steps", 1, steps, arrival, scale))) + "\n"


def refusal(path, **how):
    with pytest.raises(JaxschedError) as caught:
        gavel.read(path, **how)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_physical_layout_with_a_table_in_the_folder_above(tmp_path):
    (tmp_path / "physical_cluster").mkdir()
    path = tmp_path / "physical_cluster" / "small.trace"
    path.write_text(
        physical("ResNet-18 (batch size 128)", 1000, 2, 5, "1.200000", 30)
        + physical(arrival=40, slo="2.0")
        + physical("LM (batch size 5)", arrival=50, slo="10.0")
    )
    table = tmp_path / "physical_cluster_throughputs.json.gz"
    table.write_bytes(gzip.compress(json.dumps(TABLE).encode()))
    trace = load_trace(path)
    assert (trace.name, trace.source, trace.clock) == ("small", "gavel", "relative")
    np.testing.assert_array_equal(trace["submit_time"], [30, 40, 50])
    np.testing.assert_array_equal(trace["num_gpus"], [2, 1, 1])
    np.testing.assert_array_equal(trace["duration"], [50, 25, np.nan])
    np.testing.assert_array_equal(trace["deadline"], [90, 90, np.nan])
    np.testing.assert_array_equal(trace["priority"], [5, 1, 1])
    np.testing.assert_array_equal(trace["iterations"], [1000, 100, 100])
    np.testing.assert_array_equal(trace["batch_size"], [128, np.nan, 5])
    assert trace["model"].tolist() == ["ResNet-18", "A3C", "LM"]
    assert trace.notes == (
        "run times are steps over the throughput on V100s in "
        "physical_cluster_throughputs.json.gz, which has none for 1 of 3 jobs",
    )


def test_each_layout_prefers_its_own_table(tmp_path):
    ours = tmp_path / "simulation_throughputs.json"
    ours.write_text(json.dumps({"v100": {"('A3C', 1)": {"null": 10}}}))
    (tmp_path / "physical_cluster_throughputs.json").write_text(json.dumps(TABLE))
    (tmp_path / "a.trace").write_text(physical())
    (tmp_path / "b.trace.gz").write_bytes(gzip.compress(msr().encode()))
    assert gavel.read(tmp_path / "a.trace")["duration"].tolist() == [25]
    trace = gavel.read(tmp_path / "b.trace.gz")
    assert (trace["duration"].tolist(), trace["submit_time"].tolist()) == ([10], [6])
    assert (trace.name, "deadline" in trace) == ("b", False)
    assert gavel.read(tmp_path / "a.trace", throughputs=ours)["duration"].tolist() == [10]


def test_run_times_are_unknown_without_a_table(tmp_path):
    path = tmp_path / "a.trace"
    path.write_text(physical(slo="2.0") + physical(slo=-1))
    trace = gavel.read(path)
    assert np.isnan(trace["duration"]).all() and np.isnan(trace["deadline"]).all()
    assert trace.notes == (
        "run times of 2 jobs not known, since no table of throughputs is beside it",
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (physical(steps="many"), "total_steps is 'many'; accepted: a number"),
        (physical(arrival="soon"), "arrival_time is 'soon'; accepted: a number"),
        (physical(steps="1e300"), "total_steps is 1e+300; accepted: numbers up to 1e+15"),
        ("a\tb\n", "has 2 values; accepted: 10, job_type,command"),
        (msr(), "has 7 values; accepted: 10, job_type,command"),
    ],
)
def test_bad_rows(tmp_path, row, expected):
    path = tmp_path / "a.trace"
    path.write_text(physical() + "\n" + row)
    assert recognise(path).name == "gavel"
    assert refusal(path).startswith(f"{path}, line 3: {expected}")


def test_empty_steps_are_not_known(tmp_path):
    path = tmp_path / "a.trace"
    path.write_text(physical() + physical(steps=""))
    np.testing.assert_array_equal(gavel.read(path)["iterations"], [100, np.nan])


def test_another_number_of_fields(tmp_path):
    path = tmp_path / "a.trace"
    path.write_text("\na\tb\n")
    assert refusal(path).startswith(f"{path}, line 2: has 2 fields; accepted: 10 (job_type,")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "is no table of throughputs; accepted: a JSON object with 'v100'"),
        ('{"v100": 3}', "is no table of throughputs; accepted"),
        ("{", "is no table of throughputs; accepted"),
        ('{"v100": {"k": {}}}', "v100, 'k': the throughput alone is None; accepted: steps/s"),
        ('{"v100": {"k": {"null": -1}}}', "v100, 'k': the throughput alone is -1; accepted"),
        ('{"v100": {"k": {"null": NaN}}}', "v100, 'k': the throughput alone is nan; accepted"),
    ],
)
def test_bad_tables(tmp_path, text, expected):
    (tmp_path / "a.trace").write_text(physical())
    table = tmp_path / "simulation_throughputs.json"
    table.write_text(text)
    assert refusal(tmp_path / "a.trace").startswith(f"{table}: {expected}")
