"""Compress large result files: ``NAME.json`` becomes ``NAME.json.xz``.

    python -m benchmarks.pack [FILE ...]

Without files: every file of ``benchmarks/results`` above ``LARGE`` bytes. Floats of single
precision are written with as many digits as tell them apart, others with eight; whole numbers and
texts stay as they are. Every command that reads ``NAME.json`` also finds ``NAME.json.xz``;
``xz -dc FILE`` prints one.
"""

import argparse
import json
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scripts import exit_status, packed_path, read_json
from jaxsched.files import write_whole

RESULTS = Path(__file__).parent / "results"
LARGE = 10_000
"""Bytes above which a result file is compressed."""
DIGITS = 8
"""Significant digits of floats that are not of single precision."""


def main() -> None:
    """Compress files and print what that saves."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    for path in options.files or large_files(RESULTS):
        before = path.stat().st_size
        packed = pack(path)
        print(f"{packed}: {packed.stat().st_size:,} bytes of {before:,}")


def large_files(folder: Path) -> list[Path]:
    """The uncompressed result files of a folder that should be compressed."""
    return sorted(path for path in folder.glob("*.json") if path.stat().st_size > LARGE)


def pack(path: Path) -> Path:
    """Compress one file and remove the original.

    Returns:
      The compressed file's path.

    Raises:
      JaxschedError: the file cannot be read, or the other not written.
    """
    text = json.dumps(rounded(read_json(path)), separators=(",", ":"), allow_nan=False)
    packed = packed_path(path)
    write_whole(packed, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    path.unlink()
    return packed


def rounded(document: Any) -> Any:
    """A JSON document whose floats have no digits without meaning."""
    if isinstance(document, float):
        single = np.float32(document)
        text = str(single) if float(single) == document else f"{document:.{DIGITS}g}"
        value = float(text)
        return int(value) if value.is_integer() else value
    if isinstance(document, dict):
        return {name: rounded(value) for name, value in document.items()}
    if isinstance(document, list):
        return [rounded(value) for value in document]
    return document


if __name__ == "__main__":
    sys.exit(exit_status(main))
