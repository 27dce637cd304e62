"""The size of a cluster as people type it: ``40x8``, or ``16x2,20x8`` where servers differ.

``4x8@v100,8x8@k80`` is one whose servers have GPUs of different types, ``40x8/96/512`` one with
96 CPUs and 512 GB of memory in each server, ``40x8x7`` one with 7 slots on each GPU.
"""

import re
from typing import NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value

LONGEST = 200
"""Letters of a size; more are refused before they are looked at."""

GPU_TYPE = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
"""Names of types of GPUs."""

_SIZE = re.compile(
    r"(\d+) ?[x×*] ?(\d+)(?: ?[x×*] ?(\d+))?(?: ?: ?(\d+))?(?: ?/ ?(\d+)(?: ?/ ?(\d+))?)?"
    rf"(?: ?@ ?({GPU_TYPE.pattern}))?",
    re.ASCII | re.IGNORECASE,
)
LIMITS = ("cpus", "memory_gb")
"""What servers can have a limit of beside GPUs; columns of job tables."""
MOST_OF_A_SERVER = 2**20
"""CPUs, or GB of memory."""

_ALIKE = "servers x GPUs of each, such as 40x8"
_MIXED = (
    f"{_ALIKE}, or several with commas between, such as 16x2,20x8 (16x2:4: for jobs of at most "
    "4 GPUs; 16x2@k80: GPUs of a type; 16x2/32/128: CPUs and GB)"
)
_SHARED = f"{_MIXED[:-1]}; 16x2x7: slots of a GPU)"


class Kind(NamedTuple):
    """Servers of one size and type in a cluster whose servers differ; a job runs on those of one.

    Attributes:
      num_servers: servers.
      gpus_per_server: GPUs of each.
      largest_job: GPUs of the largest job that may run on them.
      gpu_type: name of the type of their GPUs; empty where all are alike.
      cpus: CPUs of each; 0: as many as jobs want.
      memory_gb: GB of memory of each; 0: as much as jobs want.
    """

    num_servers: int
    gpus_per_server: int
    largest_job: int
    gpu_type: str = ""
    cpus: int = 0
    memory_gb: int = 0

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        return self.num_servers * self.gpus_per_server

    @property
    def most_for_a_job(self) -> int:
        """GPUs that one job can have here."""
        return min(self.largest_job, self.num_gpus)


class Servers(NamedTuple):
    """The servers of a cluster.

    Attributes:
      num_servers: servers.
      gpus_per_server: GPUs of each; where they differ, of the largest.
      kinds: servers by their size and type, in the order in which they are filled; none where all
        are alike and take jobs of any size.
      slots: parts into which every GPU can be shared; 1: jobs have whole GPUs.
    """

    num_servers: int
    gpus_per_server: int
    kinds: tuple[Kind, ...] = ()
    slots: int = 1

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

    @property
    def has_types(self) -> bool:
        """Whether GPUs have types."""
        return any(kind.gpu_type for kind in self.kinds)

    @property
    def demands(self) -> tuple[str, ...]:
        """What some servers have a limit of, of ``LIMITS``."""
        return tuple(name for name in LIMITS if any(getattr(kind, name) for kind in self.kinds))

    def __str__(self) -> str:
        """As ``read_servers`` reads it."""
        slots = f"x{self.slots}" if self.slots > 1 else ""
        if not self.kinds:
            return f"{self.num_servers}x{self.gpus_per_server}{slots}"
        usual = [_usual_limit(kind, self.gpus_per_server) for kind in self.kinds]
        return ",".join(
            f"{kind.num_servers}x{kind.gpus_per_server}{slots}"
            + ("" if kind.largest_job == limit else f":{kind.largest_job}")
            + (f"/{kind.cpus}" if kind.cpus or kind.memory_gb else "")
            + (f"/{kind.memory_gb}" if kind.memory_gb else "")
            + (f"@{kind.gpu_type}" if kind.gpu_type else "")
            for kind, limit in zip(self.kinds, usual, strict=True)
        )


