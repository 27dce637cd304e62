"""The policy and value networks of MLF-RL (specification, section 10).

The paper gives no architecture. Here every server is read by the same layers, together with the
cluster and the task on offer; the queue is scored from the mean of what they make of the servers.
So weights do not depend on the number of servers, and the order of servers carries no meaning:
permuting them permutes their logits.

Axes: ``...`` any leading axes, ``S`` servers, ``I`` entries of cluster and task that are read,
``H`` width of the last hidden layer.
"""

import flax.linen as nn
import numpy as np

from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.observation import NUM_GLOBAL, NUM_SERVER, NUM_TASK, TASK_NAMES
from jaxsched.envs.mlfs.simulator.pairs import WEIGHTS
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
from jaxsched.networks.mlp import ValueMLP, sizes_of
from jaxsched.types import Array

HIDDEN_FROM_RL = ("urgency", "loss_share", "size", "time_left", "priority")
"""Entries of the task that the baseline ``rl`` does not see (specification, section 9)."""

HIDDEN: dict[str, tuple[str, ...]] = {"servers": (), "rl": HIDDEN_FROM_RL}
"""Entries of the task that each kind of network of servers does not see."""
PAIRS = "pairs"  # the weights of slots

NUM_COMMON = NUM_GLOBAL + NUM_TASK
HEADS = ("server_logit", "queue_logit", "value")
SMALL = nn.initializers.normal(0.01)  # of the heads: a new policy is near uniform, a value near 0


def seen_runs(hidden_inputs: tuple[str, ...]) -> list[tuple[int, int]]:
    """Stretches ``start, stop`` of the cluster's and the task's entries without the hidden ones.

    Args:
      hidden_inputs: names of entries of the task.

    Raises:
      JaxschedError: not an entry of the task.
    """
    unknown = [name for name in hidden_inputs if name not in TASK_NAMES]
    if unknown:
        raise JaxschedError(
            f"hidden_inputs has {', '.join(unknown)}; accepted: {', '.join(TASK_NAMES)}"
        )
    seen = np.array([True] * NUM_GLOBAL + [name not in hidden_inputs for name in TASK_NAMES])
    edges = np.flatnonzero(np.diff(seen, prepend=False, append=False))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


class ServerNetwork(ExportableModule):
    """What the policy and the value have in common.

    Attributes:
      num_servers: S; weights do not depend on it.
      hidden: widths of the layers shared by the servers, and of those that read their mean.
      hidden_inputs: names of entries of the task that are not read.
    """

    num_servers: int
    hidden: tuple[int, ...] = (64, 64)
    hidden_inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the attributes.

        Raises:
          JaxschedError: no server, widths that make no network, or an unknown entry.
        """
        if self.num_servers < 1:
            raise JaxschedError(f"num_servers is {self.num_servers}; it must be at least 1")
        if not self.hidden or min(self.hidden) < 1:
            raise JaxschedError(
                f"hidden is {tuple(self.hidden)}; accepted: one or more widths of at least 1"
            )
        seen_runs(self.hidden_inputs)
        super().__post_init__()

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """Small for the heads."""
        return SMALL if layer in HEADS else super().initialiser(layer)

    def check(self, observation: Array) -> None:
        """Refuse observations of another number of servers.

        Raises:
          JaxschedError: the observation is not float32 ``[..., 8 + 26 + 10 S]``.
        """
        size, expected = observation.shape[-1], NUM_COMMON + NUM_SERVER * self.num_servers
        if size != expected:
            raise JaxschedError(
                f"an observation of {size} entries; that of {self.num_servers} servers has "
                f"{expected}"
            )

    def read(self) -> list[nd.Step]:
        """The steps before the heads: ``server_*`` ``[S, H]`` and ``queue_*`` ``[H]``."""
        runs = seen_runs(self.hidden_inputs)
        parts = [f"seen_{i}" for i in range(len(runs))]
        server = nd.last_of("servers_in_context", "server", self.hidden)
        return [
            *(
                nd.take(nd.OBSERVATION, part, start=start, stop=stop)
                for part, (start, stop) in zip(parts, runs, strict=True)
            ),
            nd.concat(parts, "common"),
            nd.repeat("common", "commons", self.num_servers),
            nd.take(nd.OBSERVATION, "flat_servers", start=NUM_COMMON),
            nd.reshape("flat_servers", "servers", (self.num_servers, NUM_SERVER)),
            nd.concat(("commons", "servers"), "servers_in_context"),
            *nd.dense_stack("servers_in_context", "server", self.hidden),
            nd.mean(server, "mean_server"),
            nd.concat(("common", "mean_server"), "queue"),
            *nd.dense_stack("queue", "queue", self.hidden),
        ]


class ServerPolicy(ServerNetwork):
    """Logits of the servers and of the queue, ``[..., S + 1]``."""

    def describe(self) -> list[nd.Step]:
        """A head for every server, and one for the queue."""
        server = nd.last_of("servers_in_context", "server", self.hidden)
        queue = nd.last_of("queue", "queue", self.hidden)
        return [
            *self.read(),
            nd.dense(server, "server_logit", 1, activation="linear"),
            nd.reshape("server_logit", "server_logits", (self.num_servers,)),
            nd.dense(queue, "queue_logit", 1, activation="linear"),
            nd.concat(("server_logits", "queue_logit"), nd.SCORES),
        ]


class ServerValue(ServerNetwork):
    """The value of an observation, ``[...]``.

    The specification lets the queue's logit and the value share their layers. PPO here takes two
    networks, so this is the same make with weights of its own.
    """

    single = True

    def describe(self) -> list[nd.Step]:
        """A head for the queue."""
        queue = nd.last_of("queue", "queue", self.hidden)
        value = nd.dense(queue, "value", 1, activation="linear", output=nd.SCORES)
        return [*self.read(), value]


class PairWeights(ExportableModule):
    """The same weights of jobs, tasks and pairs in every slot, ``[..., W]``; 0 at the start."""

    def describe(self) -> list[nd.Step]:
        """A layer that reads nothing: its bias."""
        return [
            nd.take(nd.OBSERVATION, "nothing", stop=0),
            nd.dense("nothing", "weights", len(WEIGHTS), activation="linear", output=nd.SCORES),
        ]

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """There is nothing to draw."""
        del layer
        return nn.initializers.zeros_init()


def policy_network(env: MLFS, kind: str) -> ExportableModule:
    """The policy network of that kind.

    Raises:
      JaxschedError: no such kind, or one that does not answer what the environment asks.
    """
    _check_kind(kind, [PAIRS] if env.by_slot else list(HIDDEN))
    if kind == PAIRS:
        return PairWeights()
    return ServerPolicy(env.num_servers, hidden_inputs=HIDDEN[kind])


def value_network(env: MLFS, kind: str) -> ExportableModule:
    """The value network that goes with a policy network of servers, or widths as ``mlp-64``.

    Raises:
      JaxschedError: no such kind, or weights of slots, which are learned by search alone.
    """
    if env.by_slot:
        raise JaxschedError("mlfs: weights of slots are learned by search, nothing else is")
    if kind.startswith("mlp-"):
        return ValueMLP(sizes_of(kind))
    _check_kind(kind, list(HIDDEN))
    return ServerValue(env.num_servers, hidden_inputs=HIDDEN[kind])


def _check_kind(kind: str, known: list[str]) -> None:
    if kind not in known:
        raise JaxschedError(f"mlfs: unknown network {kind!r}; known are {', '.join(known)}")
