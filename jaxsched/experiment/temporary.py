"""Temporary folders, removed with the last object that holds them."""

import shutil
import tempfile
import weakref
from pathlib import Path


class TemporaryFolder:
    """A folder that is removed with its last holder, at the latest when the program ends.

    Attributes:
      path: where it is.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="jaxsched-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
