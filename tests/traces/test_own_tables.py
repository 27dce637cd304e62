"""Tables of one's own: names given and guessed, columns that nobody needs, orders of columns."""

import itertools
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import Trace, load, load_tables, load_trace, recognise
from jaxsched.traces.own_names import OURS, USUAL, plan, read_given
from jaxsched.traces.readers import helios

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

BASE = {"submit_time": [0, 45, 60], "num_gpus": [1, 8, 2], "duration": [3600, 7200, 600]}


def write(path, columns, *, layout="csv", separator=","):
    """The same columns as a text or as a Parquet file."""
    if layout == "parquet":
        file = path / "t.parquet"
        pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), file)
        return file
    file = path / "t.csv"
    rows = [columns, *zip(*columns.values(), strict=True)]
    file.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows))
    return file


def refusal(path, **how):
    with pytest.raises(JaxschedError) as caught:
        load(path, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(path))


layouts = pytest.mark.parametrize("layout", ["csv", "parquet"])


@layouts
@pytest.mark.parametrize(
    ("further", "said"),
    [
        ({"node_list": ["a", "b", "c"]}, "'node_list'"),
        ({"Unnamed: 0": [0, 1, 2]}, "'Unnamed: 0'"),
        ({"__index_level_0__": [0, 1, 2]}, "'__index_level_0__'"),
        ({"": [0, 1, 2]}, "one without a name"),
        ({"note a": ["x", "[", "{}"], "note b": [1, 2, 3]}, "'note a', 'note b'"),
    ],
)
def test_columns_that_nobody_needs_are_named(tmp_path, layout, further, said):
    trace = load(write(tmp_path, {**further, **BASE}, layout=layout))
    assert trace.notes == (f"columns left out, which a trace does not have: {said}",)
    assert {name: trace[name].tolist() for name in trace.columns} == BASE


@layouts
@pytest.mark.parametrize("name", ["priority", "start", "cpus", "deadline"])
def test_known_names_with_other_values_are_left_out(tmp_path, layout, name):
    path = write(tmp_path, {**BASE, name: ["1", "high", "2"]}, layout=layout)
    trace = load(path)
    assert set(trace.columns) == set(BASE)
    assert trace.notes[-1].startswith(f"column {name!r} left out: ") and "'high'" in trace.notes[-1]
    ours = "start_time" if name == "start" else name
    assert f"{name} is 'high'; accepted: " in refusal(path, columns=f"{name}={ours}")


def test_trailing_commas_and_other_separators(tmp_path):
    path = tmp_path / "t.csv"
    for text in (
        "submit_time,num_gpus,duration,\n0,1,3600,\n45,8,7200,\n60,2,600,\n",
        "submit_time,num_gpus,duration\n0,1,3600,\n45,8,7200,,\n60,2,600\n",
        "submit_time,num_gpus,duration,\n0,1,3600\n45,8,7200\n60,2,600,\n",
        "submit_time;num_gpus;duration\n0;1;3600\n45;8;7200\n60;2;600\n",
        '"submit_time"\t"num_gpus"\t"duration"\n0\t1\t3600\n45\t8\t7200\n60\t2\t600\n',
    ):
        path.write_text(text)
        trace = load(path)
        assert {name: trace[name].tolist() for name in trace.columns} == BASE
    path.write_text("submit_time;num_gpus;duration;user\n0,5;1;3600,25;a,b\n")
    trace = load(path)
    assert [trace[name][0] for name in ("submit_time", "duration", "user")] == [0.5, 3600.25, "a,b"]
    path.write_text("submit_time,num_gpus,duration\n0,1,3600,5\n")
    assert refusal(path) == ", line 2: has 4 values; accepted: 3 (submit_time,num_gpus,duration)"


