import gzip

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import sacct
from jaxsched.traces.readers.sacct import values

NAN = float("nan")
HEADER = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES"
LOCAL = "dates say no zone and are those of a local clock (timezone names it)"
DAY = 1709251200  # 2024-03-01 in seconds from 1970
FOUR = "billing=4,cpu=8,gres/gpu=4,mem=64G,node=1"


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def line(job="1", state="COMPLETED", submit="09:00:00", start="09:00:10", end="10:00:10",
         elapsed="", allocated=FOUR, asked="", user="a", partition="gpu"):  # fmt: skip
    times = [f"2024-03-01T{at}" if at[:1].isdigit() else at for at in (submit, start, end)]
    return "|".join((job, user, partition, state, *times, elapsed, allocated, asked))


def read(tmp_path, *lines, header=HEADER, **how):
    return sacct.read(write(tmp_path / "log.txt", header, *lines), **how)


def refusal(path, **how):
    with pytest.raises(JaxschedError) as caught:
        sacct.read(path, **how)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message.removeprefix(str(path))


def at(clock):
    hours, minutes, seconds = map(int, clock.split(":"))
    return DAY + 3600 * hours + 60 * minutes + seconds


def test_an_export_with_steps_arrays_components_and_requeues(tmp_path):
    path = write(
        tmp_path / "jobs.txt",
        "JobID|JobName|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES",
        "11|fit|ann|vis|gpu|COMPLETED|2024-03-01T09:00:00|2024-03-01T09:00:10|2024-03-01T10:00:10"
        "|3600|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1|cpu=8,gres/gpu=2",
        "11.batch|batch||vis||COMPLETED|2024-03-01T09:00:10|2024-03-01T09:00:10"
        "|2024-03-01T10:00:10|3600|cpu=8,gres/gpu=2,mem=64G,node=1|",
        "12_1|arr|bob|nlp|gpu|CANCELLED by 12|2024-03-01T09:05:00|None|2024-03-01T09:06:00|0"
        "||billing=4,cpu=4,gres/gpu=4,mem=32G,node=1",
        "12_[2-4,7]|arr|bob|nlp|gpu|PENDING|2024-03-01T09:05:00|Unknown|Unknown|0"
        "||billing=4,cpu=4,gres/gpu=4,mem=32G,node=1",
        "13+0|het|cat|nlp|gpu|COMPLETED|2024-03-01T09:10:00|2024-03-01T09:11:00"
        "|2024-03-01T09:41:00|1800|cpu=1,gres/gpu:a100=4,gres/gpu=4,node=1|",
        "13+1|het|cat|nlp|cpu|COMPLETED|2024-03-01T09:10:00|2024-03-01T09:11:00"
        "|2024-03-01T09:41:00|1800|cpu=64,node=2|",
        "14|req|dan|nlp|gpu|REQUEUED|2024-03-01T09:12:00|2024-03-01T09:12:30|2024-03-01T09:30:00"
        "|1050|cpu=8,gres/gpu=8,node=1|",
        "14|req|dan|nlp|gpu|TIMEOUT|2024-03-01T09:30:00|2024-03-01T09:45:00|2024-03-02T09:45:00"
        "|86400|cpu=8,gres/gpu=8,node=1|",
    )
    assert recognise(path).name == "sacct"
    trace = load_trace(path)
    assert (trace.name, trace.source, trace.clock, trace.rows_read) == ("jobs", "sacct", "local", 8)
    waiting = [f"12_{task}" for task in (2, 3, 4, 7)]
    assert trace["job_id"].tolist() == ["11", "12_1", *waiting, "13", "14"]
    np.testing.assert_array_equal(trace["num_gpus"], [2, 4, 4, 4, 4, 4, 4, 8])
    last = at("09:45:00") + 86400
    run = [3600, NAN, NAN, NAN, NAN, NAN, 1800, last - at("09:12:30")]
    np.testing.assert_array_equal(trace["duration"], run)
    assert trace["status"].tolist() == (
        ["completed", "killed", *["pending"] * 4, "completed", "failed"]
    )
    start = [at("09:00:10"), NAN, NAN, NAN, NAN, NAN, at("09:11:00"), at("09:12:30")]
    np.testing.assert_array_equal(trace["start_time"], start)
    np.testing.assert_array_equal(trace["attempts"], [1, 0, 0, 0, 0, 0, 1, 2])
    np.testing.assert_array_equal(trace["num_nodes"], [1, 1, 1, 1, 1, 1, 3, 1])
    assert trace["submit_time"][-1] == at("09:12:00") and trace["end_time"][-1] == last
    assert trace["gpu_type"].tolist() == [*[""] * 6, "a100", ""]
    assert (trace["user"][0], trace["group"][0]) == ("ann", "gpu")
    assert (trace["cpus"][0], trace["memory_gb"][0]) == (8, 64)
    assert trace.notes == (
        LOCAL,
        "1 lines of job steps (.batch, .extern, .0) left out",
        "4 waiting tasks of arrays, listed by ranges, are a job each",
        "2 records of requeued or repeated jobs joined: first start, last end",
        "2 components of heterogeneous jobs joined, their GPUs added up",
        "1 jobs never started, their run times not known",
        "4 jobs still running or waiting, their run times not known",
    )


