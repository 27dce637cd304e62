"""The Q network of SCHED2 (specification, section 10; sizes where the paper is silent are ours)."""

import flax.linen as nn
import jax.numpy as jnp

from jaxsched import network_description as nd
from jaxsched.types import Array


def squash(features: Array) -> Array:
    """About log-minutes: tells 0 (free now) from "soon free" without large inputs."""
    return jnp.log1p(60.0 * features) / 4.0


class QNetwork(nn.Module):
    """Q values from the flat observation.

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
        num_gpus = self.num_servers * self.gpus_per_server
        lead = observation.shape[:-1]
        squashed = squash(observation)
        servers = squashed[..., :num_gpus].reshape(*lead, self.num_servers, self.gpus_per_server)
        queue = squashed[..., num_gpus:]
        for i, size in enumerate(self.server_sizes):
            servers = nn.relu(nn.Dense(size, name=f"server_{i}")(servers))
        for i, size in enumerate(self.queue_sizes):
            queue = nn.relu(nn.Dense(size, name=f"queue_{i}")(queue))
        joined = jnp.concatenate([servers.reshape(*lead, -1), queue], axis=-1)
        hidden = nn.relu(nn.Dense(self.head_size, name="head_0")(joined))
        return nn.Dense(self.num_actions, name="head_1")(hidden)


def describe(network: QNetwork) -> list[nd.Step]:
    """The network as steps that can be followed without JAX; layers are named as its weights."""
    num_servers, num_gpus = network.num_servers, network.num_servers * network.gpus_per_server
    servers = ["servers", *(f"server_{i}" for i in range(len(network.server_sizes)))]
    queue = ["queue", *(f"queue_{i}" for i in range(len(network.queue_sizes)))]
    width = (network.gpus_per_server, *network.server_sizes)[-1]
    return [
        nd.log1p(nd.OBSERVATION, "squashed", multiply=60.0, divide=4.0),
        nd.take("squashed", "gpus", stop=num_gpus),
        nd.reshape("gpus", "servers", (num_servers, network.gpus_per_server)),
        *nd.dense_stack("servers", servers[1:]),
        nd.reshape(servers[-1], "all_servers", (num_servers * width,)),
        nd.take("squashed", "queue", start=num_gpus),
        *nd.dense_stack("queue", queue[1:]),
        nd.concat(("all_servers", queue[-1]), "joined"),
        nd.dense("joined", "head_0"),
        nd.dense("head_0", "head_1", activation="linear", output=nd.SCORES),
    ]
