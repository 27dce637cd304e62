"""Machines of DAS and the jobs that run on them: contention, speeds, finishes.

What the running jobs take of a machine (GPUs, CPUs, GB, and GPUs of jobs that talk over the
network) is one word of 32 bits, a field each, so that one sum over jobs gives all four.

The running table has one row for every job that can run at once (specification, sections 3.2 and
3.3). Remaining work and finish times change only when speeds do, so they are kept as of the last
change. Rows are the last axis: compilers vectorise over them and take the machines in turn. A table
of all running jobs on all machines grows with the square of the cluster; where there are many
machines, who holds what is listed by machine (``Entries``): an instance takes at least one GPU, so
a machine has no more jobs than GPUs.

Axes: ``M`` machines, ``E`` entries of a machine, ``R`` rows of the running table, ``P`` places of a
decision's order.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.envs.das.rules import (
    CPUS,
    DURATION,
    GPUS,
    LEAST_MACHINES,
    MEM,
    NEVER,
    NUM_GPUS,
    SUBMIT,
)
from jaxsched.errors import JaxschedError
from jaxsched.ops import bit_sets as bits
from jaxsched.ops.batching import apply_if
from jaxsched.options import Bounds
from jaxsched.types import NO_JOB, Array

WORD = 32
FIELDS = ("GPUs", "CPUs", "GB of memory", "network-active GPUs")
EXACT = 2**20  # below it, floors of quotients in float32 with half a unit of slack are exact
MOST_CONTENTION = 5000  # percent


@dataclass(frozen=True)
class Cluster:
    """Machines and contention model (specification, sections 2 and 3.2).

    Attributes:
      num_servers: M, machines.
      gpus_per_server: of each machine.
      cpus_per_server: of each machine.
      mem_per_server: GB of each machine.
      bandwidth_per_server: Gbps of each machine.
      net_per_gpu: Gbps of a network-active GPU.
      spread_pct: slow-down (percent) per machine beyond the least number.
      spread_cap: how many of these count.
      net_pct: slow-down (percent) per network-active GPU of other jobs on the machine.
      cpu_pct: slow-down (percent) where other jobs use all CPUs of the machine.
    """

    num_servers: Annotated[int, Bounds(1, 1024)] = 8
    gpus_per_server: Annotated[int, Bounds(1, 127)] = 8
    cpus_per_server: Annotated[int, Bounds(1, 2**12)] = 96
    mem_per_server: Annotated[int, Bounds(1, 2**14)] = 384
    bandwidth_per_server: Annotated[int, Bounds(1, 2**14)] = 32
    net_per_gpu: Annotated[int, Bounds(0, 2**14)] = 4
    spread_pct: Annotated[int, Bounds(0, 100)] = 4
    spread_cap: Annotated[int, Bounds(0, 1024)] = 8
    net_pct: Annotated[int, Bounds(0, 100)] = 8
    cpu_pct: Annotated[int, Bounds(0, 1000)] = 16

    @property
    def capacity(self) -> tuple[int, int, int]:
        """GPUs, CPUs and GB of a machine."""
        return self.gpus_per_server, self.cpus_per_server, self.mem_per_server

    @property
    def most_contention(self) -> int:
        """Upper bound of the contention h, percent."""
        others = self.net_pct * self.gpus_per_server + self.cpu_pct
        return 100 + self.spread_pct * min(self.spread_cap, self.num_servers) + others

    @property
    def slowest(self) -> int:
        """Lower bound of a running job's speed, percent."""
        return 10000 // self.most_contention

    @property
    def shifts(self) -> tuple[int, ...]:
        """First bit of each packed field, and the end."""
        widths = [limit.bit_length() for limit in (*self.capacity, self.gpus_per_server)]
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
        if (product := self.cpu_pct * self.cpus_per_server) >= EXACT:
            raise JaxschedError(
                f"das: cpu_pct * cpus_per_server is {product}; accepted: below {EXACT}"
            )

    def pack(self, gpus: Any, cpus: Any, mem: Any, network: Any) -> Array:
        """Non-negative int32 amounts in one word, uint32 of their shape."""
        word = jnp.uint32(0)
        for amount, shift in zip((gpus, cpus, mem, network), self.shifts, strict=False):
            word = word | (jnp.asarray(amount).astype(jnp.uint32) << np.uint32(shift))
        return word

    def amount(self, words: Array, index: int) -> Array:
        """One of ``FIELDS`` of packed words, float32."""
        start, end = self.shifts[index], self.shifts[index + 1]
        amount = (words >> np.uint32(start)) & np.uint32((1 << (end - start)) - 1)
        return amount.astype(jnp.int32).astype(jnp.float32)

    def free(self, used: Array) -> tuple[Array, Array, Array]:
        """Free GPUs, CPUs and GB, each float32 ``[M]``, where ``used`` (uint32 ``[M]``) is used."""
        gpus, cpus, mem = (
            limit - self.amount(used, index) for index, limit in enumerate(self.capacity)
        )
        return gpus, cpus, mem


