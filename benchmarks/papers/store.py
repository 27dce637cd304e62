"""The folder of a reproduction: finished rows and trained policies, found again by their keys.

out/
  X1.json, X1.png         a finished row
  trained/<key>/          a run directory
  summary.json            all checks
"""

from pathlib import Path
from typing import Any

from jaxsched import files
from jaxsched.errors import JaxschedError
from jaxsched.json_values import json_value

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
        files.make_folder(path / "summary.json")

    def read_row(self, name: str, key: str) -> dict[str, Any] | None:
        """A finished row; None where there is none of this key, or the file is damaged."""
        document = read(self.path / f"{name}.json")
        same = document is not None and (document.get("format"), document.get("key"))
        return document if same == (FORMAT, key) else None

    def write_row(self, name: str, key: str, document: dict[str, Any]) -> None:
        """Keep a finished row."""
        write(self.path / f"{name}.json", {"format": FORMAT, "key": key, **document})

    def trained(self, key: str) -> Path:
        """Run directory of a training."""
        return self.path / "trained" / key


def read(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None if there is none that can be read."""
    try:
        document = files.read_json(path)
    except JaxschedError:
        return None
    return document if isinstance(document, dict) else None


def write(path: Path, document: Any) -> None:
    """Write JSON so that a reader sees the old file or the new, never a part."""
    files.write_json(path, json_value(document))