def read_servers(text: str, *, mixed: bool = False, shared: bool = False) -> Servers:
    """The size that a text such as ``40x8`` stands for: servers x GPUs of each.

    ``16x2,20x8`` stands for servers of different sizes, ``16x2:4`` for servers on which jobs of at
    most 4 GPUs run. Without such a number jobs run on servers that hold them alone, larger jobs on
    several of the largest servers. ``4x8@v100,8x8@k80`` stands for GPUs of two types, ``40x8/96``
    for 96 CPUs in each server, ``40x8/96/512`` for 512 GB of memory besides (0: no limit),
    ``40x8x7`` for 7 slots on each GPU.

    Args:
      text: as it was typed; blanks around ``x``, ``,``, ``:``, ``/`` and ``@`` are accepted.
      mixed: servers may differ.
      shared: GPUs may have slots.

    Raises:
      JaxschedError: not two whole numbers from 1 on with an ``x`` between; servers that differ
        where they may not; a size of a type twice, a limit below 1 or above what the servers have,
        types of some GPUs only, or slots where GPUs have none or not as many on each.
    """
    parts = text.split(",") if len(text) <= LONGEST else []
    matches = [_SIZE.fullmatch(part.strip()) for part in parts]
    found = [_Part.of(match) for match in matches if match]
    alike = len(found) == 1 and found[0] == _Part(found[0].servers, found[0].gpus, found[0].slots)
    wrong = not found or len(found) < len(matches)
    wrong = wrong or min(min(part.servers, part.gpus, part.slots) for part in found) < 1
    if wrong or not (mixed or alike):
        accepted = _SHARED if shared else _MIXED if mixed else _ALIKE
        raise _refused(text, f"accepted: {accepted}", "; ")
    slots = found[0].slots
    if slots > 1 and not shared:
        why = "with slots of GPUs, which count for nothing here"
        raise _refused(text, f"{why}; accepted: {_MIXED if mixed else _ALIKE}")
    if any(part.slots != slots for part in found):
        raise _refused(text, "with GPUs of different slots; accepted: the same for all")
    if alike:
        return Servers(found[0].servers, found[0].gpus, slots=slots)
    if len({part._replace(servers=0, limit=None) for part in found}) < len(found):
        which = "size and type" if any(part.gpu_type for part in found) else "size"
        why = f"with servers of the same {which} twice; accepted: every {which} once"
        raise _refused(text, why)
    if len({bool(part.gpu_type) for part in found}) > 1:
        why = "with a type for some GPUs only; accepted: one for all or for none"
        raise _refused(text, why)
    if max(max(part.cpus, part.memory_gb) for part in found) > MOST_OF_A_SERVER:
        raise _refused(text, f"accepted: up to {MOST_OF_A_SERVER} CPUs and GB", "; ")
    largest = max(part.gpus for part in found)
    kinds = []
    for part in found:
        kind = Kind(part.servers, part.gpus, part.limit or 0, *part[4:])
        if part.limit is None:
            kind = kind._replace(largest_job=_usual_limit(kind, largest))
        elif not 1 <= part.limit <= kind.num_gpus:
            raise _refused(
                text,
                f"jobs of at most {part.limit} GPUs on {part.servers} servers of {part.gpus}; "
                f"accepted: from 1 to {kind.num_gpus}",
                ": ",
            )
        kinds.append(kind)
    return Servers(sum(part.servers for part in found), largest, tuple(kinds), slots)


class _Part(NamedTuple):
    """Servers of one kind as they were typed."""

    servers: int
    gpus: int
    slots: int = 1
    limit: int | None = None
    gpu_type: str = ""
    cpus: int = 0
    memory_gb: int = 0

    @classmethod
    def of(cls, match: re.Match[str]) -> "_Part":
        servers, gpus, slots, limit, cpus, memory, gpu_type = match.groups()
        told = None if limit is None else int(limit)
        further = (gpu_type or "").lower(), int(cpus or 0), int(memory or 0)
        return cls(int(servers), int(gpus), int(slots or 1), told, *further)


def _refused(text: str, why: str, sign: str = ", ") -> JaxschedError:
    return JaxschedError(f"{argument('servers')} is {describe_value(text)}{sign}{why}")


def _usual_limit(kind: Kind, largest: int) -> int:
    """GPUs of the largest job on servers for which none was told."""
    return kind.num_gpus if kind.gpus_per_server == largest else kind.gpus_per_server
