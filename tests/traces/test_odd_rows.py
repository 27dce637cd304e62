"""Odd rows are treated alike by all readers: counted in a note, never a reason to refuse a log."""

import json

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load, load_trace, readers
from jaxsched.traces.odd_rows import STATES_NAMED

DATES = {readers.helios, readers.acme, readers.philly_csv, readers.philly_vc}
TEXTS = {"state": "COMPLETED", "pod_phase": "Succeeded", "qos": "LS", "job_type": "HP"}
LAYOUTS = [
    *((reader, names) for reader in (readers.acme, readers.itp) for names in reader.HEADERS),
    *(
        (reader, reader.HEADERS[0])
        for reader in (
            readers.chronus,
            readers.elasticflow,
            readers.helios,
            readers.muri,
            readers.tiresias,
        )
    ),
    *(
        (reader, reader.HEADERS[0])
        for reader in (readers.philly_csv, readers.philly_vc, readers.crius, readers.pollux)
    ),
    (readers.openb, readers.openb.HEADER),
    (readers.dlrm, readers.dlrm.HEADER),
    (readers.pai_simulator, readers.pai_simulator.BASE),
    (readers.spot_gpu, readers.spot_gpu.COLUMNS),
]
SUBMIT = ("submit_time", "submission_time", "timestamp", "creation_time", "time")
START, END = ("start_time", "scheduled_time"), ("end_time", "deletion_time")
RUN = ("duration", "real_duration", "duration_s")
GPUS = ("num_gpus", "num_gpu", "gpu_num", "gpu_request", "num_replicas")

layouts = pytest.mark.parametrize(
    ("reader", "names"), LAYOUTS, ids=[f"{r.NAME}-{len(n)}" for r, n in LAYOUTS]
)


def moment(reader, seconds):
    return (
        f"2020-03-01 00:{seconds // 60:02}:{seconds % 60:02}" if reader in DATES else str(seconds)
    )


def row_of(reader, names, **odd):
    cells = {}
    for name in names:
        cells[name] = TEXTS.get(name, "1")
        for group, seconds in ((SUBMIT, 100), (START, 160), (END, 460)):
            if name in group:
                cells[name] = moment(reader, seconds)
        if name in RUN:
            cells[name] = "300"
    if reader is readers.chronus:
        cells["job_type"] = "soft"
    for key, value in odd.items():
        group = {"submit": SUBMIT, "start": START, "end": END, "run": RUN, "gpus": GPUS}[key]
        cells |= dict.fromkeys([name for name in names if name in group], value)
    return ",".join(cells.values())


def read(tmp_path, reader, names, *rows):
    path = tmp_path / "log.csv"
    path.write_text("\n".join((",".join(names), *rows)) + "\n")
    return load_trace(path)


def is_there(names, group):
    return any(name in group for name in names)


@layouts
def test_odd_rows_of_every_format(tmp_path, reader, names):
    good = row_of(reader, names)
    odd = {
        "submit": row_of(reader, names, submit="Unknown"),
        "run": row_of(reader, names, run="-60"),
        "unknown": row_of(reader, names, run="Unknown", end="Unknown"),
        "gpus": row_of(reader, names, gpus="-1"),
        "backwards": row_of(reader, names, end=moment(reader, 60)),
    }
    if reader is readers.tiresias:  # which drops equal rows
        odd = {key: f"{key}{row[1:]}" for key, row in odd.items()}
    trace = read(tmp_path, reader, names, good, *odd.values())
    usual = load_trace(tmp_path / "log.csv").take([0])
    assert len(trace) == 5 and trace.rows_read == 6
    assert trace.notes.count("1 jobs without a submission time dropped") == 1
    known = dict(zip(odd, [None, *np.isfinite(trace["duration"])[1:]], strict=True))
    if is_there(names, RUN):
        assert usual["duration"][0] > 0
        assert not known["unknown"] and known["gpus"]
        if reader is readers.acme:  # whose run times are those from start to end
            assert trace["duration"][1] == 300 and "are not those from start to" in trace.notes[0]
        else:
            assert not known["run"] and any("run times below 0" in note for note in trace.notes)
    if is_there(names, START) and is_there(names, END):
        assert not known["backwards"]
        assert "1 jobs that end before they start, their run times not known" in trace.notes
    assert np.isnan(trace["num_gpus"]).tolist() == [False, False, False, True, False]
    assert any("below 0, taken as not known" in note for note in trace.notes)


