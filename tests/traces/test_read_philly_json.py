import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import load_trace, recognise
from jaxsched.traces.readers import philly_json

DAY = 17446 * 86400  # 2017-10-07


def server(ip, gpus):
    return {"ip": ip, "gpus": [f"gpu{k}" for k in range(gpus)]}


def attempt(start, end, *servers):
    return {"start_time": start, "end_time": end, "detail": list(servers) or [server("m1", 1)]}


def job(*attempts, submitted="2017-10-07 00:00:00", **others):
    fields = {"status": "Pass", "vc": "ee9e8c", "jobid": "a", "user": "u", **others}
    return {**fields, "attempts": list(attempts), "submitted_time": submitted}


def stamp(seconds):
    return f"2017-10-07 {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def log(tmp_path, *jobs, indent=None):
    path = tmp_path / "cluster_job_log.json"
    path.write_text(json.dumps(jobs, indent=indent))
    return path


def refusal(path):
    with pytest.raises(JaxschedError) as caught:
        philly_json.read(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path))
    return message.removeprefix(str(path))


def test_a_job_with_two_attempts_on_two_servers(tmp_path):
    second = attempt(stamp(4000), stamp(90000 - 4000), server("m9", 1))
    first = attempt(stamp(100), stamp(3700), server("m47", 8), server("m48", 4))
    path = log(tmp_path, job(second, first, status="Killed"), indent=4)
    assert recognise(path).name == "philly-json"
    trace = load_trace(path)
    assert (trace.name, trace.source, trace.clock) == ("cluster_job_log", "philly-json", "local")
    row = {name: values[0] for name, values in trace.columns.items()}
    assert row == {
        "submit_time": DAY,
        "num_gpus": 12,
        "duration": 86000 - 100,
        "job_id": "a",
        "user": "u",
        "group": "ee9e8c",
        "status": "killed",
        "start_time": DAY + 100,
        "end_time": DAY + 86000,
        "attempts": 2,
        "num_nodes": 2,
    }
    assert trace.notes == ()


def test_missing_times(tmp_path):
    path = log(
        tmp_path,
        job(),
        job(attempt(stamp(5), "None")),
        job(attempt(stamp(5), None), attempt(stamp(9), stamp(20)), status="Failed"),
        job(attempt(None, stamp(8)), attempt("", ""), attempt("None", stamp(30))),
        job(attempt(stamp(5), stamp(9)), submitted="None"),
        job(attempt(stamp(9), stamp(5))),
    )
    trace = philly_json.read(path)
    assert len(trace) == 5 and trace.rows_read == 6
    unknown = np.nan
    np.testing.assert_array_equal(trace["num_gpus"], [unknown, 1, 1, 1, 1])
    np.testing.assert_array_equal(trace["duration"], [unknown, unknown, 15, unknown, unknown])
    np.testing.assert_array_equal(trace["start_time"] - DAY, [unknown, 5, 5, unknown, 9])
    np.testing.assert_array_equal(trace["end_time"] - DAY, [unknown, unknown, 20, 30, 5])
    np.testing.assert_array_equal(trace["attempts"], [0, 1, 2, 3, 1])
    assert (trace["status"] == "failed").tolist() == [False, False, True, False, False]
    assert trace.notes == (
        "1 jobs without attempts, their GPUs and run times not known",
        "1 jobs without a last end (still running), their run times not known",
        "1 jobs without a start, their run times not known",
        "1 jobs without a submission time dropped",
        "1 jobs that end before they start, their run times not known",
    )


def test_repeated_attempts_count_once(tmp_path):
    once = attempt(stamp(5), "None", server("m1", 2))
    other = attempt(stamp(5), "None", server("m2", 2))
    last = attempt(stamp(50), stamp(60), server("m1", 2))
    trace = philly_json.read(log(tmp_path, job(once, once, other, last, once)))
    assert trace["attempts"].tolist() == [3] and trace["duration"].tolist() == [55]
    assert trace.notes == ("2 repeated attempts counted once",)


def test_zones_are_dropped_and_order_kept(tmp_path):
    path = log(
        tmp_path,
        job(submitted="2017-10-07 00:00:09 PDT", jobid="later"),
        job(submitted="2017-10-07T00:00:01+08:00", jobid="earlier"),
    )
    trace = philly_json.read(path)
    assert trace["job_id"].tolist() == ["later", "earlier"]
    assert (trace["submit_time"] - DAY).tolist() == [9, 1]


@pytest.mark.parametrize("indent", [None, 4])
def test_records_across_pieces(tmp_path, monkeypatch, indent):
    jobs = [job(attempt(stamp(k), stamp(k + 1)), jobid=f"job-\u00e9-{k}") for k in range(40)]
    whole = philly_json.read(log(tmp_path, *jobs, indent=indent))
    for size in (1, 7, 64):
        monkeypatch.setattr(philly_json, "_PIECE", size)
        assert philly_json.read(log(tmp_path, *jobs, indent=indent)).digest() == whole.digest()
    assert whole["job_id"][39] == "job-\u00e9-39"


