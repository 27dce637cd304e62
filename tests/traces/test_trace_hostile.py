"""Files and values that nobody should have, and the single line that each of them gets."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.traces import Trace, import_trace, load, read_trace, registry, text, write_trace
from jaxsched.traces.describe_trace import describe_trace
from jaxsched.traces.download import fetch_file
from jaxsched.traces.mapping import MappingConfig
from jaxsched.traces.readers import pai_simulator
from jaxsched.traces.text import LONGEST_TEXT, stem
from jaxsched.traces.trace_plots import plot_trace

JOBS = "submit_time,num_gpus,duration\n0,1,100\n10,2,200\n"


def trace(submit=(0.0, 10.0), gpus=(1.0, 2.0), duration=(100.0, 200.0), name="hand", **columns):
    required = {"submit_time": submit, "num_gpus": gpus, "duration": duration}
    return Trace({key: np.array(v) for key, v in {**required, **columns}.items()}, name)


def refusal(call, *arguments):
    with pytest.raises(JaxschedError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "facts",
    [
        '{"name": "\\ud800"}',
        '{"notes": ["half \\udfff"]}',
        '{"notes": [{"a": 1}, 3]}',
        '{"rows_read": true}',
        "[" * 100_000,
    ],
    ids=["name", "note", "notes", "rows", "deep"],
)
def test_what_a_file_says_of_itself_is_checked(tmp_path, facts):
    path = tmp_path / "t.csv"
    path.write_text(f"# jaxsched trace 1 {facts}\n{JOBS}")
    message = refusal(load, path)
    assert message.startswith(f"{path}: what it says of itself is ") and len(message) < 400


def test_every_job_has_a_submission_time():
    message = refusal(lambda: trace(submit=(1.0, float("nan"))))
    assert "job 1: submit_time is nan; accepted: a finite number for every job" in message


def test_parquet_columns_of_other_types(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    good = {"submit_time": [0, 1], "num_gpus": [1, 2], "duration": [3, 4]}
    pq.write_table(pa.table({**good, "num_gpus": [True, False]}), path)
    assert "job 0: num_gpus is 'true'; accepted: a number" in refusal(load, path)
    pq.write_table(pa.table({**good, "submit_time": [[0], [1]]}), path)
    assert "(column submit_time: Unsupported cast from list" in refusal(load, path)
    pq.write_table(pa.table({name: pa.array([], pa.float64()) for name in good}), path)
    assert refusal(load, path) == f"{path}: has no jobs; accepted: one row per job"
    texts = pa.array(["a", None]).dictionary_encode()
    pq.write_table(pa.table({**good, "user": texts, "group": texts.cast(pa.large_string())}), path)
    read = load(path)
    assert read["user"].tolist() == read["group"].tolist() == ["a", ""]


def test_parquet_of_a_damaged_schema(tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(path, trace(user=["a", "b"]))
    path.write_bytes(path.read_bytes().replace(b"duration", b"dura\xff\xfeon"))
    assert "is not a usable Parquet file" in refusal(load, path)


def bounded_load(path, megabytes=600):
    """What ``load`` says of a file in a process that may not have more memory than that."""
    code = (
        "import resource, sys; from jaxsched.errors import JaxschedError;"
        "from jaxsched.traces import load;"
        f"resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20,) * 2)\n"
        "try: load(sys.argv[1])\nexcept JaxschedError as error: print(error)"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=300,
        check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr[-400:]
    return done.stdout.strip()


def test_one_long_text_takes_no_gigabytes(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{k},1,100,u{k}" for k in range(20_000)]
    rows[7] = "7,1,100," + "a" * 100_000
    path.write_text("submit_time,num_gpus,duration,user\n" + "\n".join(rows) + "\n")
    message = bounded_load(path)
    assert message.startswith(f"{path}, line 9: user is 'aaa")
    assert message.endswith("it has 100,000 letters; accepted: up to 256") and len(message) < 200


def test_one_long_line_of_a_gzip_file_is_not_held(tmp_path):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"submit_time,num_gpus,duration,user\n0,1,100,b\n0,1,100,")
        for _ in range(600):
            file.write(b"a" * 2**20)
    message = bounded_load(path)
    assert message == f"{path}, line 3: has more than 1,048,576 letters; accepted: shorter lines"


def test_a_small_file_that_inflates_without_end_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"submit_time,num_gpus,duration\n" + b"0,1,100\n" * 100_000, 9))
    monkeypatch.setattr(text, "LARGE_BYTES", 2**18)
    assert "inflates to more than 200 times its size" in refusal(load, path)
    monkeypatch.setattr(text, "MOST_INFLATION", 2000)
    assert len(load(path)) == 100_000


def test_long_texts_are_refused_wherever_they_come_from(tmp_path):
    long, short = "x" * (LONGEST_TEXT + 1), "x" * LONGEST_TEXT
    assert "job 1: user is 'xxx" in refusal(lambda: trace(user=["a", long]))
    path = tmp_path / "t.parquet"
    write_trace(path, trace(user=["a", short]))
    assert read_trace(path)["user"].tolist() == ["a", short]
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"submit_time": [0.0, 1.0], "num_gpus": [1.0, 2.0], "duration": [3.0, 4.0]}
    pq.write_table(pa.table({**columns, "user": ["a", long]}), path)
    assert f"{path}, job 1: user is 'xxx" in refusal(load, path)
    log = tmp_path / "log.json"
    log.write_text(f'[{{"jobid": "{long}", "submitted_time": "2020-01-01 00:00:00",'
                   ' "attempts": [], "status": "Pass", "vc": "v", "user": "u"}]')  # fmt: skip
    assert "jobid is 'xxx" in refusal(load, log)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_refused_since_files_are_read_twice(tmp_path):
    path = tmp_path / "t.csv"
    os.mkfifo(path)
    code = "import sys; from jaxsched.traces import load; load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr.endswith(f"{path}: is a pipe; accepted: a file\n")


def test_huge_numbers_are_refused_before_they_overflow():
    assert "num_gpus reaches 1e+300" in refusal(import_trace, trace(gpus=(1e300, 1.0)))
    assert "submit_time reaches 1e+308" in refusal(import_trace, trace(submit=(-1e308, 1e308)))
    huge = trace(memory_gb=(1e300, 1.0))
    assert import_trace(huge, mode="cut", num_jobs=2).stream["memory_gb"].tolist() == [2**62, 1]


def test_a_load_that_no_whole_seconds_give_is_refused():
    message = refusal(
        lambda: import_trace(trace(), config=MappingConfig(num_servers=15, load=1e300))
    )
    assert message.startswith("hand: load is 1e+300, so that all jobs come within ")
    message = refusal(lambda: import_trace(trace(), config=MappingConfig(mean_gap_s=1e-9)))
    assert message.startswith("hand: mean_gap_s is 1e-09, so that all jobs come within ")


def test_shares_of_instances_add_up_to_whole_gpus(tmp_path):
    path = tmp_path / "s.csv"
    header = ",".join(pai_simulator.BASE)
    path.write_text(f"{header}\n1,50,0,0.14,0.14,T4,100,u\n2,3,5,1,0.1,T4,100,u\n")
    read = load(path)
    assert 0.14 * 50 > 7 and read["num_gpus"].tolist() == [7, 0.3]
    stream = import_trace(read, mode="cut", num_jobs=2).stream
    assert stream["num_gpus"].tolist() == [7, 1] and stream["cpus"].tolist() == [7, 3]


def test_letters_that_text_files_cannot_hold(tmp_path):
    odd = trace(user=["a\0b", "c"])
    assert "has texts with NUL letters" in refusal(write_trace, tmp_path / "t.csv", odd)
    write_trace(tmp_path / "t.parquet", odd)
    assert read_trace(tmp_path / "t.parquet")["user"].tolist() == ["a\0b", "c"]


@pytest.mark.parametrize("name", ["$\\frac$", "a$b$c", "日本"])
def test_names_are_drawn_as_they_are(tmp_path, name):
    plot_trace(trace(name=name), tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 10_000


def test_names_of_files_may_hold_any_bytes():
    assert stem(os.fsdecode(b"folder/\xff\xfe.csv.gz")) == "??"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(path)
    write_whole(link, b"one")
    assert link.is_symlink() and path.read_bytes() == b"one"
    write_whole(os.devnull, b"lost")
    assert not os.path.isfile(os.devnull)
    for bad in (tmp_path, tmp_path / "no" / "file", tmp_path / ("x" * 400), "a\0b", path / "x"):
        assert "cannot be written" in refusal(write_whole, bad, b"two")
    assert sorted(tmp_path.iterdir()) == [path, link]


def test_numbers_of_traces_and_jobs_are_checked():
    for numbers in ({"num_traces": 0}, {"num_jobs": 0}, {"num_jobs": -2}):
        ((name, value),) = numbers.items()
        message = refusal(lambda given=numbers: registry.get("das-mixed", **given))
        assert message == f"{name} is {value}; accepted: a whole number from 1 on"


def test_half_of_a_bracket_is_no_address(tmp_path):
    assert "is no address to fetch from" in refusal(fetch_file, "http://[::1/x", tmp_path / "x")


def test_one_job_has_statistics():
    figures = describe_trace(trace((5.0,), (1.0,), (9.0,)), 1)
    assert figures["gap_s"]["mean"] is figures["load"] is figures["busy_gpus"]["mean"] is None
    assert figures["busy_gpus"]["peak"] == 1 and figures["gpu_seconds"] == 9