MODELS = {
    "names": [*([["resnet50", "vgg16", "bert"]]), BASE],
    "fractions": [[0, 1, 0], BASE | {"duration": [3600.5, 7200.25, 600]}],
    "not from 0": [[0, 1, 0], BASE | {"submit_time": [100, 145, 160]}],
    "unsorted": [[0, 1, 0], BASE | {"submit_time": [45, 0, 60]}],
    "job table": [[0, 1, 0], BASE],
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_order_of_columns_decides_nothing(tmp_path, kind):
    models, base = MODELS[kind]
    columns = base | {"model": models}
    found = set()
    for order in itertools.permutations(columns):
        loaded = load(write(tmp_path, {name: columns[name] for name in order}))
        if kind == "job table":
            assert not isinstance(loaded, Trace)
            loaded = loaded[0]
        else:
            assert loaded.notes[-1].startswith("read as a trace, not as a job table (line ")
            assert loaded["model"].tolist() == list(map(str, models))
        assert {name: loaded[name].tolist() for name in base} == base
        found.add(loaded.digest())
    assert len(found) == 1
    assert load_trace(tmp_path / "t.csv")["model"].tolist() == list(map(str, models))
    if kind != "job table":
        with pytest.raises(JaxschedError, match=r"t.csv, line \d: .*; accepted: (a whole|0 for)"):
            load_tables(tmp_path / "t.csv")


def test_a_job_table_in_another_order(tmp_path):
    (table,) = load(write(tmp_path, {"model": [0] * 3, **BASE, "trace": [4] * 3}))
    assert table.name == "t[4]" and table["duration"].tolist() == BASE["duration"]
    assert "duration is '1.5'; accepted: a whole number" in refusal(
        write(tmp_path, {"model": [0], "trace": [4], "submit_time": [0], "num_gpus": [1],
                         "duration": ["1.5"]})
    )  # fmt: skip


@layouts
def test_a_log_by_its_usual_names(tmp_path, layout):
    log = {
        "id": ["1", "2"],
        "user": ["ann", "bob"],
        "submit": ["2024-01-01 10:00:00", "2024-01-01 10:05:00"],
        "start": ["2024-01-01 10:01:00", "Unknown"],
        "end": ["2024-01-01 10:31:00", "Unknown"],
        "gpus": [4, 8],
    }
    trace = load(write(tmp_path, log, layout=layout))
    assert trace.clock == "local" and trace.source == "trace"
    np.testing.assert_array_equal(trace["duration"], [1800, np.nan])
    np.testing.assert_array_equal(trace["start_time"] - trace["submit_time"], [60, np.nan])
    assert trace["user"].tolist() == ["ann", "bob"] and trace["job_id"].tolist() == ["1", "2"]
    guess = "'submit' as submit_time, 'gpus' as num_gpus, 'start' as start_time, 'end' as end_time"
    assert guess in trace.notes[0]


@pytest.mark.parametrize("ours", ["submit_time", "num_gpus", "duration", "start_time", "end_time"])
def test_usual_names(ours):
    for name in USUAL[ours].split():
        for form in (name, name.upper(), name.title().replace("_", ""), name.replace("_", " ")):
            assert plan("t", (form, "x"), {}).cells == {ours: form}


def test_units_in_names_and_as_given(tmp_path):
    log = {"submitted (ms)": [0, 1500], "GPUs": [1, 2], "run_h": [0.5, 2]}
    trace = load(write(tmp_path, log))
    assert trace["submit_time"].tolist() == [0, 1.5] and trace["duration"].tolist() == [1800, 7200]
    assert "units as said: submit_time in milliseconds, duration in hours" in trace.notes
    log = {"t": [0, 1500], "n": [1, 2], "len": [10, 20], "wait": [5, 6]}
    path = write(tmp_path, log)
    trace = load(path, columns="t=submit_time:ms,n=num_gpus,len=duration:min")
    assert trace["submit_time"].tolist() == [0, 1.5] and trace["duration"].tolist() == [600, 1200]
    assert trace["start_time"].tolist() == [5, 7.5]
    same = load(path, columns={"t": "submit_time:ms", "n": "num_gpus", "len": "duration:min"})
    assert same.digest() == trace.digest()


def test_run_times_beside_milliseconds(tmp_path):
    """In the unit of the times if start and end say so, else in seconds; a note says which."""
    log = {"submit": [1710032400000, 1710032500000], "gpus": [1, 2], "runtime": [60000, 90000]}
    trace = load(write(tmp_path, log))
    assert trace.clock == "utc" and trace["duration"].tolist() == [60000, 90000]
    assert "run times are taken for seconds, not for milliseconds" in trace.notes[-1]
    ends = {"start": log["submit"], "end": [1710032460000, 1710032590000]}
    trace = load(write(tmp_path, log | ends))
    assert trace["duration"].tolist() == [60, 90] and "for milliseconds, as" in trace.notes[-1]
    assert load(write(tmp_path, log), columns="runtime=duration:ms")["duration"].tolist() == [
        60,
        90,
    ]


def test_columns_that_are_given_win(tmp_path):
    log = {"a": [0, 5], "gpus": [1, 2], "gpu_count": [3, 4], "elapsed": ["0:30", "1-00:00:00"]}
    trace = load(write(tmp_path, log), columns="a=submit_time,gpu_count=num_gpus")
    assert trace["num_gpus"].tolist() == [3, 4] and trace["duration"].tolist() == [30, 86400]
    path = tmp_path / "h.csv"
    path.write_text(
        f"{','.join(helios.HEADERS[0])}\n1,u,v,4,16,2,COMPLETED,2020-01-01 00:00:00,,,60,0\n"
    )
    assert load(path).source == "helios" and np.isnan(load(path)["duration"][0])
    assert load(path, columns="node_num=num_gpus")["num_gpus"].tolist() == [2]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("submit", "columns is 'submit'; accepted: NAME=submit_time,OTHER=num_gpus"),
        ("submit_time=a", "'a' is no column of a trace; did you mean a=submit_time?"),
        ("a=colour", "'colour' is no column of a trace; accepted: NAME IN THE FILE=ONE OF submit"),
        ("a=submit_time:parsec", "the unit of 'submit_time:parsec' is not known; accepted: ns, us"),
        ("a=num_gpus:s", "the unit of 'num_gpus:s' is not known"),
        ("a=user,b=user", "user is given twice"),
        ("z=user", ": has no column 'z' (columns); it has 'a', 'b'"),
        ("a=submit_time", "the header is 'a,b'; no column is known for num_gpus, duration; three"),
    ],
)
def test_refused_names(tmp_path, columns, expected):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    assert expected in refusal(path, columns=columns)