@pytest.mark.parametrize(
    ("cell", "gpus", "kinds"),
    [
        ("gres/gpu=4", 4, ()),
        ("billing=8,cpu=8,gres/gpu=2,mem=64G,node=1", 2, ()),
        ("gres/gpu:a100=4", 4, ("a100",)),
        ("gres/gpu:a100=4,gres/gpu=4", 4, ("a100",)),
        ("gres/gpu=4,gres/gpu:a100=4", 4, ("a100",)),
        ("gres/gpu:a100=2,gres/gpu:v100=1", 3, ("a100", "v100")),
        ("gres/gpu:a100=2,gres/gpu:v100=1,gres/gpu=3", 3, ("a100", "v100")),
        ("gres/gpu:1g.5gb=2", 2, ("1g.5gb",)),
        ("gres/gpumem=80G,gres/gpuutil=3,gres/gpu=1", 1, ()),
        ("gpu:4", 4, ()),
        ("gpu:a100:4", 4, ("a100",)),
        ("gpu:a100:4(S:0-1)", 4, ("a100",)),
        ("gpu:a100", 1, ("a100",)),
        ("gpu", 1, ()),
        ("gres:gpu:2", 2, ()),
        ("gres/gpu:2", 2, ()),
        ("gres/gpu:a100:2", 2, ("a100",)),
        ("PER_NODE:gpu:2", 2, ()),
        ("gpu:2,mps:100", 2, ()),
        ("gpu:0", 0, ()),
        ("cpu=4,gres/mps=10", NAN, ()),
        ("cpu=64,node=2", NAN, ()),
        ("", NAN, ()),
    ],
)
def test_spellings_of_gpus(cell, gpus, kinds):
    demand = values.demand(cell)
    np.testing.assert_equal((demand.gpus, demand.kinds), (float(gpus), kinds))


