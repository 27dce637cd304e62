"""What the readers of published formats have in common."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jaxsched.jobs import Integers


@dataclass(frozen=True, eq=False)
class RawTrace:
    """The columns of a published trace, row by row as in the file, not yet a job table.

    Attributes:
      name: the file's name without endings.
      source: the format's name.
      submit_s: float64 ``[n]``, submission (s) from an origin of the format's own.
      num_gpus: int64 ``[n]``; 0 where the file gives none.
      duration_s: float64 ``[n]``, run time (s); NaN where the file gives none.
      group: str ``[n]``, the virtual cluster of each job; None if the format has none.
    """

    name: str
    source: str
    submit_s: npt.NDArray[np.float64]
    num_gpus: Integers
    duration_s: npt.NDArray[np.float64]
    group: npt.NDArray[np.str_] | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.submit_s)
