"""Measured speeds and progress of elastic jobs, as Pollux publishes them (Qiao et al., OSDI'21).

A folder ``traces`` of Pollux' simulator (github.com/petuum/adaptdl, branch ``osdi21-artifact``) has
one folder for each application: ``placements.csv`` and ``scalability.csv`` with times of a step by
GPUs on each node and batch size of a GPU, ``validation-B.csv`` with what an epoch at a batch size
of ``B`` is: its progress and the gradient's square and variance. They are read from there; none
come with the library.

**Progress** is in steps at the smallest batch size ``m0``. A step at a batch size of ``m`` makes
``(v + s) / (v m0 / m + s)`` of them, with ``s`` and ``v`` the square and the variance of the
gradient (Pollux, equations 4 and 5: the gradient noise scale is ``m0 v / s``).

**Steps.** The batch of a GPU is made in ``a + 1`` parts (gradient accumulation), of which all but
the last have no synchronisation. Times are interpolated between batch sizes that were measured for
the GPUs on each node, in their order up to rotation; on placements that were not, between nodes,
GPUs and batch sizes. Nothing is extrapolated.
"""

import csv
import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Placement = tuple[int, ...]
"""GPUs on each node, in the order in which they were given."""

NODE = 4  # GPUs of each node
MOST_NODES = 16  # that were measured; more count as these
MOST_ROWS = 2**16
LARGEST_PART = {"yolov3": 8}
"""Largest batch of a GPU in one part, where it is not the largest that was measured."""
ONE_GPU = {"ncf": 32768}
"""Applications that were measured on one GPU at their usual batch size, which is given."""
CANDIDATES = 50  # batch sizes that are compared, as in Pollux
_SLACK = 1e-8
_STEP = ("step_time", "sync_time")
_MAY_BE_ZERO = ("grad_sqr", "grad_var", "sync_time")


class Batch(NamedTuple):
    """How a batch is made.

    Attributes:
      part: samples of a GPU at once.
      more: further such parts of a step, without synchronisation.
    """

    part: int
    more: int


