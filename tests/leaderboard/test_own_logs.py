"""Logs of one's own on the board: which rows are jobs, the cluster, what really happened, names."""

import csv
import json

import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.jobs.servers import Servers
from jaxsched.leaderboard import Workload, prepare
from jaxsched.leaderboard.choosing import workloads_of
from jaxsched.leaderboard.recorded import NAME, recorded_entry
from jaxsched.leaderboard.workloads import at_load, prepare_draws
from jaxsched.results.job_times import COLUMNS
from jaxsched.trace_replay import Cluster
from jaxsched.traces import Trace, registry, write_tables, write_trace

COUNT = 60


def log(count=COUNT):
    """A log on two servers of 8 GPUs: every job waits a minute and runs as long as it needs."""
    rng = np.random.default_rng(3)
    submit = np.cumsum(rng.integers(1, 200, count)).astype(float)
    duration = rng.integers(20, 2000, count).astype(float)
    start = submit + 60
    return {
        "submit_time": submit,
        "num_gpus": rng.choice([1.0, 2.0, 4.0], count),
        "duration": duration,
        "job_id": np.array([f"j{k}" for k in range(count)]),
        "start_time": start,
        "end_time": start + duration,
    }


def swf(path, cancelled):
    """The same jobs in the Standard Workload Format, some lines of jobs that never started."""
    columns, lines = log(), ["; Version: 2.2"]
    for k in range(COUNT):
        submit, gpus, run = (int(columns[n][k]) for n in ("submit_time", "num_gpus", "duration"))
        rest = "-1 -1 1 1 1 -1 1 -1 -1 -1"
        lines.append(f"{2 * k} {submit} 60 {run} {gpus} -1 -1 {gpus} {rest}")
        if cancelled and k % 2:
            lines.append(
                f"{2 * k + 1} {submit} 30 0 0 -1 -1 {gpus} {rest.replace('1 1 1', '5 1 1')}"
            )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs")
    write_trace(path / "log.csv", Trace(log(), "log"))
    swf(path / "all.swf", cancelled=True)
    swf(path / "started.swf", cancelled=False)
    return path


@pytest.fixture
def play(folder, tmp_path, capsys):
    """Runs the command on files of the folder; the document, and what was printed."""

    def run(*words, traces=("log.csv",)):
        files = [word for name in traces for word in ("--trace", str(folder / name))]
        result = tmp_path / "result.json"
        assert main(["leaderboard", *files, "--policies", "fifo,sjf", "--iterations", "1",
                     "--processes", "1", "--out", str(tmp_path / "out"), "--json", str(result),
                     *words]) == 0  # fmt: skip
        return json.loads(result.read_text()), capsys.readouterr().out

    return run


def test_jobs_that_never_ran_are_not_played(play):
    document, printed = play(traces=("all.swf", "started.swf"))
    every, started = (document["pieces"][f"{name}@0.9"] for name in ("all", "started"))
    assert every["num_jobs"] == started["num_jobs"] == COUNT
    assert every["standings"] == started["standings"] and every["bounds"] == started["bounds"]
    note = "30 rows without GPUs or run time dropped"
    assert note in every["notes"] and note in printed and note not in started["notes"]


def test_own_rows_with_a_duration_of_0_are_no_jobs(tmp_path):
    path = tmp_path / "own.csv"
    rows = "\n".join(f"{10 * k},1,{0 if k == 2 else 30}" for k in range(6))
    path.write_text(f"submit_time,num_gpus,duration\n{rows}\n")
    ready = prepare(Workload("own", str(path)), None)
    assert len(ready.table) == 5 and "1 row without GPUs or run time dropped" in ready.notes


