"""How policies of SCHED2 are trained: networks and named recipes (specification, section 10).

Networks are the paper's, a variant that shares weights between positions, and a small one that
scores the window's jobs, for search over whole episodes; sizes where the paper is silent are ours.

What the settings that differ from the specification's list are for, as seen in trials on the
training traces: without a bound on the backlog the replay fills with overloaded clusters, whose
large costs drown the small differences between actions; n-step returns carry the exploring steps
along; with a long horizon those differences drown in the cost of arrivals that no action changes.
A short horizon loses little here: a split placement is charged when the job starts.
"""

from dataclasses import dataclass, replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxsched.algorithms.dqn import DQNConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.envs.sched2.rules import NUM_LEVELS
from jaxsched.envs.sched2.rules.observation import NUM_STATISTICS, NUM_TIMES, OUTLOOK
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
from jaxsched.systems.departures import Departures
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.types import Array, PRNGKey, PyTree

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


RULE = {"duration": -2.0, "level0": 4.0, "split": -2.0}
"""Weights of the linear part at the start: the shortest of the jobs at level 0, before void."""
ZERO = ("score", "void")  # layers that begin at 0


class ScoringNetwork(ExportableModule):
    """Scores of the positions and of void.

    Attributes:
      window: J.
      hidden_sizes: widths of the layers that read a position in its context.
      void_sizes: widths of the layers that read the summary for void.
    """

    window: int
    hidden_sizes: tuple[int, ...] = (16, 16)
    void_sizes: tuple[int, ...] = (8,)

    def describe(self) -> list[nd.Step]:
        """Positions in context, a linear part beside them, and void."""
        num = len(OUTLOOK)
        last = nd.last_of("joined", "hidden", self.hidden_sizes)
        last_of_void = nd.last_of("summary", "void_hidden", self.void_sizes)
        return [
            nd.take(nd.OBSERVATION, "flat", start=-num * self.window),
            nd.reshape("flat", "raw", (self.window, num)),
            nd.take("raw", "times", stop=NUM_TIMES),
            _squash("times", "log_times"),
            nd.take("raw", "others", start=NUM_TIMES),
            nd.concat(("log_times", "others"), "positions"),
            nd.take(
                nd.OBSERVATION,
                "statistics",
                start=-num * self.window - NUM_STATISTICS,
                stop=-num * self.window,
            ),
            _squash("statistics", "beyond"),
            nd.mean("positions", "mean_position"),
            nd.concat(("mean_position", "beyond"), "summary"),
            nd.repeat("summary", "summaries", self.window),
            nd.concat(("positions", "summaries"), "joined"),
            *nd.dense_stack("joined", "hidden", self.hidden_sizes),
            nd.dense(last, "score", 1, activation="linear"),
            nd.dense("positions", "rule", 1, activation="linear"),
            nd.add(("score", "rule"), "each"),
            nd.reshape("each", "position_scores", (self.window,)),
            *nd.dense_stack("summary", "void_hidden", self.void_sizes),
            nd.dense(last_of_void, "void", 1, activation="linear"),
            nd.concat(("position_scores", "void"), nd.SCORES),
        ]

    def initialiser(self, layer: str) -> nn.initializers.Initializer:
        """The rule in the linear part, 0 in the last layers."""
        if layer == "rule":
            return _rule
        if layer in ZERO:
            return nn.initializers.zeros_init()
        return nn.initializers.lecun_normal()


def _rule(key: Any, shape: Any, dtype: Any = jnp.float32, **_: Any) -> Array:
    del key, shape
    return jnp.array([[RULE.get(name, 0.0)] for name in OUTLOOK], dtype)


def _squash(source: str, output: str) -> nd.Step:
    return nd.log1p(source, output, multiply=SQUASH_MULTIPLY, divide=SQUASH_DIVIDE)


NETWORKS = ("paper", "positions", "scoring", "linear")


