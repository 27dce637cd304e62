"""How DAS and its learned rivals are trained: recipes (their stages: ``stages.py``).

A recipe may begin with supervised learning from a heuristic (``imitation``), which the paper does
not have. Its rivals begin at what they replace: DL2 regresses first-come-first-served priorities
(section 9), RIFLING may learn to rank machines by load balance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from jaxsched.algorithms.branching_settings import BranchingConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.algorithms.ppo import PPOConfig
from jaxsched.algorithms.regression import AgentLoss, RegressionConfig
from jaxsched.core.policies import Play
from jaxsched.core.training import LoopConfig
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import NAMES
from jaxsched.envs.das.learning.agents import ORDERING, PLACEMENT
from jaxsched.envs.das.learning.kinds import (
    RULE_NAMES,
    Units,
)
from jaxsched.envs.das.learning.linear import StartOrder
from jaxsched.envs.das.learning.networks import DASNetwork
from jaxsched.envs.das.learning.scored import Beginning
from jaxsched.errors import JaxschedError
from jaxsched.systems.base import TraceSet

PolicyName = Literal["das", "dl2", "rifling", "linear", "scored"]
SEARCHED = ("linear", "scored")
EPISODE_JOBS = 1000
CRITICS = {
    "action": "critic of actions",
    "state": "critic of states",
    "whole": "critic of whole states",
}
RANKING_SCALE = 15.0
"""Of differences between the means of DAS' networks, which are squeezed into (-1, 1)."""


@dataclass(frozen=True)
class Imitation:
    """A supervised stage.

    Attributes:
      teacher: a heuristic, or the linear rule.
      loop: sizes.
      learner: settings of the regression.
    """

    teacher: str
    loop: LoopConfig
    learner: RegressionConfig


@dataclass(frozen=True)
class Search:
    """The search for a linear rule, or from one for a richer one (``scored``).

    Attributes:
      loop: ``num_envs`` is members times episodes; a rollout must hold a whole episode.
      learner: settings of the search.
      events_per_step: of the environment it plays in.
      order: of the linear rule that the search starts at: first come first served, or fewest
        GPUs first.
      begins: where the search for a richer rule starts.
    """

    loop: LoopConfig
    learner: EvolutionConfig
    events_per_step: int = 2
    order: StartOrder = "fifo"
    begins: Beginning = "linear"


@dataclass(frozen=True)
class Recipe:
    """Everything that a training run depends on besides its seed and job tables.

    Attributes:
      env: the cluster; its reward is what is learnt from.
      policy: what is trained: DAS, DL2's order, RIFLING's placement, a linear rule or a richer one.
      network: of DAS.
      traces: what is learnt on, chosen on and tested on.
      episode_jobs: jobs of an episode that is cut from a longer training table.
      starts_every: jobs between the starts of such episodes.
      imitation: supervised stage before reinforcement learning, if any.
      search: the only stage of a rule.
      reinforcement: whether there is a stage of reinforcement learning.
      loop: of that stage.
      learner: settings of MAPPO, or of branching.
      rivals: heuristics and rules whose actions branching tries beside the policy's own.
      draws: actions drawn from the policy that it tries.
      critic: of actions, as the paper's; of states, as they are observed; or of the whole state,
        which no policy sees. That of branching is of states, of the whole one if asked for.
      units: what counts in the losses: all positions that hold a job, or those whose part of the
        action has an effect (``effective.py``).
      scale_rates: arrival rates, relative to the tables', that training tables are stretched to;
        several ones show the policy several loads.
      relative_to: a heuristic or a rule; the dense reward then counts completion time and fee of
        each training episode relative to what it gets there. In absolute numbers if absent.
      fee_weight: of the relative fee, that of the relative completion time being 1.
      play: how the tested policy acts.
      evaluate_every: updates between evaluations on the validation traces.
      checkpoint_every: updates between checkpoints of the whole stage.
    """

    env: DAS = field(default_factory=lambda: DAS(sampling="random"))
    policy: PolicyName = "das"
    network: DASNetwork = field(default_factory=DASNetwork)
    traces: TraceSet = TraceSet("das-train", "das-test", "das-normal", num_validation=12)
    episode_jobs: int = EPISODE_JOBS
    starts_every: int = 1
    imitation: Imitation | None = None
    search: Search | None = None
    reinforcement: bool = True
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(64, 64, 400))
    learner: PPOConfig | BranchingConfig = field(
        default_factory=lambda: PPOConfig(
            total_updates=400,
            epochs=4,
            num_minibatches=4,
            sequence_length=64,
            gamma_per="decision",
            gamma=0.98,
            learning_rate=1e-4,
            final_learning_rate=1e-4,
            entropy_start=0.03,
            entropy_end=0.03,
        )
    )
    rivals: tuple[str, ...] = ()
    draws: int = 0
    critic: Literal["action", "state", "whole"] = "action"
    units: Units = "real"
    scale_rates: tuple[float, ...] = (1.0,)
    relative_to: str | None = None
    fee_weight: float = 1.0
    play: Play = "greedy"
    evaluate_every: int = 20
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        """Check that the parts go together."""
        if (self.policy in SEARCHED) != (self.search is not None):
            raise JaxschedError("das: a linear rule, and only that, is found by a search")
        if self.search is not None:
            batch = self.search.learner.batch
            if self.search.loop.num_envs != batch:
                raise JaxschedError(
                    f"das: search.loop.num_envs is {self.search.loop.num_envs}; accepted: {batch}, "
                    "members times episodes"
                )
        if not self.loops:
            raise JaxschedError("das: there is nothing to train")
        tries = isinstance(self.learner, BranchingConfig)
        if self.draws < 0 or tries != bool(self.rivals or self.draws):
            raise JaxschedError(
                f"das: rivals are {self.rivals} and draws {self.draws}; accepted: one or more for "
                "branching, none for another learner"
            )
        if self.imitation is not None:
            check_heuristic("imitation.teacher", self.imitation.teacher, (*NAMES, *RULE_NAMES))
        for name in self.rivals:
            check_heuristic("rivals", name, (*NAMES, *RULE_NAMES))
        if self.relative_to is not None:
            check_heuristic("relative_to", self.relative_to, (*NAMES, *RULE_NAMES))
            if self.env.reward != "dense":
                raise JaxschedError(
                    f"das: relative_to needs the dense reward; env.reward is {self.env.reward!r}"
                )

    @property
    def loops(self) -> list[LoopConfig]:
        """The loop of each stage."""
        if self.search is not None:
            return [self.search.loop]
        loops = [] if self.imitation is None else [self.imitation.loop]
        return [*loops, self.loop] if self.reinforcement else loops


