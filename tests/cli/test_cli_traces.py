"""``jaxsched traces`` as a user types it, and published traces wherever ``--trace`` is accepted."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from jaxsched.cli import main
from jaxsched.errors import JaxschedError
from jaxsched.experiment.options import TraceOptions
from jaxsched.experiment.sources import resolve
from jaxsched.experiment.splits import sets_of
from jaxsched.systems import functions, presets, registry
from jaxsched.traces import Trace, catalogue, clusters, load, read_trace, write_trace
from jaxsched.traces.catalogue import Original, Published
from tests.command_line import refused
from tests.traces.file_server import Served, serving

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
JOBS = 40


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A table of Philly's layout, not in order of submission, with a job of unknown run time."""
    rows = [
        f"2017-10-{3 + k % 5:02d} {k % 24:02d}:00:{k:02d},{60 * (k + 1)},{1 + k % 4},1,vc{k % 3}"
        for k in range(JOBS)
    ]
    path = tmp_path_factory.mktemp("traces") / "table.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n2017-10-09 00:00:00,,8,,vc0\n\n")
    return path


@pytest.fixture(scope="module")
def canonical(tmp_path_factory, published):
    path = tmp_path_factory.mktemp("traces") / "canonical.parquet"
    assert main(["traces", "import", str(published), "--out", str(path)]) == 0
    return path


def said(capsys, *arguments):
    capsys.readouterr()
    status = main(list(map(str, arguments)))
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


def test_import_writes_the_trace_and_says_what_it_did(published, tmp_path, capsys):
    for ending in ("parquet", "csv", "csv.gz"):
        out = tmp_path / "new" / f"t.{ending}"
        words = said(capsys, "traces", "import", published, "--out", out)
        trace = read_trace(out)
        assert len(trace) == JOBS + 1 and trace.clock == "local"
        assert f"{JOBS + 1} rows, {JOBS + 1} jobs" in words
        assert "1 job without a known run time" in words
        assert "0 jobs without a known number of GPUs" in words
        assert trace.digest() in words


def test_import_repeats_the_notes_of_the_reader(tmp_path, capsys):
    columns = {name: np.array([1.0, 0.0]) for name in ("submit_time", "num_gpus", "duration")}
    write_trace(tmp_path / "a.csv", Trace(columns, notes=("17 rows dropped",), rows_read=19))
    words = said(capsys, "traces", "import", tmp_path / "a.csv", "--out", tmp_path / "b.csv")
    assert "17 rows dropped" in words and "19 rows, 2 jobs" in words
    assert "1 job with no GPU" in words
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_describe_a_trace_as_it_is(published, canonical, tmp_path, capsys):
    plot, figures = tmp_path / "p.png", tmp_path / "f.json"
    words = said(capsys, "traces", "describe", canonical, "--servers", "2x4",
                 "--plot", plot, "--json", figures)  # fmt: skip
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = json.loads(figures.read_text())
    assert (found["jobs"], found["cluster_gpus"]) == (JOBS + 1, 8)
    assert found["demand"]["3-4"] == pytest.approx(JOBS / 2 / (JOBS + 1))
    assert found["digest"] == read_trace(canonical).digest()
    assert found["digest"] in words and "weekday_weights" in words and "cpu_only 0" in words
    said(capsys, "traces", "describe", published, "--format", "philly-csv", "--json", figures)
    again = json.loads(figures.read_text())
    assert again["digest"] == found["digest"] and again["load"] is None


def test_describe_the_tables_that_a_system_gets(canonical, tmp_path, capsys):
    figures = tmp_path / "f.json"
    words = said(capsys, "traces", "describe", canonical, "--system", "sched2", "--num-traces", 3,
                 "--num-jobs", 7, "--load", 0.5, "--json", figures)  # fmt: skip
    found = json.loads(figures.read_text())
    assert (found["traces"], found["jobs"]) == (3, 21)
    assert "load 0.500" in words and "1 row without GPUs or run time dropped" in words
    larger = tmp_path / "g.json"
    words = said(capsys, "traces", "describe", canonical, "--system", "sched2", "--num-traces", 3,
                 "--num-jobs", 7, "--load", 0.5, "--servers", "30x8", "--json", larger)  # fmt: skip
    assert json.loads(larger.read_text())["load"] == pytest.approx(found["load"], rel=0.02)
    assert "for a load of 0.5 on 30 x 8 GPUs" in words  # that of the cluster in use


