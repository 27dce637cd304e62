"""How SCHED2 is trained: presets (specification, section 10) and what they build."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from jaxsched.algorithms.dqn import DQNConfig, dqn
from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.core.learner import Learner
from jaxsched.core.training import LoopConfig
from jaxsched.envs.sched2.environment import Params, Sched2
from jaxsched.envs.sched2.networks import PositionQNetwork, QNetwork
from jaxsched.envs.sched2.scoring import ScoringNetwork
from jaxsched.errors import JaxschedError
from jaxsched.jobs import JobTable, rescale_arrivals
from jaxsched.jobs.pieces import pieces
from jaxsched.networks.described import Described
from jaxsched.systems.parts import TraceSet
from jaxsched.types import Array, PRNGKey, PyTree

HORIZON_S = 7200.0  # time-based discount of the specification
NetworkKind = Literal["paper", "positions", "scoring", "linear"]
NETWORKS = get_args(NetworkKind)


@dataclass(frozen=True)
class Curriculum:
    """Lighter load at the start of training.

    Attributes:
      first_interval_scale: factor on the gaps between submissions at the start; 1 is no curriculum.
      fraction: part of the training after which the factor has come down to 1.
      stages: number of equal steps in which it comes down.
    """

    first_interval_scale: float = 1.0
    fraction: float = 0.5
    stages: int = 5

    @property
    def scales(self) -> tuple[float, ...]:
        """The factor of each stage, then 1."""
        if self.first_interval_scale == 1.0:
            return (1.0,)
        excess = self.first_interval_scale - 1.0
        steps = range(self.stages)
        return (*(round(1.0 + excess * (1.0 - i / self.stages), 6) for i in steps), 1.0)

    def stage(self, progress: float) -> int:
        """Index into ``scales`` at a training progress in [0, 1]."""
        last = len(self.scales) - 1
        return min(int(progress / self.fraction * last), last) if last else 0


@dataclass(frozen=True)
class Search:
    """Search over the parameters of the scoring network by whole episodes.

    Attributes:
      learner: settings of the search.
      delay_weight: of an hour by which a job's completion exceeds its ideal run time, against the
        effectiveness that it loses.
      episode_jobs: consecutive jobs of a table that make an episode; 0 takes tables as they are.
    """

    learner: EvolutionConfig = field(default_factory=EvolutionConfig)
    delay_weight: float = 0.0
    episode_jobs: int = 0


@dataclass(frozen=True)
class Recipe:
    """Everything that a training run of SCHED2 depends on besides its seed and job tables.

    Attributes:
      env: the environment that the agent learns in.
      loop: sizes of the loop.
      learner: settings of the DQN; its ``total_updates`` follows ``loop.num_updates``.
      curriculum: load over the training.
      network: ``paper``, ``positions`` (a variant that shares weights between the positions), or
        ``scoring`` (a small one that starts as ``strict_sif``, see ``scoring.py``; ``linear`` is
        that without hidden layers).
      search: search in place of the DQN; ``loop`` then has its sizes.
      traces: job tables that it learns from, is chosen on and is tested on.
      max_backlog: restart an episode once more jobs than this wait beyond the window; 0 never.
      void_bias: added to the log-odds of void when exploring; 0 explores uniformly.
      evaluate_every: updates between greedy evaluations on the training traces.
      checkpoint_every: updates between checkpoints of the whole run.
    """

    env: Sched2 = field(default_factory=lambda: Sched2(auto_advance=True, reward="dense"))
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(64, 8, 10_000))
    learner: DQNConfig = field(
        default_factory=lambda: DQNConfig(10_000, gradient_steps=4, n_step=3, horizon_s=HORIZON_S)
    )
    curriculum: Curriculum = field(default_factory=Curriculum)
    network: NetworkKind = "paper"
    search: Search | None = None
    traces: TraceSet = TraceSet("sched2-train-68", "sched2-test-68")
    max_backlog: int = 0
    void_bias: float = 0.0
    evaluate_every: int = 500
    checkpoint_every: int = 2000


def network_of(env: Sched2, kind: NetworkKind = "paper") -> Described:
    """A network for this cluster and window.

    Raises:
      JaxschedError: no such kind.
    """
    if kind == "paper":
        return QNetwork(env.num_servers, env.gpus_per_server, env.window + 1)
    if kind == "positions":
        return PositionQNetwork(env.num_servers, env.gpus_per_server, env.window)
    if kind in ("scoring", "linear"):
        if not env.outlook:
            raise JaxschedError(f"sched2: the network {kind!r} reads the outlook; set env.outlook")
        none: tuple[int, ...] = ()
        return ScoringNetwork(env.window, *((none, none) if kind == "linear" else ()))
    raise JaxschedError(f"sched2: unknown network {kind!r}; known are {', '.join(NETWORKS)}")


def learner_of(recipe: Recipe) -> Learner:
    """The DQN of a recipe."""
    network = network_of(recipe.env, recipe.network)
    config = replace(recipe.learner, total_updates=recipe.loop.num_updates)
    if recipe.void_bias == 0.0:
        return dqn(network, config)
    bias = recipe.void_bias

    def explore(key: PRNGKey, observation: PyTree, mask: Array) -> Array:
        del observation
        logits = jnp.where(mask, 0.0, -jnp.inf).at[..., -1].add(bias)
        return jax.random.categorical(key, logits).astype(jnp.int32)

    return dqn(network, config, explore)


def searcher_of(recipe: Recipe, search: Search) -> Learner:
    """The search of a recipe."""
    config = replace(search.learner, total_updates=recipe.loop.num_updates)
    return search_of(network_of(recipe.env, recipe.network), config)


def params_by_progress(recipe: Recipe, tables: Sequence[JobTable]) -> Callable[[float], Params]:
    """Function of the training progress that gives the environment's parameters.

    All loads of the curriculum are in one stack of tables; a stage only changes which of them the
    next resets draw, so episodes under way keep theirs.
    """
    curriculum = recipe.curriculum
    if recipe.search is not None and recipe.search.episode_jobs:
        length = recipe.search.episode_jobs
        tables = pieces(tables, length, every=length)
    stack = [rescale_arrivals(t, scale) for scale in curriculum.scales for t in tables]
    params = recipe.env.params(stack)
    if recipe.search is not None:
        params = params._replace(delay_weight=jnp.float32(recipe.search.delay_weight))
    if recipe.max_backlog:
        params = params._replace(max_backlog=jnp.int32(recipe.max_backlog))

    def params_at(progress: float) -> Params:
        first = curriculum.stage(progress) * len(tables)
        return params._replace(draw=jnp.array([first, len(tables)], jnp.int32))

    return params_at


def variants(recipe: Recipe) -> tuple[str, ...]:
    """What differs from the paper's own recipe, one line each."""
    lines = []
    if recipe.env.outlook:
        lines.append("extra features: outlook of each position")
    if recipe.env.extras:
        lines.append("extra features: level and effectiveness if started now, per position")
    if recipe.network in ("scoring", "linear"):
        lines.append(
            f"network that scores each position and starts as strict_sif: {recipe.network}"
        )
    if recipe.network == "positions":
        lines.append("network that shares weights between the positions")
    if recipe.env.reward == "dense":
        lines.append("dense reward (same undiscounted objective as the paper's)")
    if recipe.env.profile != "time":
        lines.append(f"profile entries: {recipe.env.profile}")
    lines += _dqn_variants(recipe) if recipe.search is None else _search_variants(recipe.search)
    if recipe.curriculum.first_interval_scale != 1.0:
        lines.append(
            f"load curriculum: interval scale {recipe.curriculum.first_interval_scale:g} to 1 over "
            f"the first {recipe.curriculum.fraction:.0%} of training"
        )
    if recipe.max_backlog:
        lines.append(f"episodes restart once {recipe.max_backlog} jobs wait beyond the window")
    return tuple(lines)


def _search_variants(search: Search) -> list[str]:
    lines = ["search over whole episodes in place of the DQN"]
    if search.delay_weight:
        lines.append(f"an hour of delay costs {search.delay_weight:g} effectiveness")
    return lines


def _dqn_variants(recipe: Recipe) -> list[str]:
    learner = recipe.learner
    lines = ["actions that cannot be carried out are masked (the paper has no mask)"]
    if learner.horizon_s is not None:
        lines.append(f"time-based discount, horizon {learner.horizon_s:g} s (the paper has none)")
    else:
        lines.append(f"discount {learner.gamma:g} per decision (the paper has none)")
    if learner.target_rate is not None:
        lines.append(f"target network follows by {learner.target_rate:g} per gradient step")
    if learner.n_step != 1:
        lines.append(f"{learner.n_step}-step targets")
    if recipe.void_bias:
        lines.append(f"exploration biased to void by {recipe.void_bias:g} (log-odds)")
    return lines