def test_what_happened_stands_beside_the_policies(play, folder):
    document, printed = play("--servers", "2x8")
    (piece,) = document["pieces"].values()
    rows = {row["policy"]: row for row in piece["standings"]}
    assert set(rows) == {"fifo", "sjf", NAME} and rows[NAME]["recorded"]
    columns = log()
    within = slice(COUNT // 10, COUNT - COUNT // 10)
    assert rows[NAME]["figures"]["avg_wait"] == 60
    jct = columns["duration"][within] + 60
    assert rows[NAME]["avg_jct"]["estimate"] == pytest.approx(jct.mean())
    assert rows[NAME]["jct_ratio"] == pytest.approx(jct.mean() / piece["bounds"]["any_s"])
    assert rows["fifo"]["over_reference"]["estimate"] == 1, "what happened is no reference"
    assert NAME in printed and f"{NAME} has the lowest" not in printed
    held = [np.sum(columns["num_gpus"][(columns["start_time"] <= t) & (columns["end_time"] > t)])
            for t in columns["start_time"]]  # fmt: skip
    assert any(
        note.startswith(f"'{NAME}' are the starts and ends of the log itself")
        and f"up to {int(max(held))} GPUs in use at once; the policies have 16" in note
        for note in piece["notes"]
    )


def test_it_does_not_where_times_are_stretched_or_jobs_have_no_start(folder):
    source = str(folder / "log.csv")
    own = Workload("log", source, own=True)
    ready = prepare(own, None)
    assert ready.recorded and recorded_entry(ready)[0] is not None
    assert not prepare(own._replace(num_servers=2), None).recorded, "stretched to 0.9"
    assert not at_load([ready], 0.5)[0].recorded
    assert not prepare(own._replace(own=False), None).recorded, "on another cluster than its own"
    wait = ready.log.wait.copy()
    wait[[0, 30, 31]] = np.nan
    entry, notes = recorded_entry(ready._replace(log=ready.log._replace(wait=wait)))
    assert entry is None and "2 of the 48 jobs that count have no recorded start" in notes[0]
    early = ready._replace(log=ready.log._replace(wait=ready.log.wait - 100))
    entry, notes = recorded_entry(early)
    records = entry.play(early.table, early.cluster)
    assert np.all(records.start == records.submit) and "60 jobs of the log start before" in notes[1]


def test_the_cluster_is_given_and_its_load_said(play, folder):
    document, printed = play("--servers", "2x8")
    assert document["load"] is None and list(document["pieces"]) == ["log@own"]
    piece = document["pieces"]["log@own"]
    assert (piece["num_servers"], piece["gpus_per_server"]) == (2, 8)
    columns = log()
    span = columns["submit_time"][-1] - columns["submit_time"][0]
    load = np.sum(columns["num_gpus"] * columns["duration"]) / 16 / span
    note = f"cluster of 2 x 8 GPUs as given: a load of {load:.3f} between"
    assert any(each.startswith(note) for each in piece["notes"]) and note in printed
    stretched = prepare(Workload("log", str(folder / "log.csv"), 0.5, num_servers=2), None)
    assert stretched.load == pytest.approx(0.5, rel=1e-3)
    drawn = Workload("v", "helios-venus-like", None, 0, 4, 300)
    draws = prepare_draws(drawn, None, draws=2)
    alone = prepare(drawn, None, seed=1)
    np.testing.assert_array_equal(draws[1].table["submit_time"], alone.table["submit_time"])
    four = prepare(Workload("w", str(folder / "log.csv"), None, 0, 3, gpus_per_server=4), None)
    assert four.cluster == Cluster(3, 4) and four.load == pytest.approx(load * 16 / 12, rel=1e-3)


def test_times_of_every_job(play, tmp_path):
    path = tmp_path / "deep" / "jobs.csv"
    _, printed = play("--servers", "2x8", "--jobs", str(path))
    assert f"jobs' times: {path}" in printed
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-len(COLUMNS) :] == list(COLUMNS) and len(rows) == 3 * COUNT
    recorded = [row for row in rows if row["policy"] == NAME]
    assert [row["job_id"] for row in recorded] == log()["job_id"].tolist()
    assert {row["wait"] for row in recorded} == {"60"}
    assert sum(row["counts"] == "true" for row in recorded) == 48
    _, printed = play("--servers", "2x8", "--jobs", str(path))
    assert "to compute; Ctrl-C" not in printed, "they are kept with the record"


