"""A headless Chromium that opens a page as a reader would."""

import shutil
import struct
import subprocess
import zlib

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found, so the page is not opened"),
]


def chromium(profile, page, *options):
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode()


def distinct_rows(png):
    """Width, height and number of distinct (still filtered) pixel rows of a PNG."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, header = 8, b"", b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        header, data = (body if kind == b"IHDR" else header), data + body * (kind == b"IDAT")
        at += 12 + length
    width, height = struct.unpack(">II", header[:8])
    raw = zlib.decompress(data)
    stride = len(raw) // height
    return width, height, len({raw[i * stride : (i + 1) * stride] for i in range(height)})
