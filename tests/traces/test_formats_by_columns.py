"""A published layout is told as what it is in any order, with further columns and with fewer."""

import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, readers, recognise
from jaxsched.traces.readers.layouts import Layout, Layouts

STAMP = "2020-01-01 00:00:00"
STAMPS = {
    readers.helios: ("submit_time", "start_time", "end_time"),
    readers.acme: ("submit_time", "start_time", "end_time"),
    readers.philly_csv: ("timestamp",),
    readers.philly_vc: ("submit_time",),
}
TEXTS = {"state": "COMPLETED", "pod_phase": "Running"}
FILES = [
    *((reader, header) for reader in readers.READERS for header in getattr(reader, "HEADERS", ())),
    (readers.dlrm, readers.dlrm.HEADER),
    (readers.openb, readers.openb.HEADER),
    (readers.pai_simulator, readers.pai_simulator.BASE),
    (readers.pai_simulator, (*readers.pai_simulator.BASE, *readers.pai_simulator.ESTIMATES)),
    (readers.spot_gpu, readers.spot_gpu.COLUMNS),
]
files = pytest.mark.parametrize(
    ("reader", "header"), FILES, ids=[f"{r.NAME}-{len(h)}" for r, h in FILES]
)


def cell(reader, name):
    if name in STAMPS.get(reader, ()):
        return STAMP
    if name == "job_type":
        return "soft" if reader is readers.chronus else "HP"
    return TEXTS.get(name, "1")


def write(path, reader, header, **others):
    cells = [others.get(name, cell(reader, name)) for name in header]
    path.write_text(f"{','.join(header)}\n{','.join(cells)}\n")
    return path


def optional(reader, header):
    """Columns of which any one may be missing."""
    layouts = [layout for layout in reader.LAYOUTS if layout.known(header)]
    best = max(layouts, key=lambda layout: layout.known(header))
    return [name for name in header if name in best.optional]


@files
def test_the_order_of_columns_decides_nothing(tmp_path, reader, header):
    plain = write(tmp_path / "a.csv", reader, header)
    turned = write(tmp_path / "b.csv", reader, header[::-1])
    assert recognise(plain).name == recognise(turned).name == reader.NAME
    assert load_trace(plain).digest() == load_trace(turned).digest()
    assert not any("left out" in note for note in load_trace(plain).notes)


@files
def test_further_columns_are_named_and_left_out(tmp_path, reader, header):
    plain = load_trace(write(tmp_path / "a.csv", reader, header))
    path = write(tmp_path / "b.csv", reader, ("", *header, "rack", "my note", ""))
    trace = load_trace(path)
    assert trace.digest() == plain.digest()
    if (
        header == readers.itp.HEADERS[0]
    ):  # few and usual names: one's own table, read to the same values
        assert trace.source == "trace"
    else:
        assert recognise(path).name == reader.NAME
        assert "columns left out, which the format does not have: 'rack', 'my note'" in trace.notes


@files
def test_columns_that_may_be_missing(tmp_path, reader, header):
    for name in optional(reader, header):
        rest = tuple(other for other in header if other != name)
        path = write(tmp_path / "a.csv", reader, rest)
        assert recognise(path).name == reader.NAME, name
        assert load_trace(path).source == reader.NAME
    if optional(reader, header):
        needed = tuple(name for name in header if name not in optional(reader, header))
        assert len(load_trace(write(tmp_path / "a.csv", reader, needed), format=reader.NAME)) == 1


def test_rows_with_empty_cells_at_their_end(tmp_path):
    path = write(tmp_path / "a.csv", readers.helios, readers.helios.HEADERS[0])
    plain = load_trace(path).digest()
    path.write_text("".join(f"{row},\n" for row in path.read_text().splitlines()))
    assert load_trace(path).digest() == plain


def test_milliseconds_are_never_taken_for_seconds(tmp_path):
    """Muri's columns hold those of Tiresias' lists, whose times are in seconds."""
    for left in ("iteration_time", "resource_time_0"):
        header = tuple(name for name in readers.muri.HEADERS[0] if name != left)
        path = write(tmp_path / "a.csv", readers.muri, header, submit_time="5000", duration="7000")
        trace = load_trace(path)
        assert (trace.source, trace["submit_time"][0], trace["duration"][0]) == ("muri", 5, 7)


