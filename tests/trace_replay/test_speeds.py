"""Speeds of types of jobs on types of GPUs: Gavel's measurements, and tables of one's own."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.demands import holds
from jaxsched.trace_replay.speeds import LARGEST_FILE, read_speeds, with_speeds
from jaxsched.traces.details import details
from jaxsched.traces.trace import Trace

TYPES = ("v100", "p100", "k80")


def jobs(sizes, **columns):
    count = len(sizes)
    times = {"submit_time": np.arange(count), "duration": np.arange(1, count + 1)}
    return JobTable({**times, "num_gpus": sizes, **columns}, notes=("one",))


def own(tmp_path, text):
    path = tmp_path / "speeds.csv"
    path.write_text(text)
    return path


def test_measurements_of_gavel():
    """Steps per second of ResNet-50 with 64 samples: 4.3948 on a V100, 2.6195 and 0.6190."""
    speeds = read_speeds("gavel")
    assert speeds.gpu_types == TYPES and len(set(speeds.job_types)) == 26
    rows = dict(zip(zip(speeds.job_types, speeds.num_gpus.tolist(), strict=True),
                    speeds.thousandths.tolist(), strict=True))  # fmt: skip
    assert rows["ResNet-50 (batch size 64)", 1] == [1000, 596, 141]
    assert rows["ResNet-50 (batch size 128)", 8] == [1000, 965, 0]  # not in a K80's memory
    assert rows["Recommendation (batch size 512)", 1] == [1000, 2096, 1409]


def test_types_of_jobs_that_are_told():
    speeds = read_speeds("gavel")
    names = np.array(["A3C", "ResNet-50 (batch size 64)", "ResNet-50 (batch size 64)", "A3C", "?"])
    found = with_speeds(jobs([1, 2, 16, 4, 1]), speeds, TYPES, names)
    assert found["speed_p100"][:4].tolist() == [792, 696, 1053, 792]
    assert found["speed_k80"][:4].tolist() == [479, 160, 264, 479]
    assert found.notes == ("one", "types of jobs for speeds by gavel: 4 known, 1 drawn")


def test_a_name_without_its_batch_size_draws_that_alone():
    models, one = np.repeat(["CycleGAN", "LM"], 150), np.ones(300)
    trace = Trace(
        {"submit_time": np.arange(300), "num_gpus": one, "duration": one, "model": models}
    )
    table = jobs([1] * 300, kind=details(trace)["kind"])
    found = with_speeds(table, read_speeds("gavel"), ("k80",))["speed_k80"]
    assert set(found[:150].tolist()) == {114}
    assert set(found[150:].tolist()) == {233, 291, 265, 254, 214}  # five batch sizes


def test_no_type_of_job_is_drawn_that_could_run_nowhere():
    """Gavel has ResNet-50 with 128 samples on K80 not at all for 8 GPUs."""
    table = jobs([8] * 500)
    cluster = Cluster.of("30x8@k80")
    anyone = with_speeds(table, read_speeds("gavel"), ("k80",))["speed_k80"]
    able = holds(table, cluster)
    found = with_speeds(table, read_speeds("gavel"), ("k80",), able=able)["speed_k80"]
    assert anyone.min() == 0 < found.min()
    limited = Cluster.of("30x8/64@v100,30x8@k80")  # on the first of which they are not
    many = jobs([8] * 500, cpus=np.full(500, 99))
    able = holds(many, limited)
    both = with_speeds(many, read_speeds("gavel"), ("v100", "k80"), able=able)
    np.testing.assert_array_equal(both["speed_k80"], found)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    assert read_speeds(own(tmp_path, "\ufeffjob_type,num_gpus,a\nx,1,500\n")).gpu_types == ("a",)


def test_draws_are_even_and_depend_on_sizes_and_run_times_alone():
    speeds, table = read_speeds("gavel"), jobs([1] * 2600 + [3] * 20)
    found = with_speeds(table, speeds, TYPES)
    pairs = np.stack([found["speed_p100"][:2600], found["speed_k80"][:2600]], 1)
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    assert len(counts) == 26 and counts.min() > 60 and counts.max() < 140
    few = {row[1] for row, name, size in zip(speeds.thousandths.tolist(), speeds.job_types,
           speeds.num_gpus.tolist(), strict=True) if size == 2}  # fmt: skip
    assert set(found["speed_p100"][2600:].tolist()) <= few  # rows for 2 GPUs hold for 3
    later = table.with_columns(submit_time=2 * table["submit_time"])
    other = table.with_columns(duration=2 * table["duration"])
    same, differs = (with_speeds(each, speeds, TYPES)["speed_k80"] for each in (later, other))
    assert np.array_equal(same, found["speed_k80"])
    assert not np.array_equal(differs, found["speed_k80"])


def test_a_table_of_ones_own(tmp_path):
    speeds = read_speeds(own(tmp_path, "job_type,num_gpus,a,b\nbig,4,2000,0\nsmall,1,1000,500\n"))
    found = with_speeds(jobs([1, 8]), speeds, ("b", "a"), np.array(["small", "big"]))
    assert found["speed_a"].tolist() == [1000, 2000] and found["speed_b"].tolist() == [500, 0]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "line 1: is ''; accepted: job_type,num_gpus and a column for each type"),
        ("job_type,num_gpus\n", "line 1: .*accepted: job_type,num_gpus and a column"),
        ("job_type,num_gpus,a,a\nx,1,1,1\n", "line 1: .*accepted"),
        ("job_type,num_gpus,a b\nx,1,1\n", "line 1: .*accepted"),
        ("job_type,num_gpus,a\n", "has no rows; accepted: one for each"),
        ("job_type,num_gpus,a\nx,1\n", "line 2: is 'x,1'; accepted: job_type,num_gpus,a, whole"),
        ("job_type,num_gpus,a\nx,0,1\n", "line 2: .*whole numbers"),
        ("job_type,num_gpus,a\nx,1,-1\n", "line 2: .*whole numbers"),
        ("job_type,num_gpus,a\nx,1,1.5\n", "line 2: .*whole numbers"),
        ("job_type,num_gpus,a\nx,1,²\n", "line 2: .*whole numbers"),
        ("job_type,num_gpus,a\nx,1,100001\n", "from 0 to 100000"),
        (f"job_type,num_gpus,a\nx,1,{'9' * 5000}\n", "from 0 to 100000"),
        ("job_type,num_gpus,a\nx,1,1\nx,1,2\n", "line 3: 'x' with 1 GPUs comes twice"),
        ("x" * (LARGEST_FILE + 1), "is no table of speeds; accepted: up to a MiB"),
        ('job_type,num_gpus,a\n"' + "x" * 200_000, r"no table of speeds \(field larger"),
        ("job_type,num_gpus,a\n" + "x,1,1\n" * 5000, "no table of speeds; accepted: up to 4096"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, text, match):
    with pytest.raises(JaxschedError, match=match) as caught:
        read_speeds(own(tmp_path, text))
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 400


def test_what_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none", tmp_path, tmp_path / "bytes"):
        with pytest.raises(JaxschedError, match="cannot be read .*accepted: gavel, or a file"):
            read_speeds(path)
    speeds = read_speeds(own(tmp_path, "job_type,num_gpus,a\nx,2,1\n"))
    with pytest.raises(JaxschedError, match="no row for jobs of 1 GPUs"):
        with_speeds(jobs([1]), speeds, ("a",))
    with pytest.raises(JaxschedError, match="no GPUs of type 'b'; accepted: a"):
        with_speeds(jobs([2]), speeds, ("b",))
