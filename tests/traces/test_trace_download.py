import hashlib
import json

import pytest

from jaxsched.errors import JaxschedError
from jaxsched.traces.download import fetch_file
from tests.traces.file_server import Served, serving

BODY = bytes(range(256)) * 4000  # a few chunks of reading
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def served():
    with serving(Served(BODY)) as server:
        yield server


@pytest.fixture
def target(tmp_path):
    return tmp_path / "new" / "file.csv"


def part_of(target):
    return target.with_name("file.csv.part")


def refusal(url, target, **how):
    with pytest.raises(JaxschedError) as caught:
        fetch_file(url, target, timeout_s=2.0, **how)
    message = str(caught.value)
    assert "\n" not in message
    assert not target.exists()
    return message


def cut(served, target, after=300_000):
    served.cut_after = after
    message = refusal(served.url, target)
    assert part_of(target).read_bytes() == BODY[:after]
    served.requests.clear()
    return message


@pytest.mark.parametrize("known", [{}, {"num_bytes": len(BODY), "sha256": SHA256}])
def test_a_file_comes_whole_and_only_once(served, target, known):
    steps = []
    fetched = fetch_file(served.url, target, **known, on_progress=lambda *step: steps.append(step))
    assert fetched == (target, len(BODY), SHA256, 0, False)
    assert target.read_bytes() == BODY
    assert [path.name for path in target.parent.iterdir()] == ["file.csv"]
    assert steps[0] == (0, len(BODY)) and steps[-1] == (len(BODY), len(BODY)) and len(steps) > 3
    again = fetch_file(served.url, target, **known)
    assert again.was_there and again.sha256 == SHA256
    assert len(served.requests) == 1


def test_a_cut_download_goes_on_where_it_stopped(served, target):
    message = cut(served, target)
    assert message.startswith(
        f"{served.url}: the connection broke after 300,000 of 1,024,000 bytes"
    )
    assert str(part_of(target)) in message and "run the command again" in message
    steps = []
    fetched = fetch_file(served.url, target, on_progress=lambda *step: steps.append(step))
    assert served.requests[0]["Range"] == "bytes=300000-"
    assert served.requests[0]["If-Range"] == '"one"'
    assert fetched.resumed_from == 300_000 and fetched.sha256 == SHA256
    assert steps[0] == (300_000, len(BODY))


def test_several_cuts_in_a_row(served, target):
    for after, there in ((1000, 1000), (2000, 3000), (0, 3000)):
        served.cut_after = after
        refusal(served.url, target)
        assert part_of(target).read_bytes() == BODY[:there]
    assert fetch_file(served.url, target).sha256 == SHA256


def test_a_server_without_ranges_starts_over(served, target):
    cut(served, target)
    served.ranges = False
    fetched = fetch_file(served.url, target)
    assert fetched.resumed_from == 0 and target.read_bytes() == BODY


def test_a_file_that_changed_meanwhile_starts_over(served, target):
    cut(served, target)
    served.body, served.etag = BODY[::-1], '"two"'
    fetched = fetch_file(served.url, target)
    assert fetched.resumed_from == 0 and target.read_bytes() == BODY[::-1]


def test_a_part_longer_than_the_file_starts_over(served, target):
    cut(served, target)
    served.body = BODY[:1000]
    assert fetch_file(served.url, target).num_bytes == 1000
    assert len(served.requests) == 2


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_without_a_version_only_a_known_digest_lets_it_go_on(served, target, etag):
    served.etag = etag
    cut(served, target)
    assert fetch_file(served.url, target, sha256=SHA256).resumed_from == 300_000
    target.unlink()
    cut(served, target)
    assert fetch_file(served.url, target).resumed_from == 0
    assert "Range" not in served.requests[0]


def test_parts_of_another_address_or_without_a_note_are_not_used(served, target):
    cut(served, target)
    note = target.with_name("file.csv.part.json")
    for text in (json.dumps({"url": "http://elsewhere", "etag": '"one"'}), "{", "[]"):
        note.write_text(text)
        served.cut_after = 300_000
        refusal(served.url, target)
        assert all("Range" not in request for request in served.requests)
    note.unlink()
    assert fetch_file(served.url, target).resumed_from == 0


def test_a_complete_part_needs_no_server(served, target):
    cut(served, target)
    part_of(target).write_bytes(BODY)
    fetched = fetch_file(served.url, target, num_bytes=len(BODY), sha256=SHA256)
    assert fetched.resumed_from == len(BODY) and not served.requests


def test_the_wrong_file_is_refused_and_not_kept(served, target):
    message = refusal(served.url, target, sha256="0" * 64)
    assert f"has the SHA-256 {SHA256}; expected: {'0' * 64}; it was removed" in message
    message = refusal(served.url, target, num_bytes=135)
    assert "gives 1,024,000 bytes; expected: 135" in message
    assert list(target.parent.iterdir()) == []
    target.write_bytes(b"other")
    with pytest.raises(JaxschedError, match=r"has 5 bytes; expected: 1,024,000; move it away"):
        fetch_file(served.url, target, num_bytes=len(BODY))
    assert target.read_bytes() == b"other"


def test_an_answer_without_a_length(served, target):
    served.length = False
    assert fetch_file(served.url, target).sha256 == SHA256
    target.unlink()
    served.cut_after = 300_000
    message = refusal(served.url, target, num_bytes=len(BODY))
    assert "broke after 300,000 of 1,024,000 bytes" in message
    assert fetch_file(served.url, target, num_bytes=len(BODY)).resumed_from == 300_000


def test_a_server_that_falls_silent_is_given_up(served, target):
    served.cut_after, served.stalls = 262_144, True
    with pytest.raises(JaxschedError, match=r"broke after 262,144 of 1,024,000 bytes \(timed out"):
        fetch_file(served.url, target, timeout_s=0.2)
    served.stalls = False
    assert fetch_file(served.url, target).resumed_from == 262_144


def test_missing_files_and_servers_that_are_down(served, target):
    message = refusal(served.url + "x", target)
    assert message.startswith(f"{served.url}x: the server answers 404") and "mirror" in message
    served.status = 206
    assert "the server answers 206" in refusal(served.url, target)
    with serving(Served(b"")) as gone:
        pass
    message = refusal(gone.url, target)
    assert (
        message.startswith(f"{gone.url}: cannot be reached (") and "check the connection" in message
    )


def test_only_web_addresses_are_followed(served, target):
    for url in ("file:///etc/hostname", "ftp://host/file", "data:,x", "no address", "http:///x"):
        assert "accepted: http:// or https://" in refusal(url, target)
    for goal in ("file:///etc/hostname", "ftp://host/file"):
        served.redirect = goal
        assert goal.split(":")[0] in refusal(served.url, target)
    with serving(Served(BODY)) as other:
        served.redirect = other.url
        assert fetch_file(served.url, target).sha256 == SHA256


def test_places_that_cannot_be_written(served, tmp_path):
    (tmp_path / "plain").write_text("")
    assert "cannot be written" in refusal(served.url, tmp_path / "plain" / "file.csv")
    (tmp_path / "file.csv").mkdir()
    with pytest.raises(JaxschedError, match="cannot be written"):
        fetch_file(served.url, tmp_path / "file.csv")
