"""The folder of a reproduction: finished rows and trained policies, found again by their keys.

out/
  X1.json, X1.png         a finished row
  trained/<key>/          a run directory; trained.json in it once training has ended
  summary.json            all checks
"""

import json
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.files import write_whole
from jaxsched.json_values import to_plain

FORMAT = "jaxsched-paper-row/1"


class Store:
    """Results on disk; files appear whole or not at all.

    Args:
      path: the folder, made if it is not there.

    Raises:
      JaxschedError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JaxschedError(f"{path}: cannot be written: {error.strerror or error}") from error

    def read_row(self, name: str, key: str) -> dict[str, Any] | None:
        """A finished row; None where there is none of this key, or the file is damaged."""
        document = read(self.path / f"{name}.json")
        if document is None or document.get("format") != FORMAT or document.get("key") != key:
            return None
        return document

    def write_row(self, name: str, key: str, document: dict[str, Any]) -> Path:
        """Keep a finished row."""
        path = self.path / f"{name}.json"
        write(path, {"format": FORMAT, "key": key, **document})
        return path

    def trained(self, key: str) -> Path:
        """Run directory of a training."""
        return self.path / "trained" / key


def read(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None if there is none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def write(path: Path, document: Any) -> None:
    """Write JSON so that a reader sees the old file or the new, never a part."""
    text = json.dumps(to_plain(document), indent=1, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