def test_describe_a_generated_workload(tmp_path, capsys):
    figures = tmp_path / "f.json"
    said(capsys, "traces", "describe", "philly-like", "--num-jobs", 300, "--seed", 4,
         "--json", figures)  # fmt: skip
    expected = clusters.generate_trace("philly-like", 4, 300).digest()
    assert json.loads(figures.read_text())["digest"] == expected


def test_convert_to_another_layout_and_back(canonical, tmp_path, capsys):
    text, again = tmp_path / "t.csv.gz", tmp_path / "t.parquet"
    said(capsys, "traces", "convert", canonical, "--out", text)
    said(capsys, "traces", "convert", text, "--out", again)
    assert again.read_bytes() == canonical.read_bytes()


@pytest.mark.parametrize("system", registry.names())
@pytest.mark.parametrize("source", ["canonical", "philly-like", "pai-like"])
def test_every_system_gets_its_tables(system, source, canonical, tmp_path, capsys):
    out = tmp_path / "tables.csv.gz"
    name = canonical if source == "canonical" else source
    words = said(capsys, "traces", "convert", name, "--system", system, "--out", out,
                 "--num-traces", 2, "--num-jobs", 6, "--seed", 3)  # fmt: skip
    for part in ("rows read", "GPUs of the traces' jobs", "load", "mean gap", "digest"):
        assert part in words
    tables = load(out)
    chosen = registry.get(system)
    options = TraceOptions(3, 2, 6)
    episodes = resolve(str(name), chosen, options)
    assert [len(table) for table in tables] == [6, 6]
    for table, expected in zip(tables, episodes.tables, strict=True):
        assert table.schema == expected.schema
        for column in table.columns:
            assert str(table[column]) == str(expected[column])
    assert episodes.digest[:12] in episodes.source
    functions.environment(chosen).params(episodes.tables)


def test_evaluate_on_a_canonical_trace_records_its_digest(canonical, tmp_path, capsys):
    values = tmp_path / "v.json"
    said(capsys, "evaluate", "sched2", "--policy", "fifo", "--trace", canonical, "--cut",
         "--num-jobs", 20, "--json", values)  # fmt: skip
    result = json.loads(values.read_text())
    assert read_trace(canonical).digest()[:12] in result["episodes"]["source"]
    assert result["episodes"]["count"] == 2


def test_training_records_the_digests_of_published_traces(canonical, tmp_path, monkeypatch):
    from jaxsched.runs import trainer

    def stop(*arguments, **options):
        raise JaxschedError("enough")

    monkeypatch.setattr(trainer, "train", stop)
    arguments = ["train", "sched2", "--trace", str(canonical), "--num-jobs", "20"]
    assert main([*arguments, "--num-traces", "4", "--out", str(tmp_path / "run")]) == 2
    digests = json.loads((tmp_path / "run" / "config.json").read_text())["config"]["trace_digests"]
    assert digests["train, published"] == read_trace(canonical).digest()
    assert digests["train"] != digests["train, published"]


def test_training_splits_a_published_trace_by_time(canonical):
    chosen = registry.get("dl2")
    recipe = presets.preset(chosen, "quick")
    options = TraceOptions(num_traces=3, num_jobs=6)
    sets = sets_of(chosen, recipe, str(canonical), None, options)
    named = [part.summary.splitlines()[1].strip() for part in sets]
    assert named == [
        "jobs 0 to 29 of 41 in order of submission",
        "jobs 29 to 33 of 41 in order of submission",
        "jobs 33 to 41 of 41 in order of submission",
    ]
    assert {part.digest for part in sets} == {read_trace(canonical).digest()}
    apart = sets_of(chosen, recipe, str(canonical), "dl2-testbed", options)
    assert "jobs 37 to 41 of 41" in apart.validation.summary and apart.test.summary == ""
    sched2, table = registry.get("sched2"), str(canonical)
    whole = sets_of(sched2, presets.preset(sched2, "quick"), table, table, options)
    assert whole.train is whole.validation and "in order of" not in whole.test.summary


