"""Compressed result files hold what the plain ones held."""

import json

import numpy as np
import pytest

from benchmarks.compare_results import read
from benchmarks.pack import LARGE, large_files, pack
from benchmarks.scripts import read_json
from jaxsched.errors import JaxschedError

SINGLE = float(np.float32(0.1))
DOCUMENT = {"single": [SINGLE] * 3, "double": 1 / 3, "whole": 2**60, "text": "a", "none": None}


def test_a_packed_file_is_read_by_its_plain_name(tmp_path):
    plain = tmp_path / "a.json"
    plain.write_text(json.dumps(DOCUMENT, indent=1))
    packed = pack(plain)
    assert packed.name == "a.json.xz"
    assert not plain.exists()
    found = read_json(plain)
    assert found == read_json(packed) == read(plain)
    assert np.float32(found["single"][0]) == np.float32(SINGLE)
    assert found["double"] == pytest.approx(1 / 3, rel=1e-8)
    assert {key: found[key] for key in ("whole", "text", "none")} == {
        key: DOCUMENT[key] for key in ("whole", "text", "none")
    }


def test_only_large_files_are_packed(tmp_path):
    (tmp_path / "small.json").write_text("{}")
    (tmp_path / "large.json").write_text(json.dumps({"a": "b" * LARGE}))
    assert [path.name for path in large_files(tmp_path)] == ["large.json"]


def test_damaged_files_are_refused_in_one_line(tmp_path):
    (tmp_path / "a.json.xz").write_bytes(b"no archive")
    with pytest.raises(JaxschedError, match="a.json.xz: is not JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(JaxschedError, match="b.json: cannot be read"):
        read_json(tmp_path / "b.json")