def test_memory_and_cores():
    demand = values.demand("cpu=8,mem=1536M,node=2")
    assert (demand.cpus, demand.memory_gb, demand.nodes) == (8, 1.5, 2)
    assert [values.demand(f"mem={m}").memory_gb for m in ("2T", "512", "62.50G", "1048576K")] == [
        2048, 0.5, 62.5, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("cell", ["gres/gpu=x", "gpu:a100:4,gres/gpu=", "gres/gpu=-1"])
def test_numbers_of_gpus_that_are_none(tmp_path, cell):
    message = refusal(write(tmp_path / "a.txt", HEADER, line(allocated=cell)))
    assert message == f", line 2: AllocTRES is '{cell}'; accepted: resources as gres/gpu=4"


@pytest.mark.parametrize(
    ("allocated", "asked", "gpus"),
    [
        ("cpu=1,gres/gpu=2", "cpu=1,gres/gpu=4", 2),
        ("", "cpu=1,gres/gpu=4", 4),
        ("cpu=1,node=1", "", 0),
        ("cpu=1", "cpu=1", 0),
        ("", "", NAN),
    ],
)
def test_what_was_allocated_counts_before_what_was_asked(tmp_path, allocated, asked, gpus):
    trace = read(tmp_path, line(allocated=allocated, asked=asked))
    np.testing.assert_array_equal(trace["num_gpus"], [gpus])


@pytest.mark.parametrize(
    ("column", "cell", "nodes", "gpus"),
    [
        ("ReqGRES", "gpu:4", "2", 8),
        ("ReqGRES", "gpu:v100:4", "", 4),
        ("AllocGRES", "gpu:8", "2", 8),
    ],
)
def test_old_columns_of_gres(tmp_path, column, cell, nodes, gpus):
    trace = read(
        tmp_path,
        f"1|2024-03-01T09:00:00|01:00:00|{nodes}|{cell}",
        header=f"JobID|Submit|Elapsed|NNodes|{column}",
    )
    assert trace["num_gpus"].tolist() == [gpus] and trace["duration"].tolist() == [3600]


def test_nodes_for_old_columns_from_tres(tmp_path):
    header = "JobID|Submit|Elapsed|AllocTRES|ReqGRES"
    trace = read(tmp_path, "1|2024-03-01T09:00:00|10:00|cpu=4,node=3|gpu:2", header=header)
    assert (trace["num_gpus"].tolist(), trace["duration"].tolist()) == ([6], [600])


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("2-03:04:05", 183845),
        ("10:00:10", 36010),
        ("03:04", 184),
        ("00:00:01.500", 1.5),
        ("03:04.250", 184.25),
        ("100-00:00:00", 8640000),
        ("UNLIMITED", NAN),
        ("Partition_Limit", NAN),
        ("INVALID", NAN),
        ("", NAN),
    ],
)
def test_spans(cell, seconds):
    np.testing.assert_equal(values.span(cell), float(seconds))


@pytest.mark.parametrize(
    ("column", "cell", "seconds"),
    [
        ("Timelimit", "1-00:00:00", 86400),
        ("Timelimit", "UNLIMITED", NAN),
        ("Timelimit", "Partition_Limit", NAN),
        ("TimelimitRaw", "90", 5400),
        ("TimelimitRaw", "UNLIMITED", NAN),
    ],
)
def test_time_limits_are_the_estimates_of_users(tmp_path, column, cell, seconds):
    trace = read(tmp_path, line() + f"|{cell}", line("2") + "|1:00:00", header=f"{HEADER}|{column}")
    np.testing.assert_array_equal(trace["requested_time"], [seconds, 3600])


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("COMPLETED", "completed"),
        ("CANCELLED by 1000", "killed"),
        ("CANCELLED+", "killed"),
        ("CANCELLED", "killed"),
        ("FAILED", "failed"),
        ("TIMEOUT", "failed"),
        ("OUT_OF_MEMORY", "failed"),
        ("OUT_OF_ME+", "failed"),
        ("NODE_FAIL", "failed"),
        ("BOOT_FAIL", "failed"),
        ("DEADLINE", "failed"),
        ("PREEMPTED", "killed"),
        ("RUNNING", "running"),
        ("SUSPENDED", "running"),
        ("COMPLETING", "running"),
        ("PENDING", "pending"),
        ("REQUEUED", "pending"),
        ("RQ", "pending"),
        ("CD", "completed"),
        ("OOM", "failed"),
        ("completed", "completed"),
        ("", ""),
        ("COMP", None),
        ("WONDERFUL", None),
    ],
)
def test_states(state, status):
    assert values.status(state) == status


def test_states_that_are_not_known_are_said(tmp_path):
    trace = read(tmp_path, line(state="WONDERFUL"))
    assert "status" not in trace
    assert trace["duration"].tolist() == [3600]
    assert trace.notes == (
        LOCAL,
        "1 jobs of the state 'WONDERFUL', which is not known, their status left empty",
    )