OWN = "who,when,cards,took\n" + "".join(
    f"u{k % 3},2024-10-27 0{1 + k % 3}:{k:02}:00,{1 + k % 4},0:{10 + k}:00\n" for k in range(20)
)
NAMED = ("--columns", "who=user,when=submit_time,cards=num_gpus,took=duration")
ZONE = ("--timezone", "Europe/Berlin")


def test_a_table_of_ones_own_with_names_and_a_zone(tmp_path, capsys):
    path, out = tmp_path / "own.csv", tmp_path / "own.parquet"
    path.write_text(OWN)
    message = refused(capsys, "traces", "describe", path)
    assert "no column is known for submit_time, num_gpus, duration; three are enough" in message
    words = said(capsys, "traces", "import", path, "--out", out, *NAMED, *ZONE)
    trace = read_trace(out)
    assert "times of the zone Europe/Berlin, kept in universal time" in words
    assert (trace.clock, trace["duration"][0], trace["user"][4]) == ("utc", 600, "u1")
    assert "clock                utc" in said(capsys, "traces", "describe", path, *NAMED, *ZONE)
    message = refused(capsys, "traces", "describe", out, *NAMED)
    assert "says itself what its columns and its clock are" in message
    tables = tmp_path / "tables.csv"
    said(capsys, "traces", "convert", path, "--system", "sched2", "--out", tables, "--num-jobs", 5,
         *NAMED, *ZONE)  # fmt: skip
    options = TraceOptions(num_jobs=5, columns=NAMED[1], timezone=ZONE[1])
    assert len(resolve(str(path), registry.get("sched2"), options).tables[0]) == 5
    chosen = registry.get("sched2")
    sets = sets_of(chosen, presets.preset(chosen, "quick"), str(path), "sched2-test-68", options)
    assert sets.train.digest == trace.digest() and sets.test.source == "sched2-test-68"
    with pytest.raises(JaxschedError, match="das-mixed: is a name; accepted: columns with"):
        resolve("das-mixed", chosen, options)


READERS = ("evaluate", "compare", "train", "sweep", "headroom", "replay", "traces describe",
           "traces import", "traces convert")  # fmt: skip


@pytest.mark.parametrize("words", READERS)
def test_commands_that_read_traces_take_names_and_a_zone(words, capsys):
    text = said(capsys, *words.split(), "--help")
    assert "--columns" in text and "--timezone" in text


TABLES = "trace,submit_time,num_gpus,duration,model\n" + "".join(
    f"{trace},{time},{gpus},{60 * time + 60},0\n"
    for trace, gap in enumerate((10, 40))
    for time, gpus in ((0, 4), (gap, 8), (3 * gap, 16))
)


def test_job_tables_are_rescaled(tmp_path, capsys):
    """The first tables that are asked for, all by one factor; files and drawn ones alike."""
    path, out = tmp_path / "tables.csv", tmp_path / "out.csv"
    path.write_text(TABLES)
    convert = ["traces", "convert", str(path), "--system", "sched2", "--out", str(out)]

    def written(*options):
        assert main([*convert, *options]) == 0
        return [int(line.split(",")[1]) for line in out.read_text().splitlines()[1:]]

    assert written() == [0, 10, 30, 0, 40, 120]
    assert written("--mean-gap", "75") == [0, 20, 60, 0, 80, 240]
    assert written("--mean-gap", "75", "--num-traces", "1") == [0, 50, 150]
    assert "tables.csv (first 1 of 2 tables) (times x 5)" in capsys.readouterr().out
    told = tmp_path / "told.json"
    for name, system in ((str(path), "sched2"), ("sched2-68", "sched2"), ("das-test", "das")):
        describe = ["traces", "describe", name, "--system", system, "--num-traces", "2"]
        assert main([*describe, "--load", "0.4", "--json", str(told)]) == 0
        assert json.loads(told.read_text())["load"] == pytest.approx(0.4, rel=5e-3), name