def test_a_layout_knows_its_columns():
    few = Layout(("a", "b", "c"), ("c", "d"))
    assert few.known(("b", "a")) == 2 and few.known(("a", "b", "c", "d", "e")) == 4
    assert few.known(("a", "c", "d")) == 0
    exact = Layout(("a", "b"), is_exact=True)
    assert exact.known(("b", "a")) == 2 and exact.known(("a", "b", "c")) == 0
    assert Layouts(few, exact).known(("a", "b")) == 2


@pytest.mark.parametrize("best_effort", [False, True])
def test_the_siblings_of_elasticflow(tmp_path, best_effort):
    header = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration"
    rows = ["0,100,2000,cifar,4700,4096,1,4000", "1,160,1500,ncf,260,32768,8,70"]
    if best_effort:
        header, rows = f"{header},best_effort", [f"{rows[0]},0", f"{rows[1]},1"]
    path = tmp_path / "resnet.csv"
    path.write_text("\n".join([header, *rows]))
    trace = load_trace(path)
    assert (trace.source, trace.clock) == ("elasticflow", "relative")
    assert trace["num_gpus"].tolist() == [1, 8] and trace["duration"].tolist() == [4000, 70]
    assert trace["iterations"].tolist() == [2000, 1500]
    assert trace["submit_time"].tolist() == [100, 160]
    deadline = [4700, np.nan if best_effort else 260]
    np.testing.assert_array_equal(trace["deadline"], deadline)
    if best_effort:
        assert trace["slo_class"].tolist() == ["", "best"]
        assert trace.notes == ("1 jobs are best-effort ones, without a deadline",)
    else:
        assert trace.notes == ()


def test_instances_of_disaggregated_models(tmp_path):
    """Services of 2025: an instance is a job; those from before the trace have no submission."""
    rows = (
        "a,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,",
        "b,HN,app_0,12,12,2,2,25,25,120.0,120.0,640.0,800.0,8,100.0,130.0,5000.0",
        "c,CN,app_1,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,200.0,,",
        "d,HN,app_1,64,64,1,1,1,1,320.0,320.0,255.0,300.0,-1,300.0,310.0,",
    )
    path = tmp_path / "disaggregated_DLRM_trace.csv"
    path.write_text("\n".join([",".join(readers.dlrm.HEADER), *rows]))
    trace = load_trace(path)
    assert (trace.source, trace.clock, trace["job_id"].tolist()) == (
        "dlrm", "relative", ["b", "c", "d"],
    )  # fmt: skip
    assert trace["num_gpus"].tolist() == [2, 0, 1] and trace["cpus"].tolist() == [12, 64, 64]
    np.testing.assert_array_equal(trace["duration"], [4870, np.nan, np.nan])
    np.testing.assert_array_equal(trace["start_time"], [130, np.nan, 310])
    assert trace["status"].tolist() == ["", "pending", "running"]
    assert trace["group"].tolist() == ["app_0", "app_1", "app_1"]
    assert trace["memory_gb"].tolist() == [120, 320, 320]
    assert trace.notes == (
        "1 instances not scheduled, their run times not known",
        "1 instances not deleted before the end, their run times not known",
        "1 jobs without a submission time dropped",
    )


@pytest.mark.parametrize(
    "header",
    [
        "pod_id,workload_id,server_id,gpu_spec_public,gpu_request,duration_hours",
        "pod_id,workload_id,state_public,gpu_request,used_gpu_hours,day,hour",
    ],
)
def test_tables_of_2026_without_submissions_are_refused_by_name(tmp_path, header):
    path = tmp_path / "part-000.csv"
    path.write_text(f"{header}\n{','.join('1' * len(header.split(',')))}\n")

    with pytest.raises(JaxschedError, match="but no submission times; accepted: a trace with a"):
        load_trace(path)
