"""A recipe for systems that bring none of their own: a deep Q-network with a small MLP."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxsched.algorithms.dqn import DQNConfig, dqn
from jaxsched.core.environment import Environment
from jaxsched.core.training import LoopConfig
from jaxsched.jobs import JobTable
from jaxsched.systems.parts import TrainingSetup

UPDATES = 2000


@dataclass(frozen=True)
class PlainRecipe:
    """Everything that a training run depends on besides its seed and job tables.

    Attributes:
      env: the environment that the agent learns in.
      loop: sizes of the loop.
      learner: settings of the DQN; its ``total_updates`` follows ``loop.num_updates``.
      network: widths of the hidden layers, as ``mlp-64-64``.
      evaluate_every: updates between greedy evaluations on the validation traces.
      checkpoint_every: updates between checkpoints of the whole run.
    """

    env: Environment
    loop: LoopConfig = LoopConfig(num_envs=64, rollout_length=8, num_updates=UPDATES)
    learner: DQNConfig = DQNConfig(
        UPDATES,
        gradient_steps=4,
        capacity=100_000,
        learning_starts=5000,
        learning_rate=1e-3,
        final_learning_rate=1e-4,
        gamma=0.95,
        target_rate=0.005,
    )
    network: str = "mlp-64-64"
    evaluate_every: int = 250
    checkpoint_every: int = 1000


def plain_stage(system: Any, recipe: PlainRecipe, tables: Sequence[JobTable]) -> TrainingSetup:
    """The one stage of a plain recipe.

    Args:
      system: the ``System``.
      recipe: the recipe.
      tables: what is learnt on.
    """
    params = system.params(recipe.env, tables)
    learner = replace(recipe.learner, total_updates=recipe.loop.num_updates)
    return TrainingSetup(
        name="dqn",
        env=recipe.env,
        play_env=recipe.env,
        learner=dqn(system.network(recipe.env, recipe.network), learner),
        loop=recipe.loop,
        params_at=lambda progress: params,
        policy=system.network_policy(recipe.env, recipe.network, "dqn", "greedy"),
        play="greedy",
        network=recipe.network,
        gradient_steps=learner.gradient_steps,
        evaluate_every=recipe.evaluate_every,
        checkpoint_every=recipe.checkpoint_every,
        variants=(),
    )
