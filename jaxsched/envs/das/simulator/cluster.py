"""The static description of DAS's cluster, and machine resources packed into one word.

What the running jobs take of a machine (GPUs, CPUs, GB, and GPUs of jobs that talk over the
network) is one word of 32 bits, a field each, so that one sum over jobs gives all four.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.errors import JaxschedError
from jaxsched.types import Array

WORD = 32
FIELDS = ("GPUs", "CPUs", "GB of memory", "network-active GPUs")
EXACT = 2**20  # below it, floors of quotients in float32 with half a unit of slack are exact
MOST_CONTENTION = 5000  # percent


class Cluster(NamedTuple):
    """Machines and contention model (specification, sections 2 and 3.2).

    Attributes:
      num_servers: M.
      gpus: GPUs of a machine.
      cpus: its CPU cores.
      mem: its memory (GB).
      bandwidth: Gbps.
      net_per_gpu: Gbps that a network-active GPU uses.
      spread_pct: slow-down per machine beyond the least number.
      spread_cap: how many of these count.
      net_pct: slow-down per network-active GPU of other jobs.
      cpu_pct: slow-down by the share of CPUs that other jobs use.
    """

    num_servers: int = 8
    gpus: int = 8
    cpus: int = 96
    mem: int = 384
    bandwidth: int = 32
    net_per_gpu: int = 4
    spread_pct: int = 4
    spread_cap: int = 8
    net_pct: int = 8
    cpu_pct: int = 16

    @property
    def capacity(self) -> tuple[int, int, int]:
        """GPUs, CPUs and GB of a machine."""
        return self.gpus, self.cpus, self.mem

    @property
    def most_contention(self) -> int:
        """Upper bound of the contention h, percent."""
        others = self.net_pct * self.gpus + self.cpu_pct
        return 100 + self.spread_pct * min(self.spread_cap, self.num_servers) + others

    @property
    def slowest(self) -> int:
        """Lower bound of a running job's speed, percent."""
        return 10000 // self.most_contention

    @property
    def shifts(self) -> tuple[int, ...]:
        """First bit of each packed field, and the end."""
        widths = [limit.bit_length() for limit in (*self.capacity, self.gpus)]
        return tuple(int(shift) for shift in np.cumsum([0, *widths]))

    def check(self) -> None:
        """Refuse clusters whose numbers do not fit.

        Raises:
          JaxschedError: a machine does not fit a word, or contention is out of range.
        """
        if self.shifts[-1] > WORD:
            raise JaxschedError(
                f"das: a machine of {self.capacity} GPUs, CPUs, GB takes {self.shifts[-1]} bits "
                f"with its network; accepted: at most {WORD}"
            )
        if self.most_contention > MOST_CONTENTION:
            raise JaxschedError(
                f"das: contention reaches {self.most_contention} percent; accepted: at most "
                f"{MOST_CONTENTION}"
            )
        if self.cpu_pct * self.cpus >= EXACT:
            raise JaxschedError(
                f"das: cpu_pct * cpus_per_server is {self.cpu_pct * self.cpus}; accepted: below "
                f"{EXACT}"
            )

    def pack(self, gpus: Any, cpus: Any, mem: Any, network: Any) -> Array:
        """Non-negative int32 amounts in one word, uint32 of their shape."""
        word = jnp.uint32(0)
        for amount, shift in zip((gpus, cpus, mem, network), self.shifts, strict=False):
            word = word | (jnp.asarray(amount).astype(jnp.uint32) << np.uint32(shift))
        return word

    def field(self, words: Array, index: int) -> Array:
        """One of ``FIELDS`` of packed words, float32."""
        start, end = self.shifts[index], self.shifts[index + 1]
        amount = (words >> np.uint32(start)) & np.uint32((1 << (end - start)) - 1)
        return amount.astype(jnp.int32).astype(jnp.float32)

    def free(self, used: Array) -> tuple[Array, Array, Array]:
        """Free GPUs, CPUs and GB, each float32 ``[M]``, where ``used`` (uint32 ``[M]``) is used."""
        gpus, cpus, mem = (
            limit - self.field(used, index) for index, limit in enumerate(self.capacity)
        )
        return gpus, cpus, mem