class Entries(NamedTuple):
    """The entries; an empty one has row R and no instances.

    Attributes:
      row: int32 ``[M, E]``, of the running table.
      instances: int8 ``[M, E]``, how many.
    """

    row: Array
    instances: Array

    @classmethod
    def none(cls, cluster: Cluster, rows: int) -> "Entries":
        """Empty machines."""
        shape = cluster.num_servers, cluster.gpus_per_server
        return cls(jnp.full(shape, rows, jnp.int32), jnp.zeros(shape, jnp.int8))

    def used(self, request: Array) -> Array:
        """What is taken of each machine, packed, uint32 ``[M]``; ``request`` is uint32 ``[R]``."""
        taken = self.instances.astype(jnp.uint32) * self.requests(request)
        return jnp.sum(taken, axis=-1, dtype=jnp.uint32)

    def requests(self, request: Array) -> Array:
        """The packed request of each entry's job, uint32 ``[M, E]``; 0 in empty ones."""
        return request.at[self.row].get(mode="fill", fill_value=np.uint32(0))

    def worst(self, loss: Array, rows: int) -> Array:
        """The largest loss (float ``[M, E]``) of each row's entries, ``[R]``; -1 for none."""
        return jnp.full(rows, -1.0, loss.dtype).at[self.row].max(loss, mode="drop")

    def without(self, ends: Array) -> "Entries":
        """Without the rows ``ends`` (bool ``[R]``)."""
        stays = ~ends.at[self.row].get(mode="fill", fill_value=True)
        return Entries(
            jnp.where(stays, self.row, ends.shape[0]),
            jnp.where(stays, self.instances, 0).astype(jnp.int8),
        )

    def joined_by(self, row: Array, counts: Array) -> "Entries":
        """With jobs more, for which there is room.

        The k-th newcomer of a machine takes its k-th empty entry.

        Args:
          row: int32 ``[P]``, of the running table; of those that are placed.
          counts: int8 ``[P, M]``, instances on each machine, all 0 where not placed.
        """
        comes = counts > 0
        number = jnp.cumsum(comes, axis=0, dtype=jnp.int32) - 1
        empty = self.instances == 0
        turn = jnp.where(empty, jnp.cumsum(empty, axis=-1, dtype=jnp.int32) - 1, -1)
        chosen = comes[..., None] & (number[..., None] == turn)  # [P, M, E]; at most one P for each
        new_row = jnp.sum(jnp.where(chosen, row[:, None, None], 0), axis=0, dtype=jnp.int32)
        new_count = jnp.sum(jnp.where(chosen, counts[..., None], 0), axis=0, dtype=jnp.int8)
        enters = new_count > 0
        return Entries(
            jnp.where(enters, new_row, self.row), jnp.where(enters, new_count, self.instances)
        )


BYTES = 4  # of a word
MOST_WRITTEN_OUT = 16  # machines; of more the entries are listed


class Running(NamedTuple):
    """The running table; an empty row has job -1, no instances and no end.

    Attributes:
      alloc: int8 ``[M, R]``, instances on each machine; ``Entries`` of many machines.
      job: int32 ``[R]``, place in the episode.
      request: uint32 ``[R]``, one instance's packed request (``cluster.Cluster.pack``).
      base: int32 ``[R]``, contention (percent) without other jobs: 100 and the spread.
      num_gpus: int32 ``[R]``.
      submit: int32 ``[R]``, s.
      start: int32 ``[R]``, s.
      left: int32 ``[R]``, work left (1/100 s at full speed) at the last change of speeds.
      speed: int32 ``[R]``, percent.
      end: int32 ``[R]``, finish time at these speeds.
    """

    alloc: Array | Entries
    job: Array
    request: Array
    base: Array
    num_gpus: Array
    submit: Array
    start: Array
    left: Array
    speed: Array
    end: Array