def test_both_kinds_of_parsable_output_are_equal(tmp_path):
    rows = [HEADER, line(), line("2.batch"), line("3")]
    ended = [f"{row}|" for row in rows]
    plain = sacct.read(write(tmp_path / "a.txt", *rows))
    for name, lines in (
        ("both", ended),
        ("only the header", [ended[0], *rows[1:]]),
        ("only lines", [rows[0], *ended[1:]]),
    ):
        path = write(tmp_path / f"{name}.txt", *lines)
        assert recognise(path).name == "sacct"
        assert sacct.read(path).digest() == plain.digest()
    (tmp_path / "z.gz").write_bytes(gzip.compress(("\r\n".join(rows)).encode()))
    assert load_trace(tmp_path / "z.gz").digest() == plain.digest()


@pytest.mark.parametrize("delimiter", [",", "\t", ";", ":::", "^", " | "])
def test_other_delimiters(tmp_path, delimiter):
    header = "User|JobID|Partition|State|AllocTRES|ReqTRES|Submit|Start|End"
    rows = [
        header,
        f"a|7_[3,5-7]|gpu,other|PENDING||{FOUR}|2024-03-01T09:00:00|Unknown|Unknown",
        f"b|8|gpu|COMPLETED|{FOUR}|{FOUR}|2024-03-01T09:00:00|2024-03-01T09:00:00"
        "|2024-03-01T09:10:00",
        "c|9|gpu|COMPLETED|gres/gpu:a100=1,gres/gpu=1||2024-03-01T09:00:00|2024-03-01T09:00:00"
        "|2024-03-01T09:20:00",
    ]
    if delimiter == ",":
        rows[1] = rows[1].replace("gpu,other", "gpu")  # a list that nothing tells
    plain = sacct.read(write(tmp_path / "a.txt", *rows))
    path = write(tmp_path / "b.txt", *(row.replace("|", delimiter) for row in rows))
    assert recognise(path).name == "sacct"
    trace = sacct.read(path)
    assert trace["job_id"].tolist() == ["7_3", "7_5", "7_6", "7_7", "8", "9"]
    if delimiter != ",":
        assert trace.digest() == plain.digest()
    np.testing.assert_array_equal(trace["num_gpus"], [4, 4, 4, 4, 4, 1])
    np.testing.assert_array_equal(trace["duration"], [NAN] * 4 + [600, 1200])


def test_commas_and_quotes_as_other_programs_write_them(tmp_path):
    header = ",JobID,User,Submit,Elapsed,AllocTRES"
    rows = (
        '0,1,a,2024-03-01T09:00:00,00:10:00,"cpu=8,gres/gpu=4"',
        "1,2,b,2024-03-01T09:00:00,00:20:00,gres/gpu=2",
    )
    trace = read(tmp_path, *rows, header=header)
    assert trace["num_gpus"].tolist() == [4, 2] and trace["duration"].tolist() == [600, 1200]
    quoted = [",".join(f'"{cell}"' for cell in ("3", "c", "2024-03-01 09:00:00", "60", FOUR))]
    names = '"JobID","User","Submit","ElapsedRaw","AllocTRES"'
    trace = read(tmp_path, *quoted, header=names)
    assert (trace["user"].tolist(), trace["num_gpus"].tolist()) == (["c"], [4])


def test_columns_in_any_order_and_any_that_are_enough(tmp_path):
    a = read(
        tmp_path,
        f"{FOUR}|x|2024-03-01T09:00:10|0:0|2024-03-01T10:00:10|2024-03-01T09:00:00|5",
        header="AllocTRES|Comment|Start|ExitCode|End|Submit|JobIDRaw",
    )
    assert (a["job_id"].tolist(), a["duration"].tolist()) == (["5"], [3600])
    assert list(a.columns) == [
        "submit_time", "num_gpus", "duration", "job_id", "start_time", "end_time", "attempts",
        "num_nodes", "cpus", "memory_gb",
    ]  # fmt: skip
    b = read(
        tmp_path, f"6|2024-03-01T09:00:00|60|{FOUR}", header="JobID|Eligible|ElapsedRaw|ReqTRES"
    )
    assert (b["duration"].tolist(), b["num_gpus"].tolist()) == ([60], [4])


