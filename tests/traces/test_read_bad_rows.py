import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsched.errors import JaxschedError
from jaxsched.traces import Trace
from jaxsched.traces.readers import (
    chronus,
    crius,
    dlrm,
    elasticflow,
    gavel,
    muri,
    philly_vc,
    pollux,
    sacct,
    swf,
    tiresias,
)

SACCT = (
    ("JobID", "State", "Submit", "Start", "End", "AllocTRES", "ReqGRES", "Timelimit"),
    ("User", "JobIDRaw", "Eligible", "JobName", "Elapsed", "NNodes", "ReqTRES", "Restarts"),
)
LAYOUTS = [
    *(
        (reader, header, ",", ",".join(header) + "\n")
        for reader in (chronus, crius, elasticflow, muri, philly_vc, pollux, tiresias)
        for header in reader.HEADERS
    ),
    *(
        (gavel, names, "\t", "\t".join(["1"] * len(names)) + "\n")
        for names in gavel.LAYOUTS.values()
    ),
    (dlrm, dlrm.HEADER, ",", ",".join(dlrm.HEADER) + "\n"),
    *((sacct, names, "|", "|".join(names) + "\n") for names in SACCT),
    (swf, swf.FIELDS, " ", "; Version: 2.2\n; UnixStartTime: 9\n"),
]
CELLS = ("", "0", "1", "-1", "2.5", "1e300", "-0", "None", "x", "2017-10-09 07:01:55", "3-4", '"')
ROW_ERROR = re.compile(r", line [1-9]\d*: ")
FILE_ERRORS = (
    *(": has no jobs; ", ": none of its ", ": is not a text file; ", ": some times say their zone"),
    *(f": {name}_time is " for name in ("submit", "start", "end")),
)

anything = pytest.mark.parametrize(
    ("reader", "names", "separator", "start"), LAYOUTS, ids=lambda value: getattr(value, "NAME", "")
)
few = settings(max_examples=40)


def check(reader, path, text):
    path.write_bytes(text.encode())
    try:
        trace = reader.read(path)
    except JaxschedError as error:
        message = str(error)
        assert "\n" not in message and message.startswith(str(path))
        rest = message.removeprefix(str(path))
        assert ROW_ERROR.match(rest) or rest.startswith(FILE_ERRORS), message
    else:
        assert isinstance(trace, Trace) and 0 < len(trace) <= trace.rows_read


@anything
@few
@given(data=st.data())
def test_rows_of_strange_cells(tmp_path, reader, names, separator, start, data):
    width = st.sampled_from([len(names)] * 9 + [len(names) - 1])
    row = width.flatmap(lambda n: st.lists(st.sampled_from(CELLS), min_size=n, max_size=n))
    rows = data.draw(st.lists(row.map(separator.join), min_size=1, max_size=3))
    check(reader, tmp_path / "any.csv", start + "\n".join(rows))


@anything
@few
@given(body=st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_after_the_header(tmp_path, reader, names, separator, start, body):
    check(reader, tmp_path / "any.csv", start + body)
