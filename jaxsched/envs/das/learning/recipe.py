"""How DAS and its learned rivals are trained: recipes and the stages that they build.

A recipe may begin with supervised learning from a heuristic (``imitation``), which the paper does
not have. Its rivals begin at what they replace: DL2 regresses first-come-first-served priorities
(section 9), RIFLING may learn to rank machines by load balance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal

import jax.numpy as jnp

from jaxsched.algorithms.critics import Critic, action_value, state_value
from jaxsched.algorithms.evolution import EvolutionConfig, evolution
from jaxsched.algorithms.ppo import PPOConfig, mappo
from jaxsched.algorithms.regression import AgentLoss, RegressionConfig, regression
from jaxsched.core.policies import Play
from jaxsched.core.training import LoopConfig
from jaxsched.envs.das import records as rec
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.heuristics import NAMES
from jaxsched.envs.das.learning.agents import ORDERING, PLACEMENT
from jaxsched.envs.das.learning.critic import ActionValue, StateValue, critic_features
from jaxsched.envs.das.learning.kinds import (
    RULE_NAMES,
    Units,
    agents_of,
    kind_of,
    learning_env,
    policy_named,
    teacher_of,
)
from jaxsched.envs.das.learning.linear import StartOrder, decide_linear, init_linear
from jaxsched.envs.das.learning.networks import DASNetwork
from jaxsched.envs.das.learning.scored import Beginning, beginning, decide_scored
from jaxsched.envs.das.simulator.tables import Params
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.jobs.pieces import piece_starts, pieces
from jaxsched.systems.base import TraceSet, TrainingSetup
from jaxsched.systems.search import searching
from jaxsched.wrappers.teacher import TaughtEnvironment

PolicyName = Literal["das", "dl2", "rifling", "linear", "scored"]
SEARCHED = ("linear", "scored")
EPISODE_JOBS = 1000


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
      learner: settings of MAPPO.
      critic: of actions, as the paper's, or of states.
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
    learner: PPOConfig = field(
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
    critic: Literal["action", "state"] = "action"
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
        if self.imitation is not None:
            check_heuristic("imitation.teacher", self.imitation.teacher, (*NAMES, *RULE_NAMES))
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


def stages_of(recipe: Recipe, tables: Sequence[JobTable], policy: Any) -> list[TrainingSetup]:
    """The stages of a recipe.

    Args:
      recipe: the recipe.
      tables: training tables.
      policy: what the network's parameters play as.
    """
    params_at = params_of(recipe, tables)
    common = {
        "play_env": play_env(recipe),
        "params_at": params_at,
        "policy": policy,
        "play": recipe.play,
        "network": kind_of(recipe.policy, recipe.network),
        "variants": variants(recipe),
        "evaluate_every": recipe.evaluate_every,
        "checkpoint_every": recipe.checkpoint_every,
    }
    if recipe.search is not None:
        return [_search_stage(recipe, recipe.search, common)]
    stages = []
    if recipe.imitation is not None:
        stages.append(_imitation_stage(recipe, recipe.imitation, common))
    if recipe.reinforcement:
        stages.append(_mappo_stage(recipe, common))
    return stages


def play_env(recipe: Recipe) -> DAS:
    """Where policies are scored and tested: first jobs in the window, decision by decision."""
    return replace(recipe.env, sampling="first", events_per_step=0)


def params_of(recipe: Recipe, tables: Sequence[JobTable]) -> Callable[[float], Params]:
    """Function of the training progress that gives the environment's parameters.

    They are made when they are asked for first: a heuristic may have to play all tables for them.
    """
    made = cache(partial(_params, recipe, tables))
    return lambda progress: made()


def _params(recipe: Recipe, tables: Sequence[JobTable]) -> Params:
    stream = [stretched(table, rate) for rate in recipe.scale_rates for table in tables]
    if recipe.relative_to is not None:
        episodes = pieces(stream, recipe.episode_jobs, recipe.starts_every)
        return relative_params(recipe.env, episodes, recipe.relative_to, recipe.fee_weight)
    if len(stream) == 1 and len(stream[0]) > recipe.episode_jobs:
        starts = piece_starts(len(stream[0]), recipe.episode_jobs, recipe.starts_every)
        return recipe.env.params(stream, starts=starts, episode_jobs=recipe.episode_jobs)
    return recipe.env.params(pieces(stream, recipe.episode_jobs, recipe.starts_every))


def relative_params(
    env: DAS, tables: Sequence[JobTable], heuristic: str, fee_weight: float
) -> Params:
    """Parameters under which the dense reward is relative to a heuristic, table by table.

    The return of an episode is then minus ``dense_scale`` times (completion time over the
    heuristic's plus ``fee_weight`` times fee over the heuristic's).
    """
    params = env.params(list(tables))
    plain = replace(env, sampling="first", events_per_step=2)
    found = rec.play(plain, policy_named(heuristic, plain), params)
    return params._replace(
        jct_ref_min=jnp.asarray(found["avg_jct_min"], jnp.float32),
        fee_ref=jnp.asarray(found["avg_fee"] / fee_weight, jnp.float32),
    )


def stretched(table: JobTable, rate: float) -> JobTable:
    """The table with arrivals ``rate`` times as frequent."""
    return table if rate == 1.0 else rescale_arrivals(table, 1.0 / rate)


def _search_stage(recipe: Recipe, search: Search, common: dict[str, Any]) -> TrainingSetup:
    env = replace(recipe.env, sampling="first", events_per_step=search.events_per_step)
    config = replace(search.learner, total_updates=search.loop.num_updates)
    if recipe.policy == "scored":
        learner = evolution(
            lambda key, specs: beginning(env, search.begins),
            lambda params, observation, mask: decide_scored(env, params, observation),
            config,
        )
    else:
        learner = evolution(
            partial(init_linear, order=search.order),
            lambda params, observation, mask: decide_linear(env, params, observation),
            config,
        )
    return TrainingSetup(**searching(env, learner, search.loop), **common)


def _imitation_stage(recipe: Recipe, imitation: Imitation, common: dict[str, Any]) -> TrainingSetup:
    agents = agents_of(recipe.policy, recipe.env, recipe.network, recipe.units)
    env = TaughtEnvironment(
        learning_env(recipe.policy, recipe.env, recipe.network),
        teacher_of(imitation.teacher, recipe.policy, recipe.env, recipe.network),
    )
    return TrainingSetup(
        name="imitation",
        env=env,
        learner=regression(agents, imitation.learner),
        loop=imitation.loop,
        gradient_steps=imitation.learner.gradient_steps,
        **common,
    )


def _mappo_stage(recipe: Recipe, common: dict[str, Any]) -> TrainingSetup:
    agents = agents_of(recipe.policy, recipe.env, recipe.network, recipe.units)
    critic: Critic = state_value(StateValue(recipe.env))
    if recipe.critic == "action":
        critic = action_value(ActionValue(), agents, critic_features)
    return TrainingSetup(
        name="mappo",
        env=learning_env(recipe.policy, recipe.env, recipe.network),
        learner=mappo(agents, critic, recipe.learner),
        loop=recipe.loop,
        gradient_steps=recipe.learner.gradient_steps,
        **common,
    )


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
    """What differs in the settings of MAPPO."""
    lines = []
    if recipe.loop != paper.loop:
        sizes = f"{recipe.loop.num_envs} environments x {recipe.loop.rollout_length} steps"
        lines.append(f"{recipe.loop.num_updates} updates of {sizes}")
    if recipe.critic != paper.critic:
        lines.append("critic of states")
    for words, names in (
        ("discount", ("gamma",)),
        ("GAE lambda", ("lambda_",)),
        ("learning rate", ("learning_rate", "final_learning_rate")),
        ("entropy weight", ("entropy_start", "entropy_end")),
        ("epochs", ("epochs",)),
    ):
        ours, theirs = ([getattr(r.learner, name) for name in names] for r in (recipe, paper))
        if ours != theirs:
            lines.append(f"{words} {' to '.join(f'{value:g}' for value in dict.fromkeys(ours))}")
    if recipe.learner.horizon_s is not None:
        lines.append(f"discount by time, horizon {recipe.learner.horizon_s:g} s")
    return lines