@pytest.mark.parametrize(
    ("header", "missing"),
    [
        ("JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode",
         "Submit, Start and End, or Elapsed, AllocTRES or ReqTRES"),
        ("JobID|User|Submit|Start|AllocTRES", "Start and End, or Elapsed"),
        ("JobID|User|Start|End|AllocTRES", "Submit"),
        ("JobID|User|Submit|Start|End", "AllocTRES or ReqTRES"),
    ],
)  # fmt: skip
def test_columns_that_are_not_enough(tmp_path, header, missing):
    path = write(tmp_path / "a.txt", header, "1" + "|" * header.count("|"))
    assert recognise(path).name == "sacct"
    assert refusal(path).startswith(
        f": is output of sacct without {missing}; accepted: that of 'sacct -a -X -P -o JobID,"
    )


def test_fixed_widths_are_refused_with_the_option_that_helps(tmp_path):
    path = write(
        tmp_path / "a.txt",
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode",
        "------------ ---------- ---------- ---------- ---------- ---------- --------",
        "1002_[2-9,+        wrap        gpu       root          4 CANCELLED+      0:0",
    )
    assert recognise(path).name == "sacct"
    assert refusal(path) == (
        ": its columns have a fixed width, which cuts values off; accepted: the same command with "
        "-P, 'sacct -P ...'"
    )


def test_jobs_without_gpus_are_kept(tmp_path):
    trace = read(tmp_path, line(), line("2", allocated="cpu=4,node=1"))
    assert trace["num_gpus"].tolist() == [4, 0]


def test_jobs_that_run_wait_or_never_ran(tmp_path):
    trace = read(
        tmp_path,
        line("1", "RUNNING", end="Unknown", elapsed="500"),
        line("2", "PENDING", start="Unknown", end="Unknown", elapsed="0", allocated="", asked=FOUR),
        line("3", "CANCELLED by 0", start="None", end="09:30:00", elapsed="0", allocated=""),
        line("4", "CANCELLED by 0", start="09:30:00", end="09:30:00", elapsed="0", allocated=""),
        line("5", "FAILED", start="09:30:00", end="09:30:00", elapsed="0"),
        line("6", "DEADLINE", start="N/A", end="", allocated="", asked=FOUR),
        line("7", end="09:00:09"),
        line("8", submit="Unknown"),
    )
    np.testing.assert_array_equal(trace["duration"], [NAN, NAN, NAN, NAN, 0, NAN, NAN])
    started = [at("09:00:10"), NAN, NAN, NAN, at("09:30:00"), NAN, at("09:00:10")]
    np.testing.assert_array_equal(trace["start_time"], started)
    np.testing.assert_array_equal(trace["attempts"], [1, 0, 0, 0, 1, 0, 1])
    ends = [NAN, NAN, at("09:30:00"), at("09:30:00"), at("09:30:00"), NAN, at("09:00:09")]
    np.testing.assert_array_equal(trace["end_time"], ends)
    assert trace.notes == (
        LOCAL,
        "3 jobs never started, their run times not known",
        "2 jobs still running or waiting, their run times not known",
        "2 jobs whose number of GPUs is not known",
        "1 jobs without a submission time dropped",
        "1 jobs that end before they start, their run times not known",
    )


def test_times_that_other_columns_tell(tmp_path):
    trace = read(
        tmp_path,
        line("1", start="Unknown", elapsed="600"),
        line("2", end="", elapsed="600"),
        line("3", elapsed="3000"),
        line("4", elapsed="INVALID"),
    )
    assert trace["duration"].tolist() == [600, 600, 3000, 3600]
    assert trace["start_time"][0] == at("10:00:10") - 600
    assert trace["end_time"][1] == at("09:00:10") + 600
    assert trace.notes == (
        LOCAL,
        "1 jobs ran shorter than from start to end (suspended, or the clock was changed), as "
        "Elapsed says",
    )


