"""How MLF-RL and the baseline RL are trained: networks and recipes (specification, section 10).

The paper gives no architecture. Here every server is read by the same layers, together with the
cluster and the task on offer; the queue is scored from the mean of what they make of the servers.
So weights do not depend on the number of servers, and the order of servers carries no meaning:
permuting them permutes their logits.

Axes: ``...`` any leading axes, ``S`` servers, ``I`` entries of cluster and task that are read,
``H`` width of the last hidden layer.
"""

from dataclasses import fields, replace
from typing import Any

import flax.linen as nn
import numpy as np

from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.imitation import ImitationConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.mlfs.environment import MLFS, PRIORITIES
from jaxsched.envs.mlfs.plans import (
    DRAWN_PAIRS,
    DRAWN_WEIGHTS,
    KINDS,
    OF_SLOTS,
    PAIRS,
    PairWeights,
)
from jaxsched.envs.mlfs.rules.observation import NUM_GLOBAL, NUM_SERVER, NUM_TASK, TASK_NAMES
from jaxsched.envs.mlfs.rules.tables import REWARD_WEIGHTS
from jaxsched.errors import JaxschedError
from jaxsched.networks import description as nd
from jaxsched.networks.exportable import ExportableModule
from jaxsched.networks.mlp import ValueMLP, sizes_of
from jaxsched.systems.departures import Departures
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.types import Array

HIDDEN_FROM_RL = ("urgency", "loss_share", "size", "time_left", "priority")
"""Entries of the task that the baseline ``rl`` does not see (specification, section 9)."""

HIDDEN: dict[str, tuple[str, ...]] = {"servers": (), "rl": HIDDEN_FROM_RL}
"""Entries of the task that each kind of network of servers does not see."""

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


def policy_network(env: MLFS, kind: str) -> ExportableModule:
    """The policy network of that kind.

    Raises:
      JaxschedError: no such kind, or one that does not answer what the environment asks.
    """
    _check_kind(kind, list(KINDS if env.by_slot else HIDDEN))
    if kind in KINDS:
        return PairWeights()
    return ServerPolicy(env.num_servers, hidden_inputs=HIDDEN[kind])


def value_network(env: MLFS, kind: str) -> ExportableModule:
    """The value network that goes with a policy network of servers, or widths as ``mlp-64``.

    Raises:
      JaxschedError: no such kind, or one of slots: ``pairs`` are learned by search, and the value
        of plans that are drawn is that of ``policy_model``.
    """
    if env.by_slot:
        raise JaxschedError(OF_SLOTS)
    if kind.startswith("mlp-"):
        return ValueMLP(sizes_of(kind))
    _check_kind(kind, list(HIDDEN))
    return ServerValue(env.num_servers, hidden_inputs=HIDDEN[kind])


def _check_kind(kind: str, known: list[str]) -> None:
    if kind not in known:
        raise JaxschedError(f"mlfs: unknown network {kind!r}; known are {', '.join(known)}")


HORIZON_S = 1169.7  # eta = 0.95 per slot of 60 s
RETURN_SPAN_S = 3600.0  # t_m = 60 slots

SLOT_EVERY = 4
"""Of the environments that are learned in: the fastest with 64 of them."""

TUNED: dict[str, Any] = dict(
    importance_share=20,
    children_share=0,
    deadline_weight=3,
    remaining_weight=1000,
    waiting_weight=10,
    waiting_unit="hour",
)
"""Weights of priorities that do better than the paper's, found on training workloads
(``benchmarks/once/mlfs_search.py``): nearly the shortest remaining job first. The
unit is that of the search."""

IMITATION = Stage(
    name="imitation",
    learner=ImitationConfig(
        300,
        gradient_steps=4,
        batch_size=1024,
        student_share=0.0,
        learning_rate=1e-3,
        final_learning_rate=1e-4,
    ),
    loop=LoopConfig(64, 64, 300),
    teacher="heuristic",
    evaluate_every=100,
)
PAPER = Recipe(
    env=MLFS(slot_every=SLOT_EVERY),
    traces=TraceSet("mlfs-small-mixed", "mlfs-small-x3", "mlfs-small-x3", 60, 8, 8),
    stages=(
        IMITATION,
        Stage(
            name="ppo",
            learner=PPOConfig(
                200,
                epochs=2,
                num_minibatches=8,
                horizon_s=HORIZON_S,
                return_span_s=RETURN_SPAN_S,
                learning_rate=3e-4,
                final_learning_rate=3e-5,
                entropy_start=0.01,
                entropy_end=0.01,
            ),
            loop=LoopConfig(64, 256, 200),
            params=REWARD_WEIGHTS,
            evaluate_every=20,
        ),
    ),
    network="servers",
    policy="mlf_rl",
    checkpoint_every=100,
)

# From the paper's recipe nothing is learned beyond the imitation: what one placement is worth
# drowns in the jobs that happen to end within the hour. Work done over the work left tells within
# minutes.
QUICK = replace(
    PAPER,
    env=replace(PAPER.env, **TUNED, reward="progress"),
    stages=(
        replace(IMITATION, teacher="linear"),
        Stage(
            name="ppo",
            learner=PPOConfig(
                120,
                epochs=2,
                num_minibatches=8,
                horizon_s=600.0,
                lambda_=0.9,
                step_lambda=0.95,
                reward_scale=500.0,
                learning_rate=5e-4,
                final_learning_rate=5e-5,
                entropy_start=0.001,
                entropy_end=0.0,
            ),
            loop=LoopConfig(64, 256, 120),
            evaluate_every=40,
        ),
    ),
)
RL = replace(
    PAPER,
    env=MLFS(order="fifo", reward="backlog", slot_every=SLOT_EVERY),
    network="rl",
    policy="rl",
)