@dataclass(frozen=True, eq=False)
class Application:
    """What was measured of one application.

    Attributes:
      name: of its folder.
      batch_sizes: int64 ``[B]``, samples, increasing; the first is ``m0``.
      square: float64 ``[B, E]``, of the gradient in each epoch.
      variance: likewise, at ``m0``.
      done: float64 ``[E]``, progress with which each epoch ends.
      parts: smallest and largest batch of a GPU in one part.
      placed: placement (up to rotation) -> batch sizes ``[K]``, and step and synchronisation
        times ``[K, 2]``, seconds.
      spread: nodes, GPUs, batch size and the two times of all measurements, ``[N, 5]``.
    """

    name: str
    batch_sizes: Integers
    square: Floats
    variance: Floats
    done: Floats
    parts: tuple[int, int]
    placed: dict[Placement, tuple[Floats, Floats]]
    spread: Floats
    _times: dict[tuple[Placement, int], tuple[float, float]] = field(default_factory=dict)

    @property
    def most_gpus(self) -> int:
        """GPUs among which the largest batch can be split."""
        return 1 if self.name in ONE_GPU else int(self.batch_sizes[-1]) // self.parts[0]

    def step_times(self, placement: Placement, part: int) -> tuple[float, float]:
        """Seconds of a step of one part, and of the synchronisation in it.

        Raises:
          JaxschedError: outside of what was measured.
        """
        key = min(placement[k:] + placement[:k] for k in range(len(placement)))
        found = self._times.get((key, part))
        if found is None:
            found = self._interpolated(key, part)
            self._times[key, part] = found
        return found

    def _interpolated(self, placement: Placement, part: int) -> tuple[float, float]:
        times = np.full(2, np.nan)
        if placement in self.placed:
            sizes, measured = self.placed[placement]
            if sizes[0] <= part <= sizes[-1]:
                times = np.array([np.interp(part, sizes, column) for column in measured.T])
        else:
            nodes = min(len(placement), MOST_NODES)
            times = self._between([nodes, sum(placement), part])[0]
        if np.isnan(times).any():
            raise JaxschedError(
                f"{self.name}: {part} samples on {'+'.join(map(str, placement))} GPUs were not "
                "measured; accepted: what lies between measurements"
            )
        return float(times[0]), float(times[1])

    @cached_property
    def _between(self) -> Any:
        from scipy.interpolate import LinearNDInterpolator

        return LinearNDInterpolator(self.spread[:, :3], self.spread[:, 3:])

    def split(self, batch_size: int, num_gpus: int) -> Batch:
        """How a batch is made on so many GPUs, in as few parts as fit.

        On one GPU a batch above ``m0`` is made in two parts at least, without which the noise of
        the gradient cannot be told.
        """
        own = math.ceil(batch_size / num_gpus - _SLACK)
        more = math.ceil(own / self.parts[1] - _SLACK) - 1
        if num_gpus == 1 and batch_size > self.batch_sizes[0]:
            more = max(1, more)
        part = math.ceil(own / (more + 1) - _SLACK)
        return Batch(min(part, int(self.batch_sizes[-1]) // (num_gpus * (more + 1))), more)

    def rate(self, placement: Placement, batch: Batch, epoch: int) -> float:
        """Progress per second."""
        step, sync = self.step_times(placement, batch.part)
        size = sum(placement) * batch.part * (batch.more + 1)
        return self.gain(size, epoch) / (step + (step - sync) * batch.more)

    def gain(self, batch_size: int, epoch: int) -> float:
        """Progress of a step at a batch size; noise is interpolated between measured ones.

        Raises:
          JaxschedError: a batch size below ``m0`` or above the largest.
        """
        if not self.batch_sizes[0] <= batch_size <= self.batch_sizes[-1]:
            raise JaxschedError(
                f"{self.name}: a batch of {batch_size}; accepted: {self.batch_sizes[0]} to "
                f"{self.batch_sizes[-1]}"
            )
        return float(self._gains(np.array([batch_size]), epoch)[0])

    def _gains(self, batch_sizes: Integers, epoch: int) -> Floats:
        square = np.interp(batch_sizes, self.batch_sizes, self.square[:, epoch])
        variance = np.interp(batch_sizes, self.batch_sizes, self.variance[:, epoch])
        left = variance * self.batch_sizes[0] / batch_sizes + square
        return np.where(left > 0, (variance + square) / np.where(left > 0, left, 1), 1.0)

    def best(self, num_gpus: int, epoch: int) -> tuple[Batch, float]:
        """The batch of the largest progress per second on the fewest nodes of 4, and that rate."""
        return self._best[num_gpus][epoch]

    def seconds_left(self, num_gpus: int, epoch: int, progress: float) -> float:
        """Seconds to the end at ``best`` from a progress within an epoch on."""
        rate = self.best(num_gpus, epoch)[1]
        return (float(self.done[epoch]) - progress) / rate + self._after[num_gpus][epoch]

    @cached_property
    def _after(self) -> dict[int, list[float]]:
        """Seconds from the end of each epoch to that of the last, by GPUs."""
        each = np.diff(self.done)
        found = {}
        for gpus, chosen in self._best.items():
            seconds = each / np.array([rate for _, rate in chosen[1:]])
            found[gpus] = [*np.cumsum(seconds[::-1])[::-1].tolist(), 0.0]
        return found

    @cached_property
    def _best(self) -> dict[int, list[tuple[Batch, float]]]:
        found = {}
        for gpus in range(1, min(self.most_gpus, NODE * MOST_NODES) + 1):
            placement = fewest_nodes(gpus)
            batches = self._candidates(gpus)
            times = np.array([self.step_times(placement, batch.part) for batch in batches])
            more = np.array([batch.more for batch in batches])
            seconds = times[:, 0] + (times[:, 0] - times[:, 1]) * more
            sizes = np.array([gpus * batch.part * (batch.more + 1) for batch in batches])
            rates = [self._gains(sizes, epoch) / seconds for epoch in range(len(self.done))]
            chosen = np.argmax(rates, axis=1).tolist()
            found[gpus] = [
                (batches[k], float(each[k])) for k, each in zip(chosen, rates, strict=True)
            ]
        return found

    def _candidates(self, gpus: int) -> list[Batch]:
        """Different ways to make batches, from the smallest to the largest."""
        if self.name in ONE_GPU:
            return [self.split(ONE_GPU[self.name], gpus)]
        least = max(int(self.batch_sizes[0]), self.parts[0] * gpus)
        sizes = np.geomspace(least, int(self.batch_sizes[-1]), CANDIDATES)
        batches = dict.fromkeys(self.split(max(int(size), least), gpus) for size in sizes)
        return [
            batch
            for batch in batches
            if self.parts[0] <= batch.part <= self.parts[1]
            and gpus * batch.part * (batch.more + 1) >= self.batch_sizes[0]
        ]


def fewest_nodes(num_gpus: int) -> Placement:
    """Full nodes of 4, and what is left on one more."""
    whole, rest = divmod(num_gpus, NODE)
    return (NODE,) * whole + ((rest,) if rest else ())


def read_applications(folder: PathLike) -> dict[str, Application]:
    """Every application of a folder ``traces``.

    Raises:
      JaxschedError: no such files, or one line with what is wrong in which file.
    """
    found = sorted(Path(folder).glob("*/placements.csv"))
    if not found:
        raise JaxschedError(
            f"{folder}: has no applications; accepted: the folder traces of Pollux' simulator"
        )
    return {file.parent.name: _application(file.parent) for file in found}


def _application(folder: Path) -> Application:
    runs = {
        _batch_size(file): _columns(file, ("progress", "grad_sqr", "grad_var"))
        for file in folder.glob("validation-*.csv")
    }
    if not runs:
        raise JaxschedError(f"{folder}: has no validation-B.csv of any batch size B")
    epochs = min(map(len, runs.values()))
    sizes = sorted(runs)
    by_size = np.stack([runs[size][:epochs] for size in sizes])
    placements = _columns(folder / "placements.csv", ("placement", "local_bsz", *_STEP))
    nodes = [tuple(map(int, str(int(code)))) for code in placements[:, 0]]
    placed = {}
    for each in set(nodes):
        rows = placements[[k for k, other in enumerate(nodes) if other == each]]
        rows = rows[np.argsort(rows[:, 1])]
        placed[each] = (rows[:, 1], rows[:, 2:])
    three = np.array([[len(each), sum(each)] for each in nodes], float)
    at = np.concatenate([three, placements[:, 1:2]], axis=1)
    keys, index = np.unique(at, axis=0, return_inverse=True)
    count = np.bincount(index.reshape(-1))[:, None]
    sums = np.zeros((len(keys), 2))
    np.add.at(sums, index.reshape(-1), placements[:, 2:])
    further = _columns(
        folder / "scalability.csv", ("num_nodes", "num_replicas", "local_bsz", *_STEP)
    )
    own = placements[:, 1]
    return Application(
        folder.name,
        np.array(sizes),
        by_size[:, :, 1],
        by_size[:, :, 2],
        by_size[:, :, 0].min(axis=0),
        (int(own.min()), LARGEST_PART.get(folder.name, int(own.max()))),
        placed,
        np.concatenate([np.concatenate([keys, sums / count], axis=1), further]),
    )


def _batch_size(file: Path) -> int:
    digits = file.stem.partition("-")[2]
    if not (digits.isascii() and digits.isdecimal() and 0 < len(digits) < 10 and int(digits)):
        raise JaxschedError(f"{file}: is no run at a batch size; accepted: validation-128.csv")
    return int(digits)


def rows_of(file: PathLike, most: int) -> list[dict[str, Any]]:
    """The rows of a table with a header.

    Raises:
      JaxschedError: the file cannot be read, has no rows, or more than so many.
    """
    try:
        with open(file, encoding="utf-8-sig", newline="") as lines:
            rows = list(islice(csv.DictReader(lines), most + 1))
    except (OSError, ValueError, csv.Error) as error:
        raise JaxschedError(f"{file}: cannot be read ({error})") from None
    if not 0 < len(rows) <= most:
        raise JaxschedError(f"{file}: {len(rows)} rows; accepted: 1 to {most}")
    return rows


def _columns(file: Path, names: tuple[str, ...]) -> Floats:
    """Columns of a table of numbers, float64 ``[rows, columns]``."""
    rows = rows_of(file, MOST_ROWS)
    found = np.zeros((len(rows), len(names)))
    for number, row in enumerate(rows):
        for column, name in enumerate(names):
            try:
                value = float(row[name])
            except (KeyError, TypeError, ValueError):
                value = math.nan
            if not 0 <= value < 1e30 or (value == 0 and name not in _MAY_BE_ZERO):
                raise JaxschedError(
                    f"{file}, row {number + 1}: {name} is {describe_value(row.get(name))}; "
                    f"accepted: a number {'from 0 on' if name in _MAY_BE_ZERO else 'above 0'}"
                )
            found[number, column] = value
    return found