def test_what_is_enough_is_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,gpus\n1,2\n")
    message = refusal(path)
    assert message.startswith(
        ": is of no known format (the header is 'when,gpus'); no column is kn"
    )
    assert (
        "for submit_time, duration; three are enough: submit_time, num_gpus and duration (or "
        "start_time and end_time), called so or named with columns, such as "
        "columns NAME=submit_time; accepted: jobs, trace, itp" in message
    )


def test_options_that_a_format_does_not_take(tmp_path):
    path = tmp_path / "i.csv"
    path.write_text("job_id,submission_time,duration,num_gpu\na,1,2,3\n")
    assert recognise(path).name == "itp"
    assert "itp says what its columns are" in refusal(path, format="itp", columns="a=user")
    note = "its clock is relative, so that the zone UTC changes nothing"
    assert load(path, timezone="UTC").notes == (note,)
    tables = write(
        tmp_path, {"trace": [0], "model": [0]} | {name: v[:1] for name, v in BASE.items()}
    )
    assert "holds job tables, whose times have no zone" in refusal(tables, timezone="UTC")
    either = write(tmp_path, BASE | {"model": [0, 0, 0]})
    assert isinstance(load(either, timezone="UTC"), Trace)
    philly = tmp_path / "p.csv"
    philly.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,6,1,6,a\n")
    universal = load(philly, timezone="America/Los_Angeles")
    assert universal.clock == "utc"
    assert (universal["submit_time"] - load(philly)["submit_time"]).tolist() == [7 * 3600]


@layouts
def test_dates_of_a_local_and_of_a_universal_clock(tmp_path, layout):
    naive = ["2024-03-09 23:30:00", "2024-03-10 03:10:00"]
    two = {name: values[:2] for name, values in BASE.items()}
    path = write(tmp_path, two | {"submit_time": naive}, layout=layout)
    local = load(path)
    assert (local.clock, np.diff(local["submit_time"])[0]) == ("local", 13200)
    there = load(path, timezone="America/Los_Angeles")
    assert (there.clock, np.diff(there["submit_time"])[0]) == ("utc", 9600)
    path = write(tmp_path, two | {"submit_time": [f"{t}+01:00" for t in naive]}, layout=layout)
    zoned = load(path)
    assert (zoned.clock, (local["submit_time"] - zoned["submit_time"]).tolist()) == (
        "utc",
        [3600] * 2,
    )


