"""The Q networks of SCHED2: the paper's, and a variant that shares weights between positions.

Specification, section 10; sizes where the paper is silent are ours.
"""

from jaxsched.envs.sched2.observation import NUM_STATISTICS
from jaxsched.envs.sched2.slowdown import NUM_LEVELS
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule

SQUASH_MULTIPLY, SQUASH_DIVIDE = 60.0, 4.0
POSITION_FEATURES = NUM_LEVELS + 2
# What a layer is called decides what its weights are drawn as, and saved policies have the name: it
# stays that of before, after the specification's word for a position.
POSITION_LAYER = "slot"


class QNetwork(ExportableModule):
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

    def describe(self) -> list[nd.Step]:
        """Servers and queue, joined."""
        queue = nd.last_of("queue", "queue", self.queue_sizes)
        return [
            *_server_steps(self),
            *nd.dense_stack("queue", "queue", self.queue_sizes),
            nd.concat(("all_servers", queue), "joined"),
            nd.dense("joined", "head_0", self.head_size),
            nd.dense("head_0", "head_1", self.num_actions, activation="linear", output=nd.SCORES),
        ]


class PositionQNetwork(ExportableModule):
    """A variant: what is learnt about a job holds for every position.

    As the paper's network, but one small network reads each position, its outputs (in order) and
    the statistics go into the paper's second network, and the Q value of a position is a common
    value plus a score that one further network computes from that position and the whole state.

    Attributes:
      num_servers: S.
      gpus_per_server: G.
      window: J.
      server_sizes: widths of the layers shared by the servers.
      position_sizes: widths of the layers shared by the positions.
      queue_sizes: widths of the layers that read all positions.
      head_size: width of the layer that reads servers and positions.
      context_size: width of the state's summary handed to each position's score, and of its layer.
    """

    num_servers: int
    gpus_per_server: int
    window: int
    server_sizes: tuple[int, ...] = (32, 16)
    position_sizes: tuple[int, ...] = (64, 32)
    queue_sizes: tuple[int, ...] = (128, 64)
    head_size: int = 256
    context_size: int = 64

    def describe(self) -> list[nd.Step]:
        """Positions, servers and queue, joined; scores of the positions in that context."""
        size = self.window * POSITION_FEATURES
        position = nd.last_of("positions", POSITION_LAYER, self.position_sizes)
        queue = nd.last_of("all_queue", "queue", self.queue_sizes)
        return [
            *_server_steps(self),
            nd.take("queue", "flat_positions", stop=size),
            nd.reshape("flat_positions", "plain_positions", (self.window, POSITION_FEATURES)),
            nd.take("queue", "statistics", start=size, stop=size + NUM_STATISTICS),
            nd.take("queue", "flat_extras", start=size + NUM_STATISTICS),
            nd.reshape("flat_extras", "extras", (self.window, -1)),
            nd.concat(("plain_positions", "extras"), "positions"),
            *nd.dense_stack("positions", POSITION_LAYER, self.position_sizes),
            nd.reshape(position, "all_positions", (self.window * self.position_sizes[-1],)),
            nd.concat(("all_positions", "statistics"), "all_queue"),
            *nd.dense_stack("all_queue", "queue", self.queue_sizes),
            nd.concat(("all_servers", queue), "joined"),
            nd.dense("joined", "head_0", self.head_size),
            nd.dense("head_0", "value", 2, activation="linear"),
            nd.take("value", "common", stop=1),
            nd.take("value", "void", start=1),
            nd.dense("head_0", "context", self.context_size),
            nd.repeat("context", "contexts", self.window),
            nd.concat((position, "contexts"), "positions_in_context"),
            nd.dense("positions_in_context", "score_0", self.context_size),
            nd.dense("score_0", "score_1", 1, activation="linear"),
            nd.reshape("score_1", "position_scores", (self.window,)),
            nd.concat(("position_scores", "void"), "advantages"),
            nd.add(("advantages", "common"), nd.SCORES),
        ]


def _server_steps(network: QNetwork | PositionQNetwork) -> list[nd.Step]:
    """Steps up to ``all_servers``, and ``queue``, the rest of the squashed observation.

    Squashed are about log-minutes: that tells 0 (free now) from "soon free" without large inputs.
    """
    num_servers, gpus = network.num_servers, network.gpus_per_server
    sizes = network.server_sizes
    width = (gpus, *sizes)[-1]
    return [
        nd.log1p(nd.OBSERVATION, "squashed", multiply=SQUASH_MULTIPLY, divide=SQUASH_DIVIDE),
        nd.take("squashed", "gpus", stop=num_servers * gpus),
        nd.reshape("gpus", "servers", (num_servers, gpus)),
        *nd.dense_stack("servers", "server", sizes),
        nd.reshape(nd.last_of("servers", "server", sizes), "all_servers", (num_servers * width,)),
        nd.take("squashed", "queue", start=num_servers * gpus),
    ]