def test_the_old_spelling_of_the_number_of_jobs(play, capsys):
    document, _ = play("--servers", "2x8", "--num-jobs", "40")
    assert main(["leaderboard", "--jobs", "1"]) == 2
    message = capsys.readouterr().err
    assert "'--jobs 1' is now spelt '--num-jobs 1'; --jobs names a file" in message
    assert document["pieces"]["log@own"]["num_jobs"] == 40


def test_files_of_one_name_stand_side_by_side(tmp_path, folder):
    paths = ["a/x.csv", "b/x.csv", "b/x.csv.gz", "y.csv"]
    for path in paths:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        write_trace(tmp_path / path, Trace(log(), "x"))
    full = [str(tmp_path / path) for path in paths]
    assert [w.name for w in workloads_of(traces=full[:2])] == ["a/x", "b/x"]
    assert [w.name for w in workloads_of(traces=full[1:])] == ["x.csv", "x.csv.gz", "y"]
    found = [w.name for w in workloads_of(traces=[*full, full[0]])]
    assert found == ["a/x.csv", "b/x.csv", "b/x.csv.gz", "y"], "each once"
    chosen = workloads_of(traces=full[:2], names="philly-like")
    assert [w.name for w in chosen] == ["a/x", "b/x", "philly-like"]
    with pytest.raises(JaxschedError, match="nowhere: there is no such file, and no trace of that"):
        workloads_of(traces=["nowhere"])


def test_job_tables_and_named_traces_are_draws_on_one_cluster(tmp_path):
    tables = registry.get("sched2-68", seed=1, num_traces=3, num_jobs=COUNT)
    path = tmp_path / "tables.csv"
    write_tables(path, tables)
    draws = prepare_draws(Workload("t", str(path), 0.5), None, draws=2)
    assert len(draws) == 2 and draws[0].cluster == draws[1].cluster
    assert draws[0].notes[-1] == "the first 2 of 3 tables; --draws 3 plays all"
    for draw, table in zip(draws, tables, strict=False):
        np.testing.assert_array_equal(draw.table["duration"], table["duration"])
        np.testing.assert_array_equal(draw.table["submit_time"], table["submit_time"])
    works = [np.sum(d.table["num_gpus"] * d.table["duration"]) for d in draws]
    spans = [d.table["submit_time"][-1] for d in draws]
    servers = draws[0].cluster.num_servers
    assert (
        sum(works) / sum(spans) / 8 / servers <= 0.5 < sum(works) / sum(spans) / 8 / (servers - 1)
    )
    slower = at_load(draws, 0.25)
    spans = [d.table["submit_time"][-1] for d in slower]
    assert sum(works) / sum(spans) / 8 / servers == pytest.approx(0.25, rel=1e-3)
    named = workloads_of(traces=["sched2-68"], servers=Servers(15, 8))[0]
    ready = prepare_draws(named, None, seed=1, draws=2, num_jobs=COUNT)
    assert len(ready) == 2 and ready[0].cluster == Cluster(15, 8) and len(ready[0].table) == COUNT


def test_jobs_without_gpus_of_their_own_are_refused():
    with pytest.raises(JaxschedError, match="dl2-.*its jobs have no .* of their own; accepted"):
        name = next(name for name in registry.names() if name.startswith("dl2-"))
        prepare(Workload(name, name), None)


def test_policies_that_need_what_a_log_has_not_are_named(play, folder, capsys):
    document, printed = play("--servers", "2x8", "--policies", "fifo,drf,fifo-easy-est")
    (piece,) = document["pieces"].values()
    for reason in ("owners: drf", "users' estimates of run times: fifo-easy-est"):
        assert f"not played, for want of {reason}" in piece["notes"]
        assert reason in printed
    assert main(["leaderboard", "--trace", str(folder / "log.csv"), "--policies", "drf"]) == 2
    message = capsys.readouterr().err
    assert (
        "workload 'log' and its servers: for want of owners none of drf can play; accepted"
        in message
    )


def test_a_format_can_be_named(play):
    document, _ = play("--format", "trace", "--servers", "2x8")
    assert list(document["pieces"]) == ["log@own"]