def network(env: Sched2, kind: str) -> ExportableModule:
    """The paper's network or a variant.

    ``positions`` shares weights between the positions; ``scoring`` is a small one that starts as
    ``strict_sif``, ``linear`` that without hidden layers.

    Raises:
      JaxschedError: no such kind, or one that reads an outlook that the environment lacks.
    """
    if kind == "paper":
        return QNetwork(env.num_servers, env.gpus_per_server, env.window + 1)
    if kind == "positions":
        return PositionQNetwork(env.num_servers, env.gpus_per_server, env.window)
    if kind not in ("scoring", "linear"):
        raise JaxschedError(f"sched2: unknown network {kind!r}; known are {', '.join(NETWORKS)}")
    if not env.outlook:
        raise JaxschedError(f"sched2: the network {kind!r} reads the outlook; set env.outlook")
    return ScoringNetwork(env.window, *(((), ()) if kind == "linear" else ()))


PAPER_UPDATES = 8500  # of 512 steps: 2,400 episodes of 1,000 jobs, about 1,800 decisions each
AS_EVER: dict[str, Any] = {"delay_weight": 0.0, "max_backlog": 0}


@dataclass(frozen=True)
class VoidBias:
    """Exploration that is biased to void.

    Attributes:
      bias: added to the log-odds of void; 0 explores uniformly, as the learner does by itself.
    """

    bias: float = 0.0

    def __call__(self, env: Sched2) -> Any:
        """How actions that explore are drawn; None: as the learner does."""
        del env
        if self.bias == 0.0:
            return None

        def explore(key: PRNGKey, observation: PyTree, mask: Array) -> Array:
            del observation
            logits = jnp.where(mask, 0.0, -jnp.inf).at[..., -1].add(self.bias)
            return jax.random.categorical(key, logits).astype(jnp.int32)

        return explore


# The paper's budget.
PAPER = Recipe(
    env=Sched2(auto_advance=True, reward="dense", extras=True),
    traces=TraceSet("sched2-train-68", "sched2-test-68"),
    stages=(
        Stage(
            name="dqn",
            learner=DQNConfig(
                PAPER_UPDATES,
                gradient_steps=4,
                n_step=1,
                horizon_s=300.0,
                target_rate=0.005,
                learning_starts=10_000,
            ),
            loop=LoopConfig(num_envs=64, rollout_length=8, num_updates=PAPER_UPDATES),
            params=AS_EVER | {"max_backlog": 100},
            explore=VoidBias(),
            evaluate_every=250,
        ),
    ),
    network="positions",
    policy="dqn",
    checkpoint_every=2125,
)


