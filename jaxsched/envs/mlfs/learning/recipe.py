"""How MLF-RL is trained: imitation of MLF-H, then policy gradient (specification, section 10)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.algorithms.imitation import ImitationConfig, imitation
from jaxsched.algorithms.ppo import PPOConfig, ppo
from jaxsched.core.policies import Play, Policy, View, no_memory
from jaxsched.core.training import LoopConfig
from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.heuristics import heuristic
from jaxsched.envs.mlfs.learning.linear import linear_host
from jaxsched.envs.mlfs.learning.networks import (
    HIDDEN_FROM_RL,
    PairWeights,
    ServerPolicy,
    ServerValue,
)
from jaxsched.envs.mlfs.simulator.tables import WEIGHTS
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.networks.described import Described
from jaxsched.systems.parts import TraceSet, TrainingSetup, always
from jaxsched.systems.search import searching
from jaxsched.types import Array, PRNGKey, PyTree
from jaxsched.wrappers.teacher import TaughtEnvironment

HORIZON_S = 1169.7  # eta = 0.95 per slot of 60 s
RETURN_SPAN_S = 3600.0  # t_m = 60 slots

SLOT_EVERY = 4
"""Of the environments that are learned in: the fastest with 64 of them."""

NetworkKind = Literal["servers", "rl", "pairs"]
HIDDEN: dict[str, tuple[str, ...]] = {"servers": (), "rl": HIDDEN_FROM_RL}
"""Entries of the task that each kind of network of servers does not see."""
PAIRS: NetworkKind = "pairs"


@dataclass(frozen=True)
class Imitation:
    """The supervised stage: a rule shows what it would do.

    Attributes:
      teacher: ``heuristic``, that of the environment's order, or the ``linear`` rule.
      loop: sizes.
      learner: settings; ``total_updates`` follows ``loop.num_updates``.
      evaluate_every: updates between evaluations.
    """

    teacher: Literal["heuristic", "linear"] = "heuristic"
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(64, 64, 300))
    learner: ImitationConfig = field(
        default_factory=lambda: ImitationConfig(
            300,
            gradient_steps=4,
            batch_size=1024,
            student_share=0.0,
            learning_rate=1e-3,
            final_learning_rate=1e-4,
        )
    )
    evaluate_every: int = 100


@dataclass(frozen=True)
class Recipe:
    """Everything that a training run depends on besides its seed and job tables.

    Attributes:
      env: the cluster and the order in which tasks are offered; its reward is learned from.
      traces: what is learned on, chosen on and tested on.
      network: ``servers``, that of the baseline ``rl``, which sees less, or ``pairs``, the weights
        of slots.
      imitation: the first stage; none if absent.
      reinforcement: whether there is a second stage.
      search: search over whole episodes in place of both stages; ``loop`` then has its
        sizes, and episodes are cut at its length.
      loop: of the second stage.
      learner: settings of PPO; ``total_updates`` follows ``loop.num_updates``.
      play: whether the tested policy takes the best action or draws one.
      evaluate_every: updates of the second stage between evaluations.
      checkpoint_every: updates between checkpoints of a stage.
    """

    env: MLFS = field(default_factory=lambda: MLFS(slot_every=SLOT_EVERY))
    traces: TraceSet = TraceSet("mlfs-small-mixed", "mlfs-small-x3", "mlfs-small-x3", 60, 8, 8)
    network: NetworkKind = "servers"
    imitation: Imitation | None = field(default_factory=Imitation)
    reinforcement: bool = True
    search: EvolutionConfig | None = None
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(64, 256, 200))
    learner: PPOConfig = field(
        default_factory=lambda: PPOConfig(
            200,
            epochs=2,
            num_minibatches=8,
            horizon_s=HORIZON_S,
            return_span_s=RETURN_SPAN_S,
            learning_rate=3e-4,
            final_learning_rate=3e-5,
            entropy_start=0.01,
            entropy_end=0.01,
        )
    )
    play: Play = "greedy"
    evaluate_every: int = 20
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        """Check that there is something to train."""
        check_kind(self.env, self.network)
        if self.env.by_slot != (self.search is not None):
            raise JaxschedError("mlfs: weights of slots are learned by search, nothing else is")
        if self.search is None and self.imitation is None and not self.reinforcement:
            raise JaxschedError("mlfs: there is nothing to train")

    @property
    def loops(self) -> list[LoopConfig]:
        """Sizes of the stages."""
        if self.search is not None:
            return [self.loop]
        stages = [] if self.imitation is None else [self.imitation.loop]
        return [*stages, self.loop] if self.reinforcement else stages


def check_kind(env: MLFS, kind: str) -> None:
    """Refuse a kind of network that does not answer what the environment asks.

    Raises:
      JaxschedError: no such kind, or not of this environment.
    """
    known = [PAIRS] if env.by_slot else list(HIDDEN)
    if kind not in known:
        raise JaxschedError(f"mlfs: unknown network {kind!r}; known are {', '.join(known)}")


def policy_network(env: MLFS, kind: str) -> Described:
    """The policy network of that kind.

    Raises:
      JaxschedError: no such kind, or not of this environment.
    """
    check_kind(env, kind)
    if kind == PAIRS:
        return PairWeights()
    return ServerPolicy(env.num_servers, hidden_inputs=HIDDEN[kind])


def stages_of(recipe: Recipe, tables: Sequence[JobTable], policy: Policy) -> list[TrainingSetup]:
    """The stages of a recipe.

    Args:
      recipe: the recipe.
      tables: training episodes.
      policy: of the network's weights, in the environment that it is played in.
    """
    env, network = recipe.env, policy_network(recipe.env, recipe.network)
    common: dict[str, Any] = dict(
        play_env=env,
        params_at=always(env.params(list(tables))),
        policy=policy,
        play=recipe.play,
        network=recipe.network,
        checkpoint_every=recipe.checkpoint_every,
        variants=variants(recipe),
    )
    if recipe.search is not None:
        settings = replace(recipe.search, total_updates=recipe.loop.num_updates)
        learner = search_of(network, settings, lambda scores, mask: scores)
        learns = searching(env, learner, recipe.loop, stretch=True)
        return [TrainingSetup(**learns, evaluate_every=recipe.evaluate_every, **common)]
    stages = []
    if recipe.imitation is not None:
        stage = recipe.imitation
        teacher = linear_host(env) if stage.teacher == "linear" else heuristic(env)
        shown = replace(stage.learner, total_updates=stage.loop.num_updates)
        stages.append(
            TrainingSetup(
                name="imitation",
                env=TaughtEnvironment(env, teacher),
                learner=imitation(network, shown),
                loop=stage.loop,
                gradient_steps=shown.gradient_steps,
                evaluate_every=stage.evaluate_every,
                **common,
            )
        )
    if recipe.reinforcement:
        config = replace(recipe.learner, total_updates=recipe.loop.num_updates)
        value = ServerValue(env.num_servers, hidden_inputs=HIDDEN[recipe.network])
        stages.append(
            TrainingSetup(
                name="ppo",
                env=env,
                learner=ppo(network, value, config),
                loop=recipe.loop,
                gradient_steps=config.gradient_steps,
                evaluate_every=recipe.evaluate_every,
                **common,
            )
        )
    return stages


@lru_cache(maxsize=64)
def weights_policy(name: str, network: Described) -> Policy:
    """The policy whose actions are the network's scores; the same object at each call."""

    def act(weights: PyTree, memory: PyTree, view: View, key: PRNGKey) -> tuple[Array, PyTree]:
        del key
        action: Any = network.apply(weights, view.observation)
        return action, memory

    return Policy(name, no_memory, act)