def test_records_of_one_id(tmp_path):
    """Requeued twice, in any order; running in one export and ended in the next; cancelled."""
    trace = read(
        tmp_path,
        line("1", "TIMEOUT", "11:00:00", "11:00:05", "11:30:00"),
        line("1", "NODE_FAIL", "09:00:00", "09:00:05", "09:30:00", allocated="gres/gpu=8"),
        line("1", "PREEMPTED", "10:00:00", "10:00:05", "10:30:00"),
        line("2", "COMPLETED"),
        line("2", "RUNNING", end="Unknown"),
        line("2", "PENDING", start="Unknown", end="Unknown", allocated="", asked=FOUR),
        line("3", "REQUEUED", "09:00:00", "09:00:05", "09:30:00"),
        line("3", "CANCELLED by 0", "09:30:00", "None", "09:50:00", allocated=""),
        line("4", "REQUEUED", "09:00:00", "09:00:05", "09:30:00"),
        line("4", "PENDING", "09:30:00", "Unknown", "Unknown", allocated="", asked=FOUR),
        line("5", user="a"),
        line("5", user="b", submit="12:00:00", start="12:00:00", end="12:30:00"),
    )
    assert trace["job_id"].tolist() == ["1", "2", "3", "4", "5", "5"]
    assert trace["attempts"].tolist() == [3, 1, 1, 1, 1, 1]
    assert trace["status"].tolist() == [
        "failed", "completed", "killed", "pending", "completed", "completed",
    ]  # fmt: skip
    run = [at("11:30:00") - at("09:00:05"), 3600, at("09:30:00") - at("09:00:05"), NAN, 3600, 1800]
    np.testing.assert_array_equal(trace["duration"], run)
    assert trace["submit_time"][0] == at("09:00:00") and trace["num_gpus"].tolist() == [4] * 6
    assert trace["end_time"][2] == at("09:30:00") and np.isnan(trace["end_time"][3])
    assert "1 ids of several users, taken for a job of each" in trace.notes


def test_restarts_are_attempts(tmp_path):
    header = f"{HEADER}|Restarts"
    trace = read(tmp_path, line("1") + "|2", line("2") + "|0", line("3") + "|", header=header)
    assert trace["attempts"].tolist() == [3, 1, 1]


def test_ids_of_several_clusters_are_different_jobs(tmp_path):
    trace = read(tmp_path, line("1") + "|x", line("1") + "|y", header=f"{HEADER}|Cluster")
    assert trace["job_id"].tolist() == ["1", "1"] and trace["attempts"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("spec", "tasks", "whole"),
    [
        ("2-9", [2, 3, 4, 5, 6, 7, 8, 9], True),
        ("2-9%4", [2, 3, 4, 5, 6, 7, 8, 9], True),
        ("3,5-7", [3, 5, 6, 7], True),
        ("0-20:5", [0, 5, 10, 15, 20], True),
        ("1,3,...", [1, 3], False),
        ("9-2", [], True),
        ("x", [], False),
    ],
)
def test_lists_of_tasks(spec, tasks, whole):
    assert values.tasks_of(spec, 100) == (tasks, whole)


def test_long_lists_of_tasks_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(sacct.jobs, "MOST_TASKS", 5)
    trace = read(
        tmp_path, line("1_[0-999999999]", "PENDING"), line("2_[1-3]", "PENDING"), line("3")
    )
    assert trace["job_id"].tolist() == [*(f"1_{task}" for task in range(5)), "3"]
    assert "2 lists of waiting tasks are cut off or too long, further tasks left out" in trace.notes
    trace = read(tmp_path, line("1_[?]", "PENDING"))
    assert trace["job_id"].tolist() == ["1_[?]"]


def test_tasks_that_ran_since_take_the_place_of_waiting_ones(tmp_path):
    trace = read(tmp_path, line("1_[0-1]", "PENDING", start="Unknown", end="Unknown"), line("1_1"))
    assert trace["job_id"].tolist() == ["1_0", "1_1"]
    assert trace["status"].tolist() == ["pending", "completed"]


