"""Chic by imitation and whole-episode search: one policy for all arrival rates.

The paper's cross-entropy method draws trajectories and repeats the best; an iteration is as noisy
as the sequences it met. This recipe first learns to do as a rule does that sees the same window
(the best static allocation, ``search.py``), then moves all weights by whole episodes of all rates
(:mod:`jaxsched.algorithms.evolution`), each compared on the same sequences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxsched.algorithms.evolution import EvolutionConfig, search_of
from jaxsched.algorithms.imitation import ImitationConfig, imitation
from jaxsched.core.policies import Policy
from jaxsched.core.training import LoopConfig
from jaxsched.envs.chic.environment import Chic
from jaxsched.envs.chic.recipe import network_name, network_of
from jaxsched.jobs import JobTable
from jaxsched.systems.parts import TraceSet, TrainingSetup, always
from jaxsched.systems.search import searching
from jaxsched.wrappers.teacher import TaughtEnvironment

UPDATES = 400  # of the imitation
MEMBERS, EPISODES = 64, 16


@dataclass(frozen=True)
class SearchRecipe:
    """Everything that such a training run depends on besides its seed and job tables.

    Attributes:
      env: the environment; the search is for the least time in the system.
      traces: what is learnt on, chosen on and tested on.
      teacher: the heuristic that is imitated first.
      imitation: settings of the first stage; ``total_updates`` follows ``imitation_loop``.
      imitation_loop: its sizes.
      learner: settings of the search; ``total_updates`` follows ``loop``.
      loop: its sizes; a trajectory is at most ``rollout_length`` steps long.
      hidden: widths of the policy's hidden layers.
      evaluate_every: updates between evaluations on the validation traces.
      checkpoint_every: updates between checkpoints of a stage.
    """

    env: Chic = field(default_factory=Chic)
    traces: TraceSet = TraceSet("chic-mixed", "chic-mixed", "chic-mixed", 1000, 100, 100)
    teacher: str = "search"
    imitation: ImitationConfig = field(
        default_factory=lambda: ImitationConfig(
            UPDATES,
            gradient_steps=4,
            batch_size=1024,
            learning_rate=1e-3,
            final_learning_rate=1e-4,
        )
    )
    imitation_loop: LoopConfig = field(default_factory=lambda: LoopConfig(64, 64, UPDATES))
    learner: EvolutionConfig = field(
        default_factory=lambda: EvolutionConfig(
            MEMBERS,
            EPISODES,
            initial_std=0.03,
            follow="gradient",
            learning_rate=0.004,
            final_learning_rate=0.0005,
            averaging=0.9,
        )
    )
    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(
            MEMBERS * EPISODES, 1024, 100, num_random_streams=EPISODES
        )
    )
    hidden: tuple[int, ...] = (64, 64)
    evaluate_every: int = 20
    checkpoint_every: int = 100

    @property
    def loops(self) -> list[LoopConfig]:
        """Sizes of both stages."""
        return [self.imitation_loop, self.loop]


def search_stages(
    recipe: SearchRecipe, tables: Sequence[JobTable], teacher: Policy, policy: Policy
) -> list[TrainingSetup]:
    """The two stages of a recipe.

    Args:
      recipe: the recipe.
      tables: training episodes.
      teacher: the policy of ``recipe.teacher``.
      policy: of the network's weights.
    """
    params = recipe.env.params(tables, p1=0.0, p2=0.0)
    network = network_of(recipe.env, recipe.hidden)
    shown = replace(recipe.imitation, total_updates=recipe.imitation_loop.num_updates)
    config = replace(recipe.learner, total_updates=recipe.loop.num_updates)
    common: dict[str, Any] = dict(
        play_env=recipe.env,
        params_at=always(params),
        policy=policy,
        play="greedy",
        network=network_name(recipe.hidden),
        checkpoint_every=recipe.checkpoint_every,
        variants=search_variants(recipe),
    )
    return [
        TrainingSetup(
            name="imitation",
            env=TaughtEnvironment(recipe.env, teacher),
            learner=imitation(network, shown),
            loop=recipe.imitation_loop,
            gradient_steps=shown.gradient_steps,
            evaluate_every=recipe.imitation_loop.num_updates,
            **common,
        ),
        TrainingSetup(
            **searching(recipe.env, search_of(network, config), recipe.loop),
            evaluate_every=recipe.evaluate_every,
            **common,
        ),
    ]


def search_variants(recipe: SearchRecipe) -> tuple[str, ...]:
    """What differs from the paper's own recipe, one line each."""
    return (
        "pointless actions are masked",
        f"policy network of {network_name(recipe.hidden)[4:]}, without dropout",
        f"imitation of {recipe.teacher}, then search over whole episodes for the time in the "
        "system, in place of the cross-entropy method",
        "no penalties",
        "the tested policy takes the most likely action",
    )