def variants(recipe: Recipe) -> tuple[str, ...]:
    """What differs from the paper's own recipe, one line each."""
    lines = []
    weights = {name: getattr(recipe.env, name) for name in WEIGHTS}
    changed = {name: value for name, value in weights.items() if value != WEIGHTS[name]}
    if changed:
        words = ", ".join(f"{name} {value}" for name, value in changed.items())
        lines.append(f"tasks are offered by priorities with other weights (per cent): {words}")
    if recipe.search is not None:
        return (*lines, "weights of pairs of task and server, found by search over whole episodes")
    if recipe.imitation is None:
        lines.append("no imitation of MLF-H")
    elif recipe.imitation.teacher == "linear":
        lines.append("imitates a linear rule found by search in place of MLF-H's choice of servers")
    if recipe.env.reward == "progress":
        lines.append("reward: work of ended instances over the remaining work of their jobs")
    if not recipe.reinforcement:
        lines.append("imitation only")
    if recipe.network == "rl":
        lines.append("sees neither urgency, deadline, size, loss nor priority")
    if recipe.reinforcement and recipe.learner.return_span_s != RETURN_SPAN_S:
        lines.append(
            f"discounted over {recipe.learner.horizon_s:g} s, lambda {recipe.learner.lambda_:g} by "
            f"slot and {recipe.learner.step_lambda:g} by decision"
        )
    return tuple(lines)
