"""Downloads that can be cut off and gone on with: one file from one address.

A file comes as ``NAME.part`` beside its place, with a note ``NAME.part.json`` of the address and of
what the server said to tell versions apart (``ETag``, ``Last-Modified``). It is renamed once it is
complete and its size and SHA-256 are as expected, so that a file under its own name is whole.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from jaxsched import __version__
from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError

TIMEOUT_S = 30.0

_CHUNK = 1 << 18
_SCHEMES = ("http", "https")
_WHOLE, _PARTIAL, _UNSATISFIABLE = 200, 206, 416

OnProgress = Callable[[int, int | None], None]


class Fetched(NamedTuple):
    """A complete file.

    Attributes:
      path: where it is.
      num_bytes: its size.
      sha256: its digest (hex).
      resumed_from: bytes that were there from an earlier try.
      was_there: whether the whole file was, so that nothing was fetched.
    """

    path: Path
    num_bytes: int
    sha256: str
    resumed_from: int
    was_there: bool


class _Part(NamedTuple):
    """The beginning of a file, and what is known of it."""

    path: Path
    note: Path

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def version(self, url: str) -> dict[str, str]:
        """What the server said of it; empty if nothing is known or it is from another address."""
        try:
            noted = json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(noted, dict) or noted.get("url") != url:
            return {}
        return {key: text for key, text in noted.items() if isinstance(text, str)}

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def fetch_file(
    url: str,
    path: Path,
    *,
    num_bytes: int | None = None,
    sha256: str | None = None,
    timeout_s: float = TIMEOUT_S,
    on_progress: OnProgress = lambda done, total: None,
) -> Fetched:
    """Fetch a file, going on where an earlier try was cut off if the server can.

    Args:
      url: the address, http or https.
      path: where the file goes.
      num_bytes: its size; None: not known.
      sha256: its digest (hex); None: not known.
      timeout_s: longest silence of the server (s).
      on_progress: called with the bytes that are there and those expected in all.

    Raises:
      JaxschedError: one line if the address gives no such file, the connection breaks (what came
        is kept for the next try), the file is not the expected one, or it cannot be written.
    """
    _check_scheme(url)
    with _writing(path):
        if path.exists():
            return _checked(path, path, num_bytes, sha256, was_there=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = _Part(path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json"))
        resumed_from = _receive(url, part, num_bytes, sha256, timeout_s, on_progress)
        try:
            fetched = _checked(part.path, path, num_bytes, sha256, resumed_from=resumed_from)
        except JaxschedError:
            part.remove()
            raise
        part.path.replace(path)
        part.remove()
    return fetched


def _receive(
    url: str,
    part: _Part,
    num_bytes: int | None,
    sha256: str | None,
    timeout_s: float,
    on_progress: OnProgress,
) -> int:
    """Complete the part and return how much of it was there before."""
    version, there = part.version(url), part.size()
    headers = _range_headers(version, there, known=sha256 is not None)
    if num_bytes is not None and there == num_bytes and version:
        return there
    with _answer(url, headers, timeout_s) as answer:
        if answer.status == _WHOLE:
            there, total = 0, answer.length
        elif headers and _continues(answer, version, there):
            total = None if answer.length is None else there + answer.length
        elif headers:  # a range that does not fit the part
            part.remove()
            return _receive(url, part, num_bytes, sha256, timeout_s, on_progress)
        else:
            raise JaxschedError(
                f"{url}: the server answers {answer.status} {answer.reason}; expected: "
                f"{_WHOLE} OK and the file"
            )
        if num_bytes is not None and total is not None and total != num_bytes:
            part.remove()
            raise JaxschedError(
                f"{url}: gives {total:,} bytes; expected: {num_bytes:,}; the file has changed or "
                "the address gives something else"
            )
        _note_version(part, url, answer)
        total = num_bytes if total is None else total
        done = _copy(answer, part, there, total, on_progress)
    if total is not None and done < total:
        raise _broken(url, part, done, total, "it was closed")
    return there


def _copy(
    answer: HTTPResponse, part: _Part, there: int, total: int | None, on_progress: OnProgress
) -> int:
    """Write what comes and return how many bytes there are then."""
    done = there
    on_progress(done, total)
    with part.path.open("ab" if there else "wb") as file:
        while True:
            try:
                chunk = answer.read(_CHUNK)
            except (OSError, HTTPException) as error:
                file.flush()
                raise _broken(answer.url, part, done, total, _reason(error)) from None
            if not chunk:
                return done
            file.write(chunk)
            done += len(chunk)
            on_progress(done, total)


def _range_headers(version: dict[str, str], there: int, *, known: bool) -> dict[str, str]:
    """Headers that ask for the rest of a part, if it can be the same file.

    A strong ``ETag`` or a date lets the server say so; with neither, only a known digest tells
    afterwards.
    """
    if not there or not version:
        return {}
    headers = {"Range": f"bytes={there}-"}
    tag = version.get("etag", "")
    validator = tag if tag and not tag.startswith("W/") else version.get("last-modified", "")
    if validator:
        return headers | {"If-Range": validator}
    return headers if known else {}


def _continues(answer: HTTPResponse, version: dict[str, str], there: int) -> bool:
    """Whether an answer is the rest of the part that is there."""
    spans = answer.headers.get("Content-Range", "").removeprefix("bytes ").split("-")[0]
    tag = answer.headers.get("ETag")
    same = tag is None or "etag" not in version or tag == version["etag"]
    return answer.status == _PARTIAL and spans == str(there) and same


def _note_version(part: _Part, url: str, answer: HTTPResponse) -> None:
    noted = {"url": url}
    noted |= {
        name.lower(): text
        for name in ("ETag", "Last-Modified")
        if (text := answer.headers.get(name)) is not None
    }
    part.note.write_text(json.dumps(noted) + "\n", encoding="utf-8")


@contextmanager
def _answer(url: str, headers: dict[str, str], timeout_s: float) -> Iterator[HTTPResponse]:
    """The answer to a request; refusals of a range are answers too."""
    headers = {
        "User-Agent": f"jaxsched/{__version__}",
        "Accept-Encoding": "identity",
        **headers,
    }
    try:
        answer = _opener().open(request.Request(url, headers=headers), timeout=timeout_s)
    except HTTPError as error:
        if error.code != _UNSATISFIABLE:
            error.close()
            raise JaxschedError(
                f"{url}: the server answers {error.code} {error.reason}; look whether the file has "
                f"moved, or name a mirror ({argument('url_base')})"
            ) from None
        answer = error
    except JaxschedError:  # a redirect that is refused
        raise
    except (URLError, OSError, HTTPException, ValueError) as error:
        raise JaxschedError(
            f"{url}: cannot be reached ({_reason(error)}); check the connection and run the "
            f"command again, or name a mirror ({argument('url_base')})"
        ) from None
    with answer:
        yield answer


class _SafeRedirects(request.HTTPRedirectHandler):
    """Follows redirects to http and https only, and from https to https only."""

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> request.Request | None:
        fro, to = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if to not in _SCHEMES or (fro == "https" and to == "http"):
            fp.close()
            raise JaxschedError(
                f"{req.full_url}: is redirected from {fro} to {to} ({newurl}); accepted: https, or "
                "http from http"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """An opener for http and https alone."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
        request.UnknownHandler(),
        _SafeRedirects(),
    ):
        opener.add_handler(handler)
    return opener