@layouts
def test_no_row_with_a_submission_is_refused(tmp_path, reader, names):
    with pytest.raises(JaxschedError, match="none of its 1 rows has a submission time; accepted"):
        read(tmp_path, reader, names, row_of(reader, names, submit="None"))


HELIOS = [row_of(readers.helios, readers.helios.HEADERS[0])] * 2


@pytest.mark.parametrize(
    ("state", "status", "note"),
    [
        ("OUT_OF_MEMORY", "failed", "1 jobs of the state 'OUT_OF_MEMORY', taken for failed"),
        (
            "CANCELLED by 1000",
            "killed",
            "1 jobs of the state 'CANCELLED by 1000', taken for killed",
        ),
        ("Lost", "", "1 jobs of the state 'Lost', which is not known, their status left empty"),
        ("RUNNING", "running", None),
        ("Unknown", "", "1 jobs of the state 'Unknown', which is not known, their status left "),
    ],
)
@pytest.mark.parametrize("reader", [readers.helios, readers.acme])
def test_states_that_a_log_does_not_have(tmp_path, reader, state, status, note):
    row = row_of(reader, reader.HEADERS[0])
    trace = read(tmp_path, reader, reader.HEADERS[0], row, row.replace("COMPLETED", state))
    assert trace["status"].tolist() == ["completed", status]
    found = [line for line in trace.notes if "of the state" in line]
    assert found == [] if note is None else found[0].startswith(note)
    assert np.isfinite(trace["duration"]).all()


def test_notes_stay_short_however_many_states_there_are(tmp_path):
    rows = [HELIOS[0].replace("COMPLETED", f"odd {k}") for k in range(20)]
    trace = read(tmp_path, readers.helios, readers.helios.HEADERS[0], *rows)
    assert sum("of the state" in note for note in trace.notes) == STATES_NAMED
    assert f"{20 - STATES_NAMED} jobs of further states, which is not known" in trace.notes[-1]


def test_odd_jobs_of_other_layouts(tmp_path):
    philly = tmp_path / "log.json"
    attempt = {"start_time": "2017-10-09 07:05:00", "end_time": "2017-10-09 07:04:00"}
    record = {"submitted_time": "2017-10-09 07:01:55", "status": "Lost", "attempts": [attempt]}
    philly.write_text(json.dumps([record, record | {"submitted_time": "Unknown"}]))
    trace = load(philly)
    assert len(trace) == 1 and np.isnan(trace["duration"]).all() and trace["status"][0] == ""
    assert set(trace.notes) == {
        "2 jobs of the state 'Lost', which is not known, their status left empty",
        "1 jobs that end before they start, their run times not known",
        "1 jobs without a submission time dropped",
    }
    folder = tmp_path / "pai"
    folder.mkdir()
    (folder / f"{readers.pai.JOBS}.csv").write_text("a,i,u,Lost,10,5\nb,i,u,Failed,Unknown,5\n")
    (folder / f"{readers.pai.TASKS}.csv").write_text("a,t,1,Failed,20,15,600,1,-50,T4\n")
    trace = load(folder)
    assert len(trace) == 1 and trace["status"][0] == "" and trace["num_gpus"][0] == 0
    assert "1 jobs that end before they start, their run times not known" in trace.notes
    assert "1 values of plan_gpu below 0, taken as not known" in trace.notes
    swf = tmp_path / "log.swf"
    swf.write_text("1 5 10 -60 4 -1 -1 -1 -1 -1 9 -1 -1 -1 -1 -1 -1 -1\n")
    trace = load(swf)
    assert np.isnan(trace["duration"][0]) and trace["status"][0] == ""
    assert "1 values of run_time below 0, taken as not known" in trace.notes
    assert "1 jobs of the state '9', which is not known, their status left empty" in trace.notes
