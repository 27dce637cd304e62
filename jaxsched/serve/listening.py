"""Where a service listens: sockets of a host and a port, or one line that says why not."""

import errno
import ipaddress
import os
import socket

from jaxsched.errors import JaxschedError

ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Of a name with several addresses those may be missing, IPv6 in most cases."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of a host that this machine has.

    Args:
      host: an IPv4 or IPv6 address, or a name.
      port: 0 for any free one, the same at every address.

    Raises:
      JaxschedError: the name is not known, the port is in use or not allowed, or no address of the
        host is one of this machine.
    """
    bound: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in _addresses(host, port):
        try:
            bound.append(_bind(family, (address[0], port, *address[2:])))
        except OSError as error:
            if error.errno in ABSENT:
                missing = missing or error
                continue
            _close(bound)
            raise JaxschedError(_reason(host, port, error)) from None
        port = bound[0].getsockname()[1]
    if not bound:
        assert missing is not None
        raise JaxschedError(_reason(host, port, missing))
    return bound


def url_of(bound: socket.socket) -> str:
    """The address of a socket as clients write it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if bound.family == socket.AF_INET6 else f"http://{host}:{port}"


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine reaches a socket."""
    return ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple]]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise JaxschedError(
            f"--host {host[:80]!r} is no address of this machine ({reason}); accepted: an IPv4 or "
            "IPv6 address, or a name, without a port"
        ) from None
    usual = [(family, address) for family, _, _, _, address in found]
    return list(dict.fromkeys(usual))


def _bind(family: socket.AddressFamily, address: tuple) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it lets two services have one port
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(BACKLOG)  # only now two services notice each other
    except OSError:
        made.close()
        raise
    return made


BACKLOG = 2048


def _close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


def _reason(host: str, port: int, error: OSError) -> str:
    where = f"cannot listen at {host}, port {port}: "
    if error.errno == errno.EADDRINUSE:
        return where + "the port is in use; accepted: another --port, 0 for any free one"
    if error.errno in (errno.EACCES, errno.EPERM):
        return where + "not allowed to this user; accepted: a --port from 1024 on"
    if error.errno in ABSENT:
        return where + "the address is none of this machine; accepted: one of its own as --host"
    return where + os.strerror(error.errno or 0)
