"""The Q networks of SCHED2: the paper's, and a variant that shares weights between slots.

Specification, section 10; sizes where the paper is silent are ours.
"""

import flax.linen as nn
import jax.numpy as jnp

from jaxsched.envs.sched2.observation import NUM_STATISTICS
from jaxsched.envs.sched2.slowdown import NUM_LEVELS
from jaxsched.networks import description as nd
from jaxsched.networks.mlp import layers, mlp
from jaxsched.types import Array

SQUASH_MULTIPLY, SQUASH_DIVIDE = 60.0, 4.0
SLOT_FEATURES = NUM_LEVELS + 2


def squash(features: Array) -> Array:
    """About log-minutes: tells 0 (free now) from "soon free" without large inputs."""
    return jnp.log1p(SQUASH_MULTIPLY * features) / SQUASH_DIVIDE


class QNetwork(nn.Module):
    """The paper's network: Q values from the flat observation.

    The same small network reads the GPUs of every server; its outputs stay in server order. A
    second one reads the window and the statistics of the jobs beyond it.

    Attributes:
      num_servers: S.
      gpus_per_server: G.
      num_actions: J + 1.
      server_sizes: widths of the layers shared by the servers.
      queue_sizes: widths of the layers that read the window.
      head_size: width of the last hidden layer.
    """

    num_servers: int
    gpus_per_server: int
    num_actions: int
    server_sizes: tuple[int, ...] = (32, 16)
    queue_sizes: tuple[int, ...] = (128, 64)
    head_size: int = 256

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Observation float32 ``[..., D]`` to Q values float32 ``[..., J + 1]``."""
        squashed = squash(observation)
        servers, queue = _split_servers(squashed, self.num_servers, self.gpus_per_server)
        servers = mlp(servers, "server", self.server_sizes)
        queue = mlp(queue, "queue", self.queue_sizes)
        joined = jnp.concatenate([_flat(servers), queue], axis=-1)
        return nn.Dense(self.num_actions, name="head_1")(mlp(joined, "head", (self.head_size,)))

    def describe(self) -> list[nd.Step]:
        """The network as steps that can be followed without JAX; layers named as its weights."""
        steps, queue = _describe_servers(self)
        queue_layers = layers("queue", self.queue_sizes)
        return [
            *steps,
            *nd.dense_stack(queue, queue_layers),
            nd.concat(("all_servers", [queue, *queue_layers][-1]), "joined"),
            nd.dense("joined", "head_0"),
            nd.dense("head_0", "head_1", activation="linear", output=nd.SCORES),
        ]


class SlotQNetwork(nn.Module):
    """A variant: what is learnt about a job holds for every slot.

    As the paper's network, but one small network reads each slot, its outputs (in slot order) and
    the statistics go into the paper's second network, and the Q value of a slot is a common value
    plus a score that one further network computes from that slot and the whole state.

    Attributes:
      num_servers: S.
      gpus_per_server: G.
      window: J.
      server_sizes: widths of the layers shared by the servers.
      slot_sizes: widths of the layers shared by the slots.
      queue_sizes: widths of the layers that read all slots.
      head_size: width of the layer that reads servers and slots.
      context_size: width of the state's summary handed to each slot's score, and of its layer.
    """

    num_servers: int
    gpus_per_server: int
    window: int
    server_sizes: tuple[int, ...] = (32, 16)
    slot_sizes: tuple[int, ...] = (64, 32)
    queue_sizes: tuple[int, ...] = (128, 64)
    head_size: int = 256
    context_size: int = 64

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Observation float32 ``[..., D]`` to Q values float32 ``[..., J + 1]``."""
        squashed = squash(observation)
        servers, queue = _split_servers(squashed, self.num_servers, self.gpus_per_server)
        lead, size = queue.shape[:-1], self.window * SLOT_FEATURES
        slots = queue[..., :size].reshape(*lead, self.window, SLOT_FEATURES)
        statistics, extras = jnp.split(queue[..., size:], [NUM_STATISTICS], axis=-1)
        extras = extras.reshape(*lead, self.window, -1)
        slots = mlp(jnp.concatenate([slots, extras], axis=-1), "slot", self.slot_sizes)
        queue = mlp(jnp.concatenate([_flat(slots), statistics], axis=-1), "queue", self.queue_sizes)
        servers = mlp(servers, "server", self.server_sizes)
        joined = jnp.concatenate([_flat(servers), queue], axis=-1)
        hidden = mlp(joined, "head", (self.head_size,))

        value, void = jnp.split(nn.Dense(2, name="value")(hidden), 2, axis=-1)
        context = nn.relu(nn.Dense(self.context_size, name="context")(hidden))
        everywhere = (*lead, self.window, self.context_size)
        context = jnp.broadcast_to(context[..., None, :], everywhere)
        scored = mlp(jnp.concatenate([slots, context], axis=-1), "score", (self.context_size,))
        scores = nn.Dense(1, name="score_1")(scored)[..., 0]
        return jnp.concatenate([scores + value, void + value], axis=-1)

    def describe(self) -> list[nd.Step]:
        """The network as steps that can be followed without JAX; layers named as its weights."""
        steps, queue = _describe_servers(self)
        size = self.window * SLOT_FEATURES
        slot_layers = layers("slot", self.slot_sizes)
        queue_layers = layers("queue", self.queue_sizes)
        last_slot, last_queue = slot_layers[-1], queue_layers[-1]
        return [
            *steps,
            nd.take(queue, "flat_slots", stop=size),
            nd.reshape("flat_slots", "plain_slots", (self.window, SLOT_FEATURES)),
            nd.take(queue, "statistics", start=size, stop=size + NUM_STATISTICS),
            nd.take(queue, "flat_extras", start=size + NUM_STATISTICS),
            nd.reshape("flat_extras", "extras", (self.window, -1)),
            nd.concat(("plain_slots", "extras"), "slots"),
            *nd.dense_stack("slots", slot_layers),
            nd.reshape(last_slot, "all_slots", (self.window * self.slot_sizes[-1],)),
            nd.concat(("all_slots", "statistics"), "all_queue"),
            *nd.dense_stack("all_queue", queue_layers),
            nd.concat(("all_servers", last_queue), "joined"),
            nd.dense("joined", "head_0"),
            nd.dense("head_0", "value", activation="linear"),
            nd.take("value", "common", stop=1),
            nd.take("value", "void", start=1),
            nd.dense("head_0", "context"),
            nd.repeat("context", "contexts", self.window),
            nd.concat((last_slot, "contexts"), "slots_in_context"),
            nd.dense("slots_in_context", "score_0"),
            nd.dense("score_0", "score_1", activation="linear"),
            nd.reshape("score_1", "slot_scores", (self.window,)),
            nd.concat(("slot_scores", "void"), "advantages"),
            nd.add(("advantages", "common"), nd.SCORES),
        ]