def test_every_set_of_a_training_is_rescaled(tmp_path):
    """Job tables and published traces alike, each set by a factor of its own."""
    system, path = registry.get("sched2"), tmp_path / "tables.csv"
    path.write_text(TABLES)
    recipe = presets.preset(system, "search")
    recipe = replace(recipe, traces=recipe.traces._replace(num_train=3, num_validation=2))
    options = TraceOptions(mean_gap_s=500.0)
    sets = sets_of(system, recipe, None, str(path), options)
    assert [len(part.tables) for part in sets] == [3, 2, 2]
    for part in sets:
        gaps = np.concatenate([np.diff(table["submit_time"]) for table in part.tables])
        assert gaps.mean() == pytest.approx(500, rel=1e-3)
        assert "times x" in part.source


def test_part_and_format_where_a_trace_is_played(canonical, published, capsys):
    base = ["evaluate", "sched2", "--policy", "fifo", "--num-traces", "1", "--num-jobs", "5"]
    text = said(capsys, *base, "--trace", canonical, "--part", "0.5:1")
    assert "jobs 20 to 41 of 41 in order of submission" in text
    named = said(capsys, *base, "--trace", published, "--format", "philly-csv")
    assert "table (philly-csv): 41 rows read" in named
    assert "the header is" in refused(capsys, *base, "--trace", published, "--format", "itp")
    assert "is a name" in refused(capsys, *base, "--trace", "philly-like", "--format", "itp")
    for part in ("0.5", "1:0.5", "a:b", "-1:1", "0:1:2", "nan:1"):
        message = refused(capsys, *base, "--trace", canonical, f"--part={part}")
        assert "accepted: START:END with 0 <= START < END <= 1" in message


def test_workloads_are_cut_where_enough_jobs_can_be_used():
    trace = clusters.usable_jobs("helios-venus-like", 1, 50)
    usable = (trace["num_gpus"] > 0) & (trace["duration"] > 0)
    assert np.sum(usable) == 50 and usable[-1] and len(trace) > 50
    longer = clusters.usable_jobs("helios-venus-like", 1, 80)
    np.testing.assert_array_equal(longer["duration"][: len(trace)], trace["duration"])
    other = resolve("helios-venus-like", registry.get("sched2"), TraceOptions(2, 1, 50))
    assert other.digest != trace.digest() and "consecutive pieces" in other.source


def test_generate_a_workload(tmp_path, capsys):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for out in (first, second):
        words = said(capsys, "traces", "generate", "pai-like", "--num-jobs", 200, "--seed", 9,
                     "--load", 0.6, "--gpus", 64, "--out", out)  # fmt: skip
        assert "200 rows, 200 jobs" in words
    assert first.read_bytes() == second.read_bytes()
    expected = clusters.generate_trace("pai-like", 9, 200, num_gpus=64, load=0.6)
    assert read_trace(first).digest() == expected.digest()


def test_list_as_json_and_as_a_table(capsys):
    rows = json.loads(said(capsys, "traces", "list", "--json"))
    kinds = {row["name"]: row["what"] for row in rows}
    assert len(kinds) == len(rows)
    assert kinds["philly"] == "fetchable" and kinds["sched2-test-68"] == "shipped"
    assert kinds["itp-sample"] == "shipped" and kinds["philly-like"] == "generated"
    assert kinds["sched2-68"] == "generated"
    licences = {row["name"]: row["licence"] for row in rows}
    assert licences["itp-sample"] == "MIT" and licences["philly-sample"] == "CC-BY-4.0"
    words = said(capsys, "traces", "list")
    assert all(row["name"] in words for row in rows)


@pytest.fixture
def fake(monkeypatch):
    """A published trace of one file of 5 bytes on a server of this machine."""
    monkeypatch.setenv("no_proxy", "*")
    with serving(Served(b"hello")) as served:
        sha256 = hashlib.sha256(b"hello").hexdigest()
        entry = Published("fake", "a fake", 1, "itp", "MIT", "https://l", "Cited", "https://h",
                          (Original("file.csv", served.url, 5, sha256),), "unpack it")  # fmt: skip
        monkeypatch.setattr(catalogue, "entries", lambda: (entry,))
        yield served, sha256


