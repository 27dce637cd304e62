import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces import FORMATS, TRACE_COLUMNS, catalogue, registry
from jaxsched.traces.catalogue import Original
from tests.traces.file_server import Served, serving

ENTRIES = catalogue.entries()
FILES = [(entry, original) for entry in ENTRIES for original in entry.files]


def test_entries_are_complete():
    assert len(set(catalogue.names())) == len(ENTRIES) >= 15
    formats = {entry.name for entry in FORMATS} - {"jobs", "trace"}
    for entry in ENTRIES:
        assert entry.format in formats
        assert entry.jobs is None or entry.jobs > 0
        assert entry.description and entry.licence and entry.citation and entry.files
        assert urlsplit(entry.licence_url).scheme == urlsplit(entry.homepage).scheme == "https"
        assert not entry.sample or entry.sample in registry.names()
        assert len({original.file for original in entry.files}) == len(entry.files)


@pytest.mark.parametrize(("entry", "original"), FILES, ids=lambda item: item[0])
def test_files_have_safe_names_and_plausible_digests(entry, original):
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", original.file) and not original.file.startswith(".")
    assert urlsplit(original.url).scheme == "https"
    assert original.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", original.sha256)
    assert original.num_bytes is None or original.num_bytes > 0
    assert (original.num_bytes is None) == (original.sha256 is None)
    archive = original.file.endswith((".gz", ".zip"))
    assert not archive or entry.then


def test_digests_differ_from_file_to_file():
    digests = [original.sha256 for _, original in FILES if original.sha256]
    assert len(set(digests)) == len(digests)


def test_names_and_addresses():
    assert catalogue.get("philly").format == "philly-json"
    with pytest.raises(JaxschedError, match="unknown published trace 'nope'; accepted: philly, "):
        catalogue.get("nope")
    original = Original("a b.csv", "https://somewhere/x.csv")
    assert catalogue.address(original) == "https://somewhere/x.csv"
    assert catalogue.address(original, "http://mirror/m/") == "http://mirror/m/a%20b.csv"


def test_fetch_takes_the_file_from_a_mirror(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving(Served(b"job\n")) as served:
        base = served.url.removesuffix("/file.csv")
        original = Original("file.csv", "https://elsewhere.invalid/file.csv", 4)
        fetched = catalogue.fetch(original, tmp_path / "here", url_base=base)
    assert fetched.path == tmp_path / "here" / "file.csv"
    assert fetched.path.read_bytes() == b"job\n"


def test_the_readme_names_every_column_and_format():
    words = Path(catalogue.__file__).with_name("README.md").read_text(encoding="utf-8")
    wanted = [column.name for column in TRACE_COLUMNS] + [entry.name for entry in FORMATS]
    assert [name for name in wanted if f"`{name}`" not in words] == []