def test_bom_line_ends_and_gzip(tmp_path):
    text = json.dumps([job(attempt(stamp(1), stamp(2)))], indent=1)
    plain = log(tmp_path, job(attempt(stamp(1), stamp(2))))
    other = tmp_path / "other.json.gz"
    other.write_bytes(
        gzip.compress(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n")
    )
    assert philly_json.read(other).digest() == philly_json.read(plain).digest()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"status": "Pass"}', ", line 1: begins with '{'; accepted: a list of jobs"),
        ("[]", ": has no jobs with a submission time; accepted: a list"),
        ("[1]", ", record 1, line 1: begins with '1'; accepted: a list of jobs"),
        ("[{},\n{}\n{}]", ", record 2, line 2: is followed by '{'; accepted: ',' or ']'"),
        ("[{}", ", record 1, line 1: is followed by the end of the file; accepted: ',' or ']'"),
        ("[{}] x", ", record 1, line 1: the list is followed by 'x'; accepted: no more"),
        ("[\n{},\n\n{]", ", record 2, line 4: is not JSON (Expecting property name"),
        ('[{"vc": "a', ", record 1, line 1: is not JSON (Unterminated string"),
        ('[{"vc": "a", "vc": "b"}]', ", record 1, line 1: has 'vc' twice; accepted: each name onc"),
        ('[{"a": ' + "[" * 100000, ", record 1, line 1: is nested too deeply; accepted: a list"),
        ('[{"vc": ' + "9" * 5000 + "}]", ", record 1, line 1: vc is inf; accepted: a text"),
        ('[{"user": NaN}]', ", record 1, line 1: user is nan; accepted: a text"),
        ('[{"jobid": "\\ud800"}]', ", record 1, line 1: jobid is '\\ud800', with half of a cha"),
        ('[{"attempts": {}}]', ", record 1, line 1: attempts is {}; accepted: a list"),
        ('[{"attempts": [3]}]', ", record 1, line 1: an attempt is 3.0; accepted: an object"),
        ('[{"attempts": [{"detail": [[]]}]}]', ", record 1, line 1: a server of an attempt is []"),
        (
            '[{"attempts": [{"detail": [{"gpus": [[]]}]}]}]',
            ", record 1, line 1: a GPU of an attempt is []; accepted: its name",
        ),
        (
            '[{"submitted_time": "2017-02-30 00:00:00"}]',
            ", record 1, line 1: submitted_time is '2017-02-30 00:00:00'; accepted: YYYY-MM-DD",
        ),
        ('[{"submitted_time": Infinity}]', ", record 1, line 1: submitted_time is inf; accepted"),
    ],
)
def test_bad_logs_are_refused(tmp_path, text, expected):
    path = tmp_path / "log.json"
    path.write_text(text)
    assert refusal(path).startswith(expected)


def test_a_record_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(philly_json, "_PIECE", 16)
    monkeypatch.setattr(philly_json, "_MAX_RECORD", 200)
    path = tmp_path / "log.json"
    path.write_text('[{"user": "' + "a" * 100_000)
    held = []
    read_on = philly_json._Log._more
    monkeypatch.setattr(
        philly_json._Log, "_more", lambda log: (read_on(log), held.append(len(log._text)))[0]
    )
    assert refusal(path).startswith(", record 1, line 1: is not JSON (Unterminated string")
    assert max(held) <= 2 * 200 + 32


times = st.sampled_from([None, "", "None", stamp(7), stamp(99), "2017-13-01 00:00:00", "x", 3, {}])
junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3) | times,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)
servers = st.fixed_dictionaries({}, optional={"ip": junk, "gpus": st.lists(junk, max_size=2)})
attempts = st.fixed_dictionaries(
    {}, optional={"start_time": times, "end_time": times, "detail": st.lists(servers) | junk}
)
jobs = st.fixed_dictionaries(
    {"submitted_time": times},
    optional={
        "status": st.sampled_from(["Pass", "Killed", "Failed", "", "Gone", 1]),
        "jobid": junk,
        "vc": junk,
        "attempts": st.lists(attempts, max_size=3) | junk,
    },
)


@settings(max_examples=150)
@given(st.lists(jobs | junk, max_size=3), st.integers(0, 400), st.binary(max_size=3))
def test_malformed_logs_raise_our_error_only(tmp_path, records, cut, extra):
    text = json.dumps(records).encode()
    path = tmp_path / "log.json"
    path.write_bytes(text if cut > len(text) else text[:cut] + extra)
    try:
        trace = philly_json.read(path)
    except JaxschedError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert 0 < len(trace) <= trace.rows_read