def last_stage(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with fields of its last stage changed."""
    *before, stage = recipe.stages
    return replace(recipe, stages=(*before, replace(stage, **changes)))


# A few minutes on two cores: the same with fewer steps and a smaller replay.
(_PAPER,) = PAPER.stages
QUICK = last_stage(
    replace(PAPER, checkpoint_every=1250),
    loop=replace(_PAPER.loop, num_updates=2500),
    learner=replace(_PAPER.learner, capacity=150_000, learning_starts=5000),
)

# Every choice that the paper tells, the specification's values where it is silent, the mask of
# actions and the discount among them; for the record. 2,400 episodes of 1,000 jobs are about 7
# million decisions, those with void alone included.
LITERAL_UPDATES = 13_600
LITERAL = last_stage(
    replace(PAPER, env=Sched2(), network="paper", checkpoint_every=3400),
    loop=LoopConfig(num_envs=64, rollout_length=8, num_updates=LITERAL_UPDATES),
    learner=DQNConfig(LITERAL_UPDATES, gradient_steps=4, double=False),
    params=AS_EVER,
    evaluate_every=850,
)

# Six minutes on two cores: whole episodes of mixed load, from the strict_sif heuristic on. The
# length covers any episode of 1,000 jobs. Without automatic advance there are more steps, some of
# which have only void, but each takes less than half the time. Shorter episodes start empty and
# teach little of congestion.
SEARCH = Recipe(
    env=Sched2(reward="lost", outlook=True),
    traces=TraceSet("sched2-mixed", "sched2-test-68", "sched2-mixed", 512, 60),
    stages=(
        Stage(
            name="search",
            learner=EvolutionConfig(
                members=32,
                episodes=16,
                initial_std=0.2,
                follow="gradient",
                learning_rate=0.02,
                final_learning_rate=0.002,
                averaging=0.9,
                relative=0.85,
            ),
            loop=LoopConfig(
                num_envs=512, rollout_length=3000, num_updates=80, num_random_streams=16
            ),
            params=AS_EVER | {"delay_weight": 0.1},
            evaluate_every=20,
        ),
    ),
    network="linear",
    policy="search",
    checkpoint_every=40,
)

# The same in a minute, half of it compiling: only traces on which there is something to gain over
# strict_sif, half as many episodes a member, larger steps, a policy that follows them sooner. There
# are as many validation as test traces: one program plays both.
(_SEARCH,) = SEARCH.stages
SEARCH_SHORT = last_stage(
    replace(
        SEARCH,
        traces=TraceSet("sched2-congested", "sched2-congested", "sched2-congested", 256, 60, 60),
        checkpoint_every=24,
    ),
    learner=replace(
        _SEARCH.learner, episodes=8, learning_rate=0.05, final_learning_rate=0.01, averaging=0.7
    ),
    loop=replace(_SEARCH.loop, num_envs=256, num_updates=24, num_random_streams=8),
    evaluate_every=3,
)

PRESETS = {
    "quick": QUICK,
    "paper": PAPER,
    "literal": LITERAL,
    "search": SEARCH,
    "search-short": SEARCH_SHORT,
}


def _of_learner(config: DQNConfig | EvolutionConfig) -> tuple[str, ...]:
    """What differs in the learner; the paper tells no discount of its own."""
    if isinstance(config, EvolutionConfig):
        return ("search over whole episodes in place of the DQN",)
    lines = []
    if config.horizon_s is not None:
        lines.append(f"time-based discount, horizon {config.horizon_s:g} s (the paper has none)")
    elif config.gamma != 1:
        lines.append(f"discount {config.gamma:g} per decision (the paper has none)")
    if config.target_rate is not None:
        lines.append(f"target network follows by {config.target_rate:g} per gradient step")
    if config.n_step != 1:
        lines.append(f"{config.n_step}-step targets")
    return tuple(lines)


_SCORES = "network that scores each position and starts as strict_sif: "
DEPARTURES = Departures(
    paper=last_stage(replace(LITERAL, env=Sched2(free_choice=True)), learner=None),
    words={
        "env.outlook": {True: "extra features: outlook of each position"},
        "env.extras": {
            True: "extra features: level and effectiveness if started now, per position"
        },
        "network": {
            "scoring": f"{_SCORES}scoring",
            "linear": f"{_SCORES}linear",
            "positions": "network that shares weights between the positions",
        },
        "env.reward": {
            "dense": "dense reward (same undiscounted objective as the paper's)",
            "lost": "reward less 1 for each started job (the same sum less a constant)",
        },
        "env.profile": "profile entries: {}",
        "env.free_choice": {
            False: "actions that cannot be carried out are masked (the paper has no mask)"
        },
        "learner": _of_learner,
        "explore.bias": "exploration biased to void by {:g} (log-odds)",
        "params.delay_weight": "an hour of delay costs {:g} effectiveness",
        "episodes.scales": lambda scales: (
            f"load curriculum: interval scale {scales[0]:g} to {scales[-1]:g}",
        ),
        "params.max_backlog": "episodes restart once {} jobs wait beyond the window",
    },
)

FORMER_SETTINGS = {
    "curriculum.first_interval_scale": "episodes.scales",
    "curriculum.stages": "episodes.scales",
    "curriculum.fraction": "episodes.until",
    "max_backlog": "params.max_backlog",
    "void_bias": "explore.bias",
    "search.delay_weight": "params.delay_weight",
    "search.episode_jobs": "episodes.jobs",
}
"""Words of ``--set`` before recipes had named stages -> today's."""

NOTES = {
    "quick": PresetInfo(
        "a first look: as paper, with a third of its budget",
        "2 min on 2 CPU cores",
    ),
    "paper": PresetInfo(
        "the paper's learner (DQN) and budget, with changes that make it learn",
        "24 min on 2 CPU cores, three seeds together",
    ),
    "literal": PresetInfo(
        "what the paper tells, with a mask and a discount of ours: no better than its baselines",
        "6 min on 2 CPU cores",
    ),
    "search": PresetInfo(
        "the best results: 55 weights found by search over whole episodes of mixed load",
        "6 min on 2 CPU cores; five seeds 23 min",
    ),
    "search-short": PresetInfo(
        "the demo: search on congested traces alone, and ahead of the best rule on them",
        "1 min on 2 CPU cores",
    ),
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