def test_components_that_end_in_different_ways(tmp_path):
    trace = read(
        tmp_path,
        line("5+0", "COMPLETED"),
        line("5+1", "FAILED", end="11:00:10"),
        line("5+0.batch"),
        line("6+0", "RUNNING", end="Unknown"),
        line("6+1", "COMPLETED"),
    )
    assert trace["job_id"].tolist() == ["5", "6"] and trace["num_gpus"].tolist() == [8, 8]
    assert trace["status"].tolist() == ["failed", "running"]
    np.testing.assert_array_equal(trace["duration"], [7200, NAN])


@pytest.mark.parametrize(
    ("stamp", "clock", "seconds"),
    [
        ("2024-03-01T09:00:00", "local", at("09:00:00")),
        ("2024-03-01 09:00:00", "local", at("09:00:00")),
        (str(at("09:00:00")), "utc", at("09:00:00")),
        ("2024-03-01T09:00:00+0100", "utc", at("08:00:00")),
    ],
)
def test_times_in_other_forms(tmp_path, stamp, clock, seconds):
    trace = read(tmp_path, f"1|{stamp}|60|{FOUR}", header="JobID|Submit|ElapsedRaw|AllocTRES")
    assert (trace.clock, trace["submit_time"].tolist()) == (clock, [seconds])


def test_unix_times_of_0_are_not_known(tmp_path):
    trace = read(
        tmp_path,
        f"1|PENDING|{at('09:00:00')}|0|0|{FOUR}",
        f"2|COMPLETED|{at('09:00:00')}|{at('09:00:10')}|{at('09:00:20')}|{FOUR}",
        header="JobID|State|Submit|Start|End|ReqTRES",
    )
    np.testing.assert_array_equal(trace["start_time"], [NAN, at("09:00:10")])
    np.testing.assert_array_equal(trace["duration"], [NAN, 10])


def test_a_time_zone_with_summer_time(tmp_path):
    rows = (
        f"1|2024-03-31T00:30:00|2024-03-31T01:30:00|2024-03-31T03:30:00|{FOUR}",
        f"2|2024-10-27T01:00:00|2024-10-27T02:30:00|2024-10-27T02:10:00|{FOUR}",
    )
    header = "JobID|Submit|Start|End|AllocTRES"
    trace = read(tmp_path, *rows, header=header, timezone="Europe/Berlin")
    assert trace.clock == "utc" and trace["duration"].tolist() == [3600, 2400]
    told = [f"{row}|{run}" for row, run in zip(rows, (3600, 2400), strict=True)]
    without = read(tmp_path, *told, header=f"{header}|ElapsedRaw")
    assert without.clock == "local" and without["duration"].tolist() == [3600, 2400]
    assert trace["submit_time"][0] == 1711841400  # 2024-03-30 23:30 in universal time
    with pytest.raises(JaxschedError, match=r"^timezone is 'Mars'; accepted: a name such as "):
        read(tmp_path, *rows, header=header, timezone="Mars")


def test_names_of_jobs_may_hold_delimiters_and_line_feeds(tmp_path):
    header = "JobID|JobName|User|Submit|Elapsed|AllocTRES|SubmitLine"
    trace = read(
        tmp_path,
        "1|x",
        " y|ann|2024-03-01T09:00:00|00:10:00|gres/gpu=1|sbatch x",
        "2|x|bob|2024-03-01T09:00:00|00:10:00|gres/gpu=2|sbatch --wrap=one",
        "",
        "two | three",
        "3|x|cat|2024-03-01T09:00:00|00:10:00|gres/gpu=3|sbatch",
        header=header,
    )
    assert trace["num_gpus"].tolist() == [1, 2, 3]
    named = read(
        tmp_path,
        "1|2024-03-01T09:00:00|00:10:00|gres/gpu=1|a|b|c|ann",
        header="JobID|Submit|Elapsed|AllocTRES|JobName|User",
    )
    assert (named["num_gpus"].tolist(), named["user"].tolist()) == ([1], ["ann"])


