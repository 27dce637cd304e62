"""Named recipes of SCHED2.

What the settings that differ from the specification's list are for, as seen in trials on the
training traces: without a bound on the backlog the replay fills with overloaded clusters, whose
large costs drown the small differences between actions; n-step returns carry the exploring steps
along; with a long horizon those differences drown in the cost of arrivals that no action changes.
A short horizon loses little here: a split placement is charged when the job starts.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from jaxsched.algorithms.dqn import DQNConfig
from jaxsched.algorithms.evolution import EvolutionConfig
from jaxsched.core.training import LoopConfig
from jaxsched.envs.sched2.environment import Sched2
from jaxsched.systems.departures import Departures
from jaxsched.systems.parts import PresetInfo, TraceSet
from jaxsched.systems.recipe import Recipe, Stage
from jaxsched.types import Array, PRNGKey, PyTree

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
    """What differs in the learner; the paper tells neither mask nor discount of its own."""
    if isinstance(config, EvolutionConfig):
        return ("search over whole episodes in place of the DQN",)
    lines = ["actions that cannot be carried out are masked (the paper has no mask)"]
    if config.horizon_s is not None:
        lines.append(f"time-based discount, horizon {config.horizon_s:g} s (the paper has none)")
    else:
        lines.append(f"discount {config.gamma:g} per decision (the paper has none)")
    if config.target_rate is not None:
        lines.append(f"target network follows by {config.target_rate:g} per gradient step")
    if config.n_step != 1:
        lines.append(f"{config.n_step}-step targets")
    return tuple(lines)


_SCORES = "network that scores each position and starts as strict_sif: "
DEPARTURES = Departures(
    paper=last_stage(LITERAL, learner=None),
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
        "env.reward": {"dense": "dense reward (same undiscounted objective as the paper's)"},
        "env.profile": "profile entries: {}",
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
