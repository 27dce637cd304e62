"""The size of a cluster as people type it: ``40x8``, or ``16x2,20x8`` where servers differ."""

import re
from typing import NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value

LONGEST = 200
"""Letters of a size; more are refused before they are looked at."""

_SIZE = re.compile(r"(\d+) ?[x×*] ?(\d+)(?: ?: ?(\d+))?", re.ASCII | re.IGNORECASE)
_ALIKE = "servers x GPUs of each, such as 40x8"
_MIXED = (
    f"{_ALIKE}, or several with commas between, such as 16x2,20x8 (16x2:4: for jobs of at most "
    "4 GPUs)"
)


class Kind(NamedTuple):
    """Servers of one size in a cluster whose servers differ; a job runs on servers of one kind.

    Attributes:
      num_servers: servers.
      gpus_per_server: GPUs of each.
      largest_job: GPUs of the largest job that may run on them.
    """

    num_servers: int
    gpus_per_server: int
    largest_job: int

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        return self.num_servers * self.gpus_per_server


class Servers(NamedTuple):
    """The servers of a cluster.

    Attributes:
      num_servers: servers.
      gpus_per_server: GPUs of each; where they differ, of the largest.
      kinds: servers by their size, in the order in which they are filled; none where all are alike
        and take jobs of any size.
    """

    num_servers: int
    gpus_per_server: int
    kinds: tuple[Kind, ...] = ()

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        if self.kinds:
            return sum(kind.num_gpus for kind in self.kinds)
        return self.num_servers * self.gpus_per_server

    @property
    def has_limits(self) -> bool:
        """Whether it was told which jobs run on servers of some kind."""
        usual = (_usual_limit(kind, self.gpus_per_server) for kind in self.kinds)
        return any(k.largest_job != limit for k, limit in zip(self.kinds, usual, strict=True))

    def __str__(self) -> str:
        """As ``read_servers`` reads it."""
        if not self.kinds:
            return f"{self.num_servers}x{self.gpus_per_server}"
        usual = [_usual_limit(kind, self.gpus_per_server) for kind in self.kinds]
        return ",".join(
            f"{kind.num_servers}x{kind.gpus_per_server}"
            + ("" if kind.largest_job == limit else f":{kind.largest_job}")
            for kind, limit in zip(self.kinds, usual, strict=True)
        )


def read_servers(text: str, *, mixed: bool = False) -> Servers:
    """The size that a text such as ``40x8`` stands for: servers x GPUs of each.

    ``16x2,20x8`` stands for servers of different sizes, ``16x2:4`` for servers on which jobs of at
    most 4 GPUs run. Without such a number jobs run on servers that hold them alone, larger jobs on
    several of the largest servers.

    Args:
      text: as it was typed; blanks around ``x``, ``,`` and ``:`` are accepted.
      mixed: servers may differ.

    Raises:
      JaxschedError: not two whole numbers from 1 on with an ``x`` between; servers that differ
        where they may not; a size twice, or a limit below 1 or above what the servers have.
    """
    parts = text.split(",") if len(text) <= LONGEST else []
    matches = [_SIZE.fullmatch(part.strip()) for part in parts]
    sizes = [tuple(int(n or 0) for n in match.groups()) for match in matches if match]
    wrong = not sizes or len(sizes) < len(matches) or min(min(size[:2]) for size in sizes) < 1
    if wrong or (not mixed and (len(sizes) > 1 or matches[0][3] is not None)):  # type: ignore[index]
        raise JaxschedError(
            f"{argument('servers')} is {describe_value(text)}; accepted: "
            f"{_MIXED if mixed else _ALIKE}"
        )
    if len(sizes) == 1 and matches[0][3] is None:  # type: ignore[index]
        return Servers(sizes[0][0], sizes[0][1])
    largest = max(size[1] for size in sizes)
    if len({size[1] for size in sizes}) < len(sizes):
        raise JaxschedError(
            f"{argument('servers')} is {describe_value(text)}, with servers of the same size "
            "twice; accepted: every size once"
        )
    kinds = []
    for (count, gpus, limit), match in zip(sizes, matches, strict=True):
        kind = Kind(count, gpus, limit)
        if match[3] is None:  # type: ignore[index]
            kind = kind._replace(largest_job=_usual_limit(kind, largest))
        elif not 1 <= limit <= kind.num_gpus:
            raise JaxschedError(
                f"{argument('servers')} is {describe_value(text)}: jobs of at most {limit} GPUs on "
                f"{count} servers of {gpus}; accepted: from 1 to {kind.num_gpus}"
            )
        kinds.append(kind)
    return Servers(sum(size[0] for size in sizes), largest, tuple(kinds))


def _usual_limit(kind: Kind, largest: int) -> int:
    """GPUs of the largest job on servers for which none was told."""
    return kind.num_gpus if kind.gpus_per_server == largest else kind.gpus_per_server
