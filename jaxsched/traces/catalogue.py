"""Published traces: what they are, under which licence, and where their originals are.

The list itself is ``data/catalogue.json``. Sizes and digests are there where the file is known to
the byte; addresses name a commit where the source has one.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.download import TIMEOUT_S, Fetched, OnProgress, fetch_file
from jaxsched.traces.registry import data_file


class Original(NamedTuple):
    """A file of a published trace.

    Attributes:
      file: its name in the folder it is fetched into.
      url: its published address.
      num_bytes: its size; None: not known.
      sha256: its digest (hex); None: not known.
    """

    file: str
    url: str
    num_bytes: int | None = None
    sha256: str | None = None


class Published(NamedTuple):
    """A published trace.

    Attributes:
      name: what ``jaxsched traces fetch`` calls it.
      description: one line.
      jobs: how many it has, all files together; None: not known.
      format: which reader reads its files (``jaxsched.traces.formats``).
      licence: short name of the licence of the data.
      licence_url: its text.
      citation: what to cite.
      homepage: where the source describes it.
      files: the originals.
      then: command that unpacks them, empty where they are ready to be imported.
      sample: named trace that is made of a part of it and comes with this library; may be empty.
    """

    name: str
    description: str
    jobs: int | None
    format: str
    licence: str
    licence_url: str
    citation: str
    homepage: str
    files: tuple[Original, ...]
    then: str = ""
    sample: str = ""


@cache
def entries() -> tuple[Published, ...]:
    """All published traces of the catalogue."""
    document = json.loads(data_file("catalogue.json").read_text(encoding="utf-8"))
    return tuple(
        Published(**{**entry, "files": tuple(map(_original, entry["files"]))})
        for entry in document["traces"]
    )


def names() -> tuple[str, ...]:
    """The names of all published traces of the catalogue."""
    return tuple(entry.name for entry in entries())


def get(name: str) -> Published:
    """A published trace by name.

    Raises:
      JaxschedError: no such name.
    """
    for entry in entries():
        if entry.name == name:
            return entry
    raise JaxschedError(
        f"unknown published trace {describe_value(name)}; accepted: {', '.join(names())}"
    )


def address(original: Original, url_base: str | None = None) -> str:
    """Where a file is fetched from: its published address, or its name at a mirror."""
    if url_base is None:
        return original.url
    return f"{url_base.rstrip('/')}/{quote(original.file)}"


def fetch(
    original: Original,
    folder: Path,
    *,
    url_base: str | None = None,
    timeout_s: float = TIMEOUT_S,
    on_progress: OnProgress = lambda done, total: None,
) -> Fetched:
    """Fetch a file of a published trace into a folder; see ``download.fetch_file``.

    Args:
      original: the file.
      folder: where it goes.
      url_base: address of a mirror that has the files under their names; None: the published one.
      timeout_s: longest silence of the server (s).
      on_progress: called with the bytes that are there and those expected in all.

    Raises:
      JaxschedError: one line if it cannot be fetched or is not the expected file.
    """
    return fetch_file(
        address(original, url_base),
        folder / original.file,
        num_bytes=original.num_bytes,
        sha256=original.sha256,
        timeout_s=timeout_s,
        on_progress=on_progress,
    )


def _original(entry: dict[str, Any]) -> Original:
    file = entry.get("file") or urlsplit(entry["url"]).path.rpartition("/")[2]
    return Original(file, entry["url"], entry.get("bytes"), entry.get("sha256"))