# It starts as MLF-H with the weights found, but with the time that a task loses on a server taken
# off. Two days of an episode show the backlog that a good choice of servers avoids, one does not.
SEARCH = Recipe(
    env=MLFS(decide="slot", reward="service", **TUNED),
    traces=TraceSet("mlfs-small-x3", "mlfs-small-x3", "mlfs-small-x3", 128, 8, 8),
    stages=(
        Stage(
            name="search",
            learner=EvolutionConfig(
                members=12,
                episodes=3,
                initial_std=0.12,
                follow="gradient",
                learning_rate=0.08,
                final_learning_rate=0.02,
                averaging=0.8,
            ),
            loop=LoopConfig(num_envs=36, rollout_length=3000, num_updates=16, num_random_streams=3),
            evaluate_every=16,
            cut=True,
        ),
    ),
    network=PAIRS,
    policy="mlf_rl",
    checkpoint_every=2,
)

# The paper's action is the plan of a slot: which task goes where, who leaves. By policy gradient
# from MLF-H at the printed weights on, with the paper's reward and span.
PLANNED = replace(
    PAPER,
    env=MLFS(decide="slot"),
    traces=SEARCH.traces,
    stages=(
        Stage(
            name="ppo",
            learner=PPOConfig(
                100,
                epochs=4,
                num_minibatches=4,
                horizon_s=HORIZON_S,
                return_span_s=RETURN_SPAN_S,
                learning_rate=3e-3,
                final_learning_rate=3e-4,
                entropy_start=0.0,
                entropy_end=0.0,
            ),
            loop=LoopConfig(32, 128, 100),
            network_options={"start_std": 0.0},
            params=REWARD_WEIGHTS,
            evaluate_every=20,
        ),
    ),
    network=DRAWN_WEIGHTS,
)

# The same, each plan drawn pair by pair.
BY_PAIR = replace(PLANNED, network=DRAWN_PAIRS)

PRESETS = {
    "quick": QUICK,
    "paper": PAPER,
    "rl": RL,
    "search": SEARCH,
    "plan": PLANNED,
    "plan-pairs": BY_PAIR,
}


def _of_environment(env: MLFS) -> tuple[str, ...]:
    changed = {
        name: getattr(env, name)
        for name, usual in PRIORITIES.items()
        if getattr(env, name) != usual
    }
    words = ", ".join(f"{name} {value}" for name, value in changed.items())
    said = f"tasks are offered by priorities with other weights (per cent) or units: {words}"
    return (said,) if changed else ()


def _of_learner(config: Any) -> tuple[str, ...]:
    if not isinstance(config, PPOConfig) or config.return_span_s == RETURN_SPAN_S:
        return ()
    return (
        f"discounted over {config.horizon_s:g} s, lambda {config.lambda_:g} by slot and "
        f"{config.step_lambda:g} by decision",
    )


def _of_start(start_std: float) -> tuple[str, ...]:
    return (f"the weights begin at random, with deviation {start_std:g}",) if start_std else ()


DEPARTURES = Departures(
    paper=PAPER,
    words={
        "env": _of_environment,
        "imitation.skip": {True: "no imitation of MLF-H"},
        "imitation.teacher": {
            "linear": "imitates a linear rule found by search in place of MLF-H's choice of servers"
        },
        "env.reward": {
            "progress": "reward: work of ended instances over the remaining work of their jobs",
            "standing": "reward: Equation 7 over all jobs in the system",
        },
        "ppo.skip": {True: "imitation only"},
        "network": {
            "rl": "sees neither urgency, deadline, size, loss nor priority",
            PAIRS: "weights of pairs of task and server, found by search over whole episodes",
            DRAWN_WEIGHTS: "weights of pairs of task and server, drawn for each slot",
            DRAWN_PAIRS: "a plan is drawn pair by pair, by weights of pairs of task and server",
        },
        "network_options.start_std": _of_start,
        "params.completion_reward": "reward: weight of completion times (beta 1) {:g}",
        "params.deadline_reward": "reward: weight of deadlines met (beta 2) {:g}",
        "params.traffic_cost": "reward: weight of traffic (beta 3) {:g}",
        "params.target_reward": "reward: weight of accuracy targets met (beta 4) {:g}",
        "params.accuracy_reward": "reward: weight of accuracy (beta 5) {:g}",
        "learner": _of_learner,
    },
)

FORMER_SETTINGS = {
    "reinforcement": "ppo.skip, true where that was false",
    **{f"search.{one.name}": f"search.learner.{one.name}" for one in fields(EvolutionConfig)},
}
"""Words of ``--set`` before recipes had named stages -> today's."""

NOTES = {
    "quick": PresetInfo(
        "a network: imitation of linear, then PPO on the work done",
        "16 min on 2 CPU cores, three seeds together",
    ),
    "paper": PresetInfo(
        "the paper's recipe: imitation of MLF-H, then PPO; nothing is learned beyond the imitation",
        "15 min on 2 CPU cores, three seeds together",
    ),
    "rl": PresetInfo("the paper's baseline RL, of Mirhoseini et al."),
    "plan": PresetInfo(
        "the plan of a slot by policy gradient: 29 weights of pairs of task and server, drawn for "
        "each slot, from MLF-H on",
        "20 min on 2 CPU cores beside other work, two seeds together",
    ),
    "plan-pairs": PresetInfo("the same, each plan drawn pair by pair (Plackett-Luce)"),
    "search": PresetInfo(
        "the best results: 29 weights of pairs of task and server, by search over whole episodes",
        "35 min on 2 CPU cores, three seeds together",
    ),
}
"""What each recipe is for; times as ``benchmarks/results`` has them."""