def _split_servers(squashed: Array, num_servers: int, gpus_per_server: int) -> tuple[Array, Array]:
    """Servers ``[..., S, G]`` and the rest ``[..., D - S * G]`` of a flat observation."""
    num_gpus = num_servers * gpus_per_server
    shape = (*squashed.shape[:-1], num_servers, gpus_per_server)
    return squashed[..., :num_gpus].reshape(shape), squashed[..., num_gpus:]


def _flat(rows: Array) -> Array:
    """The last two axes as one."""
    return rows.reshape(*rows.shape[:-2], -1)


def _describe_servers(network: QNetwork | SlotQNetwork) -> tuple[list[nd.Step], str]:
    """Steps up to ``all_servers``, and the name of the rest of the squashed observation."""
    num_servers, gpus = network.num_servers, network.gpus_per_server
    shared = layers("server", network.server_sizes)
    width = (gpus, *network.server_sizes)[-1]
    steps = [
        nd.log1p(nd.OBSERVATION, "squashed", multiply=SQUASH_MULTIPLY, divide=SQUASH_DIVIDE),
        nd.take("squashed", "gpus", stop=num_servers * gpus),
        nd.reshape("gpus", "servers", (num_servers, gpus)),
        *nd.dense_stack("servers", shared),
        nd.reshape(["servers", *shared][-1], "all_servers", (num_servers * width,)),
        nd.take("squashed", "queue", start=num_servers * gpus),
    ]
    return steps, "queue"