def num_rows(cluster: Cluster) -> int:
    """Rows of the running table: a job takes at least one GPU; whole words of 32."""
    most = cluster.num_servers * cluster.gpus_per_server
    return -(-most // bits.WORD) * bits.WORD


def nobody_runs(cluster: Cluster) -> Running:
    """The empty running table."""
    rows = num_rows(cluster)
    zero = jnp.zeros(rows, jnp.int32)
    listed = cluster.num_servers > MOST_WRITTEN_OUT
    return Running(
        alloc=Entries.none(cluster, rows)
        if listed
        else jnp.zeros((cluster.num_servers, rows), jnp.int8),
        job=jnp.full(rows, NO_JOB, jnp.int32),
        request=jnp.zeros(rows, jnp.uint32),
        base=zero,
        num_gpus=zero,
        submit=zero,
        start=zero,
        left=zero,
        speed=zero,
        end=jnp.full(rows, NEVER, jnp.int32),
    )


def used_resources(running: Running) -> Array:
    """What the running jobs take of each machine, packed, uint32 ``[M]``."""
    if isinstance(running.alloc, Entries):
        return running.alloc.used(running.request)
    taken = running.alloc.astype(jnp.uint32) * running.request
    return jnp.sum(taken, axis=-1, dtype=jnp.uint32)


def contention(cluster: Cluster, running: Running, used: Array) -> Array:
    """Percent on the worst machine of each running job, float32 ``[R]``; 0 in empty rows."""
    if isinstance(running.alloc, Entries):
        request = running.alloc.requests(running.request)
        loss = losses(cluster, request, running.alloc.instances, used)
        worst = running.alloc.worst(loss, running.job.shape[0])
    else:
        loss = losses(cluster, running.request, running.alloc, used)
        worst = jnp.max(jnp.where(running.alloc > 0, loss, -1.0), axis=0)
    return jnp.where(worst < 0, 0.0, worst + running.base.astype(jnp.float32))


def losses(cluster: Cluster, request: Array, count: Array, used: Array) -> Array:
    """Percent that other jobs cost ``count`` instances on each machine, float32 ``[M, ...]``.

    Args:
      cluster: the cluster.
      request: packed, of what broadcasts to ``count``.
      count: int8 ``[M, ...]``.
      used: packed, uint32 ``[M]``.
    """
    count = count.astype(jnp.float32)
    gpus, cpus, network = (cluster.amount(request, k) for k in (0, 1, 3))
    other_cpus = cluster.amount(used, 1)[:, None] - count * cpus
    loss = jnp.floor((cluster.cpu_pct * other_cpus + 0.5) * np.float32(1 / cluster.cpus_per_server))
    other_network = cluster.amount(used, 3)[:, None] - count * gpus
    return loss + jnp.where(network > 0, cluster.net_pct * other_network, 0.0)


def set_speeds(
    cluster: Cluster, running: Running, since: Array, time: Array
) -> tuple[Running, Array]:
    """Work off what was done since the last change of speeds, and set the speeds of now.

    Args:
      cluster: the cluster.
      running: the table, without the jobs that have finished.
      since: int32, time of the last change.
      time: int32, now.

    Returns:
      The table, and what it takes of each machine (packed uint32 ``[M]``).
    """
    used = used_resources(running)
    worst = contention(cluster, running, used)
    runs = running.job >= 0
    speed = jnp.floor(10000.5 / jnp.maximum(worst, 1.0))
    left = jnp.where(runs, running.left - running.speed * (time - since), 0)
    whole_speed = speed.astype(jnp.int32)
    end = jnp.where(runs, time + ceil_quotient(left, whole_speed, speed), NEVER)
    speed_now = jnp.where(runs, whole_speed, 0)
    return running._replace(left=left, speed=speed_now, end=end), used


def ceil_quotient(left: Array, whole_speed: Array, speed: Array) -> Array:
    """``ceil(left / speed)``, exact int32, for a speed given as int32 and as float32.

    The float quotient of up to 2**31 is off by a few hundred at most; what it leaves is small
    enough for a second one to be exact.
    """
    about = (left.astype(jnp.float32) / speed).astype(jnp.int32)
    rest = left - about * whole_speed
    rest = (rest + whole_speed).astype(jnp.float32) - 0.5
    return about + jnp.floor(rest / speed).astype(jnp.int32)


def release(running: Running, ends: Array) -> Running:
    """The table without the rows ``ends`` (bool ``[R]``)."""
    alloc = running.alloc
    return running._replace(
        alloc=alloc.without(ends)
        if isinstance(alloc, Entries)
        else jnp.where(ends, 0, alloc).astype(jnp.int8),
        job=jnp.where(ends, NO_JOB, running.job),
        request=jnp.where(ends, np.uint32(0), running.request),
    )


def admit(
    cluster: Cluster,
    running: Running,
    job: Array,
    rows: Array,
    counts: Array,
    time: Array,
) -> Running:
    """Enter the jobs that a decision placed into empty rows; ``set_speeds`` must follow.

    Args:
      cluster: the cluster.
      running: the table.
      job: int32 ``[P]``, jobs in the order of the decision.
      rows: int32 ``[8, P]``, their table rows.
      counts: int8 ``[P, M]``, instances on each machine, all 0 where not placed.
      time: int32, now.
    """
    machines = jnp.sum(counts > 0, axis=-1, dtype=jnp.int32)
    extra = jnp.minimum(machines - rows[LEAST_MACHINES], cluster.spread_cap)
    network = jnp.where(machines > 1, rows[GPUS], 0)
    request = cluster.pack(rows[GPUS], rows[CPUS], rows[MEM], network)
    fields = [
        job,
        request.astype(jnp.int32),
        100 + cluster.spread_pct * extra,
        rows[NUM_GPUS],
        rows[SUBMIT],
        100 * rows[DURATION],
    ]
    listed = isinstance(running.alloc, Entries)
    packed = jnp.stack([*fields, *([] if listed else as_bytes(counts))])  # [6 + W, P]

    places = machines > 0
    # Held apart from what follows: compilers would repeat it for every column of the table.
    source = apply_if(
        jnp.any(places),
        lambda _, given: matched(*given),
        jnp.full(running.job.shape, job.shape[0], jnp.int32),
        (running.job < 0, places),
    )
    enters = source < job.shape[0]
    place = jnp.minimum(source, job.shape[0] - 1)
    # And so is the table that is looked up: else each of its entries is found anew for every row.
    new = apply_if(
        jnp.any(places),
        lambda _, given: given[0].at[:, given[1]].get(mode="promise_in_bounds"),
        jnp.zeros((packed.shape[0], *place.shape), jnp.int32),
        (packed, place.astype(jnp.uint32)),
    )

    def chosen(value: Array, old: Array) -> Array:
        return jnp.where(enters, value, old)

    alloc: Array | Entries
    if isinstance(running.alloc, Entries):
        index = jnp.arange(source.shape[0], dtype=jnp.int32)
        row = jnp.zeros(job.shape, jnp.int32).at[source].set(index, mode="drop")
        alloc = running.alloc.joined_by(row, counts)
    else:
        alloc = chosen(from_bytes(new[6:], counts.shape[-1]), running.alloc)
    return running._replace(
        alloc=alloc,
        job=chosen(new[0], running.job),
        request=chosen(new[1].astype(jnp.uint32), running.request),
        base=chosen(new[2], running.base),
        num_gpus=chosen(new[3], running.num_gpus),
        submit=chosen(new[4], running.submit),
        start=chosen(time, running.start),
        left=chosen(new[5], running.left),
        speed=chosen(jnp.int32(0), running.speed),
    )


def as_bytes(counts: Array) -> Array:
    """Numbers of instances, four machines to a word, int32 ``[W, P]`` of int8 ``[P, M]``."""
    padded = jnp.pad(counts.T, [(0, -counts.shape[-1] % BYTES), (0, 0)]).astype(jnp.int32)
    by_word = padded.reshape(-1, BYTES, counts.shape[0])
    return reduce(jnp.bitwise_or, [by_word[:, k] << (8 * k) for k in range(BYTES)])


def from_bytes(words: Array, num_servers: int) -> Array:
    """What ``as_bytes`` has packed, int8 ``[M, R]`` of int32 ``[W, R]``."""
    parts = jnp.stack([(words >> (8 * k)) & 0xFF for k in range(BYTES)], axis=1)
    return parts.reshape(-1, words.shape[-1])[:num_servers].astype(jnp.int8)


def matched(empty: Array, placed: Array) -> Array:
    """For the k-th empty row the place of the k-th placed job, int32 ``[R]``; P for none.

    Args:
      empty: bool ``[R]``, R a multiple of 32.
      placed: bool ``[P]``.
    """
    words = bits.to_words(empty)
    counts = bits.count(words)
    before = jnp.cumsum(counts, dtype=jnp.int32) - counts
    within = bits.count(words[:, None] & bits.below(jnp.arange(bits.WORD, dtype=jnp.int32)))
    rank = jnp.where(empty, (before[:, None] + within).reshape(-1), -1)
    return bits.nth(as_words(placed), rank, missing=placed.shape[0])


def as_words(flags: Array) -> Array:
    """The set of the places with a flag, of any number of them, uint32 ``[V]``."""
    return bits.to_words(jnp.pad(flags, (0, -flags.shape[0] % bits.WORD)))
