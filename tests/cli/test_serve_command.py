"""``jaxsched serve`` where it cannot listen: one line and status 2, before anything is loaded."""

import errno
import socket

import pytest

from tests.command_line import refused

pytest.importorskip("uvicorn")

from jaxsched.errors import JaxschedError
from jaxsched.serve import listening


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use(capsys, taken, host):
    words = refused(capsys, "serve", "nowhere", "--host", host, "--port", str(taken))
    assert f"cannot listen at {host}, port {taken}: the port is in use" in words


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("nosuch.invalid", "is no address of this machine"),
        ("127.0.0.1:80", "without a port"),
        ("a..b", "is no address of this machine"),
        ("0.0.0.0", "can be reached from elsewhere; accepted there: a token"),
        ("203.0.113.5", "the address is none of this machine"),
    ],
)
def test_hosts_that_cannot_be_had(capsys, monkeypatch, host, words):
    monkeypatch.delenv("JAXSCHED_TOKEN", raising=False)
    assert words in refused(capsys, "serve", "nowhere", "--host", host, "--port", "0")


def test_a_port_that_is_not_allowed(monkeypatch):
    class Refusing(socket.socket):
        def bind(self, address):
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(listening.socket, "socket", Refusing)
    with pytest.raises(JaxschedError, match=r"port 80: not allowed to this user; accepted: a --p"):
        listening.listen("127.0.0.1", 80)


def test_ipv6():
    try:
        (bound,) = listening.listen("::1", 0)
    except JaxschedError as error:  # a machine without it
        assert "none of this machine" in str(error)
        return
    with bound:
        assert listening.url_of(bound) == f"http://[::1]:{bound.getsockname()[1]}"
        assert listening.is_loopback(bound)


def test_a_name_with_several_addresses_has_one_port(monkeypatch):
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.5", 0)),
    ]
    monkeypatch.setattr(listening.socket, "getaddrinfo", lambda *a, **k: both)
    bound = listening.listen("here", 0)
    assert len({one.getsockname()[1] for one in bound}) == 1 and len(bound) in (1, 2)
    for one in bound:
        one.close()
