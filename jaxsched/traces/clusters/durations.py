"""Run times by their distribution function: percentages at knots, log-linear in between.

Published figures give the share of jobs that run at most so long; knots of a cumulative
distribution keep several modes and a heavy tail that no closed form follows. Axis: ``K`` knots.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError

Floats = npt.NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class DurationCurve:
    """A distribution of run times.

    Between two knots a run time is ``low * (high / low) ** (u ** skew)`` with ``u`` uniform in
    [0, 1): log-uniform for a skew of 1, nearer to the lower knot above.

    Attributes:
      knots_s: ascending run times (s) ``[K]``, all above 0.
      percent: of the jobs that run at most that long ``[K]``, from 0 to 100.
      skew: where run times lie between knots; above 0. It sets the mean, since the percentages
        alone leave it open.
      skew_from_s: the skew counts between knots from here on (s), it is 1 below: the mean hangs
        on the long run times, the median should not move with it.
    """

    knots_s: tuple[float, ...]
    percent: tuple[float, ...]
    skew: float = 1.0
    skew_from_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is not a distribution function."""
        rising = all(a < b for a, b in zip(self.knots_s, self.knots_s[1:], strict=False))
        if len(self.knots_s) < 2 or self.knots_s[0] <= 0 or not rising:
            raise JaxschedError(
                f"knots_s is {self.knots_s}; accepted: two or more ascending numbers above 0"
            )
        climbs = all(a <= b for a, b in zip(self.percent, self.percent[1:], strict=False))
        ends = self.percent and (self.percent[0], self.percent[-1]) == (0, 100)
        if len(self.percent) != len(self.knots_s) or not climbs or not ends:
            raise JaxschedError(
                f"percent is {self.percent}; accepted: one number per knot, from 0 up to 100"
            )
        if not 0 < self.skew < float("inf"):
            raise JaxschedError(f"skew is {self.skew}; accepted: a number above 0")

    def quantiles(self, uniforms: Floats) -> Floats:
        """Run times (s, not rounded) of uniform numbers in [0, 1), of any shape."""
        edges = np.asarray(self.percent) / 100
        logs = np.log(self.knots_s)
        last = int(np.flatnonzero(np.diff(edges))[-1])
        bins = np.minimum(np.searchsorted(edges, uniforms, side="right") - 1, last)
        within = (uniforms - edges[bins]) / (edges[bins + 1] - edges[bins])
        part = np.clip(within, 0.0, 1.0) ** self._skews()[bins]
        times: Floats = np.exp(logs[bins] + part * (logs[bins + 1] - logs[bins]))
        return times

    def mean_s(self) -> float:
        """Mean run time (s)."""
        return float(np.diff(self.percent) @ self.bin_means_s() / 100)

    def bin_means_s(self) -> Floats:
        """Mean run time (s) between neighbouring knots ``[K - 1]``, by Gauss quadrature."""
        knots = np.asarray(self.knots_s)
        parts = ((_NODES + 1) / 2) ** self._skews()[:, None]
        ratios = (knots[1:] / knots[:-1])[:, None] ** parts
        means: Floats = knots[:-1] * (ratios @ _WEIGHTS) / 2
        return means

    def _skews(self) -> Floats:
        """The skew between neighbouring knots ``[K - 1]``."""
        return np.where(np.asarray(self.knots_s[:-1]) >= self.skew_from_s, self.skew, 1.0)