def test_types_of_parquet(tmp_path):
    """As pandas and others write them: dates, zones, lengths of time, categories, decimals."""
    at = np.array(["2024-03-10T01:00:00.25", "2024-03-10T03:00:00"], "datetime64[ms]")
    path = tmp_path / "t.parquet"
    text = pa.array(["ann", None]).dictionary_encode()
    columns = {
        "submit_time": pa.array(at, pa.timestamp("ns")),
        "num_gpus": pa.array([Decimal("1.00"), Decimal(8)], pa.decimal128(8, 2)),
        "duration": pa.array(np.array([3600500, 7200000], "timedelta64[ms]")),
        "user": text,
        "group": text.cast(pa.large_string()),
        "nested": pa.array([[1], [2]]),
    }
    pq.write_table(pa.table(columns), path)
    trace = load(path)
    assert trace.clock == "local" and trace["submit_time"].tolist() == [1710032400.25, 1710039600]
    assert trace["duration"].tolist() == [3600.5, 7200] and trace["num_gpus"].tolist() == [1, 8]
    assert trace["user"].tolist() == trace["group"].tolist() == ["ann", ""]
    zoned = pa.array(at, pa.timestamp("us", "America/New_York"))
    pq.write_table(pa.table(columns | {"submit_time": zoned}), path)
    trace = load(path)
    assert trace.clock == "utc" and trace["submit_time"].tolist() == [1710032400.25, 1710039600]


def test_a_first_line_says_what_the_clock_is(tmp_path):
    path = tmp_path / "t.csv"
    text = "submit_time,num_gpus,duration,rack\n1710028800000,1,5,a\n"
    path.write_text('# jaxsched trace 1 {"clock": "local", "name": "mine"}\n' + text)
    trace = load(path)
    assert (trace.name, trace.clock, trace["submit_time"][0]) == ("mine", "local", 1710028800000)
    path.write_text(text)
    assert (load(path).clock, load(path)["submit_time"][0]) == ("utc", 1710028800)


names = st.sampled_from(
    ["submit", "num_gpus", "gpus", "run_ms", "start", "end", "user", "state", ""]
)
cells = st.sampled_from(
    [
        *("", "0", "7", "-3", "1e300", "1-00:00:00", "Unknown", "x", "é", '"'),
        *("2024-03-31 02:30:00", "2024-10-27T02:30", "2024-01-01 00:00:00Z"),
    ]
)
tables = st.lists(names, min_size=1, max_size=7).flatmap(
    lambda header: st.lists(
        st.lists(cells, min_size=len(header), max_size=len(header) + 1), max_size=3
    ).map(lambda rows: "\n".join(map(",".join, [header, *rows])))
)


@settings(max_examples=100)
@given(tables | st.text(max_size=40), st.sampled_from([None, "Europe/Berlin"]))
def test_any_table_is_read_or_refused_in_one_line(tmp_path, text, zone):
    path = tmp_path / "any.csv"
    path.write_bytes(text.encode())
    for columns in (None, "submit=submit_time,gpus=num_gpus,run_ms=duration"):
        try:
            trace = load(path, format="trace", columns=columns, timezone=zone)
        except JaxschedError as error:
            assert str(error).startswith(str(path))
            assert "\n" not in str(error)
        else:
            assert 0 < len(trace) <= trace.rows_read and len(trace.notes) < 16


def test_every_name_has_a_place():
    assert set(USUAL) | {"submit_time"} <= set(OURS) and set(OURS) <= {*USUAL, *OURS}
    words = [word for usual in USUAL.values() for word in usual.replace("_", "").split()]
    assert len(words) == len(set(words))
    assert read_given("a b=user, c = submit_time") == {
        "user": ("a b", None), "submit_time": ("c", None),
    }  # fmt: skip
