"""How Chic is trained: presets (specification, section 10) and what they build."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import jax.numpy as jnp

from jaxsched.algorithms.cross_entropy import CrossEntropyConfig, cross_entropy
from jaxsched.core.learner import Learner
from jaxsched.core.policies import Play
from jaxsched.core.training import LoopConfig
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.tables import Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable
from jaxsched.networks.mlp import MLP, sizes_of
from jaxsched.systems.parts import TraceSet, always
from jaxsched.wrappers.fixed_length import FixedLength

PAPER_HIDDEN = (64, 32, 4)
ITERATIONS = 400
MAX_STEPS = 1024  # of a trajectory in training
INERT_STEPS = 6144  # where void is inert: the longest of 512 of random play had 4147
EMPTY_ROW_PENALTY = 5.0  # p1
FIRST_UNIT_COST = 1.0  # p2


@dataclass(frozen=True)
class Recipe:
    """Everything that a training run of Chic depends on besides its seed and job tables.

    Attributes:
      env: the environment; ``free_choice`` lets the policy choose pointless actions.
      traces: what is learnt on, chosen on and tested on.
      loop: ``num_envs`` trajectories of at most ``rollout_length`` steps per iteration; the usual
        1024 become 6144 where ``env.void_outside`` is inert, for a trajectory that is cut teaches
        nothing.
      learner: settings of the cross-entropy method.
      hidden: widths of the policy's hidden layers.
      dropout: on the first of them, in updates.
      common_sequence: all trajectories of an iteration run the same training sequence, so that
        elites are told by what was done, not by what arrived.
      punish_empty: p1, for choosing a row without workload.
      punish_first: p2, for the first unit of a workload, paid back once it can train.
      play: whether the tested policy draws its actions, as the paper's does.
      evaluate_every: iterations between evaluations on the validation traces.
      checkpoint_every: iterations between checkpoints of the whole run.
    """

    env: Chic = field(default_factory=lambda: Chic(free_choice=True))
    traces: TraceSet = TraceSet(
        "chic-1.80", "chic-1.80", "chic-1.80", num_train=1000, num_validation=30, num_test=30
    )
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(36, MAX_STEPS, ITERATIONS))
    learner: CrossEntropyConfig = field(default_factory=lambda: CrossEntropyConfig(dropout=True))
    hidden: tuple[int, ...] = PAPER_HIDDEN
    dropout: float = 0.5
    common_sequence: bool = False
    punish_empty: float = EMPTY_ROW_PENALTY
    punish_first: float = FIRST_UNIT_COST
    play: Play = "sampled"
    evaluate_every: int = 2
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        """Make room for long trajectories; check that the learner's are the environments."""
        if self.env.void_outside == "inert" and self.loop.rollout_length == MAX_STEPS:
            object.__setattr__(self, "loop", replace(self.loop, rollout_length=INERT_STEPS))
        if self.loop.num_envs != self.learner.batch:
            raise JaxschedError(
                f"chic: loop.num_envs is {self.loop.num_envs}; accepted: {self.learner.batch}, "
                "the trajectories of an iteration (learner.num_trajectories + learner.num_uniform)"
            )


def network_of(env: Chic, hidden: Sequence[int], dropout: float = 0.0) -> MLP:
    """The policy network: logits of all actions."""
    return MLP(env.void + 1, tuple(hidden), dropout)


def network_name(hidden: Sequence[int]) -> str:
    """The kind of a network, such as ``mlp-64-32-4``."""
    return "-".join(["mlp", *map(str, hidden)])


def hidden_of(kind: str) -> tuple[int, ...]:
    """The widths of a fully connected network, ``paper`` or as ``mlp-64-32``."""
    return PAPER_HIDDEN if kind == "paper" else sizes_of(kind)


def learner_of(recipe: Recipe) -> Learner:
    """The cross-entropy method of a recipe."""
    network = network_of(recipe.env, recipe.hidden, recipe.dropout)
    config = replace(recipe.learner, dropout=recipe.learner.dropout and recipe.dropout > 0)
    return cross_entropy(network, config)


def training_env(recipe: Recipe) -> FixedLength:
    """The environment in which each column of a rollout is one whole episode."""
    return FixedLength(recipe.env, recipe.loop.rollout_length)


def params_of(recipe: Recipe, tables: Sequence[JobTable]) -> Callable[[float], Params]:
    """Function of the training progress that gives the environment's parameters."""
    params = recipe.env.params(tables, p1=recipe.punish_empty, p2=recipe.punish_first)
    if not recipe.common_sequence:
        return always(params)

    def params_at(progress: float) -> Params:
        iteration = round(progress * recipe.loop.num_updates)
        return params._replace(draw=jnp.array([iteration % len(tables), 1], jnp.int32))

    return params_at


def variants(recipe: Recipe) -> tuple[str, ...]:
    """What differs from the paper's own recipe, one line each."""
    paper = Recipe()
    lines = []
    if not recipe.env.free_choice:
        lines.append("pointless actions are masked")
    if recipe.env.void_outside != "inert":
        lines.append("void ends the decision phase, which in the paper its two conditions alone do")
    if recipe.hidden != paper.hidden:
        lines.append(f"policy network of {network_name(recipe.hidden)[4:]}")
    if recipe.dropout != paper.dropout or not recipe.learner.dropout:
        rate = recipe.dropout if recipe.learner.dropout else 0.0
        lines.append(f"dropout {rate:g}")
    for name, words in (
        ("num_trajectories", "trajectories of the policy per iteration"),
        ("num_uniform", "uniformly random trajectories per iteration"),
        ("rho", "share of elites"),
        ("bound_rank", "rank of the elite bound"),
        ("inner_steps", "gradient steps per iteration"),
        ("learning_rate", "learning rate"),
        ("alpha", "smoothing"),
    ):
        if getattr(recipe.learner, name) != getattr(paper.learner, name):
            lines.append(f"{words}: {getattr(recipe.learner, name):g}")
    if recipe.common_sequence:
        lines.append("all trajectories of an iteration run the same sequence")
    if recipe.play != paper.play:
        lines.append("the tested policy takes the most likely action")
    return tuple(lines)
