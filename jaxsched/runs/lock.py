"""The right to write into a run directory, which one process has at a time.

The lock is the kernel's on the folder itself (``flock``): no file is left behind, and it ends with
the process that holds it, however that ends. Where a file system knows no such locks, none is held.
"""

import errno
import fcntl
import os
import weakref
from pathlib import Path

from jaxsched.errors import JaxschedError

_LOCKS = Path("/proc/locks")


class FolderLock:
    """A lock on a folder, held from the creation to ``release`` or the end of the process.

    Args:
      path: an existing folder; its content may change, and be emptied, meanwhile.

    Raises:
      JaxschedError: another process (or another owner in this one) holds it.
    """

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return
            holder = _holder(os.fstat(descriptor))
            self._close()
            raise JaxschedError(
                f"{path}: another process{holder} works in this run directory; wait for it, stop "
                "it, or choose another output directory"
            ) from None

    def release(self) -> None:
        """Let others work in the folder; nothing where that was done before."""
        self._close()


def _holder(folder: os.stat_result) -> str:
    """The process that holds the lock, where the system tells: as ``" (12345)"``."""
    device = f"{os.major(folder.st_dev):02x}:{os.minor(folder.st_dev):02x}:{folder.st_ino}"
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        words = line.split()
        if "FLOCK" in words and device in words and "->" not in words:
            return f" ({words[words.index(device) - 1]})"
    return ""
