"""Every reader's time is linear in the length of a cell, whatever the cell holds.

Times are of this process alone, and bounded by a multiple of those for cells a tenth as long.
"""

import json
import time

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import csv_tables, load, readers
from jaxsched.traces.job_kinds import job_kinds

LENGTHS = (10_000, 100_000, 1_000_000)
MOST_TIMES, LEAST_S = 40, 0.05
"""A cell ten times as long takes so many times as long at most, or this: the square takes 100."""

KINDS = {
    "digits": "9",
    "digits-x": "9",
    "zeros": "0",
    "spaces": " ",
    "quotes": '"',
    "dots": ".",
    "signs": "-",
    "e": "e",
    "commas": ",",
    "brackets": "[",
    "braces": '{"a":',
    "umlauts": "ü",
    "colons": "1:",
    "dates": "2-",
    "numbers": "1 ",
    "parentheses": "(batch size 1) ",
}

DEFAULT = ("digits-x", "spaces", "quotes")
kinds = pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in DEFAULT else pytest.mark.extended) for kind in KINDS],
)

STAMP = "2020-01-01 00:00:00"
STAMPS = {
    readers.helios: ("submit_time", "start_time", "end_time"),
    readers.acme: ("submit_time", "start_time", "end_time"),
    readers.philly_csv: ("timestamp",),
    readers.philly_vc: ("submit_time",),
}
TEXTS = {"job_type": "HP", "state": "COMPLETED", "pod_phase": "Running"}
OWN = ("submit_time", "start", "end", "gpus", "duration", "user", "status", "priority", "model")


def row_of(reader, names):
    """Cells that the reader takes."""
    cells = {name: STAMP if name in STAMPS.get(reader, ()) else "1" for name in names}
    cells |= {name: TEXTS[name] for name in names if name in TEXTS}
    return cells | ({"job_type": "soft"} if reader is readers.chronus else {})


LAYOUTS = [
    *(
        (reader.NAME, reader, names, ",", ",".join(names) + "\n")
        for reader in (
            readers.acme,
            readers.chronus,
            readers.crius,
            readers.elasticflow,
            readers.helios,
            readers.itp,
            readers.muri,
            readers.philly_csv,
            readers.pollux,
        )
        for names in reader.HEADERS
    ),
    *(
        (reader.NAME, reader, names, ",", ",".join(names) + "\n")
        for reader, names in (
            (readers.openb, readers.openb.HEADER),
            (readers.dlrm, readers.dlrm.HEADER),
            (
                readers.pai_simulator,
                (*readers.pai_simulator.BASE, *readers.pai_simulator.ESTIMATES),
            ),
            (readers.philly_vc, readers.philly_vc.HEADERS[0]),
            (readers.spot_gpu, readers.spot_gpu.COLUMNS),
            (readers.tiresias, readers.tiresias.HEADERS[0]),
            (readers.tiresias, readers.tiresias.HEADERS[1]),
        )
    ),
    *(
        (readers.gavel.NAME, readers.gavel, names, "\t", "")
        for names in readers.gavel.LAYOUTS.values()
    ),
    (readers.swf.NAME, readers.swf, readers.swf.FIELDS, " ", "; Version: 2.2\n"),
    *(
        (None, csv_tables, names, ",", ",".join(names) + "\n")
        for names in (csv_tables.headers(kind.schema)[0] for kind in job_kinds())
    ),
    ("trace", None, OWN, ",", ",".join(OWN) + "\n"),
    ("trace", None, OWN, ";", ";".join(OWN) + "\n"),
]


def cell(kind, length):
    letters = KINDS[kind]
    return (letters * (length // len(letters) + 1))[:length] + ("x" if kind == "digits-x" else "")


def outcome(path, format=None):
    """Seconds of reading a file, which gives something or one short line."""
    began = time.process_time()
    try:
        load(path, format=format)
    except JaxschedError as error:
        message = str(error).removeprefix(str(path))
        assert "\n" not in message and len(message) < 900
    return time.process_time() - began


def check_lengths(write, path, format=None):
    before = LEAST_S
    for length in LENGTHS:
        write(length)
        took = outcome(path, format)
        assert took < MOST_TIMES * before, f"{length} letters took {took:.2f} s"
        before = max(took, LEAST_S)


@kinds
@pytest.mark.parametrize(
    "layout", range(len(LAYOUTS)), ids=[f"{x[0]}-{len(x[2])}" for x in LAYOUTS]
)
def test_long_cells(tmp_path, layout, kind):
    """In every column in turn; the longest in one of them."""
    format, reader, names, separator, start = LAYOUTS[layout]
    path = tmp_path / "a.csv"
    cells = row_of(reader, names)

    def write(name, length):
        row = cells | {name: cell(kind, length)}
        path.write_text(start + separator.join(row.values()) + "\n")

    for name in names:
        write(name, LENGTHS[0])
        assert outcome(path, format) < MOST_TIMES * LEAST_S
    turn = names[list(KINDS).index(kind) % len(names)]
    check_lengths(lambda length: write(turn, length), path, format)


@kinds
def test_long_lines_without_a_format(tmp_path, kind):
    """What tells formats takes no longer, nor do comments and what a file says of itself."""
    path = tmp_path / "a.csv"
    for start in ("", "submit_time,", "; ", "; Version: a", "# jaxsched trace 1 ", "[", "[{"):
        check_lengths(lambda length, start=start: path.write_text(start + cell(kind, length)), path)


@kinds
@pytest.mark.parametrize("key", ["status", "jobid", "submitted_time", "attempts"])
def test_long_values_in_json(tmp_path, key, kind):
    path = tmp_path / "log.json"

    def write(length):
        value = cell(kind, length)
        value = json.dumps(value) if key != "attempts" else f"[{value}"
        path.write_text(f'[{{"submitted_time": "{STAMP}", "attempts": [], "{key}": {value}}}]')

    check_lengths(write, path)


@kinds
def test_long_cells_of_a_folder(tmp_path, kind):
    row = {"start_time": "1", "end_time": "2", "status": "Failed"}
    for table, names in readers.pai.COLUMNS.items():
        line = ",".join(row.get(name, "1") for name in names)
        (tmp_path / f"{table}.csv").write_text(line + "\n")
    for table, names in readers.pai.COLUMNS.items():
        path = tmp_path / f"{table}.csv"
        good = path.read_text()
        for name in names:
            bad = [cell(kind, LENGTHS[0]) if other == name else row.get(other, "1")
                   for other in names]  # fmt: skip
            path.write_text(",".join(bad) + "\n")
            assert outcome(tmp_path) < MOST_TIMES * LEAST_S
        path.write_text(good)


@kinds
def test_long_cells_of_tables_beside_and_of_parquet(tmp_path, kind):
    path, table = tmp_path / "a.trace", tmp_path / readers.gavel.MEASURED
    path.write_text("\t".join(["1"] * len(readers.gavel.PHYSICAL)) + "\n")
    check_lengths(lambda length: table.write_text('{"v100": ' + cell(kind, length)), path, "gavel")
    table.unlink()
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet = tmp_path / "a.parquet"

    def write(length):
        columns = {"submit": ["1"], "gpus": ["2"], "run_time": [cell(kind, length)]}
        pq.write_table(pa.table(columns), parquet)

    check_lengths(write, parquet)