def test_fetch_prints_size_digest_and_what_is_next(fake, tmp_path, capsys):
    served, sha256 = fake
    words = said(capsys, "traces", "fetch", "fake", "--out", tmp_path / "f")
    assert (tmp_path / "f" / "file.csv").read_bytes() == b"hello"
    for part in ("5 bytes", f"{sha256} (as expected)", "MIT", "Cited", "unpack it", served.url):
        assert part in words
    assert "was there" in said(capsys, "traces", "fetch", "fake", "--out", tmp_path / "f")
    assert len(served.requests) == 1


def test_fetch_goes_on_where_it_was_cut(fake, tmp_path, capsys):
    served, _ = fake
    served.cut_after = 2
    folder = tmp_path / "f"
    line = refused(capsys, "traces", "fetch", "fake", "--out", folder)
    assert "broke after 2 of 5 bytes" in line and str(folder / "file.csv.part") in line
    assert (folder / "file.csv.part").read_bytes() == b"he"
    words = said(capsys, "traces", "fetch", "fake", "--out", folder)
    assert "the first 2 bytes earlier" in words


def test_fetch_from_a_mirror_and_failures(fake, tmp_path, capsys):
    served, _ = fake
    base = served.url.removesuffix("/file.csv")
    said(capsys, "traces", "fetch", "fake", "--out", tmp_path / "m", "--url-base", base)
    for url_base, says in (
        (f"{base}/no", "answers 404"),
        ("ftp://host", "accepted: http:// or https://"),
        ("http://127.0.0.1:1", "cannot be reached"),
    ):
        line = refused(capsys, "traces", "fetch", "fake", "--out", tmp_path / "n",
                       "--url-base", url_base)  # fmt: skip
        assert says in line
    served.body = b"other words"
    assert "11 bytes; expected: 5" in refused(
        capsys, "traces", "fetch", "fake", "--out", tmp_path / "n"
    )
    assert "cannot be written" in refused(capsys, "traces", "fetch", "fake", "--out", "/proc/x")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fetch", "no-such"], "unknown published trace 'no-such'; accepted: philly,"),
        (["import", "no/such.csv", "--out", "x.csv"], "there is no such file"),
        (["import", "{published}", "--out", "x.json"], "ends in .parquet or .csv or .csv.gz"),
        (["import", "{published}", "--out", "/proc/x/y.csv"], "cannot be written"),
        (["import", "{published}", "--out", "x.csv", "--format", "no"], "unknown format 'no'"),
        (["import", "{published}", "--out", "x.csv", "--format", "itp"], "the header is"),
        (["convert", "{published}", "--out", "x.csv", "--load", "1"], "together with --system"),
        (["convert", "{published}", "--out", "x.csv", "--system", "no"], "unknown system"),
        (["convert", "{published}", "--out", "x.parquet", "--system", "das"], "ends in .csv"),
        (["convert", "no-such", "--out", "x.csv", "--system", "das"], "neither a file nor"),
        (["convert", "philly-like", "--out", "x.csv"], "there is no such file"),
        (["describe", "no-such"], "neither a file nor a known trace"),
        (["describe", "{published}", "--load", "1"], "together with --system"),
        (["describe", "{published}", "--plot", "/proc/x/y.png"], "cannot be written"),
        (["describe", "{published}", "--servers", "0"], "--servers"),
        (["generate", "no-such", "--out", "x.csv"], "unknown generator"),
        (["generate", "sched2-68", "--out", "x.parquet"], "ends in .csv"),
        (["generate", "sched2-68", "--out", "x.csv", "--load", "1"], "has a load of its own"),
        (["generate", "pai-like", "--out", "x.csv", "--num-traces", "2"], "is one trace"),
        (["generate", "pai-like", "--out", "x.csv", "--load", "-1"], "load is -1"),
        (["generate", "pai-like", "--out", "x.json"], "ends in .parquet"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments, says, published, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, "traces", *(word.format(published=published) for word in arguments))
    assert says in line
    assert list(tmp_path.iterdir()) == []


def test_too_few_jobs_for_one_piece(canonical):
    with pytest.raises(JaxschedError, match="cannot cut 40 jobs into traces of 500"):
        resolve(str(canonical), registry.get("sched2"), TraceOptions(num_jobs=500, cut=True))