def _check_scheme(url: str) -> None:
    try:
        parts = urlsplit(url)
        accepted = parts.scheme in _SCHEMES and bool(parts.netloc)
    except ValueError:  # half of a bracket
        accepted = False
    if not accepted:
        raise JaxschedError(f"{url}: is no address to fetch from; accepted: http:// or https://")


def _checked(
    there: Path,
    path: Path,
    num_bytes: int | None,
    sha256: str | None,
    *,
    resumed_from: int = 0,
    was_there: bool = False,
) -> Fetched:
    """A complete file, if it is the expected one."""
    found = there.stat().st_size
    digest = digest_file(there)
    again = f"run the command again, or name a mirror ({argument('url_base')})"
    advice = f"move it away, then {again}" if was_there else f"it was removed: {again}"
    if num_bytes is not None and found != num_bytes:
        raise JaxschedError(f"{path}: has {found:,} bytes; expected: {num_bytes:,}; {advice}")
    if sha256 is not None and digest != sha256:
        raise JaxschedError(f"{path}: has the SHA-256 {digest}; expected: {sha256}; {advice}")
    return Fetched(path, found, digest, resumed_from, was_there)


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes (hex)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _broken(url: str, part: _Part, done: int, total: int | None, why: str) -> JaxschedError:
    of = f" of {total:,}" if total is not None else ""
    return JaxschedError(
        f"{url}: the connection broke after {done:,}{of} bytes ({why}); they are kept in "
        f"{part.path}: run the command again to go on from there"
    )


def _reason(error: BaseException) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Failures of the file system as one line."""
    try:
        yield
    except OSError as error:
        raise JaxschedError(f"{path}: cannot be written ({error.strerror or error})") from None