def test_headers_between_are_passed_over(tmp_path):
    trace = read(tmp_path, line("1"), HEADER, line("2"))
    assert trace["job_id"].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ("1|a", "has 2 fields; accepted: 10 ('JobID|User|Partition|"),
        (line() + "|x", "has 11 fields; accepted: 10 ("),
        (line("x1"), "JobID is 'x1'; accepted: an id such as 1002_1"),
        (line(submit="soon"), "Submit is 'soon'; accepted: YYYY-MM-DD HH:MM:SS"),
        (line(submit="25:00:00"), "Submit is '2024-03-01T25:00:00'; accepted: YYYY"),
        (line(elapsed="-5"), "ElapsedRaw is '-5'; accepted: a number"),
    ],
)
def test_bad_lines(tmp_path, bad, expected):
    assert refusal(write(tmp_path / "a.txt", HEADER, line(), bad)).startswith(
        f", line 3: {expected}"
    )


def test_files_without_jobs(tmp_path):
    assert refusal(write(tmp_path / "a.txt", HEADER, line("1.batch"))).startswith(": has no jobs; ")
    assert refusal(write(tmp_path / "b.txt", HEADER)).startswith(": has no jobs; accepted")
    assert refusal(write(tmp_path / "c.txt", "a,b")).startswith(": is no output of sacct; accepted")
    assert "none of its 1 rows has a submission" in refusal(
        write(tmp_path / "d.txt", HEADER, line(submit="Unknown"))
    )


@pytest.mark.parametrize(
    "header",
    [
        "JobID,User,Submit,Start,End,GPUs",
        "jobid,user,submit,start,end",
        "id|user|submit",
        "JobID,x",
    ],
)
def test_own_tables_are_not_taken_for_output_of_sacct(header):
    assert sacct.lines.header_of(header + "\n1\n") is None


LONG = 1_000_000


@pytest.mark.parametrize("column", HEADER.split("|"))
@pytest.mark.parametrize(
    "cell", ["7", "7-", "x", ":", "gres/gpu=1,", "(", "1_[", "9" * 99 + ",", "\t"]
)
def test_long_cells_take_a_time_linear_in_their_length(tmp_path, column, cell):
    cells = dict(zip(HEADER.split("|"), line().split("|"), strict=True))
    cells[column] = cell * (LONG // len(cell)) + "x"
    path = write(tmp_path / "a.txt", HEADER, line(), "|".join(cells.values()), line("3"))
    try:
        assert len(sacct.read(path)) in (2, 3)
    except JaxschedError as error:
        assert "\n" not in str(error) and len(str(error)) < 400


@pytest.mark.parametrize("cell", ["[,", "gres/gpu=1,", "gpu,", "a=1,b=2,", ",", '",'])
def test_long_lines_with_commas_take_a_time_linear_in_their_length(tmp_path, cell):
    bad = cell * (LONG // len(cell))
    path = write(tmp_path / "a.txt", HEADER.replace("|", ","), line().replace("|", ","), bad)
    assert refusal(path).startswith(", line 3: ")


def test_many_lines_that_are_too_short_take_a_time_linear_in_their_number(tmp_path):
    header = "JobID|JobName|Submit|Elapsed|AllocTRES"
    path = write(tmp_path / "a.txt", header, "1|x", *["y"] * 300_000)
    assert refusal(path) == (
        ", line 2: has 2 fields; accepted: 5 ('JobID|JobName|Submit|Elapsed|AllocTRES')"
    )
    path = write(tmp_path / "b.txt", header, *["1|x|2024-03-01T09:00:00|1:00|gpu"] * 20_000)
    assert sacct.read(path)["attempts"].tolist() == [1]
    users = "JobID|User|Submit|Elapsed|AllocTRES"
    rows = (f"1|u{k}|2024-03-01T09:00:00|1:00|gpu" for k in range(20_000))
    assert len(sacct.read(write(tmp_path / "c.txt", users, *rows))) == 20_000
