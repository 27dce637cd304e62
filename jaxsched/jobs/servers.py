"""The size of a cluster as people type it: ``40x8``."""

import re
from typing import NamedTuple

from jaxsched.arguments import argument
from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value

LONGEST = 30
"""Letters of a size; more are refused before they are looked at."""

_SIZE = re.compile(r"(\d+) ?[x×*] ?(\d+)", re.ASCII | re.IGNORECASE)


class Servers(NamedTuple):
    """A cluster of identical servers.

    Attributes:
      num_servers: servers.
      gpus_per_server: GPUs of each.
    """

    num_servers: int
    gpus_per_server: int

    @property
    def num_gpus(self) -> int:
        """GPUs in all."""
        return self.num_servers * self.gpus_per_server

    def __str__(self) -> str:
        """As ``read_servers`` reads it."""
        return f"{self.num_servers}x{self.gpus_per_server}"


def read_servers(text: str) -> Servers:
    """The size that a text such as ``40x8`` stands for: servers x GPUs of each.

    Args:
      text: as it was typed; blanks around the ``x`` are accepted.

    Raises:
      JaxschedError: not two whole numbers from 1 on with an ``x`` between.
    """
    match = _SIZE.fullmatch(text.strip()) if len(text) <= LONGEST else None
    sizes = [int(number) for number in match.groups()] if match else [0]
    if not match or min(sizes) < 1:
        raise JaxschedError(
            f"{argument('servers')} is {describe_value(text)}; accepted: servers x GPUs of each, "
            "such as 40x8"
        )
    return Servers(*sizes)