def check_heuristic(field: str, name: str, known: Sequence[str]) -> None:
    """Refuse a heuristic that is not there."""
    if name not in known:
        raise JaxschedError(f"das: {field} is {name!r}; known are {', '.join(known)}")


def imitation_losses(policy: PolicyName) -> tuple[AgentLoss, ...]:
    """What each policy learns of a teacher."""
    order, place = AgentLoss(ORDERING, "ranking"), AgentLoss(PLACEMENT, "ranking")
    losses: dict[str, tuple[AgentLoss, ...]] = {
        "das": (order, place),
        "dl2": (AgentLoss(ORDERING, "squared"),),
        "rifling": (place,),
    }
    return losses.get(policy, ())


def variants(recipe: Recipe) -> tuple[str, ...]:
    """What differs from the paper's own recipe, one line each."""
    paper, lines = Recipe(), []
    if recipe.search is not None:
        search, what = recipe.search, "a linear rule found by search in parameter space"
        if recipe.policy == "scored":
            return (f"a rule found by search over whole episodes from {search.begins}",)
        return (f"{what} from {search.order}",)
    if recipe.policy == "das" and recipe.network != paper.network:
        changed = [
            f"{name} {value}"
            for name, value in vars(recipe.network).items()
            if value != getattr(paper.network, name)
        ]
        lines.append(f"network: {', '.join(changed)}")
    if recipe.env.reward != paper.env.reward:
        lines.append("dense reward")
    if recipe.relative_to is not None:
        lines.append(f"reward relative to {recipe.relative_to}, fee weighted {recipe.fee_weight:g}")
    if recipe.env.sampling != paper.env.sampling:
        lines.append("the window holds the first jobs in training, too")
    if recipe.imitation is not None:
        lines.append(
            f"warm start from {recipe.imitation.teacher} "
            f"({recipe.imitation.loop.num_updates} updates)"
        )
    if recipe.scale_rates != paper.scale_rates:
        lines.append(f"arrival rates {', '.join(f'{r:g}' for r in recipe.scale_rates)}")
    if recipe.units != paper.units:
        lines.append("only units of an action that have an effect count in the losses")
    if recipe.reinforcement:
        lines += _learner_variants(recipe, paper)
    else:
        lines.append("no reinforcement learning")
    return tuple(lines)


def _learner_variants(recipe: Recipe, paper: Recipe) -> list[str]:
    """What differs in how reinforcement learns."""
    lines = []
    if recipe.loop != paper.loop:
        sizes = f"{recipe.loop.num_envs} environments x {recipe.loop.rollout_length} steps"
        lines.append(f"{recipe.loop.num_updates} updates of {sizes}")
    ours, theirs = recipe.learner, paper.learner
    if not isinstance(ours, PPOConfig):
        tried = [*recipe.rivals, *([f"{recipe.draws} draws"] if recipe.draws else [])]
        closed = ""
        if ours.critic:
            closed = f", closed by a {CRITICS['whole' if recipe.critic == 'whole' else 'state']}"
        return [*lines, f"branching over {', '.join(tried)}{closed} in place of MAPPO"]
    if recipe.critic != paper.critic:
        lines.append(CRITICS[recipe.critic])
    for words, names in (
        ("discount", ("gamma",)),
        ("GAE lambda", ("lambda_",)),
        ("learning rate", ("learning_rate", "final_learning_rate")),
        ("entropy weight", ("entropy_start", "entropy_end")),
        ("epochs", ("epochs",)),
    ):
        values = [getattr(ours, name) for name in names]
        if values != [getattr(theirs, name) for name in names]:
            lines.append(f"{words} {' to '.join(f'{value:g}' for value in dict.fromkeys(values))}")
    if ours.horizon_s is not None:
        lines.append(f"discount by time, horizon {ours.horizon_s:g} s")
    return lines
